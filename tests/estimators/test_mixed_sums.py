"""Sums under the mixture of simulated tempering: exact on enumerated draws, MBAR where the pseudo-prior is MBAR's."""

import numpy as np
import pytest
from scipy import stats

from statistical import FALSE_ALARM_RATE, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import mbar_from_matrix
from tempering.estimators.running.mixed import MixedSums, RungMixture

# Three densities on five places as whole numbers of draws, skewed; the target is the one in the middle.
NUMBERS = np.array([[8, 4, 2, 1, 1], [1, 2, 9, 3, 5], [1, 1, 2, 5, 7]])
LOG_PSEUDO_PRIOR = np.array([0.4, -0.3, 1.1])  # far from -log Z, which is the same for all three but for FACTORS
FACTORS = np.array([1.0, 2.0, 0.25])  # of the unnormalised densities
TERMS = np.log(NUMBERS * FACTORS[:, np.newaxis]).T  # (place, term): one density a term
MIXTURE = RungMixture(np.eye(3), LOG_PSEUDO_PRIOR, 1)
H = np.array([3.0, -1.0, 0.5, 2.0, 7.0])


def enumerated(repeats=(1, 3, 2), **options):
    """Return sums over each rung's places as often as its density says, the rungs as often as one likes."""
    places = [np.repeat(np.arange(5), NUMBERS[r] * n) for r, n in enumerate(repeats)]
    place, rung = np.concatenate(places), np.repeat(np.arange(3), [len(p) for p in places])
    return MixedSums.from_draws(
        TERMS[place][np.newaxis], rung[np.newaxis], {"h": H[place][np.newaxis]}, MIXTURE, **options
    )


def truth(r=1):
    return NUMBERS[r] @ H / NUMBERS[r].sum()


@pytest.mark.parametrize("repeats", [(1, 3, 2), (5, 1, 1), (1, 1, 9)])
def test_enumerated_draws_give_exact_answers_however_often_rungs_are_visited(repeats):
    sums = enumerated(repeats)
    assert sums.expect("h").value == pytest.approx(truth(), abs=1e-12)
    sizes = np.log(NUMBERS.sum(axis=1) * FACTORS)
    np.testing.assert_allclose(sums.log_normalisers, sizes - sizes[1], atol=1e-12)
    np.testing.assert_allclose(sums.overlap.sum(axis=1), 1.0)
    assert sums.weights.sum() > 0


def test_control_visits_in_place_of_the_stationary_vector_are_wrong():
    sums = enumerated((1, 3, 2))
    chance, weighted = (part.sum((0, 1)) for part in (sums.batches.chance, sums.batches.weighted))
    naive = weighted.sum(0) / chance[:, 1].sum() * sums.quantities.scale + sums.quantities.centre
    assert abs(naive - truth()) > 1e-2


def draws(rng, n_chains=8, n=400):
    rung = rng.choice(3, p=[0.3, 0.5, 0.2], size=(n_chains, n))
    shares = NUMBERS / NUMBERS.sum(axis=1, keepdims=True)
    place = (rng.random((n_chains, n, 1)) > np.cumsum(shares, axis=1)[rung]).sum(axis=-1)
    return place, rung


def test_with_the_pseudo_prior_of_mbar_it_is_mbar():
    place, rung = draws(seeded_rng("mixed mbar"))
    fit = mbar_from_matrix(TERMS.T[:, place.ravel()], rung.ravel())
    offsets = np.log(np.bincount(rung.ravel())) - fit.log_normalisers
    sums = MixedSums.from_draws(TERMS[place], rung, {"h": H[place]}, MIXTURE._replace(log_pseudo_prior=offsets))
    np.testing.assert_allclose(sums.log_normalisers, fit.log_normalisers - fit.log_normalisers[1], atol=1e-8)
    log_w = TERMS[place.ravel(), 1] - np.log(np.exp(TERMS[place.ravel()] + offsets).sum(axis=1))
    w = np.exp(log_w - log_w.max())
    assert sums.expect("h").value == pytest.approx(w @ H[place.ravel()] / w.sum(), abs=1e-9)


def test_pieces_of_time_and_of_chains_add_up_to_the_whole():
    place, rung = draws(seeded_rng("mixed pieces"))
    whole = MixedSums.from_draws(TERMS[place], rung, {"h": H[place]}, MIXTURE)

    def piece(chains, when):
        at = place[chains, when]
        known = {"quantities": whole.quantities}
        return MixedSums.from_draws(TERMS[at], rung[chains, when], {"h": H[at]}, MIXTURE, **known)

    halves = [
        piece(chains, slice(0, 200)).followed_by(piece(chains, slice(200, 400)))
        for chains in (slice(0, 4), slice(4, 8))
    ]
    together = halves[0].beside(halves[1])
    assert together.expect("h").value == pytest.approx(whole.expect("h").value, abs=1e-12)
    np.testing.assert_allclose(together.log_normalisers, whole.log_normalisers, atol=1e-12)
    np.testing.assert_allclose(together.quantile("h", np.array([0.2, 0.8])), whole.quantile("h", np.array([0.2, 0.8])))
    merged = halves[0].merge(halves[1])
    assert merged.expect("h").value == pytest.approx(whole.expect("h").value, abs=1e-12)
    assert merged.nbytes == halves[0].nbytes


def test_sums_of_other_mixtures_are_not_merged():
    other = MixedSums.from_draws(*(np.zeros((1, 4, 3)), np.zeros((1, 4), int)), {"h": np.ones((1, 4))},
                                 MIXTURE._replace(target=0))  # fmt: skip
    with pytest.raises(EstimatorError, match="same path"):
        enumerated().merge(other)


def z_scores(n=300, is_broken=False):
    """Return z-scores of the expectation and of a ratio of normalisers over independent runs."""
    found = []
    for i in range(n):
        place, rung = draws(seeded_rng(f"mixed coverage {i}"), 16, 100)
        sums = MixedSums.from_draws(TERMS[place], rung, {"h": H[place]}, MIXTURE)
        if is_broken:  # the stationary vector taken as known
            vars(sums)["_on_stationary"] = np.zeros((16, 1, 3))
        mean, ratio = sums.expect("h"), sums.log_normaliser_ratio(2)
        error = [ratio.value - np.log(NUMBERS[1].sum() * 2 / (NUMBERS[2].sum() * 0.25)), mean.value - truth()]
        found.append(np.array(error) / [max(ratio.standard_error, 1e-9), mean.standard_error])
    return np.array(found)


def test_errors_are_as_large_as_stated():
    """Sixteen groups: z is Student's with 15 degrees of freedom, about; its variance 15 / 13."""
    z = z_scores()
    cut = stats.norm.isf(FALSE_ALARM_RATE / 4)
    spread = np.sqrt(2 / len(z)) * 15 / 13 * 1.4  # heavier tails than the normal's
    assert np.all(np.abs(np.mean(z**2, axis=0) - 15 / 13) < cut * spread), np.mean(z**2, axis=0)


def test_control_a_stationary_vector_taken_as_known_is_seen():
    z = z_scores(60, is_broken=True)
    assert np.mean(z[:, 0] ** 2) > 100
