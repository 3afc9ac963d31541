"""Keep BLAS to one thread, and give it back its threads after the last.

Chains have threads of their own. And where matrices are small, threads that wait for each other cost more than they
do: climbing to the modes of a sensor network took an eighth of the processor time with one (two busy cores).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, wraps
from threading import Lock, Thread
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

P = ParamSpec("P")
R = TypeVar("R")


class _Limits:
    """Who keeps BLAS to one thread, and how many it had before the first of them.

    The limit belongs to the process, and threadpoolctl restores what it found: one that came second and left last
    would restore the first one's limit, for good, and sums that BLAS rounds by its threads would differ ever after.
    """

    def __init__(self) -> None:
        self._libraries = ThreadpoolController().select(user_api="blas")
        self._lock = Lock()
        self._n_inside = 0
        self._n_before: list[int] = []

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        with self._lock:
            if self._n_inside == 0:
                self._n_before = self._n_threads()
            self._n_inside += 1
        try:
            with self._libraries.limit(limits=1):
                yield
        finally:
            with self._lock:
                self._n_inside -= 1
                if self._n_inside == 0 and self._n_threads() != self._n_before:
                    restoring = Thread(target=self._restore)  # whose end leaves threadpoolctl to whoever comes next
                    restoring.start()
                    restoring.join()

    def _n_threads(self) -> list[int]:
        return [library.num_threads for library in self._libraries.lib_controllers]

    def _restore(self) -> None:
        for library, n in zip(self._libraries.lib_controllers, self._n_before, strict=True):
            library.set_num_threads(n)


@cache
def _limits() -> _Limits:
    """Find the BLAS libraries, once: it means reading the process's whole map of memory."""
    return _Limits()


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS to one thread: the matrices are small, and the chains have threads of their own."""
    return _limits().one_thread()


def on_one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Keep BLAS to one thread whenever a function is called."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        with one_blas_thread():
            return function(*arguments, **named)

    return call
