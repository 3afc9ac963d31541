"""From records to a row a target: errors, coverage, z, verdicts and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.calibration.runs import Record
from benchmarks.calibration.targets import half_of, target_of

COVERS = 1.959964  # standard errors of a 95 % interval
FAR = 6.0  # standard errors from which a run called sound is a lie
LARGEST_Z = 1e3  # in means of squares, for errors of a standard error of 0
MASSES, EVIDENCE = "masses of the modes", "log evidence"


def z_of(quantity: dict[str, Any]) -> Any:
    """Return errors over stated errors; the truth's own error is counted. Unknown (infinite) errors give 0."""
    error = np.asarray(quantity["value"], float) - np.asarray(quantity["truth"], float)
    stated = np.hypot(np.asarray(quantity["standard_error"], float), quantity["accuracy"])
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.abs(error) < 1e-12, 0.0, error / stated)
    return np.where(np.isnan(z), np.where(np.isinf(stated) | np.isnan(stated), 0.0, np.inf), z)


def errors_of(quantity: dict[str, Any]) -> Any:
    """Return the errors themselves."""
    return np.asarray(quantity["value"], float) - np.asarray(quantity["truth"], float)


class Row:
    """All runs of one target."""

    def __init__(self, name: str, records: Sequence[Record]) -> None:
        self.name = name
        self.records = records
        self.ended = [record for record in records if "error" not in record]

    def quantities(self, records: Sequence[Record] | None = None) -> dict[str, list[dict[str, Any]]]:
        """Return the entries of every quantity that can be found, over the runs."""
        out: dict[str, list[dict[str, Any]]] = {}
        for record in self.ended if records is None else records:
            for quantity in record["quantities"]:
                if quantity["can_be_found"]:
                    out.setdefault(quantity["name"], []).append(quantity)
        return out

    def coverage(self, records: Sequence[Record] | None = None) -> dict[str, float]:
        """Return the share of 95 % intervals that cover, of each quantity, over its entries and the runs."""
        return {
            name: float(np.mean([np.abs(z_of(q)) <= COVERS for q in entries]))
            for name, entries in self.quantities(records).items()
        }

    def worst_z(self, record: Record) -> float:
        """Return the largest |z| of a run, over what can be found."""
        z = [np.max(np.abs(z_of(q))) for q in record["quantities"] if q["can_be_found"]]
        return float(max(z, default=0.0))

    def rms(self, name: str) -> float | None:
        """Return the root mean square error of a quantity over the runs, findable or not."""
        entries = [q for record in self.ended for q in record["quantities"] if q["name"] == name]
        return float(np.sqrt(np.mean([np.mean(errors_of(q) ** 2) for q in entries]))) if entries else None

    def figures(self) -> dict[str, Any]:
        """Return the row of the table."""
        sound = [record for record in self.ended if record["sound"]]
        row: dict[str, Any] = {
            "target": self.name,
            "half": half_of(self.name),
            "runs": len(self.records),
            "errors": len(self.records) - len(self.ended),
        }
        if not self.ended:
            return row | {"what": self.records[0]["error"]}
        z = [z_of(q) for entries in self.quantities().values() for q in entries]
        flat = np.concatenate(z) if z else np.zeros(0)
        coverage, of_sound = self.coverage(), self.coverage(sound)
        worst = min(coverage, key=lambda name: coverage[name], default="")
        first = [r["seconds"] for r in self.ended if r.get("is_first")]
        later = [r["seconds"] for r in self.ended if not r.get("is_first")]
        return row | {
            "rms error of masses": self.rms(MASSES),
            "of log evidence": self.rms(EVIDENCE),
            "covered": float(np.mean(np.abs(flat) <= COVERS)) if flat.size else None,
            "worst covered": coverage.get(worst),
            "which": worst,
            "rms z": float(np.sqrt(np.mean(np.minimum(np.abs(flat), LARGEST_Z) ** 2))) if flat.size else None,
            "largest z": float(np.max(np.abs(flat))) if flat.size else None,
            "sound": len(sound) / len(self.ended),
            "covered if sound": min(of_sound.values(), default=None) if sound else None,
            "false sound": sum(self.worst_z(record) > FAR for record in sound),
            "false alarms": sum(self.worst_z(r) <= FAR / 2 for r in self.ended if not r["sound"]),
            "first s": float(np.median(first)) if first else None,
            "later s": float(np.median(later)) if later else None,
            "what": next((r["error"] for r in self.records if "error" in r), ""),
        }


def rows_of(records: Sequence[Record]) -> list[Row]:
    """Return a row a target, in the order of their halves and names."""
    names = sorted({record["target"] for record in records}, key=lambda name: (half_of(name) != "judging", name))
    return [Row(name, [r for r in records if r["target"] == name]) for name in names]


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Return what counts over all targets."""
    runs = [record for row in rows for record in row.records]
    figures = [row.figures() for row in rows]
    sound = sum(bool(record.get("sound")) for record in runs)
    return {
        "runs": len(runs),
        "ended in an error": sum("error" in record for record in runs),
        "called sound": sound,
        "sound, but off by more than 6 standard errors": sum(row.get("false sound", 0) for row in figures),
        "targets where a quantity's intervals cover less than 92 %": sorted(
            row["target"] for row in figures if (row.get("worst covered") or 1.0) < 0.92
        ),
    }


def quantity_table(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for every quantity of every target."""
    out = []
    for row in rows:
        covered, of_sound = row.coverage(), row.coverage([r for r in row.ended if r["sound"]])
        for name, entries in row.quantities().items():
            z = np.minimum(np.abs(np.concatenate([z_of(q) for q in entries])), LARGEST_Z)
            out.append(
                {
                    "target": row.name, "quantity": name, "rms error": row.rms(name),
                    "rms z": float(np.sqrt(np.mean(z**2))), "largest z": float(z.max()),
                    "covered": covered[name], "covered if sound": of_sound.get(name),
                }
            )  # fmt: skip
    return out


SHORT = {
    "target": 19, "runs": 4, "errors": 3, "rms error of masses": 6, "of log evidence": 6, "covered": 4,
    "worst covered": 4, "rms z": 5, "largest z": 5, "sound": 4, "false sound": 5, "later s": 4,
}  # fmt: skip
HEADS = {
    "rms error of masses": "mass", "of log evidence": "log Z", "covered": "cov", "worst covered": "min",
    "largest z": "max z", "false sound": "FALSE", "errors": "err", "later s": "s", "sound": "snd",
}  # fmt: skip


def printed(rows: Sequence[Row]) -> str:
    """Return a table for a terminal, and the totals."""
    lines = []
    for half in dict.fromkeys(half_of(row.name) for row in rows):
        lines += ["", f"{half} half", " ".join(f"{HEADS.get(key, key):>{width}}" for key, width in SHORT.items())]
        for row in rows:
            if half_of(row.name) == half:
                figures = row.figures()
                lines.append(" ".join(f"{_cell(figures.get(key), width):>{width}}" for key, width in SHORT.items()))
                if figures.get("what"):
                    lines.append(f"{'':>19} {str(figures['what'])[:59]}")
    lines += ["", *(f"{key}: {value}" for key, value in totals(rows).items())]
    return "\n".join(lines)


def _cell(value: Any, width: int) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        if np.isinf(value) or abs(value) >= 1e4:
            return "inf" if np.isinf(value) else f"{value:.0e}"
        digits = max(0, width - 1 - len(f"{abs(value):.0f}"))
        return f"{value:.{digits}f}"
    return str(value)[:width]


def titles(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return what the targets are."""
    return [{"target": row.name, "half": half_of(row.name), "what it is": target_of(row.name).title} for row in rows]
