"""Where splits are, which inputs matter, and where to look next: what a fitted treed GP is asked beside predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from tempering.arrays import Floats
from tempering.errors import check_count
from tempering.models.scikit_learn import generator_of
from tempering.models.treed_gp import surfaces
from tempering.models.treed_gp.sensitivity import Sensitivity, analyse, input_quantiles, summary
from tempering.models.treed_gp.settings import check_column

if TYPE_CHECKING:
    from tempering.models.treed_gp.model import TreedGPModel
    from tempering.models.treed_gp.posterior import Posterior

MOST_RANKED = 60  # candidates of the largest expected improvement, among which several are chosen together
N_JOINT = 200  # joint draws of the surface for that


class Design:
    """Questions of sequential design and sensitivity, mixed into `TreedGP`."""

    model_: TreedGPModel
    posterior_: Posterior
    _training: tuple[Floats, Floats]

    if TYPE_CHECKING:

        def _inputs(self, X: ArrayLike) -> Floats: ...

        def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
            """Defined by `TreedGP`."""

        def predict_covariance(self, X: ArrayLike, *, latent: bool = False) -> tuple[Floats, Floats]:
            """Defined by `Predictor`."""

    def cut_probabilities(self, column: int = 0) -> tuple[Floats, Floats]:
        """Return the split candidates of a column, and the expected number of splits at each."""
        check_is_fitted(self)
        data = self.model_.data
        check_column(column, self._training[0].shape[1])
        if column not in data.columns:
            return np.zeros(0), np.zeros(0)
        j = int(np.flatnonzero(data.columns == column)[0])
        values = data.cuts[j, : data.n_cuts[j]]
        return data.low[j] + data.width[j] * values, self.posterior_.cut_probabilities[j]

    def parameters_at(self, X: ArrayLike) -> dict[str, Floats]:
        """Return what every kept tree says of the leaf in which each input lies, by name: draws of the posterior.

        Returns
        -------
        dict of ndarray
            ``"noise"`` and ``"deviation"``, shape (n_trees, n_points), the standard deviations of the noise and of the
            process in the unit of y; ``"ranges"`` of the correlation, the inputs scaled to [0, 1], and ``"active"``, 0
            where an input is switched off, shape (n_trees, n_points, n_ranges).
        """
        check_is_fitted(self)
        noise, signal, ranges, active = surfaces.parameters_each(self.model_, self.posterior_.rows, self._inputs(X))
        spread = self.model_.data.spread
        deviations = {"noise": spread * np.sqrt(noise), "deviation": spread * np.sqrt(signal)}
        return deviations | {"ranges": ranges, "active": active}

    def sensitivity(
        self,
        n: int = 1024,
        *,
        distributions: Mapping[Any, Any] | None = None,
        level: float = 0.9,
        random_state: Any = None,
    ) -> Sensitivity:
        """Say how much of the surface's variance each input explains, and how the mean goes with it.

        Parameters
        ----------
        n : int
            Points of the design, rounded up to a power of 2; the surface is computed at (d + 2) n of them.
        distributions : mapping, optional
            For a column, by name or number: a SciPy distribution (anything with ``ppf``), or a sample of values. Other
            inputs are uniform between the ends of the training data. Inputs are independent.
        level : float
            Probability of the intervals, which hold what the kept trees say.
        """
        check_is_fitted(self)
        check_count("n", n)
        names = tuple(map(str, getattr(self, "feature_names_in_", range(self._training[0].shape[1]))))
        chosen = input_quantiles(self._training[0], names, distributions)
        rng = generator_of(random_state)
        return summary(
            analyse(self.model_, self.posterior_.rows, chosen, n, rng), names, level, self.model_.data.response
        )

    def sobol(self, n: int = 1024, random_state: Any = None) -> tuple[Floats, Floats]:
        """Return first-order and total Sobol indices, means over the kept trees, inputs uniform on their box.

        `sensitivity` has their intervals, other distributions of the inputs, and main effects.
        """
        found = self.sensitivity(n, random_state=random_state)
        return found.first, found.total

    def alm(self, X: ArrayLike) -> Floats:
        """Return the predictive standard deviation at each candidate (active learning, MacKay)."""
        return np.asarray(self.predict(X, return_std=True)[1])

    def alc(self, X: ArrayLike, reference: ArrayLike | None = None) -> Floats:
        """Return the mean fall of the variance over ``reference`` (the candidates themselves by default)."""
        check_is_fitted(self)
        candidates = self._inputs(X)
        where = candidates if reference is None else self._inputs(reference)
        scaled = surfaces.active_learning_cohn(self.model_, self.posterior_.rows, candidates, where)
        return scaled * self.model_.data.spread**2

    def d_optimal(self, X: ArrayLike, n: int) -> NDArray[np.int64]:
        """Choose candidates that together say most about the surface: their indices, the most telling first.

        Greedily for the determinant of I + N^{-1} C, with C the posterior covariance of the surface at the candidates
        and N the noise: the information of responses there. tgp.design does so within the leaves of its best tree.
        """
        check_is_fitted(self)
        check_count("n", n)
        covariance = self.predict_covariance(X, latent=True)[1]
        noise = np.diag(self.predict_covariance(X)[1]) - np.diag(covariance)
        chosen: list[int] = []
        while len(chosen) < min(n, len(noise)):
            gain = np.diag(covariance) / noise
            gain[chosen] = -1.0
            best = int(np.argmax(gain))
            chosen.append(best)
            column = covariance[best].copy()
            covariance -= np.outer(column, column / (column[best] + noise[best]))
        return np.array(chosen)

    def rank_improvement(self, X: ArrayLike, n: int = 1, *, random_state: Any = None) -> NDArray[np.int64]:
        """Choose candidates to evaluate together, for minimisation: their indices, best first, shape (n,).

        The first has the largest expected improvement. Each further one adds most to the expected improvement of all
        chosen so far, over joint draws of the surface: points next to each other promise the same.
        """
        check_is_fitted(self)
        check_count("n", n)
        alone = self.expected_improvement(X)
        if n == 1:
            return np.array([int(np.argmax(alone))])
        leading = np.argsort(-alone)[: max(MOST_RANKED, n)]
        rng, inputs = generator_of(random_state), self._inputs(X)[leading]
        points = np.concatenate([inputs, np.unique(self._training[0], axis=0)])
        drawn = surfaces.draw_jointly(self.model_, self.posterior_.rows, points, N_JOINT, rng, latent=True)
        gain = np.maximum(drawn[len(inputs) :].min(axis=0) - drawn[: len(inputs)], 0.0)
        best, chosen = gain[0], [0]
        while len(chosen) < min(n, len(leading)):
            total = np.maximum(gain, best).mean(axis=1)
            total[chosen] = -1.0
            chosen.append(int(np.argmax(total)))
            best = np.maximum(best, gain[chosen[-1]])
        return np.asarray(leading[chosen])

    def expected_improvement(self, X: ArrayLike) -> Floats:
        """Return the expected improvement on the lowest value known, for minimisation."""
        check_is_fitted(self)
        rows = self.posterior_.rows
        known = surfaces.surface_means(self.model_, rows, np.unique(self._training[0], axis=0))
        each = surfaces.predict_each(self.model_, rows, self._inputs(X))
        return surfaces.expected_improvement(each, known.min(axis=1)) * self.model_.data.spread
