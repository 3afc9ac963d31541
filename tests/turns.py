"""Runs in sums go on by the clock; in tests, by as many stretches at a time as a test says."""

from tempering.execution.sum_keeping import SumRecorder


def go_on_by(monkeypatch, n_stretches):
    """Have blocks of sums last so many stretches, or as many as a function of their number so far says."""
    n_blocks = iter(range(10**9))

    def following(recorder, left):
        stretches = n_stretches(next(n_blocks)) if callable(n_stretches) else n_stretches
        return min(left, max(1, int(stretches * recorder.length)))

    monkeypatch.setattr(SumRecorder, "next", following)
