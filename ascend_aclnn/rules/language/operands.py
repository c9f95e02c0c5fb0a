"""Words for operators that work element by element: their data types, and the usual checks of one or two operands.

Many operators exist in two forms, ``aclnnX(self, ..., out)`` and ``aclnnInplaceX(selfRef, ...)``, with the same checks on
other names; ``in_both_forms`` declares both.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language.call import Call, Check, DtypeRule, Shape, carries, refuses
from ascend_aclnn.rules.language.data_types import (
    DtypeSet,
    can_cast,
    castable,
    dtype_of,
    dtypes,
    is_complex,
    is_floating,
    is_integral,
    output_dtype,
    promote,
    promoted,
    same_dtype,
)
from ascend_aclnn.rules.language.declare import rule
from ascend_aclnn.rules.language.expressions import dtype_rule
from ascend_aclnn.rules.language.groups import on_operators, only_products
from ascend_aclnn.rules.language.layout import max_rank
from ascend_aclnn.rules.language.shapes import broadcast_shape, broadcast_shapes, output_shape, same_shape, shape_of

__all__ = [
    "INPLACE",
    "binary_promoted",
    "broadcast_of_list",
    "by_product",
    "checked",
    "combine",
    "elementwise",
    "floated",
    "has_common",
    "in_both_forms",
    "in_place",
    "joined_by_scalar",
    "max_rank_if_strided",
    "no_bool",
    "no_null_item",
    "not_complex",
    "number",
    "one_operand",
    "pair",
    "real_of",
    "scalar_default",
    "takes_dtype",
    "with_scalar",
]

# ``aliases``: the C names of in-place forms.
INPLACE = {"self": "selfRef inputRef input", "out": "selfRef inputRef self"}


def in_both_forms(names: str, *words: Check, **options: Any) -> None:
    """Declares aclnnX and aclnnInplaceX of several names in one rule; an in-place form's tensor is ``self`` and ``out``."""
    rule(" ".join(f"aclnn{name} aclnnInplace{name}" for name in names.split()), *words, aliases=INPLACE, **options)


def in_place(*words: Check) -> Check:
    """What applies to the in-place forms of a rule."""
    return on_operators("aclnnInplace*", *words)


# --------------------------------------------------------------------------------------------------- data types


def floated(source: Union[DtypeRule, str]) -> DtypeRule:
    """FLOAT for integers and BOOL, else the data type itself."""
    inner = dtype_of(source) if isinstance(source, str) else source

    @carries(inner)
    def dtype(call: Call) -> DataType:
        came = inner(call)
        return DataType.FLOAT if is_integral(came, with_bool=True) else came

    return dtype


def real_of(name: str) -> DtypeRule:
    """The data type of a complex tensor's parts; other data types stay."""
    parts = {
        DataType.COMPLEX32: DataType.FLOAT16,
        DataType.COMPLEX64: DataType.FLOAT,
        DataType.COMPLEX128: DataType.DOUBLE,
    }
    return lambda call: parts.get(call.dtype(name), call.dtype(name))


_AS_COMPLEX = {
    DataType.BF16: DataType.COMPLEX64,
    DataType.FLOAT16: DataType.COMPLEX32,
    DataType.FLOAT: DataType.COMPLEX64,
    DataType.DOUBLE: DataType.COMPLEX128,
}


def scalar_default(dtype: DataType) -> DataType:
    """How a scalar counts beside a tensor: only its category matters, in single precision."""
    if is_complex(dtype):
        return DataType.COMPLEX64
    return DataType.FLOAT if is_floating(dtype) else dtype


def combine(higher: DataType, lower: DataType) -> DataType:
    """The data type of a tensor with dimensions (``higher``) and a 0-d tensor or scalar; DT_UNDEFINED if there is none."""
    if is_complex(higher):
        return higher
    if is_complex(lower):
        return _AS_COMPLEX.get(higher, lower)
    if is_floating(higher):
        return higher
    if higher is DataType.BOOL or is_floating(lower):
        return promote(higher, lower)
    return higher


def with_scalar(tensor: str, scalar: str) -> DtypeRule:
    """The data type of a tensor combined with a scalar: how Ascend 950 computes, and what binding allocates."""

    @refuses("dtype/promotion", scalar)
    def dtype(call: Call) -> DataType:
        both = combine(call.dtype(tensor), scalar_default(call.dtype(scalar)))
        if both is DataType.COMPLEX32:
            return DataType.COMPLEX64
        return _promoted(call, both, tensor, scalar)

    return dtype


def joined_by_scalar(tensor: str, scalar: str) -> DtypeRule:
    """How products before Ascend 950 compute: a tensor keeps its data type unless the scalar is of a higher category."""

    def dtype(call: Call) -> DataType:
        a, b = call.dtype(tensor), call.dtype(scalar)
        joined = is_complex(a) or is_complex(b) or (not is_floating(a) and (is_floating(b) or a is DataType.BOOL))
        return promote(a, b) if joined else a

    return dtype


def binary_promoted(first: str, second: str) -> DtypeRule:
    """Two tensors' common type; on Ascend 950 a 0-d tensor beside one with dimensions counts like a scalar."""
    plain = promoted(first, second)

    @refuses("dtype/promotion", second)
    def dtype(call: Call) -> DataType:
        a, b = call[first], call[second]
        if call.product != "950" or (a.ndim > 0) == (b.ndim > 0):
            return plain(call)
        high, low = (a, b) if a.ndim > 0 else (b, a)
        return _promoted(call, combine(high.dtype, low.dtype), first, second)

    return dtype


def _promoted(call: Call, dtype: DataType, first: str, second: str) -> DataType:
    if dtype is DataType.DT_UNDEFINED:
        call.refuse(
            second,
            f"has dtype {call.dtype(second).name}, which does not promote with {call.dtype(first).name}",
            check="dtype/promotion",
        )
    return dtype


def by_product(products: str, here: DtypeRule, elsewhere: DtypeRule) -> DtypeRule:
    """One DtypeRule on some products, another on the rest."""
    chosen = products.split()
    return carries(here, elsewhere)(lambda call: here(call) if call.product in chosen else elsewhere(call))


def checked(source: DtypeRule) -> DtypeRule:
    """A data type that an earlier check has found to exist: what is made of it refuses nothing on its account."""
    return lambda call: source(call)


def no_bool(source: DtypeRule, instead: str) -> DtypeRule:
    """Another data type where a rule gives BOOL, because the kernel has none for it."""
    member = DataType[instead]

    @carries(source)
    def dtype(call: Call) -> DataType:
        came = source(call)
        return member if came is DataType.BOOL else came

    return dtype


def takes_dtype(source: Union[DtypeRule, str], *names: str) -> Check:
    """Tensors and scalars can be cast to the data type that is computed in; absent ones pass."""
    computed_in = dtype_rule(source)

    @refuses("dtype/cast", *names, carry=[computed_in], other=source if isinstance(source, str) else "")
    def check(call: Call) -> None:
        target = computed_in(call)
        for name in names:
            if call.is_present(name) and not can_cast(call.dtype(name), target):
                came = call.dtype(name)
                text = f"has dtype {came.name}, which cannot be cast to {target.name}"
                call.refuse(name, text, cause=("cast", {"came": came, "allowed": target}), check="dtype/cast")

    return check


def not_complex(*names: str) -> Check:
    """Tensors and scalars are real; absent ones pass."""

    @refuses("dtype/complex", *names)
    def check(call: Call) -> None:
        for name in names:
            if call.is_present(name) and is_complex(call.dtype(name)):
                call.refuse(name, f"has dtype {call.dtype(name).name}; it must be real", check="dtype/complex")

    return check


def has_common(source: DtypeRule, name: str) -> Check:
    """There is a data type to compute in; ``name`` is the parameter to blame."""

    @refuses("dtype/promotion", name, carry=[source])
    def check(call: Call) -> None:
        if source(call) is DataType.DT_UNDEFINED:
            call.refuse(
                name,
                f"has dtype {call.dtype(name).name}, which does not promote with the other operand's",
                check="dtype/promotion",
            )

    return check


# --------------------------------------------------------------------------------------------------- shapes, nulls


def broadcast_of_list(name: str) -> Callable[[Call], Shape]:
    """The shape to which the tensors of a list broadcast."""

    @refuses("shape/broadcast", name)
    def shape_(call: Call) -> Shape:
        total: Shape = ()
        for tensor in call.tensors(name):
            both = broadcast_shapes(total, tensor.shape)
            if both is None:
                call.refuse(
                    name,
                    f"has a tensor of shape {tensor.shape}, which does not broadcast with {total}",
                    check="shape/broadcast",
                )
            total = both
        return total

    return shape_


def no_null_item(*names: str) -> Check:
    """Tensor lists have no null pointer among their items."""

    @refuses("null/item", *names, status=PARAM_NULLPTR)
    def check(call: Call) -> None:
        for name in names:
            if any(item is None for item in call[name] or ()):
                call.refuse(name, "has None (a null pointer) among its tensors", PARAM_NULLPTR, check="null/item")

    return check


def max_rank_if_strided(*names: str) -> Check:
    """At most 8 dimensions, unless all the tensors are contiguous."""
    limited = max_rank(8, *names)

    @carries(limited)
    def check(call: Call) -> None:
        if not all(t.is_contiguous for name in names for t in call.tensors(name)):
            limited(call)

    return check


def number(call: Call, name: str) -> Union[int, float, complex]:
    """The value of an aclScalar."""
    value: Union[int, float, complex] = call[name].value
    return value


# --------------------------------------------------------------------------------------------------- constructors


def one_operand(
    self_dtypes: DtypeSet,
    out_dtypes: Optional[DtypeSet] = None,
    result_dtype: Optional[Callable[[str], DtypeRule]] = None,
    inplace_dtypes: Optional[DtypeSet] = None,
    most_axes: Optional[int] = 8,
    allocated_dtype: Optional[DtypeRule] = None,
) -> tuple[Check, ...]:
    """Words about ``self``, and about ``out`` of its shape and (unless other arguments say more) its data type.

    ``out_dtypes`` lists the output's data types; ``result_dtype`` gives that of the result (``floated``, ``real_of``), which
    must be castable to the output's; ``allocated_dtype`` is the one to allocate if that is not plain from these;
    ``inplace_dtypes`` limits what the in-place form takes.
    """
    result = (result_dtype or (floated if out_dtypes is not None else dtype_of))("self")
    return (
        dtypes(self_dtypes, "self"),
        *((dtypes(out_dtypes, "out"),) if out_dtypes is not None else ()),
        *((castable(result, "out"),) if result_dtype is not None else ()),
        *((same_dtype("self", "out"),) if out_dtypes is None and result_dtype is None else ()),
        *((in_place(dtypes(inplace_dtypes, "self")),) if inplace_dtypes is not None else ()),
        output_shape(out="self"),
        output_dtype(out=allocated_dtype or result),
        *((max_rank(most_axes, "self"),) if most_axes is not None else ()),
    )


def pair(*names: str, out: str, most: int = 8) -> tuple[Check, ...]:
    """Inputs of at most 8 dimensions that broadcast to exactly the output's shape."""
    return max_rank(most, *names), output_shape(**{out: broadcast_shape(*names)})


def elementwise(names: str, products: str, takes: DtypeSet, inputs: str, out: str, *checks: Check) -> None:
    """Declares operators on some products whose tensors all have one data type and one shape, without broadcasting."""
    first, *others = inputs.split()
    for name in names.split():
        rule(
            f"aclnn{name}",
            only_products(products),
            dtypes(takes, first),
            same_dtype(first, *others, out),
            max_rank(8, first),
            same_shape(first, *others),
            output_shape(**{out: shape_of(first)}),
            output_dtype(**{out: dtype_of(first)}),
            *checks,
        )
