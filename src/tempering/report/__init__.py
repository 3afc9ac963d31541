"""One self-contained page about a run."""

from tempering.report.page import render, write_report

__all__ = ["render", "write_report"]
