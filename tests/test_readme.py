"""The README's quickstart is short, runs, and prints what the README says."""

import re
from pathlib import Path

from scipy.stats import norm

README = (Path(__file__).parents[1] / "README.md").read_text()
QUICKSTART = re.search(r"^## Quickstart$.*?^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]


PRINTED = re.search(r"^It prints:\n\n```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?(?:\.\.\.)?")


def differences(shown, printed):
    """Return lines that differ in their words, or in a number by more than a seventh (and 0.1): seeds, not chance."""
    found = []
    lines = [[line.split() for line in text.strip().splitlines()] for text in (shown, printed)]
    if len(lines[0]) != len(lines[1]):
        return [f"{len(lines[0])} lines, {len(lines[1])} printed"]
    for one, other in zip(*lines, strict=True):
        words = [NUMBER.sub("#", " ".join(line)) for line in (one, other)]
        numbers = [[float(n.rstrip(".")) for n in NUMBER.findall(" ".join(line))] for line in (one, other)]
        if words[0] != words[1] or any(abs(a - b) > 0.1 + 0.15 * abs(b) for a, b in zip(*numbers, strict=True)):
            found.append(f"{' '.join(one)} | {' '.join(other)}")
    return found


def test_control_another_number_and_another_word_are_seen():
    assert differences("mean 1.20\nThe run is good", "mean 1.21\nThe run is good") == []
    assert len(differences("mean 1.2", "mean 2.2")) == 1
    assert len(differences("mean 1.2", "sd 1.2")) == 1
    assert len(differences("a\nb", "a")) == 1


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
    # the tails of two other modes reach as far, 3 and 3.75 of their widths away
    upper = 0.3 + 0.4 * norm.sf(3.0) + 0.2 * norm.sf(3.75)
    assert abs(estimate.value - upper) < 5 * estimate.standard_error < 0.15
    printed = capsys.readouterr().out
    assert "sound" in printed
    assert differences(PRINTED, printed) == [], "run python docs/make_readme.py"
