"""Selection of groups of columns, and of columns of generalised linear models, by the general informed chain.

Every model met is evaluated once and remembered: the chain comes back to the same models again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.estimators import Estimate
from tempering.informed import Balancing, InformedRun, Moves, sample_informed
from tempering.informed.run import mean_of_each_chain
from tempering.models.variable_selection.chains import ChainPlan
from tempering.models.variable_selection.families import FAMILIES, Distribution, Rows, laplace, log_constant
from tempering.models.variable_selection.posterior import Model, SelectionPosterior
from tempering.models.variable_selection.priors import SizePrior, Slab
from tempering.models.variable_selection.problem import LinearProblem
from tempering.sampling.options import Tuning

if TYPE_CHECKING:
    from tempering.models.variable_selection.estimator import VariableSelection

INTERCEPT_PRECISION = 0.01  # a standard deviation of 10 on the scale of the linear predictor
NEIGHBOURHOODS_KEPT = 10_000
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


@dataclass(frozen=True, eq=False)
class GeneralProblem:
    """Units, single columns or groups, that are in or out; a marginal likelihood for every set of them."""

    columns: Floats
    response: Floats
    family: Distribution
    units: tuple[tuple[int, ...], ...]
    size_prior: SizePrior
    rules: LinearProblem  # forced columns, heredity and largest size; and the normal likelihood
    precision: Floats
    trials: Floats
    dispersion: float
    moves: str = "weighted"
    tries: int | None = None
    explore: float = 5.0
    found: dict[Model, tuple[float, Floats, Floats]] = field(default_factory=dict)
    looked: dict[Model, Moves] = field(default_factory=dict)  # neighbours of the states met last

    def columns_of(self, model: Model) -> Model:
        """Return the columns of a set of units."""
        return tuple(sorted(j for unit in model for j in self.units[unit]))

    def evaluate(self, model: Model, start: Floats | None = None) -> tuple[float, Floats, Floats]:
        """Return log marginal likelihood, mode (intercept first) and Cholesky factor of a model, computed once."""
        if model not in self.found:
            self.found[model] = self._evaluate(self.columns_of(model), start)
        return self.found[model]

    def _evaluate(self, columns: Model, start: Floats | None) -> tuple[float, Floats, Floats]:
        if self.family.code < 0:
            return self.rules.log_marginal(columns), np.zeros(0), np.zeros((0, 0))
        x = np.column_stack([np.ones(len(self.response)), self.columns[:, list(columns)]])
        precision = np.concatenate([[INTERCEPT_PRECISION], self.precision[list(columns)]])
        beta = np.zeros(x.shape[1]) if start is None or start.size != x.shape[1] else start.copy()
        tril = np.zeros((x.shape[1], x.shape[1]))
        code, r = self.family.code, self.dispersion
        value = laplace(Rows(x, self.response, self.trials, code, r, precision), beta, tril)
        return value + log_constant(code, self.response, self.trials, r), beta, np.tril(tril)

    def log_prior(self, model: Model) -> float:
        """Return the log prior probability of a set of units."""
        if not self.rules.is_allowed(self.columns_of(model)):
            return -np.inf
        return self.size_prior.log_prior(len(model), len(self.units))

    def initial(self, rng: np.random.Generator) -> Model:
        """Start with what is forced in."""
        forced = set(self.rules.forced)
        return tuple(i for i, unit in enumerate(self.units) if forced & set(unit))

    def terms(self, state: Model) -> tuple[float, float]:
        """Return log marginal likelihood and log prior."""
        return self.evaluate(state)[0], self.log_prior(state)

    def neighbours(self, state: Model) -> Moves:
        """Evaluate all sets that differ in one unit."""
        if state in self.looked:
            return self.looked[state]
        if len(self.looked) >= NEIGHBOURHOODS_KEPT:
            self.looked.clear()
        self.looked[state] = self._neighbours(state)
        return self.looked[state]

    def _neighbours(self, state: Model) -> Moves:
        return self.some_neighbours(state, range(len(self.units)))

    def n_neighbours(self, state: Model) -> int:
        """Return how many flips there are."""
        return len(self.units)

    def some_neighbours(self, state: Model, chosen: Iterable[int]) -> Moves:
        """Evaluate the sets that differ in one of the units chosen."""
        energy, base = self.terms(state)
        there = [self.move(state, int(unit)) for unit in chosen]
        bases = np.array([self.log_prior(model) for model in there]) - base
        energies = np.zeros(len(there))
        for i, model in enumerate(there):
            if bases[i] > -np.inf:
                energies[i] = self.evaluate(model)[0] - energy
        return Moves(energies, bases)

    def move(self, state: Model, index: int) -> Model:
        """Flip one unit."""
        return tuple(sorted(set(state) ^ {index}))

    def way_back(self, state: Model, index: int) -> int:
        """The same flip leads back."""
        return index

    def log_edge_weights(self, state: Model, moves: Moves, k: float) -> Floats:
        """Weigh flips by P(unit is in | the others), the same on both sides of a flip."""
        if self.moves != "weighted" or self.tries is not None:
            return np.zeros(len(moves.energy))
        return np.log(self.conditional(state, moves, k) + self.explore / len(self.units))

    def conditional(self, state: Model, moves: Moves, k: float = 1.0) -> Floats:
        """Return P(unit is in | the others) at rung k."""
        towards = moves.base if k == 0.0 else k * moves.energy + moves.base
        is_in = self.indicator(state)
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(np.where(is_in, towards, -towards)))

    def indicator(self, state: Model) -> NDArray[np.bool_]:
        """Return which units are in."""
        out = np.zeros(len(self.units), dtype=bool)
        out[list(state)] = True
        return out

    def record(self, state: Model) -> Floats:
        """Keep the conditional inclusion probabilities, if all flips were looked at, and which units are in."""
        if self.tries is not None:
            return np.tile(self.indicator(state), 2).astype(np.float64)
        return np.concatenate([self.conditional(state, self.neighbours(state)), self.indicator(state)])

    def coefficients(self, model: Model) -> tuple[Floats, Floats]:
        """Return mean and variance of the coefficients of the columns of a model, in their order."""
        columns = self.columns_of(model)
        if self.family.code < 0:
            mean, inverse, rss = self.rules.posterior(columns)
            noise = self.rules.noise_model
            kappa = max(noise.kappa - 1.0, 0.5)
            variance = noise.variance if noise.is_known else 0.5 * (noise.twice_rate + max(rss, 0.0)) / kappa
            return mean, variance * np.diag(inverse)
        _, beta, tril = self.evaluate(model)
        inverse = np.asarray(np.linalg.inv(tril @ tril.T), dtype=np.float64)
        return beta[1:], np.diag(inverse)[1:]

    def posterior(self, columns: Model) -> tuple[Floats, Floats, float]:
        """Return what `LinearProblem.posterior` does."""
        return self.rules.posterior(columns)

    @property
    def noise_model(self) -> Any:
        """The noise of a normal response."""
        return self.rules.noise_model

    def mean_intercept(self, posterior: SelectionPosterior) -> float:
        """Return the posterior mean of the intercept, columns at their means."""
        models, weights = _distinct(self, posterior)
        return float(sum(w * self.evaluate(model)[1][0] for model, w in zip(models, weights, strict=True)))

    def predict(self, posterior: SelectionPosterior, columns: Floats, return_std: bool) -> Any:
        """Return the mean response averaged over models and over each model's normal approximation."""
        models, weights = _distinct(self, posterior, 200)
        mean, square = np.zeros(len(columns)), np.zeros(len(columns))
        for model, weight in zip(models, weights / weights.sum(), strict=True):
            _, beta, tril = self.evaluate(model)
            x = np.column_stack([np.ones(len(columns)), columns[:, list(self.columns_of(model))]])
            deviation = np.linalg.norm(np.linalg.solve(tril, x.T), axis=0)
            at = self.family.mean((x @ beta)[:, None] + deviation[:, None] * NODES)
            share = NODE_WEIGHTS / NODE_WEIGHTS.sum()
            mean += weight * (at @ share)
            square += weight * (at**2 @ share)
        return (mean, np.sqrt(np.maximum(square - mean**2, 0.0))) if return_std else mean


def general_problem(estimator: VariableSelection, columns: Floats, response: Floats) -> GeneralProblem:
    """Read the settings of an estimator."""
    p = columns.shape[1]
    keywords = estimator._model(len(response))
    slab: Slab = keywords["slab"]
    settings = estimator.family_
    family = FAMILIES[settings.name]
    if family.code >= 0 and slab.kind != "independent":
        raise InputError(
            f"The family {estimator.family_.name!r} needs an independent slab, but got {slab.kind!r}. Pass a number."
        )
    centred = response - response.mean() if family.code < 0 else response
    trials = np.ones(len(response)) if settings.trials is None else np.asarray(settings.trials, dtype=np.float64)
    return GeneralProblem(
        columns,
        np.ascontiguousarray(response),
        family,
        _units(estimator.design_.groups, p),
        keywords["size_prior"],
        LinearProblem(columns, centred, **keywords),
        slab.diagonal(p) if slab.kind == "independent" else np.ones(p),
        np.broadcast_to(trials, (len(response),)).copy(),
        float(settings.dispersion),
        estimator.sampling_.moves,
        estimator.sampling_.tries,
    )


def _units(groups: Any, p: int) -> tuple[tuple[int, ...], ...]:
    if groups is None:
        return tuple((j,) for j in range(p))
    labels = list(groups)
    if len(labels) != p:
        raise InputError(
            f"groups needs one label for each of the {p} columns, but has {len(labels)}. Give a column of "
            "its own a label of its own."
        )
    return tuple(tuple(j for j in range(p) if labels[j] == name) for name in dict.fromkeys(labels))


def fit_general(problem: GeneralProblem, plan: ChainPlan, rule: str, seed: int) -> SelectionPosterior:
    """Run the general informed chain and put its draws together."""
    balancing = "sum" if problem.moves == "weighted" else problem.moves
    run = sample_informed(
        problem,
        ladder=list(plan.inverse_temperatures),
        balancing=Balancing(balancing, problem.tries),
        draws=plan.draws,
        chains=plan.chains,
        tuning=Tuning(plan.tune),
        rng=seed,
    )
    return _posterior(problem, run, rule)


def _posterior(problem: GeneralProblem, run: InformedRun, rule: str) -> SelectionPosterior:
    n_units, shape = len(problem.units), run.rung.shape
    rows = run.values[..., n_units:].reshape(-1, n_units).astype(bool)
    _, first, ids = np.unique(np.packbits(rows, axis=1), axis=0, return_index=True, return_inverse=True)
    models = [tuple(int(i) for i in np.flatnonzero(rows[i])) for i in first]
    ids = ids.reshape(shape)
    unit_of = np.zeros(problem.columns.shape[1], dtype=np.intp)
    for i, unit in enumerate(problem.units):
        unit_of[list(unit)] = i
    inside = run.expect(lambda values: values[..., :n_units], rule)
    p = len(unit_of)
    means, squares, sizes = np.zeros((len(models), p)), np.zeros((len(models), p)), np.zeros(len(models), np.intp)
    for i, model in enumerate(models):
        columns = list(problem.columns_of(model))
        mean, variance = problem.coefficients(model)
        means[i, columns], squares[i, columns], sizes[i] = mean, mean**2 + variance, len(columns)
    weights = run.weights(rule)
    by_model = np.bincount(ids.ravel(), weights.ravel(), len(models))
    return SelectionPosterior(
        inclusion=Estimate(np.asarray(inside.value)[unit_of], np.asarray(inside.standard_error)[unit_of]),
        coefficients=Estimate(by_model @ means, np.full(p, np.nan)),
        coefficient_squares=by_model @ squares,
        log_weights=run.log_weights,
        energy=run.energy,
        log_prior=np.array([problem.log_prior(model) for model in models])[ids],
        rung=np.asarray(run.rung),
        model_id=ids,
        size=sizes[ids],
        first_draws=first,
        models_at=partial(_columns_at, [problem.columns_of(model) for model in models], ids.ravel()),
        inclusion_by_chain=mean_of_each_chain(run.values[..., :n_units], weights)[:, unit_of],
        n_rungs=len(run.inverse_temperatures),
        rule=rule,
    )


def _columns_at(columns: list[Model], model_id: NDArray[np.intp], index: NDArray[np.intp]) -> list[Model]:
    return [columns[int(i)] for i in model_id[index]]


def _distinct(
    problem: GeneralProblem, posterior: SelectionPosterior, limit: int | None = None
) -> tuple[list[Model], Floats]:
    """Return the models drawn, as sets of units, and their weights; the heaviest only if a limit is given."""
    weights = np.asarray(np.bincount(posterior.model_id.ravel(), posterior.weights.ravel()), dtype=np.float64)
    order = np.argsort(-weights, kind="stable")[: len(weights) if limit is None else limit]
    drawn = map(set, posterior.models_at(posterior.first_draws[order]))
    models = [tuple(i for i, unit in enumerate(problem.units) if unit[0] in columns) for columns in drawn]
    return models, weights[order]
