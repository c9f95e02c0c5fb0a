"""Rules of queries, keys and values that are normalised, rotated and joined with those of an encoder."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# Norms, whether they apply to the encoder's tensors ("Added"), and what they normalise.
_NORMS = {"Query": "query", "Key": "key", "AddedQuery": "encoderQuery", "AddedKey": "encoderKey"}
_PLAIN = ("query", "key", "value")
_ENCODED = ("encoderQuery", "encoderKey", "encoderValue")
_STATISTICS = tuple(f"norm{part}{kind}" for part in _NORMS for kind in ("Mean", "Rstd"))
_WEIGHTS = tuple(f"norm{part}Weight" for part in _NORMS)
_PARAMETERS = (*_WEIGHTS, *(f"norm{part}Bias" for part in _NORMS))
_TABLES = require(
    "len(ropeCos) == 2",
    "ropeSin == ropeCos",
    "ropeCos[-1] == query[-1]",
    "ropeCos[-1] == key[-1]",
    "query[-1] % 2 == 0",
)


def _joined(plain: str, encoded: str) -> str:
    """(batch, sequence, heads, width), joined along the sequence, heads moved before it."""
    length = f"{plain}[1] + (0 if {encoded} is None else {encoded}[1])"
    return f"({plain}[0], {plain}[2], {length}, {plain}[3])"


def _statistic(part: str, source: str) -> str:
    """Means and reciprocal deviations of each head, where the gradients of a layer norm need them."""
    kind = "normAddedType" if part.startswith("Added") else "normType"
    return f"(*{source}[:-1], 1) if {source} is not None and isTraining and {kind} in (1, 2) else (0,)"


_KINDS = (
    in_range("normType", 0, 4),
    in_range("normAddedType", 0, 4),
    in_range("ropeType", 0, 2),
    one_of("concatOrder", 0, 1),
)

rule(
    "aclnnNormRopeConcat",
    documented_products,
    documented_dtypes(),
    tiling(
        *_KINDS,
        rank(4, *_PLAIN, *_ENCODED),
        output_shape(**{f"{plain}Output": _joined(plain, encoded) for plain, encoded in zip(_PLAIN, _ENCODED)}),
        *(
            require(f"{encoded}[2:] == {plain}[2:]", f"{encoded}[0] == {plain}[0]")
            for plain, encoded in zip(_PLAIN, _ENCODED)
        ),
        _TABLES,
        require("ropeCos[0] <= queryOutput[2]", "ropeCos[0] <= keyOutput[2]"),
        has_shape(**{name: "(query[-1],)" if "Query" in name else "(key[-1],)" for name in _PARAMETERS}),
    ),
    infer_shape(
        **{
            f"norm{part}{kind}": _statistic(part, tensor)
            for part, tensor in _NORMS.items()
            for kind in ("Mean", "Rstd")
        }
    ),
    output_dtype(**dict.fromkeys(_STATISTICS, "FLOAT")),
    nullable=" ".join((*_ENCODED, *_PARAMETERS, "ropeSin", "ropeCos")),
)

_GRADIENTS = (
    *(f"grad{name}" for name in ("Query", "Key", "Value", "EncoderQuery", "EncoderKey", "EncoderValue")),
    *(f"gradNorm{part}{kind}" for part in _NORMS for kind in ("Weight", "Bias")),
)

rule(
    "aclnnNormRopeConcatBackward",
    dtypes(FLOATS, "gradQueryOutput"),
    same_dtype("gradQueryOutput", "gradKeyOutput", "gradValueOutput", "query", "key", *_ENCODED[:2], *_WEIGHTS),
    same_dtype("gradQueryOutput", "ropeSin", "ropeCos", *_GRADIENTS),
    dtypes("FLOAT", *_STATISTICS),
    documented_products,
    tiling(
        *_KINDS,
        rank(4, "query", "key", "encoderQuery", "encoderKey", "gradQueryOutput", "gradKeyOutput", "gradValueOutput"),
        _TABLES,
        has_shape(
            gradQueryOutput=_joined("query", "encoderQuery"),
            gradKeyOutput=_joined("key", "encoderKey"),
        ),
        require(*(f"ropeCos[0] <= {name}[2]" for name in ("gradQueryOutput", "gradKeyOutput", "gradValueOutput"))),
        *(
            require(f"encoder{name}[2:] == {tensor}[2:]", f"encoder{name}[0] == {tensor}[0]")
            for name, tensor in (("Query", "query"), ("Key", "key"))
        ),
        require("gradValueOutput[2] >= key[1]"),
        has_shape(**{f"norm{part}Weight": f"({tensor}[-1],)" for part, tensor in _NORMS.items()}),
        has_shape(
            **{
                f"norm{part}{kind}": f"(*{tensor}[:-1], 1)"
                for part, tensor in _NORMS.items()
                for kind in ("Mean", "Rstd")
            }
        ),
    ),
    # The gradient of the value is as long as the key, which is joined with as many rows of the encoder.
    infer_shape(
        gradQuery="query",
        gradKey="key",
        gradValue="(gradValueOutput[0], key[1], gradValueOutput[1], gradValueOutput[3])",
        gradEncoderQuery="encoderQuery",
        gradEncoderKey="encoderKey",
        gradEncoderValue="None if encoderKey is None else "
        "(gradValueOutput[0], gradValueOutput[2] - key[1], gradValueOutput[1], gradValueOutput[3])",
        **{f"gradNorm{part}{kind}": f"norm{part}Weight" for part in _NORMS for kind in ("Weight", "Bias")},
    ),
)
