"""Rules of the plain products: matmul, its batched and accumulating forms, and those with a weight in FRACTAL_NZ."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

KEEP_DTYPE, USE_FP16 = 0, 2  # cubeMathType


def cube_math_type(*operands: str, keep_16_in_32: bool = True) -> Check:
    """cubeMathType is known and possible: the cubes of old chips multiply no float32 (-1: half precision, fp32 sums)."""

    def check(call: Call) -> None:
        value = call["cubeMathType"]
        least = -1 if call.product != "950" or not keep_16_in_32 else 0
        call.require(least <= value <= 4, "cubeMathType", f"is {value}; it must be in [{least}, 4]")
        if call.product not in ("A2", "A3", "950") and DataType.FLOAT in map(call.dtype, operands):
            text = f"is {value}; on {call.soc.name} FLOAT operands are multiplied as FLOAT16, so it must be 1 or 2"
            call.require(value in (1, 2), "cubeMathType", text)

    return check


def inner_axes(left: str, right: str, left_axis: int = -1, right_axis: int = -2) -> Check:
    """The axes that a product sums over have the same size."""

    def check(call: Call) -> None:
        a, b = call.shape(left), call.shape(right)
        m, n = a[left_axis], b[right_axis]
        text = f"has shape {b}; its axis {right_axis} must be {m}, as axis {left_axis} of {call.python_name(left)} {a}"
        call.require(m == n, right, text)

    return check


def _not_nz(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(call[name].format is not Format.FRACTAL_NZ, name, "has format FRACTAL_NZ; it must be ND")

    return check


def _broadcast_with(name: str, target: ShapeRule) -> Check:
    """A tensor and a product broadcast, whichever is the smaller."""

    def check(call: Call) -> None:
        wanted = target(call)
        assert isinstance(wanted, tuple)
        fits = broadcast_shapes(call.shape(name), wanted) is not None
        call.require(fits, name, f"has shape {call.shape(name)}, which does not broadcast with the product's {wanted}")

    return check


# --------------------------------------------------------------------------------------------------- two operands

_MM_OUT = shape_from(("self", 0), ("mat2", 1))

rule(
    "aclnnMm",
    dtypes(FLOATS_OF_PRODUCT, "self", "mat2", "out"),
    cube_math_type("self", "mat2"),
    rank(2, 2, "self", "mat2"),
    inner_axes("self", "mat2"),
    rank(2, 2, "out"),
    output_shape(out=_MM_OUT),
    output_dtype(out=promoted("self", "mat2")),
)
rule(
    "aclnnMv",
    same_dtype("out", "vec"),
    lambda call: None if call["self"].size == 0 else same_dtype("self", "vec")(call),
    dtypes(FLOATS_OF_PRODUCT, "self", "vec", "out"),
    cube_math_type("self", "vec"),
    rank(2, 2, "self"),
    rank(1, 1, "vec", "out"),
    inner_axes("self", "vec", right_axis=0),
    output_shape(out=shape_from(("self", 0))),
    output_dtype(out=dtype_of("vec")),
)


def matmul_shape(call: Call) -> Shape:
    """The shape of self @ mat2 by NumPy's rules."""
    a, b = call.shape("self"), call.shape("mat2")
    for name, sizes in (("self", a), ("mat2", b)):
        call.require(len(sizes) > 0, name, "is a 0-d tensor; it must have 1 to 6 dimensions")
    inner_axes("self", "mat2", right_axis=0 if len(b) < 3 else -2)(call)
    batch = broadcast_shapes(a[:-2], b[:-2])
    if batch is None:
        call.refuse("mat2", f"has shape {b}, whose batch does not broadcast with that of {a}")
    return batch + (a[-2:-1] if len(a) > 1 else ()) + (b[-1:] if len(b) > 1 else ())


def _matmul_inner(call: Call) -> None:
    matmul_shape(call)


def _matmul_out(call: Call) -> None:
    """CANN reshapes the product to out's shape, and fills out with zeros where an operand is empty."""
    wanted, came = matmul_shape(call), call.shape("out")
    empty = 0 in call.shape("self") + call.shape("mat2")
    text = f"has shape {came}; it must be {wanted}, or have as many elements"
    call.require(empty or math.prod(wanted) == math.prod(came), "out", text, INNER_NULLPTR)


def _mixed_nz(call: Call) -> None:
    if call["mat2"].format is Format.FRACTAL_NZ:
        mixed = {call.dtype("self"), call.dtype("mat2")} == {DataType.FLOAT16, DataType.BF16}
        call.require(
            not mixed, "mat2", "is FRACTAL_NZ and self has the other of FLOAT16 and BF16; they must be the same"
        )


rule(
    "aclnnMatmul",
    dtypes(FLOATS_OF_PRODUCT, "self", "mat2", "out"),
    cube_math_type("self", "mat2"),
    _mixed_nz,
    rank(1, 6, "self", "mat2"),
    _matmul_inner,
    _not_nz("self", "out"),
    _matmul_out,
    infer_shape(out=matmul_shape),
    output_dtype(out=promoted("self", "mat2")),
)


def _batch(left: str, right: str) -> Check:
    """The batches of two 3-D operands are the same, or one of them is 1."""

    def check(call: Call) -> None:
        a, b = call.shape(left)[0], call.shape(right)[0]
        call.require(a == b or 1 in (a, b), right, f"has a batch of {b}; {call.python_name(left)} has {a}")

    return check


def _bmm_out(call: Call) -> Shape:
    a, b = call.shape("self"), call.shape("mat2")
    for name, sizes in (("self", a), ("mat2", b)):
        call.require(len(sizes) == 3, name, f"has rank {len(sizes)} (shape {sizes}); it must be 3")
    return max(a[0], b[0]), a[1], b[2]


def _no_vector_in_nz(name: str) -> Check:
    """A FRACTAL_NZ matrix is no row or column."""

    def check(call: Call) -> None:
        sizes = call.shape(name)
        vector = call[name].format is Format.FRACTAL_NZ and 1 in sizes[-2:]
        call.require(not vector, name, f"has shape {sizes} in FRACTAL_NZ; its last two axes must not be 1")

    return check


_BMM = (
    rank(3, 3, "self", "mat2", "out"),
    _no_vector_in_nz("mat2"),
    inner_axes("self", "mat2"),
    _batch("self", "mat2"),
    output_shape(out=_bmm_out),
)

rule(
    "aclnnBatchMatMul",
    dtypes(FLOATS_OF_PRODUCT, "self", "mat2", "out"),
    cube_math_type("self", "mat2"),
    *_BMM,
    _not_nz("self", "out"),
    output_dtype(out=promoted("self", "mat2")),
)


def _storage_rank(name: str, count: int) -> Check:
    def check(call: Call) -> None:
        sizes = call[name].storage_shape
        text = f"has a storage shape {sizes}; in FRACTAL_NZ it must have {count} axes"
        call.require(len(sizes) == count, name, text)

    return check


_C0 = {DataType.FLOAT: 8}  # columns of a FRACTAL_NZ block, 16 for the two half precisions


def _nz_storage(name: str, transposed: bool = True) -> Check:
    """The storage holds the matrix in whole blocks of 16 rows and c0 columns."""

    def check(call: Call) -> None:
        tensor = call[name]
        rows, columns = tensor.shape[-2:]
        if transposed and tensor.strides[-2] == 1 and tensor.strides[-1] == rows:
            rows, columns = columns, rows
        c0 = _C0.get(tensor.dtype, 16)
        blocks = math.prod(tensor.shape[:-2]) * -(-rows // 16) * 16 * -(-columns // c0) * c0
        text = f"has a storage shape {tensor.storage_shape}; in FRACTAL_NZ it must have {blocks} elements"
        call.require(math.prod(tensor.storage_shape) == blocks, name, text)

    return check


def _matching_halves(left: str, right: str) -> Check:
    """Both operands are FLOAT16 or both are BF16; out is the same, or FLOAT."""

    def check(call: Call) -> None:
        dtypes(HALVES, left, right)(call)
        same_dtype(left, right)(call)
        text = f"has dtype {call.dtype('out').name}; it must be {call.dtype(left).name} or FLOAT"
        call.require(call.dtype("out") in (call.dtype(left), DataType.FLOAT), "out", text)

    return check


rule(
    "aclnnBatchMatMulWeightNz",
    only_products("A2 A3 950"),
    _matching_halves("self", "mat2"),
    *_BMM,
    _storage_rank("mat2", 5),
    cube_math_type("self", "mat2", keep_16_in_32=False),
    output_dtype(out=dtype_of("self")),
)


def _weight_nz_dtypes(call: Call) -> None:
    floats = DataType.FLOAT in (call.dtype("self"), call.dtype("mat2"))
    if call["mat2"].format is Format.FRACTAL_NZ and floats:
        call.require(
            call.product in ("A2", "A3"), "mat2", f"is FLOAT in FRACTAL_NZ, which {call.soc.name} does not support"
        )
    narrowing = call["cubeMathType"] == KEEP_DTYPE and call.dtype("self") is DataType.FLOAT
    text = "has dtype FLOAT16; with self FLOAT and cube_math_type 0 (keep dtype) it must be FLOAT or BF16"
    call.require(not narrowing or call.dtype("out") is not DataType.FLOAT16, "out", text)


rule(
    "aclnnMatmulWeightNz",
    dtypes(FLOATS_OF_PRODUCT, "self", "mat2", "out"),
    _weight_nz_dtypes,
    _mixed_nz,
    only_products("A2 A3 310P 950"),
    formats("FRACTAL_NZ", "mat2"),
    rank(2, 2, "self", "mat2"),
    _storage_rank("mat2", 4),
    _no_vector_in_nz("mat2"),
    inner_axes("self", "mat2"),
    cube_math_type("self", "mat2"),
    unless_empty("self mat2", _nz_storage("mat2")),
    copied_output_shape(out=_MM_OUT),
    output_dtype(out=promoted("self", "mat2")),
)

# --------------------------------------------------------------------------------------------------- accumulating


def _addmm_out(call: Call) -> None:
    """An empty product wants an empty out, of any shape."""
    wanted = (call.shape("mat1")[0], call.shape("mat2")[1])
    came = call.shape("out") if "out" in call.operator.positions else call.shape("selfRef")
    fits = 0 in came if 0 in wanted else came[:2] == wanted
    call.require(
        fits, "out" if "out" in call.operator.positions else "selfRef", f"has shape {came}; it must be {wanted}"
    )


def _addmm(self: str, out: str) -> tuple[Check, ...]:
    return (
        dtypes(FLOATS_OF_PRODUCT, "mat1", "mat2", self, out),
        cube_math_type("mat1", "mat2"),
        rank(2, 2, "mat1", "mat2"),
        inner_axes("mat1", "mat2"),
        _not_nz(self),
        max_rank(2, self),
        lambda call: call.require(
            len(call[self].storage_shape) > 0, self, "has a 0-d storage; it must have 1 axis or more"
        ),
        _broadcast_with(self, shape_from(("mat1", 0), ("mat2", 1))),
        _addmm_out,
    )


rule(
    "aclnnAddmm",
    *_addmm("self", "out"),
    infer_shape(out=shape_from(("mat1", 0), ("mat2", 1))),
    output_dtype(out=promoted("self", "mat1", "mat2")),
)
rule("aclnnInplaceAddmm", *_addmm("selfRef", "selfRef"))
rule(
    "aclnnAddmmWeightNz",
    only_products("A2 A3 950"),
    formats("ND", "self", "mat1"),
    formats("FRACTAL_NZ", "mat2"),
    dtypes("FLOAT FLOAT16 BF16", "self", "out"),
    dtypes(HALVES, "mat1", "mat2"),
    cube_math_type("mat1", "mat2"),
    same_dtype("mat1", "mat2"),
    _storage_rank("mat2", 4),
    rank(2, 2, "mat1", "mat2"),
    _nz_storage("mat2", transposed=False),
    inner_axes("mat1", "mat2"),
    _no_vector_in_nz("mat2"),
    max_rank(2, "self"),
    _broadcast_with("self", shape_from(("mat1", 0), ("mat2", 1))),
    _addmm_out,
    infer_shape(out=shape_from(("mat1", 0), ("mat2", 1))),
    output_dtype(out=promoted("self", "mat1", "mat2")),
)


def _accumulated(self: str, out: str, product: ShapeRule) -> tuple[Check, ...]:
    """batch1 @ batch2 plus self, which may be smaller; out has the product's shape."""

    def empties(call: Call) -> None:
        wanted = product(call)
        assert isinstance(wanted, tuple)
        text = f"has shape {call.shape(self)}; it must be empty just where the product, {wanted}, is"
        call.require((0 in call.shape(self)) == (0 in wanted), self, text)

    def exact(call: Call) -> None:
        wanted = product(call)
        assert isinstance(wanted, tuple)
        text = f"has shape {call.shape(self)}, which enlarges the product's {wanted}"
        call.require(broadcast_shapes(call.shape(self), wanted) == wanted, self, text)

    return (
        dtypes(FLOATS_OF_PRODUCT, "batch1", "batch2", self, out),
        cube_math_type("batch1", "batch2"),
        rank(3, 3, "batch1", "batch2"),
        inner_axes("batch1", "batch2"),
        _batch("batch1", "batch2"),
        empties,
        exact,
        output_shape(**{out: product}),
    )


_ADDBMM_OUT = shape_from(("batch1", 1), ("batch2", 2))
_BADDBMM_OUT = shape_from(("batch1", 0), ("batch1", 1), ("batch2", 2))

rule(
    "aclnnAddbmm",
    *_accumulated("self", "out", _ADDBMM_OUT),
    max_rank(2, "self"),
    same_format("batch1", "batch2"),
    output_dtype(out=promoted("self", "batch1", "batch2")),
)
rule("aclnnInplaceAddbmm", *_accumulated("selfRef", "selfRef", _ADDBMM_OUT), same_format("batch1", "batch2"))
rule(
    "aclnnBaddbmm",
    *_accumulated("self", "out", _BADDBMM_OUT),
    same_format("batch1", "batch2", "out"),
    output_dtype(out=promoted("self", "batch1", "batch2")),
)
rule(
    "aclnnInplaceBaddbmm",
    *_accumulated("selfRef", "selfRef", _BADDBMM_OUT),
    same_format("batch1", "batch2", "selfRef"),
)

_ADDMV = "FLOAT INT32 INT64 FLOAT16 BF16 INT16 INT8 UINT8 DOUBLE BOOL"


def _promote_addmv(call: Call) -> DataType:
    """alpha and beta of 1 leave the dtypes of the tensors alone."""

    def scaled(scalar: str, came: DataType, name: str) -> DataType:
        value = call[scalar]
        both = came if value is None or abs(float(value.value) - 1) < 1e-7 else promote(value.dtype, came)
        text = f"has dtype {came.name}, which does not promote with that of {scalar}"
        call.require(both is not DataType.DT_UNDEFINED, name, text)
        return both

    product = scaled("alpha", promoted("mat", "vec")(call), "mat")
    addend = scaled("beta", call.dtype("self"), "self")
    total = promote(addend, product)
    text = f"gives dtype {addend.name}, which does not promote with {product.name}"
    call.require(total is not DataType.DT_UNDEFINED, "self", text)
    return total


def _addmv_dtypes(call: Call) -> None:
    total = _promote_addmv(call)
    text = f"has dtype {call.dtype('out').name}; a {total.name} result cannot be cast to it"
    call.require(can_cast(total, call.dtype("out")), "out", text)


def _addmv_self(call: Call) -> None:
    sizes, rows = call.shape("self"), call.shape("mat")[0]
    fits = sizes in ((), (rows,)) or (sizes == (1,) and call["alpha"].value != 0)
    call.require(fits, "self", f"has shape {sizes}; it must be ({rows},), as the rows of mat, or have one element")


rule(
    "aclnnAddmv",
    dtypes(_ADDMV, "self", "mat", "vec", "alpha", "beta", "out"),
    _addmv_dtypes,
    max_rank(1, "self"),
    rank(2, 2, "mat"),
    rank(1, 1, "vec", "out"),
    inner_axes("mat", "vec", right_axis=0),
    output_shape(out=shape_from(("mat", 0))),
    _addmv_self,
    cube_math_type("mat", "vec", keep_16_in_32=False),
    _not_nz("self", "mat", "vec", "out"),
    output_dtype(out=promoted("self", "mat", "vec")),
)


def _gemm_out(call: Call) -> Shape:
    a, b = call.shape("A"), call.shape("B")
    for name, sizes in (("A", a), ("B", b)):
        call.require(len(sizes) == 2, name, f"has rank {len(sizes)} (shape {sizes}); it must be 2")
    return a[1 if call["transA"] else 0], b[0 if call["transB"] else 1]


def _gemm_checks(call: Call) -> None:
    inner_axes("A", "B", -2 if call["transA"] else -1, -1 if call["transB"] else -2)(call)
    _broadcast_with("C", _gemm_out)(call)
    wanted, came = _gemm_out(call), call.shape("out")
    fits = 0 in came if 0 in wanted else came[:2] == wanted
    call.require(fits, "out", f"has shape {came}; it must be {wanted}")


rule(
    "aclnnGemm",
    dtypes(FLOATS_OF_PRODUCT, "A", "B", "C", "out"),
    rank(2, 2, "A", "B"),
    _gemm_checks,
    cube_math_type("A", "B", keep_16_in_32=False),
    formats("ND", "A", "B", "C", "out"),
    infer_shape(out=_gemm_out),
    output_dtype(out=promoted("A", "B", "C")),
)

# --------------------------------------------------------------------------------------------------- einsum

_EINSUM: DtypeSet = {
    "A2 A3 950": "FLOAT16 FLOAT INT16 INT32 INT64 UINT16 UINT32 UINT64",
    "": "FLOAT16 INT16 INT32 INT64 UINT16 UINT32 UINT64",
}


def _normalised(equation: str) -> str:
    """An equation with its letters renamed a, b, c in the order in which they appear."""
    seen: dict[str, str] = {}
    return "".join(seen.setdefault(c, chr(ord("a") + len(seen))) if c.isalpha() else c for c in equation)


def _einsum_out(call: Call) -> Shape:
    tensors, equation = call["tensors"], call["equation"]
    call.require(len(tensors) == 2, "tensors", f"has {len(tensors)} tensors; it must have 2")
    a, b = call.tensors("tensors")[0].shape, call.tensors("tensors")[-1].shape
    form = _normalised(equation)
    if form == "a,b->ab":
        call.require(len(a) == len(b) == 1, "tensors", f"has shapes {a} and {b}; {equation!r} takes two vectors")
        return a + b
    text = f"is {equation!r}; it must be of the form 'abcd,abced->abce' or 'a,b->ab'"
    call.require(form == "abcd,abced->abce", "equation", text)
    fits = len(a) == 4 and len(b) == 5 and a[:3] == b[:3] and a[3] == b[4]
    call.require(fits, "tensors", f"has shapes {a} and {b}, which do not fit {equation!r}")
    call.require(0 not in a + b[3:4], "tensors", f"has shapes {a} and {b}; they must not be empty")
    return b[:4]


rule(
    "aclnnEinsum",
    dtypes(_EINSUM, "tensors", "output"),
    formats("ND", "tensors"),
    same_dtype("tensors", "tensors", "output"),
    output_shape(output=_einsum_out),
)
