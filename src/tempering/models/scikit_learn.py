"""What our estimators share with those of scikit-learn: settings as nested parameters, entry by entry, and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from tempering.errors import InputError

Group = TypeVar("Group")


def group_of(kind: type[Group], value: Any, name: str) -> Group:
    """Return a group of settings: the defaults for None, a dict by the names of its entries.

    A group that begins with a name can be given by that.

    Examples
    --------
    >>> from tempering.models.treed_gp import Prior
    >>> group_of(Prior, {"min_leaf": 5}, "prior").min_leaf
    5
    """
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    known = _entries(kind)
    if isinstance(value, str) and known[0] == "name":
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise InputError(
            f"{name} must be a {kind.__name__}, a dict of its settings or None, but got {value!r}. Leave it out."
        )
    unknown = [key for key in value if key not in known]
    if unknown:
        raise InputError(
            f"{name} has no setting {', '.join(map(repr, unknown))}. Those of {kind.__name__} are {', '.join(known)}."
        )
    return kind(**value)


def naming_groups(init: Callable[..., None]) -> Callable[..., None]:
    """Make a constructor say to which group a setting belongs; its signature, which scikit-learn reads, stays."""

    @wraps(init)
    def checked(self: Any, *arguments: Any, **named: Any) -> None:
        self.refuse_moved(named)
        init(self, *arguments, **named)

    return checked


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """Parameters whose groups are frozen values, read and set entry by entry as scikit-learn's nested ones.

    Attributes
    ----------
    GROUPS : dict of str to type
        What kind of value each group is.
    MOVED : dict of str to (group, entry)
        Settings that users may take for parameters of their own, and where they are.
    """

    GROUPS: ClassVar[dict[str, Any]] = {}
    MOVED: ClassVar[dict[str, tuple[str, str]]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` those of the groups too, as ``prior__min_leaf``."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, kind in self.GROUPS.items():
                try:
                    group = group_of(kind, found[name], name)
                except InputError:  # fit will say so
                    continue
                found |= {f"{name}__{entry}": getattr(group, entry) for entry in _entries(kind)}
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``prior__min_leaf=5`` replaces one entry of the prior."""
        self.refuse_moved(params)
        nested = sorted(key for key in params if "__" in key and key.partition("__")[0] in self.GROUPS)
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for key in nested:
            name, _, entry = key.partition("__")
            kind = self.GROUPS[name]
            if entry not in _entries(kind):
                raise ValueError(f"Invalid parameter {key!r}: {name} has no setting {entry!r}.")
            setattr(self, name, replace(group_of(kind, getattr(self, name), name), **{entry: params[key]}))
        return self

    def refuse_moved(self, given: Mapping[str, Any]) -> None:
        """Say where settings belong that are not parameters of their own."""
        for name, value in given.items():
            if name in self.MOVED:
                group, entry = self.MOVED[name]
                raise InputError(
                    f"{name} belongs to {group}: write {group}={self.GROUPS[group].__name__}({entry}={value!r}), or "
                    f"set_params({group}__{entry}=...)."
                )


def _entries(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def seed_from(random_state: Any) -> int:
    """Return a seed; a `Generator` or `RandomState` moves on by one draw, None asks the system.

    Examples
    --------
    >>> seed_from(1) == seed_from(1), seed_from(np.random.default_rng(1)) == seed_from(np.random.default_rng(1))
    (True, True)
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InputError(
            "random_state (--seed) must be None, a generator of NumPy or a whole number from 0 to 4294967295, but got "
            f"{random_state!r}. Pass for example 1."
        ) from None


def generator_of(random_state: Any) -> np.random.Generator:
    """Return a generator; a `Generator` is used as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_from(random_state))
