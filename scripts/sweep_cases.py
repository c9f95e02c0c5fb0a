"""What ``bench_references.py --sweep`` times: operators of all families at users' sizes, beside what torch calls the same.

A case is two expressions on the same named data: ``o`` is ``ascend_aclnn.ops`` or ``torch``, ``a`` has the arrays or tensors.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

INT32, INT64, FLOAT = 3, 9, 0  # aclDataType


class Case(NamedTuple):
    family: str
    name: str
    ours: Callable[[Any, Any], Any]
    theirs: Callable[[Any, Any], Any]
    dtypes: str = "fp32 bf16 fp16"
    exact: bool = True  # results are compared: torch computes the same


CASES: list[Case] = []
WRITTEN = ("scratch", "moving_mean", "moving_var", "counts")  # data that cases write to


def case(
    family: str, name: str, ours: Callable[[Any, Any], Any], theirs: Callable[[Any, Any], Any], **more: Any
) -> None:
    CASES.append(Case(family, name, ours, theirs, **more))


def same(family: str, names: str, data: str = "x") -> None:
    """Functions of one tensor that have the same name on both sides."""
    for name in names.split():
        case(
            family,
            name,
            lambda o, a, name=name: getattr(o, name)(getattr(a, data)),
            lambda o, a, name=name: getattr(o, name)(getattr(a, data)),
        )


# ------------------------------------------------------------------------------------------------------ math
same("math", "abs neg exp sin cos tanh erf floor round sign")
same("math", "sqrt rsqrt log reciprocal", "positive")
case("math", "add", lambda o, a: o.add(a.x, a.y, 1), lambda o, a: a.x + a.y)
case("math", "add, a row", lambda o, a: o.add(a.x, a.row, 1), lambda o, a: a.x + a.row)
case("math", "add, transposed", lambda o, a: o.add(a.square, a.square.T, 1), lambda o, a: a.square + a.square.T)
case(
    "math", "inplace_add", lambda o, a: o.inplace_add(a.scratch, a.y, 1), lambda o, a: a.scratch.add_(a.y), exact=False
)
case("math", "sub", lambda o, a: o.sub(a.x, a.y, 1), lambda o, a: a.x - a.y)
case("math", "mul", lambda o, a: o.mul(a.x, a.y), lambda o, a: a.x * a.y)
case("math", "muls", lambda o, a: o.muls(a.x, 0.5), lambda o, a: a.x * 0.5)
case("math", "div", lambda o, a: o.div(a.x, a.positive), lambda o, a: a.x / a.positive)
case("math", "maximum", lambda o, a: o.maximum(a.x, a.y), lambda o, a: o.maximum(a.x, a.y))
case("math", "pow_tensor_scalar", lambda o, a: o.pow_tensor_scalar(a.positive, 2.0), lambda o, a: a.positive**2)
case("math", "gt_scalar", lambda o, a: o.gt_scalar(a.x, 0.0), lambda o, a: a.x > 0)
case("math", "eq_tensor", lambda o, a: o.eq_tensor(a.x, a.y), lambda o, a: a.x == a.y)
case("math", "is_finite", lambda o, a: o.is_finite(a.x), lambda o, a: o.isfinite(a.x))
case("math", "logical_and", lambda o, a: o.logical_and(a.mask, a.mask), lambda o, a: a.mask & a.mask, dtypes="fp32")
case("math", "s_where", lambda o, a: o.s_where(a.mask, a.x, a.y), lambda o, a: o.where(a.mask, a.x, a.y))
case(
    "math",
    "addcmul",
    lambda o, a: o.addcmul(a.x, a.y, a.positive, 0.5),
    lambda o, a: o.addcmul(a.x, a.y, a.positive, value=0.5),
)
case("math", "lerp", lambda o, a: o.lerp(a.x, a.y, a.positive), lambda o, a: o.lerp(a.x, a.y, a.positive))
case("math", "cast to float", lambda o, a: o.cast(a.x, FLOAT), lambda o, a: a.x.float(), dtypes="bf16 fp16")
case("math", "cast to int32", lambda o, a: o.cast(a.x, INT32), lambda o, a: a.x.int())
case("math", "reduce_sum, rows", lambda o, a: o.reduce_sum(a.x, [1], False, a.code), lambda o, a: a.x.sum(1))
case("math", "reduce_sum, columns", lambda o, a: o.reduce_sum(a.x, [0], False, a.code), lambda o, a: a.x.sum(0))
case("math", "reduce_sum, all", lambda o, a: o.reduce_sum(a.x, [0, 1], False, a.code), lambda o, a: a.x.sum())
case("math", "mean", lambda o, a: o.mean(a.x, [1], False, a.code), lambda o, a: a.x.mean(1))
case("math", "amax", lambda o, a: o.amax(a.x, [1], False), lambda o, a: a.x.amax(1))
case("math", "max_dim", lambda o, a: o.max_dim(a.x, 1, False), lambda o, a: a.x.max(1))
case("math", "arg_max", lambda o, a: o.arg_max(a.x, 1, False), lambda o, a: a.x.argmax(1), exact=False)
case("math", "var", lambda o, a: o.var(a.x, [1], True, False), lambda o, a: a.x.var(1))
case(
    "math",
    "linalg_vector_norm",
    lambda o, a: o.linalg_vector_norm(a.x, 2.0, [1], False, a.code),
    lambda o, a: a.x.norm(2, 1),
)
case("math", "log_sum_exp", lambda o, a: o.log_sum_exp(a.x, [1], False), lambda o, a: a.x.logsumexp(1))
case("math", "cumsum", lambda o, a: o.cumsum(a.x, 1, a.code), lambda o, a: a.x.cumsum(1), exact=False)
case("math", "cumsum, columns", lambda o, a: o.cumsum(a.x, 0, a.code), lambda o, a: a.x.cumsum(0), exact=False)
case("math", "topk", lambda o, a: o.topk(a.x, 8, 1, True, True), lambda o, a: a.x.topk(8, 1))
case(
    "math", "topk, 1 of 32k words", lambda o, a: o.topk(a.logits, 50, 1, True, True), lambda o, a: a.logits.topk(50, 1)
)
case("math", "sort", lambda o, a: o.sort(a.quarter, False, 1, False), lambda o, a: a.quarter.sort(1))
case(
    "math",
    "argsort, int64",
    lambda o, a: o.argsort(a.keys, 0, False),
    lambda o, a: a.keys.argsort(stable=True),
    dtypes="fp32",
)
case(
    "math",
    "unique2",
    lambda o, a: o.unique2(a.keys, True, False, False),
    lambda o, a: o.unique(a.keys),
    dtypes="fp32",
    exact=False,
)
case(
    "math",
    "bincount",
    lambda o, a: o.bincount(a.keys, None, 32768, out=a.counts),
    lambda o, a: o.bincount(a.keys, minlength=32768),
    dtypes="fp32",
)
case("math", "clamp", lambda o, a: o.clamp(a.x, -1.0, 1.0), lambda o, a: a.x.clamp(-1, 1))
case(
    "math",
    "remainder_tensor_scalar",
    lambda o, a: o.remainder_tensor_scalar(a.x, 0.7),
    lambda o, a: a.x % 0.7,
    exact=False,
)

# ------------------------------------------------------------------------------------------------------ conversion
case("conversion", "cat", lambda o, a: o.cat([a.x, a.y], 1), lambda o, a: o.cat([a.x, a.y], 1))
case("conversion", "stack", lambda o, a: o.stack([a.x, a.y], 0), lambda o, a: o.stack([a.x, a.y], 0))
case(
    "conversion",
    "split_tensor",
    lambda o, a: o.split_tensor(a.x, 1024, 1),
    lambda o, a: [p.contiguous() for p in a.x.split(1024, 1)],
    exact=False,
)
case(
    "conversion",
    "permute",
    lambda o, a: o.permute(a.heads, [0, 2, 1, 3]),
    lambda o, a: a.heads.permute(0, 2, 1, 3).contiguous(),
)
case("conversion", "permute, transposed", lambda o, a: o.permute(a.x, [1, 0]), lambda o, a: a.x.t().contiguous())
case("conversion", "slice", lambda o, a: o.slice(a.x, 1, 0, 2048, 1), lambda o, a: a.x[:, :2048].contiguous())
case("conversion", "flip", lambda o, a: o.flip(a.x, [1]), lambda o, a: a.x.flip(1))
case("conversion", "roll", lambda o, a: o.roll(a.x, [5], [1]), lambda o, a: a.x.roll(5, 1))
case("conversion", "repeat", lambda o, a: o.repeat(a.quarter, [1, 4]), lambda o, a: a.quarter.repeat(1, 4))
case(
    "conversion",
    "constant_pad_nd",
    lambda o, a: o.constant_pad_nd(a.image, [1, 1, 1, 1], 0.0),
    lambda o, a: o.nn.functional.pad(a.image, (1, 1, 1, 1)),
)
case("conversion", "triu", lambda o, a: o.triu(a.square, 1), lambda o, a: a.square.triu(1))
case("conversion", "tril, bool", lambda o, a: o.tril(a.causal, 0), lambda o, a: a.causal.tril(), dtypes="fp32")
case("conversion", "inplace_copy", lambda o, a: o.inplace_copy(a.scratch, a.y), lambda o, a: a.scratch.copy_(a.y))
case(
    "conversion",
    "inplace_fill_scalar",
    lambda o, a: o.inplace_fill_scalar(a.scratch, 1.0),
    lambda o, a: a.scratch.fill_(1.0),
)
case(
    "conversion",
    "one_hot",
    lambda o, a: o.one_hot(a.experts, 64, a.one, a.zero),
    lambda o, a: o.nn.functional.one_hot(a.experts.long(), 64),
    dtypes="fp32",
    exact=False,
)

# ------------------------------------------------------------------------------------------------------ activation
same("activation", "relu sigmoid")
for _name in ("silu", "mish", "hardswish", "softplus", "elu", "leaky_relu", "gelu", "glu"):
    _ours = {
        "softplus": lambda o, a: o.softplus(a.x, 1.0, 20.0),
        "leaky_relu": lambda o, a: o.leaky_relu(a.x, 0.01),
        "gelu": lambda o, a: o.gelu_v2(a.x, 0),
        "glu": lambda o, a: o.glu(a.x, -1),
    }.get(_name, lambda o, a, name=_name: getattr(o, name)(a.x))
    case("activation", _name, _ours, lambda o, a, name=_name: getattr(o.nn.functional, name)(a.x))
case("activation", "gelu, tanh", lambda o, a: o.gelu(a.x), lambda o, a: o.nn.functional.gelu(a.x, approximate="tanh"))
case(
    "activation",
    "swi_glu",
    lambda o, a: o.swi_glu(a.x, -1),
    lambda o, a: o.nn.functional.silu(a.x[:, :2048]) * a.x[:, 2048:],
)
case(
    "activation",
    "gelu_backward",
    lambda o, a: o.gelu_backward(a.y, a.x),
    lambda o, a: o.ops.aten.gelu_backward(a.y, a.x, approximate="tanh"),
)
case(
    "activation",
    "silu_backward",
    lambda o, a: o.silu_backward(a.y, a.x),
    lambda o, a: o.ops.aten.silu_backward(a.y, a.x),
)
case(
    "activation",
    "sigmoid_backward",
    lambda o, a: o.sigmoid_backward(a.y, a.x),
    lambda o, a: o.ops.aten.sigmoid_backward(a.y, a.x),
)
case(
    "activation",
    "threshold_backward",
    lambda o, a: o.threshold_backward(a.y, a.x, 0.0),
    lambda o, a: o.ops.aten.threshold_backward(a.y, a.x, 0),
)
case("activation", "softmax", lambda o, a: o.softmax(a.x, -1), lambda o, a: a.x.softmax(-1))
case("activation", "softmax, 32k words", lambda o, a: o.softmax(a.logits, -1), lambda o, a: a.logits.softmax(-1))
case("activation", "log_softmax", lambda o, a: o.log_softmax(a.x, -1), lambda o, a: a.x.log_softmax(-1))
case(
    "activation",
    "softmax_backward",
    lambda o, a: o.softmax_backward(a.y, a.probabilities, -1),
    lambda o, a: o.ops.aten._softmax_backward_data(a.y, a.probabilities, -1, a.y.dtype),
)
case(
    "activation",
    "log_softmax_backward",
    lambda o, a: o.log_softmax_backward(a.y, a.x, -1),
    lambda o, a: o.ops.aten._log_softmax_backward_data(a.y, a.x, -1, a.y.dtype),
    exact=False,
)

# ------------------------------------------------------------------------------------------------------ norm
case(
    "norm",
    "layer_norm",
    lambda o, a: o.layer_norm(a.x, [4096], a.row, a.row, 1e-5),
    lambda o, a: o.native_layer_norm(a.x, (4096,), a.row, a.row, 1e-5),
)
case(
    "norm",
    "layer_norm_backward",
    lambda o, a: o.layer_norm_backward(a.y, a.x, [4096], a.mean, a.rstd, a.row, a.row, [True, True, True]),
    lambda o, a: o.ops.aten.native_layer_norm_backward(
        a.y, a.x, (4096,), a.mean, a.rstd, a.row, a.row, [True, True, True]
    ),
    dtypes="fp32",
)
case(
    "norm",
    "rms_norm",
    lambda o, a: o.rms_norm(a.x, a.row),
    lambda o, a: o.nn.functional.rms_norm(a.x, (4096,), a.row, 1e-6),
)
case(
    "norm",
    "add_rms_norm",
    lambda o, a: o.add_rms_norm(a.x, a.y, a.row),
    lambda o, a: o.nn.functional.rms_norm(a.x + a.y, (4096,), a.row, 1e-6),
)
case(
    "norm",
    "group_norm",
    lambda o, a: o.group_norm(a.image, a.channels, a.channels, 4, 64, 3136, 8, 1e-5),
    lambda o, a: o.native_group_norm(a.image, a.channels, a.channels, 4, 64, 3136, 8, 1e-5),
)
case(
    "norm",
    "batch_norm",
    lambda o, a: o.batch_norm(a.image, a.channels, a.channels, a.moving_mean, a.moving_var, True, 0.1, 1e-5),
    lambda o, a: o.native_batch_norm(a.image, a.channels, a.channels, a.moving_mean, a.moving_var, True, 0.1, 1e-5),
    dtypes="fp32",
    exact=False,
)

# ------------------------------------------------------------------------------------------------------ index
case(
    "index",
    "embedding",
    lambda o, a: o.embedding(a.table, a.words),
    lambda o, a: o.nn.functional.embedding(a.words, a.table),
)
case(
    "index",
    "embedding_dense_backward",
    lambda o, a: o.embedding_dense_backward(a.grads, a.words, 32768, -1),
    lambda o, a: o.ops.aten.embedding_dense_backward(a.grads, a.words, 32768, -1, False),
    exact=False,
)
case("index", "index_select", lambda o, a: o.index_select(a.x, 0, a.places), lambda o, a: a.x.index_select(0, a.places))
case(
    "index",
    "index_select, columns",
    lambda o, a: o.index_select(a.x, 1, a.places),
    lambda o, a: a.x.index_select(1, a.places),
)
case("index", "index", lambda o, a: o.index(a.x, [a.places]), lambda o, a: a.x[a.places])
case("index", "gather", lambda o, a: o.gather(a.x, 1, a.columns), lambda o, a: a.x.gather(1, a.columns))
case(
    "index",
    "scatter",
    lambda o, a: o.scatter(a.x, 1, a.columns, a.quarter, 0),
    lambda o, a: a.x.scatter(1, a.columns, a.quarter),
    exact=False,
)
case(
    "index",
    "scatter_add",
    lambda o, a: o.scatter_add(a.x, 1, a.columns, a.quarter),
    lambda o, a: a.x.scatter_add(1, a.columns, a.quarter),
    exact=False,
)
case(
    "index",
    "index_add",
    lambda o, a: o.index_add(a.x, 0, a.places, a.y, 1),
    lambda o, a: a.x.index_add(0, a.places, a.y),
    exact=False,
)
case(
    "index",
    "index_put_impl",
    lambda o, a: o.index_put_impl(a.scratch, [a.places], a.y, False, False),
    lambda o, a: a.scratch.index_put_((a.places,), a.y),
    exact=False,
)
case(
    "index",
    "inplace_masked_fill_scalar",
    lambda o, a: o.inplace_masked_fill_scalar(a.scratch, a.mask, 0.0),
    lambda o, a: a.scratch.masked_fill_(a.mask, 0.0),
    exact=False,
)
case("index", "masked_select", lambda o, a: o.masked_select(a.x, a.mask), lambda o, a: a.x.masked_select(a.mask))
case("index", "nonzero", lambda o, a: o.nonzero(a.mask), lambda o, a: a.mask.nonzero(), dtypes="fp32")
case(
    "index",
    "unique_dim",
    lambda o, a: o.unique_dim(a.pairs, True, True, 0),
    lambda o, a: o.unique(a.pairs, dim=0, return_inverse=True),
    dtypes="fp32",
    exact=False,
)

# ------------------------------------------------------------------------------------------------------ loss
case("loss", "mse_loss", lambda o, a: o.mse_loss(a.x, a.y, 1), lambda o, a: o.nn.functional.mse_loss(a.x, a.y))
case("loss", "l1_loss", lambda o, a: o.l1_loss(a.x, a.y, 1), lambda o, a: o.nn.functional.l1_loss(a.x, a.y))
case(
    "loss",
    "smooth_l1_loss",
    lambda o, a: o.smooth_l1_loss(a.x, a.y, 0, 1.0),
    lambda o, a: o.nn.functional.smooth_l1_loss(a.x, a.y, reduction="none"),
)
case(
    "loss",
    "mse_loss_backward",
    lambda o, a: o.mse_loss_backward(a.positive, a.x, a.y, 0),
    lambda o, a: o.ops.aten.mse_loss_backward(a.positive, a.x, a.y, 0),
)
case(
    "loss",
    "binary_cross_entropy_with_logits",
    lambda o, a: o.binary_cross_entropy_with_logits(a.x, a.probabilities, None, None, 1),
    lambda o, a: o.nn.functional.binary_cross_entropy_with_logits(a.x, a.probabilities),
)
case(
    "loss",
    "nll_loss",
    lambda o, a: o.nll_loss(a.logits, a.targets, a.vocabulary, 1, -100),
    lambda o, a: o.nn.functional.nll_loss(a.logits, a.targets, a.vocabulary),
    exact=False,
)
case(
    "loss",
    "nll_loss, 2048 rows",
    lambda o, a: o.nll_loss(a.x, a.classes, a.row, 1, -100),
    lambda o, a: o.nn.functional.nll_loss(a.x, a.classes, a.row),
    exact=False,
)
case(
    "loss",
    "cross_entropy_loss",
    lambda o, a: o.cross_entropy_loss(a.x, a.classes, a.weights, "mean", -100, 0.0, 0.0, False),
    lambda o, a: o.nn.functional.cross_entropy(a.x, a.classes),
    exact=False,
)
case(
    "loss",
    "kl_div",
    lambda o, a: o.kl_div(a.x, a.probabilities, 1, False),
    lambda o, a: o.nn.functional.kl_div(a.x, a.probabilities, reduction="mean"),
    exact=False,
)

# ---------------------------------------------------------------------------------- matmul, conv, pooling, image
# Without AVX512-FP16 torch multiplies float16 element by element: half a minute for the first.
PRODUCTS = "fp32 bf16"
case("matmul", "mm", lambda o, a: o.mm(a.x, a.weight), lambda o, a: a.x @ a.weight, exact=False, dtypes=PRODUCTS)
case(
    "matmul",
    "mm, transposed",
    lambda o, a: o.mm(a.x, a.weight_t.T),
    lambda o, a: a.x @ a.weight_t.T,
    exact=False,
    dtypes=PRODUCTS,
)
case(
    "matmul",
    "addmm",
    lambda o, a: o.addmm(a.bias, a.x, a.weight, 1.0, 1.0),
    lambda o, a: o.addmm(a.bias, a.x, a.weight),
    exact=False,
    dtypes=PRODUCTS,
)
case(
    "matmul",
    "batch_mat_mul",
    lambda o, a: o.batch_mat_mul(a.batch, a.batch_t),
    lambda o, a: a.batch @ a.batch_t,
    exact=False,
    dtypes=PRODUCTS,
)
case(
    "matmul",
    "batch_mat_mul, heads",
    lambda o, a: o.batch_mat_mul(a.queries2k[0], a.keys2k[0].transpose(0, 2, 1)),
    lambda o, a: a.queries2k[0] @ a.keys2k[0].transpose(1, 2),
    exact=False,
    dtypes=PRODUCTS,
)
case(
    "conv",
    "convolution",
    lambda o, a: o.convolution(a.image, a.kernel, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    lambda o, a: o.conv2d(a.image, a.kernel, None, 1, 1),
    exact=False,
    dtypes=PRODUCTS,
)
case(
    "conv",
    "conv_tbc",
    lambda o, a: o.conv_tbc(a.sequence, a.taps, a.channels, 1),
    lambda o, a: o.conv_tbc(a.sequence, a.taps, a.channels, 1),
    dtypes="fp32",
    exact=False,
)
case(
    "pooling",
    "max_pool2d_with_indices",
    lambda o, a: o.max_pool2d_with_indices(a.image, [3, 3], [2, 2], [1, 1], [1, 1], False),
    lambda o, a: o.nn.functional.max_pool2d(a.image, 3, 2, 1, return_indices=True),
)
case(
    "pooling",
    "max_pool2d_with_indices_backward",
    lambda o, a: o.max_pool2d_with_indices_backward(
        a.pooled, a.image, a.pooled_at, [3, 3], [2, 2], [1, 1], [1, 1], False
    ),
    lambda o, a: o.ops.aten.max_pool2d_with_indices_backward(
        a.pooled, a.image, [3, 3], [2, 2], [1, 1], [1, 1], False, a.pooled_at.long()
    ),
    dtypes="fp32",
    exact=False,
)
case(
    "pooling",
    "avg_pool2d",
    lambda o, a: o.avg_pool2d(a.image, [2, 2], [2, 2], [0, 0], False, True, 0),
    lambda o, a: o.nn.functional.avg_pool2d(a.image, 2),
)
case(
    "pooling",
    "adaptive_avg_pool2d",
    lambda o, a: o.adaptive_avg_pool2d(a.image, [1, 1]),
    lambda o, a: o.nn.functional.adaptive_avg_pool2d(a.image, 1),
)
case(
    "image",
    "upsample_nearest2d",
    lambda o, a: o.upsample_nearest2d(a.image, [112, 112]),
    lambda o, a: o.nn.functional.interpolate(a.image, size=(112, 112)),
)
case(
    "image",
    "upsample_bilinear2d",
    lambda o, a: o.upsample_bilinear2d(a.image, [112, 112], False, 0.0, 0.0),
    lambda o, a: o.nn.functional.interpolate(a.image, size=(112, 112), mode="bilinear"),
    exact=False,
)

# ---------------------------------------------------------------------------------- random, foreach, quant, moe
case(
    "random",
    "dropout",
    lambda o, a: o.dropout(a.x, 0.1, True, 1, 0),
    lambda o, a: o.native_dropout(a.x, 0.1, True),
    exact=False,
)
case(
    "random",
    "inplace_normal",
    lambda o, a: o.inplace_normal(a.scratch, 0.0, 1.0, 1, 0),
    lambda o, a: a.scratch.normal_(),
    exact=False,
)
case(
    "random",
    "inplace_uniform",
    lambda o, a: o.inplace_uniform(a.scratch, 0.0, 1.0, 1, 0),
    lambda o, a: a.scratch.uniform_(),
    exact=False,
)
case(
    "foreach",
    "foreach_add_list",
    lambda o, a: o.foreach_add_list([a.x, a.y], [a.y, a.x], a.one),
    lambda o, a: o._foreach_add([a.x, a.y], [a.y, a.x]),
    exact=False,
)
case(
    "foreach",
    "foreach_mul_scalar",
    lambda o, a: o.foreach_mul_scalar([a.x, a.y], a.half),
    lambda o, a: o._foreach_mul([a.x, a.y], 0.5),
    exact=False,
)
case(
    "quant",
    "ascend_quant",
    lambda o, a: o.ascend_quant(a.x, a.row, a.row, False, "round"),
    lambda o, a: (a.x * a.row + a.row).round().clamp(-128, 127).to(o.int8),
    dtypes="bf16 fp16",
    exact=False,
)
case(
    "quant",
    "dynamic_quant",
    lambda o, a: o.dynamic_quant(a.x),
    lambda o, a: (a.x / (a.x.abs().amax(1, keepdim=True) / 127)).round().to(o.int8),
    dtypes="bf16 fp16",
    exact=False,
)
case(
    "moe",
    "moe_gating_top_k_softmax",
    lambda o, a: o.moe_gating_top_k_softmax(a.gates, None, 8),
    lambda o, a: a.gates.softmax(-1).topk(8),
    exact=False,
)
case(
    "moe",
    "moe_init_routing",
    lambda o, a: o.moe_init_routing(a.x, a.rows, a.experts, 2048),
    lambda o, a: a.x[a.experts.reshape(-1).argsort(stable=True) // 8],
    exact=False,
)

# ------------------------------------------------------------------------------------------------------ attention
case(
    "attention",
    "flash_attention_score",
    lambda o, a: o.flash_attention_score(
        a.q, a.k, a.v, scale_value=0.125, pre_tokens=65536, next_tokens=65536, head_num=8, input_layout="BNSD"
    ),
    lambda o, a: o.nn.functional.scaled_dot_product_attention(a.q, a.k, a.v, scale=0.125),
    exact=False,
)
case(
    "attention",
    "flash_attention_score, 2048 positions",
    lambda o, a: o.flash_attention_score(
        a.queries2k,
        a.keys2k,
        a.values2k,
        scale_value=0.125,
        pre_tokens=65536,
        next_tokens=65536,
        head_num=8,
        input_layout="BNSD",
    ),
    lambda o, a: o.nn.functional.scaled_dot_product_attention(a.queries2k, a.keys2k, a.values2k, scale=0.125),
    exact=False,
)
case(
    "attention",
    "incre_flash_attention",
    lambda o, a: o.incre_flash_attention(a.q1, [a.keys4k], [a.values4k], None, None, None, 32, 0.088, "BNSD"),
    lambda o, a: o.nn.functional.scaled_dot_product_attention(a.q1, a.keys4k, a.values4k, scale=0.088),
    dtypes="bf16 fp16",
    exact=False,
)
case(
    "attention",
    "scaled_masked_softmax",
    lambda o, a: o.scaled_masked_softmax(a.scores, a.scores_mask, 0.125, False),
    lambda o, a: (a.scores * 0.125).masked_fill(a.scores_mask, -10000.0).softmax(-1),
    exact=False,
)
case(
    "posembedding",
    "rotary_position_embedding",
    lambda o, a: o.rotary_position_embedding(a.q, a.cos, a.sin, 0),
    lambda o, a: a.q * a.cos + o.cat([-a.q[..., 32:], a.q[..., :32]], -1) * a.sin,
    exact=False,
)


def data(np: Any, dtype: Any, code: int) -> dict[str, Callable[[], Any]]:
    """Arrays by name, each made when it is first asked for."""

    def rng(seed: int) -> Any:
        return np.random.default_rng(seed)

    def normal(*shape: int, seed: int = 0, of: Any = dtype) -> Callable[[], Any]:
        return lambda: rng(seed).standard_normal(shape, dtype=np.float32).astype(of)

    def integers(high: int, *shape: int, of: Any = np.int64, seed: int = 5) -> Callable[[], Any]:
        return lambda: rng(seed).integers(0, high, shape).astype(of)

    float32 = np.float32
    return {
        "code": lambda: code,
        "x": normal(2048, 4096),
        "y": normal(2048, 4096, seed=1),
        "scratch": normal(2048, 4096, seed=2),
        "positive": lambda: (np.abs(rng(3).standard_normal((2048, 4096), dtype=np.float32)) + 0.1).astype(dtype),
        "probabilities": lambda: rng(4).random((2048, 4096), dtype=np.float32).astype(dtype),
        "square": normal(2048, 2048),
        "quarter": normal(2048, 1024),
        "row": normal(4096),
        "bias": normal(1024),
        "mask": lambda: rng(6).random((2048, 4096)) < 0.5,
        "causal": lambda: np.ones((2048, 2048), bool),
        "mean": normal(2048, 1, of=float32),
        "rstd": lambda: np.ones((2048, 1), np.float32),
        "logits": normal(256, 32768),
        "targets": integers(32768, 256),
        "classes": integers(4096, 2048),
        "weights": lambda: np.ones(4096, np.float32),
        "vocabulary": lambda: np.ones(32768, dtype),
        "keys": integers(32768, 1 << 18),
        "counts": lambda: np.zeros(32768, np.int64),
        "pairs": integers(64, 1 << 14, 2),
        "heads": normal(4, 512, 32, 128),
        "image": normal(4, 64, 56, 56),
        "pooled": normal(4, 64, 28, 28),
        "pooled_at": lambda: (
            (np.arange(28) * 2)[:, None] * 56 + np.arange(28) * 2 + np.zeros((4, 64, 1, 1), np.int32)
        ).astype(np.int32),
        "channels": normal(64),
        "moving_mean": normal(64, of=float32),
        "moving_var": lambda: np.ones(64, np.float32),
        "kernel": normal(64, 64, 3, 3),
        "sequence": normal(512, 8, 64),
        "taps": normal(3, 64, 64),
        "table": normal(32768, 1024),
        "words": integers(32768, 8192),
        "grads": normal(8192, 1024),
        "places": integers(2048, 2048),
        "columns": integers(4096, 2048, 1024),
        "weight": normal(4096, 1024),
        "weight_t": normal(1024, 4096),
        "batch": normal(32, 512, 128),
        "batch_t": normal(32, 128, 512),
        "one": lambda: np.ones(1, dtype),
        "zero": lambda: np.zeros(1, dtype),
        "half": lambda: np.full(1, 0.5, dtype),
        "experts": integers(64, 2048, 8, of=np.int32),
        "rows": lambda: np.arange(2048 * 8, dtype=np.int32).reshape(8, 2048).T.copy(),
        "gates": normal(2048, 64),
        "q": normal(1, 8, 512, 64),
        "k": normal(1, 8, 512, 64, seed=1),
        "v": normal(1, 8, 512, 64, seed=2),
        "queries2k": normal(1, 8, 2048, 64),
        "keys2k": normal(1, 8, 2048, 64, seed=1),
        "values2k": normal(1, 8, 2048, 64, seed=2),
        "q1": normal(8, 32, 1, 128),
        "keys4k": normal(8, 32, 4096, 128, seed=1),
        "values4k": normal(8, 32, 4096, 128, seed=2),
        "scores": normal(4, 8, 512, 512),
        "scores_mask": lambda: rng(7).random((4, 1, 512, 512)) < 0.2,
        "cos": normal(1, 1, 512, 64, seed=3),
        "sin": normal(1, 1, 512, 64, seed=4),
    }
