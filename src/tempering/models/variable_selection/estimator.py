"""`VariableSelection`, a scikit-learn regressor."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tempering.arrays import Floats
from tempering.errors import InputError, check_count
from tempering.estimators import Estimate
from tempering.informed.run import Verdict
from tempering.models.scikit_learn import NestedParameters, group_of, naming_groups, seed_from
from tempering.models.variable_selection.chains import ChainPlan, run_chains, tuned_ladder
from tempering.models.variable_selection.families import FAMILIES
from tempering.models.variable_selection.general import fit_general, general_problem
from tempering.models.variable_selection.posterior import FoundModel, posterior_of
from tempering.models.variable_selection.priors import SizePrior, Slab
from tempering.models.variable_selection.problem import LinearProblem
from tempering.models.variable_selection.settings import (
    Design,
    Family,
    Sampling,
    SelectionPrior,
    is_positive,
)
from tempering.models.variable_selection.terms import Terms

if TYPE_CHECKING:
    import pandas as pd

MODELS_TO_PREDICT = 200  # resampled; their spread is the predictive deviation


class VariableSelection(RegressorMixin, NestedParameters):  # type: ignore[misc]
    """Bayesian variable selection: which columns matter, how surely, and predictions averaged over models.

    Every column has a coefficient of exactly zero or a normal one (spike and slab). Models are sampled by weighted
    tempered Gibbs (Zanella & Roberts 2019), chains without rejections; a ladder of
    temperatures can be put over them.

    Parameters
    ----------
    family : {"gaussian", "logistic", "probit", "binomial", "poisson", "negative_binomial"} or Family
        Distribution of the response; a `Family` holds its noise, trials or dispersion too.
    prior : SelectionPrior or dict, optional
        How many columns are in (``size``, ``max_size``) and how large their coefficients are (``slab``).
    design : Design or dict, optional
        The columns to choose from: ``forced``, ``groups``, ``interactions``, ``heredity``, ``standardise``.
    sampling : Sampling or dict, optional
        ``draws``, ``tune``, ``chains``, ``moves``, ``ladder`` and ``rule``.
    threshold : float
        `get_support` names the columns with at least this inclusion probability.
    n_jobs : int
        Threads that share the chains. The result does not depend on it.
    random_state : int, RandomState or None

    Single settings of a group are nested parameters: ``set_params(sampling__draws=20_000)``, ``prior__slab`` in a grid.

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
    >>> model = VariableSelection(sampling={"draws": 500, "tune": 200}, random_state=1).fit(X, y)
    >>> model.get_support()
    array([ True, False, False,  True, False, False])
    """

    GROUPS: ClassVar = {"family": Family, "prior": SelectionPrior, "design": Design, "sampling": Sampling}
    MOVED: ClassVar = {
        field.name: (group, field.name)
        for group, kind in GROUPS.items()
        for field in fields(kind)
        if field.name != "name"
    }

    @naming_groups
    def __init__(
        self,
        family: str | Family | Mapping[str, Any] = "gaussian",
        *,
        prior: SelectionPrior | Mapping[str, Any] | None = None,
        design: Design | Mapping[str, Any] | None = None,
        sampling: Sampling | Mapping[str, Any] | None = None,
        threshold: float = 0.5,
        n_jobs: int = 1,
        random_state: Any = None,
    ) -> None:
        self.family = family
        self.prior = prior
        self.design = design
        self.sampling = sampling
        self.threshold = threshold
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
        response = np.asarray(response, dtype=np.float64)
        self._read(response)
        names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(inputs.shape[1])])]
        self.terms_ = Terms.of(inputs, names, self.design_.interactions, self.design_.standardise)
        columns = self.terms_.columns(inputs)
        self._warn_of_constants(columns, response)
        sampling = self.sampling_
        plan = ChainPlan(sampling.inverse_temperatures, sampling.draws, sampling.tune, sampling.chains, sampling.moves)
        seed = seed_from(self.random_state)
        self.response_mean_ = float(response.mean())
        self._training_columns = columns
        self._response = response
        self.problem_: Any
        if self._is_linear:
            self.problem_ = LinearProblem(columns, response - self.response_mean_, **self._model(len(response)))
            if isinstance(sampling.ladder, str):
                plan = replace(plan, inverse_temperatures=tuned_ladder(self.problem_, plan, seed))
            results = run_chains(self.problem_, plan, seed, executor=executor, threads=self.n_jobs)
            self.posterior_ = posterior_of(results, plan.inverse_temperatures, sampling.rule)
        else:
            self.problem_ = general_problem(self, columns, response)
            self.posterior_ = fit_general(self.problem_, plan, sampling.rule, seed)
        self.inverse_temperatures_ = plan.inverse_temperatures
        return self

    def _warn_of_constants(self, columns: Floats, response: Floats) -> None:
        if np.ptp(response) == 0:
            warnings.warn(
                f"The response is {response[0]:g} in every row, so that nothing can explain it. Check that it is the "
                "column you meant.",
                UserWarning,
                stacklevel=3,
            )
        constant = [self.terms_.names[j] for j in np.flatnonzero(np.ptp(columns, axis=0) == 0)]
        if constant:
            warnings.warn(
                f"{', '.join(constant[:10])}: no variation, so that the data say nothing of it, and its inclusion is "
                "the prior's. Drop such columns.",
                UserWarning,
                stacklevel=3,
            )

    def _read(self, response: Floats) -> None:
        """Read the groups of settings, and check them against each other and the response."""
        self.family_ = group_of(Family, self.family, "family")
        self.prior_ = group_of(SelectionPrior, self.prior, "prior")
        self.design_ = group_of(Design, self.design, "design")
        self.sampling_ = group_of(Sampling, self.sampling, "sampling")
        check_count("n_jobs", self.n_jobs)
        if not (is_positive(self.threshold) and self.threshold <= 1):
            raise InputError(
                f"threshold must be a probability above 0, but got {self.threshold!r}. 0.5 is the default."
            )
        if self.family_.name not in FAMILIES:
            raise InputError(f"family must be one of {', '.join(FAMILIES)}, but got {self.family_.name!r}.")
        for setting, owner in (("noise", "gaussian"), ("trials", "binomial")):
            if getattr(self.family_, setting) is not None and self.family_.name != owner:
                raise InputError(
                    f"{setting} belongs to a {owner} response, but the family is {self.family_.name}. Leave it out."
                )
        FAMILIES[self.family_.name].check(response, self.family_.trials)
        if self.sampling_.tries is not None and self._is_linear:
            raise InputError(
                "A normal response without groups has the odds of all flips from one product: leave tries out."
            )
        ladder = self.sampling_.ladder
        if isinstance(ladder, str) and (ladder != "tuned" or not self._is_linear):
            raise InputError(
                f"ladder must be numbers, or 'tuned' for a normal response without groups, but got {ladder!r}. "
                "Pass for example [1, 0.5, 0.2]."
            )

    @property
    def _is_linear(self) -> bool:
        """Whether the compiled loop for linear models can do it."""
        return self.family_.name == "gaussian" and self.design_.groups is None

    def _model(self, n: int) -> dict[str, Any]:
        """Return the priors as keywords of `LinearProblem`."""
        slab = Slab.of(self.prior_.slab, n)
        shape, rate = self.family_.noise_prior
        total = float(np.sum((self._response - self.response_mean_) ** 2))
        return {
            "size_prior": self._size_prior(),
            "slab": slab,
            "noise": self.family_.noise,
            "shape": float(shape),
            # a constant response, or one fitted without error, would have a density without bound
            "rate": max(float(rate), 1e-10 * total or 1e-100),
            "lost": 1,
            "forced": self._forced(),
            "parents": self.terms_.parents,
            "heredity": self.design_.heredity if self.design_.interactions is not None else "none",
            "max_size": self.prior_.max_size,
        }

    def _size_prior(self) -> SizePrior:
        size = self.prior_.size
        if size is None:
            return SizePrior(a=1.0, b=1.0)
        if isinstance(size, Sequence):
            return SizePrior(a=float(size[0]), b=float(size[1]))
        return SizePrior(expected=float(size))

    def _forced(self) -> tuple[int, ...]:
        """Return the forced columns by index, with the parents that heredity asks for."""
        names = list(self.terms_.names)
        found = set()
        for column in self.design_.forced:
            if isinstance(column, str):
                if column not in names:
                    raise InputError(f"There is no column {column!r} to force in: there are {', '.join(names[:20])}.")
                found.add(names.index(column))
            elif isinstance(column, int | np.integer) and 0 <= column < len(names):
                found.add(int(column))
            else:
                raise InputError(
                    f"Forced columns are counted from 0 to {len(names) - 1}, but got {column!r}. Names work too."
                )
        if self.design_.interactions is not None and self.design_.heredity != "none":
            found |= {int(parent) for j in list(found) for parent in self.terms_.parents[j] if parent >= 0}
        return tuple(sorted(found))

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
            self.response_mean_
            if self.family_.name == "gaussian"
            else float(self.problem_.mean_intercept(self.posterior_))
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
        if self.family_.name != "gaussian":
            return self.problem_.predict(self.posterior_, columns, return_std)
        mean = self.response_mean_ + columns @ np.asarray(self.posterior_.coefficients.value)
        return (mean, self._deviation(columns)) if return_std else mean

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R^2 of the predicted means; of a binomial response, of the shares of successes."""
        check_is_fitted(self)
        response = np.asarray(y, dtype=np.float64)
        if self.family_.name == "binomial":
            response = response / np.asarray(self.family_.trials, dtype=np.float64)
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
        check_count("n", n)
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
        family = self.family_
        if family.name == "gaussian" and family.noise is None and min(family.noise_prior) <= 0:
            raise InputError(
                "The evidence is not defined under the improper prior of the noise. Pass a Family with noise, or "
                "with a noise_prior of positive shape and rate."
            )
        design = self.design_
        if len(design.forced) or (design.interactions is not None and design.heredity != "none"):
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
