"""Minimise a function that is slow or noisy: ask for points, tell their values, or let `minimise` do both."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc
from sklearn.base import clone

from tempering.arrays import Floats
from tempering.errors import InputError, check_count
from tempering.models.scikit_learn import generator_of
from tempering.models.treed_gp.estimator import TreedGP

N_CANDIDATES = 400  # spread over the box; half as many again lie around the best point
SHORT: dict[str, Any] = {
    "draws": 2000,
    "tune": 2000,
    "keep": {"trees": 60},
    "chains": 1,
}  # of each fit, where the user names no model


def latin_hypercube(n: int, bounds: ArrayLike, *, random_state: Any = None) -> Floats:
    """Return a Latin hypercube on a box, its points moved apart: shape (n, d).

    Examples
    --------
    >>> latin_hypercube(5, [(0, 1), (-1, 1)], random_state=1).shape
    (5, 2)
    """
    box = _box(bounds)
    check_count("n", n)
    sampler = qmc.LatinHypercube(len(box), optimization="random-cd" if n > 2 else None, rng=generator_of(random_state))
    return np.asarray(qmc.scale(sampler.random(n), box[:, 0], box[:, 1]))


def choose_spread(candidates: ArrayLike, n: int, known: ArrayLike | None = None) -> NDArray[np.int64]:
    """Choose candidates that are far from each other and from known inputs, greedily: their indices, shape (n,).

    Inputs are scaled to the candidates' box. The farthest point first: within a factor of two of the best maximin
    design (Gonzalez 1985). Before there is a fit it takes the place of `TreedGP.d_optimal`, which needs one.
    """
    points = np.asarray(candidates, np.float64)
    low, width = points.min(axis=0), np.ptp(points, axis=0)
    width = np.where(width > 0, width, 1.0)
    scaled = (points - low) / width
    others = (np.asarray(known, np.float64) - low) / width if known is not None else scaled.mean(axis=0)[None]
    nearest = np.min([np.sum((scaled - other) ** 2, axis=1) for other in others], axis=0)
    chosen: list[int] = []
    for _ in range(min(n, len(points))):
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.sum((scaled - scaled[chosen[-1]]) ** 2, axis=1))
    return np.array(chosen)


@dataclass(frozen=True)
class Minimum:
    """What a minimisation found."""

    x: Floats
    """The evaluated point of the lowest predicted mean, shape (d,)."""
    mean: float
    """The surface there, by the last fit; with noise a better guide than the lowest response."""
    deviation: float
    """Its standard deviation."""
    inputs: Floats
    """All points, in the order of evaluation."""
    responses: Floats
    model: TreedGP
    """The last fit."""


class Minimiser:
    """Choose where to evaluate next: expected improvement under a treed GP, points asked for together apart.

    Parameters
    ----------
    bounds : sequence of (low, high)
    model : TreedGP, optional
        What is fitted to the evaluations; by default a short run, 4000 rounds.
    n_initial : int, optional
        Points of a Latin hypercube before the first fit; None is 4 d + 4, at least 10.

    Examples
    --------
    >>> search = Minimiser([(-1, 1)], n_initial=4, random_state=1)
    >>> x = search.ask(2)
    >>> search.tell(x, x[:, 0] ** 2)
    >>> search.ask().shape
    (1, 1)
    """

    def __init__(
        self,
        bounds: ArrayLike,
        *,
        model: TreedGP | None = None,
        n_initial: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.box = _box(bounds)
        d = len(self.box)
        self._rng = generator_of(random_state)
        self._model = TreedGP(**SHORT) if model is None else model
        n = max(10, 4 * d + 4) if n_initial is None else n_initial
        self._initial = list(latin_hypercube(n, self.box, random_state=self._rng)) if n > 0 else []
        self.inputs, self.responses = np.empty((0, d)), np.empty(0)
        self._fitted: TreedGP | None = None

    def ask(self, n: int = 1) -> Floats:
        """Return the next points to evaluate, shape (n, d)."""
        first = [self._initial.pop(0) for _ in range(min(n, len(self._initial)))]
        left = n - len(first)
        if left == 0:
            return np.array(first)
        if len(self.responses) < 3:
            more = latin_hypercube(left, self.box, random_state=self._rng)
            return np.concatenate([np.reshape(first, (-1, len(self.box))), more])
        candidates = self._candidates()
        best = self.fitted.rank_improvement(candidates, left, random_state=self._rng)
        return np.concatenate([np.reshape(first, (-1, len(self.box))), candidates[best]])

    def tell(self, x: ArrayLike, y: ArrayLike) -> None:
        """Add evaluations: points of shape (n, d), or one of shape (d,), and their values; failures are left out."""
        points, values = np.atleast_2d(np.asarray(x, np.float64)), np.atleast_1d(np.asarray(y, np.float64))
        if points.shape != (len(values), len(self.box)):
            raise InputError(
                f"tell needs one value for each point of {len(self.box)} inputs, but got points of shape "
                f"{points.shape} and values of shape {values.shape}. Tell the points that ask returned."
            )
        good = np.isfinite(values)
        self.inputs = np.concatenate([self.inputs, points[good]])
        self.responses = np.concatenate([self.responses, values[good]])
        self._fitted = None

    @property
    def fitted(self) -> TreedGP:
        """The model, fitted to all evaluations so far."""
        if self._fitted is None:
            model = clone(self._model).set_params(random_state=int(self._rng.integers(2**31 - 1)))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*fewer than the smallest leaf.*")
                self._fitted = model.fit(self.inputs, self.responses)
        return self._fitted

    def _candidates(self) -> Floats:
        """Return points all over the box, and around the best one at distances of all sizes."""
        d, width = len(self.box), self.box[:, 1] - self.box[:, 0]
        everywhere = qmc.scale(
            qmc.LatinHypercube(d, rng=self._rng).random(N_CANDIDATES), self.box[:, 0], self.box[:, 1]
        )
        reach = 10.0 ** self._rng.uniform(-3.0, -0.5, (N_CANDIDATES // 2, 1))
        best = self.inputs[np.argmin(self.fitted.predict(self.inputs))]
        near = best + reach * width * self._rng.standard_normal((N_CANDIDATES // 2, d))
        return np.concatenate([everywhere, np.clip(near, self.box[:, 0], self.box[:, 1])])

    def result(self) -> Minimum:
        """Return what is known now."""
        mean, deviation = self.fitted.predict(self.inputs, return_std=True, latent=True)
        best = int(np.argmin(mean))
        found = self.inputs[best], float(mean[best]), float(deviation[best])
        return Minimum(*found, self.inputs, self.responses, self.fitted)


def minimise(
    function: Callable[[Floats], float],
    bounds: Sequence[tuple[float, float]],
    *,
    n_calls: int = 40,
    batch: int = 1,
    model: TreedGP | None = None,
    n_initial: int | None = None,
    random_state: Any = None,
) -> Minimum:
    """Minimise a function of one array of shape (d,) on a box, in few evaluations; it may be noisy.

    Parameters
    ----------
    n_calls : int
        Evaluations in all.
    batch : int
        Points chosen by one fit, apart from each other.

    Examples
    --------
    >>> found = minimise(lambda x: (x[0] - 0.3) ** 2, [(0, 1)], n_calls=14, random_state=1)
    >>> abs(float(found.x[0]) - 0.3) < 0.1
    True
    """
    search = Minimiser(bounds, model=model, n_initial=n_initial, random_state=random_state)
    while len(search.responses) < n_calls:
        points = search.ask(min(batch, n_calls - len(search.responses)))
        values = np.array([float(function(point)) for point in points])
        if not np.isfinite(values).any():
            raise InputError(f"The function gave no finite value at {points.tolist()}. Check it, or narrow the bounds.")
        search.tell(points, values)
    return search.result()


def _box(bounds: ArrayLike) -> Floats:
    box = np.asarray(bounds, np.float64)
    if box.ndim != 2 or box.shape[1] != 2 or not np.all(np.isfinite(box)) or np.any(box[:, 0] >= box[:, 1]):
        raise InputError(
            f"bounds must be a pair (low, high) for each input, low < high, but got {bounds!r}. Pass [(0, 1)]."
        )
    return box
