"""The text of Tensors: values as NumPy shows them, and what NumPy does not know.

Of a large tensor only what is shown is copied from the device.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core import hifloat8
from ascend_aclnn.core.errors import AclError

THRESHOLD = 1000  # elements; of more, only those at the edges are shown, as NumPy does
EDGE = 3


def representation(tensor: Any) -> str:
    """``Tensor([1., 2.], FLOAT, npu:0)``; the shape, format and strides where the values do not tell them."""
    values = _shown(tensor, ", ", "Tensor(")
    facts = [tensor.dtype.name, f"{tensor.backend.name}:{tensor.device}"]
    if values is None or tensor.size > THRESHOLD or tensor.size == 0:
        facts.insert(0, f"shape={tensor.shape}")
    if tensor.format.name != "ND":
        facts.insert(-1, tensor.format.name)
    if not tensor.is_contiguous or tensor.offset:
        facts.insert(-1, f"strides={tensor.strides}, offset={tensor.offset}")
    return f"Tensor({', '.join(([] if values is None else [values]) + facts)})"


def values_text(tensor: Any) -> str:
    """The values, as ``print`` shows an ndarray's; what ``repr`` shows where there are none to see."""
    values = _shown(tensor, " ", "")
    return repr(tensor) if values is None else values


def _shown(tensor: Any, separator: str, prefix: str) -> Optional[str]:
    """The values as text; None where nothing has been written, or the host cannot read them."""
    if tensor.dtype.numpy is None or any(n < 0 for n in tensor.shape):
        return None
    if tensor.size and not tensor.storage.has_memory:
        return None  # empty() reserves memory at the first touch, and looking is none
    unread = why_unread(tensor)
    if unread:
        return unread
    try:
        array = tensor.numpy() if tensor.size <= THRESHOLD or tensor.format.private else _edges(tensor)
    except (AclError, ValueError) as error:  # a device that has failed, a blocked format that the host cannot read
        return f"<{type(error).__name__}: {str(error).splitlines()[0]}>"
    if array.dtype == hifloat8.DTYPE:
        array = hifloat8.decode(array)
    threshold = 0 if tensor.size > THRESHOLD else THRESHOLD
    return np.array2string(array, separator=separator, prefix=prefix, threshold=threshold, edgeitems=EDGE)


def why_unread(tensor: Any) -> str:
    """Why a tensor's values cannot be looked at now; "" where they can."""
    graph = tensor.storage.graph
    if graph is not None and not graph.replayed:
        return "<captured, not run yet>"
    # reading may be refused, and must not disturb the capture
    return "<not read while a stream is captured>" if tensor.backend.captures else ""


def _edges(tensor: Any) -> npt.NDArray[Any]:
    """A small array that NumPy abridges to the same text: the edges of each axis, and one element between them."""
    count = tensor.shape[0]
    if tensor.ndim == 1:
        parts = [tensor[: EDGE + 1].numpy(), tensor[count - EDGE :].numpy()] if count > 2 * EDGE else [tensor.numpy()]
        return np.concatenate(parts)
    rows = range(count) if count <= 2 * EDGE else (*range(EDGE + 1), *range(count - EDGE, count))
    return np.stack([_edges(tensor[i]) for i in rows])
