"""TEST 2 and 3 on the European dipper: the figures that R2ucare prints and tests, and tables counted by hand."""

import numpy as np
import pytest
from dipper_histories import FEMALES, MALES, dipper
from scipy import stats

from statistical import seeded_rng
from tempering.models.recapture import Histories, goodness_of_fit
from tempering.models.recapture.goodness import chi_square_of

PUBLISHED = {  # package R2ucare (Gimenez et al. 2018): females, its vignette; males, its tests (test3sr, test2cl)
    "females": (
        FEMALES,
        {"TEST 3.SR": (4.985, 5), "TEST 3.SM": (2.041, 3), "TEST 2.CT": (3.250, 4), "TEST 2.CL": (0.0, 0),
         "all": (10.276, 12)},
    ),
    "males": (MALES, {"TEST 3.SR": (6.778, 5), "TEST 2.CL": (0.0, 0)}),
}  # fmt: skip
BY_OCCASION = {  # of females, in the same vignette
    "TEST 3.SR": (0.858, 3.586, 0.437, 0.103, 0.001),
    "TEST 3.SM": (1.542, 0.0, 0.499),
    "TEST 2.CT": (0.0, 0.0, 0.0, 3.25),
}


@pytest.mark.parametrize("sex", PUBLISHED)
def test_the_dipper_has_its_published_components(sex):
    histories, published = PUBLISHED[sex]
    table = goodness_of_fit(dipper(histories)).table().set_index("component")
    for component, (chi2, df) in published.items():
        assert table.loc[component, "chi2"] == pytest.approx(chi2, abs=1.1e-3)
        assert table.loc[component, "df"] == df


@pytest.mark.parametrize("component", BY_OCCASION)
def test_every_occasion_has_its_published_chi_square(component):
    parts = goodness_of_fit(dipper(FEMALES)).parts
    mine = parts[(parts["component"] == component) & (parts["df"] > 0)]
    np.testing.assert_allclose(mine["chi2"], BY_OCCASION[component], atol=6e-4)


def test_c_hat_is_that_of_the_published_figures():
    assert goodness_of_fit(dipper(FEMALES)).c_hat == pytest.approx(10.276 / 12, abs=1e-4)


def counted(histories, is_row, is_column, t):
    """Count a 2 x 2 table of histories, written as text."""
    table = np.zeros((2, 2), int)
    for history, n in histories.items():
        row, column = is_row(history, t), is_column(history, t)
        if row is not None and column is not None:
            table[0 if row else 1, 0 if column else 1] += n
    return table


def newly_marked(history, t):
    return None if history[t] == "0" else "1" not in history[:t]


def seen_again(history, t):
    return "1" in history[t + 1 :]


def missed_now(history, t):
    """Of birds seen at t or known to be there; None for all others."""
    known = "1" in history[:t] and "1" in history[t + 1 :]
    if history[t] == "1" and "1" in history[t + 1 :]:
        return False
    return True if known and history[t] == "0" else None


def seen_next(history, t):
    return history[t + 1] == "1"


BY_HAND = {  # component: how its 2 x 2 tables are counted, and at which of the seven occasions (from 0)
    "TEST 3.SR": (newly_marked, seen_again, range(1, 6)),
    "TEST 2.CT": (missed_now, seen_next, range(1, 5)),
}


@pytest.mark.parametrize("histories", [FEMALES, MALES], ids=["females", "males"])
@pytest.mark.parametrize("component", BY_HAND)
def test_tables_counted_from_the_text_of_histories_give_the_same(histories, component):
    is_row, is_column, occasions = BY_HAND[component]
    total, df = 0.0, 0
    for t in occasions:
        table = counted(histories, is_row, is_column, t)
        if (table.sum(axis=0) == 0).any() or (table.sum(axis=1) == 0).any():
            continue
        test = stats.chi2_contingency(table, correction=False)
        p = stats.fisher_exact(table)[1] if test.expected_freq.min() < 2 else test.pvalue
        total, df = total + stats.chi2.isf(p, 1), df + 1
    found = goodness_of_fit(dipper(histories)).table().set_index("component").loc[component]
    assert (found["chi2"], found["df"]) == (pytest.approx(total, abs=1e-9), df)


def test_groups_are_tested_apart_and_added_up():
    whole = goodness_of_fit(dipper(FEMALES, MALES))
    apart = [goodness_of_fit(dipper(sex)).table().iloc[-1] for sex in (FEMALES, MALES)]
    assert whole.table().iloc[-1]["chi2"] == pytest.approx(sum(one["chi2"] for one in apart), abs=1e-12)
    assert whole.c_hat == pytest.approx(sum(a["chi2"] for a in apart) / sum(a["df"] for a in apart), abs=1e-12)
    assert "c-hat = 1.02" in str(whole)


def test_a_table_that_is_not_sparse_gets_pearsons_chi_square():
    table = seeded_rng("table").integers(8, 30, (2, 4))
    chi2, df, p = chi_square_of(table)
    expected = stats.chi2_contingency(table, correction=False)
    assert (chi2, df, p) == (pytest.approx(expected.statistic), expected.dof, pytest.approx(expected.pvalue))


def simulated(rng, *, transients=0.0, happy=0.0, n=400, n_occasions=7):
    """Histories with transients (seen once) or trap-happy birds (seen again more often right after a capture)."""
    codes = np.zeros((n * (n_occasions - 1), n_occasions), int)
    for i in range(len(codes)):
        start = i // n
        codes[i, start] = 1
        if rng.random() < transients:
            continue
        for t in range(start + 1, n_occasions):
            if rng.random() > 0.7:
                break
            codes[i, t] = rng.random() < 0.4 + happy * codes[i, t - 1]
    return Histories(codes, years=range(n_occasions), dead=False)


def test_each_component_sees_what_it_is_for_and_not_what_it_is_not():
    rng = seeded_rng("goodness")
    sound = goodness_of_fit(simulated(rng)).table().set_index("component")["p_value"]
    assert sound.min() > 1e-6
    transients = goodness_of_fit(simulated(rng, transients=0.4))
    table = transients.table().set_index("component")["p_value"]
    assert table["TEST 3.SR"] < 1e-9
    assert table["TEST 2.CT"] > 1e-6
    assert "TEST 3.SR fails" in str(transients)
    happy = goodness_of_fit(simulated(rng, happy=0.3)).table().set_index("component")["p_value"]
    assert happy["TEST 2.CT"] < 1e-9
    assert happy["TEST 3.SR"] > 1e-6
