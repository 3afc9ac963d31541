"""A PyMC model as a target: its prior is the base, its likelihood (and its potentials) are tempered.

Positions are PyMC's own unconstrained value variables; the Jacobians of the transforms belong to the prior. The model's
graph is turned into JAX functions, drawing from the prior included; where an operation has no JAX form, PyTensor's own
compiled functions serve, on the scalar engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tempering.doors.pymc_variables import (
    check_data,
    check_variables,
    depends,
    idle_discrete,
    in_order,
    is_lkj_cholesky,
    log_density_of_lkj,
    order_of,
    with_angles_cut_open,
)
from tempering.errors import TargetError
from tempering.requirements import imported
from tempering.target import Target
from tempering.target.batched import draw_by_generator


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
        Draws come back constrained, under the names of the model's variables, deterministic ones too. ``initial`` takes
        the model's own values, some or all of them.
    """
    pymc = _import_pymc()
    if not isinstance(model, pymc.Model):
        raise TargetError(
            f"A PyMC model is made by `with pymc.Model() as model`, but got {type(model).__name__}. Pass that model."
        )
    return PyMCModel(model).target()


def sample(model: Any, *, predictive: bool = True, **options: Any) -> Any:
    """Sample a PyMC model and return what ArviZ takes.

    Parameters
    ----------
    model : pymc.Model
    predictive : bool
        Draw from the prior, and new data for the resampled draws.
    **options
        Those of `tempering.sample`.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        Whichever the installed ArviZ takes. ``posterior`` holds draws of equal weight, resampled from those of all
        rungs; with them ``sample_stats``, ``log_likelihood`` (for LOO and WAIC), ``posterior_predictive``, ``prior``,
        ``prior_predictive`` and ``observed_data``; in ``tempered`` every draw with its weight. The log evidence and its
        error are attributes.
    """
    from tempering.doors.arviz import to_arviz
    from tempering.sampling.sample import sample as sample_target

    target = target_from_pymc(model)
    return to_arviz(sample_target(target, **options), model=target.model, predictive=predictive)


def _import_pymc() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ, which PyMC imports, announces its successor
        return imported("pymc", what="A PyMC model", install="tempering[pymc]")


@contextmanager
def _without_advice() -> Iterator[None]:
    """Compile by PyTensor without its advice on how it should have been installed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
        yield


def _import_jaxifier() -> Any:
    """Import PyMC's way to JAX, and set back the precision of the user's JAX, which that changes."""
    before = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    from pymc.sampling.jax import get_jaxified_graph

    jax.config.update("jax_enable_x64", before)  # type: ignore[no-untyped-call]
    return get_jaxified_graph


def _outside_of_support(graphs: list[Any]) -> list[Any]:
    """Return densities that are zero where a parameter is out of bounds, as PyMC's own compiled ones are.

    On the way to JAX its checks are dropped, and a covariance that is not positive definite to rounding gives NaN.
    """
    from pymc.logprob.utils import local_check_parameter_to_ninf_switch
    from pytensor.graph.rewriting.basic import in2out
    from pytensor.graph.rewriting.utils import rewrite_graph

    return list(rewrite_graph(graphs, include=(), custom_rewrite=in2out(local_check_parameter_to_ninf_switch)))


class PyMCModel:
    """The graph of a model, and the functions of an unconstrained position made from it."""

    def __init__(self, model: Any) -> None:
        self.model = model = with_angles_cut_open(model)
        leaves = idle_discrete(model)
        self.free = [rv for rv in model.free_RVs if rv not in leaves]
        self.shown = [*self.free, *(d for d in model.deterministics if not depends(d, leaves))]
        check_variables(self.free, model.rvs_to_transforms)
        check_data(model)
        self.names = [model.rvs_to_values[rv].name for rv in self.free]
        self.inputs = [model.rvs_to_values[rv] for rv in self.free]
        self.dims = {name: tuple(map(str, d)) for name, d in model.named_vars_to_dims.items() if None not in d}
        self.coords = {name: np.asarray(c) for name, c in model.coords.items() if c is not None}

    def target(self) -> Target:
        """Return the target, which knows this model."""
        made = self._target()
        self.sample_prior, self.constrain = made.sample_base, made.constrain
        return made.with_model(self, self.unconstrain)

    def _target(self) -> Target:
        log_prior = self._log_prior()
        kept = [*self.model.observed_RVs, *self.model.potentials]
        log_likelihood = _sum(self.model.logp(vars=kept, jacobian=True, sum=False))
        shown = self.model.replace_rvs_by_values(self.shown)
        try:
            return self._jax_target(log_likelihood, log_prior, shown)
        except Exception:  # a graph that JAX cannot trace, whatever it says
            return self._compiled_target(log_likelihood, log_prior, shown)

    def _log_prior(self) -> Any:
        """Return the log density of all free variables, which integrates to one.

        Of n exchangeable values in order PyMC keeps one order of n!.
        """
        ours = [rv for rv in self.free if is_lkj_cholesky(rv)]
        theirs = [rv for rv in self.free if rv not in ours]
        terms = [log_density_of_lkj(self.model, rv) for rv in ours]
        if theirs:
            terms += self.model.logp(vars=theirs, jacobian=True, sum=False)
        log_orders = 0.0
        for rv in self.free:
            if self._order(rv) is not None:
                copies = float(np.prod(rv.shape[:-1].eval())) if rv.ndim > 1 else 1.0
                log_orders += copies * float(gammaln(int(rv.shape[-1].eval()) + 1))
        return _sum(terms) + log_orders

    def _order(self, rv: Any) -> Any:
        return order_of(self.model.rvs_to_transforms[rv])

    def _jax_target(self, log_likelihood: Any, log_prior: Any, shown: Sequence[Any]) -> Target:
        get_jaxified_graph = _import_jaxifier()
        log_likelihood, log_prior = _outside_of_support([log_likelihood, log_prior])
        energy = _on_jax_positions(self.names, get_jaxified_graph(self.inputs, [log_likelihood]))
        base = _on_jax_positions(self.names, get_jaxified_graph(self.inputs, [log_prior]))
        sample_prior = self._drawn_by_jax(get_jaxified_graph)
        with jax.enable_x64(True):
            position = jax.eval_shape(sample_prior, jax.random.key(0))
            for function in (energy, base):
                jax.eval_shape(function, position)
        constrain = _Constrain([v.name for v in self.shown], self.names, get_jaxified_graph(self.inputs, list(shown)))
        return Target.from_likelihood(energy, base, sample_prior, constrain=constrain.by_jax)

    def _drawn_by_jax(self, get_jaxified_graph: Any) -> Callable[[Any], dict[str, Any]]:
        """Return how to draw from the prior by a key; by PyTensor, called back, where JAX has no such distribution."""

        def sample_prior(key: Any) -> dict[str, Any]:
            states = [{"jax_state": jax.random.fold_in(key, i)} for i in range(len(rngs))]
            return dict(zip(self.names, draw(*states), strict=True))

        try:
            rngs, drawn = self._prior_graph()
            draw = get_jaxified_graph(rngs, drawn)
            with jax.enable_x64(True):
                jax.eval_shape(sample_prior, jax.random.key(0))
        except Exception:
            return draw_by_generator(self._drawn_by_pytensor())
        return sample_prior

    def _drawn_by_pytensor(self) -> Callable[[np.random.Generator], dict[str, Any]]:
        import pytensor

        rngs, drawn = self._prior_graph()
        with _without_advice():
            draw = pytensor.function(rngs, drawn, on_unused_input="ignore")
        return lambda rng: dict(zip(self.names, draw(*rng.spawn(len(rngs))), strict=True))

    def _compiled_target(self, log_likelihood: Any, log_prior: Any, shown: Sequence[Any]) -> Target:
        def compiled(outputs: list[Any]) -> Callable[..., list[Any]]:
            return self.model.compile_fn(outputs, inputs=self.inputs, point_fn=False)  # type: ignore[no-any-return]

        sample_prior = self._drawn_by_pytensor()
        constrain = _Constrain([v.name for v in self.shown], self.names, compiled(list(shown)))
        return Target.from_likelihood(
            _on_positions(self.names, compiled([log_likelihood])),
            _on_positions(self.names, compiled([log_prior])),
            sample_prior,
            constrain=constrain.one_by_one,
        )

    def unconstrain(self, values: Any) -> dict[str, Any]:
        """Turn values by the model's own names into a position; those left out are where PyMC would start them."""
        from pymc.initial_point import make_initial_point_fn

        own = [rv.name for rv in self.free]
        if isinstance(values, Mapping) and set(values) == set(self.names):
            return dict(values)
        if not isinstance(values, Mapping) or not set(values) <= set(own):
            came = sorted(map(str, values)) if isinstance(values, Mapping) else type(values).__name__
            raise TargetError(
                f"A position of this model has the names {own}, but got {came}. Pass a dictionary with the model's own "
                "values under some or all of these names."
            )
        given: dict[Any, Any] = {rv: np.asarray(values[rv.name], dtype=float) for rv in self.free if rv.name in values}
        for rv, value in given.items():
            if value.ndim != rv.ndim:
                raise TargetError(
                    f"A start must have the shape of its variable, but {rv.name!r} has {rv.ndim} axes and the value "
                    f"{value.ndim}. Pass a value of the same shape."
                )
        point = make_initial_point_fn(model=self.model, overrides=given, return_transformed=True)(0)
        position = {name: np.asarray(point[name], dtype=float) for name in self.names}
        outside = [own[i] for i, name in enumerate(self.names) if not np.all(np.isfinite(position[name]))]
        if outside:
            raise TargetError(
                f"A chain must start inside the support, but {outside[0]!r} is {values.get(outside[0])}. Pass a value "
                "inside it."
            )
        return position

    def pointwise(self, values: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the log likelihood of every observation, leading axes (chain, draw), by the names of the data."""
        from pymc.model.transform.conditioning import remove_value_transforms

        plain = remove_value_transforms(self.model)  # of the constrained values themselves
        inputs = [plain.rvs_to_values[rv] for rv in plain.free_RVs]
        terms = plain.logp(vars=list(plain.observed_RVs), sum=False)
        names = [rv.name for rv in plain.observed_RVs]
        with _without_advice():
            function = plain.compile_fn(terms, inputs=inputs, point_fn=False, on_unused_input="ignore")
        idle = plain.initial_point(0)  # of discrete variables that nothing depends on
        lead = next(iter(values.values())).shape[:2]
        given = {
            rv.name: values.get(rv.name, np.broadcast_to(idle[v.name], (*lead, *np.shape(idle[v.name]))))
            for rv, v in zip(plain.free_RVs, inputs, strict=True)
        }
        return _stacked([function(*row) for row in _rows(given, list(given))], names, values)

    def predicted(self, values: dict[str, NDArray[Any]], rng: int) -> dict[str, NDArray[Any]]:
        """Draw new data for every draw, leading axes (chain, draw)."""
        import pytensor
        from pytensor.graph.replace import clone_replace
        from pytensor.graph.traversal import ancestors
        from pytensor.tensor.random.type import RandomType

        observed = self.model.observed_RVs
        inputs = {rv: rv.type(name=rv.name) for rv in self.free}
        new = clone_replace(list(observed), inputs)
        shared = [v for v in ancestors(new) if v.owner is None and isinstance(v.type, RandomType)]
        rngs = [v.type(name=f"rng_{i}") for i, v in enumerate(shared)]
        new = clone_replace(new, dict(zip(shared, rngs, strict=True)))
        with _without_advice():
            draw = pytensor.function([*inputs.values(), *rngs], new, on_unused_input="ignore")
        generator = np.random.default_rng(rng)
        rows = _rows(values, [rv.name for rv in self.free])
        drawn = [draw(*row, *generator.spawn(len(rngs))) for row in rows]
        return _stacked(drawn, [rv.name for rv in observed], values)

    @property
    def data(self) -> dict[str, NDArray[Any]]:
        """The data, by name."""
        found = {}
        for rv in self.model.observed_RVs:
            value = self.model.rvs_to_values[rv]
            found[rv.name] = np.asarray(value.eval() if value.owner is not None else getattr(value, "data", None))
        return found

    def _prior_graph(self) -> tuple[list[Any], list[Any]]:
        """Return the random generators of a draw from the prior, as inputs, and the unconstrained values drawn."""
        from pytensor.graph.replace import clone_replace
        from pytensor.graph.traversal import ancestors
        from pytensor.tensor.random.type import RandomType

        drawn = []
        for rv in self.free:
            transform = self.model.rvs_to_transforms[rv]
            drawn.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
        drawn = clone_replace(drawn, {rv: in_order(rv, o) for rv in self.free if (o := self._order(rv)) is not None})
        shared = [v for v in ancestors(drawn) if v.owner is None and isinstance(v.type, RandomType)]
        rngs = [v.type(name=f"rng_{i}") for i, v in enumerate(shared)]
        return rngs, clone_replace(drawn, dict(zip(shared, rngs, strict=True)))


class _Constrain:
    """Turn unconstrained positions, leading axes (chain, draw), into the values a user sees."""

    def __init__(self, shown: list[str], names: list[str], function: Callable[..., Any]) -> None:
        self.shown, self.names, self.function = shown, names, function

    def by_jax(self, positions: dict[str, Any]) -> dict[str, NDArray[Any]]:
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


def _rows(values: Mapping[str, NDArray[Any]], names: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of one draw after another."""
    flat = [np.reshape(values[name], (-1, *np.shape(values[name])[2:])) for name in names]
    return zip(*flat, strict=True)


def _stacked(rows: list[Any], names: list[str], values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays by name with the leading axes (chain, draw) of the values."""
    lead = next(iter(values.values())).shape[:2]
    columns = [np.stack([np.asarray(a) for a in column]) for column in zip(*rows, strict=True)]
    return {name: a.reshape(*lead, *a.shape[1:]) for name, a in zip(names, columns, strict=True)}


def _on_positions(names: list[str], function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda position: function(*(position[name] for name in names))[0]


def _on_jax_positions(names: list[str], function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """Hand over JAX arrays always: some pieces of PyMC's graphs take no NumPy ones."""

    def of_position(position: dict[str, Any]) -> Any:
        return function(*(jnp.asarray(position[name]) for name in names))[0]

    return of_position


def _sum(terms: list[Any]) -> Any:
    import pytensor.tensor as pt

    return pt.sum([term.sum() for term in terms]) if terms else pt.constant(0.0)
