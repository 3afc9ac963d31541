"""Run every benchmark module there is: ``python -m benchmarks [--only NAME] [arguments of that one]``."""

import argparse
import pkgutil
import runpy
import sys
import time

import benchmarks

BY_THEMSELVES = ("soak",)  # that take half an hour and have a command of their own


def names() -> list[str]:
    """Return the benchmark modules found, in alphabetical order."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in found if not name.startswith("_") and name not in BY_THEMSELVES)


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("--only", choices=names(), help="run this one alone, with the arguments that follow")
    options, rest = parser.parse_known_args()
    if rest and not options.only:
        parser.error(f"arguments are passed on with --only, but got {' '.join(rest)} for all")
    missed = [run(name, rest) for name in ([options.only] if options.only else names())]
    return 1 if any(missed) else 0


if __name__ == "__main__":
    sys.exit(main())
