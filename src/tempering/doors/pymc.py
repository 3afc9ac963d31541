"""A PyMC model as a target: its prior is the base, its likelihood (and its potentials) are tempered.

Positions are PyMC's own unconstrained value variables; the Jacobians of the transforms belong to the prior. The model's
graph is turned into JAX functions, drawing from the prior included; where an operation has no JAX form, PyTensor's own
compiled functions serve, on the scalar engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError, TargetError
from tempering.target import Target


def target_from_pymc(model: Any) -> Target:
    """Temper the likelihood of a PyMC model.

    Parameters
    ----------
    model : pymc.Model
        With continuous free variables and proper priors. Rows of data that are missing are left out of the likelihood
        where they are discrete, and are variables of their own where they are continuous.

    Returns
    -------
    Target
        Draws come back constrained, under the names of the model's variables, deterministic ones too.
    """
    _import_pymc()
    return _PyMCModel(model).target()


def _import_pymc() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # ArviZ, which PyMC imports, announces its successor
            import pymc
    except ImportError as error:
        raise InputError(
            "A PyMC model needs PyMC, but it is not installed. Run: pip install 'tempering[pymc]'."
        ) from error
    return pymc


def _import_jaxifier() -> Any:
    """Import PyMC's way to JAX, and set back the precision of the user's JAX, which that changes."""
    import jax

    before = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    from pymc.sampling.jax import get_jaxified_graph

    jax.config.update("jax_enable_x64", before)  # type: ignore[no-untyped-call]
    return get_jaxified_graph


class _PyMCModel:
    """The graph of a model, and the functions of an unconstrained position made from it."""

    def __init__(self, model: Any) -> None:
        self.model = model
        leaves = _idle_discrete(model)
        self.free = [rv for rv in model.free_RVs if rv not in leaves]
        self.shown = [*self.free, *(d for d in model.deterministics if not _depends(d, leaves))]
        _check(self.free, model.rvs_to_transforms)
        self.names = [model.rvs_to_values[rv].name for rv in self.free]
        self.inputs = [model.rvs_to_values[rv] for rv in self.free]

    def target(self) -> Target:
        log_prior = _sum(self.model.logp(vars=self.free, jacobian=True, sum=False))
        kept = [*self.model.observed_RVs, *self.model.potentials]
        log_likelihood = _sum(self.model.logp(vars=kept, jacobian=True, sum=False))
        shown = self.model.replace_rvs_by_values(self.shown)
        try:
            return self._jax_target(log_likelihood, log_prior, shown)
        except (NotImplementedError, TypeError, IndexError, ValueError):  # a graph that JAX cannot trace
            return self._compiled_target(log_likelihood, log_prior, shown)

    def _jax_target(self, log_likelihood: Any, log_prior: Any, shown: Sequence[Any]) -> Target:
        import jax

        get_jaxified_graph = _import_jaxifier()
        energy = _on_positions(self.names, get_jaxified_graph(self.inputs, [log_likelihood]))
        base = _on_positions(self.names, get_jaxified_graph(self.inputs, [log_prior]))
        rngs, drawn = self._prior_graph()
        draw = get_jaxified_graph(rngs, drawn)

        def sample_prior(key: Any) -> dict[str, Any]:
            states = [{"jax_state": jax.random.fold_in(key, i)} for i in range(len(rngs))]
            return dict(zip(self.names, draw(*states), strict=True))

        with jax.enable_x64(True):
            position = jax.eval_shape(sample_prior, jax.random.key(0))
            for function in (energy, base):
                jax.eval_shape(function, position)
        constrain = _Constrain([v.name for v in self.shown], self.names, get_jaxified_graph(self.inputs, list(shown)))
        return Target.from_likelihood(energy, base, sample_prior, constrain=constrain.by_jax)

    def _compiled_target(self, log_likelihood: Any, log_prior: Any, shown: Sequence[Any]) -> Target:
        import pytensor

        def compiled(outputs: list[Any]) -> Callable[..., list[Any]]:
            return self.model.compile_fn(outputs, inputs=self.inputs, point_fn=False)  # type: ignore[no-any-return]

        rngs, drawn = self._prior_graph()
        draw = pytensor.function(rngs, drawn, on_unused_input="ignore")

        def sample_prior(rng: np.random.Generator) -> dict[str, Any]:
            return dict(zip(self.names, draw(*rng.spawn(len(rngs))), strict=True))

        constrain = _Constrain([v.name for v in self.shown], self.names, compiled(list(shown)))
        return Target.from_likelihood(
            _on_positions(self.names, compiled([log_likelihood])),
            _on_positions(self.names, compiled([log_prior])),
            sample_prior,
            constrain=constrain.one_by_one,
        )

    def _prior_graph(self) -> tuple[list[Any], list[Any]]:
        """Return the random generators of a draw from the prior, as inputs, and the unconstrained values drawn."""
        from pytensor.graph.replace import clone_replace
        from pytensor.graph.traversal import ancestors
        from pytensor.tensor.random.type import RandomType

        drawn = []
        for rv in self.free:
            transform = self.model.rvs_to_transforms[rv]
            drawn.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
        shared = [v for v in ancestors(drawn) if v.owner is None and isinstance(v.type, RandomType)]
        rngs = [v.type(name=f"rng_{i}") for i, v in enumerate(shared)]
        return rngs, clone_replace(drawn, dict(zip(shared, rngs, strict=True)))


class _Constrain:
    """Turn unconstrained positions, leading axes (chain, draw), into the values a user sees."""

    def __init__(self, shown: list[str], names: list[str], function: Callable[..., Any]) -> None:
        self.shown, self.names, self.function = shown, names, function

    def by_jax(self, positions: dict[str, Any]) -> dict[str, NDArray[Any]]:
        import jax

        lead, flat = self._flat(positions)
        with jax.enable_x64(True):
            values = jax.jit(jax.vmap(lambda *args: tuple(self.function(*args))))(*flat)
        return {name: np.asarray(a).reshape(*lead, *a.shape[1:]) for name, a in zip(self.shown, values, strict=True)}

    def one_by_one(self, positions: dict[str, Any]) -> dict[str, NDArray[Any]]:
        lead, flat = self._flat(positions)
        rows = [self.function(*row) for row in zip(*flat, strict=True)]
        stacked = [np.stack(column) for column in zip(*rows, strict=True)]
        return {name: a.reshape(*lead, *a.shape[1:]) for name, a in zip(self.shown, stacked, strict=True)}

    def _flat(self, positions: dict[str, Any]) -> tuple[tuple[int, int], list[NDArray[Any]]]:
        arrays = [np.asarray(positions[name]) for name in self.names]
        lead = arrays[0].shape[:2]
        return lead, [a.reshape(lead[0] * lead[1], *a.shape[2:]) for a in arrays]


def _on_positions(names: list[str], function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda position: function(*(position[name] for name in names))[0]


def _sum(terms: list[Any]) -> Any:
    import pytensor.tensor as pt

    return pt.sum([term.sum() for term in terms]) if terms else pt.constant(0.0)


def _idle_discrete(model: Any) -> list[Any]:
    """Return discrete free variables that nothing else depends on, as missing counts are: their sum is one."""
    others = [*model.basic_RVs, *model.potentials]
    discrete = [rv for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]
    return [rv for rv in discrete if not any(_depends(other, [rv]) for other in others if other is not rv)]


def _depends(variable: Any, on: list[Any]) -> bool:
    from pytensor.graph.traversal import ancestors

    return bool(on) and any(ancestor in on for ancestor in ancestors([variable]))


def _check(free: list[Any], transforms: Mapping[Any, Any]) -> None:
    if not free:
        raise TargetError(
            "A model must have at least one free variable, but all of this one's are observed. "
            "Leave one without observed=."
        )
    for rv in free:
        if rv.dtype.startswith(("int", "uint", "bool")):
            raise TargetError(
                f"Free variables must be continuous, but {rv.name!r} is discrete. Sum it out: pymc.Mixture does for "
                "mixtures."
            )
        if "ordered" in str(getattr(transforms[rv], "name", "")):
            raise TargetError(
                f"Every prior must integrate to one, but that of {rv.name!r} is cut to ordered values. Leave "
                "transform=ordered out: tempering visits every labelling; sort the draws afterwards."
            )
        if rv.owner.op.name in ("flat", "half_flat"):
            raise TargetError(
                f"Every free variable must have a proper prior, but {rv.name!r} has a flat one, so that k = 0 is no "
                "distribution. Give it a proper prior, however wide."
            )
