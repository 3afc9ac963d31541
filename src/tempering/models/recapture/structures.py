"""Age and time structure of one parameter, and its short notation: ``{1}(t) {2,3} {4+}``."""

import re
from dataclasses import dataclass

from tempering.errors import InputError
from tempering.models.recapture.partitions import Labels

_GROUP = re.compile(r"\{([^{}]*)\}(\(t\))?")


@dataclass(frozen=True)
class Structure:
    """A partition of the age classes, each group constant in time or with a value for each year.

    Parameters
    ----------
    labels : tuple of int
        Group of each class, groups numbered by their youngest class.
    timed : tuple of bool
        Whether the group of each class depends on time.

    Examples
    --------
    >>> s = Structure.parse("{1}(t) {2,3} {4+}", 4)
    >>> s.labels, s.timed
    ((0, 1, 1, 2), (True, False, False, False))
    >>> print(s)
    {1}(t) {2,3} {4+}
    """

    labels: Labels
    timed: tuple[bool, ...]

    def __str__(self) -> str:
        last = len(self.labels)
        parts = []
        for group in range(max(self.labels) + 1):
            members = [j + 1 for j, label in enumerate(self.labels) if label == group]
            names = ",".join(f"{j}+" if j == last else str(j) for j in members)
            parts.append(f"{{{names}}}" + ("(t)" if self.timed[members[0] - 1] else ""))
        return " ".join(parts)

    @property
    def n_groups(self) -> int:
        """Number of age groups."""
        return max(self.labels) + 1

    @classmethod
    def parse(cls, text: str, n_classes: int) -> "Structure":
        """Read the notation; every class 1, ..., ``n_classes`` must stand in exactly one group."""
        groups = _GROUP.findall(text)
        if _GROUP.sub("", text).strip() or not groups:
            raise InputError(
                f"A structure must read like '{{1}}(t) {{2,3}} {{4+}}', but is {text!r}. "
                "Put age classes in braces, and (t) behind groups that vary by year."
            )
        where: dict[int, int] = {}
        for g, (members, _) in enumerate(groups):
            for member in members.split(","):
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
                if int(name) in where:
                    raise InputError(
                        f"Each class must stand in one group, but {text!r} has {name} twice. "
                        "Remove it from one of them."
                    )
                where[int(name)] = g
        missing = sorted(set(range(1, n_classes + 1)) - set(where))
        if missing:
            raise InputError(f"Each class must stand in a group, but {text!r} lacks {missing}. Add it to one.")
        raw = [where[j] for j in range(1, n_classes + 1)]
        order = list(dict.fromkeys(raw))
        return cls(tuple(order.index(g) for g in raw), tuple(bool(groups[g][1]) for g in raw))
