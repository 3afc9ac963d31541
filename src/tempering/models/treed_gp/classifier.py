"""`TreedGPClassifier`, a scikit-learn classifier: treed Gaussian processes of log-odds."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.models.scikit_learn import group_of, seed_from
from tempering.models.treed_gp import surfaces
from tempering.models.treed_gp.diagnosis import diagnosis_of
from tempering.models.treed_gp.estimator import TreedEstimator
from tempering.models.treed_gp.fitting import fit
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.posterior import Posterior
from tempering.models.treed_gp.settings import Prior, Proposals, Tempering
from tempering.runs.diagnosis import Diagnosis

Labels = NDArray[Any]

INVERSE_VARIANCE = (1.0, 4.0, 1.0, 4.0)  # of log-odds: half of the prior has deviations between 1.7 and 3.7
WIDE = 1.5  # deviation of log-odds from which their logistic mean is summed over the logistic's own density


@dataclass(frozen=True)
class Choice:
    """One of the questions whose answers make a class: whether it is this one, of those that are left."""

    label: int
    """Which of ``classes_``."""
    model: TreedGPModel
    posterior: Posterior


def expected_logistic(mean: Floats, deviation: Floats) -> Floats:
    """Return the mean of 1 / (1 + exp(-psi)) for normal psi, to 1e-5 or better.

    Examples
    --------
    >>> expected_logistic(np.array([0.0, 2.0, 2.0]), np.array([3.0, 0.0, 10.0])).round(4)
    array([0.5   , 0.8808, 0.578 ])
    """
    nodes, weights = hermegauss(20)
    out = np.zeros(np.shape(mean))
    for z, weight in zip(nodes, weights / weights.sum(), strict=True):
        out += weight * expit(mean + deviation * z)
    wide = deviation > WIDE
    values, root = mean[wide], deviation[wide]
    total = np.zeros(values.shape)
    steps = np.arange(-30.0, 31.0)  # psi exceeds a logistic number, in steps of 1
    density = (
        0.25 / np.cosh(0.5 * steps) ** 2
    )  # adds up to 1 + 2e-7: as it is, 1 - p would be negative for a class that is certain
    for t, weight in zip(steps, density / density.sum(), strict=True):
        total += weight * ndtr((values - t) / root)
    out[wide] = total
    return np.clip(out, 0.0, 1.0)


class TreedGPClassifier(ClassifierMixin, TreedEstimator):  # type: ignore[misc]
    """Classification by Bayesian treed Gaussian processes of log-odds.

    The log-odds of a class are a treed Gaussian process, as the response of `TreedGP` is, without noise: trees, ranges
    and the variance of the log-odds are sampled together by tempered chains. The likelihood is the logistic one, of
    which Polya-Gamma variables make that of a regression, at every temperature; nothing is approximated but by
    sampling.

    With more than two classes the most frequent class is told from the rest first, then the next one from what is left,
    and so on: the likelihood is a product of those of the questions, each of which has a treed Gaussian process of its
    own, and so is the posterior.

    Parameters
    ----------
    leaf : {"gp_linear", "gp", "linear", "constant"}
        Model of the log-odds in a leaf.
    prior, proposals, tempering, draws, tune, chains, keep, random_state, progress
        As those of `TreedGP`. ``prior.nugget`` is the prior of 1 / (variance of the log-odds); where it is left at the
        default of `Prior` it is exponential of mean 1/4: deviations between 1.7 and 3.7, half of the time.

    Attributes
    ----------
    classes_ : ndarray
    choices_ : list of Choice
        The questions in their order, with the posterior of each: one for two classes.

    Examples
    --------
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> y = np.where(np.abs(x.ravel() - 0.5) < 0.25, "in", "out")
    >>> model = TreedGPClassifier(leaf="constant", draws=400, tune=200, random_state=1).fit(x, y)
    >>> model.classes_.tolist(), model.predict([[0.1], [0.5]]).tolist()
    (['in', 'out'], ['out', 'in'])
    """

    FILE_FORMAT = "tempering treed GP classes 1"

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        executor: Executor | None = None,
        checkpoint: str | Path | None = None,
    ) -> TreedGPClassifier:
        """Sample the posterior.

        Parameters
        ----------
        X, y : array_like, shapes (n, d) and (n,)
            Inputs, a data frame with columns of categories too, and a class for each row: text, numbers or Booleans.
        executor : concurrent.futures.Executor, optional
            Who runs the chains.
        checkpoint : path, optional
            A folder where the fit is kept while it goes on, for each question one inside.
        """
        inputs, response = self._read_inputs(X, y, y_numeric=False)
        check_classification_targets(response)
        self.classes_, labels = np.unique(response, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"A classifier needs at least two classes, but y has one class, {self.classes_.tolist()[0]!r}."
            )
        self._training = inputs, labels
        is_open = self.random_state is None and checkpoint is not None
        seed = None if is_open else seed_from(self.random_state)
        self.choices_ = []
        for i, (label, model) in enumerate(self._questions()):
            posterior = fit(
                model,
                self._plan(None, len(model.data.x)),
                rng=None if seed is None else seed + i,
                progress=self.progress,
                executor=executor,
                checkpoint=None if checkpoint is None else Path(checkpoint) / str(i),
            )
            self.choices_.append(Choice(label, model, posterior))
        return self

    def _questions(self) -> list[tuple[int, TreedGPModel]]:
        """Return each class but the last with the model of its log-odds against all that come after."""
        inputs, labels = self._training
        order = [1, 0] if len(self.classes_) == 2 else np.argsort(-np.bincount(labels), kind="stable").tolist()
        out = []
        for i, label in enumerate(order[:-1]):
            here = np.isin(labels, order[i:])
            out.append((label, self._build(inputs[here], labels[here] == label)))
        return out

    def _build(self, inputs: Floats, is_class: NDArray[np.bool_]) -> TreedGPModel:
        prior = self._prior()
        if prior.nugget == Prior().nugget:
            prior = replace(prior, nugget=INVERSE_VARIANCE)
        return TreedGPModel(
            inputs,
            is_class,
            leaf=self.leaf,
            prior=replace(prior, sigma2_rates=(0.0, 0.0)),
            proposals=group_of(Proposals, self.proposals, "proposals"),
            temper=group_of(Tempering, self.tempering, "tempering").target,
            has_classes=True,
        )

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the posterior predictive probability of each class, shape (n_points, n_classes)."""
        check_is_fitted(self)
        inputs = self._inputs(X)
        out, left = np.empty((len(inputs), len(self.classes_))), np.ones(len(inputs))
        last = set(range(len(self.classes_)))
        for choice in self.choices_:
            yes = probabilities(choice, inputs)
            out[:, choice.label] = left * yes
            left = left * (1.0 - yes)
            last.remove(choice.label)
        out[:, last.pop()] = left
        return out

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> Labels:
        """Return the most probable class of each row."""
        found = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[found])

    @property
    def leaf_probabilities_(self) -> list[Floats]:
        """Posterior probabilities of 1, 2, ... leaves, for each question."""
        check_is_fitted(self)
        return [choice.posterior.leaf_probabilities for choice in self.choices_]

    @property
    def feature_importances_(self) -> Floats:
        """Share of the splits on each column, over all questions; zero where there is no split at all."""
        check_is_fitted(self)
        out = np.zeros(self.n_features_in_)
        for choice in self.choices_:
            out[choice.model.data.columns] += choice.posterior.splits_per_tree
        return out / max(float(out.sum()), 1e-300)

    def diagnose(self) -> list[Diagnosis]:
        """Say in words whether the runs can be trusted, one verdict for each question."""
        check_is_fitted(self)
        return [diagnosis_of(choice.posterior) for choice in self.choices_]

    def _posteriors(self) -> list[Posterior]:
        return [choice.posterior for choice in self.choices_]

    def _restore(self, posteriors: list[Posterior]) -> None:
        pairs = zip(self._questions(), posteriors, strict=True)
        self.choices_ = [Choice(label, model, posterior) for (label, model), posterior in pairs]


def probabilities(choice: Choice, inputs: Floats) -> Floats:
    """Return the probability that each input, of those that are left, has the class of a question."""
    out = np.empty(len(inputs))
    for where, block in surfaces.in_blocks(inputs):
        each = surfaces.predict_each(choice.model, choice.posterior.rows, block)
        out[where] = expected_logistic(each[:, 0], np.sqrt(np.maximum(each[:, 1], 0.0))).mean(axis=0)
    return out
