"""Groups of settings as nested parameters: ``set_params(prior__min_leaf=5)``, grids over them, and plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import wraps
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

from tempering.errors import InputError
from tempering.models.treed_gp.settings import Keeping, Prior, Proposals, Tempering

Group = TypeVar("Group", Prior, Proposals, Tempering, Keeping)

GROUPS: dict[str, Any] = {"prior": Prior, "proposals": Proposals, "tempering": Tempering, "keep": Keeping}

# Where parameters of earlier versions have gone.
MOVED = {
    "tree": ("prior", "tree"),
    "mean": ("prior", "mean"),
    "correlation": ("prior", "correlation"),
    "temper": ("tempering", "target"),
    "ladder": ("tempering", "ladder"),
    "hottest": ("tempering", "hottest"),
    "rule": ("tempering", "rule"),
    "kept": ("keep", "trees"),
    "thin": ("keep", "thin"),
    "predict_every": ("keep", "predict_every"),
}


def refuse_moved(names: Iterable[str]) -> None:
    """Say where parameters of earlier versions are now."""
    for name in names:
        if name in MOVED:
            group, entry = MOVED[name]
            raise InputError(
                f"{name} belongs to {group} now: write {group}={GROUPS[group].__name__}({entry}=...), or "
                f"set_params({group}__{entry}=...)."
            )


def names_what_moved(init: Callable[..., None]) -> Callable[..., None]:
    """Make a constructor refuse parameters of earlier versions; its signature, which scikit-learn reads, stays."""

    @wraps(init)
    def checked(self: Any, *arguments: Any, **named: Any) -> None:
        refuse_moved(named)
        init(self, *arguments, **named)

    return checked


def settings_of(kind: type[Group], value: Any, name: str) -> Group:
    """Return a group of settings: the defaults for None, a dict by the names of its entries.

    Examples
    --------
    >>> settings_of(Prior, {"min_leaf": 5}, "prior").min_leaf
    5
    """
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InputError(
            f"{name} must be a {kind.__name__}, a dict of its settings or None, but got {value!r}. Leave it out."
        )
    known = [field.name for field in fields(kind)]
    unknown = [key for key in value if key not in known]
    if unknown:
        raise InputError(
            f"{name} has no setting {', '.join(map(repr, unknown))}. Those of {kind.__name__} are {', '.join(known)}."
        )
    return kind(**value)


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """Parameters whose groups are frozen values, read and set entry by entry as scikit-learn's nested ones."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` those of the groups too, as ``prior__min_leaf``."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, kind in GROUPS.items():
                try:
                    group = settings_of(kind, found[name], name)
                except InputError:  # fit will say so
                    continue
                found |= {f"{name}__{field.name}": getattr(group, field.name) for field in fields(group)}
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``prior__min_leaf=5`` replaces one entry of the prior."""
        refuse_moved(params)
        plain = {key: value for key, value in params.items() if key.partition("__")[0] not in GROUPS or "__" not in key}
        super().set_params(**plain)
        for key in params.keys() - plain.keys():
            name, _, entry = key.partition("__")
            group = settings_of(GROUPS[name], getattr(self, name), name)
            if entry not in {field.name for field in fields(group)}:
                raise ValueError(f"Invalid parameter {key!r}: {name} has no setting {entry!r}.")
            setattr(self, name, replace(group, **{entry: params[key]}))
        return self
