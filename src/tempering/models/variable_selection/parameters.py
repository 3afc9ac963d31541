"""Groups of settings as nested parameters of scikit-learn: ``set_params(sampling__draws=1000)``, and plain dicts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

from sklearn.base import BaseEstimator

from tempering.errors import InputError
from tempering.models.variable_selection.settings import Design, Family, Sampling, SelectionPrior

GROUPS: dict[str, Any] = {"family": Family, "prior": SelectionPrior, "design": Design, "sampling": Sampling}
Constructor = TypeVar("Constructor", bound=Callable[..., None])
MOVED = {field.name: group for group, kind in GROUPS.items() for field in fields(kind) if field.name != "name"}


def group_of(name: str, value: Any) -> Any:
    """Return a group of settings: the defaults for None, a dict by the names of its entries, a family by its name.

    Examples
    --------
    >>> group_of("sampling", {"draws": 500}).draws
    500
    >>> group_of("family", "poisson").name
    'poisson'
    """
    kind = GROUPS[name]
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if name == "family" and isinstance(value, str):
        return Family(value)
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a {kind.__name__} or a dict of its settings, but got {value!r}.")
    known = [field.name for field in fields(kind)]
    unknown = [key for key in value if key not in known]
    if unknown:
        raise InputError(f"{name} has no setting {', '.join(map(repr, unknown))}: there are {', '.join(known)}.")
    return kind(**value)


def refuse(settings: Mapping[str, Any]) -> NoReturn:
    """Say where settings belong that are not parameters of their own."""
    for key, value in settings.items():
        if key in MOVED:
            group = MOVED[key]
            raise InputError(
                f"{key} belongs to {group}: write {group}=dict({key}={value!r}), or {group}__{key} in set_params."
            )
    raise InputError(
        f"VariableSelection has no parameter {', '.join(map(repr, settings))}. It has {', '.join(GROUPS)}, "
        "threshold, n_jobs and random_state."
    )


def naming_groups(constructor: Constructor) -> Constructor:
    """Let a constructor say to which group a setting belongs that is passed as a parameter of its own."""
    known = inspect.signature(constructor).parameters

    @wraps(constructor)
    def checked(self: Any, *arguments: Any, **settings: Any) -> None:
        unknown = {key: value for key, value in settings.items() if key not in known}
        if unknown:
            refuse(unknown)
        constructor(self, *arguments, **settings)

    return cast(Constructor, checked)


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """Parameters whose groups are frozen values, read and set entry by entry."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` the entries of the groups too, as ``sampling__draws``."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name in GROUPS:
                try:
                    group = group_of(name, found[name])
                except InputError:  # fit will say so
                    continue
                found |= {f"{name}__{field.name}": getattr(group, field.name) for field in fields(group)}
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``sampling__draws=1000`` replaces one entry of a group."""
        moved = {key: value for key, value in params.items() if key in MOVED}
        if moved:
            refuse(moved)
        nested = {key for key in params if "__" in key and key.partition("__")[0] in GROUPS}
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        for key in sorted(nested):
            name, _, entry = key.partition("__")
            group = group_of(name, getattr(self, name))
            if entry not in {field.name for field in fields(group)}:
                raise ValueError(f"Invalid parameter {key!r}: {name} has no setting {entry!r}.")
            setattr(self, name, replace(group, **{entry: params[key]}))
        return self
