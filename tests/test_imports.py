"""Imports point one way: whoever reads a module finds all that it needs further down, none of it further up.

Read by ast, imports within functions too; those for types alone are left out.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import tempering

SOURCE = Path(tempering.__file__).parent
ORDER = (
    ("arrays", "errors", "requirements"),
    ("randomness",),
    ("io",),
    ("compiling",),
    ("estimators",),
    ("prior",),
    ("target",),
    ("path",),
    ("kernels",),
    ("rungs",),
    ("engines",),
    ("recorders",),
    ("learning",),
    ("populations",),
    ("runs",),
    ("execution",),
    ("sampling",),
    ("informed",),
    ("doors", "plots", "problems", "data"),
    ("report",),
    ("models",),
    ("experiments",),
    ("cli",),
)
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
OUTSIDE_OF_ESTIMATORS = {"numpy", "scipy", "pandas"}  # all that estimates need: draws may come from anywhere

# (module, what it imports): why. The list may only shrink.
EXCEPTIONS = {
    ("tempering.runs.draws", "tempering.doors.arviz"): "a method of the draws, to_arviz, imported when called",
    ("tempering.runs.run", "tempering.report.page"): "a method of every run, report, imported when called",
    ("tempering.target.target", "tempering.doors.bridgestan"): "Target(model) knows Stan's models when it sees one",
    ("tempering.target.target", "tempering.doors.numpyro"): "a constructor, Target.from_numpyro",
    ("tempering.target.target", "tempering.doors.pymc"): "a constructor, Target.from_pymc",
    ("tempering.target.target", "tempering.learning.reference"): "a method, with_reference, imported when called",
}


def unit_of(module):
    """Return the folder or file under `tempering` that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports_of(tree):
    """Yield every module named by an import anywhere in a tree, but for those of types alone."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if is_for_types(node):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "relative imports"
            if node.module == "tempering":
                yield from (f"tempering.{alias.name}" for alias in node.names)
            else:
                yield node.module
        pending += ast.iter_child_nodes(node)


@cache
def all_imports():
    """Return {module: set of modules} of the package."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(("tempering", *parts)).removesuffix(".__init__")
        found[module] = set(imports_of(ast.parse(path.read_text(encoding="utf-8"))))
    return found


def backward_arrows(imports):
    """Return (module, imported) wherever an arrow points back in the order, or to the front of the package."""
    found = []
    for module, names in imports.items():
        own = unit_of(module)
        for name in sorted(names):
            unit = unit_of(name)
            if not name.startswith("tempering") or own == "" or unit == own:
                continue
            if LEVEL.get(unit, len(ORDER) - 1) > LEVEL[own]:  # the front of the package is for those who use it
                found.append((module, name))
    return found


def test_every_part_of_the_package_has_its_place():
    units = {unit_of(module) for module in all_imports()} - {""}
    assert units == set(LEVEL)


def test_no_import_points_back():
    arrows = [arrow for arrow in backward_arrows(all_imports()) if arrow not in EXCEPTIONS]
    assert not arrows, "\n".join(f"{module} imports {name}" for module, name in arrows)


def test_every_exception_is_still_needed():
    assert set(EXCEPTIONS) <= set(backward_arrows(all_imports()))
    assert all(EXCEPTIONS.values())


def test_estimators_need_arrays_alone():
    for module, names in all_imports().items():
        if unit_of(module) == "estimators":
            others = {name.split(".")[0] for name in names} - {"tempering", "__future__"}
            strange = {name for name in others if name not in OUTSIDE_OF_ESTIMATORS and not is_standard(name)}
            assert not strange, f"{module} imports {sorted(strange)}"


def is_standard(name):
    import sys

    return name in sys.stdlib_module_names


def cycles(imports):
    """Return the sets of units that import one another, by any way round."""
    arrows = defaultdict(set)
    for module, names in imports.items():
        for name in names:
            if name.startswith("tempering") and unit_of(name) and unit_of(module) != unit_of(name):
                arrows[unit_of(module)].add(unit_of(name))
    reach = {unit: set(to) for unit, to in arrows.items()}
    for middle in list(reach):
        for to in reach.values():
            if middle in to:
                to |= reach.get(middle, set())
    found = {frozenset(o for o in to if unit in reach.get(o, ())) for unit, to in reach.items() if unit in to}
    return sorted(sorted(group) for group in found)


def test_no_units_import_one_another():
    """But for the exceptions."""
    kept = {
        module: {name for name in names if (module, name) not in EXCEPTIONS} for module, names in all_imports().items()
    }
    assert cycles(kept) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    from tempering.runs.draws import TemperedDraws", {"tempering.runs.draws"}),
        ("from tempering import runs, kernels", {"tempering.runs", "tempering.kernels"}),
        ("import tempering.runs.draws as d", {"tempering.runs.draws"}),
        ("if TYPE_CHECKING:\n    from tempering.runs.draws import TemperedDraws", set()),
    ],
)
def test_imports_are_found_wherever_they_stand(text, expected):
    assert set(imports_of(ast.parse(text))) == expected


def test_control_an_arrow_back_is_seen():
    wrong = {"tempering.kernels.slow": {"tempering.runs.draws"}, "tempering.runs.draws": {"tempering.kernels.slow"}}
    assert backward_arrows(wrong) == [("tempering.kernels.slow", "tempering.runs.draws")]
    assert cycles(wrong) == [["kernels", "runs"]]
