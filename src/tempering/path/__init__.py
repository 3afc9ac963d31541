"""Paths from a density one can draw from to the target: terms, coefficients, ladders."""
