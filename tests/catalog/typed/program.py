"""What a user may write, strictly typed: mypy and pyright check it; the tests also run it on the NumPy backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import ascend_aclnn as aclnn
from ascend_aclnn import ops


def layer(x: npt.NDArray[np.float32], gamma: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    y, rstd = ops.rms_norm(x, gamma)
    assert rstd.shape[-1] == 1
    again = ops.rms_norm(x, gamma, epsilon=1e-5).y
    product: npt.NDArray[Any] = ops.mm(y, np.eye(y.shape[1], dtype=np.float32))
    return ops.add(product, again, 1.5)


def on_device(x: aclnn.Tensor) -> aclnn.Tensor:
    with aclnn.Stream() as stream:
        y: aclnn.Tensor = ops.relu(x, stream=stream)
    halves: list[aclnn.Tensor] = ops.split_tensor(y, 2, 0)
    mixed: aclnn.Tensor = ops.add(halves[0], np.ones(4, np.float32), 1)
    return mixed


def convolution(x: npt.NDArray[np.float32], weight: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    by_position = ops.convolution(x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    by_keyword = ops.convolution(
        x, weight, stride=[1, 1], padding=[0, 0], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1
    )
    out: npt.NDArray[Any] = ops.sub(by_position, by_keyword, 1, out=np.empty_like(by_position))
    return out


def by_hand(x: npt.NDArray[np.float32]) -> int:
    with aclnn.use_backend("numpy"), aclnn.Executor("aclnnRelu", x, x) as executor:
        executor.run()
        return executor.workspace_size


def vendors(x: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    result: npt.NDArray[Any] = aclnn.function("aclnnRelu")(x)
    return result


def results(x: npt.NDArray[np.float32]) -> ops.TopkResult[npt.NDArray[Any]]:
    return ops.topk(x, 2, -1, True, True)


if __name__ == "__main__":
    ones = np.ones((2, 4), np.float32)
    print(layer(ones, ones[0]), results(ones).indices, vendors(-ones), by_hand(ones))
    print(on_device(aclnn.asarray(np.ones((4, 4), np.float32))))
    print(convolution(np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 2, 2), np.float32)))
