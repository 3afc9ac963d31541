"""From runs to ratios: constants of error^2 x time, times to an error, effective draws a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.peers.cases import case_of
from benchmarks.peers.environments import version_of
from benchmarks.peers.processes import SAMPLERS, module_of

OURS = "tempering"
FLOOR = 3.0  # a sampler that errs by more than this many times what was wanted has not got there
SLACK = 1.5  # times the equal time that a sampler's shortest run may take
NIL = 1e-9  # an error of masses below it is that of chains which stay where they start, by luck as many in each mode


@dataclass(frozen=True)
class Cell:
    """All runs of one sampler on one case, pilots too."""

    case: str
    sampler: str
    records: Sequence[dict[str, Any]]

    @cached_property
    def good(self) -> list[dict[str, Any]]:
        """The runs that ended."""
        return [r for r in self.records if "failure" not in r]

    @cached_property
    def counted(self) -> list[dict[str, Any]]:
        """The runs that the figures are of: all seeds, at their one effort; the last pilot where there are none."""
        return [r for r in self.good if r["seed"] > 0] or self.good[-1:]

    @property
    def failure(self) -> str | None:
        """Why there is no figure, or None."""
        return None if self.good else str(self.records[0]["failure"])

    @property
    def key(self) -> str:
        """The error that is compared: of masses, or of moments where there is one mode."""
        return "masses" if case_of(self.case).is_multimodal else "moments"

    @property
    def stays(self) -> bool:
        """Whether no chain ever left its mode, so that the error of the masses says nothing."""
        return self.key == "masses" and all(r["masses"] < NIL for r in self.counted)

    @property
    def is_far(self) -> bool:
        """Whether the error is so far from the one wanted that more time need not mend it."""
        error = self.rms(self.key)
        return error is not None and error > FLOOR * case_of(self.case).error_wanted

    def rms(self, key: str) -> float | None:
        """Return the root mean square error of the runs that count."""
        values = [r[key] for r in self.counted if r[key] is not None]
        return float(np.sqrt(np.mean(np.square(values)))) if values else None

    def constant(self, per: str = "sampling") -> float:
        """Return the mean of error^2 x time (or x calls): what an error of 1 would cost."""
        return float(np.mean([r[self.key] ** 2 * r[per] for r in self.counted]))

    def median(self, key: str) -> float | None:
        """Return a median over the runs that count, of those that have it."""
        values = [r[key] for r in self.counted if r[key] is not None]
        return float(np.median(values)) if values else None

    @property
    def seconds_to_error(self) -> float | None:
        """Start-up + c / e^2, by the processor, but no less than the shortest run; None where the error is far."""
        wanted = case_of(self.case).error_wanted
        if self.stays or self.is_far:
            return None
        shortest = min(r["sampling"] for r in self.good)  # tuning and warm-up are paid whatever the error
        return float(self.median("start_up") or 0.0) + max(shortest, self.constant() / wanted**2)

    def error_at(self, seconds: float) -> float | None:
        """Return the error after so many seconds of sampling; None where the shortest run takes longer.

        More time than the runs took makes an error less by the law, but none that is far from the one wanted.
        """
        if self.stays or min(r["sampling"] for r in self.good) > SLACK * seconds:
            return None
        error = float(np.sqrt(self.constant() / seconds))
        return max(error, self.rms(self.key) or 0.0) if self.is_far else error

    @property
    def effective_draws_a_second(self) -> float:
        """1 / (mean square error of moments, in deviations) / sampling seconds."""
        return 1 / float(np.mean([r["moments"] ** 2 * r["sampling"] for r in self.counted]))


class Summary:
    """Every cell there is, and the tables made of them."""

    def __init__(self, records: Sequence[dict[str, Any]]) -> None:
        self.records = records
        self.cases = list(dict.fromkeys(r["case"] for r in records))
        self.samplers = [s for s in SAMPLERS if any(r["sampler"] == s for r in records)]

    def cell(self, case: str, sampler: str) -> Cell | None:
        """Return the runs of one sampler on one case, or None."""
        records = [r for r in self.records if r["case"] == case and r["sampler"] == sampler]
        return Cell(case, sampler, records) if records else None

    def row_of(self, case: str) -> list[Cell]:
        """Return the cells of a case that have figures."""
        cells = (self.cell(case, sampler) for sampler in self.samplers)
        return [cell for cell in cells if cell is not None and cell.good]

    def equal_time(self, case: str) -> float | None:
        """Return the seconds of sampling that our runs of a case took; None where none ended."""
        ours = self.cell(case, OURS)
        return ours.median("sampling") if ours is not None and ours.good else None

    def ratios(self) -> list[dict[str, Any]]:
        """Return the ratio to the best peer, a row a case: above 1 we are ahead."""
        out = []
        for case in self.cases:
            cells = self.row_of(case)
            ours = next((cell for cell in cells if cell.sampler == OURS), None)
            peers = [cell for cell in cells if cell.sampler != OURS and not cell.stays]
            if ours is None or not peers:
                continue
            best = min(peers, key=lambda cell: cell.constant())
            whole = [cell for cell in peers if cell.seconds_to_error is not None]
            soonest = min(whole, key=lambda cell: cell.seconds_to_error or np.inf, default=None)
            calls = [cell for cell in peers if cell.counted[0]["n_calls"]]
            fewest = min(calls, key=lambda cell: cell.constant("n_calls"), default=None)
            seconds = float(ours.median("sampling") or 0.0)
            then = {cell.sampler: error for cell in peers if (error := cell.error_at(seconds)) is not None}
            least = min(then, key=lambda name: then[name], default=None)
            out.append(
                {
                    "problem": case_of(case).title,
                    "time ratio to the best peer": best.constant() / ours.constant(),
                    "best peer": best.sampler,
                    "equal time s": seconds,
                    "our error then": ours.error_at(seconds),
                    "least error of a peer then": then[least] if least else None,
                    "whose": least or "none has ended",
                    "with start-up": _ratio(soonest, ours),
                    "best with start-up": soonest.sampler if soonest else "none gets there",
                    "our start-up s": ours.median("start_up"),
                    "its start-up s": soonest.median("start_up") if soonest else None,
                    "at equal calls": fewest.constant("n_calls") / ours.constant("n_calls") if fewest else None,
                    "best at equal calls": fewest.sampler if fewest else None,
                    "error wanted": case_of(case).error_wanted,
                    "our seconds to it": ours.seconds_to_error,
                }
            )
        return out

    def errors(self) -> list[dict[str, Any]]:
        """Return a row for each case and sampler: errors, times, memory."""
        out: list[dict[str, Any]] = []
        for case in self.cases:
            for sampler in self.samplers:
                cell = self.cell(case, sampler)
                if cell is None:
                    continue
                row: dict[str, Any] = {"problem": case, "sampler": sampler}
                seconds = self.equal_time(case)
                out.append(row | (_figures(cell, seconds) if cell.good else {"remark": cell.failure}))
        return out

    def peers(self) -> list[dict[str, Any]]:
        """Return each sampler's version and settings."""
        modules = {sampler: module_of(sampler) for sampler in self.samplers}
        return [
            {
                "sampler": sampler,
                "version": version_of(module.ENVIRONMENT, module.PACKAGE) or "not installed",
                "settings": module.SETTINGS,
            }
            for sampler, module in modules.items()
        ]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return all tables, the ratios first."""
        return {"ratio_to_the_best_peer": self.ratios(), "errors_and_times": self.errors(), "settings": self.peers()}


def _figures(cell: Cell, equal_time: float | None) -> dict[str, Any]:
    return {
        "runs": len(cell.counted),
        "masses": cell.rms("masses"),
        "moments": cell.rms("moments"),
        "log evidence": cell.rms("log_evidence"),
        "sampling s": cell.median("sampling"),
        "start-up s": cell.median("start_up"),
        "error at equal time": None if equal_time is None else cell.error_at(equal_time),
        "seconds to error": cell.seconds_to_error,
        "effective draws a second": cell.effective_draws_a_second,
        "calls": cell.median("n_calls"),
        "MB": cell.median("memory_mb"),
        "remark": _remark(cell),
    }


def _remark(cell: Cell) -> str:
    if cell.stays:
        return "not ranked: chains stay where they start"
    return "far from the error wanted" if cell.is_far else ""


def _ratio(peer: Cell | None, ours: Cell) -> float | None:
    if peer is None or peer.seconds_to_error is None or ours.seconds_to_error is None:
        return None
    return peer.seconds_to_error / ours.seconds_to_error


def printed(summary: Summary) -> str:
    """Return the ratios and errors as tables in Markdown."""
    return "\n\n".join(_markdown(rows) for rows in (summary.ratios(), summary.errors()) if rows)


def _markdown(rows: Sequence[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
