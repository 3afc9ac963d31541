from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempering.errors import InputError
from tempering.models.recapture.spaces import ModelSpace, ParameterSpace
from tempering.models.recapture.stages import terms_of
from tempering.models.recapture.structures import Structure, all_partitions


@pytest.mark.parametrize("ages", ["contiguous", "free"])
@pytest.mark.parametrize("n_classes", range(1, 7))
def test_the_formula_counts_the_structures(ages, n_classes):
    space = ParameterSpace(n_classes, ages)
    assert space.count == len(set(space.structures()))


def test_the_space_of_king_and_brooks_has_477144_models():
    assert ModelSpace(4).count == 54 * 94 * 94 == 477_144
    assert ModelSpace(4, p="contiguous", lambda_="contiguous").count == 157_464
    assert ModelSpace(4, phi="free").count == 830_584


@cache
def free_space(n_classes):
    return ModelSpace(n_classes, phi="free")


@settings(deadline=None)  # the first of each size lists its partitions
@given(st.integers(1, 8), st.booleans(), st.randoms(use_true_random=False))
def test_a_structure_survives_its_notation_and_its_code(n_classes, contiguous, random):
    labels = random.choice(all_partitions(n_classes, contiguous))
    flags = [random.random() < 0.5 for _ in range(max(labels) + 1)]
    structure = Structure(labels, tuple("t" if flags[g] else "" for g in labels))
    assert Structure.parse(str(structure), n_classes) == structure
    space = free_space(n_classes)
    assert space.structure(space.code(structure)) == structure


BAD = {
    "{1} {2,3}": r"lacks \[4\]",
    "{1,1} {2,3,4}": "has 1 twice",
    "{1}{2+}{3}{4}": "Only the last class",
    "{1}{2}{3}{5}": "must be 1 to 4",
    "1 2 3 4": "must read like",
    "{1}(x) {2,3,4}": "names 'x', which is neither t",
    "{1 cock} {2,3,4}": "Groups must be among none",
    "~ age + wings": "'wings' in '~ age . wings' is not one of age",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_notation_is_refused(text):
    with pytest.raises(InputError, match=BAD[text]):
        ModelSpace(4, phi=text)


@pytest.mark.parametrize("name", ["phi", "p"])
def test_every_split_has_its_merge_and_every_merge_its_split(name):
    """Counts of moves back and forth are those of section 5.3, and lead back."""
    space = ModelSpace(4)
    table = space.table(name)
    allowed = [space.partitions.index(row) for row in space.space(name).partitions]
    for i in allowed:
        labels = np.array(space.partitions[i])
        sizes = np.bincount(labels)
        expected = (sizes - 1).sum() if name == "phi" else (2 ** (sizes - 1) - 1).sum()
        assert table.n_splits[i] == expected
        for s in range(table.n_splits[i]):
            target, off = table.split_to[i, s], (table.split_off[i, s] >> np.arange(4) & 1).astype(bool)
            assert target in allowed
            group = labels == labels[off.argmax()]
            youngest_pair = [int(np.flatnonzero(group & ~off)[0]), int(np.flatnonzero(off)[0])]
            pair = next(q for q, p in enumerate(table.pairs) if sorted(p) == sorted(youngest_pair))
            assert table.merge_to[target, pair] == i
        n_groups = len(sizes)
        pairs = n_groups - 1 if name == "phi" else n_groups * (n_groups - 1) // 2
        assert (table.merge_to[i] >= 0).sum() == pairs


def test_sets_of_groups_are_rectangles_of_ages_and_groups():
    space = ModelSpace(2, "~ age + sex + time", groups=("f", "m"), factor="sex")
    texts = {str(s) for s in space.space("phi").structures() if not any(s.timed)}
    assert texts == {
        "{1,2+}", "{1} {2+}", "{1,2+ f} {1,2+ m}", "{1 f} {2+} {1 m}", "{1} {2+ f} {2+ m}",
        "{1 f} {2+ f} {1,2+ m}", "{1,2+ f} {1 m} {2+ m}", "{1 f} {2+ f} {1 m} {2+ m}",
    }  # fmt: skip
    for text in texts:
        assert str(Structure.parse(text, 2, ("f", "m"))) == text
    assert ModelSpace(2, "~ sex", groups=("f", "m"), factor="sex").space("phi").count == 2
    assert ModelSpace(2, "~ age", groups=("f", "m"), factor="sex").space("phi").count == 2


def test_too_many_columns_are_refused():
    with pytest.raises(InputError, match="5 x 2 is 10"):
        ModelSpace(5, groups=("f", "m"))


def test_a_fixed_structure_cannot_move():
    space = ModelSpace(4, phi="{1}(t) {2,3} {4+}")
    assert space.space("phi").count == 1
    table = space.table("phi")
    assert table.n_splits.sum() == 0
    assert (table.merge_to < 0).all()


SEEN = {"groups": ("seen", "missed"), "stages": ("seen", "missed")}
THREE = ("new", "seen", "missed")


def constant_texts(space, name):
    return {str(s) for s in space.space(name).structures() if not any(s.timed)}


def test_stages_after_a_capture_are_told_apart_only_where_a_formula_says_so():
    space = ModelSpace(1, "~ transient", "~ trap", "~ 1", groups=THREE, stages=THREE)
    assert constant_texts(space, "phi") == {"{1+}", "{1+ new} {1+ seen/missed}"}
    assert constant_texts(space, "p") == {"{1+}", "{1+ new/seen} {1+ missed}"}
    assert constant_texts(space, "lambda") == {"{1+}"}
    sexes = ModelSpace(
        1,
        "~ sex",
        "~ trap",
        factor="sex",
        groups=("f seen", "f missed", "m seen", "m missed"),
        stages=("seen", "missed"),
    )
    assert constant_texts(sexes, "phi") == {"{1+}", "{1+ f} {1+ m}"}
    assert constant_texts(sexes, "p") == {"{1+}", "{1+ seen} {1+ missed}"}
    for text in ("{1+ f} {1+ m}", "{1+ seen} {1+ missed}"):
        assert str(Structure.parse(text, 1, sexes.groups, sexes.stages)) == text


def test_columns_that_no_bird_is_in_make_no_models_of_their_own():
    """Chicks cannot have been missed before: column 2 of four."""
    space = ModelSpace(2, "~ 1", "~ trap + age", **SEEN, idle=(2,)).space("p")
    used = {tuple(label for c, label in enumerate(row) if c != 2) for row in space.partitions}
    assert len(used) == len(space.partitions) == 4  # of three columns; chicks with missed adults are no rectangle


@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("stages", [("seen", "missed"), ("new", "old"), THREE])
def test_every_structure_can_be_reached_from_every_other(n_classes, stages):
    idle = tuple(range(n_classes * (len(stages) - 1), n_classes * len(stages), 2)) if n_classes == 2 else ()
    text = "~ " + " + ".join(["age", *terms_of(stages)])
    space = ModelSpace(n_classes, text, text, groups=stages, stages=stages, idle=idle)
    table = space.table("p")
    todo, reached = [space.partitions.index(space.space("p").partitions[0])], set()
    while todo:
        here = todo.pop()
        if here not in reached:
            reached.add(here)
            todo += [int(x) for x in table.split_to[here, : table.n_splits[here]]]
            todo += [int(x) for x in table.merge_to[here] if x >= 0]
    assert reached == {space.partitions.index(row) for row in space.space("p").partitions}


def test_additive_effects_need_two_levels():
    space = ParameterSpace(1, "~ time + sex", ("f", "m"), "sex", ("t+sex",))
    assert {str(s) for s in space.structures()} == {
        "{1+}", "{1+}(t)", "{1+}(t+sex)", "{1+ f} {1+ m}", "{1+ f}(t) {1+ m}", "{1+ f} {1+ m}(t)",
        "{1+ f}(t) {1+ m}(t)",
    }  # fmt: skip
    assert space.count == 7
    ages = ParameterSpace(3, "~ age + time", times=("t+age",))
    assert ages.count == len(ages.structures()) == len(set(ages.structures()))
    assert "{1,2}(t+age) {3+}" in {str(s) for s in ages.structures()}
    assert Structure.parse("{1+}(t + sex)", 1, ("f", "m")).times == ("t+sex", "t+sex")
