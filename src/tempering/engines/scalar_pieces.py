"""What the scalar engine's loops are made of: a target with a kernel, or a user's model, compiled where it can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.functions import bind, compiled, is_numba
from tempering.engines import loops
from tempering.engines.answers import kept
from tempering.engines.stopping import IsStopped
from tempering.engines.trace import Model, Schedule
from tempering.errors import NotANumberError, TargetError
from tempering.kernels.composite import AnyKernel, leaves, scalar_move, scalar_settings
from tempering.kernels.kernel import Function, trait
from tempering.kernels.scalar import evaluate
from tempering.path import Path
from tempering.path.stacked import stacked_references
from tempering.target import Target
from tempering.target.gradients import WithGradient, gradient_of
from tempering.target.layout import Layout
from tempering.target.starting import check_value

NAMES = ("energy", "base")  # by which answers of long calls are kept


@dataclass(frozen=True)
class Pieces:
    """What the loops need of a target with a kernel, or of a user's model."""

    functions: tuple[Any, Any, Any]
    bindings: dict[str, Callable[..., Any]]
    is_compiled: bool
    n_leaves: int
    width: int  # numbers recorded a draw
    new_particle: Callable[[int, np.random.Generator, Path], Any]
    stack: Callable[[list[Any]], Any]
    settings: Callable[[Schedule], Any]
    positions: Callable[[NDArray[np.float64]], Any]
    allocates: bool = True  # whether a move makes arrays
    looked_at: Callable[[IsStopped], tuple[Any, Any, Any]] | None = None  # the functions, compiled, where they are slow
    run: str = ""  # as which answers of long calls are kept
    pack: Callable[[Any], Any] | None = None  # makes of stacked particles what a compiled loop is handed
    example: object = None  # a state of a user's model


def quiet() -> np.errstate:
    """Let a user's density overflow or divide by zero without a warning: what comes out is looked at."""
    return np.errstate(invalid="ignore", divide="ignore", over="ignore")


def raise_not_finite(position: object) -> None:
    """Say that the log density is not a number (or infinite) at a position."""
    raise NotANumberError(
        "The log density must be a number, or -inf outside the support, but it is NaN or +inf at "
        f"{position}. Return -inf where the density is zero, and look for 0 * inf, inf - inf or logs of "
        "negative numbers there.",
        position,
    )


def target_pieces(
    target: Target, kernel: AnyKernel, layout: Layout, starts: Sequence[Any], *, has_references: bool = False,
    run: str = "",
) -> Pieces:  # fmt: skip
    """Make the pieces for a log density and a kernel, on a path some of whose terms may be references.

    What long calls answer is kept as that of a ``run``, if one is named.
    """
    base, energy, is_compiled = _densities(target, layout)
    if not is_compiled:
        energy, base = (kept(function, run, name) for function, name in zip((energy, base), NAMES, strict=True))
    own = (energy,) if target.base is None else (energy, base)
    if is_compiled and run:
        _compile(own)  # or the first call would take long
    _check_gradients(kernel, own)
    redraw, move = _redraw(target, layout, is_compiled), scalar_move(kernel)
    redraws = redraw is not None or has_references
    functions = (energy, base, 0 if redraw is None else redraw)
    new_particle = _starting(own, target, layout, starts, run)

    def stack(particles: list[Any]) -> Any:
        return tuple(np.stack(parts) for parts in zip(*particles, strict=True))

    draws_base = loops.draw_no_base if redraw is None else loops.draw_base_by_function
    bindings = {
        "move": bind(loops.redraw_or_move, local_move=move, draw_base=draws_base) if redraws else move,
        "write_terms": loops.write_terms_of_particle,
        "write": loops.write_particle,
        "particle_of": loops.particle_of_arrays,
        "put_particle": loops.put_nothing,
    }

    def looked_at(is_stopped: IsStopped) -> Any:
        from tempering.engines.compiled_answers import looked_at

        slow = [looked_at(f, run, name, is_stopped) for f, name in zip(own, NAMES, strict=False)]
        return (*slow, *functions[len(slow) :])

    return Pieces(
        functions, bindings, is_compiled, len(leaves(kernel)), layout.size, new_particle, stack,
        partial(_settings, kernel, redraws), layout.named,
        redraw is not None or any(trait(leaf, "allocates") for leaf in leaves(kernel)),
        looked_at if is_compiled else None, run,
    )  # fmt: skip


def _starting(
    own: Sequence[Function], target: Target, layout: Layout, starts: Sequence[Any], run: str
) -> Callable[[int, np.random.Generator, Path], Any]:
    """Return a function that puts a chain at its starting point."""

    def new_particle(index: int, rng: np.random.Generator, path: Path) -> Any:
        x = starting_point(target, layout, starts, index, rng)
        here = np.zeros(path.target_coefficients.size + 1)
        with quiet():
            found = [kept(function, run, name)(x) for function, name in zip(own, NAMES, strict=False)]
            for value in found:
                check_value(value, layout.unflatten(x))
            known: Any = [lambda _, value=value: value for value in (*found, 0.0)]  # nobody calls twice what takes long
            evaluate((known[0], known[1], 0, stacked_references(path.references, layout.size)), x, here)
        if np.any(here == -np.inf):
            check_start(layout.unflatten(x), is_number=here[-1] == 0.0)
        return x, x.copy(), here, here.copy()

    return new_particle


def _compile(functions: Sequence[Any]) -> None:
    import numba

    for function in functions:
        if not function.signatures:
            with suppress(Exception):  # it will be told by the first call, with the position
                function.compile((numba.float64[::1],))


def _settings(kernel: AnyKernel, redraws: bool, schedule: Schedule) -> Any:
    """Return what a move is called with; where something can be drawn from, how often to do so and what lead."""
    local = scalar_settings(kernel, schedule.settings)
    fresh = schedule.settings[0].fresh
    if not redraws:
        return local
    return (np.zeros(len(schedule.path)) if fresh is None else fresh, schedule.path.sources.astype(np.int64), local)


def _redraw(target: Target, layout: Layout, is_compiled: bool) -> Any:
    """Return how to draw a flat vector from the base; None where the loop cannot do it."""
    draw = target.sample_base
    if draw is None or not _can_call(draw, layout, is_compiled):
        return None
    return draw if is_compiled else lambda rng: layout.flatten(draw(rng))


def _can_call(draw: Callable[..., Any], layout: Layout, is_compiled: bool) -> bool:
    return not is_compiled or (is_numba(draw) and layout.is_vector)


def can_draw_base(target: Target, layout: Layout) -> bool:
    """Whether the loops can draw from the base: compiled ones call only what is compiled."""
    return target.sample_base is not None and _can_call(target.sample_base, layout, _is_compiled(target, layout))


def starting_point(
    target: Target, layout: Layout, starts: Sequence[Any], index: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the flat starting point of a chain: the user's, in turn, or one drawn from the prior."""
    if starts:
        return layout.flatten(starts[index % len(starts)])
    assert target.sample_base is not None
    return layout.flatten(target.sample_base(rng))


def check_start(position: object, *, is_number: bool) -> None:
    """Refuse to start outside the support or where the density is not a number."""
    if not is_number:
        raise_not_finite(position)
    raise TargetError(
        f"A chain must start inside the support, but the log density is -inf at {position}. "
        "Pass another initial position, or sample_prior=... to start from the prior."
    )


def model_pieces(model: Model, example: object) -> Pieces:
    """Make the pieces for a user's model object.

    Compiled loops have coupled chains in one of Numba's lists, or as the model packs them for a call.
    """
    is_compiled = all(is_numba(f) for f in (model.step, model.energy, model.record))
    functions = (_step_or_redraw(model, is_compiled), model.energy, model.record)
    pack, item_of = getattr(model, "packed", (None, loops.item_of)) if is_compiled else (None, loops.item_of)

    def stack(states: list[Any]) -> Any:
        return _typed_list(states) if is_compiled and pack is None else states

    recorded = model.record(example)
    bindings: dict[str, Callable[..., Any]] = {
        "move": loops.step_model,
        "write_terms": loops.write_terms_of_model,
        "write": loops.write_model_of_vectors if is_compiled and np.ndim(recorded) == 1 else loops.write_model,
        "particle_of": item_of,
        "put_particle": loops.put_item if pack is None else loops.put_nothing,
    }
    return Pieces(
        functions, bindings, is_compiled, 1, np.size(recorded), lambda _, rng, path: model.initial(rng), stack,
        lambda schedule: 0, positions_of(model), pack=pack, example=example,
    )  # fmt: skip


def _typed_list(states: list[Any]) -> Any:
    """Return a list that compiled loops read; made by functions kept on disk, where Numba's own are compiled anew."""
    from numba.typed import List

    found = compiled(bind(loops.listed, List=List))(states[0])
    append = compiled(loops.put_at_end)
    for state in states[1:]:
        append(found, state)
    return found


def positions_of(model: Model) -> Callable[[NDArray[np.float64]], dict[str, Any]]:
    """Return how the values that a model records are named."""
    names = getattr(model, "names", None)
    return lambda values: {"x": values} if names is None else {name: values[..., i] for i, name in enumerate(names)}


def _step_or_redraw(model: Model, is_compiled: bool) -> Any:
    """Return the model's step, with exact draws of its reference at k = 0 where it offers them."""
    step, redraw = model.step, getattr(model, "sample_reference", None)
    if redraw is None or (is_compiled and not is_numba(redraw)):
        return step

    return _joined(step, redraw, is_compiled)


@cache  # compiled once for all the engines of a model
def _joined(step: Callable[..., Any], redraw: Callable[..., Any], is_compiled: bool) -> Any:
    def step_or_redraw(rng: np.random.Generator, state: object, k: float) -> Any:
        if k == 0.0:
            return redraw(rng)
        return step(rng, state, k)

    if not is_compiled:
        return step_or_redraw
    import numba

    return numba.njit(step_or_redraw)


def _densities(target: Target, layout: Layout) -> tuple[Any, Any, bool]:
    """Return (base, energy) of flat vectors, compiled when all the target's functions are."""
    if _is_compiled(target, layout):
        wrap = _compiled_on_flat(layout)
        base = compiled_zero() if target.base is None else wrap(target.base)
        return base, wrap(target.energy), True
    base_or_zero = target.base if target.base is not None else WithGradient(_zero, _flat_zero)
    return layout.on_flat(base_or_zero), layout.on_flat(target.energy), False


def _is_compiled(target: Target, layout: Layout) -> bool:
    given = [f for f in (target.base, target.energy) if f is not None]
    return all(is_numba(f) for f in given) and _is_one_array(layout)


def _is_one_array(layout: Layout) -> bool:
    return layout.names == ("x",) and len(layout.shapes[0]) <= 1


def _compiled_on_flat(layout: Layout) -> Callable[[Any], Any]:
    if layout.is_vector:
        return lambda function: function
    return _of_number


@cache
def _of_number(function: Callable[..., Any]) -> Any:
    import numba

    return numba.njit(lambda flat: function(flat[0]))


def _zero(x: object) -> float:
    return 0.0


def _flat_zero(x: object) -> tuple[float, Any]:
    import jax

    return 0.0, jax.tree.map(np.zeros_like, x)


def _check_gradients(kernel: AnyKernel, functions: Sequence[Any]) -> None:
    """Refuse a kernel that follows gradients where the target brings none."""
    hungry = [leaf for leaf in leaves(kernel) if trait(leaf, "needs_gradient")]
    if hungry and any(gradient_of(function) is None for function in functions):
        raise TargetError(
            f"{hungry[0]!r} needs the gradient of the log density, but this target runs on the scalar engine and "
            "brings none. Pass an object with log_density and log_density_gradient, write the density with jax.numpy, "
            "or take tempering.kernels.RandomWalk or Slice."
        )


def compiled_zero() -> Any:
    """Return the compiled base of a powered-up density."""
    import numba

    return compiled(_zero, (numba.float64[::1],))
