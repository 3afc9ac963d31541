"""Options of a command in groups: a command takes one value for a group, and its help shows a panel for each."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import typer


def option(group: str, help: str, *names: str) -> Any:
    """Return the description of an option, for the annotation of a group's field."""
    return typer.Option(*names, help=help, rich_help_panel=group)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options as single values: every field of a group becomes an option."""
    own = list(signature(command, eval_str=True).parameters.values())
    groups: dict[str, Any] = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options = []
    for one in own:
        if one.name in groups:
            options += _options_of(groups[one.name])
        else:
            options.append(one.replace(kind=Parameter.KEYWORD_ONLY))
    described: Any = run
    described.__signature__ = Signature(options)
    described.__annotations__ = {option.name: option.annotation for option in options}
    described.__name__, described.__doc__ = command.__name__, command.__doc__
    return run


def _options_of(group: Any) -> list[Parameter]:
    """Return a parameter for each field of a group; one without a default must be given."""
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
