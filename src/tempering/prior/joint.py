"""The prior of all parameters: a dictionary of priors by name, a list of them, or a transform of the unit cube."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tempering.errors import TargetError
from tempering.prior.bijections import Interval, log_sigmoid, namespace
from tempering.prior.distribution import Distribution
from tempering.prior.scipy_frozen import from_scipy, is_frozen

if TYPE_CHECKING:
    from tempering.prior.randomness import Randomness


@dataclass(frozen=True, eq=False)
class JointPrior:
    """Independent priors, under names or in the order of a vector.

    Attributes
    ----------
    parts : dict of str to Distribution
        One for each name; for a vector the names are the numbers of its entries.
    form : {"names", "vector", "value"}
        Whether positions are values by name, one vector of all, or the value of the only prior: the latter two have no
        names, and are called ``x`` in the results.
    """

    parts: Mapping[str, Distribution]
    form: Literal["names", "vector", "value"] = "names"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(self.parts) if self.has_names else ("x",)

    @property
    def has_names(self) -> bool:
        """Whether positions are dictionaries."""
        return self.form == "names"

    @cached_property
    def _places(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """Where the free numbers of each part lie in a vector, and their shape."""
        places, start = {}, 0
        for name, part in self.parts.items():
            shape = part.bijection.free_shape(part.value_shape)
            size = int(np.prod(shape))
            places[name] = (slice(start, start + size), shape)
            start += size
        return places

    def _free(self, position: Any, name: str) -> Any:
        if self.form == "value":
            return position
        if self.has_names:
            return position[name]
        place, shape = self._places[name]
        return position[..., place].reshape((*position.shape[:-1], *shape))

    def _joined(self, free: dict[str, Any], n_lead: int = 0) -> Any:
        if self.has_names:
            return free
        if self.form == "value":
            return next(iter(free.values()))
        xp, _ = namespace(next(iter(free.values())))
        flat = [xp.reshape(a, (*np.shape(a)[:n_lead], int(np.prod(np.shape(a)[n_lead:])))) for a in free.values()]
        return xp.concatenate(flat, axis=-1)

    def log_density(self, position: Any) -> Any:
        """Return the log density of the free numbers of a position."""
        return sum(part.log_density_free(self._free(position, name)) for name, part in self.parts.items())

    def sample(self, rng: Randomness) -> Any:
        """Draw the free numbers of a position, from a NumPy generator or a JAX key."""
        if isinstance(rng, np.random.Generator):
            return self._joined({name: np.asarray(part.sample_free(rng)) for name, part in self.parts.items()})
        import jax

        keys = jax.random.split(rng, len(self.parts))
        return self._joined({name: part.sample_free(keys[i]) for i, (name, part) in enumerate(self.parts.items())})

    def values(self, position: Any) -> Any:
        """Turn the free numbers of positions, whatever axes lead, into values: a dict, or a vector."""
        found = {name: part.bijection.forward(self._free(position, name)) for name, part in self.parts.items()}
        return self._joined(found, np.ndim(position) - 1) if self.form == "vector" else self._joined(found)

    def constrain(self, positions: Any) -> dict[str, NDArray[Any]]:
        """Return values by name; what `tempering.sample` shows."""
        found = self.values(positions)
        shown = found if self.has_names else {"x": found}
        return {name: np.asarray(a) for name, a in shown.items()}

    def unconstrain(self, values: Any) -> Any:
        """Turn a user's values into free numbers; one outside the support is refused by name."""
        given = self._by_name(values)
        free = {}
        for name, part in self.parts.items():
            value = np.asarray(given[name], dtype=float)
            if not part.contains(value):
                raise TargetError(
                    f"A chain must start inside the prior, but {name!r} is {_short(value)} and its prior is {part!r}. "
                    "Pass another initial position, or none: chains then start from the prior."
                )
            free[name] = part.bijection.inverse(value)
        return self._joined(free)

    def _by_name(self, values: Any) -> dict[str, Any]:
        if self.form == "vector":
            sizes = [int(np.prod(part.value_shape)) for part in self.parts.values()]
            vector = np.asarray(values, dtype=float)
            if vector.shape != (sum(sizes),):
                raise TargetError(
                    f"A position must be a vector of {sum(sizes)} numbers, one for each prior, but it has shape "
                    f"{vector.shape}. Pass as many numbers as there are priors."
                )
            pieces = np.split(vector, np.cumsum(sizes)[:-1])
            parts = zip(self.parts.items(), pieces, strict=True)
            return {name: piece.reshape(part.value_shape) for (name, part), piece in parts}
        if len(self.parts) == 1 and not isinstance(values, Mapping):  # one value needs no name
            ((name, part),) = self.parts.items()
            if np.shape(values) in (part.value_shape, part.value_shape or (1,)):
                return {name: np.reshape(values, part.value_shape)}
        if not isinstance(values, Mapping) or set(values) != set(self.parts):
            came = sorted(map(str, values)) if isinstance(values, Mapping) else type(values).__name__
            raise TargetError(
                f"A position must have the names of the priors, {sorted(self.parts)}, but got {came}. Pass a "
                "dictionary with one value for each name."
            )
        return dict(values)


@dataclass(frozen=True, eq=False)
class UnitCube:
    """A prior as nested samplers take it: a function from the unit cube to the parameters.

    Parameters
    ----------
    transform : callable
        ``transform(cube)`` turns a vector of ``size`` numbers between 0 and 1 into the parameters.
    size : int
        Number of dimensions of the cube.
    names : sequence of str, optional
        Of the parameters, where ``transform`` returns a vector of them; otherwise the vector is called ``x``.

    Examples
    --------
    >>> import tempering as tp
    >>> prior = tp.prior.UnitCube(lambda cube: 10.0 * cube - 5.0, 2)
    >>> tp.Target.from_likelihood(lambda x: -0.5 * (x**2).sum(), prior)
    Target(base * exp(energy)^k)
    """

    transform: Callable[[Any], Any]
    size: int
    names: Sequence[str] = ("x",)

    def __post_init__(self) -> None:
        if not callable(self.transform):
            raise TargetError(
                f"transform must be a function of a point of the unit cube, but got {type(self.transform).__name__}. "
                "Pass the function itself."
            )
        if not isinstance(self.size, int | np.integer) or self.size < 1:
            raise TargetError(f"size must be a whole number of dimensions, at least 1, but got {self.size!r}. Pass it.")

    def log_density(self, position: Any) -> Any:
        """Return the log density of the log odds of a point of the cube."""
        xp, _ = namespace(position)
        return xp.sum(log_sigmoid(position) + log_sigmoid(-position))

    def sample(self, rng: Randomness) -> Any:
        """Draw the log odds of a point of the cube."""
        from tempering.prior.randomness import source_of

        u = source_of(rng).uniform((self.size,))
        xp, _ = namespace(u)
        return xp.log(u) - xp.log1p(-u)

    def values(self, position: Any) -> Any:
        """Turn the log odds of points into the parameters; of many points one after another."""
        cube = Interval(0.0, 1.0).forward(position)
        found = self.transform(cube) if np.ndim(cube) == 1 else np.stack([self.transform(row) for row in cube])
        return {name: found[..., i] for i, name in enumerate(self.names)} if self.has_names else found

    @property
    def has_names(self) -> bool:
        """Whether the likelihood takes parameters by name, and not one vector."""
        return tuple(self.names) != ("x",)

    def constrain(self, positions: Any) -> dict[str, NDArray[Any]]:
        """Return the parameters by name, one point of the cube after another."""
        x = np.asarray(positions)
        cube = Interval(0.0, 1.0).forward(x.reshape(-1, self.size))
        rows = [np.asarray(self.transform(row), dtype=float) for row in cube]
        width = len(rows[0]) if rows else len(np.asarray(self.transform(np.full(self.size, 0.5))))
        found = np.reshape(rows, (*x.shape[:-1], width))
        return {name: found[..., i] for i, name in enumerate(self.names)} if self.has_names else {"x": found}

    def unconstrain(self, values: Any) -> Any:
        """Refuse: nobody knows the inverse of the transform."""
        raise TargetError(
            "Chains start from the prior where it is a transform of the unit cube, but initial was given. Leave it out."
        )


def joint_prior(given: Any) -> JointPrior | UnitCube | None:
    """Turn a dictionary or list of priors, one prior, or a `UnitCube` into a joint prior; None for anything else."""
    if isinstance(given, JointPrior | UnitCube):
        return given
    if isinstance(given, Mapping):
        if not given:
            raise TargetError(
                "A dictionary of priors must name at least one parameter, but it is empty. Pass {'name': prior}."
            )
        wrong = next((name for name in given if not isinstance(name, str)), None)
        if wrong is not None:
            raise TargetError(f"The names of priors must be text, but one is {wrong!r}. Pass {{'name': prior}}.")
        return JointPrior({name: prior_of(part, name) for name, part in given.items()})
    if isinstance(given, list | tuple):
        if not given:
            raise TargetError("A list of priors must have at least one, but it is empty. Pass [prior, ...].")
        return JointPrior({str(i): prior_of(part, str(i)) for i, part in enumerate(given)}, "vector")
    if isinstance(given, Distribution) or is_frozen(given):
        return JointPrior({"x": prior_of(given, "x")}, "value")
    return None


def prior_of(given: Any, name: str) -> Distribution:
    """Return a prior of this package, from one of it or from a frozen distribution of SciPy."""
    if isinstance(given, Distribution):
        return given
    if is_frozen(given):
        return from_scipy(given)
    if isinstance(given, type) and issubclass(given, Distribution):
        raise TargetError(f"The prior of {name!r} needs parameters, but is the class. Write {given.__name__}(...).")
    raise TargetError(
        f"The prior of {name!r} must be one of tempering.prior or a frozen distribution of scipy.stats, but got "
        f"{type(given).__name__}. Write, for example, tempering.prior.Normal(0, 1)."
    )


def _short(value: NDArray[Any]) -> str:
    return f"{float(value):.6g}" if value.shape == () else np.array2string(value, threshold=6)


_PLAIN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def called_with(function: Callable[..., Any], names: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function of a dictionary of values, from one of that or one whose arguments have the names.

    Examples
    --------
    >>> called_with(lambda a, b: a + b, ("a", "b"))({"a": 1, "b": 2})
    3
    >>> called_with(lambda values: values["a"], ("a", "b"))({"a": 1, "b": 2})
    1
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in, or compiled: it gets the dictionary
        return function
    own = [name for name, p in parameters.items() if p.kind in _PLAIN]
    needed = [name for name in own if parameters[name].default is inspect.Parameter.empty]
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if set(needed) <= set(names) and (takes_any or set(names) <= set(own)) and (needed or takes_any):
        return lambda values: function(**values)
    if len(needed) == 1 and needed[0] not in names:
        return function
    raise TargetError(
        f"The likelihood must take a dictionary, or arguments named as the priors ({', '.join(names)}), but its "
        f"arguments are ({', '.join(own)}). Give both the same names."
    )
