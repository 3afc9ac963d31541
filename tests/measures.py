"""Measure the package: its size, the way of one call through it, its signatures and its types.

    python tests/measures.py [--modules] [--pairs]

Prints a table; with --modules the calls of each module on the way of one call, with --pairs which package hands over to
which. Nothing here passes or fails: the figures are for comparing one state of the package with another.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

import tempering as tp
from test_imports import EXCEPTIONS, all_imports, cycles

SOURCE = Path(tp.__file__).parent
LONG = 40  # lines of a function, its docstring aside
MANY = 8  # arguments
TYPED = ("engines", "kernels")  # where types are hardest to state: the share of Any is counted there


def trees():
    """Return {path below the package: syntax tree}."""
    files = sorted(SOURCE.rglob("*.py"))
    return {file.relative_to(SOURCE): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def arguments(function):
    """Return the arguments of a function, but for self and cls."""
    spec = function.args
    return [a for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs) if a.arg not in ("self", "cls")]


def share_of_any(found, folders=None):
    """Return the share of Any among the annotated arguments of some folders, or of all."""
    stated = [
        ast.unparse(argument.annotation)
        for path, tree in found.items()
        if folders is None or path.parts[0] in folders
        for function in functions(tree)
        for argument in arguments(function)
        if argument.annotation is not None
    ]
    return sum(annotation == "Any" for annotation in stated) / len(stated)


def lines_of(function):
    """Return the lines of a function, its docstring aside."""
    doc = function.body[0] if ast.get_docstring(function) is not None else None
    return function.end_lineno - function.lineno + 1 - (doc.end_lineno - doc.lineno + 1 if doc else 0)


def longer_than(found, most, size):
    """Return (size, function) of the functions beyond ``most``, the largest first, private ones included."""
    counts = [(size(f), f"{path}: {f.name}") for path, tree in found.items() for f in functions(tree)]
    return sorted((count for count in counts if count[0] > most), reverse=True)


def n_cycles():
    """Return how many groups of parts import one another, the methods that open a door when called left out."""
    left = {name: {to for to in names if (name, to) not in EXCEPTIONS} for name, names in all_imports().items()}
    return len(cycles(left))


def way_of_one_call():
    """Return the calls of each module on the way of `sample`, and how often each package hands over to another.

    It is called twice: what the first call alone does, importing and compiling, is not on the way.
    """
    seen, pairs, last = Counter(), Counter(), ""

    def look(frame, event, argument):
        nonlocal last
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("tempering."):
            return
        seen[module] += 1
        package = module.split(".")[1]
        if package != last:
            pairs[last, package] += 1
        last = package

    def call():
        return tp.sample(tp.Target(lambda x: -(x**2) / 2), initial=0.0, draws=1_000, rng=1, progress=False)

    call()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen, pairs


def main():
    found = trees()
    n_lines = sum(file.read_text(encoding="utf-8").count("\n") for file in SOURCE.rglob("*.py"))
    n_of_models = sum(file.read_text(encoding="utf-8").count("\n") for file in (SOURCE / "models").rglob("*.py"))
    seen, pairs = way_of_one_call()
    long, wide = longer_than(found, LONG, lines_of), longer_than(found, MANY, lambda f: len(arguments(f)))
    rows = {
        "files": len(found),
        "lines": n_lines,
        "lines but for models": n_lines - n_of_models,
        "cycles of parts": n_cycles(),
        f"functions of more than {LONG} lines": len(long),
        f"functions of more than {MANY} arguments": len(wide),
        "modules on the way of one sample()": len(seen),
        "changes of package on the way": pairs.total(),
        "calls on the way": seen.total(),
        f"share of Any in {' and '.join(TYPED)}": f"{share_of_any(found, TYPED):.2f}",
        "share of Any everywhere": f"{share_of_any(found):.2f}",
    }
    rows |= {f"arguments of {name}": n for n, name in wide}
    rows |= {f"lines of {name}": n for n, name in long}
    if "--modules" in sys.argv:
        rows |= {f"calls of {module}": n for module, n in seen.most_common()}
    if "--pairs" in sys.argv:
        rows |= {f"from {one} to {other}": n for (one, other), n in pairs.most_common()}
    print("\n".join(f"{name:66} {value}" for name, value in rows.items()))  # noqa: T201


if __name__ == "__main__":
    main()
