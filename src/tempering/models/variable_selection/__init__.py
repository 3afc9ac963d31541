"""Bayesian variable selection with thousands of columns."""
