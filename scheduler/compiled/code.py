"""The compiler of our functions: how LLVM optimises loops with many branches over few items, how parts are
compiled for their callers only, and which signatures are remembered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from llvmlite import binding  # type: ignore[import-untyped]
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import types as numba_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FindLiterallyCalls,
    InlineClosureLikes,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    RewriteDynamicRaises,
    WithLifting,
)

from scheduler.compiled.items import LoweringOfItems

types: Any = numba_types

MOST_INLINED = 25
"""Larger functions are called unless they are `inlined`, in LLVM's units of cost; its own limit is 225."""

_NOT_NEEDED = {
    DeadBranchPrune,
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineOverloads,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    NopythonRewrites,
    RewriteDynamicRaises,
    WithLifting,
}
"""Of Numba's passes over the source: our functions have no closures, contexts, exceptions, or expressions of
whole arrays."""
_INSTEAD_OF: dict[Any, Any] = {NativeLowering: LoweringOfItems}


class Code(JITCodeLibrary):
    """Code without vectorised or unrolled loops, which take longer to compile and are no faster here.

    Numba optimises each module twice, to remove counts of references between; here there are none.
    """

    def _passes(self) -> Any:
        options = binding.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = options.loop_interleaving = False
        options.inlining_threshold = MOST_INLINED
        return binding.create_pass_builder(self._codegen._tm, options)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        passes = self._passes()
        of_function = passes.getFunctionPassManager()
        for function in ll_module.functions:
            of_function.run(function, passes)

    def _optimize_final_module(self) -> None:
        passes = self._passes()
        passes.getModulePassManager().run(self._final_module, passes)


class Compiler(CompilerBase):
    """Numba's compiler with other code."""

    code: type[Code] = Code

    def define_pipelines(self) -> list[Any]:
        state: Any = self.state
        new_library, builder = cast(Any, self.code), cast(Any, DefaultPassBuilder)
        state.library = new_library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes = builder.define_nopython_pipeline(state)
        found = [each for each in passes.passes if each[0] not in _NOT_NEEDED]
        passes.passes = [(_INSTEAD_OF.get(each, each), what) for each, what in found]
        passes.finalize()
        return [passes]


class _CodeOfPart(Code):
    """Code that is neither optimised nor turned into machine code, since callers include it before they are.

    Numba does both for each function that it compiles, together with all that it calls: with ten levels of
    calls, ten times.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


@cast(Any, register_pass)(mutates_CFG=False, analysis_only=True)
class _OnlyForCallers(LoweringPass):
    """Tells callers where the code is; Numba does so only for what is also turned into machine code."""

    _name = "only_for_callers"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def run_pass(self, state: Any) -> bool:
        made = state["cr"]
        fndesc = made.fndesc
        key = _dynfunc.make_function(
            fndesc.lookup_module(),
            fndesc.qualname,
            "only for compiled callers",
            0,
            made.env,
            (state.library,),
        )
        state.targetctx.insert_user_function(key, fndesc, [state.library])
        state["cr"] = made._replace(cfunc=key)
        return True


class CompilerOfParts(Compiler):
    """The compiler without its last steps."""

    code = _CodeOfPart

    def define_pipelines(self) -> list[Any]:
        self.state.flags.no_compile = True
        (passes,) = super().define_pipelines()
        passes.add_pass_after(_OnlyForCallers, LoweringOfItems)
        passes.finalize()
        return [passes]


def typed_once(part: Any) -> Any:
    """The part, without versions of its own for arguments that are known numbers.

    Numba makes one for each such number; where the caller counts on from it, also one that is not used.
    """
    template = part.get_call_template

    def of_any_number(args: Any, kws: Any) -> Any:
        return template(tuple(map(types.unliteral, args)), kws)

    part.get_call_template = of_any_number
    return part


options: Any = ConfigStack
_look_for = types.BaseFunction.get_call_type


@contextmanager
def signatures_remembered() -> Iterator[None]:
    """For each addition, comparison, and call of `min` or `len`, Numba tries all implementations there are,
    when it infers types and again when it writes code. Within this context, it remembers the one it found: a
    seventh of the time that compilation takes.

    Numba compiles an implementation anew for callers with other options, such as whether they are inlined, so
    these are remembered with it. The code is the same as without this context."""
    types.BaseFunction.get_call_type = _remembered
    try:
        yield
    finally:
        types.BaseFunction.get_call_type = _look_for


def _remembered(function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
    call, given = (tuple(arguments), tuple(sorted(keywords.items()))), options.top_or_none()
    values = None if given is None else given._values  # those that are set; to compare all takes longer
    by_options = vars(function).setdefault("remembered_signatures", {}).setdefault(call, [])
    found = next((each for each in by_options if each[0] == values), None)
    if found is None:
        signature = _look_for(function, context, arguments, keywords)
        found = None if values is None else dict(values), signature, function._impl_keys[signature.args]
        by_options.append(found)
    _, signature, function._impl_keys[signature.args] = found
    return signature
