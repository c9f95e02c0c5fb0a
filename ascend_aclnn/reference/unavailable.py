"""Operators that no reference can compute from what is public, and why."""

from __future__ import annotations

_SCHEDULE = "its schedule holds addresses in the memory of other devices, which the NumPy backend does not have"
_CONTEXT = "its context holds addresses in the memory of other devices, which the NumPy backend does not have"
_WINDOW = (
    "what it sends stays in the memory of the communicator, where the scheduling operators find it by addresses that the "
    "NumPy backend does not have"
)
_PACKING = "how the compressed weight is packed is described nowhere"
_CHECK = "its kernel is not public, and its document says neither what result holds nor how the statistics are updated"

REASONS = {  # by C name
    "aclnnAttentionToFFN": _WINDOW,
    "aclnnAttentionWorkerCombine": _SCHEDULE,
    "aclnnEngramFetch": _CONTEXT,
    "aclnnEngramFetchGrad": _CONTEXT,
    "aclnnEngramFetchWait": _CONTEXT,
    "aclnnFFNToAttention": _WINDOW,
    "aclnnFfnWorkerBatching": _SCHEDULE,
    "aclnnHansDecode": "the stream of HansEncode is described nowhere",
    "aclnnHansEncode": "the stream that it writes is described nowhere",
    "aclnnInplaceAttentionWorkerScheduler": _SCHEDULE,
    "aclnnInplaceFfnWorkerScheduler": _SCHEDULE,
    "aclnnMatmulCompress": _PACKING,
    "aclnnMatmulCompressDequant": _PACKING,
    "aclnnMoeEpCombine": _CONTEXT,
    "aclnnMoeEpDispatchEpilogue": _CONTEXT,
    "aclnnQuantConvolutionWeightNz": "the host does not store tensors in FRACTAL_Z_3D",
    "aclnnSilentCheck": _CHECK,
    "aclnnSilentCheckV2": _CHECK,
    "aclnnTransConvolutionWeight": "it makes a weight in FRACTAL_Z, which the host does not store",
    "aclnnTransMatmulWeight": "host tensors do not change their format in place; Tensor.to_format gives the weight",
    "aclnnWeightQuantPreprocess": "it makes a weight in FRACTAL_NZ_C0_32, which the host does not store",
}
