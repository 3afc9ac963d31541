"""Workers: any `concurrent.futures.Executor`. A block whose worker dies is done again; one that fails twice is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from tempering.engines.stopping import AbandonedBlock, IsStopped, never
from tempering.errors import FunctionError, SamplerError, TemperingError
from tempering.execution.answers import Answered, AnswersOnDisk, answered
from tempering.execution.recipe import Packed, Unknown, follow_the_parent

ATTEMPTS = 2
SMALL = 2**16  # bytes of a recipe that is sent with every block; a larger one only to workers that ask
LOOK = 0.2  # seconds between two looks whether to stop
MOST_BREAKS_AT_ONCE = 3  # pools that break before they take a single block


class Workers:
    """Hand blocks to an executor, and hand them out again when a worker has died."""

    def __init__(self, executor: Executor) -> None:
        check_executor(executor)
        self._executor = executor
        self._own: ProcessPoolExecutor | None = None  # in place of a user's pool that broke
        self.is_stopped: IsStopped = never
        self.answers: AnswersOnDisk | None = None  # where those of workers in other processes are kept

    @property
    def share_memory(self) -> bool:
        """Whether workers are threads of this process."""
        return isinstance(self._executor, ThreadPoolExecutor)

    def run(
        self, function: Callable[..., Any], blocks: Sequence[tuple[Any, ...]], tell: Callable[[], None] = lambda: None,
        *, may_abandon: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return ``function(*block)`` for every block, in their order; ``tell()`` is called after each.

        Where they may be abandoned, nobody waits for blocks once the run is to stop.
        """
        results: dict[int, Any] = {}
        failures: dict[int, int] = {}
        known: dict[int, dict[bytes, Any]] = {}  # answers of long calls in blocks that have not come to their end
        while len(results) < len(blocks):
            waiting = [i for i in range(len(blocks)) if i not in results]
            if self.answers is None or not self.answers.is_open:
                futures = self._submitted(function, {i: blocks[i] for i in waiting})
            else:
                asked = {i: self.answers.asked(known.get(i, {})) for i in waiting}
                futures = self._submitted(answered, {i: (asked[i], function, *blocks[i]) for i in waiting})
            broken = False
            for i, future in futures.items():
                if may_abandon:
                    self._wait_or_abandon(future, futures)
                error = _outcome(future)
                if error is None:
                    result = future.result()
                    if isinstance(result, Answered):
                        known[i] = {**known.get(i, {}), **self._taken(result)}
                    if not isinstance(result, Answered) or result.is_done:
                        results[i] = result.result if isinstance(result, Answered) else result
                        tell()
                    continue
                if isinstance(error, TemperingError) and not isinstance(error, FunctionError):  # it would fail anywhere
                    _cancel(futures)
                    raise error
                broken = broken or isinstance(error, BrokenExecutor)
                failures[i] = failures.get(i, 0) + 1
                if failures[i] >= ATTEMPTS:
                    _cancel(futures)
                    raise _failed(i, len(blocks), error)
            if broken:
                self._renew()
        return [results[i] for i in range(len(blocks))]

    def _taken(self, found: Answered) -> Mapping[bytes, Any]:
        """Keep the answers of long calls in a block; return them."""
        assert self.answers is not None
        self.answers.take(found.answers)
        return found.answers

    def _wait_or_abandon(self, future: Future[Any], futures: dict[int, Future[Any]]) -> None:
        try:
            while not future.done():
                if self.is_stopped():
                    raise AbandonedBlock
                wait([future], timeout=LOOK)
        except BaseException:
            _cancel(futures)
            raise

    def run_recipe(
        self, function: Callable[..., Any], recipe: Packed, blocks: Sequence[tuple[Any, ...]], *,
        may_abandon: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return ``function(recipe, *block)`` for every block; a large recipe is sent to workers that ask for it."""
        is_large = isinstance(recipe.content, bytes) and len(recipe.content) > SMALL
        named = [(recipe.by_name() if is_large else recipe, *block) for block in blocks]
        done = self.run(function, named, may_abandon=may_abandon)
        unknown = [i for i, result in enumerate(done) if isinstance(result, Unknown)]
        if unknown:
            again = self.run(function, [(recipe, *blocks[i]) for i in unknown], may_abandon=may_abandon)
            done = [again[unknown.index(i)] if i in unknown else result for i, result in enumerate(done)]
        return done

    def close(self) -> None:
        """Shut down the pool that took the place of a broken one."""
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)

    def _submitted(self, function: Callable[..., Any], blocks: dict[int, tuple[Any, ...]]) -> dict[int, Future[Any]]:
        for attempt in range(MOST_BREAKS_AT_ONCE):
            try:
                return {i: self._executor.submit(function, *block) for i, block in blocks.items()}
            except BrokenExecutor as error:
                if attempt + 1 == MOST_BREAKS_AT_ONCE:
                    raise SamplerError(
                        f"An executor must take work, but this one broke {MOST_BREAKS_AT_ONCE} times before it did: "
                        f"{error} {_hint(error)}"
                    ) from error
                self._renew()
            except RuntimeError as error:  # of Python's own pools, which say nothing more
                raise SamplerError(
                    f"An executor must take work, but this one refuses it: {error}. Make a new one, and close it only "
                    "after the run."
                ) from error
        raise AssertionError("unreachable")

    def _renew(self) -> None:
        """Take a new pool of the same size in place of a broken one; other executors mend themselves, or cannot."""
        old: Any = self._executor
        if not isinstance(old, ProcessPoolExecutor):
            return
        self.close()
        self._own = ProcessPoolExecutor(*_settings_of(old))
        self._executor = self._own


def processes(n: int) -> ProcessPoolExecutor:
    """Return a pool of spawned processes that follow their parent, to be closed by ``with``.

    A script that uses one needs ``if __name__ == "__main__":`` around its calls, as always with spawned processes.
    """
    if n < 1:
        raise SamplerError(f"There must be at least 1 worker, but got {n}. Leave it out to use none.")
    return ProcessPoolExecutor(n, get_context("spawn"), initializer=follow_the_parent)


@contextmanager
def processes_or_none(n: int | None) -> Iterator[ProcessPoolExecutor | None]:
    """Open a pool of so many processes; None where no number is given."""
    if n is None:
        yield None
        return
    with processes(n) as pool:
        yield pool


def _settings_of(pool: Any) -> tuple[Any, ...]:
    """Return what a pool was made with; it does not say so in public."""
    return pool._max_workers, pool._mp_context, pool._initializer, pool._initargs


def check_executor(executor: Any) -> None:
    """Refuse anything but an executor, and pools of forked processes."""
    if not callable(getattr(executor, "submit", None)):
        raise SamplerError(
            f"executor must be a concurrent.futures.Executor, but got {type(executor).__name__}. Pass "
            "ThreadPoolExecutor(4), or Client(...).get_executor() for Dask."
        )
    context = getattr(executor, "_mp_context", None)
    if isinstance(executor, ProcessPoolExecutor) and context is not None and context.get_start_method() == "fork":
        raise SamplerError(
            "Worker processes must be spawned, but this pool forks them: JAX has threads, and their locks would stay "
            "locked in the copies for ever. Write ProcessPoolExecutor(n, mp_context=multiprocessing.get_context("
            "'spawn'))."
        )


def _outcome(future: Future[Any]) -> BaseException | None:
    """Wait for a block; return what it raised. A second Ctrl-C here is raised as ever."""
    try:
        return future.exception()
    except CancelledError as error:
        return error


def _cancel(futures: dict[int, Future[Any]]) -> None:
    for future in futures.values():
        future.cancel()


def _failed(i: int, n: int, error: BaseException) -> TemperingError:
    """Return what is said of a block that failed as often as it was tried."""
    if isinstance(error, FunctionError):
        error.block = i
        return error
    found = SamplerError(
        f"Every block of chains must run to its end, but block {i + 1} of {n} failed {ATTEMPTS} times: "
        f"{type(error).__name__}: {error} {_hint(error)}"
    )
    found.__cause__ = error
    return found


def _hint(error: BaseException) -> str:
    if isinstance(error, BrokenExecutor):
        return (
            "Workers that die at once are often short of memory, or were started by a script without "
            "'if __name__ == \"__main__\":'."
        )
    return "Run it without executor= to see the whole traceback."
