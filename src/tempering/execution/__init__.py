"""Where and how a run is carried out: blocks of chains on workers, checkpoints on disk, Ctrl-C.

Everything that a run computes passes through an engine; these are engines around engines. None of them changes a
single bit of the draws.
"""

from tempering.execution.workers import processes
from tempering.io.checkpoint import Checkpoint, remove
from tempering.runs.stored import repair

__all__ = ["Checkpoint", "processes", "remove", "repair"]
