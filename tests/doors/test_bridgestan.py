"""BridgeStan's models: the names of the Stan program, its order of indices, and what it rejects."""

import numpy as np
import pytest
from scipy import integrate, stats

import tempering as tp
from tempering.doors.bridgestan import constrain_by_stan, density_of_stan


class StanModel:
    """One positive number and a 2 x 3 matrix, as BridgeStan shows them: the first index runs fastest."""

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        if theta_unc[0] > 20:
            raise RuntimeError("Exception: rejected")  # as BridgeStan turns Stan's reject() into one
        return 2 * theta_unc[0] - np.exp(theta_unc[0]) - 0.5 * float(np.sum((theta_unc[1:] - np.arange(6)) ** 2))

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True, out=None):
        slope = np.append(2 - np.exp(theta_unc[0]), np.arange(6) - theta_unc[1:])
        return self.log_density(theta_unc), slope

    def param_names(self, *, include_tp=False, include_gq=False):
        matrix = [f"A.{i}.{j}" for j in (1, 2, 3) for i in (1, 2)]
        return ["sigma", *matrix, *(["pair:1.1", "pair:1.2", "pair:2"] if include_tp else [])]

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, out=None, rng=None):
        assert theta_unc.flags.c_contiguous
        return np.concatenate([[np.exp(theta_unc[0])], theta_unc[1:], theta_unc[:3]])


StanModel.__module__ = "bridgestan.model"


def test_positions_become_the_programs_variables():
    x = np.arange(2 * 5 * 7, dtype=float).reshape(2, 5, 7) / 10
    values = constrain_by_stan(StanModel())(x)
    assert set(values) == {"sigma", "A", "pair"}
    np.testing.assert_array_equal(values["sigma"], np.exp(x[..., 0]))
    assert values["A"].shape == (2, 5, 2, 3)
    np.testing.assert_array_equal(values["A"][..., 1, 0], x[..., 2])
    np.testing.assert_array_equal(values["A"][..., 0, 2], x[..., 5])
    assert values["pair"].shape == (2, 5, 3)


def test_what_the_program_rejects_has_density_zero():
    density = density_of_stan(StanModel())
    far = np.append(30.0, np.zeros(6))
    assert density(far) == density.log_density_gradient(far)[0] == -np.inf
    assert np.isfinite(density(np.zeros(7)))


def test_a_run_has_the_programs_names_and_its_gradients():
    run = tp.sample(
        tp.Target(StanModel()),
        initial=np.zeros(7),
        ladder=[1, 0.5],
        draws=500,
        tuning=tp.Tuning(320),
        chains=2,
        rng=1,
        progress=False,
    )
    assert run.info.kernel.startswith("Hamiltonian")
    sigma = run.expect(lambda sigma, **_: sigma)  # a gamma of shape 2
    assert abs(sigma.value - 2.0) < 6 * sigma.standard_error < 1.0
    matrix = run.expect(lambda A, **_: A)
    truth = np.arange(6).reshape(3, 2).T
    assert np.all(np.abs(matrix.value - truth) < 6 * matrix.standard_error)


def test_errors_of_other_objects_are_not_taken_for_rejections():
    class Broken(StanModel):
        pass

    Broken.__module__ = "mine"
    Broken.log_density_gradient = lambda self, x: (_ for _ in ()).throw(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        tp.sample(
            tp.Target(Broken()),
            initial=np.zeros(7),
            ladder=[1, 0.5],
            draws=64,
            tuning=tp.Tuning(64),
            rng=1,
            progress=False,
        )


PROGRAM = """
data { real<lower=0, upper=1> k; vector[5] y; }
parameters { real mu; real<lower=0> sigma; }
transformed parameters { vector[2] pair = [mu, sigma]'; }
model {
  target += normal_lpdf(mu | 0, 2) + gamma_lpdf(sigma | 3, 2);
  target += k * normal_lpdf(y | mu, sigma);
}
"""
Y = np.array([0.3, 1.9, -0.4, 1.1, 2.5])


def exact_log_evidence():
    def integrand(mu, sigma):
        log_likelihood = stats.norm.logpdf(Y, mu, sigma).sum()
        return np.exp(log_likelihood + stats.norm.logpdf(mu, 0, 2) + stats.gamma.logpdf(sigma, 3, scale=0.5))

    return np.log(integrate.dblquad(integrand, 1e-3, 12, -8, 8)[0])


@pytest.fixture(scope="module")
def programs():
    pytest.importorskip("httpstan")
    stan = pytest.importorskip("stan_program")
    module = stan.compiled(PROGRAM)
    return [stan.StanModel(module, {"k": k, "y": Y.tolist()}, 2) for k in (1.0, 0.0)]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_program_with_a_tempering_parameter_gives_the_split(programs):
    target = tp.Target.from_stan(*programs)
    x = np.array([0.7, np.log(1.3)])
    assert target.energy(x) == pytest.approx(stats.norm.logpdf(Y, 0.7, 1.3).sum(), rel=1e-12)
    own = stats.norm.logpdf(0.7, 0, 2) + stats.gamma.logpdf(1.3, 3, scale=0.5) + np.log(1.3)
    assert target.base(x) == pytest.approx(own, rel=1e-12)
    step = np.array([1e-6, 0.0])
    slope = (target.energy(x + step) - target.energy(x - step)) / 2e-6
    assert target.energy.log_density_gradient(x)[1][0] == pytest.approx(slope, rel=1e-5)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_evidence_of_a_program_is_absolute(programs):
    target = tp.Target.from_stan(*programs)
    run = tp.sample(
        target, initial=np.zeros(2), ladder=[1, 0.4, 0.1, 0.02, 0.0], draws=1500, tuning=tp.Tuning(640), chains=4,
        rng=1, progress=False,
    )  # fmt: skip
    found, exact = run.log_evidence(), exact_log_evidence()
    assert found.is_absolute
    assert abs(found.value - exact) < 6 * found.standard_error < 0.6
    assert abs(found.value - exact - 2.5 * np.log(2 * np.pi)) > 6 * found.standard_error  # control: constants dropped
    assert set(run.values) == {"mu", "sigma", "pair"}
    np.testing.assert_allclose(run.values["pair"][..., 1], run.values["sigma"])
