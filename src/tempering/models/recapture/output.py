"""What a fit leaves behind: tables on the terminal, and files for spreadsheets and programs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tempering.estimators.rules import DEFAULT_RULE
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.csv_files import write_arrays, write_counts
from tempering.models.recapture.figures import FIGURES
from tempering.models.recapture.plots import NAMES
from tempering.models.recapture.reading import as_counts
from tempering.models.recapture.results import RecaptureResult, arrays_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_YEARS = 15  # of a table by year on the terminal, unless it is asked for
SPACE = 2  # between the columns of a table


def tables_of(result: RecaptureResult, rule: str = DEFAULT_RULE) -> dict[str, pd.DataFrame]:
    """Return every table of a fit by name."""
    has_values = result.parameters[0] in result.draws.values
    tables: dict[str, pd.DataFrame] = {}
    if has_values:
        tables["averages"], tables["means"] = result.averages(rule), result.means(rule)
        tables["differences"] = result.differences(rule)
        if result.counts.entered is not None:
            tables["growth"], tables["abundance"] = result.growth(rule), result.abundance(rule)
        if "coefficients" in result.draws.values or result.individuals is not None:
            tables["coefficients"] = result.coefficients(rule)
    tables["models"], tables["effects"] = result.model_probabilities(rule), result.effects(rule)
    tables["time_dependence"] = result.time_dependence(rule)
    tables |= {f"structures_{name}": result.structure_probabilities(name, rule) for name in result.parameters}
    if has_values and result.can_be_checked:
        tables["predictive_check"] = result.predictive_check(rule=rule, rng=0).table()
    if result.can_be_tested and result.counts.live:
        tables["goodness_of_fit"] = result.goodness_of_fit().table()
    if has_values and result.has_states:
        tables["transitions"] = result.transitions(rule)
    rungs = result.draws.rungs().reset_index()
    rungs["share"], rungs["rule"] = result.draws.shares(rule), rule
    tables["rungs"] = rungs
    return tables


def write(result: RecaptureResult, folder: str | Path, rule: str = DEFAULT_RULE) -> list[Path]:
    """Write the tables as CSV into a folder, which is made if need be, all of them as JSON, and the data as used."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = tables_of(result, rule)
    paths = [folder / f"{name}.csv" for name in tables]
    for path, table in zip(paths, tables.values(), strict=True):
        table.to_csv(path, index=False)
    whole = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
    whole["assumptions"] = result.assumptions()
    whole["notes"] = list(result.data.notes)
    paths.append(folder / "fit.json")
    paths[-1].write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [*paths, *_write_data(result, folder)]


def _write_data(result: RecaptureResult, folder: Path) -> list[Path]:
    """Write the sufficient statistics, and the m- and d-arrays where they are known."""
    if result.has_states:
        return []
    paths = [folder / "data_counts.csv"]
    write_counts(as_counts(result.data, result.counts.n_age_classes, result.counts.stages), paths[0])
    if not isinstance(result.data, Counts):
        paths.append(folder / "data_arrays.csv")
        write_arrays(arrays_of(result.data), paths[1])
    return paths


def show(
    result: RecaptureResult,
    console: "Console",
    rule: str = DEFAULT_RULE,
    *,
    by_year: bool | None = None,
    aic: bool = False,
) -> None:
    """Print a fit: estimates first, then models, then whether it all can be trusted."""
    has_values = result.parameters[0] in result.draws.values
    if has_values:
        _print(
            console,
            "Estimates, averaged over models and over years (95 % interval)",
            means_table(result, rule),
            1 + result.has_groups,
        )
        if by_year or (by_year is None and result.counts.n_intervals <= MOST_YEARS):
            for name in result.parameters:
                label = "by occasion" if name == "p" else "by interval, named after its first year"
                _print(console, f"{NAMES[name].capitalize()} {name} {label}", by_year_table(result, name, rule), 1)
        elif by_year is None:
            console.print("Estimates by year: averages.csv (--out), or --by-year.", highlight=False)
        if result.has_states:
            _print(console, "Movement of survivors between states, averaged over years", result.transitions(rule))
        if result.counts.entered is not None:
            _print(console, "Growth of the population, N[t + 1] / N[t]", result.growth(rule))
            _print(console, "Number of birds at each occasion, and ever", _rounded(result.abundance(rule)))
    if has_values and len(result.coefficients(rule)):
        _print(console, "Coefficients on the logit scale, where they are in the model", result.coefficients(rule))
    _show_models(result, console, rule)
    if aic:
        _print(console, "AICc of the most probable models", result.aic_table(rule, 5))
    for sentence in trust_of(result, rule):
        console.print(sentence, highlight=False, soft_wrap=True, markup=False)


def _show_models(result: RecaptureResult, console: "Console", rule: str) -> None:
    """Print which effects and structures are probable."""
    effects = result.effects(rule)
    if len(effects):
        _print(console, "Probability that an effect is in the model", effects)
    if result.space.count > 1:
        _print(console, "Most probable models", result.model_probabilities(rule, 5))
        for name in result.parameters:
            if result.space.space(name).count > 1:
                _print(console, f"Structures of {name}", result.structure_probabilities(name, rule).head(5))


def trust_of(result: RecaptureResult, rule: str = DEFAULT_RULE) -> list[str]:
    """Return what speaks for and against a fit, in sentences: the check, TEST 2 and 3, mixing, assumptions."""
    said = []
    has_values = result.parameters[0] in result.draws.values
    if has_values and result.can_be_checked:
        said.append(str(result.predictive_check(rule=rule, rng=0)))
    if result.can_be_tested and result.counts.live:
        said.append(str(result.goodness_of_fit()))
    said.append(str(result.mixing(rule)))
    if result.individuals is not None:
        said.append(f"Estimates are those of a bird with average {' and '.join(result.individuals.names)}.")
        said += [f"Note: {note}." for note in result.individuals.notes]
    poor = result.poorly_known(rule) if has_values else None
    if poor is not None and len(poor):
        said.append(f"The data say little about: {', '.join(_spans(poor))}.")
    return [*said, "Assumed: " + " ".join(result.assumptions())]


def _spans(poor: pd.DataFrame) -> list[str]:
    """Return "phi 4+ 1990-1995" for each parameter and column, years joined."""
    keys = [name for name in ("parameter", "group", "age_class") if name in poor]
    out = []
    for key, rows in poor.groupby(keys, sort=False):
        years = sorted(rows["year"])
        runs: list[list[int]] = []
        for year in years:
            if runs and year == runs[-1][-1] + 1:
                runs[-1].append(year)
            else:
                runs.append([year])
        named = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
        out.append(f"{' '.join(map(str, key if isinstance(key, tuple) else (key,)))} ({named})")
    return out


def means_table(result: RecaptureResult, rule: str = DEFAULT_RULE) -> pd.DataFrame:
    """Return a row for each age class (and group), a column for each parameter."""
    table = result.means(rule)
    keys = ["group", "age_class"] if result.has_groups else ["age_class"]
    rows = table[keys].drop_duplicates().reset_index(drop=True)
    for name in result.parameters:
        mine = table[table["parameter"] == name]
        found = dict(zip(mine[keys].itertuples(index=False, name=None), mine.itertuples(), strict=True))
        places = rows[keys].itertuples(index=False, name=None)
        rows[f"{NAMES[name]} {name}"] = [_with_interval(found[key]) if key in found else "" for key in places]
    return rows


def by_year_table(result: RecaptureResult, parameter: str, rule: str = DEFAULT_RULE) -> pd.DataFrame:
    """Return a row for each year, a column for each age class (and group)."""
    table = result.averages(rule)
    table = table[table["parameter"] == parameter]
    shown: dict[str, dict[int, str]] = {}
    for row in table.itertuples():
        group = str(row.group) if result.has_groups else ""
        column = f"{group or 'class'} {row.age_class}"
        shown.setdefault(column, {})[int(str(row.year))] = _with_interval(row)
    years = sorted({int(y) for y in table["year"].to_numpy()})
    return pd.DataFrame({"year": years, **{name: [by.get(y, "") for y in years] for name, by in shown.items()}})


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return numbers of birds without decimals."""
    return table.assign(**{name: [f"{x:.0f}" for x in table[name]] for name in FIGURES})


def figure(x: float) -> str:
    """Return a number with three decimals, and what is not 0 never as 0.

    Examples
    --------
    >>> figure(0.5), figure(0.0), figure(0.0002)
    ('0.500', '0.000', '<0.001')
    """
    return "<0.001" if 0 < x < 0.0005 else f"{x:z.3f}"


def _with_interval(row: Any) -> str:
    return f"{row.mean:.3f} ({row.lower:.2f}-{row.upper:.2f})"


def _print(console: "Console", title: str, frame: pd.DataFrame, keys: int = 0) -> None:
    """Print a table, in blocks if it is too wide: each has the first columns, ``keys`` of them."""
    console.print(title, style="bold", highlight=False, markup=False)
    texts = frame.map(lambda x: figure(x) if isinstance(x, float) else str(x))
    texts.columns = [str(name).replace("_", " ") for name in texts.columns]
    for columns in _blocks(texts, console.width, keys):
        console.print(_table(texts[columns]), "")


def _blocks(texts: pd.DataFrame, width: int, keys: int) -> list[list[str]]:
    """Return the columns of each block that fits the width, cells folded between words if need be."""
    least = {name: _longest_word(texts, name) + SPACE for name in texts.columns}
    blocks, first = [list(texts.columns[:keys])], list(texts.columns[:keys])
    for name in texts.columns[keys:]:
        if keys and blocks[-1] != first and sum(least[c] for c in [*blocks[-1], name]) - SPACE > width:
            blocks.append(first.copy())
        blocks[-1].append(name)
    return blocks


def _longest_word(texts: pd.DataFrame, name: str) -> int:
    return max(map(len, " ".join([name, *texts[name]]).split()))


def _table(texts: pd.DataFrame) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in texts.columns:
        table.add_column(name, overflow="fold", min_width=_longest_word(texts, name))
    for row in texts.itertuples(index=False):
        table.add_row(*row)
    return table
