"""Tuning: rounds that double; between them the pseudo-prior and the kernels' settings are replaced by new values."""
