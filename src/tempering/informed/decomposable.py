"""Gaussian graphical models: decomposable graphs whose edges are added and removed one at a time.

Under the hyper-inverse Wishart prior (Dawid & Lauritzen 1993) the marginal likelihood is a product over cliques. With S
the common neighbours of u and v, the edge (u, v) changes the log by f(S u v) + f(S) - f(S u) - f(S v). It may be
removed if S is complete, and added if S separates u from v (Giudici & Green 1999); both keep the graph decomposable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.special import multigammaln

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.informed.neighbourhood import Moves

Graph = tuple[int, ...]  # neighbours of every node, as bits


@dataclass(frozen=True, eq=False)
class DecomposableGraphs:
    """Which variables are independent given all others; a neighbourhood for `sample_informed`.

    Parameters
    ----------
    data : array_like, shape (n, d)
        At most 62 variables; columns are centred and scaled.
    probability : float
        Prior probability of an edge, up to the share of graphs that are decomposable.
    degrees : float
        Degrees of freedom of the prior, its scale the identity.

    Examples
    --------
    >>> from tempering.informed import sample_informed
    >>> rng = np.random.default_rng(1)
    >>> x = np.cumsum(rng.standard_normal((200, 4)), axis=1)  # a chain: 0 - 1 - 2 - 3
    >>> graphs = DecomposableGraphs(x)
    >>> run = sample_informed(graphs, balancing="sum", draws=500, rng=1)
    >>> [edge for edge, p in zip(graphs.edges, run.expect().value) if p > 0.5]
    [(0, 1), (1, 2), (2, 3)]
    """

    data: Floats
    probability: float = 0.2
    degrees: float = 3.0
    cliques: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        x = np.array(self.data, dtype=np.float64)
        if x.ndim != 2 or not 2 <= x.shape[1] <= 62:
            raise InputError(f"data must have 2 to 62 columns, but its shape is {x.shape}. Pass one row per case.")
        if not (np.isfinite(x).all() and np.all(np.ptp(x, axis=0) > 0)):
            raise InputError("data must be finite and every column must vary, but some do not. Drop what does not.")
        x -= x.mean(axis=0)
        object.__setattr__(self, "data", x / x.std(axis=0))

    @property
    def edges(self) -> list[tuple[int, int]]:
        """All pairs of variables, in the order of what is recorded."""
        return list(combinations(range(self.data.shape[1]), 2))

    def log_clique(self, nodes: int) -> float:
        """Return the log marginal likelihood of a complete set of nodes, given as bits."""
        if nodes == 0:
            return 0.0
        if nodes not in self.cliques:
            x = self.data[:, _bits(nodes)]
            size, n = x.shape[1], len(x)
            prior, after = self.degrees + size - 1, self.degrees + size - 1 + n
            log_det = float(np.linalg.slogdet(np.eye(size) + x.T @ x)[1])
            value = multigammaln(after / 2, size) - multigammaln(prior / 2, size) - 0.5 * after * log_det
            self.cliques[nodes] = float(value - 0.5 * n * size * np.log(np.pi))
        return self.cliques[nodes]

    def initial(self, rng: np.random.Generator) -> Graph:
        """Start without edges."""
        return (0,) * int(self.data.shape[1])

    def terms(self, state: Graph) -> tuple[float, float]:
        """Return log marginal likelihood and log prior of a graph, its edges taken away one by one."""
        energy = sum(self.log_clique(1 << node) for node in range(len(state)))
        graph, n_edges = state, 0
        while any(graph):
            u, v = next((u, v) for u, v in self.edges if graph[u] >> v & 1 and self._may_go(graph, u, v))
            energy += self._gain(graph, u, v)
            graph, n_edges = _flip(graph, u, v), n_edges + 1
        return energy, n_edges * self._log_odds

    @property
    def _log_odds(self) -> float:
        return float(np.log(self.probability) - np.log1p(-self.probability))

    def neighbours(self, state: Graph) -> Moves:
        """Look at every edge; those that may not be flipped have no probability."""
        energy, base = np.zeros(len(self.edges)), np.full(len(self.edges), -np.inf)
        for i, (u, v) in enumerate(self.edges):
            is_in = bool(state[u] >> v & 1)
            if self._may_go(state, u, v) if is_in else self._may_come(state, u, v):
                sign = -1.0 if is_in else 1.0
                energy[i], base[i] = sign * self._gain(state, u, v), sign * self._log_odds
        return Moves(energy, base)

    def move(self, state: Graph, index: int) -> Graph:
        """Flip one edge."""
        return _flip(state, *self.edges[index])

    def record(self, state: Graph) -> Floats:
        """Keep which edges are there."""
        return np.array([state[u] >> v & 1 for u, v in self.edges], dtype=np.float64)

    def _gain(self, state: Graph, u: int, v: int) -> float:
        """Return the log marginal likelihood with the edge less that without it."""
        common, a, b = state[u] & state[v], 1 << u, 1 << v
        whole = self.log_clique(common | a | b) + self.log_clique(common)
        return whole - self.log_clique(common | a) - self.log_clique(common | b)

    def _may_go(self, state: Graph, u: int, v: int) -> bool:
        common = state[u] & state[v]
        return all(common & ~state[node] == 1 << node for node in _bits(common))

    def _may_come(self, state: Graph, u: int, v: int) -> bool:
        allowed = ~(state[u] & state[v])
        seen = front = 1 << u
        while front:  # what can be reached from u without the common neighbours
            reached = 0
            for node in _bits(front):
                reached |= state[node]
            front = reached & allowed & ~seen
            seen |= front
        return not seen >> v & 1


def _bits(nodes: int) -> list[int]:
    found = []
    while nodes:
        low = nodes & -nodes
        found.append(low.bit_length() - 1)
        nodes ^= low
    return found


def _flip(state: Graph, u: int, v: int) -> Graph:
    out = list(state)
    out[u] ^= 1 << v
    out[v] ^= 1 << u
    return tuple(out)
