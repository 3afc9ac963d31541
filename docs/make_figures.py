"""Make the pictures and the measured tables of the documentation.

    python docs/make_figures.py            # all of them
    python docs/make_figures.py rules path # some

Pictures go to ``docs/images``, tables to ``docs/measured``, from where the pages include them.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import tempering as tp
from tempering import plots, problems
from tempering.experiments import Row, demo, exponential, format_number, motorcycle, table1, table2
from tempering.problems import GaussianMixture

DOCS = Path(__file__).parent
PROBLEM = problems.mixture()
RULES = ("cold_only", "pooled", "ess_optimal", "screened", "mbar")


def draw_demo() -> None:
    """Draw the picture of the demo, smaller than the demo's own."""
    seed = int(np.random.default_rng(2010).integers(2**62))  # the demo's own
    draws = table2.simulate(tp.Target(PROBLEM.as_vector.log_density_numba), seed, demo.N_DRAWS, demo.N_TUNE)
    path = DOCS / "images" / "demo.png"
    demo.draw_picture(draws, path)
    _shrink(path)


def draw_path() -> None:
    """Draw the paper's mixture at four inverse temperatures."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    ax = figure.subplots()
    x = np.linspace(-30, 30, 1200)
    for k, colour in zip((1.0, 0.1, 0.01, 0.003), ("#0072B2", "#009E73", "#E69F00", "#D55E00"), strict=True):
        height = np.exp(k * PROBLEM.log_density(x) - PROBLEM.log_normaliser(k))
        ax.plot(x, height / height.max(), color=colour, label=f"k = {k:g}")
    ax.set(xlabel="x", yticks=[], ylabel="density, scaled", ylim=(0, 1.1))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper right")
    _save(figure, "path.png")


def draw_combining() -> None:
    """Draw a chain on its ladder, its shares, and the density it gives."""
    draws = tp.sample(
        tp.Target(PROBLEM.as_vector.log_density_numba),
        initial=np.array([-8.0]),
        ladder=tp.Ladder.geometric(40, 3e-5),
        draws=40_000,
        tuning=tp.Tuning(30_000),
        chains=1,
        rng=4,
        progress=False,
    )
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    axes = figure.subplots(1, 3)
    plots.plot_index_process(draws, n_draws=2_500, ax=axes[0])
    axes[0].set_title("One chain climbs up and down")
    plots.plot_shares(draws, ("ess_optimal", "mbar"), ax=axes[1])
    axes[1].set_title("What each rung gives")
    truth = lambda x: np.exp(PROBLEM.log_density(x))  # noqa: E731
    plots.plot_density(draws, rules=("cold_only", "mbar"), truth=truth, ax=axes[2])
    axes[2].set_title("The cold rung alone, and all")
    _save(figure, "combining.png")


def draw_forgetting() -> None:
    """Draw the mass of a narrow mode along the power path: w_j^k s_j^(d (1 - k)), normalised."""
    figure = Figure(figsize=(8, 3), layout="constrained")
    ax = figure.subplots()
    k = np.linspace(0, 1, 400)
    for d, colour in zip((1, 5, 25), ("#0072B2", "#009E73", "#D55E00"), strict=True):
        log_odds = k * np.log(0.3 / 0.7) + d * (1 - k) * np.log(0.5 / 1.0)
        ax.semilogy(k, 1 / (1 + np.exp(-log_odds)), color=colour, label=f"{d} dimension{'s' if d > 1 else ''}")
    ax.axhline(0.3, color=plots.INK, linestyle="--", linewidth=1, label="a path from a fitted reference")
    ax.set(xlabel="inverse temperature k", ylabel="mass of the narrow mode", xlim=(0, 1))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    _save(figure, "narrow-mode.png")


def draw_pymc() -> None:
    """Draw the posterior of the PyMC tutorial, by the code of its page."""
    import re

    names: dict[str, Any] = {}
    page = (DOCS / "tutorials" / "pymc.md").read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)), names)
    figure = names["axes"].figure
    figure.set_size_inches(8, 3)
    _save(figure, "pymc.png")


def measure_rules(dimensions: Sequence[int] = (1, 5, 20, 50, 200), n_runs: int = 200) -> None:
    """Measure what the rules make of ideal draws: N(0, I_d)^k, 40 rungs down to k = 0.1, 20 000 draws, E|x|^2."""
    k = tp.Ladder.geometric(40, 0.1).inverse_temperatures
    rung = np.repeat(np.arange(40), 500)
    relative: dict[str, list[float]] = {rule: [] for rule in RULES}
    rows = []
    for d in dimensions:
        found: dict[str, list[tuple[float, float]]] = {rule: [] for rule in RULES}
        for seed in range(n_runs):
            square = np.random.default_rng([d, seed]).chisquare(d, rung.size) / k[rung]
            for rule in RULES:
                got = tp.combine(square, None, rung, rule, energy=-square / 2, inverse_temperatures=k, batch_length=100)
                found[rule].append((float(got.estimate) - d, got.ess))
        errors = {rule: np.array(found[rule]) for rule in RULES}
        cold = float(np.mean(errors["cold_only"][:, 0] ** 2))
        for rule in RULES:
            relative[rule].append(float(np.mean(errors[rule][:, 0] ** 2)) / cold)
        cells = [f"{relative[rule][-1]:.3g}" for rule in RULES]
        bias, ess = errors["ess_optimal"].mean(axis=0)
        rows.append([str(d), *cells, f"{bias:+.2f}", f"{ess:.0f}"])
    headings = ["d", *(f"`{rule}`" for rule in RULES), "bias of `ess_optimal`", "its ESS"]
    _write_table("rules.md", headings, rows)
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    ax = figure.subplots()
    for rule in RULES:
        ax.loglog(dimensions, relative[rule], "o-", color=plots.COLOURS[rule], label=rule)
    ax.set(xlabel="dimension", ylabel="mean square error\n(cold rung alone = 1)")
    ax.set_xticks(dimensions, [str(d) for d in dimensions])
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    _save(figure, "rules-by-dimension.png")


def measure_one_hump() -> None:
    """Measure what tempering costs where it is not needed: a skewed, correlated hump in 10 dimensions."""
    import blackjax

    problem = problems.skewed(10)
    kernel = tp.kernels.BlackJAX(blackjax.nuts)
    rows = []
    ladders = {"k = 1 alone": [1.0], "geometric, 10 rungs to k = 0.1": tp.Ladder.geometric(10, 0.1)}
    for name, ladder in ladders.items():
        for seed in (3, 4):  # the first compiles, the second is timed
            started = time.process_time()
            draws = tp.sample(
                tp.Target(problem.log_density),
                initial=problem.initial,
                ladder=ladder,
                kernel=kernel,
                draws=2_000,
                tuning=tp.Tuning(1_000),
                chains=8,
                rng=seed,
                progress=False,
            )
            seconds = time.process_time() - started
        error = np.asarray(draws.expect(lambda x: x).standard_error)
        size = np.diag(problem.covariance) / error**2
        rows.append([name, f"{np.mean(size):.0f}", f"{np.min(size):.0f}", f"{seconds:.1f}"])
    _write_table("one-hump.md", ["ladder", "effective draws, mean", "worst coordinate", "processor seconds"], rows)


def measure_narrow_mode(dimensions: Sequence[int] = (2, 5, 25)) -> None:
    """Measure the mass of a narrow mode (truth 0.3) by the power path and by a fitted reference."""
    rows = []
    for d in dimensions:
        problem = problems.two_modes(d)
        starts = [problem.means[0], problem.means[1]]
        cells = [str(d)]
        for path in ("powers", "reference"):
            draws = tp.sample(tp.Target(problem.log_density), initial=starts, path=path, rng=5, progress=False)
            cells += [_narrow_mass(draws, problem), f"{draws.n_round_trips}"]
        rows.append(cells)
    headings = ["d", "power path", "its round trips", '`path="reference"`', "its round trips"]
    _write_table("narrow-mode.md", headings, rows)


def measure_tables() -> None:
    """Redo Tables 1 and 2 of the paper."""
    _write_rows("table1.md", table1.run().rows)
    _write_rows("table2.md", table2.run(progress=True).rows)


def measure_treed() -> None:
    """Redo the two examples of treed Gaussian processes, with their pictures; minutes."""
    for name, experiment in (("motorcycle", motorcycle), ("exponential", exponential)):
        _write_rows(f"{name}.md", experiment.run(folder=DOCS / "images").rows)
        _shrink(DOCS / "images" / f"{name}.png")


def _narrow_mass(draws: Any, problem: GaussianMixture) -> str:
    found = draws.expect(lambda x: problem.mode_of(x) == 1)
    return f"{float(found.value):.4f} ± {float(found.standard_error):.4f}"


def _write_rows(name: str, rows: Sequence[Row]) -> None:
    cells = [[row.quantity, *map(format_number, (row.paper, row.ours, row.spread))] for row in rows]
    _write_table(name, ["quantity", "paper", "ours", "spread over runs"], cells)


def _write_table(name: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, ["---", *["---:"] * (len(headings) - 1)], *rows)]
    (DOCS / "measured" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _save(figure: Figure, name: str) -> None:
    path = DOCS / "images" / name
    figure.savefig(path, dpi=110)
    _shrink(path)


def _shrink(path: Path) -> None:
    """Reduce a picture to 64 colours, a third of its size."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(64)
    small.save(path, optimize=True)


MAKERS = {
    "demo": draw_demo,
    "path": draw_path,
    "combining": draw_combining,
    "forgetting": draw_forgetting,
    "pymc": draw_pymc,
    "rules": measure_rules,
    "one-hump": measure_one_hump,
    "narrow-mode": measure_narrow_mode,
    "tables": measure_tables,
    "treed": measure_treed,
}


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MAKERS:
        MAKERS[wanted]()
