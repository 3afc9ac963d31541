"""What a user brings: a log density, or a likelihood and a prior, and how its positions look."""

from tempering.target.target import NOT_INTEGRABLE, LogDensity, Target

__all__ = ["NOT_INTEGRABLE", "LogDensity", "Target"]
