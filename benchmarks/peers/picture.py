"""A picture of the comparison: what an error costs, a panel a problem, a point a sampler."""

from pathlib import Path

import numpy as np

from benchmarks.peers.cases import case_of
from benchmarks.peers.summary import OURS, Summary


def draw(summary: Summary, path: Path) -> None:
    """Draw error^2 x sampling time of every sampler, least first, on a log axis; ours in another colour."""
    import matplotlib as mpl
    import matplotlib.ticker

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    n = len(summary.cases)
    figure, axes = plt.subplots((n + 1) // 2, 2, figsize=(10, 1.0 + 2.0 * ((n + 1) // 2)), squeeze=False)
    for axis in axes.flat[n:]:
        axis.axis("off")
    for case, axis in zip(summary.cases, axes.flat, strict=False):
        cells = sorted(summary.row_of(case), key=lambda cell: -cell.constant())
        names = [cell.sampler.replace("_", " ") for cell in cells]
        colours = ["tab:red" if cell.sampler == OURS else "tab:gray" for cell in cells]
        values = [cell.constant() for cell in cells]
        left, right = 10 ** np.floor(np.log10(min(values))), 10 ** np.ceil(np.log10(max(values)))
        axis.hlines(names, left, values, color=colours, linewidth=1.5)
        axis.scatter(values, names, color=colours, zorder=3)
        axis.set_xscale("log")
        axis.set_xlim(left, right)
        axis.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
        axis.set_title(case_of(case).title, fontsize=10)
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    figure.supxlabel("mean of error² × sampling seconds of the processor (left is better)", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=76)
    plt.close(figure)
