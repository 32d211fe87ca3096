"""How single items of arrays are read and written: an index is never negative.

Numba counts a negative index from the end of the array, which takes longer to compile and to run. In our
functions, one that is negative, or not below the length, is a mistake; with NUMBA_BOUNDSCHECK=1 in the
environment it raises IndexError, and otherwise something outside of the array is read or written.
"""

from __future__ import annotations

from typing import Any, cast

from numba import core
from numba.core import config
from numba.core import types as numba_types
from numba.core.compiler_machinery import register_pass
from numba.core.ir import Expr, StaticSetItem
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

cgutils: Any = core.cgutils
types: Any = numba_types
IS_CHECKED: bool = cast(Any, config).BOUNDSCHECK == 1


class _Lowering(Lower):
    context: Any
    builder: Any
    typeof: Any
    loadvar: Any

    def lower_inst(self, inst: Any) -> Any:
        if isinstance(inst, StaticSetItem) and self._is_item(inst.target, inst.index_var):
            return self._write(inst.target, inst.index_var, inst.value)
        return super().lower_inst(inst)  # type: ignore[no-untyped-call]

    def lower_expr(self, resty: Any, expr: Expr) -> Any:
        if expr.op == "static_getitem" and self._is_item(expr.value, expr.index_var):
            return self._read(resty, expr.value, expr.index_var)
        return super().lower_expr(resty, expr)  # type: ignore[no-untyped-call]

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        if self._is_item(value, index):
            return self._read(resty, value, index)
        return super().lower_getitem(resty, expr, value, index, signature)  # type: ignore[no-untyped-call]

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        if self._is_item(target_var, index_var):
            return self._write(target_var, index_var, value_var)
        return super().lower_setitem(target_var, index_var, value_var, signature)  # type: ignore[no-untyped-call]

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Without a description for debuggers, for which LLVM would be asked for each size."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)

    def _is_item(self, array: Any, index: Any) -> bool:
        of, at = self.typeof(array.name), index and self.typeof(index.name)
        indices = at.types if isinstance(at, types.BaseTuple) else (at,)
        return (
            isinstance(of, types.Array)
            and of.layout == "C"
            and len(indices) == of.ndim
            and all(isinstance(each, types.Integer) for each in indices)
        )

    def _read(self, resty: Any, array: Any, index: Any) -> Any:
        kind = self.typeof(array.name).dtype
        item = self.context.unpack_value(self.builder, kind, self._place(array, index))
        return self.context.cast(self.builder, item, kind, resty)

    def _write(self, array: Any, index: Any, value: Any) -> None:
        kind, given = self.typeof(array.name).dtype, self.typeof(value.name)
        item = self.context.cast(self.builder, self.loadvar(value.name), given, kind)
        self.context.pack_value(self.builder, kind, item, self._place(array, index))

    def _place(self, array: Any, index: Any) -> Any:
        """The address of the item."""
        builder, of, at = self.builder, self.loadvar(array.name), self.typeof(index.name)
        position = self.context.data_model_manager[self.typeof(array.name)].get_field_position
        indices = self.loadvar(index.name)
        if isinstance(at, types.BaseTuple):
            pairs = zip(cgutils.unpack_tuple(builder, indices), at.types, strict=True)
        else:
            pairs = zip((indices,), (at,), strict=True)
        offset = None
        for axis, (each, kind) in enumerate(pairs):
            each = self.context.cast(builder, each, kind, types.intp)
            if IS_CHECKED or offset is not None:
                length = builder.extract_value(of, (position("shape"), axis))
            if IS_CHECKED:
                self._check(each, length)
            offset = each if offset is None else builder.add(builder.mul(offset, length), each)
        return builder.gep(builder.extract_value(of, position("data")), [offset])

    def _check(self, index: Any, length: Any) -> None:
        with cgutils.if_unlikely(self.builder, self.builder.icmp_unsigned(">=", index, length)):
            text = f"an index is out of bounds: {self.loc}"
            self.context.call_conv.return_user_exc(self.builder, IndexError, (text,), loc=self.loc)


@cast(Any, register_pass)(mutates_CFG=True, analysis_only=False)
class LoweringOfItems(NativeLowering):
    """Numba's pass with other code for items of arrays."""

    _name = "lowering_of_items"

    @property
    def lowering_class(self) -> type[Lower]:
        return _Lowering
