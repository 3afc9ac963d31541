"""The README's quickstart is short, runs, and prints what the README says."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()
QUICKSTART = re.search(r"^## Quickstart$.*?^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]


def test_the_readme_opens_with_the_two_commands():
    opening = README[: README.index("## ")]
    assert opening.index("make demo") < opening.index("make test")


def test_the_quickstart_has_at_most_twenty_lines():
    assert len(QUICKSTART.splitlines()) <= 20


def test_the_quickstart_runs_and_finds_the_mass_of_a_mode(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "quickstart"}
    exec(compile(QUICKSTART, "README.md", "exec"), names)
    estimate = names["upper"]
    assert abs(estimate.value - 0.3) < 5 * estimate.standard_error < 0.15
    assert "sound" in capsys.readouterr().out
