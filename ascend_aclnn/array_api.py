"""Python's Array API standard, version 2024.12, on aclnn operators: ``xp = x.__array_namespace__()``.

Its arrays are Tensors, and every function is one of aclnn operators, asynchronous on the current stream. Data types are those
of the operators on the SoC in use; float64 in particular is missing from many on a device. ``EXCLUDED`` has what is not there,
and why; ``python -m ascend_aclnn array-api`` prints it. https://data-apis.org/array-api/2024.12 describes the functions.
"""

# mypy: disable-error-code="no-any-return"
# (where the whole package is checked, its operators are made at run time and have no types: ops.pyi is for users)

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

import ml_dtypes
import numpy as np

from ascend_aclnn import creation, ops
from ascend_aclnn.core.array_methods import axes_of
from ascend_aclnn.core.current import current_backend
from ascend_aclnn.core.dtypes import DataType, DTypeLike, as_datatype
from ascend_aclnn.core.tensor import Tensor

VERSIONS = ("2024.12",)
__array_api_version__ = VERSIONS[-1]
EXCLUDED: dict[str, str] = {}
NOTES = (
    "uint16, uint32, uint64: names for storage; CANN's arithmetic and comparisons do not take them",
    "float64 and complex types: as far as CANN's operators take them on the SoC in use",
    "matmul of integers and float64: by multiplying and adding, in memory of all products",
    "shapes that depend on data (nonzero, unique_*, masks): the call waits for the stream",
)


class Exclusion(NamedTuple):
    """Tests of data-apis/array-api-tests that fail, and why."""

    tests: str  # a regular expression that matches the beginning of names like test_linalg.py::test_qr
    reason: str


EXCLUSIONS = (
    Exclusion(
        r"test_array_object\.py::test_[gs]etitem$",
        "slices with a negative step are refused: a slice is a view, and CANN has no negative strides; flip() copies",
    ),
    Exclusion(
        r"test_special_cases\.py::\w+\[(floor_divide|__i?floordiv__)\(.*infinity",
        "floor_divide with infinities gives NaN and -1 as Python's does, which the standard allows and the suite does not",
    ),
    Exclusion(
        r"test_has_names\.py::test_has_names\[linalg-", "the extension linalg is not there; ops.linalg_* is CANN's"
    ),
    Exclusion(
        r"test_has_names\.py::test_has_names\[fft-", "the extension fft is not there: CANN has aclRfft1D and aclStft"
    ),
)

bool = DataType.BOOL
int8, int16, int32, int64 = DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64
uint8, uint16, uint32, uint64 = DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64
float16, bfloat16, float32, float64 = DataType.FLOAT16, DataType.BF16, DataType.FLOAT, DataType.DOUBLE
complex64, complex128 = DataType.COMPLEX64, DataType.COMPLEX128
_INTEGERS = {16: int16, 32: int32, 64: int64}  # of the same bits as a floating-point type
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

Shape = Union[int, Sequence[int]]
Axis = Union[int, Sequence[int], None]
Number = Union[builtins.bool, int, float, complex]
Operand = Union[Tensor, Number]
F = TypeVar("F", bound=Callable[..., Tensor])

_KINDS = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
STORAGE_ONLY = ("uint16", "uint32", "uint64")  # hardly an operator computes with them, not even a comparison
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


# ------------------------------------------------------------------------------------------------------- inspection


class Info:
    """What ``__array_namespace_info__()`` returns."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> int:
        return current_backend().current_device()

    def devices(self) -> list[int]:
        return list(range(current_backend().device_count()))

    def default_dtypes(self, *, device: Optional[int] = None) -> dict[str, DataType]:
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: Optional[int] = None, kind: Any = None) -> dict[str, DataType]:
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        members = (member for name in kinds for member in _KINDS[name] if str(member.numpy) not in STORAGE_ONLY)
        return {str(member.numpy): member for member in members}


def __array_namespace_info__() -> Info:
    return Info()


# ------------------------------------------------------------------------------------------------------- data types


class FloatInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DataType


class IntegerInfo(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: DataType


def _dtype(value: Any) -> DataType:
    return value.dtype if isinstance(value, Tensor) else as_datatype(value)


def _kind(x: Any) -> str:
    """NumPy's letter for a kind of data type: b, i, u, f or c."""
    host = _dtype(x).numpy
    if host is None:
        raise TypeError(f"{_dtype(x).name} has no values on the host")
    return "f" if host.kind == "V" else host.kind


def finfo(type: Union[DataType, Tensor], /) -> FloatInfo:
    dtype = _dtype(type)
    if dtype.numpy is None:
        raise TypeError(f"{dtype.name} is no floating-point type of the host")
    info: Any = ml_dtypes.finfo(np.zeros(0, dtype.numpy).real.dtype)  # type: ignore[no-untyped-call]
    real = as_datatype(info.dtype)
    return FloatInfo(info.bits, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), real)


def iinfo(type: Union[DataType, Tensor], /) -> IntegerInfo:
    dtype = _dtype(type)
    info = np.iinfo(np.dtype(dtype))
    return IntegerInfo(info.bits, int(info.max), int(info.min), dtype)


def isdtype(dtype: DTypeLike, kind: Any) -> builtins.bool:
    member = as_datatype(dtype)
    if isinstance(kind, tuple):
        return builtins.any(isdtype(member, one) for one in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return member in _KINDS[kind] or (kind in ("real floating", "numeric") and member in (float16, bfloat16))
    if isinstance(kind, str):
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(_KINDS)}")
    return member is as_datatype(kind)


def result_type(*arrays_and_dtypes: Any) -> DataType:
    typed = [_dtype(a) for a in arrays_and_dtypes if type(a) not in (builtins.bool, int, float, complex)]
    if not typed:
        raise ValueError("result_type needs at least one tensor or data type")
    host = np.result_type(*(np.dtype(d) for d in typed))
    kinds = "biufc"
    for scalar in arrays_and_dtypes:
        if type(scalar) in (int, float, complex):
            kind = {int: "i", float: "f", complex: "c"}[type(scalar)]
            here = "f" if host.kind == "V" else host.kind
            if kinds.index(kind) > kinds.index(here) and not (kind == "i" and here == "u"):
                default = {"i": np.int64, "f": np.float32, "c": np.complex64}[kind]
                host = np.result_type(host, default) if here == "f" else np.dtype(default)
    return as_datatype(host)


def can_cast(from_: Union[DataType, Tensor], to: DTypeLike, /) -> builtins.bool:
    return np.can_cast(np.dtype(_dtype(from_)), np.dtype(as_datatype(to)))


def astype(x: Tensor, dtype: DTypeLike, /, *, copy: builtins.bool = True, device: Optional[int] = None) -> Tensor:
    wanted = as_datatype(dtype)
    return _on(x if not copy and x.dtype is wanted else x.astype(wanted), device)


def _on(x: Tensor, device: Optional[int]) -> Tensor:
    return x if device is None or device == x.device else x.to_device(device)


def _pair(x1: Operand, x2: Operand) -> tuple[Tensor, Tensor]:
    """Two operands as Tensors of one data type and one shape."""
    dtype = result_type(x1, x2)
    left, right = (_as(x, dtype) for x in (x1, x2))
    if left.shape != right.shape:
        left, right = broadcast_arrays(left, right)
    return left, right


def _as(x: Operand, dtype: DataType) -> Tensor:
    if not isinstance(x, Tensor):
        return creation.asarray(np.asarray(x, np.dtype(dtype)), dtype)
    return x if x.dtype is dtype else x.astype(dtype)


# ------------------------------------------------------------------------------------------------------- creation


def asarray(
    obj: Any,
    /,
    *,
    dtype: Optional[DTypeLike] = None,
    device: Optional[int] = None,
    copy: Optional[builtins.bool] = None,
) -> Tensor:
    if isinstance(obj, Tensor):
        wanted = obj.dtype if dtype is None else as_datatype(dtype)
        if copy is False and wanted is not obj.dtype:
            raise ValueError(f"the tensor is {obj.dtype.name}; {wanted.name} needs a copy")
        return _on(obj.copy() if copy and wanted is obj.dtype else astype(obj, wanted, copy=False), device)
    if copy is False:
        raise ValueError(f"a {type(obj).__name__} cannot become a Tensor without a copy")
    values = np.asarray(obj)
    python = not hasattr(obj, "dtype")
    narrow: dict[str, Any] = {"f": np.float32, "c": np.complex64}
    kind = narrow.get(values.dtype.kind, values.dtype) if python else values.dtype
    return _on(creation.asarray(values, kind if dtype is None else dtype), device)


def empty(shape: Shape, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None) -> Tensor:
    return _on(creation.empty(shape, float32 if dtype is None else dtype), device)


def zeros(shape: Shape, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None) -> Tensor:
    return _on(creation.zeros(shape, float32 if dtype is None else dtype), device)


def ones(shape: Shape, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None) -> Tensor:
    return _on(creation.ones(shape, float32 if dtype is None else dtype), device)


def full(
    shape: Shape, fill_value: Number, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None
) -> Tensor:
    return _on(creation.full(shape, fill_value, dtype), device)


def empty_like(x: Tensor, /, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None) -> Tensor:
    return _on(creation.empty_like(x, dtype), device)


def zeros_like(x: Tensor, /, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None) -> Tensor:
    return _on(creation.zeros_like(x, dtype), device)


def ones_like(x: Tensor, /, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None) -> Tensor:
    return _on(creation.ones_like(x, dtype), device)


def full_like(
    x: Tensor, /, fill_value: Number, *, dtype: Optional[DTypeLike] = None, device: Optional[int] = None
) -> Tensor:
    return _on(creation.full_like(x, fill_value, dtype), device)


def arange(
    start: float,
    /,
    stop: Optional[float] = None,
    step: float = 1,
    *,
    dtype: Optional[DTypeLike] = None,
    device: Optional[int] = None,
) -> Tensor:
    return _on(creation.arange(start, stop, step, dtype), device)


def linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: Optional[DTypeLike] = None,
    device: Optional[int] = None,
    endpoint: builtins.bool = True,
) -> Tensor:
    return _on(creation.linspace(start, stop, num, endpoint, dtype), device)


def eye(
    n_rows: int,
    n_cols: Optional[int] = None,
    /,
    *,
    k: int = 0,
    dtype: Optional[DTypeLike] = None,
    device: Optional[int] = None,
) -> Tensor:
    host = np.eye(n_rows, n_cols, k)
    return _on(creation.asarray(host, float32 if dtype is None else dtype), device)


def from_dlpack(x: Any, /, *, device: Optional[int] = None, copy: Optional[builtins.bool] = None) -> Tensor:
    tensor = x if isinstance(x, Tensor) else creation.from_dlpack(x)
    return _on(tensor.copy() if copy else tensor, device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is {indexing!r}; it must be 'xy' or 'ij'")
    rank = len(arrays)
    axes = list(range(rank))
    if indexing == "xy" and rank > 1:
        axes[:2] = [1, 0]
    shaped = [x.reshape([-1 if i == axis else 1 for i in range(rank)]) for x, axis in zip(arrays, axes)]
    return [x.copy() for x in broadcast_arrays(*shaped)]


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    return ops.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    return ops.triu(x, k)


# ------------------------------------------------------------------------------------------------------- element by element


def _floating(operator: Callable[[Tensor], Tensor], name: str) -> Callable[[Tensor], Tensor]:
    """A function of floating-point tensors."""

    def function(x: Tensor, /) -> Tensor:
        if _kind(x) not in "fc":
            raise TypeError(f"{name} is for floating-point types; x is {x.dtype.name}")
        return operator(x)

    return _named(function, name)


def _rounding(operator: Callable[[Tensor], Tensor], name: str) -> Callable[[Tensor], Tensor]:
    """A function that leaves integers as they are."""

    def function(x: Tensor, /) -> Tensor:
        return operator(x) if _kind(x) in "fc" else x.copy()

    return _named(function, name)


def _named(function: F, name: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The function ``{name}`` of the Array API standard."
    return function


def _symbol(symbol: str, name: str) -> Callable[[Operand, Operand], Tensor]:
    """A function that is one of Python's operators."""

    def function(x1: Operand, x2: Operand, /) -> Tensor:
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype:
            return x1._binary(symbol, x2)
        left, right = _pair(x1, x2)
        return left._binary(symbol, right)

    return _named(function, name)


def _expm1(x: Tensor) -> Tensor:
    """aclnnExpm1, and for float64, which that does not take, Kahan's correction of exp(x) - 1."""
    if _kind(x) == "c":
        return _complex_expm1(real(x), imag(x))
    if x.dtype is not float64:
        return ops.expm1(x)
    power = ops.exp(x)
    less_one = power - 1
    corrected = less_one * x / ops.log(power)
    result = ops.s_where((less_one == 0), x, ops.s_where(less_one == -1, less_one, corrected))
    return ops.s_where(isfinite(power), result, power)


def _tanh(x: Tensor) -> Tensor:
    if _kind(x) == "c":
        return _complex_tanh(real(x), imag(x))
    if x.dtype is not float64:
        return ops.tanh(x)
    shrinking = _expm1(ops.abs(x) * -2)
    return copysign(-shrinking / (shrinking + 2), x)


def _trunc(x: Tensor) -> Tensor:
    return ops.trunc(x) if x.dtype is not float64 else copysign(ops.floor(ops.abs(x)), x)


def _log1p(x: Tensor) -> Tensor:
    return _complex_log1p(real(x), imag(x)) if _kind(x) == "c" else ops.log1p(x)


def _acos(x: Tensor) -> Tensor:
    return _complex_acos(x) if _kind(x) == "c" else ops.acos(x)


# Complex functions that CANN does not have, of its functions of real tensors. ``where`` mends what an infinity times zero, or
# a NaN that does not matter, would spoil; the standard says what is due there.


def _complex_expm1(x: Tensor, y: Tensor) -> Tensor:
    """exp(x) (cos y + i sin y) - 1, without a loss of digits near zero."""
    half = ops.sin(y * 0.5)
    first = _expm1(x) * ops.cos(y) - half * half * 2 + 0  # never -0
    second = ops.s_where(y == 0, y, ops.exp(x) * ops.sin(y))
    endless = isinf(x) & ~isfinite(y)  # no angle: the size alone is known
    first = ops.s_where(endless, ops.s_where(x > 0, x, full_like(x, -1)), first)
    return ops.complex(first, ops.s_where(endless & (x < 0), zeros_like(y), second))


def _complex_tanh(x: Tensor, y: Tensor) -> Tensor:
    """Kahan's formula; 1 with the sign of x, and nearly no imaginary part, where x is large."""
    size = ops.abs(x)
    large = size > 20
    within = ops.s_where(large, zeros_like(x), x)
    slope, sine = ops.tan(y), ops.sinh(within)
    widened = slope * slope + 1
    divisor = widened * sine * sine + 1
    first = widened * ops.sqrt(sine * sine + 1) * sine / divisor
    second = slope / divisor
    tail = ops.sin(y) * ops.cos(y) * 4 * ops.exp(size * -2)
    first = ops.s_where(large, copysign(ones_like(x), x), first)
    first = ops.s_where(x == 0, x, ops.s_where(isfinite(y) | isinf(x), first, full_like(x, nan)))
    second = ops.s_where(large, ops.s_where(isinf(x), copysign(zeros_like(y), y), tail), second)
    return ops.complex(first, ops.s_where(y == 0, y, second))


def _complex_log1p(x: Tensor, y: Tensor) -> Tensor:
    """Half of log1p of what the square of the absolute value of 1 + z exceeds 1 by, where that is small."""
    excess = x * (x + 2) + y * y
    small = ops.abs(excess) < 0.5
    size = ops.s_where(small, ops.log1p(ops.s_where(small, excess, zeros_like(x))) * 0.5, ops.log(hypot(x + 1, y)))
    return ops.complex(size, ops.atan2(y, x + 1))


def _complex_acos(z: Tensor) -> Tensor:
    """Kahan's formula, of the square roots of 1 - z and 1 + z."""
    x, y = real(z), imag(z)
    less, more = ops.sqrt(ops.complex(-x + 1, -y)), ops.sqrt(ops.complex(x + 1, y))
    first = ops.atan2(real(less), real(more)) * 2
    second = asinh(real(more) * imag(less) - imag(more) * real(less))
    endless = isinf(x) | isinf(y)
    first = ops.s_where(endless, ops.atan2(ops.abs(y), x), first)
    first = ops.s_where((x == 0) & isnan(y), full_like(x, pi / 2), first)
    return ops.complex(first, ops.s_where(endless, copysign(full_like(y, inf), -y), second))


def _two(operator: Callable[[Tensor, Tensor], Tensor], name: str) -> Callable[[Operand, Operand], Tensor]:

    def function(x1: Operand, x2: Operand, /) -> Tensor:
        return operator(*_pair(x1, x2))

    return _named(function, name)


acosh, asin, asinh = (_floating(getattr(ops, n), n) for n in ("acosh", "asin", "asinh"))
atan, atanh, cos, cosh = (_floating(getattr(ops, n), n) for n in ("atan", "atanh", "cos", "cosh"))
exp, log = _floating(ops.exp, "exp"), _floating(ops.log, "log")
log2, log10, sin, sinh = (_floating(getattr(ops, n), n) for n in ("log2", "log10", "sin", "sinh"))
sqrt, tan, reciprocal = (_floating(getattr(ops, n), n) for n in ("sqrt", "tan", "reciprocal"))
acos, expm1 = _floating(_acos, "acos"), _floating(_expm1, "expm1")
log1p, tanh = _floating(_log1p, "log1p"), _floating(_tanh, "tanh")
ceil, floor, round = (_rounding(getattr(ops, n), n) for n in ("ceil", "floor", "round"))
trunc = _rounding(_trunc, "trunc")

add, subtract, multiply = _symbol("+", "add"), _symbol("-", "subtract"), _symbol("*", "multiply")
divide, floor_divide = _symbol("/", "divide"), _symbol("//", "floor_divide")
remainder, pow = _symbol("%", "remainder"), _symbol("**", "pow")
bitwise_and, bitwise_or = _symbol("&", "bitwise_and"), _symbol("|", "bitwise_or")
bitwise_xor = _symbol("^", "bitwise_xor")
bitwise_left_shift, bitwise_right_shift = _symbol("<<", "bitwise_left_shift"), _symbol(">>", "bitwise_right_shift")
equal, not_equal = _symbol("==", "equal"), _symbol("!=", "not_equal")
less, less_equal = _symbol("<", "less"), _symbol("<=", "less_equal")
greater, greater_equal = _symbol(">", "greater"), _symbol(">=", "greater_equal")
maximum, minimum = _two(ops.maximum, "maximum"), _two(ops.minimum, "minimum")
atan2, logaddexp = _two(ops.atan2, "atan2"), _two(ops.log_add_exp, "logaddexp")
logical_and, logical_or = _two(ops.logical_and, "logical_and"), _two(ops.logical_or, "logical_or")
logical_xor = _two(ops.logical_xor, "logical_xor")


def abs(x: Tensor, /) -> Tensor:
    if _kind(x) == "c":
        return hypot(real(x), imag(x))
    return x.copy() if _kind(x) == "u" else ops.abs(x)


def negative(x: Tensor, /) -> Tensor:
    return -x


def nextafter(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Counts in the integers of the same bits, which are in the order of the magnitudes."""
    start, end = broadcast_arrays(*_pair(x1, x2))
    integer = _INTEGERS[start.dtype.bits]
    bits = _reinterpreted(start.copy(), integer)
    away = (start > 0) == (end > start)
    stepped = _reinterpreted(ops.s_where(away, bits + 1, bits - 1), start.dtype)
    smallest = _reinterpreted(full((), 1, dtype=integer), start.dtype)
    from_zero = ops.s_where(end > 0, smallest, -smallest)
    result = ops.s_where(start == 0, from_zero, stepped)
    result = ops.s_where(start == end, end, result)
    return ops.s_where(isnan(start) | isnan(end), start + end, result)


def _reinterpreted(x: Tensor, dtype: DataType) -> Tensor:
    """The bits of a new tensor as another type of the same size."""
    return Tensor(x.storage, x.shape, dtype, x.strides, x.offset)


def positive(x: Tensor, /) -> Tensor:
    return x.copy()


def sign(x: Tensor, /) -> Tensor:
    if _kind(x) == "u":
        return (x != 0).astype(x.dtype)
    return ops.sign(x) if _kind(x) != "f" else ops.s_where(isnan(x), x, ops.sign(x))


def square(x: Tensor, /) -> Tensor:
    return x * x


def logical_not(x: Tensor, /) -> Tensor:
    return ops.logical_not(x)


def bitwise_invert(x: Tensor, /) -> Tensor:
    return ~x


def isnan(x: Tensor, /) -> Tensor:
    if _kind(x) == "c":
        return isnan(real(x)) | isnan(imag(x))
    return x != x


def isfinite(x: Tensor, /) -> Tensor:
    if _kind(x) == "c":
        return isfinite(real(x)) & isfinite(imag(x))
    return ops.is_finite(x)


def isinf(x: Tensor, /) -> Tensor:
    if _kind(x) == "c":
        return isinf(real(x)) | isinf(imag(x))
    return zeros(x.shape, dtype=bool) if _kind(x) != "f" else ops.abs(x) == inf


def signbit(x: Tensor, /) -> Tensor:
    return _reinterpreted(x.copy(), _INTEGERS[x.dtype.bits]) < 0


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    left, right = _pair(x1, x2)
    size = ops.abs(left)
    return ops.s_where(signbit(right), -size, size)


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    left, right = (ops.abs(x) for x in _pair(x1, x2))
    larger, smaller = ops.maximum(left, right), ops.minimum(left, right)
    ratio = smaller / ops.s_where(larger == 0, ones_like(larger), larger)  # in range where a square is not
    length = larger * ops.sqrt(ratio * ratio + 1)
    return ops.s_where(isinf(left) | isinf(right), full_like(larger, inf), length)


def clip(x: Tensor, /, min: Optional[Operand] = None, max: Optional[Operand] = None) -> Tensor:
    for limit, function in ((min, maximum), (max, minimum)):
        if limit is not None:
            limit = _as(limit, x.dtype)
            x = function(x, limit)
    return x.copy() if min is None and max is None else x


def real(x: Tensor, /) -> Tensor:
    """A view of the real parts."""
    return _part(x, 0) if _kind(x) == "c" else x.copy()


def imag(x: Tensor, /) -> Tensor:
    """A view of the imaginary parts."""
    if _kind(x) != "c":
        raise TypeError(f"imag is for complex types; x is {x.dtype.name}")
    return _part(x, 1)


def _part(x: Tensor, number: int) -> Tensor:
    dtype = float32 if x.dtype is complex64 else float64
    return Tensor(x.storage, x.shape, dtype, tuple(2 * n for n in x.strides), 2 * x.offset + number)


def conj(x: Tensor, /) -> Tensor:
    result = x.copy()
    if _kind(x) == "c":
        part = imag(result)
        ops.inplace_copy(part, -part)
    return result


# ------------------------------------------------------------------------------------------------------- shapes


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """A view whose repeated elements lie in one place."""
    wanted = tuple(shape)
    lead = len(wanted) - x.ndim
    if lead < 0 or builtins.any(n not in (1, m) for n, m in zip(x.shape, wanted[lead:])):
        raise ValueError(f"shape {x.shape} cannot be broadcast to {wanted}")
    steps = [0 if n == 1 and m != 1 else step for n, m, step in zip(x.shape, wanted[lead:], x.strides)]
    return x.view(wanted, [0] * lead + steps, x.offset)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return [x if x.shape == shape else broadcast_to(x, shape) for x in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: Optional[int] = 0) -> Tensor:
    dtype = result_type(*arrays)
    parts = [_as(x.flatten() if axis is None else x, dtype) for x in arrays]
    return ops.cat(parts, 0 if axis is None else axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    dtype = result_type(*arrays)
    return ops.stack([_as(x, dtype) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    first = moveaxis(x, axis, 0)
    return tuple(first[i] for i in range(first.shape[0]))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    (at,) = axes_of(axis, x.ndim + 1)
    return x[(slice(None),) * at + (None,)]


def squeeze(x: Tensor, /, axis: Axis) -> Tensor:
    return x.squeeze(axis)


def flip(x: Tensor, /, *, axis: Axis = None) -> Tensor:
    along = axes_of(axis, x.ndim)
    return ops.flip(x, list(along)) if along else x.copy()


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    return x.transpose(*axes)


def matrix_transpose(x: Tensor, /) -> Tensor:
    return x.mT


def moveaxis(x: Tensor, source: Axis, destination: Axis, /) -> Tensor:
    sources, targets = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(sources) != len(targets):
        raise ValueError(f"source has {len(sources)} axes, destination {len(targets)}")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, at in sorted(zip(targets, sources)):
        order.insert(target, at)
    return x.transpose(*order)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: Optional[builtins.bool] = None) -> Tensor:
    if copy or not x.is_contiguous:
        if copy is False:
            raise ValueError("the tensor is not contiguous; another shape needs a copy")
        x = x.copy()
    return x.reshape(tuple(shape))


def repeat(x: Tensor, repeats: Union[int, Tensor], /, *, axis: Optional[int] = None) -> Tensor:
    x, axis = (x.flatten(), 0) if axis is None else (x, axes_of(axis, x.ndim)[0])
    if x.dtype is float64 or _kind(x) == "c":  # which RepeatInterleave does not take
        return take(x, repeat(arange(x.shape[axis]), repeats), axis=axis)
    if isinstance(repeats, int):
        return ops.repeat_interleave_int_with_dim(x, repeats, axis, repeats * x.shape[axis])
    counts = _as(broadcast_to(repeats, (x.shape[axis],)), int64).copy()
    return ops.repeat_interleave_with_dim(x, counts, axis, int(counts.sum().item()))


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    times = (1,) * (x.ndim - len(repetitions)) + tuple(repetitions)
    return ops.repeat(x, times)


def roll(x: Tensor, /, shift: Shape, *, axis: Axis = None) -> Tensor:
    if axis is None:
        return roll(x.flatten(), shift, axis=0).reshape(x.shape)
    along = list(axes_of(axis, x.ndim))
    shifts = [shift] * len(along) if isinstance(shift, int) else list(shift)
    return ops.roll(x, shifts, along)


# ------------------------------------------------------------------------------------------------------- linear algebra


def _sum_of_products(x1: Tensor, x2: Tensor) -> Tensor:
    """Matrix products of types that the cube unit has not: by multiplying and adding."""
    return (x1[..., :, :, None] * x2[..., None, :, :]).sum(axis=-2, dtype=x1.dtype)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    if not x1.ndim or not x2.ndim:
        raise ValueError(f"matmul needs a rank of at least 1; the shapes are {x1.shape} and {x2.shape}")
    dtype = result_type(x1, x2)
    left, right = _as(x1, dtype), _as(x2, dtype)
    if _kind(left) == "f" and dtype is not float64:
        return left @ right
    rows, columns = left.ndim == 1, right.ndim == 1
    left, right = left[None] if rows else left, right[:, None] if columns else right
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"matmul of shapes {x1.shape} and {x2.shape}")
    product = _sum_of_products(left, right)
    product = product[..., 0, :] if rows else product
    return product[..., 0] if columns else product


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    if isinstance(axes, int):
        left, right = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    else:
        left, right = axes_of(tuple(axes[0]), x1.ndim), axes_of(tuple(axes[1]), x2.ndim)
    rows = [i for i in range(x1.ndim) if i not in left]
    columns = [i for i in range(x2.ndim) if i not in right]
    inner = math.prod(x1.shape[i] for i in left)
    shape = [*(x1.shape[i] for i in rows), *(x2.shape[i] for i in columns)]
    a = reshape(x1.transpose(*rows, *left) if x1.ndim else x1, (math.prod(x1.shape[i] for i in rows), inner))
    b = reshape(x2.transpose(*right, *columns) if x2.ndim else x2, (inner, math.prod(x2.shape[i] for i in columns)))
    return matmul(a, b).reshape(shape)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    left, right = broadcast_arrays(moveaxis(x1, axis, -1), moveaxis(x2, axis, -1))
    product = (conj(left) if _kind(left) == "c" else left) * right
    return product.sum(-1, dtype=product.dtype)


# ------------------------------------------------------------------------------------------------------- searching and sorting


def argmax(x: Tensor, /, *, axis: Optional[int] = None, keepdims: builtins.bool = False) -> Tensor:
    return x.argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: Optional[int] = None, keepdims: builtins.bool = False) -> Tensor:
    return x.argmin(axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    return (x != 0).sum(axis, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    if not x.ndim:
        raise ValueError("nonzero needs a rank of at least 1")
    places = ops.nonzero(x)
    return tuple(places[:, axis].copy() for axis in range(x.ndim))


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Optional[Tensor] = None) -> Tensor:
    if side not in ("left", "right"):
        raise ValueError(f"side is {side!r}; it must be 'left' or 'right'")
    dtype = result_type(x1, x2)
    order = None if sorter is None else _as(sorter, int64)
    return ops.search_sorted(_as(x1, dtype), _as(x2, dtype), False, side == "right", order)


def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    left, right = _pair(x1, x2)
    return ops.s_where(*broadcast_arrays(condition, left, right))


def sort(x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Tensor:
    return ops.sort(x, stable, axis, descending).values


def argsort(x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Tensor:
    return ops.sort(x, stable, axis, descending).indices


def take(x: Tensor, indices: Tensor, /, *, axis: Optional[int] = None) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ValueError(f"take needs an axis for a tensor of rank {x.ndim}")
    return ops.index_select(x, 0 if axis is None else axes_of(axis, x.ndim)[0], indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    (at,) = axes_of(axis, x.ndim)
    rest = np.broadcast_shapes(*((*t.shape[:at], 1, *t.shape[at + 1 :]) for t in (x, indices)))
    x = broadcast_to(x, (*rest[:at], x.shape[at], *rest[at + 1 :]))
    indices = broadcast_to(indices, (*rest[:at], indices.shape[at], *rest[at + 1 :]))
    return ops.gather(x, at, _as(indices, int64))


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    values, inverse, counts = ops.unique2(x, True, True, True)
    order = ops.sort(x.flatten(), True, 0, False).indices
    first = ops.cumsum(counts, 0) - counts
    return UniqueAll(values, take(order, first, axis=0), inverse.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    values, _, counts = ops.unique2(x, True, False, True)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    values, inverse, _ = ops.unique2(x, True, True, False)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_values(x: Tensor, /) -> Tensor:
    return ops.unique2(x).value


# ------------------------------------------------------------------------------------------------------- statistics


def sum(
    x: Tensor, /, *, axis: Axis = None, dtype: Optional[DTypeLike] = None, keepdims: builtins.bool = False
) -> Tensor:
    return x.sum(axis, dtype, keepdims)


def prod(
    x: Tensor, /, *, axis: Axis = None, dtype: Optional[DTypeLike] = None, keepdims: builtins.bool = False
) -> Tensor:
    return x.prod(axis, dtype, keepdims)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    return x.mean(axis, keepdims)


def max(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    return x.max(axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    return x.min(axis, keepdims)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    return x.any(axis, keepdims)


def all(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    return x.all(axis, keepdims)


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    if float(correction).is_integer():
        return x.var(axis, keepdims, int(correction))
    count = math.prod(x.shape[i] for i in axes_of(axis, x.ndim))
    return x.var(axis, keepdims, 0) * (count / (count - correction))


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _cumulative(
    operator: Callable[..., Tensor],
    start: int,
    x: Tensor,
    axis: Optional[int],
    dtype: Optional[DTypeLike],
    include_initial: builtins.bool,
) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ValueError(f"an axis is needed for a tensor of rank {x.ndim}")
    (along,) = axes_of(0 if axis is None else axis, x.ndim)
    result = operator(x, along, dtype=None if dtype is None else as_datatype(dtype))
    if not include_initial:
        return result
    edge = full((*x.shape[:along], 1, *x.shape[along + 1 :]), start, dtype=result.dtype)
    return ops.cat([edge, result], along)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: Optional[int] = None,
    dtype: Optional[DTypeLike] = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    return _cumulative(ops.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: Optional[int] = None,
    dtype: Optional[DTypeLike] = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    return _cumulative(ops.cumprod, 1, x, axis, dtype, include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Optional[Tensor] = None, append: Optional[Tensor] = None
) -> Tensor:
    (along,) = axes_of(axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = concat(parts, axis=along) if len(parts) > 1 else x
    before: Any = (slice(None),) * along
    for _ in range(n):
        later, earlier = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = later ^ earlier if x.dtype is bool else later - earlier
    return x.copy() if n == 0 else x


_STANDARD = """
__array_namespace_info__ arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
tril triu zeros zeros_like astype can_cast finfo iinfo isdtype result_type abs acos acosh add asin asinh atan atan2 atanh
bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh
divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p
log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal
positive pow real reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc take
take_along_axis matmul matrix_transpose tensordot vecdot broadcast_arrays broadcast_to concat expand_dims flip moveaxis
permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean min prod std
sum var all any diff
"""
FUNCTIONS = tuple(_STANDARD.split())  # every function of the standard, its extensions left out


def report(counts: Mapping[str, int] = MappingProxyType({})) -> str:
    """The share of the standard's functions that are here, and what is excluded, with reasons.

    ``counts`` are the numbers of tests of array-api-tests that fail, by the reason of an exclusion.
    """
    present = [name for name in FUNCTIONS if name in globals()]
    lines = [
        f"Array API {VERSIONS[-1]}: {len(present)} of {len(FUNCTIONS)} functions ({len(present) / len(FUNCTIONS):.1%})"
    ]
    lines += [f"excluded     {name}: {EXCLUDED[name]}" for name in FUNCTIONS if name not in present]
    for reason in dict.fromkeys(exclusion.reason for exclusion in EXCLUSIONS):
        lines.append(f"excluded     {reason}{f' ({counts[reason]} tests)' if reason in counts else ''}")
    lines += [f"note         {note}" for note in NOTES]
    return "\n".join(lines)
