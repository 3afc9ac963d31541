"""TEST 2 and 3 on the European dipper, with the figures that U-CARE and R2ucare print for it."""

import numpy as np
import pytest
from dipper_histories import FEMALES, MALES, dipper
from scipy import stats

from statistical import seeded_rng
from tempering.models.recapture import Histories, goodness_of_fit
from tempering.models.recapture.goodness import chi_square_of

PUBLISHED = {
    "females": (
        FEMALES,
        {"TEST 3.SR": (4.985, 5), "TEST 3.SM": (2.041, 3), "TEST 2.CT": (3.250, 4), "all": (10.276, 12)},
    ),
    "males": (MALES, {"TEST 3.SR": (6.778, 5), "TEST 2.CT": (4.284, 2), "TEST 2.CL": (0.0, 0), "all": (11.062, 9)}),
}


@pytest.mark.parametrize("sex", PUBLISHED)
def test_the_dipper_has_its_published_components(sex):
    histories, published = PUBLISHED[sex]
    table = goodness_of_fit(dipper(histories)).table().set_index("component")
    for component, (chi2, df) in published.items():
        assert table.loc[component, "chi2"] == pytest.approx(chi2, abs=1.1e-3)
        assert table.loc[component, "df"] == df


def test_groups_are_tested_apart_and_added_up():
    whole = goodness_of_fit(dipper(FEMALES, MALES))
    assert whole.table().iloc[-1]["chi2"] == pytest.approx(10.276 + 11.062, abs=2e-3)
    assert whole.c_hat == pytest.approx((10.276 + 11.062) / 21, abs=1e-3)
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
