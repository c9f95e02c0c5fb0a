"""Operators that no reference can compute from what is public, and why."""

from __future__ import annotations

_SCHEDULE = "its schedule holds addresses in the memory of other devices, which the NumPy backend does not have"
_CONTEXT = (
    "its context holds the addresses of all ranks' buffers, as HcclGetHcclBuffer and HcclChannelGetHcclBuffer give them, "
    "functions that neither the NumPy backend nor the emulated HCCL has"
)
_CHANNELS = (
    "its context holds the addresses of all ranks' tables and the handles of channels to them, as HcclChannelAcquire gives "
    "them, a function that neither the NumPy backend nor the emulated HCCL has"
)
_WINDOW = (
    "it writes into the communicator's buffers of other ranks and has no output; the scheduling operators find what came by "
    "addresses, for which there is no function on the NumPy backend or in the emulated HCCL"
)
_PACKING = "how the compressed weight is packed is described nowhere"
_CHECK = "its kernel is not public, and its document says neither what result holds nor how the statistics are updated"

REASONS = {  # by C name
    "aclnnAttentionToFFN": _WINDOW,
    "aclnnAttentionWorkerCombine": _SCHEDULE,
    "aclnnEngramFetch": _CHANNELS,
    "aclnnEngramFetchGrad": _CHANNELS,
    "aclnnEngramFetchWait": _CHANNELS,
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
