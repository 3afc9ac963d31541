"""Small problems of variable selection whose 2^p models are enumerated."""

from itertools import combinations
from math import comb

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


def enumerate_quickly(problem):
    """Return inclusion probabilities from all models, size by size in batches; independent slab, unknown noise."""
    data, p = problem.data, problem.n_columns
    gram = data.columns @ data.columns.T
    logs, inclusions = [], []
    for size in range(problem.largest + 1):
        index = np.array(list(combinations(range(p), size)), dtype=np.intp).reshape(comb(p, size), size)
        block = gram[index[:, :, None], index[:, None, :]] + np.eye(size) * data.ridge[index][:, :, None]
        cross = data.cross[index]
        fitted = np.einsum("ms,ms->m", cross, np.linalg.solve(block, cross[..., None])[..., 0])
        volume = 0.5 * (np.log(data.ridge[index]).sum(axis=1) - np.linalg.slogdet(block)[1])
        scale = problem.noise_model.kappa * np.log(problem.rate + 0.5 * (data.total - fitted))
        logs.append(volume - scale + problem.size_prior.log_prior(size, p))
        inside = np.zeros((len(index), p), dtype=bool)
        inside[np.arange(len(index))[:, None], index] = True
        inclusions.append(inside)
    log_posterior, inside = np.concatenate(logs), np.concatenate(inclusions)
    weight = np.exp(log_posterior - log_posterior.max())
    return weight / weight.sum(), inside


def two_groups(n=250, q=5, extra=2):
    """Return columns of which two disjoint groups of q explain the response nearly equally well."""
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((n, q)), rng.standard_normal((n, q))
    second += ((first.sum(axis=1) - second.sum(axis=1)) / q)[:, None] + 0.02 * rng.standard_normal((n, q))
    x = np.hstack([first, second, rng.standard_normal((n, extra))])
    y = first.sum(axis=1) + rng.standard_normal(n)
    x -= x.mean(axis=0)
    problem = LinearProblem(x / x.std(axis=0), y - y.mean(), SizePrior(expected=0.3), lost=1, max_size=8)
    return problem, q
