"""Progress bars: on whatever takes more than a second, silent when the output is no terminal."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.estimators import RungSums, combined_ess
from tempering.estimators.regeneration import round_trips
from tempering.estimators.rules import MINIMUM_ESS_PER_DRAW
from tempering.path import Path

BETWEEN = 0.3  # seconds, at the least, between two looks of a notebook's bar

Report = Callable[[int, str], None]


def _silent(done: int, line: str) -> None:
    """Report to nobody."""


class _Bar:
    """Advance a bar by a call; print lines above it, and a status that is replaced beside it."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def __call__(self, done: int, line: str) -> None:
        self._progress.advance(self._task, done)
        if line:
            self._progress.console.print(line, highlight=False)

    def show(self, status: str) -> None:
        self._progress.update(self._task, status=status)


class _NotebookBar:
    """One line of a notebook's output that is replaced as the run goes on: no widgets are needed for it."""

    def __init__(self, total: int, title: str) -> None:
        from IPython.display import HTML, display

        self._html, self._total, self._title = HTML, max(total, 1), title
        self._done, self._status = 0, ""
        self._began = self._shown = time.monotonic()
        self._handle = display(self._line(), display_id=True)

    def __call__(self, done: int, line: str) -> None:
        self._done += done
        self._status = line or self._status
        self._replace()

    def show(self, status: str) -> None:
        self._status = status
        self._replace()

    def close(self) -> None:
        """Leave nothing behind: what the run has to say, it says itself."""
        self._handle.update(self._html(""))

    def _replace(self) -> None:
        if time.monotonic() - self._shown > BETWEEN:
            self._shown = time.monotonic()
            self._handle.update(self._line())

    def _line(self) -> Any:
        took, share = time.monotonic() - self._began, min(self._done / self._total, 1.0)
        left = f", about {took / share - took:.0f} s left" if share > 0 else ""
        return self._html(
            f'{html.escape(self._title)} <progress value="{share:.3f}" max="1"></progress> {took:.0f} s{left} '
            f"<small>{html.escape(self._status)}</small>"
        )


@contextmanager
def bar(total: int, *, show: bool = True, title: str = "tempering") -> Iterator[Report]:
    """Yield ``report(done, line)``: advance by ``done``, and print ``line`` above the bar if there is one."""
    if not show:
        yield _silent
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _silent
        return
    if console.is_jupyter:
        line = _NotebookBar(total, title)
        try:
            yield line
        finally:
            line.close()
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column

    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # a narrow terminal cuts the status, not the times
    text, status = TextColumn("{task.description}"), TextColumn("{task.fields[status]}", table_column=rest)
    left = TimeRemainingColumn()  # 0:00:00 once it is done
    with Progress(
        text, BarColumn(20), TimeElapsedColumn(), TextColumn("left"), left, status,
        console=console, transient=True, expand=True,
    ) as progress:  # fmt: skip
        yield _Bar(progress, progress.add_task(title, total=total, status=""))


class Watch:
    """Follow draws block by block and show rungs, round trips and the effective sample size so far.

    Does nothing where nobody looks.
    """

    def __init__(self, report: Report, engine: str, path: Path, n_chains: int) -> None:
        self._show = getattr(report, "show", None)
        self._engine, self._path = engine, path
        self._sums = RungSums.empty(len(path))
        self._n_round_trips = 0
        self._seen: NDArray[Any] = np.zeros(n_chains, np.int8)

    def see(self, rung: NDArray[np.int32], terms: NDArray[np.float64]) -> None:
        """Count another block of draws, (chain, draw)."""
        if self._show is None:
            return
        log_weights = self._path.log_weights(terms, rung)
        self._sums = self._sums.merge(RungSums.from_log_weights(log_weights, rung, len(self._path)))
        n, self._seen = round_trips(rung, self._path.target, self._path.far_end, self._seen)
        self._n_round_trips += n
        self._show(self.status)

    @property
    def status(self) -> str:
        """One line: ESS and round trips so far, rungs, the engine; a narrow terminal shows how it begins."""
        parts = [
            f"ESS {self.ess:,.0f}",
            f"{self._n_round_trips:,} round trips",
            f"{len(self._path)} rungs",
            self._engine,
        ]
        return ", ".join(parts)

    @property
    def ess(self) -> float:
        """Effective sample size of the weights so far, over the rungs whose draws are worth a fifth of cold ones."""
        trusted = self._sums.ess_of_weights >= MINIMUM_ESS_PER_DRAW * self._sums.n_draws
        ell = np.where(trusted & self._sums.has_weight, self._sums.kish_ess, 0.0)
        return combined_ess(self._sums, ell / ell.sum()) if ell.sum() > 0 else 0.0
