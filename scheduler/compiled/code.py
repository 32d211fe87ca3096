"""The compiler of our functions: how LLVM optimises loops with many branches over few items."""

from __future__ import annotations

from typing import Any, cast

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
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
