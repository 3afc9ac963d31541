"""What a fitted treed GP predicts: moments and quantiles, joint draws, and sums kept while it ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tempering.errors import InputError
from tempering.models.treed_gp import mixture, surfaces

if TYPE_CHECKING:
    from tempering.models.treed_gp.combining import Posterior
    from tempering.models.treed_gp.model import TreedGPModel

Floats = NDArray[np.float64]


class Predictor:
    """Predictions, mixed into `TreedGP`."""

    model_: TreedGPModel
    posterior_: Posterior

    if TYPE_CHECKING:

        def _inputs(self, X: ArrayLike) -> Floats: ...

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        quantiles: Sequence[float] | None = None,
        *,
        latent: bool = False,
    ) -> Any:
        """Predict by averaging over the kept trees.

        Parameters
        ----------
        X : array_like, shape (n_points, d)
        return_std : bool
            Also return standard deviations.
        quantiles : sequence of float, optional
            Also return these quantiles, shape (n_points, n_quantiles).
        latent : bool
            Deviations and quantiles of the surface itself, without the noise of a new response.

        Returns
        -------
        ndarray, or a tuple of (mean, deviation, quantiles), those that were asked for
        """
        check_is_fitted(self)
        if quantiles is not None:
            _check_levels(quantiles)
        mean, deviation, found = self._predict(self._inputs(X), quantiles, latent=latent)
        out = [mean] + [deviation] * return_std + ([] if quantiles is None else [found])
        return out[0] if len(out) == 1 else tuple(out)

    def _predict(
        self, inputs: Floats, levels: Sequence[float] | None = None, *, latent: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """Return mean, deviation and quantiles at inputs that were checked."""
        each = surfaces.predict_each(self.model_, self.posterior_.rows, inputs)
        variance = each[:, 1] if latent else each[:, 1] + each[:, 2]
        mean, deviation = mixture.moments(each[:, 0], variance)
        found = np.zeros((len(mean), 0))
        if levels is not None:
            found = mixture.quantiles(each[:, 0], np.sqrt(np.maximum(variance, 1e-300)), levels)
        return mean, deviation, found

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw responses jointly at all inputs from the posterior predictive, shape (n_points, n_samples)."""
        check_is_fitted(self)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        return surfaces.draw_responses(self.model_, self.posterior_.rows, self._inputs(X), n_samples, rng)

    @property
    def running_prediction_(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation at ``X_predict``, from the sums over every rung's draws."""
        check_is_fitted(self)
        sums = self.posterior_.predictions
        if sums is None:
            raise InputError("running_prediction_ needs inputs, but fit had none. Call fit(X, y, X_predict=...).")
        data = self.model_.data
        return data.centre + data.spread * sums[0], data.spread * np.sqrt(sums[1] + sums[2])


def _check_levels(levels: Sequence[float]) -> None:
    if not all(0.0 < level < 1.0 for level in levels):
        raise InputError(f"quantiles must lie between 0 and 1, but got {list(levels)}. For 90 %: [0.05, 0.95].")
