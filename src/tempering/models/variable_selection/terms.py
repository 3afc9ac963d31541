"""The columns a model chooses from: inputs, their squares and products, standardised; and back to the inputs' scale."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.errors import InputError

INTERACTIONS = (None, "pairs", "quadratic")


@dataclass(frozen=True, eq=False)
class Terms:
    """Inputs, and products of two of them, each with mean zero and standard deviation one.

    Attributes
    ----------
    names : tuple of str
    parents : ndarray of int, shape (p, 2)
        The two inputs of a product, twice the same of a square; -1 for an input.
    centre, scale : ndarray, shape (p,)
    """

    names: tuple[str, ...]
    parents: NDArray[np.int64]
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats, names: list[str], interactions: str | None, standardise: bool) -> Terms:
        """Choose the terms for inputs x."""
        if interactions not in INTERACTIONS:
            raise InputError(
                f"interactions must be None, 'pairs' or 'quadratic', but got {interactions!r}. None adds nothing."
            )
        d = x.shape[1]
        pairs: list[tuple[int, int]] = []
        if interactions == "quadratic":  # the square of a column with two values is that column again
            pairs += [(j, j) for j in range(d) if len(np.unique(x[:, j])) > 2]
        if interactions is not None:
            pairs += list(combinations(range(d), 2))
        products = [f"{names[a]}^2" if a == b else f"{names[a]}:{names[b]}" for a, b in pairs]
        parents = np.array([(-1, -1)] * d + pairs, dtype=np.int64).reshape(-1, 2)
        inputs_centre, inputs_scale = x.mean(axis=0), _scale(x, standardise)
        raw = _products((x - inputs_centre) / inputs_scale, parents)
        return cls(
            (*names, *products),
            parents,
            np.concatenate([inputs_centre, raw[:, d:].mean(axis=0)]),
            np.concatenate([inputs_scale, _scale(raw[:, d:], standardise)]),
        )

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return int(np.sum(self.parents[:, 0] < 0))

    def columns(self, x: Floats) -> Floats:
        """Return the columns of inputs x, products being of centred inputs."""
        d = self.n_inputs
        inputs = (x - self.centre[:d]) / self.scale[:d]
        whole = _products(inputs, self.parents)
        whole[:, d:] = (whole[:, d:] - self.centre[d:]) / self.scale[d:]
        return whole


def _scale(x: Floats, standardise: bool) -> Floats:
    if not standardise:
        return np.ones(x.shape[1])
    largest = np.maximum(np.abs(x).max(axis=0), np.finfo(float).tiny)  # squares of large numbers overflow
    deviation = largest * (x / largest).std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _products(inputs: Floats, parents: NDArray[np.int64]) -> Floats:
    pairs = parents[parents[:, 0] >= 0]
    return np.hstack([inputs, inputs[:, pairs[:, 0]] * inputs[:, pairs[:, 1]]])
