"""Fill in what a user left open: the engine, the kernel, the number of chains, where they start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import SamplerError, TargetError
from tempering.kernels.composite import checked, leaves
from tempering.kernels.hamiltonian import Hamiltonian
from tempering.kernels.random_walk import RandomWalk
from tempering.learning.pseudo_prior import check_method
from tempering.path import Ladder, Leg, Path
from tempering.randomness import seed_of
from tempering.runs.starts import draw_from_base, inside_or_prior, with_reference
from tempering.target import Target
from tempering.target.checks import check_target
from tempering.target.gradients import gradient_of
from tempering.target.layout import Layout
from tempering.target.starting import starting_points

RUNG_MOVES = {
    "simulated": ("lifted", "neighbour"),
    "parallel": ("non_reversible", "even_odd", "random"),
    "sequential": ("none",),
}
CHAINS = {
    "vector": {"simulated": 32, "parallel": 4, "sequential": 8},
    "scalar": {"simulated": 8, "parallel": 2, "sequential": 8},
}
GRADIENTS_FROM = 5  # dimensions: below, a random walk is as good at a fifth of the cost
LEAPFROG_STEPS = 4


PATHS = ("two_legs", "powers", "prior", "reference")


@dataclass(frozen=True)
class Plan:
    """What a run is made of, once every default has been filled in."""

    target: Any
    layout: Layout | None  # None: a model object, which records what it likes
    kernel: Any
    ladder: Ladder | None  # None: to be tuned
    path: str  # one of `PATHS`; "reference": the target has one at k = 0
    method: str
    rung_moves: str
    engine: str
    n_chains: int
    seed: int
    starts: tuple[Any, ...]  # empty: drawn from the prior
    example: Any = None  # a position, for its shape
    keep_rounds: bool = False  # whether the draws of the tuning rounds are kept
    execution: Any = None  # by whom it is carried out: `tempering.execution.context.Execution`

    @property
    def leaves(self) -> tuple[Any, ...]:
        """The simple kernels that are tuned."""
        return leaves(self.kernel) if self.kernel is not None else ()

    @property
    def in_words(self) -> str:
        """One line about method, engine, chains and kernel."""
        what = self.kernel if self.kernel is not None else type(self.target).__name__
        return f"{self.method} on the {self.engine} engine, {self.n_chains} chains, {what!r}"

    @property
    def is_powered(self) -> bool:
        """Whether the whole density is raised to powers on one leg."""
        return isinstance(self.target, Target) and self.path == "powers"

    @property
    def has_base(self) -> bool:
        """Whether one leg can reach k = 0: a base under a likelihood, or a model that can sample its reference."""
        if isinstance(self.target, Target):
            return self.path in ("prior", "reference")
        return callable(getattr(self.target, "sample_reference", None))

    @property
    def can_redraw(self) -> bool:
        """Whether the base can be drawn from exactly, so that runs split into tours."""
        if not isinstance(self.target, Target):
            return self.has_base
        if self.engine == "scalar":
            from tempering.engines.scalar_pieces import can_draw_base

            assert self.layout is not None
            return can_draw_base(self.target, self.layout)
        return self.target.sample_base is not None

    def path_of(self, ladder: Ladder) -> Path:
        """Return the path of one leg with a ladder."""
        if not isinstance(self.target, Target) or self.target.base is None:
            return Path.powers(ladder)
        if self.path == "powers":
            return Path([1.0, 1.0], [Leg("powers", np.zeros(2), ladder)], ("log likelihood", "log prior"))
        return Path.from_base(ladder, can_draw=self.can_redraw)


def make_plan(
    target: Any,
    *,
    initial: Any,
    ladder: Ladder | Sequence[float] | None,
    path: Any,
    method: str,
    kernel: Any,
    chains: int | None,
    rng: np.random.Generator | int | None,
    engine: str,
    rung_moves: str | None,
    keep: str,
) -> Plan:
    """Check the arguments of `tempering.sample` and fill in the defaults."""
    moves = _rung_moves(method, rung_moves)
    steps = ladder if isinstance(ladder, Ladder) or ladder is None else Ladder(ladder)
    seed = seed_of(rng)
    if not isinstance(target, Target):
        _check_model(target)
        name = _engine_of_model(target, engine)
        n_chains = chains if chains is not None else CHAINS[name][method]
        return Plan(target, None, None, steps, "powers", method, moves, name, n_chains, seed, ())
    starts = starting_points(initial, target)
    check_target(target, starts)
    example = starts[0] if starts else draw_from_base(target, seed)
    layout = Layout.of(example)
    starts = inside_or_prior(target, layout, starts)
    given = path
    path = _path_named(path, target, has_ladder=steps is not None, keep=keep)
    if path == "reference":
        target, path = with_reference(target, given, layout, starts or (example,), seed)
    if steps is not None:
        target.check_ladder(steps)
    name = _engine_of_target(target, layout, example, engine)
    kernel = checked(kernel) if kernel is not None else default_kernel(target, layout, example, name)
    if path == "two_legs" and any(getattr(leaf, "checks_base", False) for leaf in leaves(kernel)):
        path = "prior"  # a kernel made for one prior can only be run along it
    n_chains = chains if chains is not None else CHAINS[name][method]
    return Plan(target, layout, kernel, steps, path, method, moves, name, n_chains, seed, starts, example)


def _path_named(path: Any, target: Target, *, has_ladder: bool, keep: str) -> str:
    """Return which path is meant; by default two legs where the ladder is ours to choose, else the target's own."""
    own = "powers" if target.base is None else "prior"
    if path is None:
        return own if has_ladder or keep == "sums" else "two_legs"
    if not isinstance(path, str):
        return "reference"
    if path not in PATHS:
        raise SamplerError(f"path must be one of {PATHS}, or an object with log_density and sample, but got {path!r}.")
    if path == "prior" and target.base is None:
        raise SamplerError(
            "path='prior' needs a prior, but this target is one log density. Write Target.from_likelihood, or leave "
            "path out."
        )
    if path == "two_legs" and (has_ladder or keep == "sums"):
        raise SamplerError(
            "path='two_legs' chooses its own ladders and keeps draws, but a ladder or keep='sums' was given. Leave "
            "path out, or leave those out."
        )
    return path


def default_kernel(target: Target, layout: Layout, example: Any, engine: str) -> Any:
    """Return a random walk, or Hamiltonian moves where there are gradients and enough dimensions to need them."""
    if layout.size < GRADIENTS_FROM:
        return RandomWalk()
    if engine == "scalar":
        functions = [f for f in (target.base, target.energy) if f is not None]
        return Hamiltonian() if all(gradient_of(f) for f in functions) else RandomWalk()
    return Hamiltonian(LEAPFROG_STEPS) if _has_gradient(target, layout, example) else RandomWalk()


def calls_of_a_move(kernel: Any) -> int:
    """Return how many evaluations of the density, with or without a gradient, a move of a kernel takes."""
    return kernel.n_steps + 2 if isinstance(kernel, Hamiltonian) else 1


def _has_gradient(target: Target, layout: Layout, example: Any) -> bool:
    import jax
    import jax.numpy as jnp

    x = layout.flatten(example)
    functions = [layout.on_flat(f) for f in (target.base, target.energy) if f is not None]
    try:
        with jax.enable_x64(True):
            for function in functions:
                jax.eval_shape(jax.grad(function), jnp.asarray(x))
    except Exception:  # a function that JAX traces but cannot differentiate, for whatever reason of its own
        return False
    return True


def first_log_pseudo_prior(pseudo_prior: str | NDArray[np.float64], ladder: Ladder) -> NDArray[np.float64]:
    """Return the user's log pseudo-prior, or a flat one to be learnt from."""
    if isinstance(pseudo_prior, str):
        check_method(pseudo_prior)
        return np.zeros(len(ladder))
    log_p = np.array(pseudo_prior, dtype=float)
    if log_p.shape != (len(ladder),) or not np.all(np.isfinite(log_p)):
        raise SamplerError(
            f"pseudo_prior must hold one finite log value for each of the {len(ladder)} rungs, but has shape "
            f"{log_p.shape}. "
            "Pass logs, or leave it out to have it learnt."
        )
    return log_p


def check_counts(**counts: int | None) -> None:
    """Refuse numbers of draws or chains that are not whole and positive; tuning may be left out."""
    for name, count in counts.items():
        least = 0 if name == "tune" else 1
        is_whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if count is not None and not (is_whole and count >= least):
            raise SamplerError(
                f"{name} must be a whole number of at least {least}, but got {count!r}. Leave it out for the default."
            )


def _rung_moves(method: str, rung_moves: str | None) -> str:
    if method not in RUNG_MOVES:
        raise SamplerError(f"method must be one of {sorted(RUNG_MOVES)}, but got {method!r}.")
    moves = rung_moves if rung_moves is not None else RUNG_MOVES[method][0]
    if moves not in RUNG_MOVES[method]:
        raise SamplerError(
            f"rung_moves of the method {method!r} must be one of {RUNG_MOVES[method]}, but got {moves!r}."
        )
    return moves


def _engine_of_target(target: Target, layout: Layout, position: Any, engine: str) -> str:
    from tempering.engines.scalar_pieces import is_numba

    _check_engine(engine)
    if engine != "auto":
        return engine
    if is_numba(target.energy):
        return "scalar"
    from tempering.engines.vector import traces

    return "vector" if traces(target, layout, position) else "scalar"


def _engine_of_model(model: Any, engine: str) -> str:
    """Take the engine a model names, or the one its step can run on."""
    _check_engine(engine)
    if engine != "auto":
        return engine
    if getattr(model, "engine", None) in CHAINS:
        return str(model.engine)
    from tempering.engines.scalar_pieces import is_numba

    if is_numba(model.step):
        return "scalar"
    import jax

    try:
        with jax.enable_x64(True):
            key = jax.random.key(0)
            jax.eval_shape(model.step, key, jax.eval_shape(model.initial, key), 1.0)
    except Exception:  # a model in plain Python may fail in any way of its own
        return "scalar"
    return "vector"


def _check_engine(engine: str) -> None:
    if engine not in ("auto", *CHAINS):
        raise SamplerError(f"engine must be 'auto', 'vector' or 'scalar', but got {engine!r}.")


def _check_model(model: Any) -> None:
    if isinstance(model, type):
        raise TargetError(
            f"A target is a tempering.Target or a model object, but got the class {model.__name__}. Make one of it: "
            f"{model.__name__}(...)."
        )
    missing = [name for name in ("initial", "step", "energy", "record") if not callable(getattr(model, name, None))]
    if missing:
        raise TargetError(
            f"A target is a tempering.Target or a model with initial, step, energy and record, but "
            f"{type(model).__name__} has no {missing[0]}. Wrap a log density: Target(log_density)."
        )
