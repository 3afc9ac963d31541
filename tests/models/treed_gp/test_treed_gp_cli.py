"""`tempering treed-gp fit` and `predict`."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tempering.errors import InputError
from tempering.models.treed_gp.cli import app

SHORT = ["--draws", "100", "--tune", "60", "--chains", "1", "--seed", "1", "--leaf", "linear"]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    a, b = rng.random(40), rng.random(40)
    table = pd.DataFrame({"a": a, "b": b, "z": 2 * a + 0.1 * rng.standard_normal(40)})
    table.to_csv(tmp_path / "data.csv", index=False)
    table.drop(columns="z").head(5).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)


@pytest.mark.slow
def test_fit_and_predict_from_files(folder):
    model, plot = folder / "model.npz", folder / "fit.png"
    done = call("fit", folder / "data.csv", "--response", "z", "--out", model, "--plot", plot, *SHORT)
    assert done.exit_code == 0, done.output
    assert "P(leaves)" in done.output
    assert plot.stat().st_size > 1000
    out = folder / "predictions.csv"
    done = call("predict", model, folder / "new.csv", "--out", out, "--quantiles", "0.1,0.9")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(out)
    assert list(table.columns) == ["a", "b", "mean", "sd", "q0.1", "q0.9"]
    assert np.all(table["q0.1"] < table["mean"])
    assert np.abs(table["mean"] - 2 * table["a"]).max() < 0.3
    printed = call("predict", model, folder / "new.csv")
    assert printed.output.startswith("a,b,mean,sd,q0.05")


def test_bad_input_is_one_clear_error(folder):
    def error(*arguments):
        result = call(*arguments)
        assert isinstance(result.exception, InputError)
        return str(result.exception)

    data, model = folder / "data.csv", folder / "model.npz"
    assert "y is missing: it has a, b, z" in error("fit", data, "--response", "y", "--out", model)
    table = pd.read_csv(data).astype(object)
    table.loc[3, "b"] = "much"
    table.to_csv(data, index=False)
    assert "line 5: b must be a finite number, but is 'much'" in error("fit", data, "--response", "z", "--out", model)
    assert "could not be read" in error("fit", folder / "none.csv", "--response", "z", "--out", model)
    assert "There is no file" in error("predict", folder / "none.npz", data, "--out", folder / "out.csv")
    (folder / "text").write_text("x")
    assert "written by the save of a treed GP" in error("predict", folder / "text", folder / "new.csv")


def test_what_cannot_be_written_is_refused_before_the_fit(folder):
    def error(*arguments):
        result = call("fit", folder / "data.csv", "--response", "z", *arguments, *SHORT, "--draws", "1000000000")
        assert isinstance(result.exception, InputError)
        return str(result.exception)

    model = folder / "model.npz"
    assert "does not exist" in error("--out", folder / "none" / "model.npz")
    assert "cannot be written" in error("--out", folder)
    assert "cannot be written as '.xyz'" in error("--out", model, "--plot", folder / "fit.xyz")
    assert "does not exist" in error("--out", model, "--plot", folder / "none" / "fit.png")
    table = pd.read_csv(folder / "data.csv").assign(c=1.0)
    table.to_csv(folder / "data.csv", index=False)
    assert "one or two input columns, but there are 3" in error("--out", model, "--plot", folder / "fit.png")


def test_blanks_after_commas(folder):
    model = folder / "model.npz"
    done = call("fit", folder / "data.csv", "--response", "z", "--out", model, "--inputs", "a, b", *SHORT)
    assert done.exit_code == 0, done.output


def test_columns_of_text_are_categories(folder):
    model, out = folder / "model.npz", folder / "predictions.csv"
    table = pd.read_csv(folder / "data.csv")
    table.insert(0, "kind", np.where(np.arange(len(table)) % 2, "red", "blue"))
    table["z"] += 10.0 * (table["kind"] == "red")
    table.to_csv(folder / "data.csv", index=False)
    done = call("fit", folder / "data.csv", "--response", "z", "--out", model, *SHORT, "--draws", "600")
    assert done.exit_code == 0, done.output
    assert "kind=red" in done.output
    new = pd.read_csv(folder / "new.csv").assign(kind=["red", "blue", "red", "blue", "red"])
    new.to_csv(folder / "new.csv", index=False)
    done = call("predict", model, folder / "new.csv", "--out", out)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(out)
    np.testing.assert_allclose(found["mean"], 2 * found["a"] + 10.0 * (found["kind"] == "red"), atol=0.3)
    new.assign(kind="green").to_csv(folder / "new.csv", index=False)
    assert "kind has the category 'green'" in str(call("predict", model, folder / "new.csv").exception)
