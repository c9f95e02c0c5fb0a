"""Rules of aclnnGroupedMatmul, from its first version to that of weights in FRACTAL_NZ.

Where CANN splits: ``groupType`` -1 not at all (lists of the same length), 0 along the rows (M), 2 along the inner axis (K).
"""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *

_V1 = "aclnnGroupedMatmul"
_V3 = "aclnnGroupedMatmulV3"
_NZ = "aclnnGroupedMatmulWeightNz"
_WITH_ARRAY = f"{_V1} aclnnGroupedMatmulV2"  # of the ends of groups; later versions take a tensor
_PACKED = f"aclnnGroupedMatmulV4 aclnnGroupedMatmulV5 {_NZ}"  # an INT32 holds eight INT4
_WITH_TENSOR = f"{_V3} {_PACKED}"
_TYPED = f"aclnnGroupedMatmulV2 {_WITH_TENSOR}"  # have groupType
_SPLITTING_K = f"aclnnGroupedMatmulV2 {_V3} aclnnGroupedMatmulV4 aclnnGroupedMatmulV5"
_QUANT = ("scaleOptional", "offsetOptional", "perTokenScaleOptional")
_ANTIQUANT = ("antiquantScaleOptional", "antiquantOffsetOptional")
_UNUSED = (
    "activationInputOptional",
    "activationQuantScaleOptional",
    "activationQuantOffsetOptional",
    "activationFeatureOutOptional",
    "dynQuantScaleOutOptional",
)

_SIZES = (
    on_operators(_PACKED, define(xs="[t.unpacked for t in x]", weights="[t.unpacked for t in weight]")),
    define(
        xs="x",
        weights="weight",
        n="weights[0][-1]",
        rows="sum(t[0] for t in xs)",
        ys="0 if y is None else len(y)",
    ),
    # The first version finds out from the lengths of the lists whether it splits.
    on_operators(
        _V1,
        define(
            split="-1 if len(x) > 1 and (ys > 1 or splitItem in (0, 1)) or len(weight) == len(x) == 1 else 0",
        ),
    ),
    define(
        split="groupType",
        single_weight="len(weight) == 1 and split != -1",
        ends="0 if groupListOptional is None else len(groupListOptional)",
    ),
    on_operators(_WITH_ARRAY, define(groups="1 if groupListOptional is None else len(groupListOptional)")),
    define(
        groups="groupListOptional[0] if ends > 0 else 1",
        count="len(x) if len(x) > 1 else len(weight) if len(weight) > 1 else ys if ys > 1 else groups",
    ),
    # With FRACTAL_NZ weights a single matrix counts as a list of one.
    on_operators(_NZ, define(lone_matrix="len(weights[0]) == 2")),
    define(
        lone_matrix="False",
        planned="weights[0][0] if single_weight and split == 0 and not lone_matrix else count",
    ),
)
_ATTRIBUTES = (
    on_products(
        "310P",
        on_operators(_WITH_ARRAY, only_products("A2 A3 950")),
        on_operators(_WITH_TENSOR, require("len(x) == 1", "len(weight) == 1", "len(y) == 1", "groupType == 0")),
    ),
    one_of("groupType", -1, 0, 2),
    when("splitItem in (2, 3)", require("groupType != -1")),
    on_operators(_NZ, require("groupType != 2")),
    on_operators(_V1, when("len(weight) == 1", require("len(x) == 1", "len(y) == 1"))),
    one_of("actType", 0, 1, 2, 4, 5),
    one_of("groupListType", 0, 1, 2),
    when("groupListType == 2", only_products(PRODUCTS_WITH_BF16), one_of("groupType", 0), rank(2, "groupListOptional")),
    when("groupListType in (0, 1)", rank(1, "groupListOptional")),
    on_operators(_V3, rank(1, "groupListOptional")),
    when(
        "split != 2",
        rank(2, 6, "x"),
        rank(2, 99, "weight"),
        # An empty inner axis is taken only where all outputs are empty.
        require(
            "all(t[-1] > 0 for t in xs) or all(0 in t[:-1] for t in xs) or all(t[-1] == 0 for t in weights)",
            argument="x",
        ),
    ),
    absent(*_UNUSED),
)

# --------------------------------------------------------------------------------------------------- data types


def _one_for_each(name: str, grouped: bool = False) -> tuple[Check, ...]:
    """A list has a row for each group (single weight), or a tensor for each weight; ``grouped``: or a matrix."""
    return (
        require(f"len({name}) == len(weight)", word="as-weight"),
        define(row="2 if single_weight else 1"),
        require(f"all(len(t) in (row, row + {int(grouped)}) for t in {name})", word="ranks"),
        require(
            f"all(len(t) == row or (t[-2] > 0 and w[-2] % t[-2] == 0) for t, w in zip({name}, weights))",
            argument=name,
            word="parts",
        ),
        # The first version does not split with a single weight.
        on_operators(
            _TYPED, when("single_weight", require(f"all(t[0] == count for t in {name})", word="count"), word="single")
        ),
        require(f"all(t[-1] == w[-1] for t, w in zip({name}, weights))", argument=name, word="columns"),
    )


_ROWS = ("FLOAT FLOAT", "FLOAT16 FLOAT16/INT8/INT4", "BF16 BF16/INT8/INT4", "INT8 INT8/INT4", "INT4 INT4")
_BIAS = (
    when("x[0].dtype == BF16", dtypes("FLOAT", "biasOptional")),
    when("x[0].dtype != BF16", same_dtype("x", "biasOptional")),
)
_PER_TOKEN = (
    dtypes("FLOAT", "perTokenScaleOptional"),
    when(
        "perTokenScaleOptional is not None",
        require("len(x) == 1", "len(y) == 1", argument="perTokenScaleOptional"),
        require("len(perTokenScaleOptional) == 1", word="one"),
        require("perTokenScaleOptional[0] == (xs[0][0],)"),
        word="per-token",
    ),
)
_FLOATING = (
    on_operators(_V1, dtypes(HALVES, "x")),
    same_dtype("x", "x", "weight", "y"),
    *_BIAS,
    one_of("actType", 0),
    absent(*_QUANT, *_ANTIQUANT, why="with operands of floating point"),
)
# An INT32 result is not scaled.
_INT8 = (
    dtypes("INT8 BF16 FLOAT16 INT32", "y"),
    same_dtype("y", "y"),
    dtypes("INT32 BF16", "biasOptional"),
    same_dtype("biasOptional", "biasOptional"),
    when(
        "y[0].dtype != INT32",
        require("groupType != 2"),
        absent("offsetOptional", *_ANTIQUANT, why="with INT8 operands"),
        required("scaleOptional", status=PARAM_INVALID),
        *_one_for_each("scaleOptional"),
        when(
            "y[0].dtype == INT8",
            dtypes("INT64 UINT64", "scaleOptional"),
            absent("perTokenScaleOptional", why="with an output of INT8"),
        ),
        when("y[0].dtype == BF16", dtypes("BF16", "scaleOptional")),
        when("y[0].dtype == FLOAT16", dtypes("FLOAT", "scaleOptional")),
        *_PER_TOKEN,
        word="requantised",
    ),
)
# With an offset for each column all parameters are there; without one CANN looks no further.
_INT4_WEIGHT = when(
    "offsetOptional is not None and offsetOptional[0] == (weights[0][0], 1, n)",
    dtypes("FLOAT16", "y"),
    required("biasOptional", "scaleOptional", "perTokenScaleOptional", status=PARAM_INVALID),
    dtypes("FLOAT", "offsetOptional", "biasOptional", "perTokenScaleOptional"),
    dtypes("UINT64 INT64", "scaleOptional"),
    require(
        "biasOptional[0] == (weights[0][0], n)",
        "scaleOptional[0] == (weights[0][0], 1, n)",
        "perTokenScaleOptional[0] == (xs[0][0], 1)",
    ),
    absent(*_ANTIQUANT, why="with x of INT8"),
    word="offset",
)
_INT4 = (
    dtypes(HALVES, "y"),
    absent("offsetOptional", "biasOptional", *_ANTIQUANT, why="with INT4 operands"),
    required("scaleOptional", status=PARAM_INVALID),
    dtypes("UINT64 INT64", "scaleOptional"),
    rank(2, 3, "scaleOptional"),
    require("scaleOptional[0][-1] % 8 == 0"),
    when(
        "len(scaleOptional[0]) == 3",
        require("scaleOptional[0][1] > 0", "xs[0][1] % (2 * scaleOptional[0][1]) == 0", argument="scaleOptional"),
        word="groups",
    ),
    *_PER_TOKEN,
    require("groupType == 0", "len(x) == 1", "len(weight) == 1", "len(y) == 1"),
)
_QUANTISED_WEIGHTS = (
    same_dtype("x", "x", "y"),
    *_BIAS,
    one_of("actType", 0),
    require("groupType != 2"),
    required("antiquantScaleOptional", status=PARAM_INVALID),
    when(
        "weights[0].dtype == INT8 or not single_weight",
        required("antiquantOffsetOptional", status=PARAM_INVALID),
        word="int8-or-several",
    ),
    when(
        "weights[0].dtype == INT8",
        *(word for name in _ANTIQUANT for word in _one_for_each(name)),
        word="int8-weight",
    ),
    when(
        "weights[0].dtype == INT4",
        *(word for name in _ANTIQUANT for word in _one_for_each(name, grouped=True)),
        require("all(len(t) == len(antiquantScaleOptional[0]) for t in antiquantScaleOptional)", word="one-rank"),
        require("all(len(t) == len(antiquantScaleOptional[0]) for t in antiquantOffsetOptional)", word="one-rank"),
        word="int4-weight",
    ),
    same_dtype("x", *_ANTIQUANT),
    absent(*_QUANT, why="with quantised weights alone"),
)
_DTYPES = (
    on_products("950", documented_dtypes()),
    on_operators(
        _WITH_TENSOR, on_products("310P", dtypes("FLOAT16", "x", "weight", "biasOptional"), one_of("actType", 0))
    ),
    when(
        "product != '950'",
        on_operators(_PACKED, dtype_table("x weight", *(row.replace("INT4", "INT4/INT32") for row in _ROWS))),
        on_operators(f"{_WITH_ARRAY} {_V3}", dtype_table("x weight", *_ROWS)),
        define(narrow="weights[0].dtype in (INT8, INT4)"),
        when("not narrow", *_FLOATING),
        when("xs[0].dtype == INT8 and weights[0].dtype == INT8", *_INT8, word="int8"),
        when("xs[0].dtype == INT8 and weights[0].dtype == INT4", _INT4_WEIGHT, word="int8-by-int4"),
        when("xs[0].dtype == INT4", *_INT4, word="int4"),
        when("xs[0].dtype in HALVES and narrow", *_QUANTISED_WEIGHTS, word="narrow"),
    ),
)

# --------------------------------------------------------------------------------------------------- shapes

_LIMIT = "product == '950' or "
_PLAIN_FORMATS = (no_private_format("x", "y"), require("all(w.nz or not w.format.private for w in weight)"))
_ALL_TRANSPOSED = require("all(w.transposed == weight[0].transposed for w in weight)")

_SPLIT_K = (
    require("len(x) == 1", "len(weight) == 1", "len(y) == 1"),
    absent("biasOptional", why="where K is split"),
    require("x[0].transposed"),
    rank(2, "x", "weight"),
    rank(3, "y"),
    *_PLAIN_FORMATS,
    require("weights[0][0] == xs[0][1]"),
    not_transposed("weight"),
)
_NO_SPLIT = (
    one_of("splitItem", 0, 1),
    require("len(weight) == len(x)", "len(y) == len(x)"),
    when("groupType is not None", absent("groupListOptional", why="without a split")),
    require(_LIMIT + "all(t[-1] <= 65535 for t in xs)", argument="x"),
    rank(2, "weight"),
    require("all(len(out) == len(t) for out, t in zip(y, x))", argument="y"),
    require("all(w[0] == t[-1] for w, t in zip(weights, xs))", argument="weight"),
    _ALL_TRANSPOSED,
    *_PLAIN_FORMATS,
    on_operators(_V1, when("product != '950'", not_transposed("weight"))),
)
_SPLIT_M = (
    rank(2, "x", "y"),
    define(weight_rank="3 if len(weight) == 1 and not lone_matrix else 2"),
    require("all(len(w) == weight_rank for w in weight)"),
    *_PLAIN_FORMATS,
    _ALL_TRANSPOSED,
    # Several outputs: of one x, by an array of ends.
    when(
        "len(y) > 1",
        one_of("splitItem", 0, 1),
        require("len(x) == 1"),
        on_operators(_WITH_TENSOR, require("len(y) == 1")),
    ),
    when("len(y) == 1", one_of("splitItem", 2, 3), require("all(w[-1] == n for w in weights)", argument="weight")),
    require("len(x) in (1, len(weight))"),
    require("all(w[-2] == xs[i % len(x)][1] for i, w in enumerate(weights))", argument="weight"),
    require(_LIMIT + "all(t[1] <= 65535 for t in xs)", argument="x"),
)
_EVEN = (
    # The axis of INT4 that is stored first.
    require(
        "all(u[-2 if w.transposed else -1] % 2 == 0 for u, w in zip(weights, weight) if u.dtype == INT4)",
        argument="weight",
    ),
    require(
        _LIMIT + "all(u[-1] <= 65535 for u, w in zip(weights, weight) if not w.transposed)",
        argument="weight",
    ),
)
_OUTPUTS = (
    when("split == -1", output_shape(y="[(*t[:-1], w[-1]) for t, w in zip(xs, weights)]"), word="whole"),
    on_operators(_SPLITTING_K, when("split == 2", output_shape(y="[(count, xs[0][0], n)]"))),
    when("split == 0 and splitItem in (2, 3)", output_shape(y="[(rows, n)]")),
    when(
        "split == 0 and splitItem not in (2, 3)",
        require("len(x) == 1", "groupListOptional is not None", argument="splitItem"),
        on_operators(
            _WITH_ARRAY,
            output_shape(
                y="[(b - a, w[-1]) for a, b, w in zip((0, *groupListOptional), groupListOptional, weights)]",
            ),
        ),
    ),
)

# One end of each group: not decreasing, the last one the size of the split axis.
_GROUPS = (
    when("split == 2 or (split == 0 and len(x) == 1)", required("groupListOptional", status=PARAM_INVALID)),
    on_operators(
        _WITH_TENSOR,
        when(
            "split != -1",
            when("len(groupListOptional) == 2", require("groupListOptional[1] == 2")),
            require("1 <= groupListOptional[0] <= 1024", "groupListOptional[0] == planned or planned == 1"),
            dtypes("INT64", "groupListOptional"),
            word="split",
        ),
    ),
    on_operators(
        _WITH_ARRAY,
        when("split == -1", require("len(groupListOptional) == len(x)", "all(len(t) == 2 for t in x)"), word="whole"),
        require(
            "groupListOptional == tuple(sorted(groupListOptional))",
            "groupListOptional[0] >= 0",
            "len(groupListOptional) <= 128",
            "len(groupListOptional) == planned or planned == 1",
            argument="groupListOptional",
        ),
        define(
            parts="[xs[0][1]] if split == 2 else [t[0] for t in (xs if len(x) > 1 or split == -1 else y)]",
            sums="tuple(sum(parts[:i + 1]) for i in range(len(parts)))",
        ),
        when("len(parts) > 1", require("groupListOptional == sums")),
        when("len(parts) == 1", require("groupListOptional[-1] == parts[0]")),
    ),
)
_LIMITS = (
    when("product != '950'", *_one_for_each("biasOptional"), require("len(x) <= 128", "len(weight) <= 128")),
    when(
        "len(tuningConfigOptional) > 0",
        require("0 <= tuningConfigOptional[0] <= max(t[0] for t in xs)"),
        word="tuned",
    ),
)
# A weight in FRACTAL_NZ fills its tiles; on 310P out's rows fill 32 bytes.
_TILES = when(
    "any(not t.empty for t in x) and any(not w.empty for w in weight)",
    on_operators(
        _WITH_TENSOR,
        on_products("310P", require("all(w[-2 if w.transposed else -1] * w.dtype.bits % 256 == 0 for w in weight)")),
    ),
    on_products(
        "A2 A3 910 310B 310",
        when(
            "any(w.nz for w in weight)",
            define(tile="32 if weights[0].dtype == INT8 else 64 if weights[0].dtype == INT4 else 16"),
            require(
                "all(u[-1] % (16 if w.transposed else tile) == 0 for u, w in zip(weights, weight) if w.nz)",
                argument="weight",
                word="tiles-of-last",
            ),
            require(
                "all(u[-2] % (tile if w.transposed else 16) == 0 for u, w in zip(weights, weight) if w.nz)",
                argument="weight",
                word="tiles-of-last-but-one",
            ),
        ),
    ),
    word="not-empty",
)

rule(
    f"{_WITH_ARRAY} {_WITH_TENSOR}",
    required_lists("x", "weight", "y"),
    *_SIZES,
    *_ATTRIBUTES,
    *_DTYPES,
    on_operators(_SPLITTING_K, when("split == 2", *_SPLIT_K)),
    when("split != 2", not_transposed("x")),
    when("split == -1", *_NO_SPLIT, word="whole"),
    when("split == 0", *_SPLIT_M),
    when("split != 2", *_EVEN),
    *_OUTPUTS,
    *_GROUPS,
    *_LIMITS,
    _TILES,
    # As x; with quantised operands it depends on the dtype of the scales.
    define(
        scale="scaleOptional[0].dtype",
        quantized_dtype="INT32 if scale is None else BF16 if scale == BF16 else FLOAT16 if scale == FLOAT else "
        "INT8 if weights[0].dtype == INT8 else FLOAT16",
    ),
    infer_shape(activationFeatureOutOptional="None", dynQuantScaleOutOptional="None"),
    output_dtype(y="x[0].dtype if x[0].dtype in FLOATS else quantized_dtype"),
    nullable="x weight y out",
    aliases={"y": "out"},
    empty_lists=" ".join(("biasOptional", *_QUANT, *_ANTIQUANT, *_UNUSED, "groupListOptional")),
)
