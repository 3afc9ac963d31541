"""What is released: one version, the same requirements in the recipe, and nothing imported that is not declared."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import tempering

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {"scikit-learn": "sklearn", "matplotlib-base": "matplotlib"}
OPTIONAL = {"sklearn", "numpyro", "pymc", "pytensor", "xarray", "arviz", "arviz_base", "bilby", "getdist", "anesthetic",
            "pyarrow", "distributed", "dask", "bridgestan", "IPython"}  # fmt: skip
BROUGHT = {"llvmlite", "jaxlib"}  # by Numba and by JAX


def declared():
    return {re.match(r"[\w-]+", d)[0].replace("-", "_") for d in PROJECT["dependencies"]}


def imported_by(source):
    """Return the packages that a module imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"tempering"}


def test_everything_that_is_imported_is_declared_or_optional():
    for path in (ROOT / "src").rglob("*.py"):
        assert imported_by(path.read_text()) <= declared() | OPTIONAL | BROUGHT, path


def test_control_an_undeclared_import_is_seen():
    assert not imported_by("def f():\n    import tensorflow.keras\n") <= declared() | OPTIONAL | BROUGHT


def test_the_version_has_one_place():
    assert "version" in PROJECT["dynamic"]
    assert f"version: {tempering.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f'version = "{tempering.__version__}"' in (ROOT / "recipe" / "meta.yaml").read_text()


def test_the_recipe_requires_what_the_project_does():
    recipe = (ROOT / "recipe" / "meta.yaml").read_text()
    run = re.search(r"  run:\n(.*?)\n\n", recipe, re.DOTALL)[1]
    wanted = {re.sub(r"^([\w-]+)", lambda m: m[0], d) for d in PROJECT["dependencies"]}
    given = {re.sub(r"\s+", "", line.strip("- ")) for line in run.splitlines() if "python" not in line}
    assert {d.replace("matplotlib>", "matplotlib-base>") for d in wanted} == given
