"""The compiler of functions that only compiled functions call: their code is completed in that of callers."""

from __future__ import annotations

from typing import Any, cast

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import types
from numba.core.compiler_machinery import LoweringPass, register_pass

from scheduler.compiled.code import Code, Compiler
from scheduler.compiled.items import LoweringOfItems


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
