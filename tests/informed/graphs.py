"""A zoo of small graphs with skewed laws, and the exact law of a chain from its transition matrix."""

import numpy as np

from rungs.enumeration import accept, choose, outcomes
from tempering.informed import Moves


class Graph:
    """States 0 ... n - 1; energy and base of each, both skewed."""

    def __init__(self, edges, n):
        self.at = [sorted({b for a, b in edges if a == x} | {a for a, b in edges if b == x}) for x in range(n)]
        self.energies = np.array([(0.7 * x * x) % 2.3 - 1.1 for x in range(n)])
        self.bases = np.array([(1.3 * x) % 0.9 for x in range(n)])

    def initial(self, rng):
        return 0

    def terms(self, x):
        return float(self.energies[x]), float(self.bases[x])

    def neighbours(self, x):
        return Moves(self.energies[self.at[x]] - self.energies[x], self.bases[self.at[x]] - self.bases[x])

    def move(self, x, index):
        return self.at[x][index]

    def way_back(self, x, index):
        return self.at[self.at[x][index]].index(x)

    def degree(self, x, index):
        return len(self.at[self.at[x][index]])

    def record(self, x):
        return x

    def law(self, k=1.0):
        log_law = k * self.energies + self.bases
        law = np.exp(log_law - log_law.max())
        return law / law.sum()


class WeightedGraph(Graph):
    """Edges with weights that are symmetric, and of the rung's own."""

    def log_edge_weights(self, x, moves, k):
        return np.array([0.3 * abs(x - y) * (1 + k) for y in self.at[x]])


def cube(d):
    return [(x, x ^ (1 << i)) for x in range(2**d) for i in range(d) if x < x ^ (1 << i)], 2**d


ZOO = {
    "ring": ([(i, (i + 1) % 5) for i in range(5)], 5),
    "line": ([(i, i + 1) for i in range(3)], 4),
    "star": ([(0, i) for i in range(1, 5)], 5),
    "complete": ([(i, j) for i in range(4) for j in range(i)], 4),
    "cube": cube(3),
    "tree": ([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)], 6),
    "lollipop": ([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], 5),
    "bipartite": ([(i, j) for i in range(2) for j in range(2, 5)], 5),
}


def take(decisions, log_weights):
    """Branch as `tempering.informed.decisions.pick` decides."""
    p = np.exp(np.asarray(log_weights) - np.max(log_weights))
    return decisions.take(list(p / p.sum()))


def branch(monkeypatch):
    """Let all decisions of informed chains branch."""
    from tempering.informed import decisions, mover, sampling, tempered_gibbs
    from tempering.rungs import simulated

    monkeypatch.setattr(decisions, "choose", choose)
    monkeypatch.setattr(mover, "pick", take)
    monkeypatch.setattr(tempered_gibbs, "pick", take)
    monkeypatch.setattr(sampling, "accept", accept)
    monkeypatch.setattr(simulated, "accept", accept)
    monkeypatch.setattr(simulated, "choose", choose)


def stationary_law(start, step):
    """Return {state: probability} of the chain ``step(decisions, state) -> state``; states must be hashable."""
    rows, pending = {}, [start]
    while pending:
        state = pending.pop()
        if state not in rows:
            rows[state] = outcomes(lambda decisions, state=state: step(decisions, state))
            pending += [there for p, there in rows[state] if p > 0]
    index = {state: i for i, state in enumerate(rows)}
    matrix = np.zeros((len(index), len(index)))
    for state, ends in rows.items():
        for p, there in ends:
            matrix[index[state], index[there]] += p
    assert np.abs(matrix.sum(axis=1) - 1).max() < 1e-12
    # pi (P - I) = 0 and sum(pi) = 1; exact for periodic chains too
    system = np.vstack([matrix.T - np.eye(len(index)), np.ones(len(index))])
    law = np.linalg.lstsq(system, np.append(np.zeros(len(index)), 1.0), rcond=None)[0]
    assert np.abs(law @ matrix - law).max() < 1e-13
    return dict(zip(index, law, strict=True))


def weighted(law, key, log_weight):
    """Return the law of ``key(state)`` when every state counts with its weight."""
    out = {}
    for state, p in law.items():
        out[key(state)] = out.get(key(state), 0.0) + p * np.exp(log_weight(state))
    total = sum(out.values())
    return {name: value / total for name, value in out.items()}
