"""What is alive on the emulated device, for tests that must leave nothing behind."""

from __future__ import annotations

import ctypes
import gc

import ascend_aclnn as aclnn


def assert_nothing_left() -> None:
    """No tensor, scalar, executor, event or allocation of the emulated device outlives the test that made it."""
    gc.collect()
    aclnn.synchronize()
    aclnn.empty_cache()
    left = live_objects()
    assert not left, f"left on the emulated device: {left}"


def live_objects() -> dict[str, int]:
    """Live handles and allocations by kind, streams and contexts of the runtime itself excepted."""
    from ascend_aclnn.backends.npu import find_backend

    runtime = ctypes.CDLL(str(find_backend().library_path))
    runtime.aclemuLiveCount.argtypes = [ctypes.c_char_p]
    runtime.aclemuLiveCount.restype = ctypes.c_int64
    kinds = ("tensor", "scalar", "int_array", "float_array", "bool_array", "tensor_list", "scalar_list", "executor")
    counts = {kind: runtime.aclemuLiveCount(kind.encode()) for kind in (*kinds, "event", "allocation")}
    return {kind: count for kind, count in counts.items() if count}
