import gzip
import re

import numpy as np
import pytest

from tempering.data import DIPPER_ARRAY, SYNTHETIC_ARRAYS, SYNTHETIC_COUNTS, SYNTHETIC_HISTORIES, path_of
from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.csv_files import (
    read_arrays,
    read_counts,
    read_histories,
    write_arrays,
    write_counts,
)
from tempering.models.recapture.histories import ADULT, Histories
from tempering.models.recapture.mark_files import read_mark, read_recovery_matrix
from tempering.models.recapture.reading import as_counts, describe, grouped, read

MATRICES = ("seen", "missed", "recovered", "vanished")


def assert_same_counts(a, b):
    for name in (*MATRICES, "years"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_the_three_files_of_the_synthetic_set_say_the_same():
    counts = read(path_of(SYNTHETIC_COUNTS), "counts")
    assert_same_counts(read(path_of(SYNTHETIC_HISTORIES), "histories").to_counts(4), counts)
    assert_same_counts(read(path_of(SYNTHETIC_ARRAYS), "arrays").to_counts(4), counts)
    assert [int(getattr(counts, name).sum()) for name in MATRICES] == [1770, 2122, 506, 3630]
    assert counts.active.sum() == 30


def test_arrays_of_histories_are_the_published_arrays():
    made = read(path_of(SYNTHETIC_HISTORIES), "histories").to_arrays()
    given = read(path_of(SYNTHETIC_ARRAYS), "arrays")
    for name in ("interval", "age", "recaptured", "recovered", "never"):
        np.testing.assert_array_equal(getattr(made, name), getattr(given, name), err_msg=name)


@pytest.mark.parametrize("name", [DIPPER_ARRAY, SYNTHETIC_ARRAYS])
def test_arrays_and_counts_survive_a_round_trip(tmp_path, name):
    arrays = read_arrays(path_of(name))
    write_arrays(arrays, tmp_path / "a.csv")
    assert_same_counts(read_arrays(tmp_path / "a.csv").to_counts(3), arrays.to_counts(3))
    write_counts(arrays.to_counts(3), tmp_path / "c.csv")
    again = read_counts(tmp_path / "c.csv")
    assert_same_counts(again, arrays.to_counts(3))
    assert again.parameters == arrays.to_counts(3).parameters


def test_the_dipper_array_has_no_recoveries():
    counts = read_arrays(path_of(DIPPER_ARRAY)).to_counts(1)
    assert counts.parameters == ("phi", "p")


def test_a_bird_is_counted_as_section_2_says():
    # marked at 0, missed at 1, seen at 2, missed at 3, dead in the interval that ends at 4
    counts = Histories([[1, 0, 1, 0, 2]], years=range(5)).to_counts(2)
    np.testing.assert_array_equal(counts.seen, [[0, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(counts.missed, [[1, 0, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_array_equal(counts.recovered, [[0, 0, 0, 0], [0, 0, 0, 1]])
    assert counts.vanished.sum() == 0


def test_a_bird_not_released_after_its_last_capture_does_not_vanish():
    kept = Histories([[1, 1, 0]], years=range(3), number=[-3]).to_counts(1)
    assert kept.seen.sum() == 3
    assert kept.vanished.sum() == 0


def test_an_adult_is_in_the_last_class_from_its_marking():
    counts = Histories([[1, 0, 0]], years=range(3), age=[ADULT]).to_counts(4)
    assert counts.vanished[3, 0] == 1
    np.testing.assert_array_equal(counts.active, [[0, 0], [0, 0], [0, 0], [1, 1]])


def test_marks_at_the_last_occasion_are_flagged():
    histories = Histories([[1, 0], [0, 1]], years=range(2))
    assert "1 birds were marked at the last occasion" in histories.notes[0]


def test_live_files_of_mark_with_comments_groups_and_negative_frequencies(tmp_path):
    file = tmp_path / "live.inp"
    file.write_text("/* a comment\n over lines */\n1101 3 0;\n/*7*/ 0110,1,-2;\n\n1000\t4 1 ;\n")
    histories = read_mark(file, groups=2, ages=(0, ADULT), first_year=1990)
    np.testing.assert_array_equal(histories.number, [3, 1, -2, 4, 1])
    np.testing.assert_array_equal(histories.group, [1, 1, 2, 1, 2])
    np.testing.assert_array_equal(histories.age, [0, 0, ADULT, 0, ADULT])
    assert not histories.dead
    assert histories.select(2).n_birds == 3


def test_covariates_are_told_apart_when_groups_are_given(tmp_path):
    file = tmp_path / "cov.inp"
    file.write_text("101 1 2.5;\n110 2 3.5;\n")
    assert list(read_mark(file, groups=1).columns["covariate1"]) == ["2.5", "3.5"]
    with pytest.raises(InputError, match=r"cov.inp: 2 columns .*groups=2 or groups=1"):
        read_mark(file)


def test_whole_numbers_behind_a_frequency_are_not_taken_for_more_birds(tmp_path):
    """Three birds with a mass were read as 37."""
    file = tmp_path / "mass.inp"
    file.write_text("101 1 11;\n110 1 12;\n100 1 11;\n")
    with pytest.raises(InputError, match="could be frequencies of 2 groups, or a frequency and 1 covariate:"):
        read(file)
    assert read(file, groups=1).n_birds == 3
    assert "Other columns, not used unless named: covariate1 (11, 12)." in describe(read(file, groups=1))


def test_columns_are_groups_where_a_history_without_birds_would_be_the_other_reading(tmp_path):
    file = tmp_path / "sexes.inp"
    file.write_text("101 1 0;\n110 0 1;\n100 1 0;\n")
    assert read(file).sizes == {"1": 2, "2": 1}
    file.write_text("101 12 3;\n110 0 5;\n100 -2 0;\n")
    assert read(file).sizes == {"1": 14, "2": 8}
    file.write_text("101 1 0;\n110 1 0;\n")  # the second could be a covariate that is always 0
    with pytest.raises(InputError, match="say how many groups"):
        read(file)


def test_pairs_of_live_and_dead_are_not_read_as_live_alone(tmp_path):
    file = tmp_path / "ld.inp"
    file.write_text("110000 1;\n100010 1;\n100001 1;\n001100 2;\n")
    with pytest.raises(InputError, match="format mark-live or mark-ldld"):
        read(file)
    with pytest.raises(InputError, match="format mark-live or mark-ldld"):
        read(file, "mark")
    assert read(file, "mark-ldld").tail
    assert read(file, "mark-live").codes.shape == (4, 6)


def test_groups_that_are_pooled_are_said_to_be(tmp_path):
    file = tmp_path / "two.inp"
    file.write_text("101 3 2;\n110 5 1;\n")
    data, _ = grouped(read(file, groups=2), None)
    assert data.notes == ("2 groups (1, 2) are pooled; groups='group' (--by group) tells them apart",)
    assert data.groups == ("1",)
    kept, _ = grouped(read(file, groups=("hen", "cock")), "group")
    assert kept.to_counts(1).groups == ("hen", "cock")


def test_a_byte_order_mark_gzip_and_other_separators_are_read(tmp_path):
    text = "id{0}sex{0}1990{0}1991{0}1992\n7{0}f{0}1{0}0{0}1\n8{0}m{0}1{0}2{0}0\n"
    plain = None
    for name, separator in (("c.csv", ","), ("s.csv", ";"), ("t.tsv", "\t")):
        file = tmp_path / name
        file.write_bytes(b"\xef\xbb\xbf" + text.format(separator).encode())
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(file.read_bytes()))
        excel = tmp_path / f"excel {name}"
        excel.write_text(f"sep={separator}\n" + text.format(separator))
        for path in (file, packed, excel):
            histories = read(path)
            plain = plain or histories
            np.testing.assert_array_equal(histories.codes, plain.codes)
            assert list(histories.columns["sex"]) == ["f", "m"]
    file = tmp_path / "bom.inp"
    file.write_bytes(b"\xef\xbb\xbf101 1;\n110 2;\n011 1;\n")
    assert read(file).n_birds == 4


def test_years_that_are_missing_make_longer_intervals(tmp_path):
    file = tmp_path / "h.csv"
    file.write_text("id,y1990,y1992,y1993\n7,1,0,1\n8,1,1,0\n")
    histories = read(file)
    np.testing.assert_array_equal(histories.to_counts(1).lengths, [2, 1])
    assert "unequal length (2, 1)" in describe(histories)


def test_lengths_of_intervals_of_a_mark_file_can_be_given(tmp_path):
    file = tmp_path / "live.inp"
    file.write_text("1010 1;\n1100 2;\n0110 1;\n")
    np.testing.assert_array_equal(read(file, lengths=[1, 0.5, 2]).to_counts(1).lengths, [1, 0.5, 2])
    with pytest.raises(InputError, match="3 lengths of intervals"):
        read(file, lengths=[1, 2])


def test_an_occasion_of_dots_is_one_without_sampling(tmp_path):
    file = tmp_path / "dots.inp"
    file.write_text("10.1 1;\n01.0 2;\n11.0 1;\n")
    histories = read(file, first_year=1990)
    assert histories.unsampled == (2,)
    assert "Nobody looked for birds in 1992." in describe(histories)
    assert histories.to_counts(1).unsampled == (1,)
    file.write_text("1.01 1;\n0100 2;\n")
    with pytest.raises(InputError, match="only where all histories have one"):
        read(file)


def test_tables_of_rmark_and_headed_files_are_read(tmp_path):
    file = tmp_path / "dipper.txt"
    file.write_text("ch\tfreq\tsex\n0110\t2\tMale\n1100\t1\tFemale\n1011\t1\tMale\n")
    histories = read(file)
    assert histories.n_birds == 4
    assert histories.by("sex").groups == ("Female", "Male")
    assert "not used" in describe(histories)
    assert "not used" not in describe(histories.by("sex"))
    file.write_text("H: H: H: S:f S:m $COV:mass\n1 0 1 2 0 11.5\n0 1 1 1 3 12\n")
    headed = read(file)
    assert headed.sizes == {"f": 3, "m": 3}
    assert list(headed.columns["mass"]) == ["11.5", "12", "12"]


def test_what_nobody_can_read_is_refused_with_what_to_do(tmp_path):
    file = tmp_path / "odd.txt"
    file.write_text("hello world\n")
    with pytest.raises(InputError, match="Say the format"):
        read(file)
    file.write_bytes(b"PK\x03\x04rest")
    with pytest.raises(InputError, match="save the sheet as CSV"):
        read(file)


def test_what_was_read_is_said_in_full():
    said = describe(read(path_of(SYNTHETIC_HISTORIES)))
    assert said.split("\n") == [
        "Birds: 4500, all marked as chicks (age 0).",
        "Occasions: 10, 1982 to 1991.",
        "Encounters after marking: 1770 alive, 506 found dead.",
    ]
    assert describe(read(path_of(DIPPER_ARRAY))).startswith("Releases: 426.\nOccasions: 7, 1981 to 1987.")


def test_ldld_pairs_become_codes_with_a_tail(tmp_path):
    file = tmp_path / "ld.inp"
    file.write_text("110000 1;\n100010 1;\n100001 1;\n001100 2;\n")
    histories = read_mark(file, ldld=True)
    np.testing.assert_array_equal(histories.codes, [[1, 2, 0, 0], [1, 0, 1, 0], [1, 0, 0, 2], [0, 1, 2, 0]])
    assert histories.tail
    assert histories.to_counts(2).n_intervals == 3
    with pytest.raises(InputError, match=r"ld.inp:3: .*tail=True"):
        read_mark(file, ldld=True, tail=False)


def test_recovery_matrices_give_releases_without_recaptures(tmp_path):
    file = tmp_path / "brown.inp"
    file.write_text(
        "recovery matrix group=1;\n10 5 2;\n8 4;\n6;\n100 90 80;\nrecovery matrix group=2;\n1 1 1;\n1 1;\n1;\n9 9 9;\n"
    )
    arrays = read_recovery_matrix(file, ages=(0, ADULT))
    np.testing.assert_array_equal(arrays.never, [83, 78, 74, 6, 7, 8])
    assert arrays.to_counts(2).n_columns == 4
    counts = arrays.pooled().to_counts(2)
    assert counts.parameters == ("phi", "lambda")
    np.testing.assert_array_equal(counts.recovered, [[10, 8, 6], [1, 7, 9]])


BAD_INP = {
    "1102 1;": "bad.inp:1: history 1102: a live history must be made of 0 and 1",
    "110 1;\n11 1;": "bad.inp:2: history 11: every history must have as many occasions",
    "110 1;\n101": "bad.inp:2: a record must end with ';'",
    "110 1; /* open": "bad.inp:1: this comment is never closed",
    "110;": "bad.inp:1: history 110: there must be 1 frequencies",
    "110 1;\n101 1 2;": "bad.inp:2: history 101: every history must have as many columns",
    "000 1;": "bad.inp:1: history 000: it was never met",
    "": "there must be at least one encounter history",
}


@pytest.mark.parametrize("text", BAD_INP)
def test_errors_in_mark_files_name_the_line_and_the_history(tmp_path, text):
    file = tmp_path / "bad.inp"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(BAD_INP[text])):
        read_mark(file)


BAD_CSV = {
    "id,y1990,y1991\n7,1,4": "h.csv:2: bird 7: y1991 must be 0, 1, 2 or 3",
    "id,y1990,y1991,y1992\n7,1,0,0\n8,1,2,1": "h.csv:3: bird 8: it is seen alive after it was recovered dead",
    "id,y1990,y1991,y1992\n8,1,2,2": "h.csv:2: bird 8: it is recovered dead more than once",
    "id,y1990,y1991\n8,2,1": "h.csv:2: bird 8: it is recovered before it is marked",
    "id,y1991,y1990\n8,1,1": "h.csv:1: the year columns must be consecutive",
    "id,cohort,y1990,y1991\n8,1991,1,1": "h.csv:2: bird 8: its cohort is 1991, but it is first met in 1990",
    "id,y1990,y1991\n8,1": "h.csv:2: there must be 3 cells",
    "id,age_at_marking,y1990,y1991\n8,old,1,1": "h.csv:2: age_at_marking must be a whole number",
    "id,y1990,y1991": "there must be a line below the header",
}


@pytest.mark.parametrize("text", BAD_CSV)
def test_errors_in_histories_name_the_line_and_the_bird(tmp_path, text):
    file = tmp_path / "h.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(BAD_CSV[text])):
        read_histories(file)


def test_a_three_is_read_as_a_zero_and_a_repeated_id_as_another_bird_and_both_are_said(tmp_path):
    file = tmp_path / "h.csv"
    file.write_text("id,age_at_marking,y1990,y1991\n1,adult,1,3\n1,2,1,1\n")
    histories = read_histories(file)
    assert histories.notes == (
        "entries of 3 read as 0: 1",
        "rows whose id occurred before, each read as a bird of its own: 1",
    )
    np.testing.assert_array_equal(histories.age, [ADULT, 2])


def test_a_row_that_does_not_add_up_is_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("release_year,age,n_released,recap1991,dead1991,never\n1990,0,10,3,1,5\n")
    with pytest.raises(InputError, match=r"a.csv:2: n_released is 10, but the row adds up to 9"):
        read_arrays(file)


BAD_COUNTS = {
    ("arrays", "release_year,age,n_released,recap1991,dead1991,never\n1990,0,4,3,-4,5"): "dead1991 must be 0 or more",
    ("counts", "stat,age_class,interval_start_year,count\nV,1,1990,-3"): "count must be 0 or more, but is -3",
    ("mark-recovery", "recovery matrix group=1;\n5 -2; 3; 50 40;"): "row 1 has -2",
}


@pytest.mark.parametrize("case", BAD_COUNTS)
def test_a_negative_count_is_refused_with_its_line(tmp_path, case):
    format, text = case
    file = tmp_path / "n.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=f"n.txt:2: .*{BAD_COUNTS[case]}"):
        read(file, format)


def test_recoveries_past_the_last_recapture_mean_a_tail(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(
        "release_year,age,n_released,recap1991,dead1991,dead1992,never\n1990,0,10,3,1,1,5\n1991,1,3,0,0,1,2\n"
    )
    arrays = read_arrays(file)
    assert arrays.tail
    assert arrays.to_counts(2).seen[:, -1].sum() == 0
    write_arrays(arrays, tmp_path / "b.csv")
    assert_same_counts(read_arrays(tmp_path / "b.csv").to_counts(2), arrays.to_counts(2))


def test_counts_refuse_what_cannot_be():
    with pytest.raises(InputError, match="must hold counts"):
        Counts([[1]], [[0]], [[0]], [[-1]], [1990])
    with pytest.raises(InputError, match="without recoveries must have D = 0"):
        Counts([[1]], [[0]], [[1]], [[1]], [1990], dead=False)
    with pytest.raises(InputError, match="every count is zero"):
        Counts([[0]], [[0]], [[0]], [[0]], [1990])
    with pytest.raises(InputError, match="counts cannot be split"):
        as_counts(Counts([[1]], [[0]], [[0]], [[1]], [1990]), 4)


def test_a_file_that_is_not_there_and_an_unknown_format_are_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "none.inp", "mark")
    with pytest.raises(InputError, match="must be one of auto, mark, "):
        read(tmp_path / "none.inp", "excel")
