"""The one loop, on a recorder that counts: what counts, what is written and what is handed over, however a run ends."""

import signal

import pytest

from tempering.engines.stopping import AbandonedBlock
from tempering.errors import CheckpointError
from tempering.execution.context import Context
from tempering.execution.interruption import Interruption
from tempering.execution.pace import Pace
from tempering.execution.recording import record

N = 40


class Counter:
    """Blocks of seven, each of which may go wrong in a way of its own."""

    def __init__(self, n=N, at=None, fails_in="run", with_what=ValueError):
        self.n, self.n_done, self.pace = n, 0, Pace()
        self.at, self.fails_in, self.with_what = at, fails_in, with_what
        self.written = []  # how much counted when it was written, and whether between blocks

    def next(self, left):
        return min(left, 7)

    def run(self, n):
        if self.fails_in == "run" and self.n_done == self.at:
            raise self.with_what
        return n

    def keep(self, block):
        if self.fails_in == "keep" and self.n_done == self.at:
            raise self.with_what
        self.n_done += block

    def save(self, *, is_between_blocks=True):
        self.written.append((self.n_done, is_between_blocks))

    def so_far(self):
        return f"{self.n_done} of {self.n}"

    def finish(self):
        if self.fails_in == "finish":
            raise self.with_what
        self.save()
        return self.so_far()


def context():
    interruption = Interruption()
    assert not interruption.requested  # somebody listens from here on
    return Context(interruption)


def seen_by(recorder, execution=None, **options):
    seen = []
    found = record(execution or context(), recorder, lambda block, n: seen.append(n), **options)
    return found, seen


def test_every_block_counts_once():
    recorder = Counter()
    assert seen_by(recorder) == (("40 of 40", False), [7, 7, 7, 7, 7, 5])
    assert recorder.written == [(40, True)]


def test_what_a_block_has_beyond_the_draws_asked_for_is_not_reported():
    recorder = Counter(10)
    recorder.next = lambda left: 7
    (found, _), seen = seen_by(recorder)
    assert (found, seen) == ("14 of 10", [7, 3])


def test_a_block_ends_at_the_next_look_and_enough_is_enough():
    looks = []
    recorder = Counter()
    (found, is_stopped), seen = seen_by(
        recorder, is_enough=lambda is_look: looks.append(is_look) or is_look, next_look=lambda n: 16
    )
    assert (found, is_stopped, seen, looks) == ("16 of 40", False, [7, 7, 2], [False, False, True])
    assert recorder.written == [(16, True)]


@pytest.mark.parametrize("fails_in", ["run", "keep"])
def test_an_error_comes_with_what_counts_which_is_written(fails_in):
    recorder = Counter(at=14, fails_in=fails_in)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - of no words
        seen_by(recorder)
    assert caught.value.draws == "14 of 40"
    assert recorder.written == [(14, False)]


@pytest.mark.parametrize("where", [{"at": 14, "fails_in": "keep"}, {"fails_in": "finish"}])
def test_what_cannot_be_written_is_handed_over_and_not_written_again(where):
    recorder = Counter(**where, with_what=CheckpointError("no space is left"))
    with pytest.raises(CheckpointError) as caught:
        seen_by(recorder)
    assert caught.value.draws == ("14 of 40" if "at" in where else "40 of 40")
    assert recorder.written == []


def test_an_error_before_anything_counts_comes_with_nothing():
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - of no words
        seen_by(Counter(at=0))
    assert not hasattr(caught.value, "draws")


@pytest.mark.parametrize("is_abandoned", [False, True])
def test_a_run_that_is_stopped_returns_what_counts(is_abandoned):
    execution = context()

    def stop():
        execution.interruption(signal.SIGINT, None)  # which raises where a block is under way
        raise AssertionError("the block must be abandoned")

    recorder = Counter(at=21)
    if is_abandoned:
        recorder.run = lambda n: stop() if recorder.n_done == 21 else n
    else:
        keep = recorder.keep
        recorder.keep = lambda n: keep(n) or (recorder.n_done == 21 and execution.interruption(signal.SIGINT, None))
    with pytest.warns(UserWarning, match="Stopped by Ctrl-C after 21 of 40 draws per chain"):
        (found, is_stopped), seen = seen_by(recorder, execution)
    assert (found, is_stopped, seen) == ("21 of 40", True, [7, 7, 7])
    assert recorder.written == [(21, not is_abandoned)]  # an abandoned block's answers are still needed


def test_a_run_that_is_stopped_before_anything_counts_says_so():
    execution = context()

    def stop(n):
        execution.interruption(signal.SIGINT, None)

    recorder = Counter()
    recorder.run = stop
    with pytest.raises(KeyboardInterrupt, match="before there were draws to return"):
        seen_by(recorder, execution)
    assert recorder.written == []


def test_control_a_block_that_is_abandoned_does_not_count():
    recorder = Counter(at=7, with_what=AbandonedBlock)
    with pytest.warns(UserWarning, match="after 7 of 40"):
        (found, is_stopped), _ = seen_by(recorder)
    assert (found, is_stopped) == ("7 of 40", True)
