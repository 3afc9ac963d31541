"""Progress: what is shown while a run goes on is what the finished run says."""

import io
import sys
import types

import pytest
from rich.console import Console

import tempering as tp
from tempering.path import Path
from tempering.sampling import progress


class Listener:
    def __init__(self):
        self.lines, self.shown, self.done = [], [], 0

    def __call__(self, done, line):
        self.done += done
        self.lines.append(line)

    def show(self, status):
        self.shown.append(status)


def test_the_status_is_that_of_the_draws_so_far():
    listener = Listener()
    target = tp.Target(lambda x: -0.5 * x**2)
    run = tp.sample(target, initial=0.0, ladder=[1, 0.5, 0.2], draws=640, tuning=tp.Tuning(320), rng=1, progress=False)
    watch = progress.Watch(listener, "some engine", run.path, run.n_chains)
    for start in range(0, 640, 64):
        watch.see(run.rung[:, start : start + 64], run.terms[:, start : start + 64])
    assert len(listener.shown) == 10
    assert listener.shown[-1].endswith(" round trips, 3 rungs, some engine")
    assert f"{run.n_round_trips:,} round trips" in listener.shown[-1]
    assert watch.ess == pytest.approx(run.ess("ess_optimal"), rel=1e-6)  # here all rungs can be trusted
    assert listener.shown[-1].startswith(f"ESS {watch.ess:,.0f}, ")  # how a narrow terminal shows it


def test_nobody_pays_for_what_nobody_sees():
    watch = progress.Watch(lambda done, line: None, "engine", Path.powers(tp.Ladder([1.0, 0.5])), 2)
    watch.see(None, None)
    assert watch.ess == 0.0


def test_on_a_terminal_there_is_a_bar_with_its_status(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    with progress.bar(10, title="a title") as report:
        report(5, "a line")
        report.show("a status")
        report(4, "")
    text = screen.getvalue()
    assert all(part in text for part in ("a title", "a line", "a status", "left"))


def test_in_a_notebook_one_line_is_replaced_and_goes_in_the_end(monkeypatch):
    shown = []

    class Handle:
        def update(self, line):
            shown.append(line.data)

    def display(line, display_id):
        shown.append(line.data)
        return Handle()

    HTML = type("HTML", (), {"__init__": lambda self, data: setattr(self, "data", data)})
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(HTML=HTML, display=display))
    monkeypatch.setattr(progress, "BETWEEN", -1.0)
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(force_jupyter=True))
    with progress.bar(10, title="a title") as report:
        report(5, "a line & more")
        report.show("a status")
    assert [part in shown[1] for part in ("a title", 'value="0.500"', "s left", "a line &amp; more")] == [True] * 4
    assert "a status" in shown[2]
    assert shown[-1] == ""


def test_without_a_terminal_there_is_silence(capsys):
    with progress.bar(10) as report:
        report(5, "a line")
    assert capsys.readouterr() == ("", "")
