"""The default call where a product of single coordinates is learnt: it is right, and it is taken."""

import numpy as np
import pytest

import tempering as tp
from tempering import problems
from tempering.path.factored import Factored

FUNNEL = problems.suite()["funnel-10"]
PAIRS = problems.suite()["rosenbrock-pairs-10"]


def sampled(known, **options):
    start = {} if known.has_prior else {"initial": known.initial}
    return tp.sample(known.target(), rng=7, progress=False, **start, **options)


@pytest.mark.slow
@pytest.mark.parametrize("known", [FUNNEL, PAIRS])
def test_log_evidence_is_known_to_a_hundredth(known):
    run = sampled(known)
    assert isinstance(run.path.references[-1], Factored)
    evidence = run.log_evidence()
    assert evidence.standard_error < 0.01
    assert abs(evidence.value - known.evidence.log_value) < 5 * evidence.standard_error
    for quantity in known.quantities:
        found = run.expect(quantity.function)
        assert np.all(np.abs(found.value - quantity.value) < 5 * found.standard_error), quantity.name


@pytest.mark.slow
def test_sums_know_the_same(tmp_path):
    run = sampled(FUNNEL, keep=tp.Sums({"v": lambda x: x[..., 0]}))
    evidence, v = run.log_evidence(), run.expect("v")
    assert evidence.standard_error < 0.01
    assert abs(evidence.value) < 5 * evidence.standard_error
    assert abs(v.value) < 5 * v.standard_error


@pytest.mark.slow
def test_a_run_read_from_a_file_has_its_product(tmp_path):
    run = sampled(FUNNEL, draws=500)
    run.save(tmp_path / "run")
    again = tp.load(tmp_path / "run")
    assert isinstance(again.path.references[-1], Factored)
    x = np.asarray(run.values["x"])[0]
    np.testing.assert_array_equal(again.path.references[-1].log_density(x), run.path.references[-1].log_density(x))
    assert again.log_evidence().value == run.log_evidence().value
