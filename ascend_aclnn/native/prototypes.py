"""The prototypes of the compiled helper's functions, of ``csrc``, for ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

_number, _int32, _int64, _uint64 = ctypes.c_int, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
_size, _step = ctypes.c_size_t, ctypes.c_ssize_t
_pointer, _bytes, _float = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float

# By name without "ascend_native_": what is returned (None: nothing) and the arguments. A structure is passed as bytes.
_PROTOTYPES: dict[str, tuple[Any, Sequence[Any]]] = {
    "instructions": (_bytes, []),
    "use": (_number, [_bytes]),
    "conversion": (_bytes, [_number]),
    "convert": (None, [_number, _pointer, _pointer, _size, _size, _step, _step]),
    "cut_off": (None, [_number, _pointer, _pointer, _size]),
    "look_up": (None, [_pointer, _pointer, _pointer, _size, _size]),
    "run": (None, [_bytes, _size, _bytes, _size, _size, _bytes, _size, _bytes, _size, _pointer]),
    "run_placed": (_number, [_pointer, _bytes]),
    "exp": (None, [_pointer, _pointer, _size]),
    "log": (None, [_pointer, _pointer, _size]),
    "sum": (None, [_pointer, _pointer, _size, _size, _step]),
    "add_columns": (None, [_number, _pointer, _pointer, _size, _size, _step]),
    "add_runs": (None, [_pointer, _number, _pointer, _size, _step, _pointer, _pointer, _size, _size, _pointer]),
    "add_rows": (None, [_number, _pointer, _pointer, _pointer, _size, _pointer, _pointer, _size, _size, _pointer]),
    "combine": (None, [_number, _pointer, _size, _pointer, _pointer, _pointer, _size, _size, _size]),
    "running_sum": (None, [_number, _number, _pointer, _pointer, _size, _size, _step, _step, _number]),
    "nll": (_number, [_bytes]),
    "layer_norm": (None, [_bytes]),
    "layer_norm_gradient": (None, [_bytes, _pointer]),
    "group_norm": (None, [_bytes, _pointer, _pointer]),
    "multiplies_bf16": (_number, []),
    "multiply_bf16": (None, [_bytes, _pointer, _pointer]),
    "product_memory": (_int64, []),
    "multiplies_few_rows": (_number, []),
    "multiply_few_rows": (None, [_bytes]),
    "maxima": (None, [_pointer, _size, _bytes, _pointer, _pointer]),
    "window_sums": (None, [_pointer, _size, _bytes, _pointer, _pointer]),
    "scatter": (_number, [_number, _pointer, _pointer, _size, _size, _size, _pointer, _pointer]),
    "resample": (None, [*[_pointer] * 4, *[_size] * 5]),
    "pad": (None, [_size, *[_pointer] * 3, *[_size] * 7]),
    "exponentials": (None, [_pointer, _size, _size, _float, _pointer, _pointer]),
    "rotary": (None, [_number, _pointer, _pointer, _pointer, _pointer, _size, _size, _size]),
    "choose": (None, [_pointer, _size, _size, _size, _int32, _pointer]),
    "fill": (None, [_size, _pointer, _uint64, _pointer, _size]),
    "triangle": (None, [_pointer, _pointer, *[_size] * 5, _int64, _number]),
    "philox": (None, [_uint64, _pointer, _size, _pointer, _size, _pointer, _size]),
    "call": (_number, [_pointer, _bytes, _pointer, _number]),
}


def declare(library: ctypes.CDLL) -> None:
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, f"ascend_native_{name}")
        function.restype, function.argtypes = result, list(arguments)


__all__ = ["declare"]
