"""Slow, obvious twins of the compiled treed GP: dense matrices, no collapsed replicates, trees as nested
tuples.
"""

import math

import numpy as np
from numba import njit
from scipy import special

from tempering.models.treed_gp import layout
from tempering.models.treed_gp.settings import CORRELATIONS


def from_python(function):
    """Open a door from Python to a function that only compiled code can call."""

    @njit(error_model="numpy")
    def call(*arguments):
        return function(*arguments)

    return call


def correlation_matrix(x, ranges, active, family, exponent=2.0):
    """Return K* of section 3, entry by entry."""
    n = len(x)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            squares = (x[i] - x[j]) ** 2
            if family == "separable":
                out[i, j] = math.exp(-sum(s / d for s, d, b in zip(squares, ranges, active, strict=True) if b))
            elif family == "power":
                powers = np.abs(x[i] - x[j]) ** exponent
                out[i, j] = math.exp(-sum(p / d for p, d, b in zip(powers, ranges, active, strict=True) if b))
            elif family == "single_index":
                out[i, j] = math.exp(-(np.sum(active * (x[i] - x[j]) / np.sqrt(ranges)) ** 2))
            elif family == "isotropic":
                out[i, j] = math.exp(-squares.sum() / ranges[0])
            else:
                order = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[family]
                r = math.sqrt(squares.sum()) / ranges[0]
                scale = 2.0 ** (order - 1) * special.gamma(order)
                out[i, j] = 1.0 if r == 0 else r**order * special.kv(order, r) / scale
    return out


def covariance(x, ranges, active, nugget, family, *, exponent=2.0, is_always_linear=False):
    """Return K, g I where every dimension is switched off; (1 + g) I where leaves are always linear."""
    if not np.any(active):
        return (nugget + is_always_linear) * np.eye(len(x))
    return correlation_matrix(x, ranges, active, family, exponent) + nugget * np.eye(len(x))


def regressors(x, n_mean):
    return np.column_stack([np.ones(len(x)), x])[:, :n_mean]


def log_marginal(z, f, k_matrix, w_inverse, beta0, tau2, a, q, k):
    """Return (5.1), symbol by symbol."""
    n, m = f.shape
    inverse = np.linalg.inv(k_matrix)
    precision = k * f.T @ inverse @ f + w_inverse / tau2
    v = np.linalg.inv(precision)
    beta = v @ (k * f.T @ inverse @ z + w_inverse @ beta0 / tau2)
    lam = k * z @ inverse @ z + beta0 @ w_inverse @ beta0 / tau2 - beta @ precision @ beta
    log_det = np.linalg.slogdet(k_matrix)[1]
    out = np.linalg.slogdet(v)[1] - k * n * math.log(2 * math.pi) - k * log_det
    out += np.linalg.slogdet(w_inverse)[1] - m * math.log(tau2)
    out = out / 2 + a / 2 * math.log(q / 2) - (a + k * n) / 2 * math.log((q + lam) / 2)
    return out + math.lgamma((a + k * n) / 2) - math.lgamma(a / 2)


def family_name(state):
    code = state.integer[layout.CORRELATION]
    return next(name for name, value in CORRELATIONS.items() if value == code)


class Snapshot:
    """A tree and its parameters, copied out of a compiled state: the leaves by the rules alone."""

    def __init__(self, state):
        self.tree = state.tree.copy()
        self.leaf = state.leaf.copy()
        self.shared = state.shared.copy()
        self.root = int(state.meta[layout.ROOT])
        self.state = state

    def children(self, node):
        return int(self.tree[node, layout.LEFT]), int(self.tree[node, layout.RIGHT])

    def nodes(self, node=None, depth=0, rows=None):
        """Yield (node, depth, indices of the distinct inputs below), pre-order."""
        node = self.root if node is None else node
        rows = np.arange(len(self.state.x)) if rows is None else rows
        yield node, depth, rows
        left, right = self.children(node)
        if left >= 0:
            below = self.state.rank[rows, self.tree[node, layout.VARIABLE]] <= self.tree[node, layout.CUT]
            yield from self.nodes(left, depth + 1, rows[below])
            yield from self.nodes(right, depth + 1, rows[~below])

    def leaves(self):
        return [(node, depth, rows) for node, depth, rows in self.nodes() if self.children(node)[0] < 0]

    def internal(self):
        return [(node, depth, rows) for node, depth, rows in self.nodes() if self.children(node)[0] >= 0]

    def prunable(self):
        leaves = {node for node, _, _ in self.leaves()}
        return [node for node, _, _ in self.internal() if set(self.children(node)) <= leaves]

    def log_tree_prior(self):
        alpha, beta = self.state.real[layout.ALPHA], self.state.real[layout.BETA]
        chance = [alpha * (1 + depth) ** -beta for _, depth, _ in self.internal()]
        rest = [1 - alpha * (1 + depth) ** -beta for _, depth, _ in self.leaves()]
        return float(np.log(chance).sum() + np.log(rest).sum())

    def log_places_prior(self):
        n_cuts = self.state.n_cuts
        return -sum(math.log(len(n_cuts) * n_cuts[self.tree[i, layout.VARIABLE]]) for i, _, _ in self.internal())

    def parameters(self, node):
        n, m = int(self.state.integer[layout.N_RANGES]), int(self.state.integer[layout.N_MEAN])
        values = self.leaf[node, layout.RANGES :]
        return values[:n], values[n : 2 * n], self.used(node) * values[2 * n + m : 2 * (n + m)]

    def used(self, node):
        """Return which coefficients enter the mean; those of `parameters` are 0 elsewhere."""
        n, m = int(self.state.integer[layout.N_RANGES]), int(self.state.integer[layout.N_MEAN])
        return self.leaf[node, layout.RANGES + 2 * n : layout.RANGES + 2 * n + m]

    def log_marginal(self, k):
        """Return the sum of (5.1) over the leaves, from the rows themselves (no replicates in the data)."""
        state, total = self.state, 0.0
        m = int(state.integer[layout.N_MEAN])
        beta0 = self.shared[layout.BETA0 : layout.BETA0 + m]
        w_inverse = self.shared[layout.BETA0 + m :].reshape(m, m)
        for node, _, rows in self.leaves():
            ranges, active, _ = self.parameters(node)
            always = state.integer[layout.LINEAR] == layout.ALWAYS_LINEAR
            nugget, family = self.leaf[node, layout.NUGGET], family_name(state)
            matrix = covariance(state.x[rows], ranges, active, nugget, family, is_always_linear=always)
            a, q = self.shared[layout.A_SIGMA], self.shared[layout.Q_SIGMA]
            tau2 = self.leaf[node, layout.TAU2]
            f = regressors(state.x[rows], m) * self.used(node)
            total += log_marginal(state.y[rows, 1], f, matrix, w_inverse, beta0, tau2, a, q, k)
        return total
