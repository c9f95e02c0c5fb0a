"""vllm-ascend 0.23.0's own operators: prototypes, rules and references, by what its headers and kernels say.

Importing the package declares all of them: ``ascend_aclnn.ops`` has their functions then.

ascend-aclnn emulator run --cann 9.0.0 --operators vllm_ascend_operators -- PROGRAM
"""

from __future__ import annotations

from vllm_ascend_operators import (
    attention,
    cache,
    communication,
    connections,
    indexer,
    indexing,
    kernels,
    latent,
    matmul,
    moe,
    norm,
    recurrent,
    speculation,
    triton,
)

__all__ = [
    "attention",
    "cache",
    "communication",
    "connections",
    "indexer",
    "indexing",
    "kernels",
    "latent",
    "matmul",
    "moe",
    "norm",
    "recurrent",
    "speculation",
    "triton",
]
