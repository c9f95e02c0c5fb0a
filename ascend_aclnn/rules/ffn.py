"""Rules of ops-transformer/ffn: two products with an activation between them, for one expert or several."""

from __future__ import annotations

import math
from typing import Any, Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language import *

_PLAIN = ("fastgelu", "relu", "silu", "gelu")
_GATED = ("geglu", "swiglu", "reglu")
_QUANT = ("scale", "offset", "deqScale1", "deqScale2")
_ANTIQUANT = ("antiquantScale1", "antiquantScale2", "antiquantOffset1", "antiquantOffset2")


def _name(call: Call, name: str) -> str:
    """Version 3 calls optional parameters so."""
    return name if name in call.operator.positions else name + "Optional"


def _given(call: Call, name: str) -> Optional[TensorSpec]:
    found: Optional[TensorSpec] = call[_name(call, name)]
    return found


def _experts(call: Call) -> Optional[int]:
    """How many experts there are; None for a single one without their count."""
    tokens: Any = call[_name(call, "expertTokens")]
    if isinstance(tokens, TensorSpec):
        return tokens.shape[0] if tokens.ndim and tokens.shape[0] else None
    return len(tokens) if tokens else None


def _activation(call: Call) -> str:
    return str(call["activation"]).lower()


def _pointers(call: Call) -> None:
    if call.operator.name == "aclnnFFN":
        call.require(call.product != "310P", None, "the operator is not on 310P; version 2 is")
    null = "is None (a null pointer); it is required"
    call.require(call.is_present("activation"), "activation", null, PARAM_NULLPTR)
    known = _activation(call) in _PLAIN + _GATED
    call.require(known, "activation", f"is {call['activation']!r}; it must be one of {', '.join(_PLAIN + _GATED)}")
    for name in ("x", "weight1", "weight2", "y"):
        call.require(call.is_present(name), name, null, PARAM_NULLPTR)


def _tokens(call: Call) -> None:
    """How many rows each expert takes (or where its rows end); together all of them."""
    tokens = call[_name(call, "expertTokens")]
    if not isinstance(tokens, tuple) or not tokens:
        return
    rows = math.prod(call.shape("x")[:-1])
    ends = "tokensIndexFlag" in call.operator.positions and call["tokensIndexFlag"]
    counts = [b - a for a, b in zip((0, *tokens), tokens)] if ends else list(tokens)
    name = _name(call, "expertTokens")
    call.require(min(counts) >= 0, name, f"is {tokens}; it must not be negative" + (" or decreasing" if ends else ""))
    call.require(sum(counts) == rows, name, f"is {tokens}, for {sum(counts)} rows; x has {rows}")


_FORMATS = (
    require("not x.format.private or (product == '310P' and x.format == FRACTAL_NZ)"),
    require("not weight1.format.private or (product == '310P' and weight1.format == FRACTAL_NZ)"),
    require("not weight2.format.private or (product == '310P' and weight2.format == FRACTAL_NZ)"),
    require("not y.format.private or (product == '310P' and y.format == FRACTAL_NZ)"),
)


def _shapes(call: Call) -> None:
    rank(len(call.shape("x")), len(call.shape("x")), "y")(call)
    rank(2, 8, "x")(call)
    experts = _experts(call)
    ndim = 2 if experts is None else 3
    rank(ndim, ndim, "weight1", "weight2")(call)
    (k1, n1), (k2, n2), k = (
        call.shape("weight1", least=2)[-2:],
        call.shape("weight2", least=2)[-2:],
        call.shape("x")[-1],
    )
    call.require(k1 <= 65535 and k2 <= 65535, "weight1", f"and weight2 have {k1} and {k2} rows; at most 65535")
    call.require(k == k1, "weight1", f"has shape {call.shape('weight1')}; it must have {k} rows, as x columns")
    halved = n1 // 2 if _activation(call) in _GATED else n1
    call.require(
        n1 == halved * (2 if _activation(call) in _GATED else 1), "weight1", f"has {n1} columns; they must be even"
    )
    call.require(k2 == halved, "weight2", f"has shape {call.shape('weight2')}; it must have {halved} rows")
    call.require(n2 == k1, "weight2", f"has shape {call.shape('weight2')}; it must have {k1} columns")
    for name in ("weight1", "weight2"):
        fits = experts is None or call.shape(name)[0] == experts
        call.require(
            fits, name, f"has shape {call.shape(name)}; its first axis must be {experts}, the number of experts"
        )
    lead = () if experts is None else (experts,)
    for name, n in (("bias1", n1), ("bias2", n2)):
        bias = _given(call, name)
        wanted = (*lead, n)
        fits = bias is None or bias.shape == wanted
        call.require(fits, _name(call, name), f"must have shape {wanted}")


# --------------------------------------------------------------------------------------------------- data types


def _biases(call: Call, allowed: str) -> None:
    dtypes(allowed, _name(call, "bias1"), _name(call, "bias2"))(call)


def _none(call: Call, names: tuple[str, ...]) -> None:
    for name in names:
        call.require(_given(call, name) is None, _name(call, name), "is given; with these dtypes it must be None")


def _there(call: Call, names: tuple[str, ...]) -> None:
    for name in names:
        call.require(
            _given(call, name) is not None,
            _name(call, name),
            "is None; with these dtypes it is required",
            PARAM_NULLPTR,
        )


def _plain(call: Call, bias: str) -> None:
    _none(call, _QUANT + _ANTIQUANT)
    _biases(call, bias)
    if call["innerPrecise"] == 0:
        call.require(_activation(call) != "geglu", "activation", "is geglu; with inner_precise 0 it must not be")


def _antiquant(call: Call, scale: str, bias: str) -> None:
    """Weights of INT8 or INT4, dequantised by column (INT4 also by groups of rows)."""
    _there(call, _ANTIQUANT)
    dtypes(scale, *(_name(call, n) for n in _ANTIQUANT))(call)
    _none(call, _QUANT)
    _biases(call, bias)
    experts = _experts(call)
    ndim = 1 if experts is None else 2
    for part in ("1", "2"):
        scale_name, offset_name = _name(call, "antiquantScale" + part), _name(call, "antiquantOffset" + part)
        rank(ndim, ndim + 1, scale_name)(call)
        same_shape(scale_name, offset_name)(call)
        sizes, weight = call.shape(scale_name), call.shape("weight" + part)
        call.require(sizes[-1] == weight[-1], scale_name, f"has shape {sizes}; its last axis must be {weight[-1]}")
        call.require(experts in (None, sizes[0]), scale_name, f"has shape {sizes}; its first axis must be {experts}")
        int4 = call.dtype("weight" + part) is DataType.INT4
        call.require(
            not int4 or weight[-1] % 2 == 0, "weight" + part, f"has {weight[-1]} columns; INT4 needs an even number"
        )
        if len(sizes) == ndim + 1:
            groups = sizes[-2]
            fits = int4 and groups > 0 and weight[-2] % groups == 0
            call.require(fits, scale_name, f"has {groups} groups of rows; they must divide {weight[-2]}, of INT4")


def _quant(call: Call) -> None:
    """Everything in INT8."""
    _there(call, _QUANT)
    dtypes("INT8", "weight1")(call)
    dtypes("BF16" if call.dtype("y") is DataType.BF16 else "UINT64 INT64 FLOAT", _name(call, "deqScale1"))(call)
    same_dtype(_name(call, "deqScale1"), _name(call, "deqScale2"))(call)
    dtypes("FLOAT", _name(call, "scale"), _name(call, "offset"))(call)
    _none(call, _ANTIQUANT)
    experts = _experts(call)
    lead: Shape = () if experts is None else (experts,)
    n1, n2, count = call.shape("weight1")[-1], call.shape("weight2")[-1], experts or 1
    for name, allowed in (
        ("deqScale1", ((*lead, n1),)),
        ("deqScale2", ((*lead, n2),)),
        ("scale", ((count,), (*lead, n1))),
        ("offset", ((count,),)),
    ):
        got = call.shape(_name(call, name))
        call.require(got in allowed, _name(call, name), f"has shape {got}; it must be {' or '.join(map(str, allowed))}")
    by_column = call.shape(_name(call, "scale")) == (*lead, n1) and (experts is not None or n1 != 1)
    if by_column and len(call.shape(_name(call, "scale"))) == len(lead) + 1:
        dtypes("UINT64 INT64 BF16", _name(call, "deqScale1"))(call)


def _dtypes(call: Call) -> None:
    x, weight = call.dtype("x"), call.dtype("weight1")
    half = DataType.FLOAT16
    if call.product == "310P":
        rank(2, 2, "x")(call)
        call.require(call["innerPrecise"] == 1, "innerPrecise", f"is {call['innerPrecise']}; on 310P it must be 1")
        call.require(_activation(call) in _PLAIN, "activation", f"is {call['activation']!r}; on 310P no gated ones are")
        call.require(_experts(call) is None, _name(call, "expertTokens"), "is given; on 310P it must be None")
        dtypes("FLOAT16", "x", "y", "weight1", "weight2")(call)
        _plain(call, "FLOAT16")
        return
    dtypes("FLOAT16 BF16 INT8", "x")(call)
    same_dtype("weight1", "weight2")(call)
    dtypes("FLOAT16 BF16 INT8 INT4", "weight1")(call)
    integral = weight in (DataType.INT8, DataType.INT4)
    if _activation(call) in _GATED:
        dtypes("FLOAT16", "x", "weight1")(call)
        call.require(call["innerPrecise"] == 1, "innerPrecise", "is not 1; gated activations need it to be")
        call.require(
            _experts(call) is None, _name(call, "expertTokens"), "is given; with gated activations it must be None"
        )
        _biases(call, "FLOAT16")
    elif x is DataType.INT8:
        dtypes("INT8", "weight1")(call)
        _biases(call, "INT32")
        dtypes("FLOAT16 BF16", "y")(call)
        _quant(call)
    else:
        dtypes(x.name, "y")(call)
        bias = "FLOAT" if x is DataType.BF16 else "FLOAT16"
        if integral:
            _antiquant(call, x.name, bias)
            return
        dtypes(x.name, "weight1")(call)
        precise = x is half or call["innerPrecise"] == 0
        call.require(precise, "innerPrecise", f"is {call['innerPrecise']}; with BF16 it must be 0")
        _plain(call, bias)


def _y_dtype(call: Call) -> DataType:
    if call.dtype("x") is not DataType.INT8:
        return call.dtype("x")
    scale = _given(call, "deqScale1")
    return DataType.BF16 if scale is not None and scale.dtype is DataType.BF16 else DataType.FLOAT16


for _operator in ("aclnnFFN", "aclnnFFNV2", "aclnnFFNV3"):
    rule(
        _operator,
        _pointers,
        _tokens,
        *_FORMATS,
        _shapes,
        _dtypes,
        infer_shape(y="x"),
        output_dtype(y=_y_dtype),
        nullable="x weight1 weight2 y activation",
    )

# --------------------------------------------------------------------------------------------------- other devices


def _most(call: Call) -> tuple[int, int]:
    """Rows and columns of the largest output: sessions * micro batches * tokens, and their width."""
    name = "maxOutShape"
    sizes = call[name]
    call.require(len(sizes) == 4, name, f"is {sizes}; it must have 4 items")
    return math.prod(sizes[:3]), sizes[3]


def _rows(call: Call) -> Shape:
    return _most(call)[:1]


rule(
    "aclnnFfnWorkerBatching",
    documented_products,
    documented_dtypes(),
    infer_shape(
        y=_most,
        groupList=lambda call: (call["expertNum"], 2),
        sessionIds=_rows,
        microBatchIds=_rows,
        tokenIds=_rows,
        expertOffsets=_rows,
        dynamicScale=_rows,
        actualTokenNum=lambda call: (1,),
    ),
    output_dtype(
        y=lambda call: {0: DataType.FLOAT16, 1: DataType.BF16}.get(call["tokenDtype"], DataType.INT8),
        groupList="INT64",
        sessionIds="INT32",
        microBatchIds="INT32",
        tokenIds="INT32",
        expertOffsets="INT32",
        dynamicScale="FLOAT",
        actualTokenNum="INT64",
    ),
)
rule("aclnnInplaceFfnWorkerScheduler", documented_products, documented_dtypes())


def _windows(call: Call) -> Shape:
    """(windows, heads, items of a window, width of a head)."""
    heads, width, window = call["headNum"], call["seqLength"], call["hWinSize"] * call["wWinSize"]
    step = heads * width * window
    size = call["x"].size
    call.require(step > 0 and size % step == 0, "x", f"has {size} elements; they must be a multiple of {step}")
    return size // step, heads, window, width


rule(
    "aclnnSwinTransformerLnQkvQuant",
    documented_products,
    documented_dtypes(),
    infer_shape(queryOutputOut=_windows, keyOutputOut=_windows, valueOutputOut=_windows),
)
