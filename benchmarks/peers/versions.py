"""What a run was made with: runs of other versions are kept, but neither shown nor taken for done."""

import hashlib
from functools import cache
from pathlib import Path

from benchmarks.peers.environments import version_of
from benchmarks.peers.processes import module_of

SOURCE = Path(__file__).parents[2] / "src" / "tempering"


@cache
def version_stamp(sampler: str) -> str:
    """Return a sampler's version and a digest of how it is called; of ours, of the whole package."""
    module = module_of(sampler)
    called = Path(str(module.__file__))
    files = [called, *sorted(SOURCE.rglob("*.py"))] if module.ENVIRONMENT == "own" else [called]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    return f"{version_of(module.ENVIRONMENT, module.PACKAGE) or 'not installed'} {digest}"
