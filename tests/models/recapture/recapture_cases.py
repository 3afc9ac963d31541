"""Slow, obvious twins and exact simulations for the mark-recapture tests."""

from itertools import product

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.design import Laws, Proposals, all_masks, lay_out
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.individuals import strata_of
from tempering.models.recapture.kernel import advance
from tempering.models.recapture.layout import State, empty_state
from tempering.models.recapture.likelihood import evaluate
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.times import time_structures


def forward_log_probability(codes, age, values, n_classes, tail=False, released=True):
    """Log probability of one history by the forward algorithm over (alive here, alive away, newly dead, dead).

    ``values`` (4, K, A). ``codes[t + 1] = 2`` is a death reported in interval t.
    """
    n_intervals = len(codes) - 1
    start = int(np.flatnonzero(codes)[0])
    stop = n_intervals if released else int(np.flatnonzero(codes)[-1])
    here, away, gone = 1.0, 0.0, 0.0
    for t in range(start, stop):
        j = min(age + t - start, n_classes - 1)
        phi, p, lam, stays = values[:4, t, j]
        if tail and t == n_intervals - 1:
            p = 0.0
        code = codes[t + 1]
        dies = (here + away) * (1 - phi)
        if code == 1:
            here, away, gone = here * phi * stays * p, 0.0, 0.0
        elif code == 2:
            here, away, gone = 0.0, 0.0, dies * lam
        else:
            away = phi * (away + here * (1 - stays))
            here, gone = here * phi * stays * (1 - p), gone + dies * (1 - lam)
    return np.log(here + away + gone)


def all_histories(n_intervals, tail=False):
    """List every history of a bird marked at the first occasion."""
    for middle in product((0, 1, 2), repeat=n_intervals):
        dead = [t for t, code in enumerate(middle) if code == 2]
        if dead and (len(dead) > 1 or any(middle[dead[0] + 1 :])):
            continue
        if tail and middle[-1] == 1:
            continue
        yield (1, *middle)


def simulate(rng, values, n_chicks, n_classes):
    """Mark chicks of every group each year and follow them, for one table of values (4, K, C): release arrays."""
    _, n_intervals, n_columns = values.shape
    n_groups = n_columns // n_classes
    rows = []
    for group in range(n_groups):
        counts = {}
        for start in range(n_intervals):
            for _ in range(n_chicks):
                _follow(rng, values, group, start, n_classes, counts)
        rows += [(group, t, age, *entry) for (t, age), entry in sorted(counts.items())]
    return ReleaseArrays(
        interval=[row[1] for row in rows],
        age=[row[2] for row in rows],
        recaptured=[row[3] for row in rows],
        recovered=[row[4] for row in rows],
        never=[row[5][0] for row in rows],
        years=np.arange(n_intervals),
        group=[row[0] for row in rows],
        groups=tuple("abcdefgh"[:n_groups]) if n_groups > 1 else ("",),
    )


def _follow(rng, values, group, start, n_classes, counts):
    """Follow one bird, adding up its releases and next encounters."""
    n_intervals = values.shape[1]

    def entry(t):
        empty = (np.zeros(n_intervals, int), np.zeros(n_intervals, int), np.zeros(1, int))
        return counts.setdefault((t, min(t - start, n_classes - 1)), empty)

    last, here = start, True
    for t in range(start, n_intervals):
        column = group * n_classes + min(t - start, n_classes - 1)
        phi, p, lam, stays = values[:4, t, column]
        survives, found, remains, seen = rng.random(4) < (phi, lam, stays, p)
        if not survives:
            if found:
                entry(last)[1][t] += 1
                return
            break
        here = here and remains
        if here and seen:
            entry(last)[0][t] += 1
            last = t + 1
    if last < n_intervals:
        entry(last)[2][0] += 1


def simulate_histories(rng, values, n_chicks, n_classes, stages=(), slopes=None, x=(0.0,)):
    """Mark chicks (and adults, if ages differ) each year and follow them bird by bird; return histories.

    ``values`` (4, K, C), columns going class by class within stage by stage; birds in turn have the covariates ``x``,
    which move their values by ``slopes`` (4,) on the logit scale.
    """
    n_intervals = values.shape[1]
    codes, ages, masses = [], [], []
    slopes = np.zeros(4) if slopes is None else slopes
    for start in range(n_intervals):
        for bird in range(n_chicks):
            age = 99 if n_classes > 1 and bird % 2 else 0
            mass = x[bird % len(x)]
            codes.append(_one_history(rng, values, start, age, n_classes, stages, slopes * mass))
            ages.append(age)
            masses.append(mass)
    return Histories(codes, years=range(n_intervals + 1), age=ages, columns={"mass": np.array(masses)})


def _one_history(rng, values, start, age, n_classes, stages, shift):
    n_intervals = values.shape[1]
    code = [0] * (n_intervals + 1)
    code[start], was_seen = 1, True
    for t in range(start, n_intervals):
        phi, p, lam, _ = at_stage(values, t, start, age, n_classes, stages, was_seen, shift)
        if rng.random() > phi:
            code[t + 1] = 2 if rng.random() < lam else 0
            break
        was_seen = bool(rng.random() < p)
        code[t + 1] = int(was_seen)
    return code


def at_stage(values, t, start, age, n_classes, stages, was_seen, shift=0.0):
    """The values of a bird that was (not) seen at t and marked at ``start``."""
    names = {"new": t == start, "seen": was_seen, "missed": not was_seen, "old": True}
    stage = next((s for s, name in enumerate(stages) if names[name]), 0)
    v = values[:4, t, stage * n_classes + min(age + t - start, n_classes - 1)]
    with np.errstate(divide="ignore"):
        return 1 / (1 + np.exp(-(np.log(v) - np.log1p(-v) + shift)))


def staged_log_probability(codes, age, values, n_classes, stages, shift=0.0):
    """Log probability of one history with stages and covariates, by the forward algorithm."""
    n_intervals = len(codes) - 1
    start = int(np.flatnonzero(codes)[0])
    here, gone, was_seen = 1.0, 0.0, True
    for t in range(start, n_intervals):
        phi, p, lam, _ = at_stage(values, t, start, age, n_classes, stages, was_seen, shift)
        dies, code = here * (1 - phi), codes[t + 1]
        if code == 2:
            here, gone = 0.0, dies * lam
        elif code == 1:
            here, gone = here * phi * p, 0.0
        else:
            here, gone = here * phi * (1 - p), gone + dies * (1 - lam)
        was_seen = code == 1
        if code == 2:
            break
    return np.log(here + gone)


def rough_laws(space, times, strength=6.0):
    """Pseudo-counts that fit nothing well: exactness must not depend on them."""
    rng = np.random.default_rng(5)
    masks = all_masks(space)
    rows = np.zeros(2**space.n_columns, np.int64)
    rows[masks] = np.arange(len(masks))
    pseudo, marginal = strength * rng.random((2, at.N_PARAMETERS, len(masks), int(times.n_blocks.sum()), 2))
    trend = rng.normal(0, 0.5, (at.N_PARAMETERS, len(masks), len(times.names), 5))
    trend[..., 2:] = [3.0, 0.8, 2.0]
    return Laws(rows, pseudo, marginal, trend)


def study_of(arrays, space, times=None, **options):
    """Lay out a study with rough laws, and return an empty state of it."""
    individuals = None
    if isinstance(arrays, Histories):
        if space.individual:
            may = [["mass" in space.space(q).slopes and q in space.present] for q in at.PARAMETERS]
            individuals = strata_of(arrays, ["mass"], may, {}, space.n_classes, space.stages)
        arrays = arrays.to_arrays(space.stages)
    times = times or time_structures(arrays.years)
    counts = arrays if isinstance(arrays, Counts) else arrays.to_counts(space.n_classes)
    how = Proposals(**({"step": 0.2, "fitted_splits": 0.5, "jumps": 4} | options))
    laws = rough_laws(space, times)
    if individuals is not None:
        laws = laws._replace(slopes=np.full((at.N_PARAMETERS, 1, 2), 0.4))
    return empty_state(*lay_out(counts, space, times, laws, how, individuals))


def with_data_over(state, k):
    """Divide the counts by k, so that prior x likelihood^k is the posterior of the undivided data."""
    ints, floats = state.ints, state.floats.copy()
    for table, end in ((at.COUNTS, at.SUMS), (at.SUMS, at.LENGTHS)):
        floats[ints[table] : ints[end]] /= k
    return State(ints, floats, *state[2:])


def with_constant(state, place, value, offset=0):
    """Change a number of the study."""
    floats = state.floats.copy()
    floats[state.ints[place] + offset] = value
    return State(state.ints, floats, *state[2:])


def with_set_prior(state, value):
    """Give every set of survival another prior."""
    floats, start = state.floats.copy(), state.ints[at.PER_SET]
    floats[start : start + state.ints[at.N_SETS]] = value
    return State(state.ints, floats, *state[2:])


def moved_to(state, study):
    """Take over a chain's place in another study with the same space."""
    return State(study.ints, study.floats, *(part.copy() for part in state[2:]))


def statistics_of(state):
    """What a test looks at: values, structures, coefficients and the log likelihood."""
    i = state.ints
    q, k, c = at.N_PARAMETERS, int(i[at.N_INTERVALS]), int(i[at.N_COLUMNS])
    active = i[i[at.ACTIVE] : i[at.ACTIVE] + q * k * c].reshape(q, k, c).astype(bool)
    values = state.values[:q][active]
    present = active.any(axis=(1, 2))
    structure = state.structure[:q][present]
    n_sets = i[i[at.N_GROUPS] + structure[:, 0]]
    kinds = [(structure[:, 1:] == time).ravel() for time in range(1, int(i[at.N_TIMES]))]
    has_any = i[i[at.KINDS] + structure[:, 1:]] != at.BLOCKS  # others keep what they last had
    hyper = np.where(has_any[..., None], np.tanh(state.hyper[:q][present]), 0.0).ravel() if i[at.N_TIMES] > 2 else []
    slopes = np.tanh(state.slopes).ravel() if i[at.N_INDIVIDUAL] else []
    return np.concatenate([values, values**2, n_sets, n_sets == 1, *kinds, hyper, slopes, [state.energy[0]]])


def draw_prior(rng, state):
    """Draw a model and its values from the prior, in place."""
    advance(rng, state, 0.0, 1)


__all__ = ["advance", "draw_prior", "evaluate"]
