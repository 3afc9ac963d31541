"""Draws of other samplers: exact draws laid out as each sampler lays them out must be read as what they are.

Every axis has a length of its own, rungs are uneven and the target is no symmetric one, so that swapped axes show.
"""

import numpy as np
import pytest

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.doors import foreign
from tempering.errors import InputError
from tempering.problems.gaussian_likelihood import GaussianLikelihood

PROBLEM = GaussianLikelihood([[1.0, 0.4], [0.3, -1.2], [0.8, 0.1]], [2.0, -1.0, 3.0], [-1.0, 0.5], [1.5, 0.8], 0.9)
K = np.array([1.0, 0.55, 0.2, 0.0])
WALKERS, STEPS = 6, 40


def exact(name):
    """Return independent draws of shape (temperature, walker, step, dimension) and their log likelihoods."""
    rng = seeded_rng(name)
    x = np.stack([PROBLEM.sample(rng, WALKERS * STEPS, k).reshape(WALKERS, STEPS, 2) for k in K])
    return x, PROBLEM.log_likelihood(x)


def as_ptemcee(x, e):
    return foreign.from_ptemcee(x, e, K)


def as_eryn(x, e):
    by_step = np.moveaxis(x, 2, 0)[:, :, :, None]
    return foreign.from_eryn({"x": by_step}, np.moveaxis(e, 2, 0), np.tile(K, (STEPS, 1)))


def as_emcee(x, e):
    return foreign.from_emcee(x.swapaxes(1, 2), e.swapaxes(1, 2), K, is_powered=False)


def as_tfp(x, e):
    return foreign.from_tfp(x.transpose(2, 0, 1, 3), e.transpose(2, 0, 1), np.tile(K, (STEPS, 1)), is_powered=False)


def as_blackjax(x, e):
    """Lay particles out as states: those moved at k come with the next inverse temperature, from hot to cold."""
    particles, energies = x[::-1].reshape(4, -1, 2), e[::-1].reshape(4, -1)
    return foreign.from_blackjax_smc(particles, np.append(K[::-1][1:], 1.0), energies)


def as_pigeons(x, e):
    whole = np.concatenate([x, np.full((*e.shape, 1), np.nan)], axis=-1)[::-1, 0]  # (chain, iteration, variable)
    return foreign.from_pigeons(whole.transpose(1, 2, 0), K[::-1], PROBLEM.log_likelihood)


READERS = {r.__name__: r for r in (as_ptemcee, as_eryn, as_emcee, as_tfp, as_blackjax, as_pigeons)}


def mean(run):
    """Estimate by a rule which looks at each draw's own rung; MBAR, with equal counts, does not."""
    return run.expect(lambda x: x.reshape(*run.rung.shape, 2), "ess_optimal").value


@pytest.mark.parametrize("reader", READERS)
def test_every_draw_keeps_its_energy_and_its_temperature(reader):
    x, e = exact("pairs")
    run = READERS[reader](x, e)
    np.testing.assert_array_equal(run.ladder.inverse_temperatures, K)
    flat = np.asarray(run.values["x"]).reshape(*run.rung.shape, 2)
    np.testing.assert_allclose(PROBLEM.log_likelihood(flat), run.energy, rtol=1e-12)
    walkers = 1 if reader == "as_pigeons" else WALKERS
    for i in range(len(K)):
        mine, given = run.energy[run.rung == i], e[i, :walkers]
        np.testing.assert_array_equal(np.sort(mine), np.sort(given, axis=None))
    assert not run.is_powered


@pytest.mark.parametrize("reader", READERS)
def test_rows_are_in_time_order(reader):
    x, e = exact("time")
    x[..., 0] = np.arange(STEPS)  # a clock
    run = READERS[reader](x, e) if reader != "as_pigeons" else None
    if run is None:
        whole = np.concatenate([x, e[..., None]], axis=-1)[:, 0].transpose(1, 2, 0)
        run = foreign.from_pigeons(whole, K, e[:, 0].T)
    clock = np.asarray(run.values["x"]).reshape(*run.rung.shape, 2)[..., 0]
    rows = clock.reshape(-1, STEPS)  # populations are rows one after the other
    np.testing.assert_array_equal(rows, np.tile(np.arange(STEPS), (len(rows), 1)))


@pytest.mark.parametrize("reader", READERS)
def test_all_rungs_together_give_the_cold_mean(reader):
    assert_mean_is(PROBLEM.mean, [mean(READERS[reader](*exact(f"mean {i}"))) for i in range(24)])


@pytest.mark.parametrize("reader", ["as_ptemcee", "as_emcee", "as_pigeons"])
def test_control_rungs_in_reverse_order_are_seen(reader):
    runs = [READERS[reader](*(a[::-1] for a in exact(f"mean {i}"))) for i in range(24)]
    assert_mean_is_not(PROBLEM.mean, [mean(run) for run in runs])


def test_control_the_own_temperature_of_smc_states_is_seen():
    def misread(x, e):
        run = as_blackjax(x, e)
        own = np.repeat(np.append(K[::-1][1:], 1.0), WALKERS * STEPS)[None]
        return foreign.from_arrays(run.values, own, run.energy)

    assert_mean_is_not(PROBLEM.mean, [mean(misread(*exact(f"mean {i}"))) for i in range(24)])


@pytest.mark.slow
def test_blackjax_itself_hands_out_states_of_the_temperature_before():
    import blackjax
    import jax
    import jax.numpy as jnp

    design, data = jnp.asarray(PROBLEM.design), jnp.asarray(PROBLEM.data)

    def log_prior(x):
        return -0.5 * jnp.sum(((x - PROBLEM.prior_mean) / PROBLEM.prior_sd) ** 2)

    def log_likelihood(x):
        return -0.5 * jnp.sum((data - design @ x) ** 2) / PROBLEM.noise_sd**2

    rng = np.random.default_rng(3)
    start = jnp.asarray(PROBLEM.sample(rng, 4000, 0.0))
    normal = blackjax.additive_step_random_walk.normal_random_walk

    def step(key, state, log_density, **_):
        return normal(log_density, jnp.ones(2) * 0.8).step(key, state)

    def init(position, log_density):
        return normal(log_density, jnp.ones(2)).init(position)

    sampler = blackjax.tempered_smc(
        log_prior, log_likelihood, step, init, {}, blackjax.smc.resampling.systematic, num_mcmc_steps=10
    )
    state, states = sampler.init(start), []
    for i, k in enumerate([0.3, 1.0, 1.0]):
        state, _ = jax.jit(sampler.step)(jax.random.key(i), state, tempering_param=k)
        states.append(state)
    particles = np.stack([s.particles for s in states])
    run = foreign.from_blackjax_smc(particles, [s.tempering_param for s in states], PROBLEM.log_likelihood(particles))
    assert run.visits.tolist() == [4000, 4000, 4000]
    truth = {1.0: PROBLEM.mean, 0.0: PROBLEM.prior_mean}
    for rung, k in ((0, 1.0), (2, 0.0)):
        found = run.values["x"][run.rung == rung].mean(axis=0)
        np.testing.assert_allclose(found, truth[k], atol=0.15)


def test_walkers_that_saw_each_other_are_one_ensemble():
    x, e = exact("ensembles")
    assert as_ptemcee(x, e).chains_per_ensemble == 4 * WALKERS
    assert as_eryn(x, e).chains_per_ensemble == 4 * WALKERS
    assert as_emcee(x, e).chains_per_ensemble == WALKERS
    assert as_tfp(x, e).chains_per_ensemble == 4
    assert as_pigeons(x, e).chains_per_ensemble == 4
    run = as_tfp(x, e)  # the replicas of one batch member side by side
    np.testing.assert_array_equal(run.rung[:4, 0], [0, 1, 2, 3])


def test_leaves_which_do_not_exist_are_not_numbers():
    x, e = exact("leaves")
    by_step = np.repeat(np.moveaxis(x, 2, 0)[:, :, :, None], 3, axis=3)
    inds = np.ones(by_step.shape[:4], bool)
    inds[5, 2, 1, 1:] = False
    run = foreign.from_eryn({"x": by_step}, np.moveaxis(e, 2, 0), K, inds={"x": inds})
    assert run.values["x"].shape == (4 * WALKERS, STEPS, 3, 2)
    assert np.isnan(run.values["x"]).sum() == 4
    assert run.values["n_x"][2 * WALKERS + 1, 5] == 1
    assert run.values["n_x"].sum() == inds.sum()


def test_names_split_the_dimensions_and_containers_keep_theirs():
    x, e = exact("names")
    run = foreign.from_ptemcee(x, e, K, names=["a", "b"])
    np.testing.assert_array_equal(run.values["b"], as_ptemcee(x, e).values["x"][..., 1])
    parts = {"a": x[..., 0].transpose(2, 0, 1), "b": x.transpose(2, 0, 1, 3)}
    run = foreign.from_tfp(parts, e.transpose(2, 0, 1), K)
    assert run.values["a"].shape == (4 * WALKERS, STEPS)
    one = foreign.from_tfp(x[:, 0].swapaxes(0, 1), e[:, 0].T, K)
    np.testing.assert_array_equal(one.energy, e[:, 0])


@pytest.mark.parametrize(
    "swap",
    [
        lambda x, e: foreign.from_ptemcee(x.transpose(2, 1, 0, 3), e.transpose(2, 1, 0), K),
        lambda x, e: foreign.from_ptemcee(x.swapaxes(1, 2), e, K),
        lambda x, e: foreign.from_eryn({"x": x[:, :, :, None]}, e, K),
        lambda x, e: foreign.from_emcee(x, e.swapaxes(1, 2), K),
        lambda x, e: foreign.from_tfp(x, e, K),
        lambda x, e: foreign.from_tfp(x.transpose(2, 1, 0, 3), e.transpose(2, 0, 1), K),
        lambda x, e: foreign.from_blackjax_smc(x[:, 0].swapaxes(0, 1), K[::-1], e[:, 0].T),
        lambda x, e: foreign.from_pigeons(x[:, 0].transpose(0, 2, 1), K, PROBLEM.log_likelihood),
        lambda x, e: foreign.from_pigeons(x[:, 0].transpose(1, 2, 0), K, e[:, 0]),
    ],
)
def test_swapped_axes_are_refused(swap):
    with pytest.raises(InputError, match=r"axes|axis"):
        swap(*exact("swapped"))


def test_other_mistakes_are_named():
    x, e = exact("mistakes")
    with pytest.raises(InputError, match="must stay the same while draws are kept"):
        foreign.from_tfp(x.transpose(2, 0, 1, 3), e.transpose(2, 0, 1), np.linspace(K, K / 2, STEPS))
    with pytest.raises(InputError, match=r"lie in \[0, 1\], but they reach from 1 to 10"):
        foreign.from_ptemcee(x, e, [1.0, 2.0, 5.0, 10.0])
    with pytest.raises(InputError, match="must rise from the prior to 1"):
        foreign.from_blackjax_smc(x.reshape(4, -1, 2), K, e.reshape(4, -1))
    with pytest.raises(InputError, match=r"a name for each of 2 dimensions, but got 1"):
        foreign.from_ptemcee(x, e, K, names=["a"])
    e[1, 2, 3] = np.nan
    with pytest.raises(InputError, match="chain 8, draw 3 has nan"):
        as_ptemcee(x, e)
    with pytest.raises(InputError, match=r"the axes \(chain, draw\), but has shape \(3,\)"):
        foreign.from_arrays({"x": [1.0, 2.0, 3.0]}, 1.0, [0.0, 0.0, 0.0])


def test_a_file_is_read_by_chains(tmp_path):
    x, e = exact("file")
    run = as_ptemcee(x, e)
    k = K[run.rung]
    chain = np.broadcast_to(np.arange(run.n_chains)[:, None], k.shape)
    flat = [a.T.ravel() for a in (chain, k, run.energy, run.values["x"][..., 0])]  # chains interleaved, in time order
    path = tmp_path / "draws.csv"
    np.savetxt(path, np.column_stack(flat), delimiter=",", header="chain,k,energy,a", comments="", fmt="%.17g")
    columns = {"energy": "energy", "inverse_temperature": "k", "values": ["a"]}
    read = foreign.from_csv(path, **columns, chain="chain", is_powered=False)
    np.testing.assert_array_equal(read.values["a"], run.values["x"][..., 0])
    np.testing.assert_array_equal(read.energy, run.energy)
    np.testing.assert_array_equal(read.rung, run.rung)
    assert foreign.from_csv(path, **columns).n_chains == 1
    path.write_text("chain,k,energy,a\n0,1,0,0\n0,1,0,0\n1,1,0,0\n")
    with pytest.raises(InputError, match="they have 1 to 2 draws"):
        foreign.from_csv(path, **columns, chain="chain")
