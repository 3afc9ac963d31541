"""Make the picture and the tables of the pages on the suite and on calibration.

python docs/make_suite.py
"""

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tempering import problems
from tempering.problems import KnownTarget

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # the benchmarks are no part of the installed package
DEPTH = 12.0  # nats below the highest point that are shown
COLUMNS = 6
WIDTH = "its width, of the other's"


def planar() -> list[KnownTarget]:
    """Return the targets that can be drawn whole."""
    suite = problems.suite()
    names = (
        "four-modes", "ring", "eight-gaussians", "gmm-9", "grid-25", "gmm-40", "challenging", "two-in-cube-2", "eggbox",
        "shells-2", "rings-4", "log-gamma-2", "rosenbrock-2", "banana", "walled-modes",
    )  # fmt: skip
    return [*(suite[name] for name in names), problems.many_well(2), problems.funnel(2), problems.thin_shell(2)]


def draw_planar(path: Path) -> None:
    """Draw the log densities of the targets in the plane."""
    targets = planar()
    rows = -(-len(targets) // COLUMNS)
    figure = Figure(figsize=(2.05 * COLUMNS, 2.2 * rows), layout="constrained")
    for target, ax in zip(targets, figure.subplots(rows, COLUMNS).flat, strict=False):
        left, right, bottom, top = WINDOWS.get(target.name) or target.window or (-5.0, 5.0, -5.0, 5.0)
        x, y = np.meshgrid(np.linspace(left, right, 240), np.linspace(bottom, top, 240))
        with np.errstate(all="ignore"):
            height = np.nan_to_num(target.log_density(np.stack([x, y], axis=-1)), nan=-np.inf)
        depth = 60.0 if target.name == "eggbox" else DEPTH
        ax.imshow(
            np.maximum(height - height.max(), -depth), origin="lower", extent=(left, right, bottom, top),
            aspect="auto", cmap="magma", interpolation="bilinear",
        )  # fmt: skip
        ax.set_title(target.name, fontsize=9)
        ax.tick_params(labelsize=6)
    figure.savefig(path, dpi=100)
    shrink(path)


WINDOWS = {"two-in-cube-2": (0.3, 0.7, 0.3, 0.7), "funnel-2": (-9.0, 9.0, -15.0, 15.0)}


def shrink(path: Path) -> None:
    """Reduce a picture to 128 colours."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128)
    small.save(path, optimize=True)


def write_table(path: Path) -> None:
    """Write what there is as a table in Markdown."""
    table = problems.suite().table().reset_index()
    head = "| name | what it is | modes | log evidence | known to | by | from |"
    lines = [head, "| --- | --- | ---: | ---: | ---: | --- | --- |"]
    for row in table.itertuples():
        modes = "" if np.isnan(row.modes) else f"{row.modes:.0f}"
        value = "" if np.isnan(row.log_evidence) else f"{row.log_evidence:.6g}"
        accuracy = "" if np.isnan(row.accuracy) else "exact" if row.accuracy == 0 else f"{row.accuracy:.0e}"
        lines.append(
            f"| `{row.name}` | {row.title} | {modes} | {value} | {accuracy} | {row.provenance} | {row.source} |"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_halves(path: Path) -> None:
    """Write which target of the judging set is in which half."""
    from benchmarks.calibration.targets import HALVES, names_of, target_of

    lines = ["| half | target | what it is |", "| --- | --- | --- |"]
    for half in reversed(HALVES):
        lines += [f"| {half} | `{name}` | {target_of(name).title} |" for name in names_of(half)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_limits(results: Path, path: Path) -> None:
    """Write the targets on which the default call does not work, from the stored result of `benchmarks.limits`."""
    stored = json.loads(results.read_text(encoding="utf-8"))
    rows, about = stored["limits"], stored["about"]
    bad = [row for row in rows if row["why"]]
    lines = [
        f"Measured on {len(rows)} targets of the suite, {about['seeds']} runs each at most; "
        f"{len(rows) - len(bad)} of them work. Errors are root mean squares over the runs.",
        "",
        "| target | what is wrong | error of masses | of log Z | of means, in deviations | largest z | "
        "calls itself sound | its complaint otherwise | measured |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for row in bad:
        figures = ["" if row[key] is None else f"{row[key]:.2g}" for key in ("masses", "log Z", "means", "largest z")]
        sound = f"{row['calls itself sound']} of {row['runs']}"
        said = str(row["says"]).replace("|", "\\|")
        lines.append(f"| {row['what']} | {row['why']} | {' | '.join(figures)} | {sound} | {said} | {row['date']} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_narrow(results: Path, path: Path) -> None:
    """Write how narrow a mode that nothing leads to may be, from the stored result of `benchmarks.narrow`."""
    rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
    lines = [
        "| dimensions | its width, of the other's | found | missed, and called sound |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        found = f"{row['found']} of {row['runs']}"
        lines.append(f"| {row['dimensions']} | {row[WIDTH]:g} | {found} | {row['missed and called sound'] or ''} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_narrow(DOCS.parent / "benchmarks" / "results" / "narrow.json", DOCS / "measured" / "narrow-table.md")
    write_limits(DOCS.parent / "benchmarks" / "results" / "limits.json", DOCS / "measured" / "limits-page.md")
    write_halves(DOCS / "measured" / "calibration-halves.md")
    draw_planar(DOCS / "images" / "suite.png")
    write_table(DOCS / "measured" / "suite-targets.md")
