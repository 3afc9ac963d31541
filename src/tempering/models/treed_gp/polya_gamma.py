"""Draws of Polya-Gamma variables, PG(b, c) for any b > 0.

Polson, Scott & Windle (2013): exp(s psi) / (1 + exp(psi))^n is a mixture of normal densities in psi, of precision
omega ~ PG(n, 0). To the power k it is one too, with PG(k n, 0): so tempered logistic likelihoods are mixtures at every
k, and given psi omega is PG(k n, psi).
"""

import math

import numpy as np

from tempering.models.treed_gp.compiled import compiled

N_TERMS = 10  # gammas drawn of the infinite sum
SMALLEST = 1e-8  # a precision so low says nothing about log-odds of any size


@compiled
def draw_polya_gamma(rng: np.random.Generator, b: float, c: float) -> float:
    """Draw from PG(b, c): a weighted sum of gammas of shape b, weights 1 / (2 pi^2 ((j - 1/2)^2 + (c / 2 pi)^2)).

    The terms after the tenth are one gamma with their mean and variance. The sum's first two moments are exact, the
    third to 1e-7 of itself; its Laplace transform at 100 is off by 4e-5 of e^-7.
    """
    if not b > 0.0:
        return SMALLEST
    square = (c / (2.0 * math.pi)) ** 2
    if square < 1e-6:
        mean, variance = 0.5 * math.pi**2, math.pi**4 / 6.0  # of the whole sum over b; c enters with its square
    else:
        a = math.sqrt(square)
        tanh = math.tanh(math.pi * a)
        mean = 0.5 * math.pi * tanh / a
        variance = math.pi * (tanh - math.pi * a * (1.0 - tanh * tanh)) / (4.0 * a * square)
    total = 0.0
    for j in range(N_TERMS):
        weight = 1.0 / ((j + 0.5) ** 2 + square)
        total += weight * rng.standard_gamma(b)
        mean -= weight
        variance -= weight * weight
    total += variance / mean * rng.standard_gamma(b * mean * mean / variance)
    return max(total / (2.0 * math.pi**2), SMALLEST)
