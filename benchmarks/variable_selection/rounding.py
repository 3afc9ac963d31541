"""What rounding 1 - sigmoid(log odds) does to weighted tempered Gibbs sampling, without a random number.

millipede has the probability of leaving a column out as 1 minus a sigmoid, which is 0 in double precision for log odds
above 37: all such columns that are out are then equally likely to come in. On eleven columns of a design (the best near
each of the ten effects, and a rival of one of them) the chain has 2,048 states, so that its stationary law is the
solution of linear equations. With the odds themselves it is the posterior; with the rounded ones it is what millipede's
runs tend to. The rival with the largest error is given.
"""

import numpy as np

from benchmarks.variable_selection.cases import CASES, EXPECTED, design, linear_problem, places

STRONGEST = 8  # effects, whose columns can have log odds above 37
NEIGHBOURS = 5  # columns on either side, among which the best and its rival are looked for
EXPLORE = 5.0  # millipede's default
SMALLEST = 1e3 * np.finfo(float).tiny  # what millipede adds to a probability it divides by


def inclusion_of_chain(log_posterior: np.ndarray, n_columns: int, rounded: bool) -> np.ndarray:
    """Return the inclusion probabilities that the weighted chain on all models of a few columns tends to."""
    n = len(log_posterior)
    models, k = np.arange(n), int(np.log2(n))
    rates, inclusion, jumps = np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, n))
    for j in range(k):
        log_odds = log_posterior[models | 1 << j] - log_posterior[models & ~(1 << j)]
        inclusion[:, j] = _sigmoid(log_odds)
        out = 1.0 - inclusion[:, j] if rounded else _sigmoid(-log_odds)
        here = np.where(models >> j & 1, inclusion[:, j], out)
        rates[:, j] = 0.5 * (inclusion[:, j] + EXPLORE / n_columns) / (here + SMALLEST)
    for j in range(k):
        jumps[models, models ^ 1 << j] = rates[:, j] / rates.sum(axis=1)
    equations, right = jumps.T - np.eye(n), np.zeros(n)
    equations[-1], right[-1] = 1.0, 1.0
    weight = np.linalg.solve(equations, right) / rates.mean(axis=1)
    return np.asarray(weight @ inclusion / weight.sum())


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _scores(x: np.ndarray, y: np.ndarray, chosen: list[int], columns: np.ndarray) -> np.ndarray:
    """Return how much each column explains beside the chosen ones."""
    basis = np.linalg.qr(x[:, chosen])[0]
    rest = x[:, columns] - basis @ (basis.T @ x[:, columns])
    return np.asarray((rest.T @ y) ** 2 / np.maximum((rest**2).sum(axis=0), 1e-9))


def best_near(x: np.ndarray, y: np.ndarray, place: int, others: list[int], taken: list[int]) -> int:
    """Return the column near a place that explains most beside some others, of those that are not taken."""
    near = np.arange(max(place - NEIGHBOURS, 0), min(place + NEIGHBOURS + 1, x.shape[1]))
    near = near[~np.isin(near, taken)]
    return int(near[np.argmax(_scores(x, y, others, near))])


def rounding(case: str) -> dict[str, object]:
    """Return the largest error of both chains over all strong columns and their rivals."""
    x, y = design(*CASES[case])
    p, rows = x.shape[1], []
    chosen = [int(j) for j in places(p)]
    for i, place in enumerate(chosen):
        others = chosen[:i] + chosen[i + 1 :]
        chosen[i] = best_near(x, y, place, others, others)
    for i, place in enumerate(chosen[:STRONGEST]):
        columns = sorted([*chosen, best_near(x, y, place, chosen[:i] + chosen[i + 1 :], chosen)])
        problem = linear_problem(np.ascontiguousarray(x[:, columns]), y, EXPECTED * len(columns) / p, None)
        found, log_posterior = problem.enumerate()
        ordered = np.empty(len(log_posterior))
        ordered[[sum(1 << int(j) for j in model) for model in found]] = log_posterior
        weight = np.exp(ordered - ordered.max())
        inside = np.arange(len(ordered))[:, None] >> np.arange(len(columns)) & 1
        truth = weight @ inside / weight.sum()
        odds, rounded = (inclusion_of_chain(ordered, p, way) for way in (False, True))
        worst = int(np.argmax(np.abs(rounded - truth)))
        rows.append(
            {
                "case": case,
                "columns": columns,
                "largest_error_of_the_odds": float(np.abs(odds - truth).max()),
                "largest_error_of_rounded_odds": float(np.abs(rounded - truth).max()),
                "column": columns[worst],
                "inclusion": float(truth[worst]),
                "rounded": float(rounded[worst]),
            }
        )
    return max(rows, key=lambda row: row["largest_error_of_rounded_odds"])
