"""Operators that no reference can compute from what is public, and why."""

from __future__ import annotations

# The context of the operators below is a structure of addresses and handles (mc2_moe_context.h, engram_fetch_utils.h)
# that a program fills itself. None of them has an argument that names a communicator, so a reference cannot know the ranks.
_CONTEXT = (
    "it has no group argument: its context holds only the addresses of all ranks' buffers, which programs get from "
    "HcclGetHcclBuffer and HcclChannelGetHcclBuffer, and neither the NumPy backend nor the emulated HCCL has such "
    "addresses"
)
_CHANNELS = (
    "it has no group argument, and the table is none either: its context holds only the addresses of all ranks' tables, in "
    "memory that programs register with HCCL, and the channels to them from HcclChannelAcquire, and neither the NumPy "
    "backend nor the emulated HCCL has these"
)
_OBFUSCATION = (
    "what it adds is drawn in the trusted environment of the device, from keys that a program opened at fdToClose puts there and "
    "that nobody else may read"
)
_PACKING = (
    "its weight comes packed by a tool of CANN's (a matrix compressed in tiles, with an index) whose format no document and no "
    "public source describes, so there are no bytes that a reference could unpack"
)
_CHECK = (
    "its kernel is not public, and its document gives neither a formula for result nor the update of the running "
    "statistics, on which later answers depend"
)

REASONS = {  # by C name
    "aclnnEngramFetch": _CHANNELS,
    "aclnnEngramFetchGrad": _CHANNELS,
    "aclnnEngramFetchWait": _CHANNELS,
    "aclnnMatmulCompress": _PACKING,
    "aclnnMatmulCompressDequant": _PACKING,
    "aclnnMegaMoe": _CONTEXT,
    "aclnnMoeDistributeCombineV5": _CONTEXT,
    "aclnnMoeDistributeDispatchV5": _CONTEXT,
    "aclnnMoeEpCombine": _CONTEXT,
    "aclnnMoeEpDispatch": _CONTEXT,
    "aclnnMoeEpDispatchEpilogue": _CONTEXT,
    "aclnnObfuscationCalculate": _OBFUSCATION,
    "aclnnObfuscationCalculateV2": _OBFUSCATION,
    "aclnnObfuscationSetup": _OBFUSCATION,
    "aclnnObfuscationSetupV2": _OBFUSCATION,
    "aclnnSilentCheck": _CHECK,
    "aclnnSilentCheckV2": _CHECK,
    "aclnnTransConvolutionWeight": (
        "its first phase turns the caller's weightOut into a tensor in FRACTAL_Z, and a Tensor keeps the format that it was made "
        "with; weights.calculate_convolution_weight_size gives its size"
    ),
    "aclnnTransMatmulWeight": "host tensors do not change their format in place; Tensor.to_format gives the weight",
}
