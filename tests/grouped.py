"""Options by name, for tests that vary one at a time: gathered into the values that `tempering.sample` takes."""

from dataclasses import replace

import tempering as tp

GROUPS = {
    "tuning": (tp.Tuning, {"tune": "iterations", "objective": "objective", "pseudo_prior": "pseudo_prior"}),
    "execution": (tp.Execution, {name: name for name in ("engine", "executor", "checkpoint", "devices")}),
}


def grouped(**options):
    """Return the options with those of a group put together; one given by name changes the value given for its group.

    >>> grouped(draws=5, tuning=tp.Tuning(9), objective="ess")
    {'draws': 5, 'tuning': Tuning(iterations=9, objective='ess', pseudo_prior=None, hottest=None)}
    """
    for group, (kind, names) in GROUPS.items():
        parts = {new: options.pop(old) for old, new in names.items() if old in options}
        if parts:
            options[group] = replace(options.get(group, kind()), **parts)
    return options
