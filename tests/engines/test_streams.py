import jax
import numpy as np
import pytest
from scipy import stats

from statistical import seeded_rng
from tempering.engines.streams import keys_of
from tempering.kernels import uniforms as uniforms_module
from tempering.kernels.threefry import threefry
from tempering.kernels.uniforms import folded_in, key_and_uniforms, normals_and_uniforms


@pytest.mark.parametrize("seed", [0, 7, 2**31 + 11, 2**53 - 1])
def test_keys_are_those_that_jax_folds_in(seed):
    with jax.enable_x64(True):
        stream = jax.random.fold_in(jax.random.key(seed), 3)
        expected = [jax.random.key_data(jax.random.fold_in(stream, i)) for i in (0, 1, 4000)]
        keys = keys_of(seed, 3, 4001)
    np.testing.assert_array_equal(jax.random.key_data(keys)[np.array([0, 1, 4000])], expected)


@pytest.mark.parametrize("seed", [0, 2**40 + 3])
def test_keys_folded_in_while_chains_run_are_those_of_jax(seed):
    with jax.enable_x64(True):
        keys = keys_of(seed, 1, 3)
        fold = jax.jit(jax.vmap(lambda key, n: jax.random.key_data(folded_in(key, n)), in_axes=(0, None)))
        found = fold(keys, np.int64(2**35 + 12))
        expected = [jax.random.key_data(jax.random.fold_in(key, 12)) for key in keys]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stream", [0, 1, 2**32 - 1])
def test_numbers_of_a_stream_are_those_of_its_counters(stream):
    with jax.enable_x64(True):
        keys = keys_of(3, 1, 2)
        make = jax.jit(jax.vmap(lambda key, s: normals_and_uniforms(key, 0, 5, float, s)[1], in_axes=(0, None)))
        found = np.asarray(make(keys, np.int64(stream)))
        words = np.asarray(jax.random.key_data(keys))
    np.testing.assert_array_equal(found, [numbers_at(key, stream, np.arange(5, dtype=np.uint32)) for key in words])


@pytest.mark.parametrize("iteration", [0, 1, 2**35 + 12])
def test_an_iteration_has_a_key_and_numbers_of_its_own(iteration):
    with jax.enable_x64(True):
        keys = keys_of(3, 1, 2)
        make = jax.jit(jax.vmap(lambda key, i: key_and_uniforms(key, i), in_axes=(0, None)))
        made, uniforms = make(keys, np.int64(iteration))
        made, words = (np.asarray(jax.random.key_data(part)) for part in (made, keys))
    for key, found, numbers in zip(words, made, np.asarray(uniforms), strict=True):
        first, _ = threefry_of(key, iteration, np.arange(6, dtype=np.uint32))
        np.testing.assert_array_equal(found, first[:2])
        np.testing.assert_array_equal(numbers, in_unit_interval(first[2:4], first[4:]))


def threefry_of(key, stream, counter):
    with np.errstate(over="ignore"):
        return threefry((key[0], key[1]), np.full_like(counter, stream % 2**32), counter)


def in_unit_interval(high, low):
    return (high >> 5) * 2.0**-27 + (low >> 6) * 2.0**-53


def numbers_at(key, stream, counter):
    return in_unit_interval(*threefry_of(key, stream, counter))


def numbers_of(n_chains, n_normals, n_uniforms):
    with jax.enable_x64(True):
        draw = jax.jit(jax.vmap(lambda key: normals_and_uniforms(key, n_normals, n_uniforms, float)))
        return [np.asarray(part) for part in draw(keys_of(int(seeded_rng("numbers").integers(2**31)), 1, n_chains))]


def test_normals_and_uniforms_have_their_laws_and_do_not_depend_on_each_other():
    normals, uniforms = numbers_of(20_000, 5, 3)
    together = np.hstack([stats.norm.cdf(normals), uniforms])
    for column in together.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-6 / 8
    quarters = np.floor(4 * together).astype(int)
    pairs = [(i, j) for i in range(8) for j in range(i)]
    for i, j in pairs:  # the two normals of a pair among them: 16 cells each
        table = np.bincount(4 * quarters[:, i] + quarters[:, j], minlength=16).reshape(4, 4)
        assert stats.chi2_contingency(table).pvalue > 1e-6 / len(pairs)


def test_control_normals_of_one_uniform_number_depend_on_each_other(monkeypatch):
    alike = uniforms_module._normals_of
    monkeypatch.setattr(uniforms_module, "_normals_of", lambda u, v: alike(u, u))
    normals, _ = numbers_of(20_000, 4, 1)
    quarters = np.floor(4 * stats.norm.cdf(normals)).astype(int)
    table = np.bincount(4 * quarters[:, 0] + quarters[:, 2], minlength=16).reshape(4, 4)
    assert stats.chi2_contingency(table).pvalue < 1e-12


def test_cosines_and_sines_are_right_to_the_last_digits():
    turns = np.concatenate([np.linspace(0, 1, 1001)[:-1], np.random.default_rng(0).random(1000)])
    with jax.enable_x64(True):
        found = np.asarray(uniforms_module._cosine_and_sine(jax.numpy.asarray(turns)))
    np.testing.assert_allclose(found, [np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], atol=2e-15)
