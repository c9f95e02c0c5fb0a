"""Operators that no reference can compute from what is public, and why."""

from __future__ import annotations

_SCHEDULE = "its schedule holds addresses in the memory of other devices, which the NumPy backend does not have"
_PACKING = "how the compressed weight is packed is described nowhere"
_CHECK = "its kernel is not public, and its document says neither what result holds nor how the statistics are updated"

REASONS = {  # by C name
    "aclnnAttentionWorkerCombine": _SCHEDULE,
    "aclnnFfnWorkerBatching": _SCHEDULE,
    "aclnnHansDecode": "the stream of HansEncode is described nowhere",
    "aclnnHansEncode": "the stream that it writes is described nowhere",
    "aclnnInplaceAttentionWorkerScheduler": _SCHEDULE,
    "aclnnInplaceFfnWorkerScheduler": _SCHEDULE,
    "aclnnMatmulCompress": _PACKING,
    "aclnnMatmulCompressDequant": _PACKING,
    "aclnnQuantConvolutionWeightNz": "the host does not store tensors in FRACTAL_Z_3D",
    "aclnnSilentCheck": _CHECK,
    "aclnnSilentCheckV2": _CHECK,
    "aclnnTransConvolutionWeight": "it makes a weight in FRACTAL_Z, which the host does not store",
    "aclnnTransMatmulWeight": "host tensors do not change their format in place; Tensor.to_format gives the weight",
    "aclnnWeightQuantPreprocess": "it makes a weight in FRACTAL_NZ_C0_32, which the host does not store",
}
