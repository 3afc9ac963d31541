"""Small problems of variable selection whose 2^p models are enumerated."""

import numpy as np

from tempering.models.variable_selection import LinearProblem, SizePrior, Slab


def data(n=60, p=8, correlation=0.99, seed=3):
    """Return skewed columns, the first two nearly the same, and a response of three of them."""
    rng = np.random.default_rng(seed)
    x = np.exp(0.4 * rng.standard_normal((n, p)))
    x -= x.mean(axis=0)
    x /= x.std(axis=0)
    x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
    x[:, 5] = correlation * x[:, 4] + np.sqrt(1 - correlation**2) * x[:, 5]
    y = 0.8 * x[:, 0] - 0.5 * x[:, 3] + 0.35 * x[:, 4] + rng.standard_normal(n)
    return x, y - y.mean()


def parents(p):
    pairs = np.full((p, 2), -1)
    pairs[6], pairs[7] = (0, 1), (2, 2)
    return pairs


def precision(p):
    root = np.random.default_rng(5).standard_normal((p, p))
    return root @ root.T / p + 0.5 * np.eye(p)


def problems():
    """Return one problem of each kind, by name."""
    x, y = data()
    p = x.shape[1]
    bernoulli = SizePrior(expected=2.5)
    return {
        "independent": LinearProblem(x, y, lost=1),
        "unequal slabs": LinearProblem(x, y, bernoulli, Slab("independent", np.linspace(0.2, 3.0, p)), shape=2.0),
        "known noise": LinearProblem(x, y, bernoulli, noise=1.2, lost=1),
        "g-prior": LinearProblem(x, y, slab=Slab("g", g=30.0), lost=1),
        "dense slab": LinearProblem(x, y, slab=Slab("dense", precision(p)), lost=1),
        "forced and few": LinearProblem(x, y, forced=(2, 6), max_size=4),
        "strong heredity": LinearProblem(x, y, parents=parents(p), heredity="strong"),
        "weak heredity": LinearProblem(x, y, parents=parents(p), heredity="weak"),
        "unequal odds": LinearProblem(x, y, bernoulli, offset=np.linspace(-1.0, 1.0, p)),
    }


def exact_inclusion(problem):
    models, log_posterior = problem.enumerate()
    weight = np.exp(log_posterior - log_posterior.max())
    out = np.zeros(problem.n_columns)
    for model, w in zip(models, weight / weight.sum(), strict=True):
        out[list(model)] += w
    return out
