import io
import json
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from recapture_cases import simulate, simulate_histories
from rich.console import Console
from typer.testing import CliRunner

from statistical import seeded_rng
from tempering.data import DIPPER_ARRAY, SYNTHETIC_HISTORIES, path_of
from tempering.errors import InputError
from tempering.estimators import weighted_quantile
from tempering.models.recapture import Histories, MarkRecapture, figures, output, plots, read
from tempering.models.recapture.cli import app
from tempering.models.recapture.estimator import anneal
from tempering.models.recapture.mixing import Doubt, Mixing
from tempering.models.recapture.model import recapture_model
from tempering.models.recapture.page import write_page
from tempering.models.recapture.predictive import check_arrays, next_encounter_probabilities
from tempering.models.recapture.spaces import ModelSpace

matplotlib.use("Agg")

# four years and two classes of the synthetic set: small enough to fit in seconds
FEW_YEARS = dict(age_classes=2, phi="contiguous", p="contiguous", lambda_="{1,2+}")


def few_histories():
    whole = read(path_of(SYNTHETIC_HISTORIES), "histories")
    early = (whole.codes[:, :4] != 0).any(axis=1)
    return Histories(whole.codes[early, :4], whole.years[:4])


@pytest.fixture(scope="module")
def result():
    study = MarkRecapture(**FEW_YEARS, draws=640, tune=160)
    return study.fit(few_histories(), rng=3, progress=False)


def test_probabilities_sum_to_one_under_every_rule(result):
    for rule in ("cold_only", "ess_optimal", "screened", "mbar", "pooled"):
        assert result.model_probabilities(rule)["probability"].sum() == pytest.approx(1.0)
        for name in result.parameters:
            assert result.structure_probabilities(name, rule)["probability"].sum() == pytest.approx(1.0)


def test_a_model_is_named_by_its_structures(result):
    table = result.model_probabilities(top=3)
    assert list(table.columns) == ["phi", "p", "lambda", "probability", "standard_error"]
    assert (table["lambda"] == "{1,2+}").all()
    assert table["probability"].is_monotonic_decreasing


def test_averages_are_means_over_the_weighted_draws(result):
    table = result.averages("ess_optimal").set_index(["parameter", "age_class", "year"])
    assert len(table) == 3 * 5
    weights = result.draws.weights("ess_optimal")
    by_hand = (weights * result.draws.values["phi"][..., 1, 0]).sum()
    row = table.loc["phi", "1", 1983]
    years = result.averages().query("age_class == '1'").groupby("parameter")["year"].apply(list)
    assert years["p"] == [1983, 1984, 1985]  # by occasion, as in MARK
    assert years["phi"] == [1982, 1983, 1984]
    assert row["mean"] == pytest.approx(by_hand, rel=1e-6)
    assert row["lower"] < row["mean"] < row["upper"]
    assert ((table["overlap"] > 0) & (table["overlap"] <= 1)).all()


def test_time_dependence_adds_up_the_structures(result):
    by_class = result.time_dependence("mbar").set_index(["parameter", "age_class"])["probability"]
    structures = result.structure_probabilities("phi", "mbar")
    first_is_timed = structures["phi"].str.match(r"\{1[^}]*\}\(t\)")
    assert by_class["phi", "1"] == pytest.approx(structures["probability"][first_is_timed].sum())


def test_errors_worked_out_together_are_those_of_each_alone(result, monkeypatch):
    flags = [flag for name, _, flag in result.time_flags() if name == "p"]
    apart = np.array([result.draws.combination(flag.astype(float), "screened").standard_error for flag in flags])
    own = result.averaging.errors(flags, "screened")
    assert (own >= apart).all()
    fewest = min(doubt.effective for doubt in result.mixing("screened").indicators.values())
    table = result.time_dependence("screened").query("parameter == 'p'")
    np.testing.assert_allclose(table["standard_error"], np.hypot(own, 1 / fewest), rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(figures, "VALUES_AT_ONCE", 1)
    np.testing.assert_allclose(result.averaging.errors(flags, "screened"), own, rtol=1e-9, atol=1e-12)


def test_errors_of_values_are_those_of_the_combination_but_for_the_weights_own(result):
    table = result.averages()
    values = np.stack([result.draws.values["phi"][..., t, 0] for t in range(3)], axis=-1).astype(float)
    whole = result.draws.combination(values, "mbar").standard_error
    mine = table.query("parameter == 'phi' and age_class == '1'")["standard_error"]
    np.testing.assert_allclose(mine, whole, rtol=0.3)


def test_every_answer_has_one_default_rule(result):
    for answer in (result.averages, result.means, result.model_probabilities, result.time_dependence, result.effects):
        assert answer().equals(answer("mbar"))
    assert not result.averages("cold_only").equals(result.averages())


def test_means_over_years_and_their_differences(result):
    means = result.means().set_index(["parameter", "age_class"])
    weights, phi = result.draws.weights("mbar"), result.draws.values["phi"].astype(float)
    by_hand = (weights * phi[..., :, 0].mean(axis=-1)).sum()
    assert means.loc[("phi", "1"), "mean"] == pytest.approx(by_hand, rel=1e-6)
    gap = result.differences().set_index(["parameter", "first", "second"]).loc["phi", "1", "2+"]
    assert gap["mean"] == pytest.approx(by_hand - means.loc[("phi", "2+"), "mean"], abs=1e-6)
    assert 0 <= gap["above"] <= 1


def test_a_run_that_went_everywhere_is_said_to(result):
    mixing = result.mixing()
    assert mixing.n_round_trips == result.draws.n_round_trips > 20
    assert not mixing.unvisited
    n = len(result.draws.ladder)
    assert result.draws.ladder.hottest == 0.0
    assert f"{n} of {n} temperatures visited" in str(mixing)


def test_a_run_that_stayed_where_it_was_is_warned_of(result):
    draws = result.draws
    still = np.broadcast_to(np.arange(draws.n_chains)[:, None] % 2, draws.rung.shape).astype(np.int32)
    frozen = np.broadcast_to(draws.values["model"][:, -1:], draws.values["model"].shape)
    stuck = replace(draws, rung=still, proposed=still, values={**draws.values, "model": frozen}, _kept={})
    mixing = replace(result, draws=stuck, _kept={}).mixing("cold_only")
    assert mixing.n_round_trips == 0
    assert 2 in mixing.unvisited
    assert any("were never visited" in sentence for sentence in mixing.warnings)
    assert any("only 0 round trips" in sentence for sentence in mixing.warnings)
    assert str(mixing).count("Warning: ") == len(mixing.warnings)


def test_one_trapped_walker_is_seen_whatever_it_stands_for(result):
    """One chain of all sits in a model for the whole run: 0.05, give or take as much, went without a warning."""
    draws = result.draws
    codes = draws.values["model"].copy()
    structure = result.space.structure(codes[0, 0, 0])
    timed, plain = (replace(structure, times=(time,) * 2) for time in ("t", ""))
    codes[..., 0] = result.space.code(replace(plain, labels=(0, 0)))
    ensemble = slice(0, draws.chains_per_ensemble)
    codes[ensemble, : draws.n_draws // 5, 0] = result.space.code(replace(timed, labels=(0, 0)))
    stuck = replace(result, draws=replace(draws, values={**draws.values, "model": codes}, _kept={}), _kept={})
    found = stuck.mixing().indicators["time dependence of phi 1"]
    assert 0.01 < found.probability < 0.15
    assert any("phi 1" in sentence for sentence in stuck.mixing().warnings)


def test_rare_indicators_are_no_reason_to_warn():
    rare = Doubt(0.0004, 0.0004, 2500.0, 1.3)
    assert rare.is_rough
    quiet = Mixing(10, 240, (), {"time dependence of p 3": rare})
    assert quiet.warnings == ()
    assert quiet.rare == ("time dependence of p 3",)
    assert Mixing(10, 240, (), {"x": Doubt(0.048, 0.053, 16.0, 1.2)}).warnings


def test_what_is_written_can_be_read_again(result, tmp_path):
    names = {path.name for path in result.write(tmp_path / "new")}
    assert {"models.csv", "averages.csv", "predictive_check.csv", "data_counts.csv", "data_arrays.csv"} <= names
    rungs = pd.read_csv(tmp_path / "new" / "rungs.csv")
    assert set(rungs["rule"]) == {"mbar"}
    np.testing.assert_allclose(rungs["share"], result.draws.shares("mbar"))
    whole = json.loads((tmp_path / "new" / "fit.json").read_text())
    assert whole["averages"][0]["parameter"] == "phi"
    assert any("F = 1" in sentence for sentence in whole["assumptions"])
    counts = read(tmp_path / "new" / "data_counts.csv", "counts")
    arrays = read(tmp_path / "new" / "data_arrays.csv", "arrays")
    for name in ("seen", "missed", "recovered", "vanished"):
        np.testing.assert_array_equal(getattr(counts, name), getattr(result.counts, name))
        np.testing.assert_array_equal(getattr(arrays.to_counts(2), name), getattr(result.counts, name))


def test_parts_that_were_not_collected_are_not_checked():
    rng = seeded_rng("live only")
    live = Histories([[1, 1, 0], [1, 0, 0]], years=range(3), number=[5, 4], dead=False).to_arrays()
    assert list(check_arrays(rng, live, np.full((3, 4, 2, 1), 0.5)).observed) == ["recaptured", "all"]


def test_a_value_the_data_cannot_know_overlaps_its_prior():
    """Survival of class 2 with a single bird seen in it: the posterior is nearly the prior."""
    study = MarkRecapture(2, phi="{1}{2+}", p="{1,2+}", lambda_="{1,2+}", draws=640, tune=96)
    lonely = Histories([[1, 2, 0]] * 20 + [[1, 1, 0]] * 1, years=range(3), number=[3] * 20 + [1])
    result = study.fit(lonely, rng=5, progress=False)
    overlap = result.averages().set_index(["parameter", "age_class"])["overlap"]
    assert overlap["phi", "2+"] > 0.75
    assert overlap["phi", "1"] < 0.5
    assert "2+" in set(result.poorly_known()["age_class"])


def test_the_law_of_the_next_encounter_sums_to_one():
    values = seeded_rng("law").random((5, 4, 4, 2))
    law = next_encounter_probabilities(values, 1, [0, 1, 1])
    np.testing.assert_allclose(law.sum(axis=1), 1.0)
    phi, p, lam, stays = values[0, :, 1, 0]
    assert law[0, 1] == pytest.approx(phi * stays * p)
    assert law[0, 5] == pytest.approx((1 - phi) * lam)
    assert (law[:, [0, 4]] == 0).all()


def test_the_predictive_check_passes_the_truth_and_fails_a_lie():
    rng = seeded_rng("predictive")
    arrays = few_histories().to_arrays()
    truth = rng.uniform(0.3, 0.6, (4, 3, 2))
    law = [
        next_encounter_probabilities(truth[None], t, np.minimum(a + np.arange(3), 1))[0]
        for t, a in zip(arrays.interval, arrays.classes(2), strict=True)
    ]
    drawn = np.array([rng.multinomial(n, x) for n, x in zip(arrays.released, law, strict=True)])
    simulated = type(arrays)(arrays.interval, arrays.age, drawn[:, :3], drawn[:, 3:6], drawn[:, 6], arrays.years)
    good = check_arrays(rng, simulated, np.repeat(truth[None], 300, axis=0))
    assert 0.001 < good.p_value() < 0.999
    assert "look like the data" in str(good)
    lie = check_arrays(rng, simulated, np.repeat(truth[None] * 0.7, 300, axis=0))
    assert lie.p_value() == 0.0
    assert "THE MODELS DO NOT FIT" in str(lie)


def test_the_check_needs_arrays(result):
    with pytest.raises(InputError, match="cannot be obtained"):
        replace(result, data=result.counts).predictive_check()


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        plots.plot_models,
        lambda r: plots.plot_structures(r, "p"),
        lambda r: plots.plot_averages(r, "lambda"),
        plots.plot_means,
        plots.plot_overlap,
        lambda r: plots.plot_predictive(r.predictive_check(rng=1)),
    ],
)
def test_every_picture_is_drawn(result, draw):
    import matplotlib.pyplot as plt

    ax = draw(result)
    assert ax.has_data()
    plt.close(ax.figure)


@pytest.mark.slow
def test_simulated_tempering_learns_its_pseudo_prior_from_coupled_chains():
    study = MarkRecapture(
        **FEW_YEARS, ladder=[1, 0.7, 0.4], method="simulated", draws=320, tune=320, chains=8, keep_values=False
    )
    result = study.fit(few_histories(), rng=2, progress=False)
    log_p = result.draws.log_pseudo_prior
    assert log_p[0] == 0
    assert (np.diff(log_p) < -10).all()  # log Z rises steeply towards k = 0, where log L < 0
    assert result.draws.visits.min() > 0.1 * result.draws.rung.size
    assert result.draws.n_draws == 320
    with pytest.raises(InputError, match="keep_values"):
        result.averages()


def test_equal_seeds_give_equal_fits():
    study = MarkRecapture(1, phi="~ time", p="~ 1", lambda_="~ 1", draws=64, tune=32, chains=2)
    one, two, other = (study.fit(few_histories(), rng=seed, progress=False).draws.energy for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_assumptions_are_those_of_the_study(result):
    said = " ".join(result.assumptions())
    assert "fidelity F = 1" in said
    assert "No ring is lost" in said
    live = MarkRecapture(1, draws=32, tune=32).fit(read(path_of(DIPPER_ARRAY)), rng=1, progress=False)
    assert "apparent survival" in live.assumptions()[0]
    with pytest.raises(InputError, match="no recoveries"):
        MarkRecapture(1, fidelity="~ 1").fit(read(path_of(DIPPER_ARRAY)))


def test_one_page_says_it_all(result, tmp_path):
    page = write_page(result, tmp_path / "page.html", title="<shags>").read_text()
    assert page.index("Estimates") < page.index("Models") < page.index("Can it be trusted?")
    assert "&lt;shags&gt;" in page
    assert page.count("<img ") >= 6
    assert "http" not in page


def test_classes_that_no_bird_reaches_are_refused():
    with pytest.raises(InputError, match="class 4 of 5 has none"):
        MarkRecapture(age_classes=5).fit(few_histories())


def test_the_command_says_what_it_reads_then_estimates_then_the_rest(tmp_path):
    file = tmp_path / "birds.inp"
    file.write_text("1100 8; 1010 3; 1001 2; 1000 9; 0110 7; 0101 2; 0100 8; 0011 6; 0010 9;\n0001 4;\n")
    options = ["--age-classes", "1", "--phi", "~ 1", "--draws", "64", "--seed", "1", "--sampler", "tune=32,chains=2"]
    outcome = CliRunner().invoke(app, ["fit", str(file), *options, "--out", str(tmp_path / "out")])
    assert outcome.exit_code == 0, outcome.output
    order = [
        "Birds: 58, all marked as chicks",
        "Note: 4 birds were marked at the last occasion",
        "3 intervals, 1 age class, 2 models of phi, p.",
        "Estimates, averaged over models",
        "Survival phi by interval",
        "Recapture p by occasion",
        "Most probable models",
        "Predictive check",
        "c-hat",
        "Mixing",
        "Assumed: Survival is apparent survival",
    ]
    places = [outcome.output.index(text) for text in order]
    assert places == sorted(places)
    assert {"models.csv", "averages.csv", "averages_phi.png", "predictive.png", "report.html", "fit.json"} <= {
        p.name for p in (tmp_path / "out").iterdir()
    }


def test_a_file_is_described_without_a_fit(tmp_path):
    file = tmp_path / "birds.inp"
    file.write_text("1100 8; 1010 3; 1000 9; 0110 7; 0100 8; 0011 6; 0010 9;\n")
    outcome = CliRunner().invoke(app, ["describe", str(file)])
    assert outcome.exit_code == 0
    assert "Birds: 50" in outcome.output
    assert "TEST 2 + 3" in outcome.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "excel"], "format must be one of"),
        (["--sampler", "rule=best"], "rule must be one of"),
        (["--sampler", "speed=9"], "does not understand 'speed=9'"),
        (["--missing", "mass"], "must read like mass=mean"),
        (["--phi", "{1}"], "lacks"),
        (["--ages", "x"], "--ages must have whole numbers"),
        (["--year-group", "flood"], "must read like flood=1982,1983"),
        (["--yearly-covariate", "ice=0.3,x"], "--yearly-covariate must have numbers separated by commas"),
        (["--yearly-covariate", "ice=0.3,0.4", "--phi", "~ ice"], "ice"),
        (["--by", "sex"], "must be one of the columns"),
        (["--sampler", "method=magic"], "method must be"),
    ],
)
def test_bad_options_are_input_errors(options, message):
    outcome = CliRunner().invoke(app, ["fit", str(path_of(SYNTHETIC_HISTORIES)), *options])
    assert isinstance(outcome.exception, InputError)
    assert message in str(outcome.exception)


def test_the_dipper_has_the_aic_of_mark():
    """RMark prints AICc 666.160 for floods, 670.866 for constants, 673.998 for phi(t) p(.)."""
    study = MarkRecapture(1, "~ time + flood", "~ 1", year_groups={"flood": [1982, 1983]}, draws=200, tune=100)
    result = study.fit(read(path_of(DIPPER_ARRAY)), rng=1, progress=False)
    table = result.aic_table().set_index("phi")
    assert table.index[0] == "{1+}(flood)"
    published = {"{1+}(flood)": (3, 666.160), "{1+}": (2, 670.866), "{1+}(t)": (7, 673.998)}
    for structure, (n, aicc) in published.items():
        assert table.loc[structure, "n_parameters"] == n
        assert table.loc[structure, "AICc"] == pytest.approx(aicc, abs=2e-3)
    assert table["delta"].iloc[0] == 0


def test_chains_begin_where_a_cooled_population_ends():
    """Not in a model drawn from the prior, which is where one in eighty stayed for a whole run."""
    counts = few_histories().to_counts(2)
    model = recapture_model(counts, ModelSpace(2))
    cooled = anneal(model, seeded_rng("annealing"))
    energy = cooled.energies.energy.reshape(-1, len(cooled.states))
    assert cooled.energies.k[0] == 0.0
    assert cooled.energies.k[-1] == 1.0
    assert energy[0].max() < energy[-1].mean()  # the prior is far away
    assert energy[-1].min() > energy[-1].max() - 40  # and all have left it
    ladder = cooled.ladder("parallel")
    assert (ladder[0], ladder.hottest) == (1.0, 0.0)
    starts = replace(model, starts=cooled.states)
    one, two = (starts.initial(np.random.default_rng(seed)) for seed in (1, 1))
    assert one.energy[0] == two.energy[0]
    assert one.values is not two.values  # each has arrays of its own


def leaving_birds(name):
    """Birds of which three in ten leave for good each year, and may be found dead wherever they are."""
    truth = np.broadcast_to(np.array([0.75, 0.5, 0.3, 0.7])[:, None, None], (4, 6, 1))
    return simulate(seeded_rng(name), truth, 150, 1)


def test_birds_that_leave_pull_survival_down_and_the_check_says_so():
    """On MARK's own live and dead example F = 1 gave 0.743 for 0.795, and nobody was told."""
    still = MarkRecapture(1, "~ 1", "~ 1", "~ 1", draws=400, tune=150)
    result = still.fit(leaving_birds("leaving"), rng=1, progress=False)
    assert result.means().set_index("parameter").loc["phi", "upper"] < 0.74
    assert "THE MODELS DO NOT FIT" in str(result.predictive_check(rng=1))
    assert "(fidelity F = 1)" in result.assumptions()[0]
    moving = replace(still, fidelity="~ 1").fit(leaving_birds("leaving"), rng=1, progress=False)
    means = moving.means().set_index("parameter")
    for name, truth in {"phi": 0.75, "p": 0.5, "lambda": 0.3, "F": 0.7}.items():
        assert abs(means.loc[name, "mean"] - truth) < 5 * means.loc[name, "sd"]
    assert "look like the data" in str(moving.predictive_check(rng=1))


def test_a_quick_quantile_is_the_quantile():
    rng = seeded_rng("quantile")
    x = np.concatenate([rng.beta(2, 5, 5000), np.repeat(0.3, 200), [0.0, 1.0]])
    share = rng.dirichlet(np.full(x.size, 0.3))
    for p in (0.0, 0.025, 0.5, 0.975, 1.0):
        exact = float(weighted_quantile(x, share, p))
        (found,) = figures.quantiles_of(x, share, p)
        assert found == pytest.approx(exact, abs=1e-3)
        assert abs(share[x <= found].sum() - max(p, share[x <= exact].sum())) < 1e-9


def birds_with(name, *, stages=(), values, slopes=None, x=(0.0,), n=60):
    """Histories of seven occasions from constant values of each stage."""
    table = np.broadcast_to(np.array(values)[:, None, :], (4, 6, max(1, len(stages))))
    return simulate_histories(seeded_rng(name), table, n, 1, stages, slopes, x)


def test_trap_dependence_and_transients_are_found_and_measured():
    stages = ("new", "seen", "missed")
    truth = [[0.45, 0.75, 0.75], [0.8, 0.8, 0.4], [0.2, 0.2, 0.2], [0.5, 0.5, 0.5]]
    data = birds_with("captures", stages=stages, values=truth, n=200)
    study = MarkRecapture(1, "~ transient + trap", "~ trap + transient", "~ 1", draws=300, tune=100)
    result = study.fit(data, rng=1, progress=False)
    effects = result.effects().set_index(["parameter", "effect"])["probability"]
    assert effects["phi", "transient"] > 0.99
    assert effects["p", "trap"] > 0.99
    assert effects["phi", "trap"] < 0.5
    assert effects["p", "transient"] < 0.5
    means = result.means().set_index(["parameter", "group"])
    for stage, phi, p in zip(stages, truth[0], truth[1], strict=True):
        for name, value in (("phi", phi), ("p", p)):
            row = means.loc[(name, stage)]
            assert abs(row["mean"] - value) < 5 * row["sd"]
    assert "trap-happy" not in " ".join(result.assumptions())
    assert "look like the data" in str(result.predictive_check(rng=1))


def test_an_individual_covariate_is_found_where_it_matters():
    x = np.linspace(-1.5, 1.5, 7)
    truth = [[0.6], [0.5], [0.2], [0.5]]
    data = birds_with("masses", values=truth, slopes=np.array([0.8, 0.0, 0.0, 0.0]), x=x, n=70)
    study = MarkRecapture(1, "~ mass", "~ mass", "~ 1", draws=200, tune=100, chains=2)
    result = study.fit(data, rng=1, progress=False)
    effects = result.effects().set_index(["parameter", "effect"])["probability"]
    assert effects["phi", "mass"] > 0.99
    assert effects["p", "mass"] < 0.5
    slope = result.coefficients().set_index(["parameter", "term"]).loc[("phi", "mass")]
    assert abs(slope["mean"] - 0.8 * x.std()) < 5 * slope["sd"]
    lacking = replace(data, columns={"mass": np.array([*data.columns["mass"][:-1], np.nan])})
    with pytest.raises(InputError, match="1 birds have no 'mass'"):
        study.fit(lacking)
    assert study.space(individual=("mass",)).count == 4


@pytest.mark.parametrize("seed", [1, 3])
def test_an_additive_effect_is_told_from_none_and_from_an_interaction(seed):
    """Sexes whose survival goes up and down together, one always above the other.

    Where only values by year began at k = 0 with fitted laws, chains began in an interaction and stayed there.
    """
    years = np.array([-1.0, 0.9, 0.1, 1.2, -0.8, 0.4])
    logits = np.stack([years, years + 1.0], axis=1)
    values = np.stack([1 / (1 + np.exp(-logits)), *(np.full((6, 2), v) for v in (0.6, 0.2, 1.0))])
    arrays = replace(simulate(seeded_rng("additive"), values, 150, 1), groups=("female", "male"))
    study = MarkRecapture(1, "~ time + group", "~ 1", "~ 1", groups="group", draws=300, tune=100)
    result = study.fit(arrays, rng=seed, progress=False)
    best = result.structure_probabilities("phi").iloc[0]
    assert best["phi"] == "{1+}(t+group)"
    assert best["probability"] > 0.9
    effects = result.effects().set_index(["parameter", "effect"])["probability"]
    assert effects["phi", "group"] > 0.99
    assert effects["phi", "time"] > 0.99
    distance = result.coefficients().query("group == 'male'").iloc[0]
    assert abs(distance["mean"] - 1.0) < 5 * distance["sd"]
    table = result.aic_table().set_index("phi")
    assert table.loc["{1+}(t+group)", "n_parameters"] == 9  # six years and a distance, p and lambda
    assert table.index[0] == "{1+}(t+group)"


def test_random_years_and_trends_have_their_coefficients():
    rng = seeded_rng("trend")
    ice = rng.normal(size=7)
    logit = 0.5 + 0.8 * (ice - ice.mean()) / ice.std()
    truth = np.stack([1 / (1 + np.exp(-logit)), *np.full((3, 7), [[0.6], [0.2], [1.0]])])[:, :, None]
    study = MarkRecapture(1, "~ ice + random", "~ 1", "~ 1", yearly_covariates={"ice": ice}, draws=400, tune=150)
    result = study.fit(simulate(rng, truth, 200, 1), rng=1, progress=False)
    table = result.coefficients().set_index("term")
    assert table["probability"].sum() > 0.99
    assert abs(table.loc["ice", "mean"] - 0.8) < 5 * table.loc["ice", "sd"]
    assert table.loc["random", "mean"] > 0.3


def printed(frame, keys):
    console = Console(width=80, file=io.StringIO())
    output._print(console, "Survival", frame, keys)
    return console.file.getvalue()


def test_a_table_too_wide_for_the_terminal_is_printed_in_blocks():
    columns = {f"{sex} {age}": ["0.823 (0.77-0.87)"] * 2 for sex in ("female", "male") for age in range(1, 5)}
    frame = pd.DataFrame({"year": [2001, 2002], **columns})
    text = printed(frame, 1)
    assert all(name in text for name in columns)
    assert text.count("0.77-0.87") == 16
    assert max(map(len, text.splitlines())) <= 80
    assert printed(frame, 0).count("0.77-0.87") < 16  # the control: Rich cuts off what is too wide
