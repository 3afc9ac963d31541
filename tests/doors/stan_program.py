"""Stan programs, compiled here by Stan's own compiler and headers (those of httpstan), in BridgeStan's shape.

BridgeStan's own sources come from a place that tests cannot count on; the density, its gradient and the constraining
transform are Stan's in both.
"""

import asyncio

import numpy as np
from httpstan import models


def compiled(code):
    """Compile a program; return the module of its density."""
    name = models.calculate_model_name(code)
    try:
        return models.import_services_extension_module(name)
    except KeyError:
        asyncio.run(models.build_services_extension_module(code, extra_compile_args=["-O0"]))
        return models.import_services_extension_module(name)


class StanModel:
    """A program with its data. Constants are kept where the program says ``target += ..._lpdf``."""

    def __init__(self, module, data, n_parameters):
        self._module, self._data, self._n = module, data, n_parameters

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        return self._asked(self._module.log_prob, theta_unc, jacobian)

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True, out=None):
        slope = self._asked(self._module.log_prob_grad, theta_unc, jacobian)
        return self.log_density(theta_unc, jacobian=jacobian), np.array(slope)

    def _asked(self, function, theta_unc, jacobian):
        try:
            return function(self._data, [float(x) for x in theta_unc], jacobian)
        except ValueError as error:
            raise RuntimeError(str(error)) from error  # what BridgeStan makes of an exception of the program

    def param_names(self, *, include_tp=False, include_gq=False):
        return self._module.constrained_param_names(self._data)

    def param_unc_names(self):
        return self.param_names()[: self._n]

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, out=None, rng=None):
        return np.array(self._module.write_array(self._data, [float(x) for x in theta_unc], include_tp, include_gq))


StanModel.__module__ = "bridgestan.model"
