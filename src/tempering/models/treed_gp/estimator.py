"""`TreedGP`, a scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tempering.arrays import Floats
from tempering.errors import InputError, check_count
from tempering.estimators import Estimate
from tempering.io.checkpoint import Checkpoint
from tempering.models.scikit_learn import NestedParameters, group_of, naming_groups, seed_from
from tempering.models.treed_gp import storage
from tempering.models.treed_gp.categories import Categories
from tempering.models.treed_gp.design import Design
from tempering.models.treed_gp.diagnosis import diagnosis_of
from tempering.models.treed_gp.fitting import Plan, fit, usual_method, usual_rounds
from tempering.models.treed_gp.map_tree import draw_given_tree
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.posterior import Posterior
from tempering.models.treed_gp.predictor import Predictor
from tempering.models.treed_gp.settings import Keeping, Prior, Proposals, Tempering
from tempering.models.treed_gp.training import check_finite, check_rows
from tempering.models.treed_gp.trees import Leaf, describe_tree
from tempering.randomness import stream
from tempering.runs.diagnosis import Diagnosis

GIVEN_TREE = 12  # a stream


class TreedEstimator(NestedParameters):
    """What fits of responses and of classes share: settings, how long to run, and columns of the inputs."""

    FILE_FORMAT: ClassVar[str]
    GROUPS: ClassVar = {"prior": Prior, "proposals": Proposals, "tempering": Tempering, "keep": Keeping}
    MOVED: ClassVar = {  # parameters of earlier versions
        "tree": ("prior", "tree"),
        "mean": ("prior", "mean"),
        "correlation": ("prior", "correlation"),
        "temper": ("tempering", "target"),
        "ladder": ("tempering", "ladder"),
        "hottest": ("tempering", "hottest"),
        "rule": ("tempering", "rule"),
        "kept": ("keep", "trees"),
        "thin": ("keep", "thin"),
        "predict_every": ("keep", "predict_every"),
    }
    _categories: Categories | None = None

    @naming_groups
    def __init__(
        self,
        leaf: str = "gp_linear",
        prior: Prior | Mapping[str, Any] | None = None,
        proposals: Proposals | Mapping[str, Any] | None = None,
        tempering: Tempering | Mapping[str, Any] | None = None,
        draws: int | None = None,
        tune: int | None = None,
        chains: int = 2,
        keep: Keeping | Mapping[str, Any] | None = None,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.leaf = leaf
        self.prior = prior
        self.proposals = proposals
        self.tempering = tempering
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.keep = keep
        self.random_state = random_state
        self.progress = progress

    def _read_inputs(self, X: ArrayLike, y: ArrayLike, *, y_numeric: bool) -> tuple[Floats, NDArray[Any]]:
        """Return inputs and responses, columns of categories as numbers; remember the columns."""
        check_rows(y, "Response y")
        self._categories = Categories.of(X)
        numbers = X if self._categories is None else self._categories.apply(X)
        inputs, response = validate_data(
            self, numbers, y, dtype=np.float64, y_numeric=y_numeric, ensure_all_finite=False, ensure_min_samples=1
        )
        check_finite(inputs, "Input X")
        return inputs, response

    def _prior(self) -> Prior:
        """Return the prior asked for; columns of categories stay out of the leaves."""
        prior = group_of(Prior, self.prior, "prior")
        if self._categories is not None and prior.base_columns is None:
            return replace(prior, base_columns=len(self._categories.numbers))
        return prior

    def _plan(self, points: Floats | None, n_distinct: int) -> Plan:
        tempering = group_of(Tempering, self.tempering, "tempering")
        method = tempering.method
        if method is None:
            is_usual = self.draws is None and tempering.ladder is None and tempering.hottest < 1.0
            method = usual_method(n_distinct) if is_usual else "simulated"
        tune, first, most = usual_rounds(n_distinct, method)
        if self.draws is not None:
            tune = first = most = self.draws
        if self.tune is not None:
            tune = self.tune
        for name, value, least in (("draws", first, 1), ("tune", tune, 0), ("chains", self.chains, 1)):
            check_count(name, value, least=least)
        return Plan(
            tempering=replace(tempering, method=method),
            first=first,
            draws=most,
            tune=tune,
            chains=self.chains,
            keep=group_of(Keeping, self.keep, "keep"),
            points=points,
        )

    def _inputs(self, X: ArrayLike) -> Floats:
        if self._categories is not None:
            X = self._categories.apply(X)
        inputs = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=False)
        check_finite(inputs, "Input X")
        return np.asarray(inputs)

    @property
    def input_names_(self) -> list[str]:
        """The columns that X must have: of numbers first, then those of categories, which are one each."""
        check_is_fitted(self)
        if self._categories is not None:
            return [*self._categories.numbers, *self._categories.levels]
        return [str(name) for name in getattr(self, "feature_names_in_", range(self.n_features_in_))]

    def _posteriors(self) -> list[Posterior]:
        """Return what is known, for a file."""
        raise NotImplementedError

    def _restore(self, posteriors: list[Posterior]) -> None:
        """Take it from a file, all other attributes set."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, which `load` reads; no pickle."""
        check_is_fitted(self)
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model written by `save`."""
        return storage.load(cls, path)


class TreedGP(Predictor, Design, RegressorMixin, TreedEstimator):  # type: ignore[misc]
    """Bayesian treed Gaussian process: nonstationary regression with full uncertainty.

    The input space is cut into rectangles by a tree, and each has a Gaussian process (or a linear or constant
    model) of its own (Gramacy & Lee 2008). Tree and processes are sampled together by coupled or
    simulated tempering, and the draws of all temperatures are combined.

    Parameters
    ----------
    leaf : {"gp_linear", "gp", "linear", "constant"}
        Model of a leaf. ``"gp_linear"`` is a Gaussian process in which each input can be switched off, down to the
        linear model: the data choose.
    prior, proposals : Prior, Proposals or dict, optional
        What is believed before the data, whether there is a tree at all, mean function and correlation included; and
        how the moves propose. Single settings are nested parameters, ``set_params(prior__min_leaf=5)``.
    tempering : Tempering or dict, optional
        The ladder of inverse temperatures, what is tempered, and how the rungs are combined.
    draws : int, optional
        Rounds of each chain. None runs until the chains agree on the predictions, and have come round or agree closely:
        125 rounds of coupled chains at the least, 1000 at the most. Above 400 distinct inputs chains are single, and
        make 1000 to 8000 rounds, less by sqrt(400 / n), as rounds become slower.
    tune : int, optional
        Rounds of tuning before that; None is as many as ``draws``, or 375 (above 400 inputs 2000, less as above).
    chains : int
        Number of chains.
    keep : Keeping or dict, optional
        How many trees are kept for prediction, and how draws are thinned.
    random_state : int, Generator, RandomState or None
        Equal seeds give equal fits, whatever the number of threads. A Generator moves on with each fit.
    progress : bool
        Show a bar when the output is a terminal.

    Attributes
    ----------
    posterior_ : Posterior
        The run of the chains (``posterior_.draws``), trees drawn from it, probabilities, acceptance by temperature.
    leaf_probabilities_ : ndarray
        P(1, 2, ... leaves).
    feature_importances_ : ndarray, shape (n_features_in_,)
        Share of the splits on each column.
    map_tree_ : list of Leaf
        Leaves of the best tree with the most probable number of leaves, with posterior means given that tree.
    best_trees_ : dict
        The best tree seen of each number of leaves.

    Examples
    --------
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> y = np.where(x.ravel() < 0.5, 1.0, 2.0)
    >>> model = TreedGP(leaf="constant", draws=400, tune=200, random_state=1).fit(x, y)
    >>> model.predict([[0.1], [0.9]]).round(1)
    array([1., 2.])
    """

    FILE_FORMAT = "tempering treed GP 8"
    _given_tree: tuple[Posterior, list[Leaf]] | None = None  # what `map_tree_` has found, and for which fit

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_predict: ArrayLike | None = None,
        *,
        executor: Executor | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> TreedGP:
        """Sample the posterior.

        Parameters
        ----------
        X, y : array_like, shapes (n, d) and (n,)
            Training data. Rows that are equal in X may differ in y. In a data frame, columns of text, categories or
            Booleans become columns of 0 and 1, last: the tree splits on them, and leaves do not use them.
        X_predict : array_like, shape (n_points, d), optional
            Inputs at which predictions are averaged over the weighted draws of all rungs: `running_prediction_`.
            They have no influence on the model.
        executor : concurrent.futures.Executor, optional
            Who runs the chains; by default threads do. The fit is the same to the bit whoever does.
        checkpoint : path or Checkpoint, optional
            A folder where the fit is kept while it goes on, as for `tempering.sample`: after a kill the same call
            goes on from there. Ctrl-C ends a fit at its next block and takes the draws there are.
        """
        inputs, response = self._read_inputs(X, y, y_numeric=True)
        self.model_ = self._build(inputs, response)
        points = None
        if X_predict is not None:
            points = self.model_.data.scale(self._inputs(X_predict))
        is_open = self.random_state is None and checkpoint is not None  # then a checkpoint remembers its seed
        seed = None if is_open else seed_from(self.random_state)
        plan = self._plan(points, len(self.model_.data.x))
        self.posterior_ = fit(
            self.model_, plan, rng=seed, progress=self.progress, executor=executor, checkpoint=checkpoint
        )
        self._training = inputs, response
        return self

    def _build(self, inputs: Floats, response: Floats) -> TreedGPModel:
        return TreedGPModel(
            inputs,
            response,
            leaf=self.leaf,
            prior=self._prior(),
            proposals=group_of(Proposals, self.proposals, "proposals"),
            temper=group_of(Tempering, self.tempering, "tempering").target,
        )

    @property
    def leaf_probabilities_(self) -> Floats:
        """Posterior probabilities of 1, 2, ... leaves."""
        check_is_fitted(self)
        return self.posterior_.leaf_probabilities

    @property
    def feature_importances_(self) -> Floats:
        """Share of the splits on each column; zero where there is no split at all."""
        check_is_fitted(self)
        out = np.zeros(self.n_features_in_)
        splits = self.posterior_.splits_per_tree
        out[self.model_.data.columns] = splits / max(float(splits.sum()), 1e-300)
        return out

    @property
    def map_tree_(self) -> list[Leaf]:
        """Leaves of the best tree with the most probable number of leaves; parameters are posterior means given it."""
        check_is_fitted(self)
        found = self.posterior_
        if self._given_tree is None or self._given_tree[0] is not found:
            assert found.draws.info is not None
            rng = stream(found.draws.info.seed, GIVEN_TREE)
            self._given_tree = found, describe_tree(self.model_, draw_given_tree(self.model_, found.map_row, rng))
        return self._given_tree[1]

    @property
    def best_trees_(self) -> dict[int, list[Leaf]]:
        """The best tree seen of each number of leaves, with the parameters it was seen with.

        Densities of different numbers of leaves cannot be compared: `leaf_probabilities_` says which number is right.
        """
        check_is_fitted(self)
        found = self.posterior_
        return {
            int(n): describe_tree(self.model_, row[None])
            for n, row in zip(found.best_leaves, found.best_rows, strict=True)
        }

    def diagnose(self) -> Diagnosis:
        """Say in words whether the run can be trusted: rungs, journeys between them, weights, leaves."""
        check_is_fitted(self)
        return diagnosis_of(self.posterior_)

    def log_evidence(self) -> Estimate:
        """Return the log marginal likelihood of y; the ladder must reach the prior, k = 0."""
        check_is_fitted(self)
        run, data = self.posterior_.draws, self.model_.data
        if run.ladder.hottest > 0.0:
            raise InputError(
                f"The evidence needs a ladder that ends at k = 0, the prior, but this one ends at "
                f"k = {run.ladder.hottest:g}. Pass tempering=Tempering(hottest=0), or a ladder that ends in 0."
            )
        found = run.log_evidence()
        return Estimate(found.value - data.n_rows * np.log(data.spread), found.standard_error)

    def report(self, path: str | Path, *, title: str = "Treed GP") -> None:
        """Write one self-contained page: the verdict, tree, surface and sensitivities, then the run of the chains."""
        from tempering.models.treed_gp.plots import pictures_of
        from tempering.report.page import write_report

        check_is_fitted(self)
        write_report(self.posterior_.draws, path, title=title, verdict=self.diagnose(), model=pictures_of(self))

    def _posteriors(self) -> list[Posterior]:
        return [self.posterior_]

    def _restore(self, posteriors: list[Posterior]) -> None:
        self.model_ = self._build(*self._training)
        (self.posterior_,) = posteriors


__all__ = ["Posterior", "TreedEstimator", "TreedGP"]
