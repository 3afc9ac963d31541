"""What a fitted treed GP predicts: moments and quantiles, joint draws, and sums kept while it ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.models.scikit_learn import generator_of
from tempering.models.treed_gp import mixture, surfaces

if TYPE_CHECKING:
    from tempering.models.treed_gp.model import TreedGPModel
    from tempering.models.treed_gp.posterior import Posterior


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
        quantiles: float | Sequence[float] | None = None,
        *,
        latent: bool = False,
    ) -> Any:
        """Predict by averaging over the kept trees.

        Parameters
        ----------
        X : array_like, shape (n_points, d)
        return_std : bool
            Also return standard deviations.
        quantiles : float or sequence of float, optional
            Also return these quantiles, shape (n_points, n_quantiles); one number counts as a list of one.
        latent : bool
            Deviations and quantiles of the surface itself, without the noise of a new response.

        Returns
        -------
        ndarray, or a tuple of (mean, deviation, quantiles), those that were asked for
        """
        check_is_fitted(self)
        levels = None if quantiles is None else _checked_levels(quantiles)
        mean, deviation, found = self._predict(self._inputs(X), levels, latent=latent)
        out = [mean] + [deviation] * return_std + ([] if quantiles is None else [found])
        return out[0] if len(out) == 1 else tuple(out)

    def _predict(
        self, inputs: Floats, levels: Sequence[float] | None = None, *, latent: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """Return mean, deviation and quantiles at inputs that were checked."""
        mean, deviation = np.empty(len(inputs)), np.empty(len(inputs))
        found = np.empty((len(inputs), 0 if levels is None else len(levels)))
        for where, block in surfaces.in_blocks(inputs):
            each = surfaces.predict_each(self.model_, self.posterior_.rows, block)
            variance = each[:, 1] if latent else each[:, 1] + each[:, 2]
            mean[where], deviation[where] = mixture.moments(each[:, 0], variance)
            if levels is not None:
                found[where] = mixture.quantiles(each[:, 0], np.sqrt(np.maximum(variance, 1e-300)), levels)
        data = self.model_.data
        return data.response(mean), data.spread * deviation, data.response(found)

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = None, *, latent: bool = False) -> Floats:
        """Draw responses jointly at all inputs from the posterior predictive, shape (n_points, n_samples).

        With ``latent`` they are draws of the surface, without the noise of new responses.
        """
        check_is_fitted(self)
        rng = generator_of(random_state)
        drawn = surfaces.draw_jointly(self.model_, self.posterior_.rows, self._inputs(X), n_samples, rng, latent=latent)
        return self.model_.data.response(drawn)

    def predict_covariance(self, X: ArrayLike, *, latent: bool = False) -> tuple[Floats, Floats]:
        """Return the mean and the predictive covariance matrix at all inputs, shapes (n,) and (n, n).

        Over all kept trees: the mean of their covariances, and the covariance of their means. With ``latent`` the
        noise of new responses is left out of the diagonal.
        """
        check_is_fitted(self)
        data = self.model_.data
        mean, covariance = surfaces.joint_moments(self.model_, self.posterior_.rows, self._inputs(X), latent=latent)
        return data.response(mean), data.spread**2 * covariance

    @property
    def running_prediction_(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation at ``X_predict``, over the weighted draws of all rungs."""
        check_is_fitted(self)
        sums = self.posterior_.predictions
        if sums is None:
            raise InputError("running_prediction_ needs inputs, but fit had none. Call fit(X, y, X_predict=...).")
        data = self.model_.data
        return data.response(sums[0]), data.spread * np.sqrt(sums[1] + sums[2])


def _checked_levels(levels: float | Sequence[float]) -> list[float]:
    """Return the levels as a list; one number is a list of one."""
    try:
        found = [float(level) for level in np.atleast_1d(levels)]
    except (TypeError, ValueError):
        found = []
    if not found or not all(0.0 < level < 1.0 for level in found):
        raise InputError(f"quantiles must be numbers between 0 and 1, but got {levels!r}. For 90 %: [0.05, 0.95].")
    return found
