import numpy as np
import pytest

from statistical import assert_variance_is_one, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import regenerative_ratio
from tempering.estimators.regeneration import TourWeights, tour_ends


def tours(rng, n_tours):
    """Sum over tours of a chain that regenerates with probability 0.1 and keeps its value between."""
    length = rng.geometric(0.1, n_tours)
    value = rng.exponential(size=n_tours)
    return np.stack([value, value**2], axis=1) * length[:, None], length.astype(float)


def test_error_bars_of_tours_are_right_and_those_of_draws_are_not():
    rng = seeded_rng("tours")
    z, naive = [], []
    for _ in range(300):
        top, bottom = tours(rng, 2000)
        result = regenerative_ratio(top, bottom)
        z.append((result.value[0] - 1.0) / result.standard_error[0])
        naive.append((result.value[0] - 1.0) * np.sqrt(bottom.sum()))
    assert_variance_is_one(z)
    with pytest.raises(AssertionError):
        assert_variance_is_one(naive)


def test_tour_effectiveness_is_between_one_tour_and_all():
    assert regenerative_ratio([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]).tour_effectiveness == pytest.approx(1.0)
    assert regenerative_ratio([1.0, 1.0, 1.0], [2.0, 0.0, 0.0]).tour_effectiveness == pytest.approx(1 / 3)
    _, length = tours(seeded_rng("effectiveness"), 200_000)
    expected = 10.0**2 / (10.0**2 + 0.9 / 0.1**2)  # E[D]^2 / E[D^2] of a geometric law
    assert regenerative_ratio(length, length).tour_effectiveness == pytest.approx(expected, rel=0.02)


def test_the_formula_is_the_printed_one():
    result = regenerative_ratio([1.0, 5.0], [1.0, 3.0])
    assert result.value == pytest.approx(1.5)
    assert result.standard_error == pytest.approx(np.sqrt(2 * (0.5**2 + 0.5**2)) / 4)
    assert result.n_tours == 2


def test_one_tour_is_not_enough():
    for top, bottom in (
        ([1.0], [1.0]),
        ([1.0, 1.0], [0.0, 0.0]),
        ([1.0, 1.0], [1.0]),
        ([1.0, 1.0], [-1.0, 3.0]),
    ):
        with pytest.raises(EstimatorError, match="tours"):
            regenerative_ratio(top, bottom)


def weighed(rng, n_chains=3, n=12):
    return rng.exponential(size=(n_chains, n)), rng.random((n_chains, n)) < np.array([[0.4], [0.1], [0.0]])


def by_hand(weights, ends):
    """Weigh tours one by one, whole or cut off."""
    found = []
    for row, stops in zip(weights, ends, strict=True):
        found += [part.sum() for part in np.split(row, np.flatnonzero(stops) + 1)]
    return found


@pytest.mark.parametrize("cuts", [(), (5,), (1, 2, 3), (4, 11), tuple(range(1, 12))])
def test_tours_that_are_summed_in_pieces_are_those_of_the_whole(cuts):
    """Wherever a run is cut into stretches, and in whatever order they are joined."""
    weights, ends = weighed(seeded_rng("pieces of tours"))
    found = by_hand(weights, ends)
    parts = [TourWeights.of(w, e) for w, e in zip(np.split(weights, cuts, 1), np.split(ends, cuts, 1), strict=True)]
    forth, back = parts[0], parts[-1]
    for part in parts[1:]:
        forth = forth.followed_by(part)
    for part in parts[-2::-1]:
        back = part.followed_by(back)
    expected = np.sum(found) ** 2 / np.sum(np.square(found))
    assert forth.effective_number == pytest.approx(expected, rel=1e-13)
    assert back.effective_number == pytest.approx(expected, rel=1e-13)
    one, *rest = (TourWeights(*(field[i : i + 1] for field in forth)) for i in range(3))
    for chain in rest:
        one = one.beside(chain)
    assert one.effective_number == pytest.approx(expected, rel=1e-13)


def test_control_tours_cut_where_stretches_end_are_too_many():
    weights, ends = weighed(seeded_rng("pieces of tours"))
    cut = ends | (np.arange(12) % 3 == 2)
    assert TourWeights.of(weights, cut).effective_number > 1.3 * TourWeights.of(weights, ends).effective_number


def test_a_tour_goes_on_across_stretches_of_lifted_moves():
    """Whether a chain has turned at an end is told by the rung before a stretch, too."""
    rung, proposed = np.array([[2, 2, 1, 0, 0, 1]]), np.array([[2, 2, 1, 0, 0, 1]])
    whole = tour_ends(rung, proposed, np.array([1]), (0, 2), is_lifted=True)
    np.testing.assert_array_equal(whole, [[False, True, False, False, True, False]])
    for cut in range(1, 6):
        later = tour_ends(rung[:, cut:], proposed[:, cut:], rung[:, cut - 1], (0, 2), is_lifted=True)
        np.testing.assert_array_equal(later, whole[:, cut:])
    np.testing.assert_array_equal(
        tour_ends(rung, proposed, np.array([1]), (0, 2), is_lifted=False), (rung == 0) | (rung == 2)
    )
