"""Trap dependence and transience: what may depend on a bird's last capture, as columns of their own.

A bird just seen may be seen again more or less easily than one that was missed (trap dependence); a bird just marked
may be passing through (transience). Both are a *stage* that the bird is in during the interval after a release, and
which it leaves for the last stage when it is not seen. So they are further columns beside ages and groups, and every
structure, prior and move serves them as it does those.
"""

import re
from collections.abc import Iterable

TRAP, TRANSIENT = "trap", "transient"
_WORDS = {TRAP: {TRAP, "seen", "missed"}, TRANSIENT: {TRANSIENT, "new", "old"}}

Stages = tuple[str, ...]


def stages_of(texts: Iterable[str | None], groups: tuple[str, ...] = ()) -> Stages:
    """Return the stages that formulas or structures name.

    Examples
    --------
    >>> stages_of(["~ transient", "~ trap + time"]), stages_of(["~ time", "{1+ seen} {1+ missed}"])
    (('new', 'seen', 'missed'), ('seen', 'missed'))
    """
    words = {word for text in texts for word in re.findall(r"\w+", text or "")} - set(groups)
    has_trap, has_transient = (bool(words & _WORDS[term]) for term in (TRAP, TRANSIENT))
    if has_trap:
        return ("new", "seen", "missed") if has_transient else ("seen", "missed")
    return ("new", "old") if has_transient else ()


def terms_of(stages: Stages) -> Stages:
    """Name the effects that stages make possible."""
    return tuple(term for term in (TRAP, TRANSIENT) if _WORDS[term] & set(stages))


def told_apart(stages: Stages, term: str) -> tuple[str, str]:
    """Return the two stages whose difference is the effect of a term."""
    if term == TRAP:
        return "seen", "missed"
    return "new", "seen" if "seen" in stages else "old"


def stage_of_release(stages: Stages, is_first: bool) -> int:
    """Return the stage that follows a release: of a bird just marked, or seen again."""
    return 0 if is_first or "new" not in stages else 1


def split_name(name: str) -> tuple[str, str]:
    """Return group and stage of a name that `staged_names` made; the stage is empty for others.

    Examples
    --------
    >>> split_name("female seen"), split_name("missed"), split_name("site 4")
    (('female', 'seen'), ('', 'missed'), ('site 4', ''))
    """
    group, _, stage = name.rpartition(" ")
    return (group, stage) if stage in ("new", "seen", "missed", "old") else (name, "")


def staged_names(groups: tuple[str, ...], stages: Stages) -> tuple[str, ...]:
    """Name each stage of each group."""
    return tuple(" ".join(filter(None, (group, stage))) for group in groups for stage in stages) or groups
