"""Test problems which know their own truth: density, exact draws at any k, moments, log normaliser.

>>> from tempering import problems
>>> problem = problems.mixture()  # Eq. 10 of the paper
>>> problem.mode_masses
array([0.6, 0.4])
"""

from tempering.problems.banana import Banana
from tempering.problems.gaussian_likelihood import GaussianLikelihood, likelihood_gaussian
from tempering.problems.gaussian_mixture import GaussianMixture, five_modes, ring, two_modes, unequal_modes
from tempering.problems.label_switching import LabelSwitching, label_switching
from tempering.problems.logistic import LogisticRegression, logistic
from tempering.problems.normal_mixture import NormalMixture, mixture
from tempering.problems.posterior import NormalPrior, Posterior, Truth
from tempering.problems.problem import Problem
from tempering.problems.sensors import Sensors, sensors
from tempering.problems.skewed import Skewed, skewed
from tempering.problems.variable_selection import VariableSelection, variable_selection

__all__ = [
    "Banana",
    "GaussianLikelihood",
    "GaussianMixture",
    "LabelSwitching",
    "LogisticRegression",
    "NormalMixture",
    "NormalPrior",
    "Posterior",
    "Problem",
    "Sensors",
    "Skewed",
    "Truth",
    "VariableSelection",
    "five_modes",
    "label_switching",
    "likelihood_gaussian",
    "logistic",
    "mixture",
    "ring",
    "sensors",
    "skewed",
    "two_modes",
    "unequal_modes",
    "variable_selection",
]
