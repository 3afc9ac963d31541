"""The variables of a PyMC model: which can be tempered, in what order they are, which are summed out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tempering.errors import TargetError


def _parts(transform: Any) -> list[Any]:
    """Return the transforms that a transform is made of."""
    chained = getattr(transform, "transform_list", None)
    return [transform] if chained is None else [part for one in chained for part in _parts(one)]


def order_of(transform: Any) -> Any:
    """Return the part of a transform that orders values; None where there is none."""
    return next((part for part in _parts(transform) if getattr(part, "name", "") == "ordered"), None)


def in_order(rv: Any, order: Any) -> Any:
    """Return a variable of the same law, in order."""
    import pytensor.tensor as pt

    fresh = rv.owner.clone().outputs[rv.owner.outputs.index(rv)]
    ascending = pt.sort(fresh, axis=-1)
    return ascending if getattr(order, "ascending", True) else ascending[..., ::-1]


def _is_exchangeable(rv: Any) -> bool:
    """Whether the values of a variable, along its last axis, all have one law and know nothing of each other."""
    op = rv.owner.op
    if getattr(op, "ndim_supp", None) != 0 or rv.ndim == 0 or not hasattr(op, "dist_params"):
        return False
    return all(p.ndim == 0 or p.type.broadcastable[-1] for p in op.dist_params(rv.owner))


def with_angles_cut_open(model: Any) -> Any:
    """Return the model with its angles on an interval: PyMC lets them wind, and a law that winds has no integral."""
    from pymc.distributions.transforms import Interval
    from pymc.model.transform.conditioning import change_value_transforms

    transforms = model.rvs_to_transforms
    angles = [rv for rv in model.free_RVs if any(getattr(p, "name", "") == "circular" for p in _parts(transforms[rv]))]
    return change_value_transforms(model, {rv: Interval(-np.pi, np.pi) for rv in angles}) if angles else model


def is_lkj_cholesky(rv: Any) -> bool:
    """Whether a variable is the packed factor of a covariance whose correlations have an LKJ law."""
    return "LKJCholeskyCov" in type(rv.owner.op).__name__


def log_density_of_lkj(model: Any, rv: Any) -> Any:
    """Return the log density of an LKJCholeskyCov at its unconstrained value, the transform's Jacobian included.

    PyMC's own (5 and 6) adds the log of the integral where it should subtract it, and takes the variance of a row as a
    difference of running sums: of rows whose scales differ by 1e8 nothing is left of the smaller, and the density is
    infinite.
    """
    import pymc
    import pytensor.tensor as pt

    parameters = rv.owner.inputs
    _, size, eta, sd_dist, *_ = parameters
    transform, value = model.rvs_to_transforms[rv], model.rvs_to_values[rv]
    packed = value if transform is None else transform.backward(value, *parameters)
    n = int(size.eval())
    scales, log_density = [], pt.constant(0.0)
    for i in range(n):
        row = packed[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2]
        largest = pt.max(pt.abs(row))
        scale = largest * pt.sqrt(pt.sum((row / largest) ** 2))  # squares of the row itself would underflow first
        scales.append(scale)
        if i:  # the first row of a correlation's factor is 1
            log_correlation = pt.log(row[-1]) - pt.log(scale)
            # LKJ's power of the diagonal, and the Jacobian of (scale, correlations) to the row
            log_density += (n - i - 2 + 2 * eta) * log_correlation - i * pt.log(scale)
            half = 0.5 * (n - 1)
            log_density -= 0.5 * i * np.log(np.pi) + pt.gammaln(eta + half - 0.5 * i) - pt.gammaln(eta + half)
    log_density += pt.sum(pymc.logp(sd_dist, pt.stack(scales)))
    if transform is not None:
        log_density += pt.sum(transform.log_jac_det(value, *parameters))
    return model.replace_rvs_by_values([log_density])[0]


def idle_discrete(model: Any) -> list[Any]:
    """Return discrete free variables that nothing else depends on, as missing counts are: their sum is one."""
    others = [*model.basic_RVs, *model.potentials]
    discrete = [rv for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]
    return [rv for rv in discrete if not any(depends(other, [rv]) for other in others if other is not rv)]


def depends(variable: Any, on: list[Any]) -> bool:
    """Whether a variable depends on one of others."""
    from pytensor.graph.traversal import ancestors

    return bool(on) and any(ancestor in on for ancestor in ancestors([variable]))


def check_data(model: Any) -> None:
    """Refuse likelihoods that change from call to call."""
    from pytensor.graph.traversal import ancestors

    for rv in model.observed_RVs:
        kinds = {c.__name__ for c in type(rv.owner.op).__mro__}
        if "SimulatorRV" in kinds:
            raise TargetError(
                f"A likelihood must be a density, but {rv.name!r} is a Simulator, which has none. Use pymc.sample_smc, "
                "or write the density with pymc.CustomDist or pymc.Potential."
            )
        graph = ancestors([model.rvs_to_values[rv]])
        inside = {c.__name__ for v in graph if v.owner is not None for c in type(v.owner.op).__mro__}
        if "MinibatchRandomVariable" in kinds or "MinibatchIndexRV" in inside:
            raise TargetError(
                f"A likelihood must take in all data, but {rv.name!r} takes a Minibatch. Pass the whole data."
            )


def check_variables(free: list[Any], transforms: Mapping[Any, Any]) -> None:
    """Refuse what cannot be tempered."""
    if not free:
        raise TargetError(
            "A model must have at least one free variable that is continuous, but all of this one's are observed, or "
            "discrete with nothing that depends on them. Leave one without observed=."
        )
    for rv in free:
        if rv.dtype.startswith(("int", "uint", "bool")):
            raise TargetError(
                f"Free variables must be continuous, but {rv.name!r} is discrete. Sum it out: pymc.Mixture does for "
                f"mixtures, pymc_extras.marginalize(model, [{rv.name!r}]) for others."
            )
        if "LKJCorr" in type(rv.owner.op).__name__:
            raise TargetError(
                f"Free variables must be mapped to all real numbers, but PyMC maps those of the LKJCorr {rv.name!r} to "
                "a cube of which only a part are correlations. Use LKJCholeskyCov, which gives correlations too."
            )
        if order_of(transforms[rv]) is not None and not _is_exchangeable(rv):
            raise TargetError(
                f"Every prior must integrate to one, but that of {rv.name!r} is cut to ordered values which do not all "
                "have the same law. Leave transform=ordered out: tempering visits every labelling; sort the draws "
                "afterwards."
            )
        if rv.owner.op.name in ("flat", "half_flat"):
            raise TargetError(
                f"Every free variable must have a proper prior, but {rv.name!r} has a flat one, so that k = 0 is no "
                "distribution. Give it a proper prior, however wide."
            )
