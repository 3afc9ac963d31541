"""Test problems which know their own truth, and `suite`, the library of hard targets for any sampler.

>>> from tempering import problems
>>> problem = problems.mixture()  # Eq. 10 of the paper
>>> problem.mode_masses
array([0.6, 0.4])
>>> problems.suite()["shells-5"].evidence.provenance
'radial quadrature; the mass outside the box is left out'
"""

from tempering.problems.banana import Banana
from tempering.problems.cox_process import cox_process
from tempering.problems.data_posteriors import eight_schools, galaxies, sinusoid
from tempering.problems.gaussian_likelihood import GaussianLikelihood, likelihood_gaussian
from tempering.problems.gaussian_mixture import GaussianMixture, five_modes, ring, two_modes, unequal_modes
from tempering.problems.known import Evidence, KnownTarget, Modes, Quantity
from tempering.problems.label_switching import LabelSwitching, label_switching
from tempering.problems.logistic import LogisticRegression, logistic
from tempering.problems.mixture_toys import (
    cauchy_modes,
    challenging,
    eight_gaussians,
    four_modes,
    gmm9,
    gmm40,
    grid25,
    known_mixture,
    plain_normal,
    student_modes,
    twin_modes,
    two_in_cube,
)
from tempering.problems.nested_toys import eggbox, log_gamma, rosenbrock, shells, spike_and_slab
from tempering.problems.normal_mixture import NormalMixture, mixture
from tempering.problems.physics_toys import many_well, phi4_chain, phi4_lattice
from tempering.problems.posterior import Posterior, Truth
from tempering.problems.priors import CauchyPrior, NormalPrior, Prior, UniformPrior
from tempering.problems.problem import Problem
from tempering.problems.sensors import Sensors, sensors
from tempering.problems.shape_toys import funnel, rings, walled_modes
from tempering.problems.skewed import Skewed, skewed
from tempering.problems.suite import Suite, suite
from tempering.problems.ultranest_toys import correlated, pyramid, thin_shell, unequal_scales
from tempering.problems.variable_selection import VariableSelection, variable_selection

__all__ = [
    "Banana",
    "CauchyPrior",
    "Evidence",
    "GaussianLikelihood",
    "GaussianMixture",
    "KnownTarget",
    "LabelSwitching",
    "LogisticRegression",
    "Modes",
    "NormalMixture",
    "NormalPrior",
    "Posterior",
    "Prior",
    "Problem",
    "Quantity",
    "Sensors",
    "Skewed",
    "Suite",
    "Truth",
    "UniformPrior",
    "VariableSelection",
    "cauchy_modes",
    "challenging",
    "correlated",
    "cox_process",
    "eggbox",
    "eight_gaussians",
    "eight_schools",
    "five_modes",
    "four_modes",
    "funnel",
    "galaxies",
    "gmm9",
    "gmm40",
    "grid25",
    "known_mixture",
    "label_switching",
    "likelihood_gaussian",
    "log_gamma",
    "logistic",
    "many_well",
    "mixture",
    "phi4_chain",
    "phi4_lattice",
    "plain_normal",
    "pyramid",
    "ring",
    "rings",
    "rosenbrock",
    "sensors",
    "shells",
    "sinusoid",
    "skewed",
    "spike_and_slab",
    "student_modes",
    "suite",
    "thin_shell",
    "twin_modes",
    "two_in_cube",
    "two_modes",
    "unequal_modes",
    "unequal_scales",
    "variable_selection",
    "walled_modes",
]
