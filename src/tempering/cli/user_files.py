"""A user's own file: find the target in it, sample, and write the run and its report."""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import InputError, TemperingError
from tempering.execution.workers import processes_or_none

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws
    from tempering.sampling.options import Execution

KERNELS = {
    "random_walk": "RandomWalk",
    "slice": "Slice",
    "hit_and_run": "HitAndRunSlice",
    "independence": "Independence",
    "hamiltonian": "Hamiltonian",
}
BLACKJAX_KERNELS = ("mala", "barker", "nuts")


def sample_file(
    where: str,
    run: str | Path,
    report: str | Path | None = None,
    *,
    workers: int | None = None,
    execution: Execution | None = None,
    **options: Any,
) -> TemperedDraws:
    """Sample the target of a user's file, and write the run and a page about it.

    Parameters
    ----------
    where : str
        ``MODULE:NAME``, the module a file (``model.py``) or a dotted name; see `find_target`.
    run : path
        Where the run goes, a Zarr store.
    report : path, optional
        Where the page goes; none is written without it.
    workers : int, optional
        Processes to share the chains among; the draws are the same for any number of them.
    execution : Execution, optional
        The engine and the checkpoint; the executor is made for ``workers``.
    **options
        The others of `tempering.sample`.
    """
    from tempering.report.page import write_report
    from tempering.runs.stored import save
    from tempering.sampling.options import Execution
    from tempering.sampling.sample import sample

    target = find_target(where)
    with processes_or_none(workers) as executor:
        here = replace(execution or Execution(), executor=executor)
        draws: TemperedDraws = sample(target, execution=here, **options)
    save(draws, run)
    if report is not None:
        write_report(draws, report, title=where)
    return draws


def check_places(run: Path, page: Path | None) -> Path:
    """Refuse places that cannot be written to before anything is sampled; return that of the page."""
    _check_folder(run)
    if run.is_file():
        raise InputError(f"{run} is a file, but a run is written as a folder. Choose another place with -o.")
    if run.is_dir() and any(run.iterdir()) and not (run / "zarr.json").is_file():
        raise InputError(f"{run} is a folder that holds something other than a run. Choose another place with -o.")
    page = run.with_suffix(".html") if page is None else page
    check_page(page)
    return page


def check_page(page: Path) -> None:
    """Refuse a file that cannot be written to before anything is computed."""
    _check_folder(page)
    if page.is_dir():
        raise InputError(f"{page} is a folder. Give the name of a file.")
    if page.exists() and not os.access(page, os.W_OK):
        raise InputError(f"{page} cannot be written: permission denied. Choose another place.")


def _check_folder(path: Path) -> None:
    """Refuse a path whose nearest existing folder cannot be written to."""
    if not path.name:
        raise InputError(f"A run or a page needs a name, but got {str(path)!r}. Give one, such as run.zarr.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if folder != path.absolute().parent:
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}. Make it, or choose another.")
    try:
        with TemporaryDirectory(dir=folder):  # rights alone do not tell: a disk may be full, or for reading only
            pass
    except OSError as error:
        raise InputError(f"{path} cannot be written in {folder}: {error.strerror}. Choose another place.") from error


_USER_FILES: set[str] = set()  # those read by this process: an error that passes through one is the user's to mend


def error_of_user(error: BaseException) -> str | None:
    """Return a sentence about an error raised in a file of the user's, with its line; None for any other error."""
    if isinstance(error, SyntaxError) and error.filename in _USER_FILES:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}. Mend the file."
    places = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in _USER_FILES]
    if not places:
        return None
    said = f": {error}" if str(error) else ""
    return (
        f"{places[-1].filename}, line {places[-1].lineno}, in {places[-1].name}: {type(error).__name__}{said}. The "
        "function of the file must return without an error wherever it is called; return -inf where the density is 0."
    )


def find_target(where: str) -> Any:
    """Return what ``MODULE:NAME`` names: a target, or a function of a position, or a function that makes either.

    A function whose arguments all have defaults is called, and may return a `tempering.Target`, a PyMC model or a model
    object; any other function is taken for a log density.
    """
    module, _, name = where.rpartition(":")
    if not module or not name:
        raise InputError(f"The target must be given as MODULE:FUNCTION, but got {where!r}. Write model.py:log_density.")
    found = _attribute(_module(module), module, name)
    return _as_target(found if _is_model(found) else _made(found, where), where)


def parse_position(text: str | None) -> Any:
    """Read starting positions from JSON: a number, a list of numbers, an object with names, or a list of those."""
    if text is None:
        return None
    try:
        return _position(json.loads(text, parse_constant=_refused))
    except ValueError as error:
        raise InputError(
            f"A position must be a number, a list of numbers or an object of those in JSON, but got {text!r}. Write "
            """0.5, [0, 1] or {"a": 0, "b": [1, 2]}; several in a list: [[0, 1], [2, 3]]."""
        ) from error


def _refused(constant: str) -> None:
    """Refuse what JSON has no numbers for: NaN and the infinities."""
    raise ValueError(constant)


def _position(found: Any) -> Any:
    if isinstance(found, bool) or found is None:
        raise ValueError("no number")
    if isinstance(found, dict):
        return {name: np.asarray(value, dtype=float) for name, value in found.items()}
    if isinstance(found, list):
        return [_position(part) if isinstance(part, dict) else _numbers(part) for part in found]
    return np.asarray(found, dtype=float)


def _numbers(found: Any) -> Any:
    return np.asarray(found, dtype=float) if isinstance(found, list) else float(found)


def parse_kernel(text: str | None) -> Any:
    """Read a kernel: one of the package's by its name, or ``MODULE:NAME`` of the user's own."""
    from tempering import kernels

    if text is None:
        return None
    if ":" in text:
        return _object(text)
    name = text.replace("-", "_")
    if name in KERNELS:
        return getattr(kernels, KERNELS[name])()
    if name in BLACKJAX_KERNELS:
        import blackjax

        from tempering.kernels.blackjax import BlackJAX

        return BlackJAX(getattr(blackjax, name))
    known = ", ".join((*KERNELS, *BLACKJAX_KERNELS))
    raise InputError(f"The kernel must be one of {known}, or MODULE:NAME of your own, but got {text!r}.")


def parse_path(text: str | None) -> Any:
    """Read a path by its name, or ``MODULE:NAME`` of a reference: an object with log_density and sample."""
    from tempering.execution.plan import PATHS

    if text is None or text in PATHS:
        return text
    if ":" in text:
        return _object(text)
    raise InputError(f"The path must be {', '.join(PATHS)} or MODULE:NAME of your own, but got {text!r}.")


def parse_pseudo_prior(text: str | None) -> Any:
    """Read how the pseudo-prior is learnt, or its logs, separated by commas."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return text


def _object(where: str) -> Any:
    """Return what ``MODULE:NAME`` names; a function is called, a class too."""
    module, _, name = where.rpartition(":")
    return _made(_attribute(_module(module), module, name), where)


def _made(found: Any, where: str) -> Any:
    """Return what a function without arguments makes, a class too; anything else as it is."""
    if not callable(found) or not _needs_nothing(found):
        return found
    try:
        return found()
    except TemperingError:
        raise
    except Exception as error:
        raise InputError(f"Calling {where} failed: {error_of_user(error) or repr(error)}") from error


def _module(name: str) -> ModuleType:
    path = Path(name)
    if path.suffix != ".py":
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            raise InputError(
                f"The module {name!r} cannot be imported: {error}. Give a file, as in model.py:f."
            ) from error
        except Exception as error:
            raise InputError(f"Importing the module {name!r} failed with {type(error).__name__}: {error}.") from error
        _USER_FILES.add(str(getattr(module, "__file__", None)))
        return module
    if not path.is_file():
        raise InputError(f"There is no file {name}. Check the path.")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # as an import would, so that the file's classes can be pickled
    sys.path.insert(0, str(path.resolve().parent))  # what lies beside the file can be imported by it
    _USER_FILES.add(str(spec.origin))
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise InputError(
            f"{name} ends the program when it is read (exit status {error.code}). Put what is to run under "
            "`if __name__ == '__main__':`, and leave the functions outside it."
        ) from error
    except Exception as error:
        theirs = error_of_user(error)
        said = theirs.partition(" The function")[0] if theirs else f"{path}: {type(error).__name__}: {error}."
        raise InputError(f"The file stopped with an error: {said}") from error
    return module


def _attribute(module: ModuleType, where: str, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    known = sorted(n for n, value in vars(module).items() if callable(value) and not n.startswith("_"))
    raise InputError(f"{where} has no {name!r}; it has {', '.join(known) or 'no functions'}. Check the name.")


def _needs_nothing(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # built in, or compiled
        return False
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in free for p in parameters)


def _is_model(found: Any) -> bool:
    from tempering.target import Target

    return isinstance(found, Target) or callable(getattr(found, "step", None))


def _as_target(found: Any, where: str) -> Any:
    from tempering.target import Target

    if _is_model(found):
        return found
    if type(found).__module__.split(".")[0] == "pymc":
        from tempering.doors.pymc import target_from_pymc

        return target_from_pymc(found)
    if callable(found) or callable(getattr(found, "log_density", None)):
        return Target(found)
    raise InputError(
        f"{where} must be a log density, a Target, a PyMC model or a function that returns one, but it gave "
        f"{type(found).__name__}. Return tempering.Target(log_density)."
    )
