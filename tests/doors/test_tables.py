"""Weighted draws for other tools: the same means as ours, and no draw without its weight."""

import numpy as np
import pytest

from exact_runs import exact_run
from tempering.doors import tables
from tempering.errors import InputError
from tempering.runs.notebook import diagnosis_html, evidence_html, run_html


@pytest.fixture(scope="module")
def run():
    return exact_run("tables")


def test_a_table_has_weights_that_give_our_means(run):
    table = tables.to_pandas(run)
    name = next(iter(tables.columns_of(run)))
    assert table["weight"].sum() == pytest.approx(1.0)
    assert float((table["weight"] * table[name]).sum()) == pytest.approx(run.summary()["mean"].iloc[0], rel=1e-10)
    assert float(table[name].mean()) != pytest.approx(run.summary()["mean"].iloc[0], rel=1e-6)  # control: unweighted
    assert set(table) >= {"weight", "rung", "energy", "chain", "draw"}
    assert len(tables.to_pandas(run, every=True)) == run.rung.size


def test_chain_files_of_getdist_hold_weights_and_log_densities(run, tmp_path):
    text, names = tables.write_getdist(run, tmp_path / "chain")
    rows = np.loadtxt(text)
    columns = tables.columns_of(run)
    assert rows.shape[1] == 2 + len(columns)
    assert names.read_text().split()[0] == next(iter(columns))
    mean = np.sum(rows[:, 0] * rows[:, 2]) / rows[:, 0].sum()
    assert mean == pytest.approx(run.summary()["mean"].iloc[0], rel=1e-6)
    with pytest.raises(InputError, match="must be writable"):
        tables.write_getdist(run, tmp_path / "nowhere" / "chain")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", ["getdist", "anesthetic"])
def test_packages_that_know_weights_give_our_means(run, package):
    pytest.importorskip(package)
    first = next(iter(tables.columns_of(run)))
    made = getattr(tables, f"to_{package}")(run)
    mean = made.mean(first) if package == "getdist" else made[first].mean()
    assert float(mean) == pytest.approx(run.summary()["mean"].iloc[0], rel=1e-8)


@pytest.mark.parametrize(("module", "call"), [("getdist", "to_getdist"), ("anesthetic", "to_anesthetic")])
def test_what_is_missing_is_named(run, module, call, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(InputError, match=rf"needs {module}, which is not installed. Run: pip install"):
        getattr(tables, call)(run)


def test_a_run_shows_itself_in_a_notebook(run):
    page = run_html(run)
    assert page == run._repr_html_()
    assert "<table" in page
    assert ("looks sound" in page) or ("needs attention" in page)
    assert f"{run.log_evidence().value:.4f}" in page
    assert evidence_html(run.log_evidence()) == run.log_evidence()._repr_html_()
    assert diagnosis_html(run.diagnose()) == run.diagnose()._repr_html_()
    assert "dtype" not in page


def test_pairs_are_drawn_for_every_number(run):
    import matplotlib.pyplot as plt

    from tempering import plots

    plt.switch_backend("Agg")
    names = plots.numbers_of(run)
    figure = plots.plot_pairs(run, [names[0], names[0]])
    assert sum(ax.get_visible() for ax in figure.axes) == 3
    plt.close("all")
    with pytest.raises(InputError, match="holds 1 to 8 numbers, but got 0"):
        plots.plot_pairs(run, [])
