"""A spike a million times as high as all else, far from where chains start, and how to run towards it."""

import jax.numpy as jnp
import numpy as np

import tempering as tp


def spike(x):
    return jnp.logaddexp(-0.5 * x**2, 1000.0 - 0.5 * ((x - 6.0) / 0.5) ** 2)


SPIKE = {
    "initial": 0.0,
    "ladder": [1.0, 0.003],
    "tuning": tp.Tuning(0, pseudo_prior=np.array([0.0, 990.0])),
    "rng": 2,
    "progress": False,
    "kernel": tp.kernels.RandomWalk(scale=2.0),
}
