"""Where splits are, which inputs matter, and where to look next: what a fitted treed GP is asked beside predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tempering.models.treed_gp import surfaces

if TYPE_CHECKING:
    from tempering.models.treed_gp.combining import Posterior
    from tempering.models.treed_gp.model import TreedGPModel

Floats = NDArray[np.float64]


class Design:
    """Questions of sequential design and sensitivity, mixed into `TreedGP`."""

    model_: TreedGPModel
    posterior_: Posterior
    _training: tuple[Floats, Floats]

    if TYPE_CHECKING:

        def _inputs(self, X: ArrayLike) -> Floats: ...

        def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
            """Defined by `TreedGP`."""

    def cut_probabilities(self, column: int = 0) -> tuple[Floats, Floats]:
        """Return the split candidates of a column, and the expected number of splits at each."""
        check_is_fitted(self)
        data = self.model_.data
        if column not in data.columns:
            return np.zeros(0), np.zeros(0)
        j = int(np.flatnonzero(data.columns == column)[0])
        values = data.cuts[j, : data.n_cuts[j]]
        return data.low[j] + data.width[j] * values, self.posterior_.cut_probabilities[j]

    def sobol(self, n: int = 1000, random_state: Any = None) -> tuple[Floats, Floats]:
        """Return first-order and total Sobol indices, means over the kept trees, inputs uniform on their
        box.
        """
        check_is_fitted(self)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        inputs = self._training[0]
        box = np.stack([inputs.min(axis=0), inputs.max(axis=0)])
        first, total = surfaces.sobol_indices(self.model_, self.posterior_.rows, box, n, rng)
        return first.mean(axis=0), total.mean(axis=0)

    def alm(self, X: ArrayLike) -> Floats:
        """Return the predictive standard deviation at each candidate (active learning, MacKay)."""
        return np.asarray(self.predict(X, return_std=True)[1])

    def alc(self, X: ArrayLike, reference: ArrayLike | None = None) -> Floats:
        """Return the mean fall of the variance over ``reference`` (the candidates themselves by default)."""
        check_is_fitted(self)
        candidates = self._inputs(X)
        where = candidates if reference is None else self._inputs(reference)
        return surfaces.active_learning_cohn(self.model_, self.posterior_.rows, candidates, where)

    def expected_improvement(self, X: ArrayLike) -> Floats:
        """Return the expected improvement on the lowest value known, for minimisation."""
        check_is_fitted(self)
        rows = self.posterior_.rows
        known = surfaces.predict_each(self.model_, rows, np.unique(self._training[0], axis=0))[:, 0]
        each = surfaces.predict_each(self.model_, rows, self._inputs(X))
        return surfaces.expected_improvement(each, known.min(axis=1))
