"""For the layer's check: two steps of training in MindSpore, and an operator on a stream that is waited for at the end only."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="Ascend")
x, y, w = (
    Tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32)) for shape in ((64, 32), (64, 16), (32, 16))
)


def loss(weight):
    distance = mint.tanh(mint.matmul(x, weight)) - y
    return mint.mean(distance * distance)


for _ in range(2):
    value, gradient = ms.value_and_grad(loss, 0)(w)
    w = w - 0.1 * gradient
    value.asnumpy()
with ms.runtime.StreamCtx(ms.runtime.Stream()):
    late = mint.neg(w)
ms.runtime.synchronize()
