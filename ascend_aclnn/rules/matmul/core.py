"""Rules of the plain products: matmul, its batched and accumulating forms, and those with a weight in FRACTAL_NZ."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *


def cube_math_type_or_fp32_sums(left: str, right: str) -> tuple[Check, ...]:
    """cubeMathType may be -1 (FP16 operands, FP32 sums), but on Ascend 950."""
    return on_products("950", in_range("cubeMathType", 0, 4)), *cube_math_type(left, right, least=-1)


def _operands(left: str, right: str, *others: str) -> tuple[Check, ...]:
    """The dtypes of operands and results, and how products are computed."""
    return dtypes(FLOATS_OF_PRODUCT, left, right, *others), *cube_math_type_or_fp32_sums(left, right)


def _empties_agree(result: str, product: str) -> Check:
    """An empty product wants an empty result, of any shape."""
    return require(f"{result}[:2] == {product} or (0 in {product} and {result}.empty)")


# A FRACTAL_NZ matrix is no row or column.
_NO_VECTOR_IN_NZ = when("mat2.format == FRACTAL_NZ", require("1 not in mat2[-2:]"))
_ONE_HALF_IN_NZ = when(
    "mat2.format == FRACTAL_NZ and self.dtype in HALVES and mat2.dtype in HALVES", same_dtype("self", "mat2")
)

# --------------------------------------------------------------------------------------------------- two operands

rule(
    "aclnnMm",
    *_operands("self", "mat2", "out"),
    shape_patterns(self="m k", mat2="k n", out="m n"),
    output_dtype(out=promoted("self", "mat2")),
)
rule(
    "aclnnMv",
    same_dtype("out", "vec"),
    unless_empty("self", same_dtype("self", "vec")),
    *_operands("self", "vec", "out"),
    shape_patterns(self="m k", vec="k", out="m"),
    output_dtype(out="vec"),
)
rule(
    "aclnnMatmul",
    *_operands("self", "mat2", "out"),
    _ONE_HALF_IN_NZ,
    rank(1, 6, "self", "mat2"),
    # The shape of the product by NumPy's rules.
    define(
        batch="broadcast(self[:-2], mat2[:-2])",
        matmul_shape="(*batch, *self[-2:-1], *(mat2[-1:] if len(mat2) > 1 else ()))",
    ),
    require("mat2[0 if len(mat2) < 3 else -2] == self[-1]", word="inner"),
    require("broadcasts(mat2[:-2], self[:-2])", word="batch"),
    not_nz("self", "out"),
    # CANN reshapes the product to out's shape, and fills out with zeros where an operand is empty.
    with_status(INNER_NULLPTR, unless_empty("self mat2", require("out.size == prod(matmul_shape)"))),
    infer_shape(out="matmul_shape"),
    output_dtype(out=promoted("self", "mat2")),
)

_BMM = (
    rank(3, "self", "mat2", "out"),
    _NO_VECTOR_IN_NZ,
    require("mat2[1] == self[2]", "mat2[0] == self[0] or 1 in (mat2[0], self[0])"),
    output_shape(out="(max(self[0], mat2[0]), self[1], mat2[2])"),
)
rule(
    "aclnnBatchMatMul",
    *_operands("self", "mat2", "out"),
    *_BMM,
    not_nz("self", "out"),
    output_dtype(out=promoted("self", "mat2")),
)
rule(
    "aclnnBatchMatMulWeightNz",
    only_products("A2 A3 950"),
    dtype_table("self mat2 out", "FLOAT16 FLOAT16 FLOAT16/FLOAT", "BF16 BF16 BF16/FLOAT"),
    *_BMM,
    require("len(mat2.storage) == 5"),
    *cube_math_type("self", "mat2", least=-1),
    output_dtype(out="self"),
)
rule(
    "aclnnMatmulWeightNz",
    dtypes(FLOATS_OF_PRODUCT, "self", "mat2", "out"),
    when(
        "mat2.format == FRACTAL_NZ and product not in ('A2', 'A3')",
        dtypes(HALVES, "mat2", "self"),
    ),
    # cubeMathType 0 keeps the dtype of the operands.
    when("cubeMathType == 0 and self.dtype == FLOAT", dtypes("FLOAT BF16", "out")),
    _ONE_HALF_IN_NZ,
    only_products("A2 A3 310P 950"),
    formats("FRACTAL_NZ", "mat2"),
    rank(2, "self", "mat2"),
    require("len(mat2.storage) == 4"),
    _NO_VECTOR_IN_NZ,
    require("mat2[0] == self[1]"),
    *cube_math_type_or_fp32_sums("self", "mat2"),
    # The storage holds the matrix in whole blocks of 16 rows and 32 bytes.
    define(
        rows="mat2[1] if mat2.transposed else mat2[0]",
        columns="mat2[0] if mat2.transposed else mat2[1]",
        width="8 if mat2.dtype == FLOAT else 16",
    ),
    unless_empty(
        "self mat2", require("prod(mat2.storage) == ceil_div(rows, 16) * 16 * ceil_div(columns, width) * width")
    ),
    copied_output_shape(out="(self[0], mat2[1])"),
    output_dtype(out=promoted("self", "mat2")),
)

# --------------------------------------------------------------------------------------------------- accumulating

_ADDMM_SHAPES = (
    define(matmul_shape="(mat1[0], mat2[1])"),
    require("broadcasts(self, matmul_shape)"),
    _empties_agree("out", "matmul_shape"),
)
_INPLACE = {"self": "selfRef", "out": "selfRef"}

rule(
    "aclnnAddmm aclnnInplaceAddmm",
    dtypes(FLOATS_OF_PRODUCT, "mat1", "mat2", "self", "out"),
    *cube_math_type_or_fp32_sums("mat1", "mat2"),
    rank(2, "mat1", "mat2"),
    require("mat2[0] == mat1[1]"),
    not_nz("self"),
    max_rank(2, "self"),
    require("len(self.storage) > 0"),
    *_ADDMM_SHAPES,
    on_operators("aclnnAddmm", infer_shape(out="matmul_shape")),
    output_dtype(out=promoted("self", "mat1", "mat2")),
    aliases=_INPLACE,
)
rule(
    "aclnnAddmmWeightNz",
    only_products("A2 A3 950"),
    formats("ND", "self", "mat1"),
    formats("FRACTAL_NZ", "mat2"),
    dtypes(FLOATS, "self", "out"),
    dtypes(HALVES, "mat1", "mat2"),
    *cube_math_type_or_fp32_sums("mat1", "mat2"),
    same_dtype("mat1", "mat2"),
    require("len(mat2.storage) == 4"),
    rank(2, "mat1", "mat2"),
    require("prod(mat2.storage) == ceil_div(mat2[0], 16) * 16 * ceil_div(mat2[1], 16) * 16"),
    require("mat2[0] == mat1[1]"),
    _NO_VECTOR_IN_NZ,
    max_rank(2, "self"),
    *_ADDMM_SHAPES,
    infer_shape(out="matmul_shape"),
    output_dtype(out=promoted("self", "mat1", "mat2")),
)


def _accumulated(names: str, product_shape: str, *more: Check) -> None:
    """batch1 @ batch2 plus self, which may be smaller; out has the product's shape."""
    rule(
        names,
        dtypes(FLOATS_OF_PRODUCT, "batch1", "batch2", "self", "out"),
        *cube_math_type_or_fp32_sums("batch1", "batch2"),
        rank(3, "batch1", "batch2"),
        require("batch2[1] == batch1[2]", "batch2[0] == batch1[0] or 1 in (batch1[0], batch2[0])"),
        define(matmul_shape=product_shape),
        when("0 in matmul_shape", require("self.empty")),
        when("0 not in matmul_shape", require("not self.empty")),
        require("broadcast(self, matmul_shape) == matmul_shape"),
        output_shape(out="matmul_shape"),
        *more,
        output_dtype(out=promoted("self", "batch1", "batch2")),
        aliases=_INPLACE,
    )


_accumulated(
    "aclnnAddbmm aclnnInplaceAddbmm",
    "(batch1[1], batch2[2])",
    on_operators("aclnnAddbmm", max_rank(2, "self")),
    same_format("batch1", "batch2"),
)
_accumulated("aclnnBaddbmm aclnnInplaceBaddbmm", "(*batch1[:2], batch2[2])", same_format("batch1", "batch2", "out"))


@refuses("dtype/promotion", "mat", "self", "vec")
def _promote_addmv(call: Call) -> DataType:
    """alpha and beta of 1 leave the dtypes of the tensors alone (a function: promotion depends on a scalar's value)."""

    def scaled(scalar: str, came: DataType, name: str) -> DataType:
        value = call[scalar]
        both = came if value is None or abs(float(value.value) - 1) < 1e-7 else promote(value.dtype, came)
        text = f"has dtype {came.name}, which does not promote with that of {scalar}"
        call.require(both is not DataType.DT_UNDEFINED, name, text, check="dtype/promotion")
        return both

    product = scaled("alpha", promoted("mat", "vec")(call), "mat")
    addend = scaled("beta", call.dtype("self"), "self")
    total = promote(addend, product)
    text = f"gives dtype {addend.name}, which does not promote with {product.name}"
    call.require(total is not DataType.DT_UNDEFINED, "self", text, check="dtype/promotion")
    return total


rule(
    "aclnnAddmv",
    dtypes("FLOAT INT32 INT64 FLOAT16 BF16 INT16 INT8 UINT8 DOUBLE BOOL", "self", "mat", "vec", "alpha", "beta", "out"),
    castable(_promote_addmv, "out"),
    max_rank(1, "self"),
    shape_patterns(mat="m k", vec="k", out="m"),
    require("self in ((), (m,)) or (self == (1,) and alpha != 0)"),
    *cube_math_type("mat", "vec", least=-1),
    not_nz("self", "mat", "vec", "out"),
    output_dtype(out=promoted("self", "mat", "vec")),
)
rule(
    "aclnnGemm",
    dtypes(FLOATS_OF_PRODUCT, "A", "B", "C", "out"),
    rank(2, "A", "B"),
    *matrix_product("A", "B", "transA", "transB"),
    require("broadcasts(C, (m, n))"),
    _empties_agree("out", "(m, n)"),
    *cube_math_type("A", "B", least=-1),
    formats("ND", "A", "B", "C", "out"),
    infer_shape(out="(m, n)"),
    output_dtype(out=promoted("A", "B", "C")),
)

# --------------------------------------------------------------------------------------------------- einsum

_INTEGERS = "INT16 INT32 INT64 UINT16 UINT32 UINT64"


def _normalised(equation: str) -> str:
    """An equation with its letters renamed a, b, c in the order in which they appear."""
    seen: dict[str, str] = {}
    return "".join(seen.setdefault(c, chr(ord("a") + len(seen))) if c.isalpha() else c for c in equation)


def _equation(form: str) -> Condition:
    return lambda call: _normalised(call["equation"]) == form


_OUTER, _WEIGHTED = _equation("a,b->ab"), _equation("abcd,abced->abce")


@refuses("value", "equation")
def _weighted_equation(call: Call) -> None:
    text = f"is {call['equation']!r}; it must be of the form 'abcd,abced->abce' or 'a,b->ab'"
    call.require(_WEIGHTED(call), "equation", text, check="value")


rule(
    "aclnnEinsum",
    dtypes({"A2 A3 950": "FLOAT16 FLOAT " + _INTEGERS, "": "FLOAT16 " + _INTEGERS}, "tensors", "output"),
    formats("ND", "tensors"),
    same_dtype("tensors", "tensors", "output"),
    array_length("tensors", 2),
    require("all(t is not None for t in tensors)"),
    define(a="tensors[0]", b="tensors[1]"),
    when(_OUTER, require("len(a) == 1", "len(b) == 1"), output_shape(output="(*a, *b)")),
    when(
        lambda call: not _OUTER(call),
        _weighted_equation,
        require("len(a) == 4", "len(b) == 5", "b[:3] == a[:3]", "b[4] == a[3]", "0 not in a", "b[3] > 0"),
        output_shape(output="b[:4]"),
    ),
)
