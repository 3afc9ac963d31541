"""Benchmarks: two sides of a comparison in one run, printed as a ratio beside its bar.

Run all of them with ``python -m benchmarks``, or one with ``python -m benchmarks.engines``.
"""
