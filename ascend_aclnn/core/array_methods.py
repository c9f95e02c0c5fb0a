"""What a Tensor does like an ndarray: Python's operators, NumPy's functions, reductions, text.

The work is done by aclnn operators, which ``tensor_operators`` provides through ``Operators``.
"""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Callable, Optional, TypeVar, Union, cast

from ascend_aclnn.core import printing
from ascend_aclnn.core.dtypes import DTypeLike, Format, as_datatype
from ascend_aclnn.core.stored import StoredTensor

Axis = Union[int, Sequence[int], None]
T = TypeVar("T", bound="ArrayMethods")
F = TypeVar("F", bound=Callable[..., Any])


class Operators(abc.ABC):
    """The aclnn operators behind the methods of Tensors, provided by ``tensor_operators``."""

    @abc.abstractmethod
    def binary(self, symbol: str, tensor: Any, other: Any, reflected: bool) -> Any: ...

    @abc.abstractmethod
    def unary(self, symbol: str, tensor: Any) -> Any: ...

    @abc.abstractmethod
    def matmul(self, left: Any, right: Any) -> Any: ...

    @abc.abstractmethod
    def cast(self, tensor: Any, dtype: Any) -> Any: ...

    @abc.abstractmethod
    def copy(self, tensor: Any) -> Any: ...

    @abc.abstractmethod
    def to_format(self, tensor: Any, format: Format) -> Any: ...

    @abc.abstractmethod
    def index(self, tensor: Any, keys: Sequence[Any]) -> Any: ...

    @abc.abstractmethod
    def set_index(self, tensor: Any, keys: Sequence[Any], values: Any) -> None: ...

    @abc.abstractmethod
    def reduce(self, name: str, tensor: Any, axes: Optional[tuple[int, ...]], keepdims: bool, option: Any) -> Any:
        """A reduction along some axes (None: all); ``option`` is the dtype of sum and prod, the correction of std and var."""

    @abc.abstractmethod
    def in_place_of(self, function: str) -> str:
        """The functions of ``ops`` that do what NumPy's function of a name does: "ops.exp(x)"; "" where none does."""

    @abc.abstractmethod
    def namespace(self, api_version: Optional[str]) -> Any:
        """The module of the Array API; ValueError for a version that it does not have."""


_operators: Optional[Operators] = None
_load_operators: Optional[Callable[[], object]] = None


def set_operators(operators: Operators) -> None:
    """Registers the implementation of the methods of Tensors."""
    global _operators
    _operators = operators


def set_operator_loader(load: Callable[[], object]) -> None:
    """Registers the function that registers the operators, called at their first use."""
    global _load_operators
    _load_operators = load


def get_operators() -> Operators:
    if _operators is None and _load_operators is not None:
        _load_operators()
    if _operators is None:
        raise RuntimeError("no operators on Tensors before ascend_aclnn is imported as a whole")
    return _operators


def axes_of(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Axes, one or several, counted from 0; IndexError for one that is not there, ValueError for one that stands twice."""
    numbers = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [operator.index(n) for n in numbers]
    for n in axes:
        if not -ndim <= n < ndim:
            raise IndexError(f"axis {n} is out of bounds for a tensor of rank {ndim}")
    axes = [n % ndim for n in axes]
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis} names an axis twice")
    return tuple(axes)


# Python's operators that NumPy calls by these functions where an ndarray stands on the left.
_UFUNCS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "true_divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "power": "**",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _not_for_numpy(method: F) -> F:
    """A method that NumPy's function of its name would call, with an ``out`` that it does not have."""

    @functools.wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        if "out" in options:
            raise TypeError(_instead(method.__name__, f"x.{method.__name__}()"))
        return method(self, *args, **options)

    return cast(F, called)


def _instead(name: str, write: str) -> str:
    return f"np.{name} takes no Tensor; write {write} for a Tensor, or np.{name}(x.numpy()) for a copy on the host"


class ArrayMethods(StoredTensor):
    """The methods of a Tensor that make new Tensors, and its text."""

    __slots__ = ()

    # ---------------------------------------------------------------------------------------- text
    def __repr__(self) -> str:
        return printing.representation(self)

    def __str__(self) -> str:
        return printing.values_text(self)

    def __format__(self, spec: str) -> str:
        if not self.shape and spec:
            return format(self.item(), spec)
        if spec:
            raise TypeError(f"format {spec!r} is for a 0-d tensor; the shape is {self.shape}")
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks: the metadata and the values."""
        from ascend_aclnn.core.notebook import tensor_html

        return tensor_html(self)

    # ---------------------------------------------------------------------------------------- copies
    def astype(self: T, dtype: DTypeLike) -> T:
        """The values in another data type (aclnnCast)."""
        result: T = get_operators().cast(self, as_datatype(dtype))
        return result

    def copy(self: T) -> T:
        """A contiguous tensor with the same values, dtype and format."""
        result: T = get_operators().copy(self)
        return result

    def __copy__(self: T) -> T:
        return self.copy()

    def __deepcopy__(self: T, memo: object) -> T:
        return self.copy()

    def flatten(self: T) -> T:
        """The elements in one axis, row by row: a view of a contiguous tensor, else of its copy."""
        tensor: Any = self
        result: T = (tensor if tensor.is_contiguous and not tensor.format.private else tensor.copy()).reshape(-1)
        return result

    def __index__(self) -> int:
        """A 0-d tensor of an integer type as a Python int."""
        tensor: Any = self
        host = tensor.dtype.numpy
        if self.shape or host is None or host.kind not in "iu":
            raise TypeError(f"only a 0-d tensor of integers is an index; this is {tensor.dtype.name} {self.shape}")
        return int(tensor.item())

    def __iter__(self: T) -> Iterator[T]:
        """The tensors along the first axis."""
        tensor: Any = self
        return (tensor[i] for i in range(len(tensor)))

    # ---------------------------------------------------------------------------------------- reductions
    @_not_for_numpy
    def sum(self: T, axis: Axis = None, dtype: Optional[DTypeLike] = None, keepdims: bool = False) -> T:
        """The sum of all elements or along some axes; of integers in INT64."""
        return self._reduce("sum", axis, keepdims, dtype)

    @_not_for_numpy
    def prod(self: T, axis: Axis = None, dtype: Optional[DTypeLike] = None, keepdims: bool = False) -> T:
        """The product of all elements or along some axes; of integers in INT64."""
        return self._reduce("prod", axis, keepdims, dtype)

    @_not_for_numpy
    def mean(self: T, axis: Axis = None, keepdims: bool = False) -> T:
        """The mean of all elements or along some axes; of integers in FLOAT."""
        return self._reduce("mean", axis, keepdims)

    @_not_for_numpy
    def std(self: T, axis: Axis = None, keepdims: bool = False, correction: int = 0) -> T:
        """The standard deviation; the divisor is the number of elements less ``correction``."""
        return self._reduce("std", axis, keepdims, correction)

    @_not_for_numpy
    def var(self: T, axis: Axis = None, keepdims: bool = False, correction: int = 0) -> T:
        """The variance; the divisor is the number of elements less ``correction``."""
        return self._reduce("var", axis, keepdims, correction)

    @_not_for_numpy
    def max(self: T, axis: Axis = None, keepdims: bool = False) -> T:
        """The largest element of all or along some axes."""
        return self._reduce("max", axis, keepdims)

    @_not_for_numpy
    def min(self: T, axis: Axis = None, keepdims: bool = False) -> T:
        """The smallest element of all or along some axes."""
        return self._reduce("min", axis, keepdims)

    @_not_for_numpy
    def any(self: T, axis: Axis = None, keepdims: bool = False) -> T:
        """Whether an element is not zero, of all or along some axes; BOOL."""
        return self._reduce("any", axis, keepdims)

    @_not_for_numpy
    def all(self: T, axis: Axis = None, keepdims: bool = False) -> T:
        """Whether no element is zero, of all or along some axes; BOOL."""
        return self._reduce("all", axis, keepdims)

    def argmax(self: T, axis: Optional[int] = None, keepdims: bool = False) -> T:
        """The index of the first largest element, of the flattened tensor or along an axis; INT64."""
        return self._reduce("argmax", axis, keepdims)

    def argmin(self: T, axis: Optional[int] = None, keepdims: bool = False) -> T:
        """The index of the first smallest element, of the flattened tensor or along an axis; INT64."""
        return self._reduce("argmin", axis, keepdims)

    def _reduce(self: T, name: str, axis: Axis, keepdims: bool, option: Any = None) -> T:
        axes = None if axis is None else axes_of(axis, len(self.shape))
        result: T = get_operators().reduce(name, self, axes, keepdims, option)
        return result

    # ---------------------------------------------------------------------------------------- operators
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """What an ndarray's own operators call: ``array + t``. Any other function of NumPy is a TypeError, not a copy."""
        name = ufunc.__name__
        if method == "__call__" and not options and len(inputs) == 2 and not isinstance(inputs[0], ArrayMethods):
            left, right = inputs
            if name == "matmul":
                return get_operators().matmul(left, right)
            if name in _UFUNCS:
                symbol = _UFUNCS[name]
                if symbol in _MIRRORED:
                    return right._compare(_MIRRORED[symbol], left)
                return right._binary(symbol, left, True)
        if "out" in options:
            raise TypeError(f"np.{name} cannot write a Tensor's values into an ndarray; write  a = a + t  for  a += t")
        write = f"x {_UFUNCS[name]} y" if name in _UFUNCS else get_operators().in_place_of(name) or "an operator of ops"
        raise TypeError(_instead(name, write))

    def __array_namespace__(self, *, api_version: Optional[str] = None) -> Any:
        """The Array API's namespace, ``ascend_aclnn.array_api``."""
        return get_operators().namespace(api_version)

    def _binary(self: T, symbol: str, other: Any, reflected: bool = False) -> T:
        result: T = get_operators().binary(symbol, self, other, reflected)
        return result

    def _compare(self: T, symbol: str, other: Any) -> T:
        result = self._binary(symbol, other)
        if result is NotImplemented and symbol in ("==", "!="):  # otherwise Python would compare identities
            raise TypeError(f"a Tensor cannot be compared with a {type(other).__name__}; `is` compares identities")
        return result

    __hash__ = object.__hash__

    def __eq__(self: T, other: object) -> T:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self: T, other: object) -> T:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self: T, other: Any) -> T:
        return self._compare("<", other)

    def __le__(self: T, other: Any) -> T:
        return self._compare("<=", other)

    def __gt__(self: T, other: Any) -> T:
        return self._compare(">", other)

    def __ge__(self: T, other: Any) -> T:
        return self._compare(">=", other)

    def __add__(self: T, other: Any) -> T:
        return self._binary("+", other)

    def __radd__(self: T, other: Any) -> T:
        return self._binary("+", other, True)

    def __sub__(self: T, other: Any) -> T:
        return self._binary("-", other)

    def __rsub__(self: T, other: Any) -> T:
        return self._binary("-", other, True)

    def __mul__(self: T, other: Any) -> T:
        return self._binary("*", other)

    def __rmul__(self: T, other: Any) -> T:
        return self._binary("*", other, True)

    def __truediv__(self: T, other: Any) -> T:
        return self._binary("/", other)

    def __rtruediv__(self: T, other: Any) -> T:
        return self._binary("/", other, True)

    def __floordiv__(self: T, other: Any) -> T:
        return self._binary("//", other)

    def __rfloordiv__(self: T, other: Any) -> T:
        return self._binary("//", other, True)

    def __mod__(self: T, other: Any) -> T:
        return self._binary("%", other)

    def __rmod__(self: T, other: Any) -> T:
        return self._binary("%", other, True)

    def __pow__(self: T, other: Any) -> T:
        return self._binary("**", other)

    def __rpow__(self: T, other: Any) -> T:
        return self._binary("**", other, True)

    def __and__(self: T, other: Any) -> T:
        return self._binary("&", other)

    def __rand__(self: T, other: Any) -> T:
        return self._binary("&", other, True)

    def __or__(self: T, other: Any) -> T:
        return self._binary("|", other)

    def __ror__(self: T, other: Any) -> T:
        return self._binary("|", other, True)

    def __xor__(self: T, other: Any) -> T:
        return self._binary("^", other)

    def __rxor__(self: T, other: Any) -> T:
        return self._binary("^", other, True)

    def __lshift__(self: T, other: Any) -> T:
        return self._binary("<<", other)

    def __rlshift__(self: T, other: Any) -> T:
        return self._binary("<<", other, True)

    def __rshift__(self: T, other: Any) -> T:
        return self._binary(">>", other)

    def __rrshift__(self: T, other: Any) -> T:
        return self._binary(">>", other, True)

    def __matmul__(self: T, other: Any) -> T:
        result: T = get_operators().matmul(self, other)
        return result

    def __rmatmul__(self: T, other: Any) -> T:
        result: T = get_operators().matmul(other, self)
        return result

    def __neg__(self: T) -> T:
        result: T = get_operators().unary("-", self)
        return result

    def __pos__(self: T) -> T:
        return self

    def __abs__(self: T) -> T:
        result: T = get_operators().unary("abs", self)
        return result

    def __invert__(self: T) -> T:
        result: T = get_operators().unary("~", self)
        return result
