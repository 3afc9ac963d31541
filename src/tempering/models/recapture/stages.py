"""Stages: what a bird may depend on beside its group and age, as columns of their own.

A bird just seen may be seen again more or less easily than one that was missed (trap dependence); a bird just marked
may be passing through (transience). Both are a *stage* that the bird is in during the interval after a release, and
which it leaves for the last stage when it is not seen. States that birds move between (`states`) are stages, too. So
they are further columns beside ages and groups, and every structure, prior and move serves them as it does those.
"""

import re
from collections.abc import Iterable

TRAP, TRANSIENT, STATE = "trap", "transient", "state"
_WORDS = {TRAP: {TRAP, "seen", "missed"}, TRANSIENT: {TRANSIENT, "new", "old"}}
AFTER_CAPTURE = ("new", "seen", "missed", "old")

Stages = tuple[str, ...]


def stages_of(texts: Iterable[str | None], groups: tuple[str, ...] = ()) -> Stages:
    """Return the stages after a capture that formulas or structures name.

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
    """Name the effects that stages make possible.

    Examples
    --------
    >>> terms_of(("new", "seen", "missed")), terms_of(("A", "B"))
    (('trap', 'transient'), ('state',))
    """
    if stages and stages[0] not in AFTER_CAPTURE:
        return (STATE,)
    return tuple(term for term in (TRAP, TRANSIENT) if _WORDS[term] & set(stages))


def told_apart(stages: Stages, term: str) -> Stages:
    """Return the stages whose difference is the effect of a term."""
    if term == STATE:
        return stages
    if term == TRAP:
        return "seen", "missed"
    return "new", "seen" if "seen" in stages else "old"


def level_of(stages: Stages, term: str, stage: int) -> int:
    """Return the level of a stage in the effect of a term; those that it does not tell apart are the last one's."""
    names = told_apart(stages, term)
    return len(names) - 1 - names.index(stages[stage]) if stages[stage] in names else 0


def stage_of_release(stages: Stages, is_first: bool) -> int:
    """Return the stage that follows a release: of a bird just marked, or seen again."""
    return 0 if is_first or "new" not in stages else 1


def split_name(name: str, stages: Stages) -> tuple[str, str]:
    """Return group and stage of a name that `staged_names` made; the stage is empty where there are none.

    Examples
    --------
    >>> split_name("female seen", ("seen", "missed")), split_name("A", ("A", "B")), split_name("site 4", ())
    (('female', 'seen'), ('', 'A'), ('site 4', ''))
    """
    group, _, stage = name.rpartition(" ")
    return (group, stage) if stage in stages else (name, "")


def staged_names(groups: tuple[str, ...], stages: Stages) -> tuple[str, ...]:
    """Name each stage of each group."""
    return tuple(" ".join(filter(None, (group, stage))) for group in groups for stage in stages) or groups
