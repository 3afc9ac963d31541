"""Goodness of fit of the Cormack-Jolly-Seber model to live histories: TEST 2 and TEST 3, as in U-CARE.

Pradel, Gimenez & Lebreton (2005, Animal Biodiversity and Conservation 28.2). TEST 3.SR asks whether newly marked birds
are seen again as often as birds marked before (transience); TEST 3.SM whether they are seen again as soon; TEST 2.CT
whether birds seen now are seen at the next occasion as often as birds known to be there but not seen (trap
dependence); TEST 2.CL whether they are seen as soon after that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from tempering.models.recapture.counts import Counts
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.spaces import ModelSpace

COMPONENTS = ("TEST 3.SR", "TEST 3.SM", "TEST 2.CT", "TEST 2.CL")
LEAST_EXPECTED = 2.0  # below it in a 2 x 2 table Fisher's exact test takes the place of chi-square
NO_AGES = (
    "These tests know no ages: where birds are marked young, differences between ages, which a fit with age classes "
    "allows for, are enough to make them fail."
)
MEANINGS = {
    "TEST 3.SR": "newly marked birds are seen again less (or more) often than birds marked before: "
    "transients, or an age effect",
    "TEST 3.SM": "newly marked birds that are seen again are seen at other times than birds marked before",
    "TEST 2.CT": "birds seen at one occasion are seen at the next one more (or less) often than others: "
    "trap dependence",
    "TEST 2.CL": "birds seen at one occasion are seen later at other times than others",
}
NO_FIDELITY = (
    "Nobody leaves the study area for good (fidelity F = 1). A bird that does looks dead here, which pulls survival "
    "down and is not seen in the intervals"
)
OFFER_OF_FIDELITY = "; fidelity='~ 1' (--fidelity) estimates F"


@dataclass(frozen=True, eq=False)
class GoodnessOfFit:
    """The components of the test, occasion by occasion."""

    parts: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Add the components up over occasions and groups; the last row is the whole test."""
        rows = []
        for name in COMPONENTS:
            mine = self.parts[self.parts["component"] == name]
            rows.append((name, float(mine["chi2"].sum()), int(mine["df"].sum())))
        rows.append(("all", sum(r[1] for r in rows), sum(r[2] for r in rows)))
        table = pd.DataFrame(rows, columns=["component", "chi2", "df"])
        table["p_value"] = [float(stats.chi2.sf(chi2, df)) if df else 1.0 for _, chi2, df in rows]
        return table

    @property
    def c_hat(self) -> float:
        """Variance inflation factor, chi-square over its degrees of freedom; at least 1 is used in practice."""
        whole = self.table().iloc[-1]
        return float(whole["chi2"] / whole["df"]) if whole["df"] else 1.0

    def __str__(self) -> str:
        table = self.table()
        whole = table.iloc[-1]
        if not whole["df"]:
            return "Goodness of fit: too few birds seen again for TEST 2 and 3."
        head = (
            f"Goodness of fit (TEST 2 + 3, time-dependent Cormack-Jolly-Seber): chi-square {whole['chi2']:.2f}, "
            f"{_counted(int(whole['df']), 'degree')} of freedom, p = {whole['p_value']:.3f}, c-hat = {self.c_hat:.2f}."
        )
        poor = table.iloc[:-1][table.iloc[:-1]["p_value"] < 0.05]
        said = [
            f"{name} fails (p = {p:.3f}): {MEANINGS[name]}."
            for name, p in zip(map(str, poor["component"]), poor["p_value"], strict=True)
        ]
        if said:
            said.append(NO_AGES)
        return "\n".join([head, *said])


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def goodness_of_fit(data: Histories) -> GoodnessOfFit:
    """Test live encounters, group by group; recoveries are left out, birds not released again count up to then."""
    rows = []
    for g, name in enumerate(data.groups, 1):
        mine = data.group == g
        lives = (data.codes[mine] == 1)[:, : data.codes.shape[1] - data.tail]
        number, removed = np.abs(data.number[mine]), data.number[mine] < 0
        for component, occasion, chi2, df, p in _components(lives, number, removed):
            rows.append((name, component, int(data.years[occasion]), chi2, df, p))
    return GoodnessOfFit(pd.DataFrame(rows, columns=["group", "component", "occasion", "chi2", "df", "p_value"]))


def _components(lives: NDArray[np.bool_], number: Any, removed: Any) -> Iterator[tuple[str, int, float, int, float]]:
    n_occasions = lives.shape[1]
    first = np.where(lives.any(axis=1), lives.argmax(axis=1), n_occasions)
    last = np.where(lives.any(axis=1), n_occasions - 1 - lives[:, ::-1].argmax(axis=1), -1)
    follow = _next_seen(lives)
    for t in range(n_occasions):
        here = lives[:, t]
        released = here & ~(removed & (last == t))
        old, again = first < t, follow[:, t] < n_occasions
        if 0 < t < n_occasions - 1:
            tables = [
                [number[released & (old == o) & (again == a)].sum() for a in (True, False)] for o in (False, True)
            ]
            yield ("TEST 3.SR", t, *chi_square_of(np.array(tables)))
        if 0 < t < n_occasions - 2:
            later = range(t + 1, n_occasions)
            sm = [[number[released & (old == o) & (follow[:, t] == s)].sum() for s in later] for o in (False, True)]
            yield ("TEST 3.SM", t, *chi_square_of(np.array(sm)))
        known = (first < t) & (last > t)  # alive at t, seen before and after
        if 0 < t < n_occasions - 2:
            ct = [
                [number[known_or_new & (lives[:, t + 1] == a)].sum() for a in (True, False)]
                for known_or_new in (known & ~here, here & (last > t))
            ]
            yield ("TEST 2.CT", t, *chi_square_of(np.array(ct)))
        if 0 < t < n_occasions - 3:
            beyond = range(t + 2, n_occasions)
            skip = ~lives[:, t + 1]
            cl = [
                [number[group & skip & (follow[:, t + 1] == s)].sum() for s in beyond]
                for group in (known & ~here, here & (last > t))
            ]
            yield ("TEST 2.CL", t, *chi_square_of(np.array(cl)))


def _next_seen(lives: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the next occasion after each at which a bird is seen; the number of occasions if never."""
    n, n_occasions = lives.shape
    out = np.full((n, n_occasions), n_occasions, np.intp)
    for t in range(n_occasions - 2, -1, -1):
        out[:, t] = np.where(lives[:, t + 1], t + 1, out[:, t + 1])
    return out


def chi_square_of(table: NDArray[Any]) -> tuple[float, int, float]:
    """Return chi-square, degrees of freedom and p-value of a table of two rows, sparse columns pooled.

    The last two columns are pooled until every expectation is 2 or more, from the other side once the last outgrows
    the first; a 2 x 2 table that stays sparse gets Fisher's exact test, turned into the chi-square with the same
    p-value, as in U-CARE.

    Examples
    --------
    >>> chi2, df, p = chi_square_of(np.array([[10, 20], [20, 10]]))
    >>> round(chi2, 3), df
    (6.667, 1)
    """
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or (table.sum(axis=1) == 0).any():
        return 0.0, 0, 1.0
    while table.shape[1] > 2 and _expected(table).min() < LEAST_EXPECTED:
        table = np.column_stack([table[:, :-2], table[:, -2] + table[:, -1]])
        if table[:, 0].sum() < table[:, -1].sum():
            table = table[:, ::-1]
    df = table.shape[1] - 1
    expected = _expected(table)
    if df == 1 and expected.min() < LEAST_EXPECTED:
        p = float(stats.fisher_exact(table)[1])
        return float(stats.chi2.isf(min(p, 1.0), 1)), 1, p
    chi2 = float(((table - expected) ** 2 / expected).sum())
    return chi2, df, float(stats.chi2.sf(chi2, df))


def _expected(table: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum())


def assumptions_of(counts: Counts, space: ModelSpace) -> list[str]:
    """List the assumptions of a study, those that its data can and cannot test."""
    said = []
    if counts.live and not counts.dead:
        said.append(
            "Survival is apparent survival: a bird that leaves the study area for good counts as dead. Without "
            "recoveries nothing in these data can tell the two apart."
        )
    elif counts.live and "F" not in space.present:
        said.append(NO_FIDELITY + (OFFER_OF_FIDELITY if counts.moves is None else "") + ".")
    if "F" in space.present:
        said.append("A bird that has left the study area for good may be found dead wherever it is, as the others are.")
    said += [
        "No ring is lost or unread.",
        "Birds are independent, and within a group and age class they are alike"
        + (": neither trap-shy nor trap-happy." if counts.live and "missed" not in counts.stages else "."),
    ]
    if counts.dead:
        said.append("A dead bird is found within the interval of its death, or never.")
    if counts.moves is not None:
        said.append("States are never mistaken; where a bird goes depends on where it is, not on where it was before.")
    if "gamma" in space.present:
        said.append(
            "Birds without a ring are caught as easily as birds with one, in a study area that stays the same. Numbers "
            "are of birds that can be caught at all, with the prior 1 / N."
        )
    if counts.live:
        said.append("Occasions are short beside the intervals between them.")
    return said
