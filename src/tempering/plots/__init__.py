"""Pictures of a run: each takes draws, draws on ``ax`` (a new one by default) and returns it."""

from tempering.plots.models import plot_survival, plot_trees
from tempering.plots.pairs import numbers_of, plot_pairs
from tempering.plots.rungs import (
    plot_acceptance,
    plot_barrier,
    plot_energies,
    plot_index_process,
    plot_ladder,
    plot_overlap,
    plot_rungs,
    plot_shares,
    plot_trust,
    plot_visits,
)
from tempering.plots.style import BLUE, COLOURS, INK
from tempering.plots.values import plot_densities, plot_density, plot_estimates, plot_evidence, plot_traces

__all__ = [
    "BLUE",
    "COLOURS",
    "INK",
    "numbers_of",
    "plot_acceptance",
    "plot_barrier",
    "plot_densities",
    "plot_density",
    "plot_energies",
    "plot_estimates",
    "plot_evidence",
    "plot_index_process",
    "plot_ladder",
    "plot_overlap",
    "plot_pairs",
    "plot_rungs",
    "plot_shares",
    "plot_survival",
    "plot_traces",
    "plot_trees",
    "plot_trust",
    "plot_visits",
]
