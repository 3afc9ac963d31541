"""Benchmarks: two sides of a comparison in one run, printed as a ratio beside its bar.

``python -m benchmarks`` sets the package beside other samplers, ``python -m benchmarks.engines`` is one of the others,
and ``python -m benchmarks --all`` runs every one.
"""
