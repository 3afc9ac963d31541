"""Progress bars: on whatever takes more than a second, silent when the output is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, str], None]


def _silent(done: int, line: str) -> None:
    """Report to nobody."""


@contextmanager
def bar(total: int, *, show: bool = True, title: str = "tempering") -> Iterator[Report]:
    """Yield ``report(done, line)``: advance by ``done``, and print ``line`` above the bar if there is one."""
    if not show:
        yield _silent
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _silent
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total)

        def report(done: int, line: str) -> None:
            progress.advance(task, done)
            if line:
                progress.console.print(line, highlight=False)

        yield report
