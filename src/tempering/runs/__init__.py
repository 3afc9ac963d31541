"""From a target to a run, and the questions one asks of it."""
