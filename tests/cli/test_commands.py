"""The command line: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
from typer.testing import CliRunner

import tempering
from tempering.cli import commands as cli
from tempering.cli import warming
from tempering.errors import InputError, TemperingError
from tempering.experiments import Report, Row

RUNNER = CliRunner()


def run(*arguments):
    return RUNNER.invoke(cli.app, list(arguments))


def as_a_process(*arguments):
    command = [sys.executable, "-c", "from tempering.cli.commands import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def draws_file(tmp_path):
    rng = np.random.default_rng(3)
    k = np.tile([1.0, 0.5], 500)
    x = rng.standard_normal(1000) / np.sqrt(k) + 2
    path = tmp_path / "draws.csv"
    table = np.column_stack([k, -0.5 * (x - 2) ** 2, x])
    np.savetxt(path, table, delimiter=",", header="k,energy,x", comments="")
    return path


def test_the_version_is_printed():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.startswith("tempering 0.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("demo", "reproduce", "combine", "sample", "report", "treed-gp", "recapture", "select")),
        (("treed-gp",), ("fit", "predict")),
        (("treed-gp", "fit"), ("--response",)),
        (("recapture", "fit"), ("--age-classes",)),
        (("select",), ("--response",)),
        (("sample",), ("--initial", "--tune", "--engine", "--output")),
    ],
)
def test_help_needs_nothing_of_what_the_commands_need(arguments, words):
    code = (
        f"import sys; sys.argv = ['tempering', *{arguments!r}, '--help']\n"
        "sys.modules['sklearn'] = None\n"
        "from tempering.cli.commands import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'jax', 'blackjax', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


def test_warming_up_runs_every_part_and_says_where_programs_are(monkeypatch, tmp_path):
    ran = []

    def missing():
        raise ModuleNotFoundError("No module named 'sklearn'")

    monkeypatch.setattr(warming, "PARTS", {"first": lambda: ran.append(1), "not installed": missing})
    monkeypatch.setenv("TEMPERING_CACHE", str(tmp_path))
    result = run("warm-up")
    assert (result.exit_code, ran) == (0, [1])
    assert result.output.startswith("first ")
    assert "not installed" not in result.output
    assert str(tmp_path) in result.output
    assert run("--quiet", "warm-up").output.count("\n") == 1
    monkeypatch.setenv("TEMPERING_CACHE", "off")
    assert "are not kept" in run("warm-up").output


def test_warming_up_can_clear_what_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("TEMPERING_CACHE", str(tmp_path))
    kept = warming.kept_programs()
    kept.put("one", b"machine code")
    assert run("warm-up", "--clear").output == "Compiled programs removed: 1.\n"
    assert list(kept.files()) == []


COMPILED = """
import sys
from numba.core import event
from tempering.cli import warming

class Listener(event.Listener):
    def on_start(self, event):
        found.append(event.data["dispatcher"].py_func)

    def on_end(self, event):
        pass

found = []
event.register("numba:compile", Listener())
warming.PARTS[sys.argv[1]]()
print(*(f.__qualname__ for f in found if f.__module__.startswith("tempering.") and f.__module__ != warming.__name__))
"""


def compiled(part, folder):
    """Run a part in a new process with a cache of its own; return which functions of the package it compiled."""
    kept = os.environ | {"NUMBA_CACHE_DIR": str(folder), "TEMPERING_CACHE": str(folder / "programs")}
    done = subprocess.run([sys.executable, "-c", COMPILED, part], env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.long
@pytest.mark.parametrize("part", list(warming.PARTS))
def test_what_was_warmed_up_is_not_compiled_again(part, tmp_path):
    assert compiled(part, tmp_path)  # control: it is compiled once
    assert compiled(part, tmp_path) == []


def test_table_1_is_printed_and_written(tmp_path):
    path = tmp_path / "rows.json"
    result = run("reproduce", "table1", "--json", str(path))
    assert result.exit_code == 0
    assert "k* 1/16" in result.output
    assert "Exact" in result.output
    rows = json.loads(path.read_text())
    assert rows[0]["quantity"] == "k* 1/16"
    assert set(rows[0]) == {"quantity", "paper", "ours", "spread"}
    assert json.loads(run("reproduce", "table1", "--json", "-").output) == rows


@pytest.mark.parametrize("arguments", [("--quiet", "reproduce", "table1"), ("reproduce", "table1", "--quiet")])
def test_quiet_leaves_out_the_notes(arguments):
    result = run(*arguments)
    assert "k* 1/16" in result.output
    assert "Exact" not in result.output


@pytest.mark.long
def test_table_2_takes_its_size_from_the_options():
    result = run("reproduce", "table2", "--runs", "2", "--draws", "4000")
    assert result.exit_code == 0, result.output
    assert "2 runs of 4000 draws" in result.output
    assert "ESS ess_optimal" in result.output


@pytest.mark.slow
def test_the_demo_prints_a_table_and_where_its_picture_is(tmp_path, monkeypatch):
    from tempering.experiments import demo

    for name, value in {"n_runs": 2, "n_draws": 4000, "n_tune": 6400}.items():
        monkeypatch.setitem(demo.run.__kwdefaults__, name, value)
    result = run("demo", "--folder", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "K-S mean" in result.output
    assert str(tmp_path / demo.FILE_NAME) in result.output
    assert (tmp_path / demo.FILE_NAME).exists()


def test_combine_prints_estimates_by_every_rule_and_advice(draws_file):
    options = ["--energy", "energy", "--inverse-temperature", "k", "--values", "x"]
    result = run("combine", str(draws_file), *options)
    assert result.exit_code == 0, result.output
    for part in ("cold_only", "pooled", "ess_optimal", "screened", "mbar", "k-hat", "can be trusted"):
        assert part in result.output
    assert "can be trusted" not in run("combine", str(draws_file), *options, "--quiet").output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "table3"], "no experiment 'table3': choose one of table1, table2"),
        (["reproduce", "table1", "--runs", "3"], "'table1' has no --runs"),
        (["reproduce", "table2", "--draws", "5"], "but got 100 of 5"),
        (["reproduce", "table1", "--json", "/no/such/folder/rows.json"], "cannot be written"),
        (["combine", "FILE", "--energy", "e", "--inverse-temperature", "k", "--values", "x"], "a column 'e'"),
        (
            ["combine", "no.csv", "--energy", "e", "--inverse-temperature", "k", "--values", "x"],
            "No such file",
        ),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(arguments, message, draws_file):
    done = as_a_process(*[str(draws_file) if a == "FILE" else a for a in arguments])
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("tempering: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_unknown_option_ends_with_status_2_and_no_traceback():
    done = as_a_process("reproduce", "table1", "--nonsense")
    assert done.returncode == 2
    assert "--nonsense" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bug_is_not_taken_for_bad_input(monkeypatch):
    def fail():
        raise ZeroDivisionError

    monkeypatch.setattr("tempering.experiments.table1.run", fail)
    assert isinstance(run("reproduce", "table1").exception, ZeroDivisionError)


def test_a_missing_experiment_is_named(monkeypatch):
    monkeypatch.setitem(cli.EXPERIMENTS, "elsewhere", "An experiment that was not shipped.")
    with pytest.raises(InputError, match="'elsewhere' is not part of this installation"):
        raise run("reproduce", "elsewhere").exception


def test_an_experiment_gets_only_the_settings_it_has(monkeypatch):
    seen = {}

    def experiment(n_draws=1):
        seen["n_draws"] = n_draws
        return Report("Other", (Row("q", None, 1.0),))

    monkeypatch.setattr(cli, "_experiment", lambda name: experiment)
    assert run("reproduce", "other", "--draws", "7").exit_code == 0
    assert seen == {"n_draws": 7}


def test_models_are_mounted_when_they_are_installed(monkeypatch):
    import typer

    model = typer.Typer()

    @model.callback()
    def options() -> None:
        """Do nothing."""

    @model.command()
    def fit(size: int = 1) -> None:
        typer.echo(f"fitted {size}")

    monkeypatch.setitem(cli.MODELS, "pond", ("tempering.models.pond.cli", "Fit a pond."))
    assert "pond" not in run("--help").output
    assert run("pond", "fit").exit_code == 2
    monkeypatch.setattr(cli, "_is_installed", lambda module: module.endswith("pond.cli"))
    assert "Fit a pond." in run("--help").output
    monkeypatch.setitem(sys.modules, "tempering.models.pond.cli", types.SimpleNamespace(app=model))
    assert run("pond", "fit", "--size", "3").output == "fitted 3\n"


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "bumps.py"
    path.write_text(
        "import jax.numpy as jnp\n"
        "def log_density(x):\n"
        "    return jnp.logaddexp(-2 * (x + 4) ** 2, -0.5 * (x - 4) ** 2)\n"
    )
    return path


@pytest.mark.slow
def test_a_file_is_sampled_and_its_run_reported(model_file, tmp_path):
    import tempering as tp
    from tempering.runs.stored import load

    run_path, settings = tmp_path / "bumps.zarr", ["--draws", "400", "--tune", "320", "--chains", "2", "--seed", "3"]
    options = ["-o", str(run_path), "--initial", "-4", "--ladder", "1,0.3,0.05", *settings]
    result = run("sample", f"{model_file}:log_density", *options)
    assert result.exit_code == 0, result.output
    assert str(run_path) in result.output
    assert "The run " in result.output  # the verdict
    draws = load(run_path)
    assert isinstance(draws, tp.TemperedDraws)
    assert draws.rung.shape == (2, 400)
    assert list(draws.ladder) == [1.0, 0.3, 0.05]
    assert f"{draws.summary().loc['x', 'mean']:.4g}" in result.output
    page = (tmp_path / "bumps.html").read_text()
    assert page.startswith("<!doctype html>")
    again = run("report", str(run_path), "-o", str(tmp_path / "again.html"))
    assert again.exit_code == 0, again.output
    assert str(tmp_path / "again.html") in again.output
    drawn = [text.split("<body>")[1].count("<svg") for text in (page, (tmp_path / "again.html").read_text())]
    assert drawn[0] == drawn[1] > 10


def test_the_options_of_sample_are_those_of_the_function():
    """Under the same names, but for those that a command line calls otherwise, or cannot have."""
    import inspect

    import typer

    import tempering as tp

    command = typer.main.get_command(cli.app).commands["sample"]
    options = {parameter.name for parameter in command.params}
    otherwise = {"rng": "seed", "executor": "workers", "progress": "quiet", "iterations": "tune"}
    of_python = {"until", "keep", "devices"}  # functions, and objects of JAX
    of_python |= {"hottest"}  # of model objects
    of_python |= {"tuning", "execution", "moved"}  # values made of options, and earlier names
    groups = (tp.sample, tp.Tuning, tp.Execution)
    for name in [name for group in groups for name in inspect.signature(group).parameters]:
        assert otherwise.get(name, name) in options or name in of_python, name
    assert {"output", "report", "kernel", "path", "checkpoint"} <= options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "FILE"], "must be given as MODULE:FUNCTION"),
        (["sample", "FILE:other"], "has no 'other'; it has log_density"),
        (["sample", "FILE:log_density"], "pass initial"),
        (["sample", "FILE:log_density", "--initial", "here"], "in JSON, but got 'here'"),
        (["sample", "FILE:log_density", "--initial", "0", "--method", "boiled"], "method must be one of"),
        (["sample", "FILE:log_density", "--initial", "0", "--kernel", "best"], "but got 'best'."),
        (["sample", "FILE:log_density", "--initial", "0", "--path", "best"], "but got 'best'."),
        (["report", "nothing.zarr"], "must be a run written by save"),
    ],
)
def test_bad_input_to_sample_and_report_is_one_line(arguments, message, model_file):
    found = run(*[a.replace("FILE", str(model_file)) for a in arguments]).exception
    assert isinstance(found, TemperingError)
    assert message.lower() in str(found).lower()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("def f(x)\n    return 0\n", [], "bad.py, line 1: SyntaxError"),
        ("import no_such_package\ndef f(x):\n    return 0\n", [], "line 1, in <module>: ModuleNotFoundError"),
        ("def f():\n    return [][0]\n", [], "line 2, in f: IndexError"),
        ("def f(x):\n    return {}['a']\n", ["--initial", "0"], "raised KeyError: 'a'"),
        ("def f(x):\n    return -x * x\n", ["--initial", "0", "-o", "/no/such/folder/run.zarr"], "no folder /no/such"),
        ("def f(x):\n    return -x * x\n", ["--initial", "0", "-o", "HERE"], "holds something other than a run"),
        ("def f(x):\n    return -x * x\n", ["--initial", "0", "--report", "HERE"], "is a folder"),
    ],
)
def test_what_is_wrong_with_a_file_or_a_place_is_said_before_the_run(text, arguments, message, tmp_path):
    (tmp_path / "bad.py").write_text(text)
    places = [str(tmp_path) if a == "HERE" else a for a in arguments]
    if "-o" not in places:
        places += ["-o", str(tmp_path / "run.zarr")]
    found = run("sample", f"{tmp_path}/bad.py:f", *places).exception
    assert isinstance(found, TemperingError)
    assert message in str(found)
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize("command", [("treed-gp", "fit", "no.csv", "--out", "m"), ("select", "no.csv")])
def test_a_model_that_needs_more_says_so_before_it_reads_anything(monkeypatch, command):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    found = run(*command, "--response", "y").exception
    assert isinstance(found, InputError)
    assert "needs sklearn, which is not installed. Run: pip install 'tempering[models]'" in str(found)


@pytest.mark.parametrize("name", ["TreedGP", "VariableSelection"])
def test_a_model_that_needs_more_says_so_when_it_is_imported(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=rf"tempering\.models\.{name} needs sklearn, which is not installed"):
        getattr(tempering.models, name)
