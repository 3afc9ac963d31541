"""Let any BlackJAX kernel of the form init/step move at one inverse temperature.

The kernel works in coordinates whitened by the rung's centre and factor, so that one shape, learnt in tuning, serves
random walks, MALA, Barker, HMC and NUTS alike. Elliptical slice sampling has its Gaussian prior instead.
"""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import TargetError
from tempering.kernels.kernel import Density, Move
from tempering.kernels.settings import Settings, is_dense
from tempering.kernels.vector import Array, Particle, Rung, at, masked_product, shaped, tempered

# the acceptance each method is tuned to, by the name of its module in BlackJAX
TARGET_ACCEPTANCE = {
    "random_walk": 0.3,
    "mala": 0.574,  # Roberts & Rosenthal 1998
    "barker": 0.4,  # Livingstone & Zanella 2022
    "hmc": 0.7,
    "nuts": 0.8,  # Hoffman & Gelman 2014
}
WHITENED_STEP = {"random_walk": 1.0, "mala": 0.5, "barker": 1.0, "hmc": 0.3, "nuts": 0.5}


class BlackJAX:
    """Move by a BlackJAX algorithm.

    Parameters
    ----------
    algorithm
        For example ``blackjax.hmc``: an object with ``init`` and ``build_kernel``.
    **parameters
        What the algorithm's kernel or ``build_kernel`` takes besides a step size and a mass matrix, which are tuned:
        for example ``num_integration_steps=10``; for ``blackjax.elliptical_slice`` the ``mean`` and ``cov_matrix``
        of the Gaussian prior, which must be the target's ``log_prior``.
    """

    def __init__(self, algorithm: Any, **parameters: Any) -> None:
        if not (hasattr(algorithm, "init") and hasattr(algorithm, "build_kernel")):
            raise TargetError(
                f"A BlackJAX algorithm has init and build_kernel, but got {algorithm!r}. Pass for example blackjax.hmc."
            )
        built = inspect.signature(algorithm.build_kernel).parameters
        self.covariance = "auto"
        self._algorithm = algorithm
        self._kernel = algorithm.build_kernel(**{n: v for n, v in parameters.items() if n in built})
        self._given = {n: v for n, v in parameters.items() if n not in built}
        self._accepts = inspect.signature(self._kernel).parameters
        self._prior = parameters if "cov_matrix" in built else None
        self.checks_base = self._prior is not None  # so that the base must not be an argument of compiled code
        self._method = str(algorithm.build_kernel.__module__).rpartition(".")[2]
        unknown = [name for name in self._given if name not in self._accepts]
        if unknown:
            raise TargetError(f"{self._method} takes no parameter {unknown[0]!r}; it takes {list(self._accepts)[3:]}.")

    def __repr__(self) -> str:
        return f"BlackJAX({self._method})"

    def starting_scale(self, dimension: int) -> float:
        """Return the step size tuning starts from, in whitened coordinates."""
        return WHITENED_STEP.get(self._method, 0.5) / float(dimension**0.25)

    def target_acceptance(self, dimension: int) -> float | None:
        """Return the acceptance to tune to; None for kernels that have no step size."""
        return None if self._prior is not None else TARGET_ACCEPTANCE.get(self._method, 0.65)

    @property
    def scalar_move(self) -> Any:
        """Refuse: BlackJAX kernels need a log density that JAX can trace."""
        raise TargetError(
            f"{self!r} needs a log density that JAX can trace, but this target runs on the scalar engine. Write it "
            "with jax.numpy, or take tempering.kernels.RandomWalk or Slice."
        )

    def vector_move(self, density: Density) -> Move:
        """Build the move of the vector engine."""
        return self._prior_move(density) if self._prior is not None else self._whitened_move(density)

    def _arguments(self, d: int, scale: Array) -> dict[str, Any]:
        """Fill in what the kernel asks for and the user did not give."""

        def step(key: jax.Array, *_: Any) -> Any:
            return scale * jax.random.normal(key, (d,))

        offered = {
            "step_size": scale,
            "inverse_mass_matrix": jnp.ones(d),
            "num_integration_steps": 10,
            "random_step": step,
            "transition_generator": lambda key, position: position + step(key),
        }
        return {n: v for n, v in offered.items() if n in self._accepts} | self._given

    def _whitened_move(self, density: Density) -> Move:
        def move(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
            def coloured(y: jax.Array) -> Any:
                return setting.centre + shaped(setting.factor, y)

            def log_density(y: jax.Array) -> Any:
                return tempered(at(density, coloured(y)), rung)

            scale = setting.scale
            if self._method == "hmc":
                # trajectories of one length can return to where they came from; a random step cannot resonate
                key, key_step = jax.random.split(key)
                scale = scale * jax.random.uniform(key_step, minval=0.5, maxval=1.5)
            start = self._algorithm.init(_whitened(particle.position, setting), log_density)
            state, info = self._kernel(key, start, log_density, **self._arguments(start.position.size, scale))
            return _moved(density, particle, coloured(state.position)), _acceptance(info)

        return move

    def _prior_move(self, density: Density) -> Move:
        self._check_prior(density)

        def move(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
            def log_likelihood(x: jax.Array) -> Any:
                return masked_product(rung.coefficients[:1], at(density, x).terms[:1])

            start = self._algorithm.init(particle.position, log_likelihood)
            state, info = self._kernel(key, start, log_likelihood, **self._given)
            return _moved(density, particle, state.position), _acceptance(info)

        return move

    def _check_prior(self, density: Density) -> None:
        """Refuse a base that is not the Gaussian the kernel was given."""
        assert self._prior is not None
        mean, covariance = np.asarray(self._prior["mean"]), np.asarray(self._prior["cov_matrix"])
        covariance = np.diag(covariance) if covariance.ndim == 1 else covariance
        rng = np.random.default_rng(0)
        points = rng.multivariate_normal(mean, covariance, size=4)
        gaussian = -0.5 * np.sum((points - mean) * np.linalg.solve(covariance, (points - mean).T).T, axis=1)
        with jax.enable_x64(True), jax.ensure_compile_time_eval():  # moves are built while a program is traced
            base = np.array([float(density(jnp.asarray(x))[1]) for x in points])
        if not np.allclose(np.diff(base), np.diff(gaussian), rtol=1e-6, atol=1e-6):
            raise TargetError(
                f"{self._method} is exact for a Gaussian prior with the mean and cov_matrix it is given, but the "
                "target's log_prior is another function. Give the prior's mean and covariance, or take another kernel."
            )


def _moved(density: Density, particle: Particle, position: jax.Array) -> Particle:
    moved = at(density, position)
    return moved._replace(n_invalid=particle.n_invalid + moved.n_invalid)


def _whitened(x: jax.Array, setting: Settings) -> Any:
    residual = x - setting.centre
    if is_dense(setting.factor):
        return jax.scipy.linalg.solve_triangular(setting.factor, residual, lower=True)
    return residual / setting.factor[:, 0]


def _acceptance(info: object) -> Any:
    return jnp.reshape(jnp.asarray(getattr(info, "acceptance_rate", jnp.nan), jnp.float32), (1,))
