"""Writing at indices and caches in place, element by element."""

from __future__ import annotations

import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64], ids=str)
@pytest.mark.parametrize("index", [np.int32, np.int64], ids=str)
def test_scatter_nd_update_v2(aclnn_backend, dtype, index):
    var = np.arange(4 * 3 * 5).reshape(4, 3, 5).astype(dtype)
    indices = np.array([[2, 1], [0, 2], [-1, -1], [2, 1]], index)  # one is left out, one comes twice
    updates = -np.arange(20).reshape(4, 5).astype(dtype)
    expected = var.copy()
    expected[0, 2], expected[2, 1] = updates[1], updates[3]
    tensor = aclnn.asarray(var)
    ops.scatter_nd_update_v2(tensor, indices, updates, [15, 5, 1])
    assert (tensor.numpy() == expected).all()


def test_scatter_into_a_part_of_a_cache(aclnn_backend):
    """Rows of a view whose rows lie further apart than they are wide."""
    cache = aclnn.asarray(np.zeros((6, 8), np.float32))
    ops.scatter_nd_update_v2(cache[:, 2:5], np.array([[4], [1]]), np.array([[1, 2, 3], [4, 5, 6]], np.float32), [8, 1])
    expected = np.zeros((6, 8))
    expected[4, 2:5], expected[1, 2:5] = [1, 2, 3], [4, 5, 6]
    assert (cache.numpy() == expected).all()


def test_an_index_outside_is_refused(aclnn_backend):
    var = aclnn.asarray(np.zeros((4, 3, 5), np.float32))
    with pytest.raises(aclnn.AclError, match=r"\[1, 4\] is outside of var's \(4, 3\)"):
        ops.scatter_nd_update_v2(var, np.array([[1, 4]]), np.ones((1, 5), np.float32), [15, 5, 1])
        aclnn.synchronize()


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_transpose_kv_cache_by_block(aclnn_backend, parts):
    layers, blocks, size, heads, width = 2, 5, 3, 4, 16
    random = np.random.default_rng(2)
    caches = [random.normal(size=(blocks, size, heads, width)).astype(np.float16) for _ in range(2 * layers)]
    tensors = [aclnn.asarray(cache) for cache in caches]
    ops.transpose_kv_cache_by_block(
        tensors[:layers], tensors[layers:], np.array([3, 0]), size, heads, width, parts, layers
    )
    for cache, tensor in zip(caches, tensors):
        expected, flat = cache.copy(), cache.reshape(blocks, -1)
        for block in (3, 0):
            for token in range(size):
                for head in range(heads):
                    part, within = divmod(head, heads // parts)
                    start = ((part * size + token) * (heads // parts) + within) * width
                    expected[block, token, head] = flat[block, start : start + width]
        assert (tensor.numpy() == expected).all()
