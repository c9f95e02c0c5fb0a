"""References of ops-nn/activation through the public functions, against torch in float64 and torch's own gradients."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, catalog, ops, reference

torch = pytest.importorskip("torch", reason="torch is the oracle of activations; without it they are not tested")
from torch_tools import FLOATS, check, oracle, sample, tensor  # noqa: E402 (it imports torch)

F = torch.nn.functional


def direct(name: str) -> Any:
    """The function of an operator that only Ascend 950 has, which the public functions refuse by default."""
    found = reference.find(catalog.get(f"aclnn{name}"))
    assert found is not None
    return found.function


def gelu_tanh(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


def swish(x: Any, beta: float) -> Any:
    return x * torch.sigmoid(beta * x)


# name -> arguments after the tensor, function of the tensor and these
UNARY: dict[str, tuple[tuple[Any, ...], Any]] = {
    "celu": ((1.5,), F.celu),
    "elu": ((1.5, 1.25, 0.5), lambda x, a, s, i: torch.where(x > 0, s * x, a * s * torch.expm1(x * i))),
    "erfinv": ((), torch.erfinv),
    "fast_gelu": ((), lambda x: swish(x, 1.702)),
    "gelu": ((), gelu_tanh),
    "gelu_v2": ((0,), lambda x, _: F.gelu(x)),
    "hardshrink": ((0.5,), F.hardshrink),
    "hardsigmoid": ((), F.hardsigmoid),
    "hardswish": ((), F.hardswish),
    "leaky_relu": ((0.25,), F.leaky_relu),
    "log_sigmoid": ((), F.logsigmoid),
    "mish": ((), F.mish),
    "relu": ((), F.relu),
    "selu": ((), F.selu),
    "sigmoid": ((), torch.sigmoid),
    "silu": ((), F.silu),
    "softplus": ((2, 3), F.softplus),
    "softshrink": ((0.5,), F.softshrink),
    "squared_relu": ((), lambda x: F.relu(x) ** 2),
    "swish": ((1.5,), swish),
    "threshold": ((0.5, -2.0), F.threshold),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: Any) -> None:
    arguments, function = UNARY[name]
    x = sample(dtype, *((-1, 1) if name == "erfinv" else (-6, 6)))
    result = getattr(ops, name)(x, *arguments)
    assert result.dtype == dtype
    check(result, oracle(lambda a: function(a, *arguments), x), 2)
    assert getattr(ops, name)(x[:0], *arguments).shape == (0,)
    assert getattr(ops, name)(x[3:4].reshape(()), *arguments).shape == ()


INPLACE = ["celu", "elu", "erfinv", "hardsigmoid", "hardswish", "leaky_relu", "mish", "relu", "selu", "sigmoid"]


@pytest.mark.parametrize("name", [*INPLACE, "threshold"])
def test_inplace(name: str) -> None:
    x = np.linspace(-0.9, 0.9, 50, dtype=np.float32)
    arguments = UNARY[name][0]
    wanted = getattr(ops, name)(x, *arguments)
    assert getattr(ops, f"inplace_{name}")(x, *arguments) is x
    np.testing.assert_array_equal(x, wanted)


# name -> arguments after gradient and tensor, function of the tensor and these
GRADIENTS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "fast_gelu_backward": ((), lambda x: swish(x, 1.702)),
    "gelu_backward": ((), gelu_tanh),
    "gelu_backward_v2": (("none",), lambda x, _: F.gelu(x)),
    "hardshrink_backward": ((0.5,), F.hardshrink),
    "hardsigmoid_backward": ((), F.hardsigmoid),
    "hardswish_backward": ((), F.hardswish),
    "hardswish_backward_v2": ((), F.hardswish),
    "hardtanh_backward": ((-0.5, 1.0), F.hardtanh),
    "leaky_relu_backward": ((0.25, False), lambda x, slope, _: F.leaky_relu(x, slope)),
    "log_sigmoid_backward": ((np.empty(0, np.float32),), lambda x, _: F.logsigmoid(x)),
    "mish_backward": ((), F.mish),
    "silu_backward": ((), F.silu),
    "softplus_backward": ((2, 3), F.softplus),
    "softshrink_backward": ((0.5,), F.softshrink),
    "swish_backward": ((1.5,), swish),
    "threshold_backward": ((0.5,), lambda x, threshold: F.threshold(x, threshold, -2)),
}


def gradients(function: Any, grad: np.ndarray, *values: Any) -> list[np.ndarray]:
    """torch's gradients for the arrays among some values."""
    tensors = [tensor(value) for value in values]
    wanted = [t.requires_grad_() for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point()]
    function(*tensors).backward(tensor(grad))
    return [np.asarray(t.grad.numpy()) for t in wanted]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, dtype: Any) -> None:
    arguments, function = GRADIENTS[name]
    x, grad = sample(dtype, -6, 6, special=False), sample(dtype, special=False, n=301)[1:]
    x[np.abs(x) == 3] = 0.25  # a border where the two forms of hardswish differ
    rest = [a.astype(dtype) if isinstance(a, np.ndarray) else a for a in arguments]
    result = getattr(ops, name)(grad, x, *rest)
    assert result.dtype == dtype
    check(result, gradients(lambda a: function(a, *arguments), grad, x)[0], 4)


def test_borders() -> None:
    x = np.array([-3, -0.5, 0.5, 3], np.float32)
    one = np.ones_like(x)
    np.testing.assert_allclose(ops.hardswish_backward(one, x), [-0.5, 1 / 3, 2 / 3, 1.5], rtol=1e-6)
    np.testing.assert_allclose(ops.hardswish_backward_v2(one, x), [0, 1 / 3, 2 / 3, 1], rtol=1e-6)
    np.testing.assert_array_equal(ops.hardtanh_backward(one, x, -0.5, 3), [0, 0, 1, 0])
    np.testing.assert_array_equal(ops.threshold_backward(one, x, 0.5), [0, 0, 0, 1])
    np.testing.assert_array_equal(ops.hardshrink(x, 0.5), [-3, 0, 0, 3])


def test_gelu_keeps_its_relative_accuracy_in_the_tail() -> None:
    x = np.linspace(-12, -1, 200).astype(np.float32)
    wide = torch.from_numpy(x.astype(np.float64))
    wanted = (wide * 0.5 * torch.erfc(wide * -(0.5**0.5))).numpy()
    np.testing.assert_allclose(ops.gelu_v2(x, 0), wanted, rtol=3e-7)


def test_gelu_backward_far_out() -> None:
    """x^3 overflows there, and the slope is still 0 or 1."""
    x = np.array([-1e30, 1e30], np.float32)
    np.testing.assert_array_equal(ops.gelu_backward(np.ones_like(x), x), [0, 1])


@pytest.mark.parametrize("is_result", [True, False])
def test_elu_backward(is_result: bool) -> None:
    x, grad = sample(np.float32, special=False), sample(np.float32, special=False)

    def elu(a: Any) -> Any:
        return torch.where(a > 0, 1.25 * a, 1.5 * 1.25 * torch.expm1(a * 0.5))

    given = oracle(elu, x).astype(np.float32) if is_result else x
    check(ops.elu_backward(grad, 1.5, 1.25, 0.5, is_result, given), gradients(elu, grad, x)[0], 2)


def test_gradients_from_results() -> None:
    x, grad = sample(np.float32, special=False), sample(np.float32, special=False)
    for name, function in (("selu_backward", F.selu), ("sigmoid_backward", torch.sigmoid)):
        result = oracle(function, x).astype(np.float32)
        check(getattr(ops, name)(grad, result), gradients(function, grad, x)[0], 2)


def test_integers() -> None:
    x = np.array([-128, -3, -1, 0, 2, 127], np.int8)
    np.testing.assert_array_equal(ops.relu(x), [0, 0, 0, 0, 2, 127])
    np.testing.assert_array_equal(ops.selu(x), [-1, -1, -1, 0, 2, 133 - 256])  # cut off and wrapped around
    np.testing.assert_array_equal(ops.threshold(x, 1.9, 7.9), [7, 7, 7, 7, 2, 127])  # scalars are cut off too
    np.testing.assert_array_equal(ops.hardsigmoid(np.array([-9, -2, 0, 2, 3, 9], np.int32)), [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(ops.add_relu(x, x, 2), np.maximum(x + 2 * x, 0).astype(np.int8))
    check(ops.sigmoid(x), oracle(torch.sigmoid, x.astype(np.float64)))


def test_complex_sigmoid() -> None:
    x = (sample(np.float32, special=False) + 1j * sample(np.float32, special=False, n=301)[1:]).astype(np.complex64)
    check(ops.sigmoid(x), oracle(torch.sigmoid, x), 4)


def test_other_forms() -> None:
    x = sample(np.float32, special=False)
    np.testing.assert_allclose(direct("HardSigmoid")(x, 0.25, 0.5), np.clip(x / 4 + 0.5, 0, 1), rtol=1e-6)
    np.testing.assert_array_equal(direct("HardSwish")(x), ops.hardswish(x))
    wanted = np.where(x > 0.5, x - 0.25, np.where(x < -0.5, x + 0.25, 0))
    np.testing.assert_allclose(ops.shrink(x, 0.5, 0.25), wanted, rtol=1e-6)
    check(ops.log_sigmoid_forward(x).out, oracle(F.logsigmoid, x))
    check(ops.swish(x, None), oracle(F.silu, x), 2)
    check(ops.gelu_v2(x, 1), oracle(gelu_tanh, x), 2)


def test_heaviside() -> None:
    x, values = np.array([[-1, 0, 2], [0, np.nan, 0]], np.float32), np.array([0.5, 7, 9], np.float32)
    np.testing.assert_array_equal(ops.heaviside(x, values), [[0, 7, 1], [0.5, 0, 9]])


@pytest.mark.parametrize("weights", [1, 4])
def test_prelu(weights: int) -> None:
    x, grad = (sample(np.float32, special=False, n=120).reshape(5, 4, 6) for _ in range(2))
    weight = np.linspace(0.25, 1, weights, dtype=np.float32)
    check(ops.prelu(x, weight), oracle(F.prelu, x, weight))
    wanted = gradients(F.prelu, grad, x, weight)
    for actual, expected in zip(ops.prelu_backward(grad, x, weight), wanted):
        check(actual, expected, 20)


def test_rrelu_with_noise() -> None:
    x = sample(np.float32, special=False, n=4000)
    noise = np.full((2, 2500), 9, np.float32)
    result = ops.r_relu_with_noise(x, noise, 0.25, 0.75, True, 1, 2)
    slopes = noise.reshape(-1)[:4000]
    np.testing.assert_array_equal(result, x * slopes)
    np.testing.assert_array_equal(noise.reshape(-1)[4000:], 9)
    np.testing.assert_array_equal(slopes[x >= 0], 1)
    random = slopes[x < 0]
    assert random.min() >= 0.25 and random.max() <= 0.75 and abs(random.mean() - 0.5) < 0.02
    again = np.empty(4000, np.float32)
    np.testing.assert_array_equal(ops.r_relu_with_noise(x, again, 0.25, 0.75, True, 1, 2), result)
    np.testing.assert_array_equal(again, slopes)
    ops.r_relu_with_noise(x, again, 0.25, 0.75, True, 1, 3)
    assert (again[x < 0] != random).any()
    check(ops.r_relu_with_noise(x, noise, 0.25, 0.75, False, 1, 2), oracle(F.leaky_relu, x, 0.5))
    noise.flags.writeable = False
    with pytest.raises(AclError, match="noise is read-only"):
        ops.r_relu_with_noise(x, noise, 0.25, 0.75, True, 1, 2)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_bce_target_backward(reduction: int) -> None:
    x, target = sample(np.float32, special=False), sample(np.float32, 0, 1, special=False)
    weight, positive = sample(np.float32, 0.5, 2, special=False), sample(np.float32, 0.5, 2, special=False)
    grad = sample(np.float32, special=False) if reduction == 0 else np.array(0.75, np.float32)
    how = ("none", "mean", "sum")[reduction]

    def loss(t: Any) -> Any:
        return F.binary_cross_entropy_with_logits(
            tensor(x), t, tensor(weight), reduction=how, pos_weight=tensor(positive)
        )

    result = ops.binary_cross_entropy_with_logits_target_backward(grad, x, target, weight, positive, reduction)
    check(result, gradients(loss, grad, target)[0], 4)
    plain = ops.binary_cross_entropy_with_logits_target_backward(grad, x, target, None, None, reduction)
    np.testing.assert_allclose(plain, -grad * x / (x.size if reduction == 1 else 1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("shape", "dim"), [((7, 33), -1), ((7, 33), 0), ((3, 5, 4), 1), ((), 0), ((0, 4), 1), ((4, 0), 1)]
)
def test_softmax(shape: Any, dim: int, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x, grad = (rng.normal(0, 20, shape).astype(dtype) for _ in range(2))
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        check(getattr(ops, name)(x, dim), oracle(function, x, dim), 2)
        y = oracle(function, x, dim).astype(dtype)
        backward = getattr(torch.ops.aten, f"_{name}_backward_data")
        wanted = oracle(lambda g, r, f=backward: f(g, r, dim, torch.float64), grad, y)
        check(getattr(ops, f"{name}_backward")(grad, y, dim), wanted, 60)  # sums that cancel


def test_softmax_of_infinities() -> None:
    x = np.array([[0, -np.inf], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    np.testing.assert_array_equal(ops.softmax(x, 1), oracle(torch.softmax, x, 1))
    np.testing.assert_array_equal(ops.log_softmax(x, 1), oracle(torch.log_softmax, x, 1))


def test_softmax_cross_entropy_with_logits() -> None:
    rng = np.random.default_rng(4)
    features, labels = rng.normal(size=(6, 9)).astype(np.float32), rng.random((6, 9), np.float32)
    labels /= labels.sum(1, keepdims=True)
    loss, backprop = ops.softmax_cross_entropy_with_logits(features, labels)
    check(loss, oracle(lambda a, b: F.cross_entropy(a, b, reduction="none"), features, labels), 4)
    wanted = gradients(lambda a: F.cross_entropy(a, tensor(labels), reduction="none"), np.ones(6), features)[0]
    check(backprop, wanted, 2)


# ------------------------------------------------------------------------------------------------------ gated units


def halves(x: Any, dim: int) -> Any:
    return torch.chunk(x, 2, dim)


def swiglu(x: Any, dim: int) -> Any:
    a, b = halves(x, dim)
    return F.silu(a) * b


def situ_glu(x: Any, dim: int, beta: float, linear_beta: float, left: bool) -> Any:
    gate, up = halves(x, dim) if left else halves(x, dim)[::-1]
    up = linear_beta * torch.tanh(up / linear_beta) if linear_beta > 0 else up
    return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * up


def clipped(x: Any, alpha: float, limit: float, bias: float, interleaved: bool) -> Any:
    """Along axis 1; interleaved, neighbours in memory from axis 1 on."""
    half = (x.shape[0], x.shape[1] // 2, *x.shape[2:])
    pairs = x.reshape(x.shape[0], -1, 2)
    a, b = (pairs[..., 0].reshape(half), pairs[..., 1].reshape(half)) if interleaved else halves(x, 1)
    a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    return a * torch.sigmoid(alpha * a) * (b + bias)


def gated(shape: Any = (4, 6, 10), dim: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """An input, and a gradient of half its size along an axis."""
    rng = np.random.default_rng(8)
    x = rng.normal(0, 2, shape).astype(np.float32)
    return x, rng.normal(size=np.split(x, 2, dim)[0].shape).astype(np.float32)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gated_units(dim: int) -> None:
    x, grad = gated(dim=dim)
    for name, gradient, function in (
        ("glu", "glu_backward", F.glu),
        ("swi_glu", "swi_glu_grad", swiglu),
    ):
        check(getattr(ops, name)(x, dim), oracle(function, x, dim), 2)
        check(getattr(ops, gradient)(grad, x, dim), gradients(lambda a, f=function: f(a, dim), grad, x)[0], 4)
    for left in (True, False):
        for linear_beta in (0.0, 1.5):
            options = (dim, 0.75, linear_beta, left)
            check(ops.situ_glu(x, *options), oracle(situ_glu, x, *options), 4)
            wanted = gradients(lambda a, o=options: situ_glu(a, *o), grad, x)[0]
            check(ops.situ_glu_grad(grad, x, *options), wanted, 10)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("approximate", [0, 1])
def test_ge_glu(approximate: int, left: bool) -> None:
    x, grad = gated()

    def ge_glu(a: Any) -> Any:
        active, plain = halves(a, -1) if left else halves(a, -1)[::-1]
        return plain * F.gelu(active, approximate=("none", "tanh")[approximate])

    out, activated = ops.ge_glu_v3(x, -1, approximate, left)
    check(out, oracle(ge_glu, x), 4)
    active = np.split(x, 2, -1)[0 if left else 1]
    np.testing.assert_array_equal(activated, ops.gelu_v2(np.ascontiguousarray(active), approximate))
    wanted = gradients(ge_glu, grad, x)[0]
    check(ops.ge_glu_v3_backward(grad, x, activated, -1, approximate, left), wanted, 10)
    if not left:
        np.testing.assert_array_equal(ops.ge_glu(x, -1, approximate).out, out)
        check(ops.ge_glu_backward(grad, x, activated, -1, approximate), wanted, 10)


def test_multiplied_halves() -> None:
    x, _ = gated()
    a, b = np.split(x, 2, -1)
    np.testing.assert_array_equal(ops.gelu_mul(x, "tanh"), ops.gelu(a.copy()) * b)
    np.testing.assert_array_equal(ops.fatrelu_mul(x, np.array([0.5], np.float32)), np.where(a > 0.5, a, 0) * b)
    equal = np.array([[0.5, 0.75, 2.0, 4.0]], np.float32)  # what equals the threshold is not kept, by the kernel
    np.testing.assert_array_equal(ops.fatrelu_mul(equal, np.array([0.5], np.float32)), [[0, 3]])


def test_interleaved_halves_alternate_in_memory() -> None:
    """With dim not last, pairs are neighbours of the view merged from dim on: gates 0, 2, 4, ..."""
    x = np.arange(2 * 4 * 3, dtype=np.float32).reshape(2, 4, 3) / 8
    merged = x.reshape(2, 6, 2).astype(np.float64)
    gate, up = np.minimum(merged[..., 0], 2), np.clip(merged[..., 1], -2, 2)
    wanted = (gate / (1 + np.exp(-1.5 * gate)) * (up + 0.25)).reshape(2, 2, 3)
    np.testing.assert_allclose(ops.clipped_swiglu(x, None, 1, 1.5, 2.0, 0.25, True), wanted, rtol=1e-6)


@pytest.mark.parametrize("interleaved", [True, False])
def test_clipped_swiglu(interleaved: bool) -> None:
    x, grad = gated(dim=1)
    options = (1.5, 2.0, 0.25, interleaved)
    check(ops.clipped_swiglu(x, None, 1, *options), oracle(clipped, x, *options), 4)
    wanted = gradients(lambda a: clipped(a, *options), grad, x)[0]
    check(ops.clipped_swiglu_grad(grad, x, None, 1, *options), wanted, 10)
    groups = np.array([2, 1], np.int64)
    wanted[3:] = 0
    check(ops.clipped_swiglu_grad(grad, x, groups, 1, *options), wanted, 10)
    check(ops.clipped_swiglu(x, groups, 1, *options)[:3], oracle(clipped, x, *options)[:3], 4)


def test_swiglu_group() -> None:
    x, grad = gated((5, 8))
    weight = np.linspace(0.5, 2, 5, dtype=np.float32)
    groups = np.array([1, 3], np.int64)

    def forward(a: Any, w: Any, limit: float = 1.5) -> Any:
        first, second = halves(a, -1)
        return F.silu(first.clamp(max=limit)) * second.clamp(-limit, limit) * w[:, None]

    swiglu_group, backward = direct("SwigluGroup"), direct("SwigluGroupQuantGrad")
    check(swiglu_group(x, weight, None, 1.5), oracle(forward, x, weight), 4)
    check(swiglu_group(x, None, groups, -1.0)[:4], oracle(swiglu, x, -1)[:4], 4)
    origin = oracle(forward, x, np.ones(5)).astype(np.float32)
    for index, rows in ((None, 5), (groups, 4)):
        wanted = gradients(forward, grad, x, weight)
        for actual, expected in zip(backward(grad, x, weight, origin, index, 1.5), wanted):
            expected[rows:] = 0
            check(actual, expected, 20)
    late = direct("ClippedSwigluV2")(x, None, 1, 9.0, 1.5, 9.0, False, 1)

    def limited_late(a: Any) -> Any:
        first, second = halves(a, 1)
        return F.silu(first).clamp(max=1.5) * second.clamp(-1.5, 1.5)

    check(late, oracle(limited_late, x), 4)


def test_gelu_quant() -> None:
    gelu_quant = direct("GeluQuant")
    x, _ = gated((5, 8))
    x[4] = 0
    y, scales = np.empty(x.shape, np.int8), np.empty(5, np.float32)
    activated = oracle(F.gelu, x)
    with np.errstate(invalid="ignore"):  # off on the backend too
        gelu_quant(x, None, None, "none", "dynamic", "rint", 2, out=(y, scales))
    np.testing.assert_allclose(scales, np.abs(activated).max(1) / 127, rtol=1e-5)
    quotients = (activated[:4] / scales[:4, None]).astype(np.float16)  # as kernels do: FLOAT to FLOAT16 to INT8
    np.testing.assert_array_equal(y[:4], np.rint(quotients).astype(np.int8))
    np.testing.assert_array_equal(y[4], 0)
    factor, offset = np.array([20], np.float32), np.array([3], np.float32)
    gelu_quant(x, factor, offset, "none", "static", "rint", 2, out=(y, None))
    np.testing.assert_array_equal(y, np.clip(np.rint((activated * 20 + 3).astype(np.float16)), -128, 127))
    small = np.empty(x.shape, ml_dtypes.float8_e4m3fn)
    x[4] = 1
    activated = oracle(F.gelu, x)
    gelu_quant(x, None, None, "none", "dynamic", "rint", 36, out=(small, scales))
    np.testing.assert_allclose(scales, np.abs(activated).max(1) / 448, rtol=1e-5)
    np.testing.assert_allclose(small.astype(np.float64) * scales[:, None], activated, rtol=0.07, atol=1e-5)
    codes = np.empty(x.shape, aclnn.DataType.HIFLOAT8.numpy)
    gelu_quant(x, None, None, "none", "dynamic", "round", 34, out=(codes, scales))
    np.testing.assert_allclose(scales, np.abs(activated).max(1) / 32768, rtol=1e-5)
    np.testing.assert_allclose(codes.astype(np.float64) * scales[:, None], activated, rtol=0.26, atol=1e-5)
    gelu_quant(x, np.array([1e6], np.float32), None, "none", "static", "round", 34, out=(codes, None))
    largest = np.clip(activated * 1e6, -32768, 32768)
    np.testing.assert_array_equal(codes.astype(np.float64), np.asarray(aclnn.asarray(largest, "HIFLOAT8"), np.float64))
