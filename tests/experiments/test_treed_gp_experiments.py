"""The two treed-GP experiments, short."""

import numpy as np
import pytest

from tempering.experiments import exponential, motorcycle


def test_motorcycle_sets_the_papers_figures_beside_ours(tmp_path):
    report = motorcycle.run(n_draws=3000, rng=1, folder=tmp_path)
    assert report["ESS ess_optimal"].paper == 9338
    assert report["T_1"].ours > 0
    assert sum(report[f"P({i} leaves), all rungs"].ours for i in range(1, 6)) == pytest.approx(1.0, abs=0.05)
    assert report.figure is not None
    assert report.figure.stat().st_size > 10_000
    assert any("number of parameters" in note for note in report.notes)


def test_the_exponential_data_are_the_usual_ones():
    x, y, x_test, truth = exponential.load()
    assert x.shape == (80, 2)
    assert x_test.shape == (361, 2)
    assert np.sum((x <= 2).all(axis=1)) == 50
    assert np.std(y - exponential.true_function(x)) == pytest.approx(0.001, rel=0.3)
    assert truth == pytest.approx(exponential.true_function(x_test))


@pytest.mark.long
def test_exponential_predicts_well(tmp_path):
    report = exponential.run(n_draws=20_000, rng=1, folder=tmp_path)
    assert report["RMSE, tempered"].ours < 0.01
    assert report["coverage of 90 %, tempered"].ours > 0.7
