"""Every code block of the documentation runs, every link of it leads somewhere."""

import re
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
NAV_ENTRY = re.compile(r"^ +- [^:]+: (\S+\.md)$", re.MULTILINE)
PAGES = sorted(DOCS.rglob("*.md"))
# whole models, PyMC's compiler, bilby and a cluster: run by `make test-long`
MINUTES = ("treed-gp.md", "coming-from-tgp.md", "mark-recapture.md", "pymc.md", "bilby.md", "cluster.md")
WITH_CODE = [
    pytest.param(page, marks=[pytest.mark.long] * (page.name in MINUTES), id=str(page.relative_to(DOCS)))
    for page in PAGES
    if BLOCK.search(page.read_text())
]


def code_of(text):
    """Return the blocks of a page as one program; each keeps its line number, for the sake of tracebacks."""
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for i, line in enumerate(block[1].splitlines()):
            lines[first + i] = line
    return "\n".join(lines)


def failure_of(text, name):
    """Run the blocks of a page; return where and how they fail, or nothing."""
    try:
        exec(compile(code_of(text), name, "exec"), {"__name__": "__main__"})  # as a script of one's own
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
        return f"{name}, line {lines[-1] if lines else '?'}: {type(error).__name__}: {error}"
    return None


def broken_links(page, text):
    """Return links that lead nowhere; tables that are measured are parts of pages one folder up."""
    folder = page.parents[1] if page.parent.name == "measured" else page.parent
    links = (found[1] for found in LINK.finditer(FENCED.sub("", text)))
    return [link for link in links if "://" not in link and not (folder / link).exists()]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    failure = failure_of(page.read_text(), str(page))
    plt.close("all")
    assert failure is None


def test_control_a_block_that_fails_is_seen_at_its_line():
    page = "# Page\n\n```python\nx = 1\n```\n\nText.\n\n```python\nassert x == 2, 'x is 1'\n```\n"
    assert failure_of(page, "page.md") == "page.md, line 10: AssertionError: x is 1"
    assert failure_of(page.replace("x == 2", "x == 1"), "page.md") is None
    assert failure_of(page.replace("= 1", "= ("), "page.md").startswith("page.md, line ?: SyntaxError")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_the_links_of_a_page_lead_somewhere(page):
    assert broken_links(page, page.read_text()) == []


def test_control_a_link_to_nowhere_is_seen():
    text = "[here](index.md) [there](nowhere.md#part) [far](https://example.org) ![no](images/no.png)"
    assert broken_links(DOCS / "index.md", text) == ["nowhere.md", "images/no.png"]


def test_the_menu_names_pages_that_exist():
    entries = NAV_ENTRY.findall((ROOT / "mkdocs.yml").read_text())
    assert "index.md" in entries
    assert [entry for entry in entries if not (DOCS / entry).is_file()] == []


@pytest.fixture(scope="module")
def benchmarks_page():
    spec = spec_from_file_location("make_benchmarks", DOCS / "make_benchmarks.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_benchmarks_is_that_of_the_stored_results(benchmarks_page):
    stale = "run python docs/make_benchmarks.py"
    assert (DOCS / "benchmarks.md").read_text() == benchmarks_page.page(), stale


def test_any_stored_result_becomes_a_section(benchmarks_page, tmp_path):
    (tmp_path / "gpu.json").write_text(
        '{"about": {"device": "H200"}, "bar": 1e10, "rates": [{"case": "a|b", "rate": 1.5e10}]}'
    )
    (tmp_path / "new_one.json").write_text(
        '[{"who": "us", "is_good": true, "error": 0.00123}, {"who": "them", "n": 12345}]'
    )
    (tmp_path / "peers.json").write_text('{"one": [{"x": 1}], "two": [{"y": [1, 2.5]}]}')
    page = benchmarks_page.page(tmp_path)
    headings = re.findall(r"^##+ (.*)$", page, re.MULTILINE)
    assert headings == ["Against other samplers", "One", "Two", "On a GPU", "New one"]
    assert "Measured on: device H200; bar 1e+10." in page
    assert "| a\\|b | 1.5e+10 |" in page
    assert (
        "| who | is good | error | n |\n| --- | --- | ---: | ---: |\n| us | yes | 0.00123 |  |\n| them |  |  | 12,345 |"
        in page
    )
    assert "| 1, 2.5 |" in page


def test_every_picture_is_used_and_small():
    pages = "".join(page.read_text() for page in [*PAGES, ROOT / "README.md"])
    for picture in (DOCS / "images").iterdir():
        assert picture.name in pages
        assert picture.stat().st_size < 150_000
