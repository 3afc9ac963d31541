"""The report page: whole in itself, the verdict first, everything in it, and it renders in a browser."""

import html.parser
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import tempering as tp
from exact_runs import exact_run_on_two_legs
from tempering.errors import InputError
from tempering.report.page import render, verdict_of, write_report
from tempering.runs.diagnosis import Diagnosis

VOID = {"meta", "link", "br", "img", "path", "use", "image", "rect"}


@pytest.fixture(scope="module")
def draws():
    import jax.numpy as jnp

    target = tp.Target(lambda p: jnp.logaddexp(-2 * (p["x"] + 4) ** 2, -0.5 * (p["x"] - 4) ** 2) - (p["v"] ** 2).sum())
    start = {"x": -4.0, "v": np.zeros(2)}
    ladder = tp.Ladder.geometric(8, 0.02)
    return tp.sample(
        target, initial=start, ladder=ladder, draws=1500, tuning=tp.Tuning(640), chains=4, rng=1, progress=False
    )


@pytest.fixture(scope="module")
def page(draws):
    return render(draws, title="A <run> & its page")


class Reader(html.parser.HTMLParser):
    """Collect tags, ids and headings; refuse tags that do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.headings, self.links = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("src", "href", "xlink:href") if name in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


@pytest.fixture(scope="module")
def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_a_sound_run_is_called_sound_and_a_poor_one_poor():
    good = Diagnosis(True, (), 99, 1.0, 99.0, {}, {}, np.ones((1, 1)), 0.0, True)
    poor = replace(good, is_good=False, sentences=("Few round trips: draw more.",))
    assert "The run looks sound" in verdict_of(good)
    assert all(text in verdict_of(poor) for text in ("The run needs attention", "<li>Few round trips: draw more.</li>"))


@pytest.mark.slow
def test_the_verdict_comes_first(draws, read, page):
    verdict = "The run looks sound" if draws.diagnose().is_good else "The run needs attention"
    assert read.headings[:2] == ["A <run> & its page", verdict]
    assert read.headings[2:] == ["Estimates", "Evidence", "Quantities", "Rungs", "Rungs in numbers"]


@pytest.mark.slow
def test_a_poor_run_is_called_poor_with_every_sentence(draws):
    few = replace(draws, rung=np.where(draws.rung == 3, 2, draws.rung).astype(np.int32), _kept={})
    found = few.diagnose()
    text = render(few)
    assert not found.is_good
    assert "The run needs attention" in text
    assert text.count("<li>") == len(found.sentences)


def test_every_picture_and_table_is_there(read, page):
    for title in (
        "Evidence by method", "Pairs", "Density of x", "x by rung", "x over time", "Mean of x by rule",
        "Density of v[0]", "Density of v[1]", "Ladder", "Occupancy", "Acceptance",
        "Trust in the weights", "Shares", "Index process", "Overlap", "Barrier",
        "Energies",
    ):  # fmt: skip
        assert f'aria-label="{title}"' in page, title
    assert read.tags.count("svg") == read.tags.count("figure") == 1 + 1 + 3 * 4 + 9
    assert read.tags.count("table") == 2


def test_tables_hold_the_numbers_of_the_run(draws, page):
    mean = draws.summary().loc["x", "mean"]
    assert f"<td>{mean:.4g}</td>" in page
    assert f"<strong>{draws.log_evidence().value:.3f}</strong>" in page
    for k in draws.ladder:
        assert f"<td>{k:.4g}</td>" in page


def test_the_page_needs_nothing_outside_itself(read, page):
    outside = [link for link in read.links if not link.startswith(("#", "data:"))]
    assert outside == []
    assert "<script" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#|\"#)", page)


def test_every_id_is_one_of_a_kind_and_every_reference_is_met(read, page):
    assert len(read.ids) == len(set(read.ids))
    wanted = set(re.findall(r"url\(#([^)]+)\)", page)) | {link[1:] for link in read.links if link.startswith("#")}
    assert wanted <= set(read.ids)


def test_ink_follows_the_page(page):
    assert "prefers-color-scheme: dark" in page
    assert "#0b0b0c" not in page
    assert page.count("currentColor") > 100


@pytest.mark.slow
def test_equal_runs_give_equal_pages(draws, page):
    assert render(draws, title="A <run> & its page") == page


@pytest.mark.slow
def test_runs_of_one_rung_have_a_page_too(draws):
    target = tp.Target(lambda x: -0.5 * x**2)
    cold = tp.sample(target, initial=0.0, ladder=[1], draws=200, tuning=tp.Tuning(64), chains=2, rng=1, progress=False)
    text = render(cold)
    assert "Evidence" not in text
    assert 'aria-label="Overlap"' not in text


@pytest.mark.slow
def test_a_run_on_two_legs_has_both_in_its_page():
    page = render(exact_run_on_two_legs("a page"))
    assert "2 quick, the target, 4 safe" in page
    assert "safe leg" in page
    assert "quick leg" in page


@pytest.mark.slow
def test_draws_made_elsewhere_have_a_page_even_without_cold_ones():
    from tempering.doors.foreign import from_blackjax_smc

    rng = np.random.default_rng(5)
    particles = np.stack([rng.normal(size=400) / np.sqrt(1 + k) for k in (0.0, 0.2, 0.6)])
    run = from_blackjax_smc(particles, [0.2, 0.6, 1.0], -0.5 * particles**2)
    text = render(run)
    assert run.visits.tolist() == [0, 400, 400, 400]
    assert "Density of x" in text
    assert "cold_only" not in text


def test_a_place_that_cannot_be_written_is_an_input_error(draws, tmp_path, monkeypatch):
    monkeypatch.setattr("tempering.report.page.render", lambda draws, **given: "")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(draws, tmp_path / "no" / "page.html")


PROBE = """<script>
const wide = [...document.querySelectorAll("svg, figure, section, h1, dl")].filter(
  e => e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().width < 50);
const empty = [...document.querySelectorAll("svg")].filter(e => e.getBBox().height < 50);
parent.postMessage(JSON.stringify({scroll: document.documentElement.scrollWidth, width: innerWidth, wide: wide.length,
  empty: empty.length, paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.querySelector("svg text")).fill}), "*");
</script></body>"""
FRAME = """<!doctype html><link rel="icon" href="data:,"><title></title>
<script>onmessage = message => { document.title = message.data; }</script>
<iframe src="page.html" style="width: WIDTHpx; height: 3000px; border: 0"></iframe>"""


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")


def in_chromium(folder, page, width, scheme):
    """Lay the page out in a frame (windows cannot be as narrow as a phone); return what it measured, and the log.

    Scheme 0 is dark, 1 light.
    """
    (folder / "page.html").write_text(page.replace("</body>", PROBE), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
        f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1300,3000", "--virtual-time-budget=5000",
        "--dump-dom", (folder / "frame.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", done.stdout, re.S).group(1))), done.stderr


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", [0, 1])
def test_the_page_renders_in_chromium(page, tmp_path, width, scheme):
    """Without errors, nothing wider than the screen, ink and paper far apart."""
    found, log = in_chromium(tmp_path, page, width, scheme)
    assert "CONSOLE" not in log, log
    assert found["scroll"] <= found["width"] == width, found
    assert (found["wide"], found["empty"]) == (0, 0), found
    paper, ink = (sum(map(float, re.findall(r"[\d.]+", found[name])[:3])) for name in ("paper", "ink"))
    assert (paper < 150 < 600 < ink) if scheme == 0 else (ink < 150 < 600 < paper), found


@in_a_browser
def test_control_a_page_too_wide_and_with_an_error_is_seen(page, tmp_path):
    broken = page.replace("<h1>", "<h1 style='width: 1500px'>").replace("</body>", "<script>nothing()</script></body>")
    found, log = in_chromium(tmp_path, broken, 390, 1)
    assert "CONSOLE" in log
    assert found["scroll"] > found["width"]
    assert found["wide"] > 0
