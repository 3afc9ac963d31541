"""A small space (A = 2, T = 4): model probabilities by quadrature and by the chain, at three temperatures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recapture_cases import model_codes, small_kernel

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.kernel import State
from tempering.models.recapture.likelihood import PARAMETERS, log_likelihood, statistics
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.structures import Structure

SPACE = ModelSpace(2)
CONSTANT = Structure.parse("{1,2+}", 2)
TEMPERATURES = (1.0, 0.5, 0.15)
COUNTS = Counts(
    seen=[[1, 2, 1], [0, 2, 3]],
    missed=[[3, 1, 0], [0, 1, 0]],
    recovered=[[2, 0, 1], [0, 0, 1]],
    vanished=[[2, 5, 3], [0, 1, 3]],
    years=[1, 2, 3],
)  # not a simulated set: any counts will do, and these differ between years and classes
N_CHAINS = 96


def value_cells(structure, q):
    """List the cells (q, t, j) of each free value of a structure."""
    found = []
    for group in range(structure.n_groups):
        classes = [j for j, label in enumerate(structure.labels) if label == group]
        intervals = range(min(classes), 3)
        if structure.timed[classes[0]]:
            found += [[(q, t, j) for j in classes] for t in intervals]
        else:
            found.append([(q, t, j) for t in range(3) for j in classes])
    return found


def log_evidences(q, structure, n_timed=7, n_constant=14):
    """Integrate L^k over the free values, the other two parameters being constant, at each temperature."""
    values = np.empty((3, 3, 2), object)
    cells = [c for r in range(3) for c in value_cells(structure if r == q else CONSTANT, r)]
    log_weights = 0.0
    for axis, group in enumerate(cells):
        is_constant = len({t for _, t, _ in group}) > 1
        nodes, weights = np.polynomial.legendre.leggauss(n_constant if is_constant else n_timed)
        u = (nodes + 1) / 2  # v = 3u^2 - 2u^3 smooths the fractional powers v^k at the ends
        shape = [-1 if i == axis else 1 for i in range(len(cells))]
        log_weights = log_weights + np.log(weights / 2 * 6 * u * (1 - u)).reshape(shape)
        for cell in group:
            values[cell] = (u**2 * (3 - 2 * u)).reshape(shape)
    logs = log_likelihood_on_grid(values)
    return np.array([np.logaddexp.reduce((k * logs + log_weights).ravel()) for k in TEMPERATURES])


def log_likelihood_on_grid(values):
    """The likelihood of section 2.3 written out; each cell holds an array along an axis of its own."""
    total, chi = 0.0, [1.0, 1.0]
    for t in (2, 1, 0):
        new_chi = []
        for j in (0, 1) if t else (0,):
            phi, p, lam = values[:, t, j]
            w, z, d, v = (m[j, t] for m in (COUNTS.seen, COUNTS.missed, COUNTS.recovered, COUNTS.vanished))
            new_chi.append((1 - phi) * (1 - lam) + phi * (1 - p) * chi[1])
            total = total + (w + z) * np.log(phi) + w * np.log(p) + z * np.log1p(-p)
            total = total + d * (np.log1p(-phi) + np.log(lam)) + v * np.log(new_chi[-1])
        chi = new_chi
    return total


def exact_probabilities(q):
    """Probabilities of the structures of parameter q given that the others are constant, by temperature."""
    structures = SPACE.space(PARAMETERS[q]).structures()
    log_z = np.array([log_evidences(q, s) for s in structures]).T
    probabilities = np.exp(log_z - np.logaddexp.reduce(log_z, axis=1, keepdims=True))
    return [SPACE.code(s) for s in structures], probabilities


def test_model_probabilities_are_those_of_quadrature_at_three_temperatures():
    with jax.enable_x64(True):
        kernel = small_kernel(SPACE, n_intervals=3)
        run = jax.jit(lambda k, seed: _draws(kernel, k, seed))
        exact = [exact_probabilities(q) for q in range(3)]
        constant = SPACE.code(CONSTANT)
        for row, k in enumerate(TEMPERATURES):
            partition, timed = run(k, int(seeded_rng(f"quadrature {k}").integers(2**31)))
            codes = model_codes(State(partition, timed, None, None), 2)[200:]
            for q, (known, probabilities) in enumerate(exact):
                others = [r for r in range(3) if r != q]
                inside = (codes[..., others] == constant).all(axis=-1)
                is_model = codes[..., q, None] == np.array(known)
                # the mean over draws of 1[others constant] (1[model] - P(model)) is zero, chain by chain
                score = (inside[..., None] * (is_model - probabilities[row])).mean(axis=0)
                assert inside.mean() > 0.005
                assert_mean_is(0.0, score)
                wrong = (inside[..., None] * (is_model - probabilities[row - 1])).mean(axis=0)
                assert_mean_is_not(0.0, wrong, margin=1.0)


def _draws(kernel, k, seed):
    data = statistics(COUNTS)
    first = SPACE.partitions.index((0, 0))
    start = State(
        jnp.full((N_CHAINS, 3), first, jnp.int32),
        jnp.zeros((N_CHAINS, 3, 2), bool),
        jnp.full((N_CHAINS, 3, 3, 2), 0.4),
        jnp.zeros(N_CHAINS),
    )

    def body(state, key):
        move = jax.vmap(lambda key, state: kernel.step(key, data, state, k)[0])
        state = move(jax.random.split(key, N_CHAINS), state)
        return state, (state.partition, state.timed)

    return jax.lax.scan(body, start, jax.random.split(jax.random.key(seed), 4200))[1]


@pytest.mark.parametrize("text", ["{1,2+}", "{1,2+}(t)", "{1}(t) {2+}"])
def test_the_quadrature_has_converged(text):
    structure = Structure.parse(text, 2)
    coarse, fine = log_evidences(0, structure), log_evidences(0, structure, n_timed=11, n_constant=20)
    np.testing.assert_allclose(coarse, fine, atol=5e-3)  # half a per cent of a probability, or less


def test_the_grid_holds_the_same_likelihood():
    values = seeded_rng("grid").random((3, 3, 2))
    boxed = np.empty((3, 3, 2), object)
    boxed[:] = values
    with jax.enable_x64(True):
        fast = float(log_likelihood(statistics(COUNTS), jnp.asarray(values)))
    assert float(log_likelihood_on_grid(boxed)) == pytest.approx(fast, abs=1e-10)
