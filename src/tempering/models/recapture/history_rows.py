"""Encounter histories as strings of characters, whichever file they stand in: checked, and turned into codes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.release_arrays import Integers
from tempering.models.recapture.text_files import ages_of, integer


class Line(NamedTuple):
    """One history with its columns, and where it stands."""

    history: str
    columns: list[str]
    place: str


def group_names(lines: list[Line], groups: int | Sequence[str] | None, path: str | Path) -> tuple[str, ...]:
    """Return the names of the groups, whose frequencies come first; refuse to guess."""
    if groups is not None:
        names = tuple(str(g + 1) for g in range(groups)) if isinstance(groups, int) else tuple(groups)
        for line in lines:
            if len(line.columns) < len(names) or not names:
                raise InputError(
                    f"{line.place}: there must be {max(len(names), 1)} frequencies, but got {len(line.columns)}. "
                    "Give one for each group."
                )
        return names
    widths = {len(line.columns) for line in lines}
    if widths == {0}:
        raise InputError(f"{lines[0].place}: there must be 1 frequencies, but got 0. Give one for each group.")
    if len(widths) > 1:
        odd = next(line for line in lines if len(line.columns) != len(lines[0].columns))
        raise InputError(
            f"{odd.place}: every history must have as many columns, but got {len(odd.columns)}. Correct that line."
        )
    n = widths.pop()
    if n > 1 and any(has_birds(lines, g) for g in range(1, n)):
        raise InputError(
            f"{path}: {n} columns follow each history, such as {' '.join(lines[0].columns)!r}. They could be "
            f"frequencies of {n} groups, or a frequency and {n - 1} covariate{'s' * (n > 2)}: say how many groups "
            f"there are (groups={n} or groups=1; on the command line --frequencies {n} or --frequencies 1)."
        )
    return tuple(str(g + 1) for g in range(n))


def has_birds(lines: list[Line], n: int) -> bool:
    """Whether every history has a bird in some group if the first columns are the frequencies of so many groups."""
    return all(any(column.strip("+-0.") for column in line.columns[:n]) for line in lines)


def could_be_ldld(histories: list[str]) -> bool:
    """Whether all histories obey the rules of pairs: marked alive, found dead once, nothing after.

    Live histories of more than a handful of birds break them: some bird is marked at an even occasion. The first of a
    pair may be the letter of a state.

    Examples
    --------
    >>> could_be_ldld(["1000", "1100", "0011"]), could_be_ldld(["1000", "0110"]), could_be_ldld(["A0B1", "A000"])
    (True, False, True)
    """
    if any(len(h) % 2 or set(h[1::2]) - {"0", "1"} or "." in h for h in histories):
        return False
    for h in (without_states(h, is_ldld=True) for h in histories):
        dead = [t for t in range(1, len(h), 2) if h[t] == "1"]
        if h.find("1") % 2 or len(dead) > 1 or (dead and "1" in h[dead[0] + 1 :]):
            return False
    return True


def states_in(histories: list[str], is_ldld: bool, path: str | Path) -> tuple[str, ...]:
    """Return the letters or digits that stand for states, in order.

    Examples
    --------
    >>> states_in(["A0B0", "0A00"], False, "sites.inp"), states_in(["A0B1", "A000"], True, "sites.inp")
    (('A', 'B'), ('A', 'B'))
    """
    found = tuple(sorted({c for h in histories for c in (h[::2] if is_ldld else h)} - {"0", "."}))
    if len({c.isdigit() for c in found}) > 1:
        raise InputError(
            f"{path}: states must be letters or digits, not both, but the histories have {', '.join(found)}. Rename "
            "them, or say ldld=True (--ldld) if a 1 behind each state says that a bird was found dead."
        )
    return found


def without_states(history: str, is_ldld: bool) -> str:
    """Write 1 for whatever state a bird is seen in."""
    return "".join(c if c in "0." or (is_ldld and t % 2) else "1" for t, c in enumerate(history))


class Rows(NamedTuple):
    """Checked lines, and what a user said about them."""

    lines: list[Line]
    names: tuple[str, ...]
    ldld: bool
    first_year: int
    ages: Sequence[int]
    lengths: Sequence[float] | None
    states: tuple[str, ...] = ()

    def histories(self, path: str | Path, tail: bool) -> Histories:
        """Turn each line into a row for each group that has birds on it."""
        codes, unsampled = self._codes()
        seen_in = self._seen_in(codes)
        if self.ldld and not tail:
            late = np.flatnonzero(codes[:, -1] != 0)
            if late.size:
                where = self.lines[int(late[0])].place
                raise InputError(f"{where}: recovered after the last occasion; keep the last interval, tail=True.")
            codes, seen_in = codes[:, :-1], seen_in[:, :-1]
        n = len(self.names)
        numbers = np.array(
            [[integer(c, line.place, "; give groups= if covariates follow") for c in line.columns[:n]]
             for line in self.lines]
        )  # fmt: skip
        line, group = np.nonzero(numbers)
        ages = ages_of(self.ages, n, path)
        return Histories(
            codes[line],
            years=self._years(codes.shape[1]),
            age=ages[group],
            number=numbers[line, group],
            group=group + 1,
            tail=self.ldld and tail,
            dead=self.ldld,
            labels=tuple(self.lines[i].place for i in line),
            groups=self.names,
            columns=self._covariates(line),
            lengths=self._lengths(codes.shape[1]),
            unsampled=unsampled,
            states=self.states,
            seen_in=seen_in[line],
        )

    def _covariates(self, line: Integers) -> dict[str, Any]:
        n = len(self.names)
        width = min(len(row.columns) for row in self.lines) - n
        return {f"covariate{j + 1}": np.array([self.lines[i].columns[n + j] for i in line]) for j in range(width)}

    def _seen_in(self, codes: Any) -> Any:
        """Return the state of each live encounter, from 0."""
        out = np.zeros_like(codes)
        for row, line in zip(out if self.states else [], self.lines, strict=False):
            history = line.history[::2] if self.ldld else line.history
            row[: len(history)] = [max(0, ("0", *self.states).index(c) - 1) if c != "." else 0 for c in history]
        return out

    def _codes(self) -> tuple[Any, tuple[int, ...]]:
        """Return the codes, and the occasions that are a dot in every history."""
        width = len(self.lines[0].history)
        for line in self.lines:
            if len(line.history) != width:
                raise InputError(
                    f"{line.place}: every history must have as many occasions, but this one differs from the first. "
                    "Correct that line."
                )
        dots = [t for t in range(width) if all(line.history[t] == "." for line in self.lines)]
        texts = ["".join("0" if t in dots else c for t, c in enumerate(line.history)) for line in self.lines]
        if self.states:
            texts = [without_states(text, self.ldld) for text in texts]
        parts = zip(texts, self.lines, strict=True)
        if self.ldld:
            return np.array([_ldld_codes(text, line.place) for text, line in parts]), tuple(
                t // 2 for t in dots if t % 2 == 0
            )
        return np.array([_live_codes(text, line.place) for text, line in parts]), tuple(dots)

    def _lengths(self, n_columns: int) -> Any:
        if self.lengths is None:
            return np.ones(n_columns - 1)
        given = np.asarray(self.lengths, float)
        if self.ldld and given.size == n_columns - 2:
            given = np.append(given, 1.0)
        if given.shape != (n_columns - 1,) or not (given > 0).all():
            shown = ", ".join(f"{x:g}" for x in given.flat)
            raise InputError(
                f"There must be {n_columns - 1} lengths of intervals, all positive, but got {shown}. "
                "Give the time between each occasion and the next."
            )
        return given

    def _years(self, n_columns: int) -> Any:
        """Return whole years that increase, whatever the lengths."""
        ends = np.concatenate([[0.0], np.cumsum(self._lengths(n_columns))])
        whole = np.floor(ends + 1e-9).astype(np.int64)
        return self.first_year + (whole if (np.diff(whole) > 0).all() else np.arange(n_columns))


def _live_codes(history: str, place: str) -> list[int]:
    if "." in history:
        raise InputError(
            f"{place}: a dot is read only where all histories have one, an occasion without sampling. "
            "Write 0 where a single bird was not looked for, or leave that bird out."
        )
    if set(history) - {"0", "1"}:
        raise InputError(
            f"{place}: a live history must be made of 0 and 1. For live and dead encounters choose the format "
            "mark-ldld, for states with letters mark-states."
        )
    return [int(c) for c in history]


def _ldld_codes(history: str, place: str) -> list[int]:
    """Map pairs (L_t, D_t) to codes: L_t = 1 is 1 at t; D_t = 1, dead in interval t, is 2 at t + 1."""
    if set(history) - {"0", "1"} or len(history) % 2:
        raise InputError(
            f"{place}: an LDLD history must be pairs of 0 and 1. For live encounters alone choose the format mark-live."
        )
    live, dead = [int(c) for c in history[::2]], [int(c) for c in history[1::2]]
    codes = [*live, 0]
    for t, recovered in enumerate(dead):
        if recovered:
            if any(live[t + 1 :]) or any(dead[t + 1 :]):
                raise InputError(
                    f"{place}: nothing may follow a recovery, but something follows occasion {t + 1}. "
                    "Correct that history."
                )
            codes[t + 1] = 2
    return codes
