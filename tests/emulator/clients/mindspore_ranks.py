"""A rank of a program in MindSpore: collectives, and gradients that are averaged over the ranks."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, ops
from mindspore.communication import get_group_size, get_rank, init

ms.set_device("Ascend")
init()
rank, size = get_rank(), get_group_size()
parts = [np.random.default_rng(r).normal(size=(4, 6)).astype(np.float32) for r in range(size)]
mine = Tensor(parts[rank])

np.testing.assert_allclose(ops.AllReduce()(mine).asnumpy(), sum(parts), rtol=1e-6, atol=1e-6)
np.testing.assert_array_equal(ops.AllGather()(mine).asnumpy(), np.concatenate(parts))
np.testing.assert_allclose(ops.ReduceScatter()(mine).asnumpy(), np.split(sum(parts), size)[rank], rtol=1e-6, atol=1e-6)
np.testing.assert_array_equal(ops.Broadcast(1)((Tensor(parts[rank]),))[0].asnumpy(), parts[1])  # writes into its input

w = ms.Parameter(Tensor(np.ones((6, 1), np.float32)))
step = ms.grad(lambda data: mint.sum(mint.square(mint.matmul(data, w))), None, [w])
found = ops.AllReduce()(step(mine)[0]).asnumpy() / size
wanted = sum(2 * p.T.astype(np.float64) @ (p @ np.ones((6, 1))) for p in parts) / size
np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
print(f"rank {rank} of {size} is right")
