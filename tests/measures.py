"""Measure the package: its size, the way of one call through it, its signatures and its types.

    python tests/measures.py

Prints a table. Nothing here passes or fails: the figures are for comparing one state of the package with another.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

import tempering as tp

SOURCE = Path(tp.__file__).parent
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


def share_of_any(found):
    """Return the share of Any among the annotated arguments of the folders in `TYPED`."""
    stated = [
        ast.unparse(argument.annotation)
        for path, tree in found.items()
        if path.parts[0] in TYPED
        for function in functions(tree)
        for argument in arguments(function)
        if argument.annotation is not None
    ]
    return sum(annotation == "Any" for annotation in stated) / len(stated)


def longest_signatures(found, most=8):
    """Return (arguments, function) of the functions with most of them, private ones included."""
    counts = [(len(arguments(f)), f"{path}: {f.name}") for path, tree in found.items() for f in functions(tree)]
    return sorted(counts, reverse=True)[:most]


def way_of_one_call():
    """Return the modules that `sample` passes on its way, each time the package changes, and all calls.

    It is called twice: what the first call alone does, importing and compiling, is not on the way.
    """
    seen, switches, n_calls, last = Counter(), 0, 0, ""

    def look(frame, event, argument):
        nonlocal switches, n_calls, last
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("tempering."):
            return
        seen[module] += 1
        n_calls += 1
        package = module.split(".")[1]
        switches += package != last
        last = package

    def call():
        return tp.sample(tp.Target(lambda x: -(x**2) / 2), initial=0.0, draws=1_000, rng=1, progress=False)

    call()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen, switches, n_calls


def main():
    found = trees()
    n_lines = sum(file.read_text(encoding="utf-8").count("\n") for file in SOURCE.rglob("*.py"))
    seen, switches, n_calls = way_of_one_call()
    of_sample = next(f for f in functions(found[Path("sampling/sample.py")]) if f.name == "sample")
    rows = {
        "files": len(found),
        "lines": n_lines,
        "modules on the way of one sample()": len(seen),
        "changes of package on the way": switches,
        "calls on the way": n_calls,
        "arguments of sample": len(arguments(of_sample)),
        f"share of Any in {' and '.join(TYPED)}": f"{share_of_any(found):.2f}",
    }
    rows |= {f"arguments of {name}": n for n, name in longest_signatures(found)}
    if "--modules" in sys.argv:
        rows |= {f"calls of {module}": n for module, n in seen.most_common()}
    print("\n".join(f"{name:66} {value}" for name, value in rows.items()))  # noqa: T201


if __name__ == "__main__":
    main()
