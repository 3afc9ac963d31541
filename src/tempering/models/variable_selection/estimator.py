"""`VariableSelection`, a scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tempering.errors import InputError
from tempering.estimators import Estimate
from tempering.informed.verdict import Verdict
from tempering.models.variable_selection.chains import ChainPlan, run_chains, tuned_ladder
from tempering.models.variable_selection.families import FAMILIES
from tempering.models.variable_selection.general import fit_general, general_problem
from tempering.models.variable_selection.posterior import FoundModel, posterior_of
from tempering.models.variable_selection.priors import SizePrior, Slab
from tempering.models.variable_selection.problem import LinearProblem
from tempering.models.variable_selection.terms import Terms
from tempering.path.ladder import Ladder

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
LARGEST_BY_DEFAULT = 200
MODELS_TO_PREDICT = 200  # resampled; their spread is the predictive deviation


class VariableSelection(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian variable selection: which columns matter, how surely, and predictions averaged over models.

    Every column has a coefficient of exactly zero or a normal one (spike and slab). Models are sampled by weighted
    tempered Gibbs (Zanella & Roberts 2019), chains without rejections; a ladder of
    temperatures can be put over them.

    Parameters
    ----------
    family : {"gaussian", "logistic", "probit", "binomial", "poisson", "negative_binomial"}
        Distribution of the response. All but the first use Laplace's approximation to a model's marginal likelihood.
    size : float, (float, float) or None
        Expected number of columns, or a and b of a beta distribution of the share that is in; None is (1, 1).
    slab : float, "g", matrix or Slab
        Prior precision of a coefficient of a standardised column, in units of the noise; "g": the g-prior with g = n;
        a matrix: a dense precision.
    noise : float, optional
        Known standard deviation of the noise; None: unknown.
    noise_prior : (float, float)
        Shape and rate of the inverse gamma prior of an unknown noise variance; (0, 0) is the usual improper one.
    forced : sequence of int or str
        Columns that are always in.
    groups : sequence of labels, optional
        One for each column; columns with the same label enter and leave together.
    interactions : {None, "pairs", "quadratic"}
        Add products of two columns, and squares.
    heredity : {"strong", "weak", "none"}
        A product needs both its columns in the model, or one of them.
    max_size : int, optional
        Largest number of columns in a model, 200 by default.
    standardise : bool
        Divide every column by its standard deviation.
    moves : {"weighted", "sum", "square_root", "min", "max", "barker"}
        Rates of the flips: weighted tempered Gibbs, tempered Gibbs, or a balancing function.
    ladder : Ladder, sequence of float, "tuned" or None
        Inverse temperatures of the marginal likelihood; None does not temper, "tuned" (normal responses) chooses them
        down to 0.1. See the tutorial on when it pays.
    draws, tune, chains : int
        Jumps kept and jumps of tuning, of each chain, and the number of chains.
    rule : str
        How the rungs are combined.
    threshold : float
        `get_support` names the columns with at least this inclusion probability.
    trials : int or array_like, optional
        Of a binomial response. Dispersion of a negative binomial one: ``dispersion``.
    dispersion : float
        Of a negative binomial response: variance mean + mean^2 / dispersion.
    n_jobs : int
        Threads that share the chains. The result does not depend on it.
    random_state : int, RandomState or None

    Attributes
    ----------
    inclusion_probabilities_, inclusion_errors_ : ndarray, shape (n_terms,)
    coef_, coef_std_ : ndarray, shape (n_terms,)
        Posterior mean and standard deviation of the coefficients, over models, on the scale of the columns.
    intercept_ : float
    term_names_ : tuple of str
    posterior_ : SelectionPosterior

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> X = rng.standard_normal((100, 6))
    >>> y = X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(100)
    >>> model = VariableSelection(draws=500, tune=200, random_state=1).fit(X, y)
    >>> model.get_support()
    array([ True, False, False,  True, False, False])
    """

    def __init__(
        self,
        family: str = "gaussian",
        *,
        size: float | tuple[float, float] | None = None,
        slab: Any = 1.0,
        noise: float | None = None,
        noise_prior: tuple[float, float] = (0.0, 0.0),
        forced: Sequence[int | str] = (),
        groups: Sequence[Any] | None = None,
        interactions: str | None = None,
        heredity: str = "strong",
        max_size: int | None = None,
        standardise: bool = True,
        moves: str = "weighted",
        ladder: Ladder | Sequence[float] | str | None = None,
        draws: int = 5_000,
        tune: int = 1_000,
        chains: int = 4,
        rule: str = "screened",
        threshold: float = 0.5,
        trials: Any = None,
        dispersion: float = 1.0,
        n_jobs: int = 1,
        random_state: Any = None,
    ) -> None:
        self.family = family
        self.size = size
        self.slab = slab
        self.noise = noise
        self.noise_prior = noise_prior
        self.forced = forced
        self.groups = groups
        self.interactions = interactions
        self.heredity = heredity
        self.max_size = max_size
        self.standardise = standardise
        self.moves = moves
        self.ladder = ladder
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.rule = rule
        self.threshold = threshold
        self.trials = trials
        self.dispersion = dispersion
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, *, executor: Executor | None = None) -> VariableSelection:
        """Sample the posterior over models.

        Parameters
        ----------
        X, y : array_like, shapes (n, d) and (n,)
        executor : concurrent.futures.Executor, optional
            Runs the chains; the result is the same whoever does.
        """
        inputs, response = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        self._check(response)
        names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(inputs.shape[1])])]
        self.terms_ = Terms.of(inputs, names, self.interactions, self.standardise)
        columns = self.terms_.columns(inputs)
        plan = self._plan()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.response_mean_ = float(response.mean())
        self._training_columns = columns
        self._response = response
        self.problem_: Any
        if self.family == "gaussian" and self.groups is None:
            self.problem_ = LinearProblem(columns, response - self.response_mean_, **self._model(len(response)))
            if isinstance(self.ladder, str):
                plan = replace(plan, inverse_temperatures=tuned_ladder(self.problem_, plan, seed))
            results = run_chains(self.problem_, plan, seed, executor=executor, threads=self.n_jobs)
            self.inverse_temperatures_ = plan.inverse_temperatures
            self.posterior_ = posterior_of(results, plan.inverse_temperatures, self.rule)
        else:
            self.problem_ = general_problem(self, columns, response)
            self.posterior_ = fit_general(self.problem_, plan, self.rule, seed)
        return self

    def _check(self, response: Floats) -> None:
        for name in ("draws", "tune", "chains", "n_jobs"):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= (0 if name == "tune" else 1)):
                raise InputError(f"{name} must be a positive whole number, but got {value!r}. Pass for example 1000.")
        if self.draws < 100:
            raise InputError(
                f"Standard errors need 100 draws, but got {self.draws}. Raise draws; thousands take seconds."
            )
        if self.family not in FAMILIES:
            raise InputError(f"family must be one of {', '.join(FAMILIES)}, but got {self.family!r}.")
        FAMILIES[self.family].check(response, self.trials)

    def _model(self, n: int) -> dict[str, Any]:
        """Return the priors as keywords of `LinearProblem`."""
        slab = Slab.of(self.slab, n)
        shape, rate = self.noise_prior
        total = float(np.sum((self._response - self.response_mean_) ** 2))
        return {
            "size_prior": self._size_prior(),
            "slab": slab,
            "noise": self.noise,
            "shape": float(shape),
            # a constant response, or one fitted without error, would have a density without bound
            "rate": max(float(rate), 1e-10 * total, 1e-100),
            "lost": 1,
            "forced": self._forced(),
            "parents": self.terms_.parents,
            "heredity": self.heredity if self.interactions is not None else "none",
            "max_size": LARGEST_BY_DEFAULT if self.max_size is None else self.max_size,
        }

    def _size_prior(self) -> SizePrior:
        if self.size is None:
            return SizePrior(a=1.0, b=1.0)
        if np.ndim(self.size) == 0:
            return SizePrior(expected=float(self.size))  # type: ignore[arg-type]
        a, b = self.size  # type: ignore[misc]
        return SizePrior(a=float(a), b=float(b))

    def _forced(self) -> tuple[int, ...]:
        """Return the forced columns by index, with the parents that heredity asks for."""
        names = list(self.terms_.names)
        found = set()
        for column in self.forced:
            if isinstance(column, str):
                if column not in names:
                    raise InputError(f"There is no column {column!r} to force in: there are {', '.join(names[:20])}.")
                found.add(names.index(column))
            elif 0 <= int(column) < len(names):
                found.add(int(column))
            else:
                raise InputError(
                    f"Forced columns are counted from 0 to {len(names) - 1}, but got {column}. Names work too."
                )
        if self.interactions is not None and self.heredity != "none":
            found |= {int(parent) for j in list(found) for parent in self.terms_.parents[j] if parent >= 0}
        return tuple(sorted(found))

    def _plan(self) -> ChainPlan:
        if self.ladder is None:
            k = np.ones(1)
        elif isinstance(self.ladder, str):
            if self.ladder != "tuned" or self.family != "gaussian" or self.groups is not None:
                raise InputError(
                    "ladder must be numbers, or 'tuned' for a normal response without groups, but got "
                    f"{self.ladder!r}. "
                    "Pass for example [1, 0.5, 0.2]."
                )
            k = np.ones(1)
        else:
            ladder = self.ladder if isinstance(self.ladder, Ladder) else Ladder(self.ladder)
            k = np.asarray(ladder.inverse_temperatures)
        return ChainPlan(k, self.draws, self.tune, self.chains, self.moves)

    @property
    def term_names_(self) -> tuple[str, ...]:
        """Names of the columns chosen from: inputs, squares, products."""
        check_is_fitted(self)
        return self.terms_.names

    @property
    def inclusion_probabilities_(self) -> Floats:
        """Posterior probability that a column is in."""
        check_is_fitted(self)
        return np.asarray(self.posterior_.inclusion.value)

    @property
    def inclusion_errors_(self) -> Floats:
        """Monte Carlo standard errors of `inclusion_probabilities_`."""
        check_is_fitted(self)
        return np.asarray(self.posterior_.inclusion.standard_error)

    @property
    def coef_(self) -> Floats:
        """Posterior means of the coefficients of inputs (products: of centred, standardised inputs)."""
        check_is_fitted(self)
        return np.asarray(self.posterior_.coefficients.value / self.terms_.scale)

    @property
    def coef_std_(self) -> Floats:
        """Posterior standard deviations of the coefficients."""
        check_is_fitted(self)
        mean = np.asarray(self.posterior_.coefficients.value)
        return np.asarray(np.sqrt(np.maximum(self.posterior_.coefficient_squares - mean**2, 0.0)) / self.terms_.scale)

    @property
    def intercept_(self) -> float:
        """Value of the linear predictor where all columns are zero."""
        check_is_fitted(self)
        centre = self.terms_.centre
        return float(self._centre() - centre @ self.coef_)

    def _centre(self) -> float:
        return (
            self.response_mean_ if self.family == "gaussian" else float(self.problem_.mean_intercept(self.posterior_))
        )

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return the columns whose inclusion probability is at least ``threshold``, as a mask or as indices."""
        mask = self.inclusion_probabilities_ >= self.threshold
        return np.flatnonzero(mask) if indices else mask

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the mean response at new rows, averaged over models, and a standard deviation if asked for.

        Of a binomial response it is the mean share of successes. The deviation is that of a new response if it is
        normal, and that of the mean otherwise.
        """
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        columns = self.terms_.columns(np.asarray(inputs))
        if self.family != "gaussian":
            return self.problem_.predict(self.posterior_, columns, return_std)
        mean = self.response_mean_ + columns @ np.asarray(self.posterior_.coefficients.value)
        return (mean, self._deviation(columns)) if return_std else mean

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R^2 of the predicted means; of a binomial response, of the shares of successes."""
        response = np.asarray(y, dtype=np.float64)
        if self.family == "binomial":
            response = response / np.asarray(self.trials, dtype=np.float64)
        return float(super().score(X, response, sample_weight))

    def _deviation(self, columns: Floats) -> Floats:
        """Return the predictive standard deviation, from a weighted resample of models."""
        models = self.posterior_.sample_models(MODELS_TO_PREDICT, np.random.default_rng(0))
        means, variances = [], []
        for model in models:
            mean, inverse, rss = self.problem_.posterior(model)
            x = columns[:, list(model)]
            noise = self.problem_.noise_model
            kappa = max(noise.kappa - 1.0, 0.5)
            variance = noise.variance if noise.is_known else 0.5 * (noise.twice_rate + max(rss, 0.0)) / kappa
            means.append(x @ mean)
            spread = np.einsum("ij,jk,ik->i", x, inverse, x) + 1.0 + 1.0 / len(self._response)
            variances.append(variance * spread)
        return np.asarray(np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0)))

    def best_models(self, n: int = 10) -> list[FoundModel]:
        """Return the most probable models with their probabilities."""
        check_is_fitted(self)
        return self.posterior_.best_models(n)

    def diagnose(self) -> Verdict:
        """Say in words whether the run can be trusted: rungs, weights, agreement of the chains."""
        check_is_fitted(self)
        return self.posterior_.diagnose()

    def log_evidence(self) -> Estimate:
        """Return the log marginal likelihood of the (centred) response, summed over all models.

        It needs a proper prior of the noise, or known noise, and a prior under which every model is allowed.
        """
        check_is_fitted(self)
        if self.family == "gaussian" and self.noise is None and min(self.noise_prior) <= 0:
            raise InputError(
                "The evidence is not defined under the improper prior of the noise. Pass noise, or a noise_prior with "
                "positive shape and rate."
            )
        if len(self.forced) or (self.interactions is not None and self.heredity != "none"):
            raise InputError(
                "The evidence needs a prior over all models, but forced columns or heredity exclude some. Fit "
                "without them."
            )
        return self.posterior_.log_evidence()

    def summary(self, n: int | None = None) -> pd.DataFrame:
        """Return a table of the columns, most probable first: inclusion, its error, coefficient and its deviation."""
        check_is_fitted(self)
        import pandas as pd

        table = pd.DataFrame(
            {
                "inclusion": self.inclusion_probabilities_,
                "error": self.inclusion_errors_,
                "coefficient": self.coef_,
                "sd": self.coef_std_,
            },
            index=list(self.term_names_),
        )
        table = table.sort_values("inclusion", ascending=False, kind="stable")
        return table if n is None else table.head(n)
