"""A program in MindSpore: softmax regression by gradient descent, compared with its formulas in float64."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops

ms.set_device("Ascend")
STEPS, RATE = 10, 0.5
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 16)).astype(np.float32)
labels = rng.integers(0, 5, 64)
weights = rng.normal(0, 0.1, (16, 5)).astype(np.float32)


def expected() -> tuple[list[float], np.ndarray]:
    w, losses = weights.astype(np.float64), []
    for _ in range(STEPS):
        scores = x @ w
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        losses.append(float(-np.log(shares[np.arange(64), labels]).mean()))
        w -= RATE * x.T.astype(np.float64) @ (shares - np.eye(5)[labels]) / 64
    return losses, w


class Model(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(Tensor(weights))

    def construct(self, data: Tensor) -> Tensor:
        return mint.matmul(data, self.w)


model = Model()
target = Tensor(labels.astype(np.int64))
step = ms.value_and_grad(
    lambda data: mint.nn.functional.cross_entropy(model(data), target), None, model.trainable_params()
)
optimizer = mint.optim.SGD(model.trainable_params(), lr=RATE)
losses = []
for _ in range(STEPS):
    loss, gradients = step(Tensor(x))
    optimizer(gradients)
    losses.append(float(loss.asnumpy()))
wanted, w = expected()
np.testing.assert_allclose(losses, wanted, rtol=2e-6)
np.testing.assert_allclose(model.w.asnumpy(), w, rtol=1e-5, atol=1e-6)
print("ok: training")


@ms.jit
def layer(a: Tensor, b: Tensor) -> Tensor:
    return ops.relu(ops.matmul(a, b)) + 1


np.testing.assert_allclose(
    layer(Tensor(x), Tensor(weights)).asnumpy(), np.maximum(x @ weights, 0) + 1, rtol=1e-5, atol=1e-6
)
print("ok: jit")

product = mint.matmul(Tensor(x).astype(ms.bfloat16), Tensor(weights).astype(ms.bfloat16))
np.testing.assert_allclose(product.astype(ms.float32).asnumpy(), x @ weights, rtol=0.02, atol=0.02)
print("ok: bfloat16")

try:
    nn.Dense(16, 4)(Tensor(x)).asnumpy()  # through the graph engine's operators
except RuntimeError as error:
    assert "OperatorFactory" in str(error), error
    print("ok: refused")
