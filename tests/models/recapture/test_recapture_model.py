"""The model object on studies that lack something: recaptures, recoveries, or an occasion after the last interval."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recapture_cases import all_histories

from statistical import seeded_rng
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.likelihood import LAMBDA, P, log_likelihood
from tempering.models.recapture.model import recapture_model
from tempering.models.recapture.spaces import ModelSpace


def study(kind):
    rng = seeded_rng("studies")
    if kind == "tail":
        pool = list(all_histories(3, tail=True))
        return Histories([pool[i] for i in rng.integers(len(pool), size=60)], years=range(4), tail=True).to_counts(2)
    pool = [h for h in all_histories(3) if 2 not in h]  # live only
    return Histories([pool[i] for i in rng.integers(len(pool), size=60)], years=range(4), dead=False).to_counts(2)


@pytest.mark.parametrize("kind", ["tail", "live only"])
def test_what_a_study_cannot_see_stays_at_zero_and_the_rest_moves(kind):
    counts = study(kind)
    space = ModelSpace(2, p="contiguous", lambda_="contiguous", present=counts.parameters)
    assert space.count == (6**3 if kind == "tail" else 6**2)
    model = recapture_model(counts, space)
    with jax.enable_x64(True):
        start = jax.jit(jax.vmap(model.initial))(jax.random.split(jax.random.key(1), 40))

        @jax.jit
        def run(state):
            def body(state, key):
                keys = jax.random.split(key, 40)
                return jax.vmap(lambda key, state: model.step(key, state, 0.5))(keys, state), None

            return jax.lax.scan(body, state, jax.random.split(jax.random.key(2), 30))[0]

        end = run(start)
        exact = jax.vmap(lambda v: log_likelihood(model.data, v))(end.values)
        record = jax.vmap(model.record)(end)
    np.testing.assert_allclose(end.log_likelihood, exact, rtol=1e-12)
    values = np.asarray(end.values)
    assert (values[:, LAMBDA if kind == "live only" else P, -1] == 0).all()
    assert np.isfinite(exact).all()
    assert ((values[:, P, :-1] > 0) & (values[:, P, :-1] < 1)).all()
    assert set(record) == {"model", *counts.parameters}
    structures = {str(space.structure(code)) for code in np.asarray(record["model"])[:, 0]}
    assert len(structures) > 2
    assert not jnp.array_equal(end.values, start.values)
