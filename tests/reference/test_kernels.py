"""References of kernels that clients launch as binaries: prototypes, arguments, memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from ascend_aclnn.reference import kernels
from ascend_aclnn.reference.kernels import DataError, Pointer, kernel


@pytest.fixture(autouse=True)
def own_kernels() -> Iterator[None]:
    before = dict(kernels.KERNELS)
    yield
    kernels.KERNELS.clear()
    kernels.KERNELS.update(before)


class Arguments(ctypes.Structure):
    """The same arguments, laid out by C's rules."""

    _fields_ = [
        ("x", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
        ("scale", ctypes.c_float),
        ("step", ctypes.c_int32),
        ("y", ctypes.c_void_p),
        ("last", ctypes.c_uint32),
        ("wide", ctypes.c_int64),
        ("small", ctypes.c_double),
    ]


def test_arguments_lie_as_a_c_structure_has_them() -> None:
    taken: list[object] = []

    @kernel(
        """extern "C" __global__ __aicore__ void of_a_test(GM_ADDR x, uint32_t count, float scale, int32_t step,
        __gm__ half *y, const uint32_t last, int64_t wide, double small);"""
    )
    def of_a_test(*values: object) -> None:
        taken.extend(values)

    entry = kernels.find("of_a_test")
    assert entry is not None and entry.size == ctypes.sizeof(Arguments)
    sent = Arguments(0x1000, 7, 0.5, -3, None, 2**32 - 1, -(2**40), 1e300)
    x, count, scale, step, y, last, wide, small = entry.read(bytes(sent) + b"more")
    assert (x.address, x.name, bool(x), bool(y)) == (0x1000, "x", True, False)
    assert (count, scale, step, last, wide, small) == (7, 0.5, -3, 2**32 - 1, -(2**40), 1e300)
    with pytest.raises(DataError, match="have 3 bytes; the registered prototype needs 56"):
        entry.read(b"abc")


def test_a_kernel_writes_through_its_pointers() -> None:
    @kernel(
        "void doubled_of_a_test(GM_ADDR x, GM_ADDR y, uint32_t count)",
        "void twice_of_a_test(void *x, void *y, int count)",
    )
    def doubled(x: Pointer, y: Pointer, count: int) -> None:
        if y:
            y.array((count, 1), np.float16)[...] = x.array((count, 1), np.float16) * 2

    for name in ("doubled_of_a_test", "twice_of_a_test"):
        x, y = np.arange(4, dtype=np.float16), np.zeros(4, np.float16)
        kernels.run(name, x, y, 3)
        assert y.tolist() == [0, 2, 4, 0]
        kernels.run(name, x, None, 3)
    with pytest.raises(DataError, match=r"y: is 0x.*; 10 bytes are read or written there"):
        kernels.run("doubled_of_a_test", np.zeros(5, np.float16), y, 5)
    with pytest.raises(ValueError, match="x is not contiguous"):
        kernels.run("doubled_of_a_test", x[::2], y, 2)
    with pytest.raises(ValueError, match="2 arguments; the prototype has 3"):
        kernels.run("doubled_of_a_test", x, y)


def test_a_kernel_is_held_to_its_declaration() -> None:
    @kernel(
        "void declared_of_a_test(GM_ADDR x, GM_ADDR y, uint32_t count, uint32_t more)",
        reads=lambda x, y, count, more: {"x": 2 * count},
        writes=lambda x, y, count, more: {"y": 2 * count},
    )
    def declared(x: Pointer, y: Pointer, count: int, more: int) -> None:
        if more == 9:
            x.array(count, np.float16)[...] = 0
        y.array(count + more, np.float16)[...] = x.array(count, np.float16) * 2

    x, y = np.arange(4, dtype=np.float16), np.zeros(4, np.float16)
    kernels.run("declared_of_a_test", x, y, 3, 0)
    assert y.tolist() == [0, 2, 4, 0]
    with pytest.raises(
        DataError, match="y: has 8 bytes read or written; the kernel's declaration says 0 read and 6 written"
    ):
        kernels.run("declared_of_a_test", x, y, 3, 1)
    with pytest.raises(ValueError, match="read-only"):
        kernels.run("declared_of_a_test", x, y, 3, 9)
    with pytest.raises(ValueError, match="reads and writes are declared together"):
        kernel("void alone_of_a_test(GM_ADDR x)", reads=lambda x: {})

    @kernel("void wrong_of_a_test(GM_ADDR x)", reads=lambda x: {"z": 8}, writes=lambda x: {})
    def wrong(x: Pointer) -> None:
        raise AssertionError("it is not called")

    with pytest.raises(DataError, match="z: is declared with 8 bytes; pointers of the prototype are x"):
        kernels.run("wrong_of_a_test", x)


def test_memory_that_nobody_has_is_refused() -> None:
    with pytest.raises(DataError, match="x: is 0x10; 8 bytes are read or written there"):
        Pointer(16, "x").array(4, np.float16)
    assert Pointer(0, "x").array((0, 3), np.float16).shape == (0, 3)


@pytest.mark.parametrize(
    ("prototype", "expected"),
    [
        ("int f(GM_ADDR x)", "is no prototype of the form"),
        ("void f(half scale)", "'half scale'; types are GM_ADDR"),
        ("void f(GM_ADDR)", "'GM_ADDR'; types are"),
    ],
)
def test_a_prototype_that_cannot_be_read_is_named(prototype: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        kernel(prototype)
