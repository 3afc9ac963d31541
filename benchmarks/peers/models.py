"""Rows about the models with moves of their own: the treed GP beside R's tgp, mark-recapture beside plain RJMCMC."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# some minutes of the processor each: a third of the length of their own runs
TASKS = {"treed_gp": ["--only", "speed", "--scale", "0.3"], "recapture": ["--seeds", "1", "--iterations", "320"]}


def rows() -> list[dict[str, Any]]:
    """Run the models' own benchmarks; a benchmark that crashes is a row that says so."""
    out = []
    for name, arguments in TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            command = [sys.executable, "-m", f"benchmarks.{name}", *arguments, "--json", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if path.is_file():
                found = json.loads(path.read_text())
                out += [
                    {"model": name, "quantity": r["quantity"], "ours": r["ours"], "detail": r["detail"]} for r in found
                ]
            else:
                said = (done.stderr.strip().splitlines() or ["no output"])[-1]
                out.append({"model": name, "quantity": "failed", "ours": None, "detail": said})
    return out
