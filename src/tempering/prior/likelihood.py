"""A user's likelihood of values, as a function of the free numbers that chains move."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tempering.errors import TargetError

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
