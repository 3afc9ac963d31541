"""Compare with other samplers, or run another benchmark: ``python -m benchmarks [--full] [--only NAME | --all]``.

Arguments that follow are passed on.
"""

import argparse
import pkgutil
import runpy
import sys
import time

import benchmarks

LEADING = "peers"


def names() -> list[str]:
    """Return the benchmark modules found, in alphabetical order."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def run(name: str, arguments: list[str]) -> int:
    """Run one module as a program of its own; return its exit status."""
    sys.argv = [f"benchmarks.{name}", *arguments]
    print(f"\n== {name} ==", flush=True)
    started, status = time.perf_counter(), 0
    try:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    print(f"   ({time.perf_counter() - started:.0f} s)", flush=True)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, allow_abbrev=False)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", choices=names(), default=LEADING, help="another one, with the arguments that follow")
    which.add_argument("--all", action="store_true", help="every one in turn: hours")
    options, rest = parser.parse_known_args()
    if rest and options.all:
        parser.error(f"arguments are passed on to one benchmark, but got {' '.join(rest)} for all")
    missed = [run(name, rest) for name in (names() if options.all else [options.only])]
    return 1 if any(missed) else 0


if __name__ == "__main__":
    sys.exit(main())
