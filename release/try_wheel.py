"""Try an installed wheel as a new user would: the quickstart, the demo, a file of one's own, and what is missing."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys

README, COMMAND = pathlib.Path(sys.argv[1]), sys.argv[2]


def run(*arguments: str, status: int = 0) -> str:
    """Run the command, and check how it ends and that no traceback is shown."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True)
    assert done.returncode == status, f"{arguments}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    print(f"   tempering {' '.join(arguments)}: ended with {done.returncode}, as it should")
    return done.stdout + done.stderr


import tempering  # noqa: E402

installed = pathlib.Path(tempering.__file__)
assert README.parent not in installed.parents, f"{installed} is in the repository"
assert importlib.metadata.version("tempering") == tempering.__version__, "the version is not the package's own"

quickstart = re.search(r"^## Quickstart$.*?^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)[1]
names = {"__name__": "quickstart"}
exec(compile(quickstart, "README.md", "exec"), names)
assert abs(names["upper"].value - 0.30056) < 5 * names["upper"].standard_error, names["upper"]

for command in ("sample", "treed-gp", "recapture", "select"):
    assert "Usage" in run(command, "--help")
assert "ESS ess_optimal" in run("demo")
assert pathlib.Path("demo/importance-tempering.png").stat().st_size > 10_000
assert "ESS pooled" in run("reproduce", "table2", "--runs", "2", "--draws", "4000")
pathlib.Path("mine.py").write_text("def log_density(x):\n    return -0.5 * (x - 3.0) ** 2\n")
assert "x" in run("sample", "mine.py:log_density", "--initial", "0", "--draws", "500", "--seed", "1")
assert tempering.load("run.zarr").rung.size > 0
pathlib.Path("data.csv").write_text("x,y\n1,2\n2,3\n")
for command in (("treed-gp", "fit", "data.csv", "--out", "m"), ("select", "data.csv")):
    said = run(*command, "--response", "y", status=2)
    assert "pip install 'tempering[models]'" in said, said
