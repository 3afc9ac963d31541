"""Make reference draws: ``python -m benchmarks.posteriordb normal_5 --data FILE --out FOLDER``."""

import argparse
import json
import sys
import time
import zipfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks.posteriordb
from benchmarks.posteriordb import gibbs
from benchmarks.posteriordb.models import FORMS, Form, Mixture, named, read_data, simulated

N_CHAINS, N_DRAWS = 10, 1000  # what posteriordb asks for
FOLDER = Path(__file__).parents[2] / "build" / "posteriordb"  # not tracked


@cache
def target_of(model: Mixture) -> Any:
    """Return the same target for every seed: what is compiled for the first is there for the others."""
    import tempering as tp

    return tp.Target.from_likelihood(model.log_likelihood, model.log_prior, model.sample_prior)


def by_tempering(model: Mixture, seed: int, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return draws of equal weight from one run, and whether the run calls itself sound."""
    import tempering as tp

    run = tp.sample(target_of(model), rng=seed, progress=False, **options)
    values = next(iter(run.values.values())) if isinstance(run.values, dict) else run.values
    weights = np.ravel(run.weights())
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(weights), size=N_DRAWS, p=weights / weights.sum())
    x = np.reshape(values, (len(weights), -1))[chosen]
    draws = model.relabelled(x, rng) if model.is_sorted else model.constrained(x)
    return draws, bool(run.diagnose().is_good)


def by_gibbs(form: Form, y: Any, seed: int, thin: int) -> dict[str, Any]:
    """Return draws of one chain of the second method."""
    found = gibbs.chain(form, y, N_DRAWS, thin, np.random.default_rng([seed, 2]))
    return named(form, found.means, None if form.sds == "one" else found.sds, found.weights)


def summaries(form: Form, draws: dict[str, Any]) -> dict[str, Any]:
    """Return what does not depend on labels, sorted by the means, and which mean is the least: its masses are 1 / k."""
    means = np.column_stack([draws[f"mu[{i + 1}]"] for i in range(form.n_components)])
    order = np.argsort(means, axis=1)
    out = {f"mean {i + 1}": column for i, column in enumerate(np.take_along_axis(means, order, 1).T)}
    if form.sds != "one":
        sds = np.column_stack([draws[f"sigma[{i + 1}]"] for i in range(form.n_components)])
        out |= {f"deviation {i + 1}": column for i, column in enumerate(np.take_along_axis(sds, order, 1).T)}
    return out | {f"P({i + 1} is least)": 1.0 * (order[:, 0] == i) for i in range(form.n_components)}


def r_hat(chains: Any) -> float:
    """Return the split R-hat of chains of shape (chain, draw)."""
    halves = np.concatenate(np.split(chains[:, : chains.shape[1] // 2 * 2], 2, axis=1))
    within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt((halves.shape[1] - 1) / halves.shape[1] + between / within)) if within > 0 else np.inf


def comparison(form: Form, first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each summary both means with the errors that the chains' spread shows, their z, and both R-hats."""
    one, two = ([summaries(form, draws) for draws in method] for method in (first, second))
    rows = []
    for name in one[0]:
        a, b = (np.array([chain[name] for chain in method]) for method in (one, two))
        means, errors = [c.mean() for c in (a, b)], [c.mean(axis=1).std(ddof=1) / np.sqrt(len(c)) for c in (a, b)]
        rows.append(
            {
                "summary": name, "tempering": float(means[0]), "its error": float(errors[0]), "gibbs": float(means[1]),
                "error of gibbs": float(errors[1]), "z": float((means[0] - means[1]) / np.hypot(*errors)),
                "R-hat of tempering": r_hat(a), "R-hat of gibbs": r_hat(b),
            }
        )  # fmt: skip
    return rows


def info(form: Form, rows: list[dict[str, Any]], sound: list[bool], draws: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what posteriordb wants to know about reference draws, and the comparison."""
    hats = [r_hat(np.array([chain[name] for chain in draws])) for name in form.names]
    return {
        "name": form.name,
        "inference": {
            "method": "tempering",
            "method_arguments": {"runs": len(draws), "draws a run": N_DRAWS, "runs called sound": sum(sound)},
        },
        "diagnostics": {
            "diagnostic_information": {"names": form.names},
            "ndraws": N_DRAWS * len(draws),
            "nchains": len(draws),
            "r_hat": hats,
            "second_method": "Gibbs sampling with random relabelling",
            "comparison": rows,
        },
        "checks_made": {
            "ndraws_is_10k": N_DRAWS * len(draws) == 10_000,
            "nchains_is_gte_4": len(draws) >= 4,
            "r_hat_below_1_01": max(hats) < 1.01,
            "methods_agree_within_4_errors": max(abs(row["z"]) for row in rows) < 4,
        },
        "comments": "Labellings have equal masses; chains are independent runs, resampled to equal weights.",
        "added_date": time.strftime("%Y-%m-%d"),
        "versions": {"tempering": version("tempering"), "numpy": version("numpy"), "jax": version("jax")},
    }


def write(folder: Path, form: Form, draws: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    """Write draws, a list of chains by parameter, zipped, and the facts beside them, as posteriordb does."""
    folder.mkdir(parents=True, exist_ok=True)
    chains = [{name: np.asarray(values).tolist() for name, values in chain.items()} for chain in draws]
    with zipfile.ZipFile(folder / f"{form.name}.json.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{form.name}.json", json.dumps(chains))
    (folder / f"{form.name}.info.json").write_text(json.dumps(facts, indent=2) + "\n")


def store(path: Path, options: argparse.Namespace, facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Add the comparison of one posterior to a file of results; a table for each."""
    report = json.loads(path.read_text()) if path.is_file() else {}
    name = f"{options.posterior}_sorted" if options.sorted else options.posterior
    data = options.data.name if options.data else f"{options.simulate} data made up from the recipe of the form"
    sound = facts["inference"]["method_arguments"]["runs called sound"]
    failed = ", ".join(name for name, is_met in facts["checks_made"].items() if not is_met)
    report["about"] = report.get("about", {}) | {
        name: f"{facts['added_date']}; {data}; {sound} of {options.seeds} runs called sound; "
        f"largest R-hat of a parameter {max(facts['diagnostics']['r_hat']):.4f}; checks failed: {failed or 'none'}",
    }
    path.write_text(json.dumps(report | {name: rows}, indent=1) + "\n")


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.posteriordb", description=benchmarks.posteriordb.__doc__
    )
    parser.add_argument("posterior", choices=list(FORMS))
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", type=Path, help="posteriordb's data file, .json or .json.zip")
    data.add_argument("--simulate", type=int, metavar="N", help="N data made up from the model instead: a rehearsal")
    parser.add_argument("--seeds", type=int, default=N_CHAINS, help="independent runs, ten for posteriordb")
    parser.add_argument("--sorted", action="store_true", help="run on sorted means, and relabel the draws at random")
    parser.add_argument("--thin", type=int, default=20, help="sweeps of the second method between its draws")
    parser.add_argument("--options", type=json.loads, default={}, help="arguments of tp.sample: '{\"draws\": 20000}'")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--json", type=Path, help="a file of results to add the comparison to")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    form = FORMS[options.posterior]
    y = read_data(options.data) if options.data else simulated(form, options.simulate, np.random.default_rng(1))
    model = Mixture(form, y, options.sorted)
    first, second, sound = [], [], []
    for seed in range(1, options.seeds + 1):
        draws, is_sound = by_tempering(model, seed, options.options)
        first.append(draws)
        sound.append(is_sound)
        second.append(by_gibbs(form, y, seed, options.thin))
        print(f"run {seed} of {options.seeds}: {'sound' if is_sound else 'needs attention'}", flush=True)
    rows = comparison(form, first, second)
    for row in rows:
        print(
            f"{row['summary']:14} {row['tempering']:9.4f} ± {row['its error']:.4f}, by Gibbs {row['gibbs']:9.4f} ± "
            f"{row['error of gibbs']:.4f}: z {row['z']:+.1f}, R-hat {row['R-hat of tempering']:.3f}"
        )
    facts = info(form, rows, sound, first)
    write(options.out, form, first, facts)
    if options.json:
        store(options.json, options, facts, rows)
    print(f"Written to {options.out}: {facts['checks_made']}")
    return 0 if all(facts["checks_made"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
