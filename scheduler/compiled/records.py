"""Records of arrays in compiled code: a named tuple is one pointer, and a field is read where it is used.

Numba itself makes each number that describes an array an argument of its own: hundreds for a record of
records, in each call of each function. That took 10 to 40 % more time to compile, and the loops
were a tenth slower.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import core, extending
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.typing.templates import AttributeTemplate
from numba.np.numpy_support import as_dtype

cgutils: Any = core.cgutils
numba: Any = extending


class Record(types.Type):
    """A class of named tuples, whose fields have these types."""

    def __init__(self, of: type, fields: tuple[Any, ...]) -> None:
        self.instance_class = of
        self.fields = dict(zip(get_type_hints(of), fields, strict=True))
        super().__init__(name=f"{of.__module__}.{of.__qualname__}")


class RecordByHandle(Record):
    """The same in calls from Python that give handles."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.instance_class, tuple(record.fields.values()))
        self.name += " by its handle"


class Handle(int):
    """The address of the description of a named tuple of arrays, made by `handle_of`, and what it needs."""

    kept: tuple[Any, ...]


def handle_of(record: tuple[Any, ...]) -> Handle:
    words, kept = list[int](), list[Any]()
    for each in record:
        if isinstance(each, np.ndarray):
            # The members of the compiler's arrays: no owner, twice, and what follows.
            words += [0, 0, each.size, each.itemsize, each.ctypes.data, *each.shape, *each.strides]
            kept.append(each)
        else:
            words.append(handle_of(each))
            kept.append(words[-1])
    description = np.array(words, dtype=np.int64)
    handle = Handle(description.ctypes.data)
    handle.kept = description, *kept
    return handle


def record_type(of: type, fields: tuple[Any, ...]) -> Record:
    """Also that of a named tuple in a call from Python, if its fields have these types."""
    record, as_tuple = Record(of, fields), numba.typeof_impl.dispatch(tuple)

    def type_of(value: Any, context: Any) -> Any:
        found = tuple(numba.typeof_impl(each, context) for each in value)
        return record if found == fields else as_tuple(value, context)

    numba.typeof_impl.register(of, type_of)
    return record


def record_at(record: Record) -> Any:
    """A compiled function: the record with this handle."""

    def at(_: Any, handle: Any) -> Any:
        def pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(record))

        return record(types.int64), pointer

    return numba.intrinsic(at)


@numba.register_model(Record)
@numba.register_model(RecordByHandle)
class _Pointer(PrimitiveModel):
    """To what describes the fields."""

    def __init__(self, models: Any, record: Record) -> None:
        fields = [models.lookup(field).get_data_type() for field in record.fields.values()]
        super().__init__(models, record, ir.LiteralStructType(fields).as_pointer())  # type: ignore[no-untyped-call]


@numba.infer_getattr
class _Fields(AttributeTemplate):
    key = Record

    def generic_resolve(self, record: Record, name: str) -> Any:  # type: ignore[override]
        return record.fields.get(name)


@numba.infer_getattr
class _FieldsByHandle(_Fields):
    key = RecordByHandle  # type: ignore[assignment]


def _read(context: Any, builder: Any, record: Record, pointer: Any, name: str) -> Any:
    place, kind = [*record.fields].index(name), record.fields[name]
    if isinstance(kind, types.Array):
        return _array(context, builder, kind, pointer, place)
    return context.data_model_manager[kind].from_data(builder, _constant(builder, pointer, place))


def _array(context: Any, builder: Any, kind: types.Array, pointer: Any, place: int) -> Any:
    """Its shape and where its data are; all else follows, since it is contiguous and owned elsewhere."""
    model = context.data_model_manager[kind]
    at = model.get_field_position
    n_bytes = as_dtype(kind.dtype).itemsize
    shape = [_constant(builder, pointer, place, at("shape"), x) for x in range(kind.ndim)]
    n_items, strides = shape[-1], [context.get_constant(types.intp, n_bytes)]
    for length in reversed(shape[:-1]):
        strides.insert(0, builder.mul(n_items, strides[-1]))
        n_items = builder.mul(n_items, length)
    array = ir.Constant(model.get_value_type(), None)
    for x in range(kind.ndim):
        array = builder.insert_value(array, shape[x], (at("shape"), x))
        array = builder.insert_value(array, strides[x], (at("strides"), x))
    array = builder.insert_value(array, n_items, at("nitems"))
    array = builder.insert_value(array, context.get_constant(types.intp, n_bytes), at("itemsize"))
    return builder.insert_value(array, _constant(builder, pointer, place, at("data")), at("data"))


def _constant(builder: Any, pointer: Any, *place: int) -> Any:
    """What is there, which does not change while the function runs, whatever is written to arrays."""
    value = builder.load(cgutils.gep_inbounds(builder, pointer, 0, *place))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _from_python(record: Record, value: Any, c: Any) -> Any:
    """Its description, on the stack of the caller."""
    builder, api = c.builder, c.pyapi
    description = cgutils.alloca_once(builder, c.context.get_value_type(record).pointee)
    is_wrong = cgutils.false_bit
    for x, field in enumerate(record.fields.values()):
        each, at = api.tuple_getitem(value, x), cgutils.gep_inbounds(builder, description, 0, x)
        if isinstance(field, types.Array):
            failed = cgutils.is_not_null(
                builder, api.numba_array_adaptor(each, builder.bitcast(at, api.voidptr))
            )
        else:
            native = c.unbox(field, each)
            builder.store(c.context.data_model_manager[field].as_data(builder, native.value), at)
            failed = native.is_error
        is_wrong = builder.or_(is_wrong, failed)
    with builder.if_then(is_wrong, likely=False):
        api.err_set_string("PyExc_TypeError", f"this is no {record.name}")
    # A barrier: if the function is inlined here, no read of a constant moves before it.
    same = ir.FunctionType(description.type, [description.type])
    return numba.NativeValue(
        builder.asm(same, "", "=r,0,~{memory}", [description], side_effect=True), is_error=is_wrong
    )


def _from_handle(record: RecordByHandle, value: Any, c: Any) -> Any:
    address = c.pyapi.long_as_voidptr(value)
    return numba.NativeValue(c.builder.bitcast(address, c.context.get_value_type(record)))


for _kind, _unbox in ((Record, _from_python), (RecordByHandle, _from_handle)):
    numba.lower_getattr_generic(_kind)(_read)
    numba.unbox(_kind)(_unbox)
