"""Rules of ops-transformer/attention: layouts, statuses of training and inference, products, outputs left away, inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from rule_tools import A2, A3, NEW_950, OLD, by_name, each_case, made, status, t

OK, NULL, INVALID, TILING, RUNTIME, INNER_NULL = 0, 161001, 161002, 561002, 361001, 561103


def half(*shape: int) -> Any:
    return t(shape, "FLOAT16")


def int32(*shape: int) -> Any:
    return t(shape, "INT32")


# (2, 4, 6, 16): batch, heads, queries, width; values 8 wide
Q, K, V = half(2, 4, 6, 16), half(2, 2, 7, 16), half(2, 2, 7, 8)
ROWS = t([2, 4, 6, 8])
FLASH: dict[str, Any] = {
    "query": Q,
    "key": K,
    "value": V,
    "scaleValue": 0.25,
    "keepProb": 1.0,
    "headNum": 4,
    "inputLayout": "BNSD",
    "softmaxMaxOut": ROWS,
    "softmaxSumOut": ROWS,
    "attentionOutOut": half(2, 4, 6, 8),
}
PACKED: dict[str, Any] = {
    **FLASH,
    "query": half(9, 4, 16),
    "key": half(11, 2, 16),
    "value": half(11, 2, 8),
    "inputLayout": "TND",
    "softmaxMaxOut": t([9, 4, 8]),
    "softmaxSumOut": t([9, 4, 8]),
    "attentionOutOut": half(9, 4, 8),
}
GRADIENT: dict[str, Any] = {
    "query": Q,
    "keyIn": K,
    "value": V,
    "dy": half(2, 4, 6, 8),
    "attentionInOptional": half(2, 4, 6, 8),
    "headNum": 4,
    "inputLayout": "BNSD",
    "dqOut": Q,
    "dkOut": K,
    "dvOut": V,
}
PROMPT: dict[str, Any] = {
    "query": half(2, 6, 64),
    "key": half(2, 7, 32),
    "value": half(2, 7, 32),
    "numHeads": 4,
    "numKeyValueHeads": 2,
    "inputLayout": "BSH",
    "attentionOut": half(2, 6, 64),
}
TOKEN: dict[str, Any] = {
    **PROMPT,
    "query": half(2, 1, 64),
    "key": [half(2, 7, 32)],
    "value": [half(2, 7, 32)],
    "attentionOut": half(2, 1, 64),
}
FUSED: dict[str, Any] = {**PROMPT, "key": [half(2, 7, 32)], "value": [half(2, 7, 32)]}
UPDATE: dict[str, Any] = {
    "lse": [t([10]), t([10])],
    "localOut": [half(10, 16), half(10, 16)],
    "updateType": 1,
    "out": half(10, 16),
    "lseOut": t([10]),
}
STAT, PART = t([9, 4, 8]), half(9, 4, 16)
RING: dict[str, Any] = {
    **dict.fromkeys(("prevAttnOut", "curAttnOut", "attnOutOut"), PART),
    **dict.fromkeys(("prevSoftmaxMax", "prevSoftmaxSum", "curSoftmaxMax", "curSoftmaxSum"), STAT),
    **dict.fromkeys(("softmaxMaxOut", "softmaxSumOut"), STAT),
    "actualSeqQlenOptional": t([2], "INT64"),
    "inputLayoutOptional": "TND",
}
GATHER: dict[str, Any] = {
    "keyCache": half(3, 16, 2, 8),
    "valueCache": half(3, 16, 2, 8),
    "blockTables": int32(2, 4),
    "seqLens": int32(2),
    "keyRef": half(9, 2, 8),
    "valueRef": half(9, 2, 8),
}
SCATTER: dict[str, Any] = {"key": half(5, 2, 8), "keyCacheRef": half(3, 16, 2, 8), "slotMapping": int32(5)}
BLOCKS: dict[str, Any] = {
    **dict.fromkeys(("query", "key", "value", "attentionOut"), half(2, 4, 6, 16)),
    "blockShapeOptional": (64, 64),
    "qInputLayout": "BNSD",
    "kvInputLayout": "BNSD",
}
COMPRESS: dict[str, Any] = {
    "input": half(20, 2, 8),
    "weight": half(4, 2),
    "actSeqLenOptional": (9, 20),
    "layoutOptional": "TND",
    "compressBlockSize": 4,
    "compressStride": 2,
    "output": half(7, 2, 8),
}
KDA: dict[str, Any] = {
    "q": half(1, 100, 2, 32),
    "k": half(1, 100, 2, 32),
    "v": half(1, 100, 4, 16),
    "g": t([1, 100, 4, 32]),
    "beta": t([1, 100, 4]),
    "layout": "BSND",
    "chunkSize": 64,
    "attnOut": half(1, 100, 4, 16),
    "aqkOut": half(1, 4, 100, 64),
    "akkOut": half(1, 4, 100, 64),
}


def rope(width: int) -> dict[str, Any]:
    """Packed sequences with rotated parts: BF16, with a mask."""
    names = ("query", "key", "value", "attentionOutOut")
    typed = {name: t(PACKED[name].shape, "BF16") for name in names}
    parts = {"queryRope": t([9, 4, width], "BF16"), "keyRope": t([11, 2, width], "BF16")}
    return {**PACKED, **typed, **parts, "attenMaskOptional": t([9, 11], "BOOL")}


CASES: list[tuple[str, int, dict[str, Any], str]] = [
    ("aclnnFlashAttentionScore", OK, FLASH, A2),
    ("aclnnFlashAttentionScore", NULL, {**FLASH, "key": None}, A2),
    ("aclnnFlashAttentionScore", INVALID, {**FLASH, "inputLayout": "BDSN"}, A2),
    ("aclnnFlashAttentionScore", INVALID, {**FLASH, "inputLayout": "BSH"}, A2),
    ("aclnnFlashAttentionScore", INVALID, {**FLASH, "key": t([2, 2, 7, 16], "BF16")}, A2),
    ("aclnnFlashAttentionScore", INVALID, {**FLASH, "value": half(2, 2, 7, 17)}, A2),
    ("aclnnFlashAttentionScore", INVALID, {**FLASH, "headNum": 0}, A2),
    ("aclnnFlashAttentionScore", NULL, {**FLASH, "attentionOutOut": half(2, 4, 6, 16)}, A2),
    ("aclnnFlashAttentionScoreV4", INVALID, {**FLASH, "softmaxOutLayout": "", "softmaxOutOut": half(0)}, A2),
    ("aclnnFlashAttentionVarLenScore", OK, PACKED, A2),
    ("aclnnFlashAttentionVarLenScore", INVALID, FLASH, A2),
    ("aclnnFlashAttentionVarLenScoreV5", OK, rope(8), A2),
    ("aclnnFlashAttentionVarLenScoreV5", INVALID, rope(17), A2),
    ("aclnnFlashAttentionVarLenScoreV5", NULL, {**rope(8), "attenMaskOptional": None}, A2),
    ("aclnnFlashAttentionVarLenScoreV5", NULL, {**rope(8), "keyRope": None}, A2),
    ("aclnnFlashAttentionScoreGrad", OK, GRADIENT, A2),
    ("aclnnFlashAttentionScoreGrad", NULL, {**GRADIENT, "attentionInOptional": None}, A2),
    ("aclnnFlashAttentionScoreGrad", INVALID, {**GRADIENT, "dkOut": V}, A2),
    ("aclnnFlashAttentionScoreGrad", INVALID, {**GRADIENT, "dy": half(2, 4, 5, 8)}, A2),
    ("aclnnPromptFlashAttention", OK, PROMPT, A2),
    ("aclnnPromptFlashAttention", RUNTIME, PROMPT, NEW_950),
    ("aclnnPromptFlashAttention", INVALID, {**PROMPT, "numHeads": 0}, A2),
    ("aclnnPromptFlashAttention", INVALID, {**PROMPT, "inputLayout": "BHS"}, A2),
    ("aclnnPromptFlashAttentionV3", INVALID, {**PROMPT, "pseShift": t([1, 4, 6, 7], "BF16")}, A2),
    ("aclnnPromptFlashAttentionV3", INVALID, {**PROMPT, "attentionOut": t([2, 6, 64], "BF16")}, A2),
    ("aclnnPromptFlashAttentionV3", OK, {**PROMPT, "attentionOut": t([2, 6, 64], "INT8")}, A2),
    ("aclnnPromptFlashAttentionV3", OK, {**PROMPT, "query": half(0, 6, 64), "attentionOut": half(0, 6, 64)}, A2),
    ("aclnnIncreFlashAttentionV4", OK, TOKEN, A2),
    ("aclnnIncreFlashAttentionV4", TILING, {**TOKEN, "inputLayout": "BNSD"}, A2),
    ("aclnnIncreFlashAttentionV4", TILING, {**TOKEN, "numKeyValueHeads": 3}, A2),
    ("aclnnFusedInferAttentionScore", OK, FUSED, A3),
    ("aclnnFusedInferAttentionScoreV4", RUNTIME, FUSED, NEW_950),
    ("aclnnFusedInferAttentionScoreV5", OK, FUSED, NEW_950),
    ("aclnnFusedInferAttentionScoreV5", RUNTIME, FUSED, A2),
    ("aclnnFusedInferAttentionScoreV2", NULL, {**FUSED, "inputLayout": None}, A2),
    ("aclnnFusedInferAttentionScoreV2", TILING, {**FUSED, "value": [half(2, 7, 32)] * 2}, A2),
    ("aclnnFusedInferAttentionScoreV2", TILING, {**FUSED, "attentionOut": half(2, 6, 32)}, A2),
    ("aclnnAttentionUpdate", OK, UPDATE, A2),
    ("aclnnAttentionUpdate", INVALID, {**UPDATE, "lseOut": None}, A2),
    ("aclnnAttentionUpdate", INVALID, {**UPDATE, "updateType": 0}, A2),
    ("aclnnAttentionUpdate", INVALID, {**UPDATE, "lse": [t([10])]}, A2),
    ("aclnnAttentionUpdate", INVALID, {**UPDATE, "localOut": [half(10, 12)] * 2, "out": half(10, 12)}, A2),
    ("aclnnAttentionUpdate", OK, {**UPDATE, "lse": [t([10])] * 17, "localOut": [half(10, 16)] * 17}, A2),
    ("aclnnAttentionUpdate", INVALID, {**UPDATE, "lse": [t([10])] * 17, "localOut": [half(10, 16)] * 17}, NEW_950),
    ("aclnnRingAttentionUpdate", OK, RING, A2),
    ("aclnnRingAttentionUpdate", NULL, {**RING, "actualSeqQlenOptional": None}, A2),
    ("aclnnRingAttentionUpdate", INVALID, {**RING, "inputLayoutOptional": "SBH"}, A2),
    ("aclnnRingAttentionUpdate", INVALID, {**RING, "curSoftmaxMax": t([9, 4, 1])}, A2),
    ("aclnnGatherPaKvCache", OK, GATHER, A2),
    ("aclnnGatherPaKvCache", INVALID, {**GATHER, "seqLens": t([2], "INT64")}, A2),
    ("aclnnGatherPaKvCache", INVALID, {**GATHER, "keyRef": half(9, 1, 2, 8)}, A2),
    ("aclnnGatherPaKvCache", OK, {**GATHER, "keyRef": half(0, 2, 8), "seqLens": half(2)}, A2),
    ("aclnnScatterPaKvCache", OK, SCATTER, A2),
    ("aclnnScatterPaKvCache", INNER_NULL, {**SCATTER, "slotMapping": None}, A2),
    ("aclnnScatterPaKvCache", INNER_NULL, {**SCATTER, "value": half(5, 2, 8)}, A2),
    ("aclnnScatterPaKvCache", INVALID, {**SCATTER, "key": t([5, 2, 8]), "keyCacheRef": t([3, 16, 2, 8])}, A2),
    ("aclnnScatterPaKvCache", OK, {**SCATTER, "key": t([5, 2, 8]), "keyCacheRef": t([3, 16, 2, 8])}, NEW_950),
    ("aclnnBlockSparseAttention", OK, BLOCKS, A2),
    ("aclnnBlockSparseAttention", RUNTIME, BLOCKS, OLD),
    ("aclnnBlockSparseAttention", INVALID, {**BLOCKS, "blockShapeOptional": (64,)}, A2),
    ("aclnnBlockSparseAttention", INVALID, {**BLOCKS, "kvInputLayout": "BSND"}, A2),
    ("aclnnBlockSparseAttentionV3", INVALID, {**BLOCKS, "quantMode": 1}, A2),
    ("aclnnNsaCompress", OK, COMPRESS, A2),
    ("aclnnNsaCompress", INVALID, {**COMPRESS, "weight": half(3, 2)}, A2),
    ("aclnnNsaCompress", INVALID, {**COMPRESS, "actSeqLenOptional": None}, A2),
    ("aclnnNsaCompressWithCache", INNER_NULL, {}, A2),
    ("aclnnChunkKdaFwd", OK, KDA, A2),
    ("aclnnChunkKdaFwd", INVALID, {**KDA, "chunkSize": 32}, A2),
    ("aclnnChunkKdaFwd", INVALID, {**KDA, "cuSeqlensOptional": (0, 99)}, A2),
    ("aclnnChunkKdaFwd", INVALID, {**KDA, "g": t([1, 100, 2, 32])}, A2),
    ("aclnnChunkKdaFwd", NULL, {**KDA, "useGateInKernel": True}, A2),
    ("aclnnMaskedCausalConv1d", RUNTIME, {"x": half(6, 2, 8), "weight": half(3, 8), "out": half(6, 2, 8)}, A2),
    ("aclnnMlaPrologV3WeightNz", INVALID, {**dict.fromkeys(("tokenX", "weightDq"), Q), "weightQuantMode": 3}, A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: dict[str, Any], soc: str) -> None:
    if name.startswith("aclnnMlaProlog"):
        values = {**by_kind(name), **values}
    assert status(name, *by_name(name, **values), soc=soc) == expected


def by_kind(name: str) -> dict[str, Any]:
    """A tensor for each one that the fused preparation of latent heads needs."""
    tensors = "weightUqQr weightUk weightDkvKr rmsnormGammaCq rmsnormGammaCkv ropeSin ropeCos kvCacheRef krCacheRef"
    return dict.fromkeys(f"{tensors} queryOut queryRopeOut".split(), t([4, 16, 32], "BF16"))


def infers(
    name: str, expected: Mapping[str, Optional[tuple[tuple[int, ...], str]]], soc: str = A2, **given: Any
) -> None:
    found = made(name, soc, **given)
    assert {key: (None if found[key][0] is None else found[key]) for key in expected} == expected


def test_flash_attention_is_as_wide_as_its_values() -> None:
    rows = ((2, 4, 6, 8), "FLOAT")
    wanted: Any = {"softmaxMaxOut": rows, "softmaxSumOut": rows, "attentionOutOut": ((2, 4, 6, 8), "FLOAT16")}
    infers("aclnnFlashAttentionScore", wanted, **FLASH)
    infers("aclnnFlashAttentionVarLenScore", {"softmaxMaxOut": ((9, 4, 8), "FLOAT")}, **PACKED)


def test_gradients_are_as_their_tensors() -> None:
    wanted: Any = {"dqOut": (Q.shape, "FLOAT16"), "dkOut": (K.shape, "FLOAT16"), "dvOut": (V.shape, "FLOAT16")}
    infers("aclnnFlashAttentionScoreGrad", {**wanted, "dpseOut": None}, **GRADIENT)


def test_fused_inference_rearranges() -> None:
    def fused(layout: str, query: Any, value: Any, **more: Any) -> Any:
        heads = {"numHeads": 4, "numKeyValueHeads": 2, "inputLayout": layout}
        arguments = {"query": query, "key": [value], "value": [value], **heads, **more}
        found = made("aclnnFusedInferAttentionScoreV3", **arguments)
        return found["attentionOut"], found["softmaxLse"][0]

    assert fused("BNSD_BSND", half(2, 4, 6, 16), half(2, 2, 7, 16)) == (((2, 6, 4, 16), "FLOAT16"), None)
    assert fused("BSH_NBSD", half(2, 6, 64), half(2, 7, 32))[0] == ((4, 2, 6, 16), "FLOAT16")
    assert fused("TND_NTD", half(9, 4, 16), half(11, 2, 16), softmaxLseFlag=True)[1] == (9, 4, 1)
    table = {"blockTableOptional": int32(2, 3)}
    assert fused("BSND", half(2, 1, 4, 16), half(5, 32, 64), **table)[0] == ((2, 1, 4, 32), "FLOAT16")
    assert fused("BSND", half(2, 1, 4, 16), half(5, 2, 3, 32, 16), **table)[0] == ((2, 1, 4, 48), "FLOAT16")
    scaled = fused("BSH", half(2, 6, 64), half(2, 7, 32), quantScale2Optional=t([1]))
    assert scaled[0] == ((2, 6, 64), "INT8")


def test_outputs_that_are_not_requested_are_omitted() -> None:
    arguments = {"query": half(2, 6, 4, 16), "key": half(2, 7, 1, 16), "weights": half(2, 6, 4), "sparseCount": 5}
    chosen = ((2, 6, 1, 5), "INT32")
    infers("aclnnLightningIndexer", {"sparseIndicesOut": chosen, "sparseValuesOut": None}, **arguments)
    infers("aclnnLightningIndexer", {"sparseValuesOut": ((2, 6, 1, 5), "FLOAT16")}, **arguments, returnValues=True)
    infers("aclnnAttentionUpdate", {"lseOut": None}, **{**UPDATE, "updateType": 0})
    found = {"query": half(2, 6, 4, 16), "key": half(2, 7, 1, 16), "sparseIndices": int32(2, 6, 1, 5)}
    infers("aclnnSparseFlashAttention", {"softmaxMax": None}, **found)
    infers("aclnnSparseFlashAttention", {"softmaxMax": ((2, 1, 6, 4), "FLOAT")}, **found, returnSoftmaxLse=True)


def test_compression() -> None:
    infers("aclnnNsaCompress", {"output": ((7, 2, 8), "FLOAT16")}, **COMPRESS)  # 3 and 4 blocks of 9 and 11 tokens
    ratio = {"wkv": half(16, 32), "wgate": half(16, 32), "cmpRatio": 4, "coff": 2}
    wanted = {"cmpKvOut": ((2, 3, 8), "FLOAT16"), "softmaxScoreOut": ((2, 3, 8, 8), "FLOAT")}
    infers("aclnnCompressor", wanted, A3, x=half(2, 10, 32), **ratio, stateCacheRef=t([4, 4]), ape=t([4, 16]))


def test_latent_heads() -> None:
    given = {**by_kind("aclnnMlaProlog"), "tokenX": t([3, 64], "BF16"), "weightDq": t([64, 8], "BF16")}
    given |= {"cacheIndex": t([3], "INT64")}
    given = {k: v for k, v in given.items() if k not in ("queryOut", "queryRopeOut")}
    infers("aclnnMlaProlog", {"queryOut": ((3, 4, 32), "BF16"), "queryRopeOut": ((3, 4, 32), "BF16")}, **given)


def test_linear_attention() -> None:
    wanted: Any = {
        "attnOut": ((1, 100, 4, 16), "FLOAT16"),
        "aqkOut": ((1, 4, 100, 64), "FLOAT16"),
        "finalStateOut": ((1, 4, 32, 16), "FLOAT"),
        "hOut": None,
    }
    infers("aclnnChunkKdaFwd", wanted, **KDA)
    state = {**KDA, "stateVFirst": True, "cuSeqlensOptional": (0, 30, 100)}
    infers("aclnnChunkKdaFwd", {"finalStateOut": ((2, 4, 16, 32), "FLOAT")}, **state)


def test_plans_have_a_fixed_size() -> None:
    infers("aclnnSparseFlashMlaMetadata", {"metaData": ((1024,), "INT32")})
    infers("aclnnSparseLightningIndexerKLLossGradMetadata", {"metadata": ((64,), "INT32")})
