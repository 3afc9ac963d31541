"""Compile functions that only compiled code calls, at a fraction of Numba's price.

By itself Numba optimises a function, with all that it calls linked in, and makes machine code of it, before the
function that calls it gets the same, with all of it again: in a tall tower of small functions that is most of the time.
And it compiles a function anew for every whole number written out in a call. Here both are left out: inner functions
are handed over as they are, once for each type, and optimised together with the function that Python calls.

An outer function, which Python calls, says that nobody else calls the inner ones in it. Then the optimiser may change
how they are called. Numba hands over a tuple of arrays as some ten words for each array, at every call: with nine
arrays that takes two thirds of the time of small functions.

This leans on parts of Numba that it does not promise to keep. Versions on which it was not tried compile inner
functions as Numba does by itself: slower, with the same results.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite.binding import Linkage
from numba import _dynfunc, njit, types
from numba.core import codegen, compiler, typed_passes
from numba.core.compiler_machinery import PassManager, register_pass

Function = TypeVar("Function", bound=Callable[..., object])

TRIED = ("0.65",)  # versions of Numba


def inner_function(function: Function, **options: Any) -> Function:
    """Compile a function for compiled code alone, by Numba's ``njit`` with these options."""
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if not is_tried():
        return cast(Function, njit(**options)(function))
    found = njit(**options, pipeline_class=_Compiler)(function)
    template_of = found.get_call_template

    def without_literals(args: Any, kws: Any) -> Any:
        return template_of(tuple(map(types.unliteral, args)), {name: types.unliteral(a) for name, a in kws.items()})

    found.get_call_template = without_literals
    return cast(Function, found)


def outer_function(function: Function, **options: Any) -> Function:
    """Compile a function that Python calls, with the inner functions it calls for itself alone."""
    if is_tried():
        options |= {"pipeline_class": _OuterCompiler}
    return cast(Function, njit(**options)(function))


def digest_of_sources(folder: Path) -> str:
    """Return a digest of a model's sources that are compiled or name constants of such, and of what compiles them."""
    found = hashlib.sha1(usedforsecurity=False)
    own = [Path(__file__).with_stem(stem) for stem in ("inner_functions", "states")]
    for path in [*own, *sorted(folder.glob("*.py"))]:
        source = path.read_bytes()
        is_one = path.stem in ("compiled", "layout", "state_type") or path in own
        if is_one or f"{folder.name}.compiled import".encode() in source:
            found.update(source)
    return found.hexdigest()[:10]


def is_tried() -> bool:
    """Say whether this is a version of Numba on which it was tried."""
    return numba.__version__.rpartition(".")[0] in TRIED


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code that waits for the function that calls it: it is neither optimised nor made machine code of."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return no address: there is none."""
        self._ensure_finalized()
        return 0


class _Whole(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code that keeps the functions linked into it for itself, under names of its own.

    LLVM's loader knows functions by name, those that are nobody else's too: another library that has the same function
    would be given this one, which may be called otherwise. Numba counts references by name.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            is_shared = not function.is_declaration and function.linkage == Linkage.linkonce_odr
            if is_shared and not function.name.startswith("NRT_"):
                function.linkage = Linkage.internal
                function.name = f"{function.name}.of.{self.name}"
        super()._optimize_final_module()


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Numba's own, into a library that keeps what is linked into it."""

    _name = "lowering_of_outer_function"

    def run_pass(self, state: Any) -> bool:
        state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Numba's own, into a library that waits."""

    _name = "lowering_of_inner_function"

    def run_pass(self, state: Any) -> bool:
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        state.library._ensure_finalized()
        name = lowered.fndesc.qualname.split(".")[-1]
        handle = _dynfunc.make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(handle, lowered.fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = lowered._replace(cfunc=handle)
        return True


class _Compiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's passes, but for the last."""

    lowering = _Lowering

    def compile_extra(self, func: Any) -> Any:
        """Compile without collecting garbage: it would go through all that a compiler holds, again and again."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if was_on:
                gc.enable()

    def define_pipelines(self) -> list[Any]:
        """Return the only list of passes."""
        passes = PassManager("inner function")
        for each, why in compiler.DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            passes.add_pass(self.lowering if each is typed_passes.NativeLowering else each, why)
        passes.finalize()
        return [passes]


class _OuterCompiler(_Compiler):
    """The same for functions that Python calls."""

    lowering = _OuterLowering
