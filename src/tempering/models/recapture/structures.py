"""Structure of one parameter over ages, groups and time, and its short notation: ``{1}(t) {2,3} {4+}``."""

import re
from dataclasses import dataclass

from tempering.errors import InputError
from tempering.models.recapture.partitions import Labels, sets_of
from tempering.models.recapture.stages import Stages, split_name

CONSTANT, YEARLY, RANDOM = "", "t", "random"
_SET = re.compile(r"\{([^{}]*)\}(?:\(([^()]*)\))?")


@dataclass(frozen=True)
class Structure:
    """A partition of the columns (ages, or ages of groups), each set with its way to vary in time.

    Parameters
    ----------
    labels : tuple of int
        Set of each column, sets numbered by their first column; columns go age by age within group by group.
    times : tuple of str
        How the set of each column varies: ``""`` not at all, ``"t"`` from year to year, or the name of a grouping of
        years, of a covariate, or ``"random"``; ``"t+sex"`` from year to year, with a constant distance between the
        sexes on the logit scale.
    groups : tuple of str
        Names of the groups of birds; one without a name by default.
    stages : tuple of str
        Stages that are told apart: ``groups`` are then those of each group in turn.

    Examples
    --------
    >>> s = Structure.parse("{1}(t) {2,3} {4+}", 4)
    >>> s.labels, s.times
    ((0, 1, 1, 2), ('t', '', '', ''))
    >>> print(s)
    {1}(t) {2,3} {4+}
    >>> print(Structure.parse("{1 female}(t) {1 male} {2+}", 2, ("female", "male")))
    {1 female}(t) {2+} {1 male}
    """

    labels: Labels
    times: tuple[str, ...]
    groups: tuple[str, ...] = ("",)
    stages: Stages = ()

    @property
    def n_classes(self) -> int:
        """Number of age classes."""
        return len(self.labels) // len(self.groups)

    @property
    def timed(self) -> tuple[bool, ...]:
        """Whether each column varies in time at all."""
        return tuple(time != CONSTANT for time in self.times)

    def __str__(self) -> str:
        parts = []
        for columns in sets_of(self.labels):
            time = self.times[columns[0]]
            parts.append(f"{{{self._name(columns)}}}" + (f"({time})" if time else ""))
        return " ".join(parts)

    def _name(self, columns: list[int]) -> str:
        n = self.n_classes
        ages = sorted({c % n for c in columns})
        groups = sorted({c // n for c in columns})
        names = ",".join(f"{j + 1}+" if j == n - 1 else str(j + 1) for j in ages)
        return names if len(groups) == len(self.groups) else f"{names} {_groups_name(groups, self.groups, self.stages)}"

    @property
    def n_groups(self) -> int:
        """Number of sets."""
        return max(self.labels) + 1

    @classmethod
    def parse(cls, text: str, n_classes: int, groups: tuple[str, ...] = ("",), stages: Stages = ()) -> "Structure":
        """Read the notation; every class of every group must stand in exactly one set."""
        found = _SET.findall(text)
        if _SET.sub("", text).strip() or not found:
            raise InputError(
                f"A structure must read like '{{1}}(t) {{2,3}} {{4+}}', but is {text!r}. "
                "Put age classes in braces, and (t) behind sets that vary by year."
            )
        where: dict[int, int] = {}
        for s, (members, _) in enumerate(found):
            for c in _columns(members, text, n_classes, groups, stages):
                if c in where:
                    raise InputError(
                        f"Each class must stand in one set, but {text!r} has {c % n_classes + 1} twice. "
                        "Remove it from one of them."
                    )
                where[c] = s
        missing = sorted({c % n_classes + 1 for c in range(n_classes * len(groups)) if c not in where})
        if missing:
            raise InputError(f"Each class must stand in a set, but {text!r} lacks {missing}. Add it to one.")
        raw = [where[c] for c in range(n_classes * len(groups))]
        order = list(dict.fromkeys(raw))
        times = ["+".join(part.strip() for part in time.split("+")) for _, time in found]
        return cls(tuple(order.index(s) for s in raw), tuple(times[s] for s in raw), groups, stages)


def _groups_name(chosen: list[int], groups: tuple[str, ...], stages: Stages) -> str:
    """Name some groups; all stages of a group by its name, one stage of all groups by the stage's."""
    parts = [split_name(groups[g], stages) for g in chosen]
    names = {split_name(group, stages)[0] for group in groups}
    mine = {name for name, _ in parts}, {stage for _, stage in parts}
    is_product = len(parts) == len(mine[0]) * len(mine[1])
    if is_product and mine[1] == set(stages) and len(stages) > 1:
        return "/".join(dict.fromkeys(name for name, _ in parts))
    if is_product and mine[0] == names and len(names) > 1 and len(stages) > 1:
        return "/".join(dict.fromkeys(stage for _, stage in parts))
    return "/".join(groups[g] for g in chosen)


def _columns(members: str, text: str, n_classes: int, groups: tuple[str, ...], stages: Stages) -> list[int]:
    """Return the columns that ``1,2 female/male`` names."""
    ages, _, names = members.strip().partition(" ")
    wanted = [name.strip() for name in names.split("/")] if names.strip() else list(groups)
    chosen = [group for name in wanted for group in groups if name in (group, *split_name(group, stages))]
    unknown = [name for name in wanted if not any(name in (group, *split_name(group, stages)) for group in groups)]
    if unknown:
        raise InputError(
            f"Groups must be among {', '.join(filter(None, groups)) or 'none'}, but {text!r} has {unknown[0]!r}. "
            "Write ages first, then groups: {1,2 female}."
        )
    return [groups.index(g) * n_classes + _class(age, text, n_classes) for g in chosen for age in ages.split(",")]


def _class(member: str, text: str, n_classes: int) -> int:
    name = member.strip().removesuffix("+")
    if not name.isdigit() or not 1 <= int(name) <= n_classes:
        raise InputError(
            f"Age classes must be 1 to {n_classes}, but {text!r} has {member.strip()!r}. "
            "Remove it, or ask for more age classes."
        )
    if member.strip().endswith("+") and int(name) != n_classes:
        raise InputError(
            f"Only the last class, {n_classes}, is open: {text!r} has {member.strip()!r}. "
            "Write the plus sign there alone."
        )
    return int(name) - 1
