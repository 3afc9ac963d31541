"""Exhaustive branching: run a function once for every sequence of decisions it can take.

Stands in for `tempering.randomness`: ``accept`` and ``choose`` get a `Decisions` instead of a generator.
"""

from dataclasses import dataclass

import numpy as np

from tempering.path import Ladder, Leg, Path

LADDER = np.array([1.0, 0.55, 0.4, 0.05])  # uneven
LOG_PSEUDO_PRIOR = np.array([0.0, 0.7, -0.4, 1.1])  # not 1 / Z
ENERGY = np.array([-0.3, -2.1, 0.9])  # a skewed density on three points
PRIOR, FITTED = np.array([0.5, 0.3, 0.2]), np.array([0.15, 0.25, 0.6])  # probabilities of the points
SAFE = Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder([1.0, 0.55, 0.2, 0.0]), source=1)
QUICK = Leg("quick", np.array([0.0, 0.0, 1.0]), Ladder([1.0, 0.3, 0.0]), source=2)  # the legs differ in length


@dataclass(frozen=True, eq=False)
class Line:
    """Rungs on a space of three points: log pi_r(x) = coefficients[r] . terms[x]."""

    coefficients: np.ndarray  # (rung, term)
    terms: np.ndarray  # (point, term)
    log_pseudo_prior: np.ndarray

    def of(self, rungs):
        """Return the same with some of its rungs alone."""
        return Line(self.coefficients[rungs], self.terms, self.log_pseudo_prior[rungs])

    def first(self, n_rungs):
        """Return the same with its first rungs alone."""
        return self.of(slice(n_rungs))

    def __len__(self):
        return len(self.coefficients)

    def log_density(self, rung, x):
        """Return log pi_rung(x), written down independently of the package."""
        return float(sum(c * t for c, t in zip(self.coefficients[rung], self.terms[x], strict=True) if c != 0.0))


TWO_LEGGED = Path([1.0, 1.0, 0.0], [SAFE, QUICK])
POWERS = Line(LADDER[:, None], ENERGY[:, None], LOG_PSEUDO_PRIOR)
TWO_LEGS = Line(
    TWO_LEGGED.coefficients,
    np.stack([ENERGY, np.log(PRIOR), np.log(FITTED)], axis=1),
    np.array([0.4, -0.5, 0.2, 0.7, -0.4, 1.1]),  # not 1 / Z
)
LINES = {"powers": POWERS, "two legs": TWO_LEGS}


class Decisions:
    """Follow a script; beyond its end take the first branch and note the others."""

    def __init__(self, script):
        self.script, self.taken, self.untried, self.probability = script, [], [], 1.0

    def take(self, probabilities):
        """Return which branch is taken, and multiply by its probability."""
        if len(self.taken) < len(self.script):
            branch = self.script[len(self.taken)]
        else:
            branch, *others = [i for i, p in enumerate(probabilities) if p > 0]
            self.untried += [[*self.taken, other] for other in others]
        self.taken.append(branch)
        self.probability *= probabilities[branch]
        return branch


def accept(decisions, log_ratio):
    """Branch as `tempering.randomness.accept` decides."""
    p = float(np.exp(min(log_ratio, 0.0))) if log_ratio == log_ratio else 0.0
    return decisions.take([1.0 - p, p]) == 1


def choose(decisions, n):
    """Branch as `tempering.randomness.choose` decides."""
    return decisions.take([1.0 / n] * n)


def enumerate_decisions(monkeypatch, *modules):
    """Let the decisions taken in these modules branch."""
    for module in modules:
        monkeypatch.setattr(module, "accept", accept)
        monkeypatch.setattr(module, "choose", choose)


def outcomes(run):
    """Return every outcome of ``run(decisions)`` with its probability, one entry a sequence of decisions."""
    pending, found = [[]], []
    while pending:
        decisions = Decisions(pending.pop())
        outcome = run(decisions)
        found.append((decisions.probability, outcome))
        pending += decisions.untried
    return found


def drift(law, transitions):
    """Return the largest |(pi P - pi)(state)|; ``transitions(state)`` lists (probability, state)."""
    after = dict.fromkeys(law, 0.0)
    for state, weight in law.items():
        moves = transitions(state)
        assert abs(sum(p for p, _ in moves) - 1.0) < 1e-13
        for p, there in moves:
            after[there] += weight * p
    return max(abs(after[state] - law[state]) for state in law)


def normalised(log_law):
    """Turn a dict of log weights into one of probabilities."""
    largest = max(log_law.values())
    weights = {state: np.exp(value - largest) for state, value in log_law.items()}
    total = sum(weights.values())
    return {state: weight / total for state, weight in weights.items()}
