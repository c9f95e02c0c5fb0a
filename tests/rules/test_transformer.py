"""Rules of the small families of ops-transformer: posembedding, ffn, mhc and mamba."""

from __future__ import annotations

from typing import Any

from rule_tools import A2, NEW_950, OLD, OLD_310P, by_name, each_case, made, status, t

OK, NULL, INVALID, TILING, RUNTIME = 0, 161001, 161002, 561002, 361001


def half(*shape: int) -> Any:
    return t(shape, "FLOAT16")


X, TABLE = half(2, 6, 4, 16), half(1, 6, 1, 16)
ROTARY: dict[str, Any] = {"x": X, "cos": TABLE, "sin": TABLE, "out": X}
GRADIENT: dict[str, Any] = {"dy": X, "cos": TABLE, "sin": TABLE, "dxOut": X, "dcosOut": TABLE, "dsinOut": TABLE}
APPLY: dict[str, Any] = {
    "queryRef": X,
    "keyRef": half(2, 6, 1, 16),
    "cos": TABLE,
    "sin": TABLE,
    "layout": 1,
    "rotaryMode": "half",
}
CACHED: dict[str, Any] = {
    "positions": t([5], "INT64"),
    "queryIn": half(5, 32),
    "keyIn": half(5, 16),
    "cosSinCache": half(9, 16),
    "headSize": 16,
    "queryOut": half(5, 32),
    "keyOut": half(5, 16),
}
FFN: dict[str, Any] = {
    "x": half(5, 16),
    "weight1": half(16, 32),
    "weight2": half(32, 16),
    "activation": "gelu",
    "innerPrecise": 1,
    "y": half(5, 16),
}
EXPERTS: dict[str, Any] = {**FFN, "weight1": half(2, 16, 32), "weight2": half(2, 32, 16), "expertTokens": (2, 3)}
STREAMS: dict[str, Any] = {
    "x": half(3, 4, 16),
    "hRes": t([3, 4, 4]),
    "hOut": half(3, 16),
    "hPost": t([3, 4]),
    "out": half(3, 4, 16),
}
MIX: dict[str, Any] = {"x": t([3, 4, 4]), "numIters": 20, "output": t([3, 4, 4])}
CONV: dict[str, Any] = {
    "x": half(2, 5, 64),
    "weight": half(4, 64),
    "convStatesRef": half(2, 3, 64),
    "activation": "silu",
    "y": half(2, 5, 64),
}
# With what the backward pass takes.
BEFORE: dict[str, Any] = {
    "x": half(2, 4, 128),
    "phi": t([24, 512]),
    "alpha": t([3]),
    "bias": t([24]),
    "hIn": half(2, 128),
    "hPost": t([2, 4]),
    "hRes": t([2, 4, 4]),
    "invRmsOptional": t([2]),
    "hMixOptional": t([2, 24]),
    "hPreOptional": t([2, 4]),
}

CASES: list[tuple[str, int, dict[str, Any], str]] = [
    ("aclnnRotaryPositionEmbedding", OK, ROTARY, A2),
    ("aclnnRotaryPositionEmbedding", NULL, {**ROTARY, "sin": None}, A2),
    ("aclnnRotaryPositionEmbedding", INVALID, {**ROTARY, "cos": t([1, 6, 1, 16], "INT32")}, A2),
    ("aclnnRotaryPositionEmbedding", TILING, {**ROTARY, "cos": half(1, 5, 1, 16), "sin": half(1, 5, 1, 16)}, A2),
    ("aclnnRotaryPositionEmbedding", TILING, {**ROTARY, "mode": 2}, A2),
    ("aclnnRotaryPositionEmbedding", OK, {**ROTARY, "mode": 2}, NEW_950),
    ("aclnnRotaryPositionEmbeddingGrad", RUNTIME, GRADIENT, OLD),
    ("aclnnApplyRotaryPosEmbV2", OK, APPLY, A2),
    ("aclnnApplyRotaryPosEmbV2", TILING, {**APPLY, "layout": 5}, A2),
    ("aclnnApplyRotaryPosEmbV2", TILING, {**APPLY, "rotaryMode": "third"}, A2),
    ("aclnnRopeWithSinCosCache", OK, CACHED, A2),
    ("aclnnRopeWithSinCosCache", INVALID, {**CACHED, "positions": t([5], "INT32")}, A2),
    ("aclnnRopeWithSinCosCache", INVALID, {**CACHED, "keyIn": half(4, 16)}, A2),
    ("aclnnRopeWithSinCosCache", INVALID, {**CACHED, "mropeSection": (2, 3, 4)}, A2),
    ("aclnnFFN", OK, FFN, A2),
    ("aclnnFFN", INVALID, FFN, OLD_310P),
    ("aclnnFFN", NULL, {**FFN, "activation": None}, A2),
    ("aclnnFFN", INVALID, {**FFN, "activation": "tanh"}, A2),
    ("aclnnFFN", INVALID, {**FFN, "activation": "geglu"}, A2),  # weight2 would have half the rows
    ("aclnnFFN", INVALID, {**FFN, "bias1": half(16)}, A2),
    ("aclnnFFN", OK, EXPERTS, A2),
    ("aclnnFFN", INVALID, {**EXPERTS, "expertTokens": (2, 2)}, A2),
    ("aclnnMhcPost", OK, STREAMS, A2),
    ("aclnnMhcPost", INVALID, {**STREAMS, "hPost": t([3, 5])}, A2),
    ("aclnnMhcPost", RUNTIME, {**STREAMS, "hRes": None}, A2),
    ("aclnnMhcPost", OK, {**STREAMS, "hRes": None}, NEW_950),
    ("aclnnMhcSinkhorn", OK, MIX, NEW_950),
    ("aclnnMhcSinkhorn", RUNTIME, MIX, A2),
    ("aclnnMhcSinkhorn", INVALID, {**MIX, "numIters": 0}, NEW_950),
    ("aclnnMhcSinkhorn", INVALID, {**MIX, "x": t([3, 5, 5]), "output": t([3, 5, 5])}, NEW_950),
    ("aclnnMhcPre", OK, BEFORE, NEW_950),
    ("aclnnMhcPre", INVALID, {**BEFORE, "invRmsOptional": t([3])}, NEW_950),
    ("aclnnCausalConv1dFn", OK, CONV, NEW_950),
    ("aclnnCausalConv1dFn", INVALID, {**CONV, "weight": half(5, 64)}, NEW_950),
    ("aclnnCausalConv1dFn", INVALID, {**CONV, "convStatesRef": half(1, 3, 64)}, NEW_950),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: dict[str, Any], soc: str) -> None:
    assert status(name, *by_name(name, **values), soc=soc) == expected


def test_inference() -> None:
    assert made("aclnnRotaryPositionEmbedding", **ROTARY) == {"out": (X.shape, "FLOAT16")}
    rotated = made("aclnnRotaryPositionEmbeddingGrad", dy=X, cos=TABLE, sin=TABLE)
    assert rotated == {n: (s.shape, "FLOAT16") for n, s in (("dxOut", X), ("dcosOut", TABLE), ("dsinOut", TABLE))}
    assert made("aclnnFFN", **FFN)["y"] == ((5, 16), "FLOAT16")
    assert made("aclnnMhcPost", **STREAMS) == {"out": ((3, 4, 16), "FLOAT16")}
    assert made("aclnnCausalConv1dFn", NEW_950, **CONV)["y"] == ((2, 5, 64), "FLOAT16")


def test_streams_before_a_layer() -> None:
    arguments = {"x": half(3, 4, 16), "phi": t([24, 64]), "alpha": t([3]), "bias": t([24])}
    found = made("aclnnMhcPre", **arguments)
    assert (found["hIn"], found["hPost"]) == (((3, 16), "FLOAT16"), ((3, 4), "FLOAT"))
    assert found["hRes"] == ((3, 4, 4), "FLOAT")
    unmixed = {**arguments, "phi": t([8, 64]), "alpha": t([2]), "bias": t([8])}
    assert made("aclnnMhcPre", **unmixed)["hRes"][0] is None
