"""References of the experimental operators with a plain mathematical meaning, against torch or a written-out formula."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, catalog, ops

torch = pytest.importorskip("torch", reason="torch is the oracle of the experimental operators")
from torch_tools import BF16, check, oracle, sample, tensor  # noqa: E402 (it imports torch)

F = torch.nn.functional
SOCS = {"A2": "Ascend910B1", "950": "Ascend950PR_9599", "310P": "Ascend310P3"}
F32, F16 = np.dtype(np.float32), np.dtype(np.float16)


def on_its_soc(name: str, soc: str, *arguments: Any, **options: Any) -> Any:
    with aclnn.use_backend("numpy", soc=SOCS[soc]):
        return getattr(ops, catalog.get(f"aclnn{name}").python_name)(*arguments, **options)


def normal(*shape: int, dtype: Any = F32, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def between(low: float, high: float, *shape: int, dtype: Any = F32, seed: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def slope_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """(gradient, x, ...) -> torch's gradient for x."""

    def backward(grad: Any, x: Any, *rest: Any) -> Any:
        x = x.clone().requires_grad_()
        function(x, *rest).backward(grad)
        return x.grad

    return backward


# ------------------------------------------------------------------------------------------------- one operand

UNARY: dict[str, tuple[str, Any, tuple[Any, ...], tuple[float, float]]] = {
    "AcosV2": ("A2", torch.acos, (), (-1, 1)),
    "AsinWithAgent": ("A2", torch.asin, (), (-1, 1)),
    "AsinhV2": ("950", torch.asinh, (), (-9, 9)),
    "AsinhWithAgent": ("A2", torch.asinh, (), (-9, 9)),
    "CeilV2": ("A2", torch.ceil, (), (-9, 9)),
    "CoshV2": ("A2", torch.cosh, (), (-5, 5)),
    "ErfInv": ("A2", torch.erfinv, (), (-1, 1)),
    "Log1pV2": ("A2", torch.log1p, (), (-1, 9)),
    "Ndtri": ("950", torch.special.ndtri, (), (0, 1)),
    "SinhV2": ("A2", torch.sinh, (), (-5, 5)),
    "SquareV2": ("A2", torch.square, (), (-9, 9)),
    "TanV2": ("A2", torch.tan, (), (-1.5, 1.5)),
    "TanV3": ("A2", torch.tan, (), (-1.5, 1.5)),
    "TruncV2": ("A2", torch.trunc, (), (-9, 9)),
    "CeluV2": ("A2", F.celu, (1.5,), (-9, 9)),
    "CeluV3": ("A2", F.celu, (1.5,), (-9, 9)),
    "FastGeluV2": (
        "950",
        lambda x: (
            x
            * (
                torch.where(x < 0, -1, 1) * (0.5 - 0.1444 * (torch.clamp(0.7071 * x.abs(), max=1.769) - 1.769) ** 2)
                + 0.5
            )
        ),
        (),
        (-9, 9),
    ),
    "HardShrink": ("950", F.hardshrink, (0.5,), (-2, 2)),
    "HardSwishV2": ("A2", F.hardswish, (), (-5, 5)),
    "HardsigmoidV2": ("A2", F.hardsigmoid, (), (-5, 5)),
    "Inv": ("950", torch.reciprocal, (), (0.1, 9)),
    "LeakyreluV2": ("A2", F.leaky_relu, (0.25,), (-5, 5)),
    "LogSoftmaxV2": ("A2", lambda x, dim: torch.log_softmax(x, dim), (-1,), (-5, 5)),
    "LogsigmoidV2": ("A2", F.logsigmoid, (), (-9, 9)),
    "Relu6": ("950", F.relu6, (), (-9, 9)),
    "SoftPlusV2": ("A2", F.softplus, (), (-9, 9)),
    "Softsign": ("A2", F.softsign, (), (-9, 9)),
    "ThresholdV2": ("950", F.threshold, (0.5, 2.0), (-2, 2)),
}


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, dtype: Any) -> None:
    soc, function, attributes, (low, high) = UNARY[name]
    x = np.concatenate((between(low, high, 40), [low, high, 0, np.nan])).astype(dtype)
    if name == "TanV2" or name == "TanV3":
        x = x[:40]
    check(on_its_soc(name, soc, x, *attributes), oracle(function, x, *attributes), 4)


@pytest.mark.parametrize("name", ["FresnelCos", "FresnelSin"])
def test_fresnel_integrals(name: str) -> None:
    x = np.array([-3.2, -0.4, 0.1, 1.5, 1.7, 4.8], F32)
    steps = (np.arange(400_000) + 0.5) / 400_000
    function = np.cos if name == "FresnelCos" else np.sin
    wanted = [np.mean(function(math.pi / 2 * np.square(v * steps))) * v for v in x.astype(np.float64)]
    check(on_its_soc(name, "950", x), np.array(wanted))
    limits = on_its_soc(name, "950", np.array([np.inf, -np.inf, np.nan, 1e20], F32))
    np.testing.assert_array_equal(limits, np.array([0.5, -0.5, np.nan, 0.5], F32))


def test_integers_to_inverse_functions_are_float() -> None:
    result = on_its_soc("AsinhWithAgent", "A2", np.array([0, 3, -2], np.int8))
    assert result.dtype == F32
    check(result, np.arcsinh([0.0, 3, -2]))


# ------------------------------------------------------------------------------------------------- two operands

BINARY: dict[str, tuple[str, Any, tuple[Any, ...]]] = {
    "AcosGrad": ("950", slope_of(torch.acos), ()),
    "AcosGradV2": ("A2", lambda x, grad: slope_of(torch.acos)(grad, x), ()),
    "AcoshGrad": ("A2", lambda y, grad: grad / torch.sinh(y), ()),
    "AsinGrad": ("A2", lambda x, grad: slope_of(torch.asin)(grad, x), ()),
    "AsinhGrad": ("950", lambda y, grad: grad / torch.cosh(y), ()),
    "AtanGrad": ("A2", lambda x, grad: slope_of(torch.atan)(grad, x), ()),
    "AddV2": ("A2", torch.add, ()),
    "AssignSub": ("A2", torch.sub, ()),
    "AxpyV3": ("A2", lambda x, y, a: a * x + y, (1.5,)),
    "BinaryCrossEntropyV2": ("A2", lambda x, y: -(y * torch.log(x) + (1 - y) * torch.log(1 - x)), ()),
    "DivV2": ("A2", torch.div, ()),
    "EluGrad": ("A2", lambda grad, y: grad * (torch.clamp(y, max=0) + 1), ()),
    "FloorDiv": ("A2", lambda x, y: torch.floor(x / y), ()),
    "HardShrinkGrad": ("A2", slope_of(F.hardshrink), (0.5,)),
    "HardSigmoidGradV2": ("A2", slope_of(F.hardsigmoid), ()),
    "HardtanhGrad": ("A2", lambda y, grad, low, high: slope_of(F.hardtanh)(grad, y, low, high), (0.2, 0.7)),
    "HingeLoss": ("A2", lambda x, t: torch.clamp(1 - t * x, min=0), ()),
    "HuberLoss": ("A2", lambda x, t, delta: F.huber_loss(x, t, reduction="none", delta=delta), (0.3,)),
    "HuberLossGrad": ("A2", lambda x, t, d: torch.clamp(x - t, -d, d), (0.3,)),
    "InvGrad": ("950", lambda y, grad: slope_of(torch.reciprocal)(grad, 1 / y), ()),
    "LeakyReluGradV2": ("A2", slope_of(lambda x, s: F.leaky_relu(x, s)), (0.25,)),
    "MaximumV2": ("A2", torch.maximum, ()),
    "MulNoNan": ("950", torch.mul, ()),
    "MulV2": ("A2", torch.mul, ()),
    "Pow": ("A2", torch.pow, ()),
    "Pow2": ("A2", torch.pow, ()),
    "RealDiv": ("A2", torch.div, ()),
    "RsqrtGrad": ("A2", lambda y, grad: slope_of(torch.rsqrt)(grad, 1 / (y * y)), ()),
    "SiluMul": ("A2", lambda x, y: F.silu(x) * y, ()),
    "SoftmaxGrad": ("A2", lambda y, g: y * (g - (g * y).sum(-1, keepdim=True)), ()),
    "SoftsignBackward": ("950", slope_of(F.softsign), ()),
    "SqrtBackward": ("A2", lambda y, grad: grad / (2 * y), ()),
    "SubV2": ("A2", torch.sub, ()),
    "TanhGrad": ("A2", lambda y, grad: grad * (1 - y * y), ()),
    "TruncateDiv": ("A2", lambda x, y: torch.trunc(x / y), ()),
    "TruncateMod": ("A2", torch.fmod, ()),
}


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, dtype: Any) -> None:
    soc, function, attributes = BINARY[name]
    x, y = between(0.05, 0.95, 6, 7, dtype=dtype), between(0.05, 0.95, 6, 7, dtype=dtype, seed=9)
    check(on_its_soc(name, soc, x, y, *attributes), oracle(function, x, y, *attributes), 4)


def test_division_of_integers_is_cut_off_or_rounded_down() -> None:
    x, y = np.array([7, -7, 8, -9], np.int32), np.array([2, 2, -3, 4], np.int32)
    cut, down = [3, -3, -2, -2], [3, -4, -3, -3]
    assert on_its_soc("DivV2", "A2", x, y).tolist() == cut
    assert on_its_soc("TruncateDiv", "A2", x, y).tolist() == cut
    assert on_its_soc("FloorDiv", "A2", x, y).tolist() == down
    assert [on_its_soc("DivV3", "A2", x, y, mode).tolist() for mode in range(3)] == [cut, cut, down]
    assert on_its_soc("TruncateMod", "A2", x, y).tolist() == [1, -1, 2, -1]
    assert on_its_soc("RealDiv", "A2", np.array([True]), np.array([True])).tolist() == [1.0]


def test_where_a_factor_is_zero() -> None:
    x = np.array([np.nan, np.inf, 2], F32)
    assert on_its_soc("MulNoNan", "950", x, np.zeros(1, F32)).tolist() == [0, 0, 0]
    assert on_its_soc("SqrtBackward", "A2", np.zeros(2, F32), np.array([0, 1], F32)).tolist() == [0, np.inf]


def test_approximate_equality_excludes_the_tolerance() -> None:
    x, y = np.array([1, 1, 1], F32), np.array([1.25, 1.5, 0.75], F32)
    assert on_its_soc("ApproximateEqual", "950", x, y, 0.5).tolist() == [True, False, True]
    with pytest.raises(AclError, match="tolerance is -1"):
        on_its_soc("ApproximateEqual", "950", x, y, -1.0)


def test_complex_numbers_from_their_parts() -> None:
    real, imaginary = normal(3, 4), normal(3, 4, seed=5)
    np.testing.assert_array_equal(on_its_soc("ComplexV3", "A2", real, imaginary), real + 1j * imaginary)
    pairs = on_its_soc("ComplexV2", "A2", real, imaginary)
    assert pairs.shape == (6, 4)
    np.testing.assert_array_equal(pairs.reshape(-1, 2)[:, 1], imaginary.reshape(-1))
    np.testing.assert_array_equal(on_its_soc("RealV2", "950", real + 1j * imaginary), real)


# ------------------------------------------------------------------------------------------------- with factors


def test_products_added_with_factors() -> None:
    a, b, c = normal(4, 5), normal(4, 5, seed=5), normal(4, 5, seed=6)
    wanted = c.astype(np.float64) * 0.5 + 2.0 * a * b
    check(on_its_soc("AddMatMatElements", "950", a, b, c, 2.0, 0.5), wanted)
    one = np.array([2], F32), np.array([0.5], F32)
    check(on_its_soc("AddMatMatElementsPlus", "A2", c, a[:1], b, one[1], one[0]), c * 0.5 + 2.0 * a[:1] * b)
    check(on_its_soc("AxpyV2", "A2", a, b, one[0]), a + 2.0 * b)
    check(on_its_soc("FusedMulAddN", "A2", a, b, one[0]), 2.0 * a + b)
    x, y = normal(4), normal(5, seed=8)
    check(on_its_soc("GerV2", "A2", x, y, a, 0.5), a + 0.5 * np.outer(x.astype(np.float64), y))
    check(
        on_its_soc("AddrV2", "A2", a, x, y, 0.5, 3),
        oracle(lambda a, x, y: torch.addr(a, x, y, beta=0.5, alpha=3), a, x, y),
    )
    check(on_its_soc("SumV2", "950", [a, b[:1], c]), a + b[:1].astype(np.float64) + c)
    chosen = np.array([0, 1, 2, 0], np.int8)[:, None].repeat(5, 1)
    np.testing.assert_array_equal(on_its_soc("SelectV3", "A2", a, b, chosen), np.where(chosen, a, b))


def test_bias_of_channels() -> None:
    x, bias = normal(2, 3, 4, 5), normal(3)
    check(on_its_soc("BiasAdd", "A2", x, bias, "NCHW"), x + bias[:, None, None].astype(np.float64))
    check(on_its_soc("BiasAdd", "A2", x, normal(5), "NHWC"), x + normal(5).astype(np.float64))
    with pytest.raises(AclError, match=r"bias has shape .* must be 5"):
        on_its_soc("BiasAdd", "A2", x, bias, "NHWC")


# ------------------------------------------------------------------------------------------------- matrices, order


def test_vectors_and_matrices() -> None:
    x, y = normal(50), normal(50, seed=5)
    check(on_its_soc("DotV2", "A2", x, y), np.array([np.dot(x.astype(np.float64), y)]))
    square = normal(6, 6)
    check(on_its_soc("TraceV2", "A2", square), np.array([np.trace(square.astype(np.float64))]))
    np.testing.assert_array_equal(on_its_soc("DiagPart", "A2", square), np.diag(square))
    np.testing.assert_array_equal(on_its_soc("EyeV2", "A2", None, 2, 3), np.eye(2, 3))
    np.testing.assert_array_equal(
        on_its_soc("Expandv", "A2", x[:3, None], [2, 3, 4]), np.broadcast_to(x[:3, None], (2, 3, 4))
    )
    check(on_its_soc("LinSpaceD", "A2", np.array([1], np.int8), np.array([2], np.int8), [5]), np.linspace(1, 2, 5))
    padded = on_its_soc("ReflectionPad1dV2", "A2", normal(2, 5), [2, 3])
    np.testing.assert_array_equal(padded, F.pad(torch.from_numpy(normal(2, 5)), (2, 3), "reflect").numpy())


@pytest.mark.parametrize(("axes", "keepdims"), [(-1, 1), (0, 1), (1, 0), (-1, 0)])
@pytest.mark.parametrize("name", ["Max", "Mean", "Min", "Prod", "Sum"])
def test_reductions_of_matrices(name: str, axes: int, keepdims: int) -> None:
    x, function = between(0.5, 1.5, 4, 6), getattr(np, name.lower())
    wanted = np.asarray(function(x.astype(np.float64), None if axes == -1 else axes, keepdims=bool(keepdims)))
    check(on_its_soc(f"Reduce{name}V2", "A2", x, axes, keepdims), wanted.reshape(wanted.shape or (1,)))


def test_sorting_takes_indices_along() -> None:
    x = np.array([[3, np.nan, -np.inf, 3, np.inf]], F32)
    index = np.array([[10, 11, 12, 13, 14]], np.int32)
    values, moved = on_its_soc("SortWithIndex", "A2", x, index, -1, False, True)
    np.testing.assert_array_equal(values, [[np.nan, -np.inf, 3, 3, np.inf]])
    assert moved.tolist() == [[11, 12, 10, 13, 14]]
    assert on_its_soc("SortWithIndex", "A2", x, index, 1, True, True)[1].tolist() == [[11, 14, 10, 13, 12]]


def test_isin_of_joined_and_sorted_values() -> None:
    elements, tested = np.array([4, 1, 9, 4, 7], np.int32), np.array([9, 4, 2], np.int32)
    joined = np.concatenate((elements, tested))
    order = np.argsort(joined, kind="stable").astype(np.int32)
    count = np.array([5], np.int32)
    result = on_its_soc("IsinPartV1", "A2", joined[order], order, count, out=np.zeros(5, bool))
    assert result.tolist() == np.isin(elements, tested).tolist()
    with pytest.raises(AclError, match="elements_num is 5"):
        on_its_soc("IsinPartV1", "A2", joined[order], order, count, out=np.zeros(4, bool))


def test_casts() -> None:
    x = np.array([1.75, -2.5, 300], F32)
    assert on_its_soc("CastV2", "A2", x, out=np.zeros(3, np.int32)).tolist() == [1, -2, 300]
    assert on_its_soc("CastV3", "310P", x, aclnn.DataType.INT8).tolist() == [1, -2, 44]


# ------------------------------------------------------------------------------------------------- moved data


def test_elements_at_strides() -> None:
    x = normal(4, 5)
    actual = on_its_soc("AsStrided", "A2", x, [3, 2], [5, 2], [1])
    np.testing.assert_array_equal(actual, torch.as_strided(torch.from_numpy(x), (3, 2), (5, 2), 1).numpy())
    with pytest.raises(AclError, match="stride"):
        on_its_soc("AsStrided", "A2", x, [5, 2], [5, 2], [2])


def test_copies_slices_and_stacks() -> None:
    x, y = normal(3, 4), normal(3, 4, seed=6)
    np.testing.assert_array_equal(on_its_soc("TensorMove", "A2", x), x)
    np.testing.assert_array_equal(on_its_soc("PackV2", "A2", x, y, 1), np.stack((x, y), 1))
    np.testing.assert_array_equal(on_its_soc("SliceV3", "A2", x, [1, 0], [2, 3]), x[1:3, :3])
    with pytest.raises(AclError, match="size"):
        on_its_soc("SliceV3", "A2", x, [2, 0], [2, 3])
    filled = x.copy()
    on_its_soc("FillV2", "A2", filled, np.array([2.5], F32))
    assert (filled == 2.5).all()
    perm = np.array([1, 0], np.int64)
    np.testing.assert_array_equal(on_its_soc("Transposev", "A2", x, perm, out=np.zeros((4, 3), F32)), x.T)
    numbers = np.array([[0, 2], [3, -1]], np.int32)
    hot = on_its_soc("Onehot", "A2", numbers, 3)
    np.testing.assert_array_equal(hot[0], F.one_hot(torch.tensor([0, 2]), 3).numpy())
    assert not hot[1].any()


@pytest.mark.parametrize("batch", [(2,), ()])
def test_windows_to_columns_and_back(batch: tuple[int, ...]) -> None:
    x = normal(*batch, 3, 7, 8)
    columns = on_its_soc("Im2Col", "A2", x, 2, 3, 2, 1, 1, 0, 1, 2)
    wanted = oracle(lambda x: F.unfold(x, (2, 3), (1, 2), (1, 0), (2, 1)), x)
    np.testing.assert_array_equal(columns, wanted.astype(F32))
    columns = on_its_soc("Im2Col", "A2", x, 2, 3, 2, 2, 1, 1, 1, 1)
    image = on_its_soc("Col2Im", "A2", columns, 7, 8, 2, 3, 2, 1, 1)
    check(image, oracle(lambda c: F.fold(c, (7, 8), (2, 3), 1, 1, 2), columns))


# ------------------------------------------------------------------------------------------------- activations, losses


def test_activations_with_more_operands() -> None:
    x, y = normal(4, 8), normal(4, 8, seed=6)
    check(
        on_its_soc("EluV2", "A2", x, 1.5, 1.1, 0.7),
        np.where(x > 0, 1.1 * x, 1.1 * 1.5 * np.expm1(0.7 * x.astype(float))),
    )
    both = x.astype(np.float64) + y
    check(on_its_soc("FusedBiasLeakyRelu", "950", x, y, 0.2, 1.4), 1.4 * np.where(both > 0, both, 0.2 * both))
    np.testing.assert_array_equal(on_its_soc("ReluGradV3", "A2", x, y), np.where(x > 0, y, 0))
    mask = (x > 0).astype(np.uint8)
    np.testing.assert_array_equal(on_its_soc("ReluGradV4", "A2", y, mask, 0), np.where(x > 0, y, 0))
    result, bits = on_its_soc("ReluV3", "A2", x)
    np.testing.assert_array_equal(result, np.maximum(x, 0))
    np.testing.assert_array_equal(np.unpackbits(bits, -1, bitorder="little"), mask)
    gate, up = torch.from_numpy(4 * x.astype(np.float64)).chunk(2, -1)
    wanted = F.silu(gate).clamp(max=1.5) * up.clamp(-1.5, 1.5)
    check(on_its_soc("SwigluClamp", "A2", 4 * x, 1.5), wanted.numpy())


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_by_name(reduction: str) -> None:
    x, target = normal(4, 6), normal(4, 6, seed=7)
    signs = np.sign(target).astype(F32)
    check(
        on_its_soc("HingeEmbeddingLoss", "A2", x, signs, 0.5, reduction),
        oracle(lambda x, t: F.hinge_embedding_loss(x, t, 0.5, reduction=reduction), x, signs),
        4,
    )
    check(
        on_its_soc("LpLoss", "A2", x, target, 1, reduction),
        oracle(lambda x, t: F.l1_loss(x, t, reduction=reduction), x, target),
        4,
    )
    grad = normal(4, 6, seed=8) if reduction == "none" else np.array(0.75, F32)
    wanted = slope_of(lambda x, t: F.mse_loss(x, t, reduction=reduction))(*map(tensor, (grad, x, target)))
    check(on_its_soc("MseLossGrad", "A2", grad, x, target, reduction), wanted.numpy(), 4)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(4, 6), (4, 1), (1,)], ids=str)
def test_gaussian_likelihood(shape: tuple[int, ...], reduction: str, full: bool) -> None:
    x, target, var = normal(4, 6), normal(4, 1, seed=7), between(0.2, 2, *shape)

    def loss(x: Any, var: Any, target: Any) -> Any:
        whole = 0.5 * (torch.log(var) + (x - target) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0)
        return {"none": lambda v: v, "mean": torch.mean, "sum": torch.sum}[reduction](whole)

    check(on_its_soc("GaussianNllLoss", "A2", x, target, var, full, 1e-6, reduction), oracle(loss, x, var, target), 4)
    grad = normal(4, 6, seed=8) if reduction == "none" else np.array(0.75, F32)
    inputs = [tensor(x).requires_grad_(), tensor(var).requires_grad_()]
    loss(*inputs, tensor(target)).backward(tensor(grad))
    actual = on_its_soc("GaussianNllLossGrad", "A2", grad, x, target, var, full, 1e-6, reduction)
    for made, wanted in zip(actual, inputs):
        check(made, wanted.grad.numpy(), 8)


def test_gradients_of_entropies_and_margins() -> None:
    logits, target = normal(5, 7), np.array([0, 6, 3, 3, 1], np.int32)
    wanted = slope_of(lambda x: F.cross_entropy(x, tensor(target).long(), reduction="sum"))(
        torch.tensor(1.0), tensor(logits)
    )
    check(on_its_soc("CrossEntropyGrad", "A2", logits, target), wanted.numpy(), 4)
    x, labels, weight = normal(5, 7), normal(5, 7, seed=5), normal(5, 7, seed=6)
    grad = np.array([3], F32)
    check(on_its_soc("BinaryCrossEntropyGradV2", "A2", grad, x, labels, weight, 1), weight * 3.0 * (x - labels), 4)
    signs = np.sign(labels).astype(F32)
    wanted = slope_of(lambda x, t: torch.clamp(1 - t * x, min=0))(*map(tensor, (weight, x, signs)))
    check(on_its_soc("HingeLossGrad", "A2", x, signs, weight), wanted.numpy())


# ------------------------------------------------------------------------------------------------- optimisers


def test_adadelta_is_that_of_torch() -> None:
    var, accum, updates, grad = normal(9), between(0.1, 1, 9), between(0.1, 1, 9, seed=5), normal(9, seed=6)
    parameter = torch.nn.Parameter(tensor(var))
    optimiser = torch.optim.Adadelta([parameter], lr=0.3, rho=0.9, eps=1e-3)
    parameter.grad = tensor(grad)
    optimiser.step()
    state = optimiser.state[parameter]
    state["square_avg"], state["acc_delta"] = tensor(accum), tensor(updates)
    parameter.data = tensor(var)
    optimiser.step()
    made = on_its_soc("ApplyAdadelta", "950", var, accum, updates, 0.3, 0.9, 1e-3, grad)
    for actual, wanted in zip(made, (parameter.detach(), state["square_avg"], state["acc_delta"])):
        check(actual, wanted.numpy(), 2)


def test_steps_by_their_formulas() -> None:
    var, m, v, grad = normal(9), normal(9, seed=4), between(0.1, 1, 9, seed=5), normal(9, seed=6)
    wide = [x.astype(np.float64) for x in (var, m, v, grad)]
    w, a, b, g = wide
    new_m, largest = 0.9 * a + 0.1 * g, np.maximum(0.8 * b, np.abs(g))
    made = on_its_soc("ApplyAdamax", "950", var, m, v, 0.9, 0.3, 0.9, 0.8, 1e-3, grad)
    for actual, wanted in zip(made, (w - 0.3 / 0.1 * new_m / (largest + 1e-3), new_m, largest)):
        check(actual, wanted, 4)
    ms = b + 0.1 * (g * g - b)
    mom = 0.5 * a + 0.3 * g / np.sqrt(1e-3 + ms)
    for actual, wanted in zip(
        on_its_soc("ApplyRmsProp", "950", var, v, m, grad, 0.3, 0.9, 0.5, 1e-3), (w - mom, ms, mom)
    ):
        check(actual, wanted, 4)
    numbers = [np.array([n], F32) for n in (0.5, 0.25, 0.3, 0.9, 0.8, 1e-3)]
    new_v, rate = 0.8 * b + 0.2 * g * g, 0.3 * math.sqrt(0.75) / 0.5
    for nesterov, ahead in ((False, new_m), (True, 0.9 * new_m + 0.1 * g)):
        made = on_its_soc("ApplyAdamD", "A2", var, m, v, *numbers, grad, False, nesterov)
        for actual, wanted in zip(made, (w - rate * ahead / (1e-3 + np.sqrt(new_v)), new_m, new_v)):
            check(actual, wanted, 4)
    changed = var.copy()
    on_its_soc("ApplyGradientDescent", "A2", changed, np.array([0.5], F32), grad)
    check(changed, w - 0.5 * g)
    refs = [var.copy(), v.copy(), m.copy()]
    on_its_soc("ApplyFtrl", "A2", *refs, grad, *(np.array([n], F32) for n in (0.3, 0.2, 0.1, -0.5)), False)
    grown = b + g * g
    linear = a + g - (np.sqrt(grown) - np.sqrt(b)) / 0.3 * w
    moved = np.where(np.abs(linear) > 0.2, (np.sign(linear) * 0.2 - linear) / (np.sqrt(grown) / 0.3 + 0.2), 0)
    for actual, wanted in zip(refs, (moved, grown, linear)):
        check(actual, wanted, 6)


def test_steps_whose_factors_are_tensors() -> None:
    grad, v, m, var = normal(9), between(0.1, 1, 9), normal(9, seed=4), normal(9, seed=5)
    lr, b1, c1, b2, c2, decay, epsilon = (between(0.1, 0.9, 9, seed=seed) for seed in range(6, 13))
    g, wide_v, wide_m, w = (x.astype(np.float64) for x in (grad, v, m, var))
    new_v, new_m = g * g * c2 + wide_v * b2, wide_m * b1 + g * c1
    step = new_m / (np.sqrt(new_v) + epsilon)
    plain = on_its_soc("AdamApplyOne", "A2", grad, v, m, var, lr, b1, c1, b2, c2, epsilon)
    for actual, wanted in zip(plain, (new_v, new_m, w - step * lr)):
        check(actual, wanted, 4)
    for name in ("AdamApplyOneWithDecay", "AdamApplyOneWithDecayAssign"):
        made = on_its_soc(name, "A2", grad, v, m, var, lr, b1, c1, b2, c2, decay, epsilon)
        check(made[2], w - (step + w * decay) * lr, 4)


def test_steps_of_adagrad_and_rms_prop() -> None:
    var, accum, mean, mom, grad = (
        normal(9),
        between(1, 2, 9),
        normal(9, seed=4) / 9,
        normal(9, seed=5),
        normal(9, seed=6),
    )
    w, a, b, g = (x.astype(np.float64) for x in (var, accum, mean, grad))
    numbers = {
        name: np.array([n], F32) for name, n in (("lr", 0.3), ("l1", 0.2), ("l2", 0.1), ("rho", 0.9), ("eps", 1e-3))
    }
    for grows in (True, False):
        refs = [var.copy(), accum.copy()]
        on_its_soc("ApplyAdagradD", "A2", *refs, numbers["lr"], grad, grows, False)
        grown = a + g * g if grows else a
        check(refs[0], w - 0.3 * g / np.sqrt(grown), 4)
        check(refs[1], grown)
    rate = 0.3 / np.sqrt(a + g * g)
    moved = w - rate * g
    made = on_its_soc("ApplyProximalAdagrad", "950", var, accum, numbers["lr"], numbers["l1"], numbers["l2"], grad)
    check(made[0], np.sign(moved) * np.maximum(np.abs(moved) - rate * 0.2, 0) / (1 + rate * 0.1), 6)
    parameter = tensor(var).requires_grad_()
    optimiser = torch.optim.RMSprop([parameter], 0.3, 0.9, 0.0, momentum=0.5, centered=True)
    parameter.grad = tensor(grad)
    optimiser.step()
    state = optimiser.state[parameter]
    for key, value in (("square_avg", accum), ("grad_avg", mean), ("momentum_buffer", mom)):
        state[key] = tensor(value).clone()
    parameter.data = tensor(var).clone()
    optimiser.step()
    half = np.array([0.5], F32)
    zero = np.array([0], F32)
    made = on_its_soc(
        "ApplyCenteredRMSProp",
        "950",
        var,
        mean,
        accum,
        mom / np.float32(1),
        numbers["lr"],
        numbers["rho"],
        half,
        zero,
        grad,
    )
    check(made[1], state["grad_avg"].numpy(), 4)
    check(made[2], state["square_avg"].numpy(), 4)
    denominator = np.sqrt(0.9 * a + 0.1 * g * g - np.square(0.9 * b + 0.1 * g))
    check(made[3], 0.5 * mom + 0.3 * g / denominator, 8)
    check(made[0], w - (0.5 * mom + 0.3 * g / denominator), 8)


# ------------------------------------------------------------------------------------------------- from definitions alone


def test_softmax_subtracts_nothing_below_zero() -> None:
    x = normal(3, 4, 5)
    check(on_its_soc("SoftmaxV2", "A2", x, 1), torch.softmax(tensor(x), 1).numpy(), 4)
    lost = on_its_soc("SoftmaxV2", "A2", np.full((1, 4), -200, F32), 1)
    assert np.isnan(lost).all()  # e^-200 is 0 in float32: 0 / 0, where torch gives 0.25


def test_sums_products_and_maxima_of_a_list() -> None:
    inputs = [normal(2, 3, seed=seed) for seed in range(3)]
    check(on_its_soc("Eltwise", "950", inputs, 0), np.prod(inputs, 0))
    check(on_its_soc("Eltwise", "950", inputs, 1, [1.0, -2.0, 0.5]), inputs[0] - 2 * inputs[1] + 0.5 * inputs[2])
    np.testing.assert_array_equal(on_its_soc("Eltwise", "950", inputs, 2), np.max(inputs, 0))
    with pytest.raises(AclError, match="coeff"):
        on_its_soc("Eltwise", "950", inputs, 1, [1.0])


def test_whole_numbers_of_the_reciprocal_root_lose_their_fraction() -> None:
    whole = np.array([3, -4], np.int32)
    assert on_its_soc("RsqrtGrad", "A2", whole, whole).tolist() == [0, 0]
    with pytest.raises(aclnn.UnsupportedOperator, match="INT8"):
        on_its_soc("RsqrtGrad", "A2", whole.astype(np.int8), whole.astype(np.int8))


def test_joined_filled_and_cut() -> None:
    x, y = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(4, dtype=np.int32).reshape(2, 2)
    np.testing.assert_array_equal(on_its_soc("ConcatV2", "A2", x, y, 1), np.concatenate((x, y), 1))
    padded = on_its_soc("PadV2", "A2", x, 0, 7, 1, 0, 2, 3, 0, 0, 0, 0)
    np.testing.assert_array_equal(padded, np.pad(x, ((1, 0), (2, 3)), constant_values=7))
    masked = on_its_soc("MaskedFill", "A2", x, np.array([True, False, True]), 9)
    assert masked.tolist() == [[9, 1, 9], [9, 4, 9]]
    for sections in ([3], [1, 2]):
        parts = on_its_soc("Split", "A2", x, sections, 1)
        assert [part.tolist() for part in parts] == [[[0], [3]], [[1], [4]], [[2], [5]]]
    with pytest.raises(AclError, match="indices_or_sections"):
        on_its_soc("Split", "A2", x, [2], 1)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_maxima_of_windows_with_their_places(ceil_mode: bool) -> None:
    x = normal(2, 3, 8, 9)
    made = on_its_soc("MaxPoolWithArgmaxV3", "A2", x, [3, 2], [2, 2], [1, 1], [1, 2], ceil_mode)
    wanted, places = F.max_pool2d(tensor(x), (3, 2), (2, 2), (1, 1), (1, 2), ceil_mode, return_indices=True)
    np.testing.assert_array_equal(made[0], wanted.numpy())
    np.testing.assert_array_equal(made[1], places.numpy())


def test_half_of_the_squares() -> None:
    x = normal(40)
    check(on_its_soc("L2Loss", "A2", x), np.square(x.astype(np.float64)).sum() / 2, 4)


def test_faces_over_a_background() -> None:
    face, mask, largest = (between(0.1, 1, 4, 5, seed=seed) for seed in range(3))
    for background in (between(0, 255, 4, 5), np.arange(20, dtype=np.uint8).reshape(4, 5)):
        made = on_its_soc("BlendFaceBgPartTwo", "A2", face, mask, largest, background, 1e-12)
        check(made, face.astype(float) / mask * largest + background * (1 - largest.astype(float)), 8)


def test_boxes_that_no_better_box_overlaps() -> None:
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 10, (30, 2))
    boxes = np.concatenate((corner, corner + rng.uniform(1, 5, (30, 2))), 1).astype(F32)
    scores = np.sort(rng.uniform(0, 1, 30).astype(F32))[::-1].copy()
    kept: list[int] = []
    for i in range(30):
        if scores[i] < 0.2:
            break
        overlaps = []
        for j in kept:
            size = np.minimum(boxes[i, 2:], boxes[j, 2:]) - np.maximum(boxes[i, :2], boxes[j, :2])
            common = float(np.prod(np.maximum(size, 0)))
            areas = [float(np.prod(boxes[k, 2:] - boxes[k, :2])) for k in (i, j)]
            overlaps.append(common / (sum(areas) - common))
        if all(overlap < 0.3 for overlap in overlaps):
            kept.append(i)
    made = on_its_soc("NMSWithMask", "A2", boxes.reshape(-1), scores, 0.3, 0.2)
    assert np.flatnonzero(made).tolist() == kept and 3 < len(kept) < 25


# ------------------------------------------------------------------------------------------------- norms, indices


def test_gradients_of_norms() -> None:
    x, grad, weight = normal(4, 3, 5), normal(4, 3, 5, seed=5), normal(3, seed=6)
    mean, invstd = x.mean((0, 2)), 1 / np.sqrt(x.var((0, 2)) + 1e-5)
    parts = [tensor(a).requires_grad_() for a in (x, weight, np.zeros(3, F32))]
    F.batch_norm(parts[0], None, None, parts[1], parts[2], True, 0, 1e-5).backward(tensor(grad))
    made = on_its_soc("BatchNormalizationGrad", "A2", grad, x, weight, np.zeros(3, F32), mean, invstd.astype(F32), 1e-5)
    for actual, wanted in zip(made, parts):
        check(actual, wanted.grad.numpy(), 20)
    gamma = normal(5, seed=7)
    mean, rstd = x.mean(-1), 1 / np.sqrt(x.var(-1) + 1e-5)
    parts = [tensor(a).requires_grad_() for a in (x, gamma, np.zeros(5, F32))]
    F.layer_norm(parts[0], (5,), parts[1], parts[2], 1e-5).backward(tensor(grad))
    made = on_its_soc("LayerNormalizationGrad", "A2", grad, x, gamma, mean, rstd.astype(F32))
    for actual, wanted in zip(made, parts):
        check(actual, wanted.grad.numpy(), 20)
    part = tensor(x).requires_grad_()
    F.layer_norm(part, (5,), None, None, 1e-5).backward(tensor(grad))
    ones = np.ones_like(x)
    check(on_its_soc("GroupNormalizationGrad", "A2", x, grad, ones, mean, rstd.astype(F32)), part.grad.numpy(), 20)


def test_norms() -> None:
    x1, x2, gamma = normal(4, 6), normal(4, 6, seed=5), normal(6, seed=6)
    y, rstd, total = on_its_soc("FusedAddRmsNorm", "A2", x1, x2, gamma, 1e-5, 0.5)
    wide = 0.5 * x1.astype(np.float64) + x2
    check(total, wide)
    check(y, oracle(lambda x, g: F.rms_norm(x, (6,), g, 1e-5), wide, gamma), 4)
    assert rstd.shape == (4, 1)
    for axis, over in ((0, None), (1, 0), (2, 1)):
        powers = np.sum(np.abs(x1.astype(np.float64)) ** 3, over, keepdims=True)
        check(on_its_soc("LpNormV3", "A2", x1, 3.0, axis), x1 / (powers + 1e-6) ** (1 / 3), 2)
    grads, scale, variance = normal(2, 3, 4, 5), normal(3), between(0.2, 1, 3)
    factor = scale / np.sqrt(variance.astype(np.float64) + 1e-4)
    check(on_its_soc("BnInferGrad", "A2", grads, scale, variance, 1e-4, 0), grads * factor[:, None, None], 2)


def test_indices() -> None:
    x = np.array([0, 1, 2, 3, -1], np.int32)
    assert on_its_soc("DataFormatDimMap", "950", x, "NHWC", "NCHW").tolist() == [0, 2, 3, 1, 1]
    table, index = normal(5, 4), np.random.default_rng(1).integers(0, 5, (3, 4)).astype(np.int32)
    wanted = torch.gather(torch.from_numpy(table), 0, torch.from_numpy(index).long())
    np.testing.assert_array_equal(on_its_soc("GatherElementsV3", "A2", table, index, 0), wanted.numpy())
    indices, grad = np.array([0, 2, 2, 3], np.int64), normal(4, 6)
    actual = on_its_soc("EmbeddingDenseGrad", "310P", grad, indices, 5, 3, True)
    wanted = torch.ops.aten.embedding_dense_backward(tensor(grad), tensor(indices), 5, 3, True)
    check(actual, wanted.numpy())


def test_bfloat16_is_rounded_once() -> None:
    x = sample(BF16, -3, 3, special=False)
    check(on_its_soc("Softsign", "A2", x), oracle(F.softsign, x))


# ------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_matmul_swiglu(dtype: Any, turned: bool) -> None:
    x, bias = normal(2, 3, 16, dtype=dtype), normal(24, seed=5)
    weight = normal(*((24, 16) if turned else (16, 24)), dtype=dtype, seed=6)
    made = on_its_soc("MatmulSwiglu", "A2", x, weight, bias, turned)

    def formula(x: Any, weight: Any, bias: Any) -> Any:
        gate, up = (x @ (weight.T if turned else weight) + bias).chunk(2, -1)
        return F.silu(gate) * up

    check(made, oracle(formula, x, weight, bias), 8)
    with pytest.raises(AclError) as caught:
        on_its_soc("MatmulSwiglu", "A2", x, weight, None, turned)
    assert caught.value.status == 161001


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_swiglu_gated_mlp(dtype: Any) -> None:
    x, up, down = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate([(2, 3, 16), (16, 24), (12, 10)]))
    made = on_its_soc("SwigluGatedMlp", "A2", x, up, down, 1)

    def formula(x: Any, up: Any, down: Any) -> Any:
        gate, rest = (x @ up).chunk(2, -1)
        return (F.silu(gate) * rest) @ down

    check(made, oracle(formula, x, up, down), 16)
    with pytest.raises(AclError, match="cube_math_type"):
        on_its_soc("SwigluGatedMlp", "A2", x, up, down, 2)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_fused_matmul_gelu(dtype: Any, biased: bool) -> None:
    x, weight = normal(2, 3, 16, dtype=dtype), normal(10, 16, dtype=dtype, seed=5)
    bias = normal(10, dtype=dtype, seed=6) if biased else None
    made = on_its_soc("FusedMatmulGelu", "A2", x, weight, bias, 1)
    check(
        made, oracle(lambda x, w, *b: F.gelu(F.linear(x, w, *b), approximate="tanh"), x, weight, *([bias] * biased)), 8
    )
    with pytest.raises(AclError, match="approximate"):
        on_its_soc("FusedMatmulGelu", "A2", x, weight, bias, 0)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_fused_patch_mlp(dtype: Any, layers: int) -> None:
    """Each layer's matrix lies transposed behind that of the one before."""
    hidden, patch = 32, 6
    x = normal(2, 4, patch, dtype=dtype)
    matrices = [normal(hidden, patch if i == 0 else hidden, seed=i + 5) / np.float32(4) for i in range(layers)]
    weights = np.concatenate([m.T.reshape(-1) for m in matrices]).astype(dtype)
    biases = normal(layers * hidden, dtype=F32 if dtype == BF16 else dtype, seed=9)
    made = on_its_soc("FusedPatchMlp", "A2", x, weights, biases, layers)
    y = tensor(x).double()
    for i, matrix in enumerate(matrices):
        rounded = tensor(matrix.astype(dtype)).double()
        y = F.linear(y, rounded, tensor(biases).double()[i * hidden : (i + 1) * hidden])
        y = F.gelu(y, approximate="tanh") if i < layers - 1 else y
    check(made, y.numpy(), 16)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("biased", [False, True])
def test_matmul_fp32(turned: tuple[bool, bool], biased: bool) -> None:
    x1 = normal(*((8, 5) if turned[0] else (5, 8)))
    x2 = normal(*((6, 8) if turned[1] else (8, 6)), seed=5)
    bias = normal(6, seed=6) if biased else None
    made = on_its_soc("MatmulFp32", "A2", x1, x2, bias, *turned)
    wide = [(x.T if t else x).astype(np.float64) for x, t in zip((x1, x2), turned)]
    check(made, wide[0] @ wide[1] + (0 if bias is None else bias), 8)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_renorm_of_matrices(dtype: Any, dim: int, p: float) -> None:
    x = normal(5, 7, dtype=dtype)
    x[2] = 0
    check(on_its_soc("RenormV2", "A2", x, p, dim, 2.5), oracle(torch.renorm, x, p, dim, 2.5), 4)
    with pytest.raises(AclError, match="dim"):
        on_its_soc("RenormV2", "A2", x, p, 2, 2.5)
