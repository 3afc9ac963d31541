"""What an informed jump between structures would cost, beside the reversible jumps there are.

Mark-recapture: an informed jump evaluates the marginal likelihood of every neighbour of a structure: a split, a merger
or a change in time of one set of ages, of one parameter. There is no closed form; the least that an approximation needs
is the maximum of the likelihood, so that is what is timed, for the models that a fit finds most probable. Reversible
jumps propose one neighbour with its values at a time. The last figure is the number of accepted jumps, at the target's
own temperature, that they make in the time of one informed jump: above 1 the informed jump, though never rejected, is
slower.

Treed Gaussian processes: the neighbours of a tree are all its prunings and growths, every leaf, input and place of a
cut. The new leaf of a growth has ranges and a nugget of its own, again without a closed-form integral. The least is one
evaluation for each neighbour, with the parent's values in both children; that is timed, on trees that a chain visits.
Integrals by way of a maximum, over range and nugget of the new leaf, take that times the evaluations of a simplex
search.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np


def neighbours(structure, contiguous: bool) -> int:
    """Count the structures one split, merger or change in time away."""
    from tempering.models.recapture.structures import sets_of

    sizes = [len(columns) for columns in sets_of(structure.labels)]
    k = len(sizes)
    mergers = k - 1 if contiguous else k * (k - 1) // 2
    splits = sum(size - 1 if contiguous else 2 ** (size - 1) - 1 for size in sizes)
    return mergers + splits + k  # and each set by year or constant


def measured(draws: int, top: int, seed: int) -> dict[str, object]:
    """Fit the synthetic shags twice, the second time with everything compiled; time it, and then the maxima."""
    from tempering.data import SYNTHETIC_HISTORIES, path_of
    from tempering.models.recapture import MarkRecapture, read

    birds = read(path_of(SYNTHETIC_HISTORIES))
    study = MarkRecapture(age_classes=4, phi="contiguous", p="free", lambda_="{1}(t) {2,3,4+}", draws=draws, tune=draws)
    study.fit(birds, rng=seed, progress=False)
    begun = time.process_time()
    result = study.fit(birds, rng=seed + 1, progress=False)
    sampling = time.process_time() - begun
    _, index = result._models
    rung = np.asarray(result.draws.rung)
    is_cold = (rung[:, 1:] == 0) & (rung[:, :-1] == 0)
    changed = index[:, 1:] != index[:, :-1]
    jumps = float(changed[is_cold].mean() * rung.size)  # as if all draws were cold
    begun = time.process_time()
    table = result.aic_table(top=top)
    per_fit = (time.process_time() - begun) / len(table)
    best = result.model_probabilities(top=top)
    from tempering.models.recapture.structures import Structure

    around = [
        neighbours(Structure.parse(row["phi"], 4), True) + neighbours(Structure.parse(row["p"], 4), False)
        for _, row in best.iterrows()
    ]
    jump = per_fit * float(np.mean(around))
    rate = jumps / sampling  # tuning is in the time: the rate is too small, if anything
    return {
        "model": "synthetic shags, 54 x 94 structures",
        "neighbours": float(np.mean(around)),
        "milliseconds_of_a_maximum": 1e3 * per_fit,
        "seconds_of_an_informed_jump": jump,
        "accepted_jumps_per_second_by_reversible_jump": rate,
        "accepted_jumps_in_that_time": rate * jump,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.informed_price", description=__doc__)
    parser.add_argument("--draws", type=int, default=320)
    parser.add_argument("--top", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from benchmarks.informed_trees import prices

    tables = {"price": [measured(options.draws, options.top, options.seed)], "trees": prices(options.seed)}
    print(json.dumps(tables, indent=1))
    if options.json:
        about = {
            "machine": "two shared cores of an AMD EPYC",
            "time": "of the processor",
            "date": time.strftime("%Y-%m-%d"),
        }
        options.json.write_text(json.dumps({"about": about, **tables}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
