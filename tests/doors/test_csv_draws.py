"""Draws from a file: numbers as by `tempering.combine`, and every mistake named with its place."""

import io

import numpy as np
import pytest
from rich.console import Console

import tempering as tp
from tempering.doors.csv_draws import combine_csv
from tempering.errors import InputError
from tempering.problems import mixture, skewed

PROBLEM = mixture()
COLUMNS = {"energy": "energy", "inverse_temperature": "k", "values": ["x", " right"]}


def write(path, k, x, energy):
    table = np.column_stack([x, energy, k, x > 0])
    np.savetxt(path, table, delimiter=",", header="x,energy, k ,right", comments="", fmt="%.17g")
    return path


def draws_at(ladder, n=500, problem=PROBLEM):
    rng = np.random.default_rng(8)
    k = rng.permutation(np.repeat(ladder, n))
    x = np.empty(len(k))
    for each in ladder:
        x[k == each] = np.ravel(problem.sample(rng, n, each))
    return k, x, problem.log_density(x if problem is PROBLEM else x[:, None])


def test_the_estimates_are_those_of_combine(tmp_path):
    k, x, energy = draws_at([1.0, 0.3, 0.1])
    found = combine_csv(write(tmp_path / "draws.csv", k, x, energy), **COLUMNS)
    rung = np.array([[1.0, 0.3, 0.1].index(v) for v in k])
    for combination in found.combinations:
        expected = tp.combine(
            np.column_stack([x, x > 0]), None, rung, combination.rule,
            energy=energy, inverse_temperatures=[1.0, 0.3, 0.1],
        )  # fmt: skip
        np.testing.assert_allclose(combination.estimate, expected.estimate, rtol=1e-12)
        np.testing.assert_allclose(combination.standard_error, expected.standard_error, rtol=1e-9)
    assert [c.rule for c in found.combinations] == list(tp.estimators.RULES)
    assert found.visits.tolist() == [500, 500, 500]
    assert found.names == ("x", "right")


def test_without_cold_draws_the_other_rules_still_answer(tmp_path):
    found = combine_csv(write(tmp_path / "warm.csv", *draws_at([0.8, 0.5])), **COLUMNS)
    assert "cold_only" not in [c.rule for c in found.combinations]
    assert found.visits.tolist() == [0, 500, 500]
    assert found.advice.startswith("No draw has k = 1")
    assert all(abs(c.estimate[1] - 0.4) < 0.15 for c in found.combinations)


def test_the_advice_depends_on_the_weights(tmp_path):
    sound = combine_csv(write(tmp_path / "sound.csv", *draws_at([1.0, 0.5])), **COLUMNS)
    assert "all 2 rungs can be trusted" in sound.advice
    k, x, _ = draws_at([1.0, 0.5])
    heavy = np.where(k == 1.0, 0.0, np.random.default_rng(1).standard_exponential(len(k)) * 8)
    mixed = combine_csv(write(tmp_path / "mixed.csv", k, x, heavy), **COLUMNS)
    assert "1 of 2 rungs cannot be trusted" in mixed.advice
    hopeless = combine_csv(write(tmp_path / "hopeless.csv", np.full(len(k), 0.1), x, 8 * heavy), **COLUMNS)
    assert "no rung can be trusted" in hopeless.advice


def test_both_tables_and_the_advice_are_printed(tmp_path):
    console = Console(file=io.StringIO(), width=160)
    found = combine_csv(write(tmp_path / "draws.csv", *draws_at([1.0, 0.3])), **COLUMNS)
    found.print(console)
    text = console.file.getvalue()
    for part in (*tp.estimators.RULES, "x", "right", "k-hat", "ESS", "standard error", found.advice):
        assert part in text
    quiet = Console(file=io.StringIO(), width=160)
    found.print(quiet, notes=False)
    assert found.advice not in quiet.file.getvalue()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("x,energy,k,right\n", "a header only"),
        ("x,energy,k\n1,2,1\n", "must have a column 'right', but its columns are 'x', 'energy', 'k'"),
        ("x,energy,k,right\n1,2,1,0\n1,oops,1,0\n", "'energy'.* row 2 has 'oops'"),
        ("x,energy,k,right\n1,2,1,0\n1,2,1,\n", "'right'.* row 2 has ''"),
        ("x,energy,k,right\n1,2,1,0\n1,2,1\n", "'right'.* row 2 has ''"),
        ("x,energy,k,right\n1,2,1,0\n1,inf,1,0\n", "'energy'.* row 2 has 'inf'"),
        ("x,energy,k,right\n1,2,1,0\n1,2,1.5,0\n", r"\[0, 1\], but row 2 of column 'k' has 1.5"),
        ("x,energy,k,right\n1,2,-0.1,0\n", r"\[0, 1\], but row 1 of column 'k' has -0.1"),
        ("x,energy,k,right\n1,2,1,0,7\n", "as many fields in each row"),
        ("x,energy,k,right\n1,2,1,0\n1,2,1,0,7\n", "as many fields in each row"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(tmp_path, text, message):
    path = tmp_path / "draws.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        combine_csv(path, **COLUMNS)


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        combine_csv(tmp_path / "missing.csv", **COLUMNS)
    with pytest.raises(InputError, match="must be a readable file"):
        combine_csv(tmp_path, **COLUMNS)
    (tmp_path / "binary.csv").write_bytes(bytes(range(128, 256)) * 10)
    with pytest.raises(InputError, match="must be a CSV file in UTF-8"):
        combine_csv(tmp_path / "binary.csv", **COLUMNS)


def test_temperatures_without_rungs_are_refused(tmp_path):
    k = np.linspace(0.1, 0.9, 1200)
    with pytest.raises(InputError, match="at most 1000 inverse temperatures"):
        combine_csv(write(tmp_path / "draws.csv", k, k, k), **COLUMNS)


def test_a_skewed_target_is_estimated_within_its_error(tmp_path):
    problem = skewed(1)
    path = write(tmp_path / "draws.csv", *draws_at([1.0, 0.7, 0.4], 4000, problem))
    for found in combine_csv(path, **COLUMNS).combinations:
        assert abs(found.estimate[0] - problem.mean[0]) < 6 * found.standard_error[0]
