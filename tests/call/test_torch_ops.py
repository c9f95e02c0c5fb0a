"""Operators as torch operators: schemas, shapes without values, gradients, compilation and export."""

from __future__ import annotations

import ast
import json
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, catalog, ops, torch_ops
from ascend_aclnn.catalog import FOLDER, Operator
from ascend_aclnn.verify import torch_ops as checks

torch: Any = pytest.importorskip("torch", reason="torch is not installed: operators are not tested as its own")

GRADIENTS: dict[str, dict[str, str]] = json.loads((FOLDER / "gradients.json").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------ gradients


def numbers(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(sum(shape)).uniform(0.3, 0.7, shape).astype(np.float32))


def integers(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def permuted(copies: int, width: int, map_: Any) -> list[Any]:
    """The rows that a routing map permutes to, and where they are."""
    rows, _, places = ops.moe_token_permute_with_routing_map(numbers(len(map_), width), map_, None, copies)
    return [rows, places]


MAP = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=torch.bool)

# Arguments of operators whose example lacks an input, or repeats an index where a program would not.
ARGUMENTS: dict[str, Any] = {
    "aclnnAddLayerNorm": lambda: [numbers(8, 64), numbers(8, 64) ** 2, *([numbers(64)] * 3), 1e-5, True],
    **dict.fromkeys(["aclnnAcos", "aclnnAsin"], lambda: [numbers(3, 4)]),
    "aclnnCast": lambda: [numbers(3, 4), torch.float32],
    "aclnnCrossEntropyLoss": lambda: [numbers(4, 5), torch.tensor([1, 0, 4, 2]), numbers(5), "mean", -100, 0.0, 0.0],
    "aclnnEmbedding": lambda: [numbers(5, 4), torch.tensor([2, 0, 2])],
    "aclnnLayerNorm": lambda: [numbers(3, 2, 8), [8], numbers(8), numbers(8)],
    "aclnnLayerNormWithImplMode": lambda: [numbers(3, 2, 8), [8], numbers(8), numbers(8)],
    "aclnnMaxPool2dWithIndices": lambda: [
        torch.randperm(96, generator=torch.Generator().manual_seed(1)).reshape(2, 3, 4, 4) / 9,
        *([2, 2], [1, 1], [0], [1, 1]),
    ],
    "aclnnMoeFinalizeRoutingV2": lambda: [
        *(numbers(6, 4), integers(3, 0, 4, 2, 1, 5), numbers(3, 4), numbers(3, 4)),
        *(numbers(4, 4), numbers(3, 2), integers([0, 1], [3, 2], [1, 0])),
    ],
    "aclnnMoeTokenPermute": lambda: [numbers(3, 4), torch.tensor([[1, 0], [2, 1], [0, 2]])],
    "aclnnMoeTokenPermuteWithEp": lambda: [
        numbers(3, 4),
        torch.tensor([[1, 0], [2, 1], [0, 2]]),
        numbers(3, 2),
        [1, 5],
    ],
    "aclnnMoeTokenPermuteWithRoutingMap": lambda: [numbers(4, 6), MAP, numbers(4, 3), 8],
    "aclnnMoeTokenUnpermute": lambda: [numbers(6, 4), integers(3, 0, 4, 2, 1, 5), numbers(3, 2)],
    "aclnnMoeTokenUnpermuteWithEp": lambda: [numbers(6, 4), integers(3, 0, 4, 2, 1, 5), numbers(3, 2), 2],
    "aclnnReduceSum": lambda: [numbers(3, 4, 5), [0, 2]],
    "aclnnMoeTokenUnpermuteWithRoutingMap": lambda: [*permuted(8, 6, MAP), MAP, numbers(4, 3), False, [4, 6]],
}


class Differentiable:
    """An operator with arguments whose gradients are known."""

    def __init__(self, operator: Operator, dtype: Any) -> None:
        self.function = torch_ops.torch_function(operator.name)
        self.names = [p.python_name for p in operator.inputs]
        self.outputs = [p.python_name for p in operator.outputs]
        self.random = np.random.default_rng(zlib.crc32(operator.name.encode()))
        self.formulas = " ".join(operator.gradients.values())
        inputs = {name for key in operator.gradients for names in key.split() for name in names.split(",")}
        make = ARGUMENTS.get(operator.name)
        self.arguments = list(make() if make else checks.torch_arguments(operator))
        self.at = []
        for i, value in enumerate(self.arguments):
            if not isinstance(value, torch.Tensor):
                continue
            if self.names[i] in inputs and not value.is_floating_point():
                value = value.float()  # of an example with integers
            if value.is_floating_point():
                value = value.double()
                if self.names[i] in inputs and operator.name not in ARGUMENTS:
                    value = value + self.away_from_zero(value.shape)
                    self.at.append(i)
                elif self.names[i] in inputs:
                    self.at.append(i)
                value = value.to(dtype or self.arguments[i].dtype)
            self.arguments[i] = value

    def away_from_zero(self, shape: Sequence[int]) -> Any:
        """Small numbers, so that an example of zeros and ones has no ties and no kinks."""
        size = self.random.uniform(0.02, 0.1, tuple(shape))
        return torch.from_numpy(size * self.random.choice([-1, 1], tuple(shape)))

    def results(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs through which a gradient flows."""
        results = self.function(*arguments)
        named = zip(self.outputs, results if isinstance(results, tuple) else (results,))
        return [t for name, t in named if f"grad_{name}" in self.formulas and t is not None]


def gradient_errors(operator: Operator, dtype: Any, step: float) -> list[str]:
    """The inputs whose gradient differs from central differences along a random direction."""
    call = Differentiable(operator, dtype)
    plain = list(call.arguments)
    assert call.at
    tracked = [x.clone().requires_grad_() if i in call.at else x for i, x in enumerate(plain)]
    results = call.results(tracked)
    weights = [torch.from_numpy(call.random.uniform(0.5, 1.5, tuple(t.shape))) for t in results]
    wanted = [tracked[i] for i in call.at]
    gradients = torch.autograd.grad(results, wanted, [w.to(t.dtype) for w, t in zip(weights, results)])
    errors = []
    for i, gradient in zip(call.at, gradients):
        direction = torch.from_numpy(call.random.uniform(-1, 1, tuple(plain[i].shape)))

        def loss(steps: int, i: int = i, direction: Any = direction) -> float:
            moved = list(plain)
            moved[i] = (plain[i].double() + steps * step * direction).to(plain[i].dtype)
            return sum(float((w * t.double()).sum()) for w, t in zip(weights, call.results(moved)))

        slope = (8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))) / (12 * step)
        products = gradient.double() * direction
        if abs(slope - float(products.sum())) > 0.01 * float(products.abs().sum()) + 1e-4:
            errors.append(f"{call.names[i]}: {float(products.sum())}, by differences {slope}")
    return errors


@pytest.mark.parametrize("name", sorted(GRADIENTS.keys() - {"aclnnCtcLoss"}))
def test_the_gradient_is_that_of_central_differences(name: str) -> None:
    operator = catalog.get(name)
    with aclnn.use_backend("numpy", checks.soc_of_example(operator)):
        try:
            errors = gradient_errors(operator, torch.float64, 1e-4)
        except AclError:  # forward or backward does not take DOUBLE
            try:
                errors = gradient_errors(operator, torch.float32, 4e-3)
            except AclError:
                errors = gradient_errors(operator, None, 0.25)
    assert errors == []


def test_gradients_name_inputs_outputs_operators_and_helpers() -> None:
    for name in GRADIENTS:
        operator = catalog.get(name)
        inputs = {p.python_name for p in operator.inputs}
        outputs = {p.python_name for p in operator.outputs}
        known = (
            inputs | outputs | {f"grad_{o}" for o in outputs} | torch_ops.HELPERS.keys() | catalog.python_names().keys()
        )
        for key, text in operator.gradients.items():
            assert inputs.issuperset(key.replace(",", " ").split()), name
            tree = ast.parse(text, mode="eval")
            loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            assert loaded <= known | stored, name


def test_the_gradient_of_ctc_is_torch_s_own() -> None:
    """It is that of unnormalised values, as torch's, so differences of log_probs do not show it."""
    values = numbers(6, 2, 5).requires_grad_()
    targets, lengths = integers([1, 2], [3, 1]), ([6, 6], [2, 2])
    loss, _ = torch_ops.torch_function("aclnnCtcLoss")(values.log_softmax(2), targets, *lengths)
    expected = torch.nn.functional.ctc_loss(values.log_softmax(2), targets, *lengths, reduction="none")
    torch.testing.assert_close(loss, expected)
    weights = torch.tensor([0.5, 2.0])
    actual = torch.autograd.grad((loss * weights).sum(), values)
    torch.testing.assert_close(actual, torch.autograd.grad((expected * weights).sum(), values))


# ------------------------------------------------------------------------------------------------ torch's own checks

# Of each kind of argument and result; `ascend-aclnn torch-ops` checks all operators.
SAMPLE = [
    "aclnnAdd",
    "aclnnArange",
    "aclnnCat",
    "aclnnConvolution",
    "aclnnCumprod",
    "aclnnEmbedding",
    "aclnnForeachAddList",
    "aclnnFlashAttentionScore",
    "aclnnGroupedMatmulV5",
    "aclnnMaskedSelect",
    "aclnnMoeGatingTopKSoftmax",
    "aclnnMoeTokenUnpermute",
    "aclnnNonMaxSuppression",
    "aclnnNonzero",
    "aclnnNonzeroV2",
    "aclnnQuantSparseFlashMlaMetadata",
    "aclnnReduceSum",
    "aclnnRmsNorm",
    "aclnnRmsNormGrad",
    "aclnnSplitTensor",
    "aclnnTopk",
    "aclnnUpsampleNearest2d",
]


@pytest.mark.parametrize("name", SAMPLE)
def test_opcheck_passes(name: str) -> None:
    (result,) = checks.check([name])
    assert result.status == "passes", result


def test_what_opcheck_cannot_say_has_a_reason() -> None:
    names = ["aclnnInplaceAdd", "aclnnUnique2", "aclnnMoeDistributeDispatchSetup", "aclnnAntiMxQuant", "aclnnCIoU"]
    results = list(checks.check(names))
    assert [r.status for r in results] == ["not checked"] * len(names)
    assert [r.reason for r in results] == [
        "changes an argument in place",
        "the shapes of its outputs depend on data, and on each other",
        "its output has to be passed: CANN tells its size by a function of its own, ...SetupTeardownCalcOutputSize",
        "opcheck itself does not work on float8",
        "its example gives NaN, which opcheck finds unequal",
    ]


def test_opcheck_fails_where_the_shape_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch_ops.call_without_values

    def wrong(*args: Any) -> Any:
        return right(*args).new_empty(3, 3)

    monkeypatch.setattr(torch_ops, "call_without_values", wrong)
    (result,) = checks.check(["aclnnTan"])
    assert result.status == "fails" and "shape" in result.reason.lower()


# ------------------------------------------------------------------------------------------------ functions


def test_results_are_those_of_ops(each_backend: Any) -> None:
    x, gamma = numbers(4, 8), numbers(8)
    results = torch_ops.torch_function("aclnnRmsNorm")(x, gamma, epsilon=1e-5)
    expected = ops.rms_norm(x, gamma, 1e-5)
    assert type(results) is type(expected)
    assert torch.equal(results.y, expected.y) and torch.equal(results.rstd, expected.rstd)


def test_an_operator_in_place_changes_and_returns_its_tensor() -> None:
    x = numbers(3, 4)
    twice = x * 2
    result = torch_ops.torch_function("aclnnInplaceAdd")(x, x.clone())
    assert result is x and torch.equal(x, twice)


def test_an_operator_in_place_is_not_differentiated() -> None:
    x = numbers(3, 4).requires_grad_()
    with pytest.raises(TypeError, match="requires grad"):
        torch_ops.torch_function("aclnnInplaceAdd")(x * 1, numbers(3, 4))


def test_a_gradient_that_is_not_known_is_an_error_of_backward() -> None:
    x = numbers(3, 4).requires_grad_()
    y = torch_ops.torch_function("aclnnTan")(x)
    with pytest.raises(NotImplementedError, match="aclnnTan: the catalog knows no gradient of self"):
        y.sum().backward()


def test_a_gradient_that_is_known_in_part() -> None:
    x, target = numbers(3, 4).requires_grad_(), numbers(3, 4).requires_grad_()
    loss = torch_ops.torch_function("aclnnBinaryCrossEntropy")
    torch.autograd.grad(loss(x, target.detach()), x)
    with pytest.raises(NotImplementedError, match="no gradient of target"):
        torch.autograd.grad(loss(x, target), target)


def test_second_derivatives() -> None:
    x = numbers(5).double().requires_grad_()
    (first,) = torch.autograd.grad(torch_ops.torch_function("aclnnExp")(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, x.exp())


def test_a_vendors_operator_and_its_second_prototype() -> None:
    last = "const aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);"
    text = "aclnnStatus aclnnTorchTwiceGetWorkspaceSize(const aclTensor* x, {more}" + last
    try:
        aclnn.register_operator(text.format(more=""), directions={"out": "out"})
        torch_ops.torch_function("aclnnTorchTwice")
        assert str(torch.ops.aclnn.torch_twice.default._schema) == "aclnn::torch_twice(Tensor x) -> Tensor"
        aclnn.register_operator(text.format(more="double factor, "), directions={"out": "out"})
        torch_ops.torch_function("aclnnTorchTwice")
        schema = "aclnn::torch_twice(Tensor x, float factor) -> Tensor"
        assert str(torch.ops.aclnn.torch_twice.default._schema) == schema
    finally:
        catalog.forget("aclnnTorchTwice")


def test_scalars_are_numbers() -> None:
    x = numbers(3)
    assert torch.equal(torch_ops.torch_function("aclnnMuls")(x, aclnn.Scalar(2, "float32")), x * 2)
    (doubled,) = torch_ops.torch_function("aclnnForeachMulScalarList")([x], [aclnn.Scalar(2.0, "float32")])
    assert torch.equal(doubled, x * 2)


def test_threads_define_an_operator_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        functions = set(pool.map(torch_ops.torch_function, ["aclnnSinh"] * 16))
    assert len(functions) == 1


def test_names_that_are_no_torch_operators() -> None:
    with pytest.raises(ValueError, match="did you mean 'aclnnRmsNorm'"):
        torch_ops.torch_function("aclnnRmsNrom")
    with pytest.raises(ValueError, match="aclnnUnique is no torch operator: the shapes of its outputs depend on data"):
        torch_ops.torch_function("aclnnUnique")


def test_ops_says_what_differentiates() -> None:
    x = numbers(4).requires_grad_()
    with pytest.raises(TypeError, match=r'aclnn.torch_function\("aclnnExp"\) records it'):
        ops.exp(x)
    with pytest.raises(TypeError, match="write a torch"):
        ops.tan(x)


# ------------------------------------------------------------------------------------------------ compiled and exported


def layer(x: Any, gamma: Any, weight: Any) -> Any:
    y, _ = torch_ops.torch_function("aclnnRmsNorm")(x, gamma)
    return torch_ops.torch_function("aclnnMm")(y, weight)


def test_compiled_in_one_graph_with_gradients() -> None:
    arguments = [numbers(4, 8).requires_grad_(), numbers(8).requires_grad_(), numbers(8, 3).requires_grad_()]
    rms_norm, mm = (torch_ops.torch_function(name) for name in ("aclnnRmsNorm", "aclnnMm"))

    def step(x: Any, gamma: Any, weight: Any) -> Any:
        return mm(rms_norm(x, gamma).y, weight)

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(step(*arguments).sum(), arguments)
    actual = torch.autograd.grad(compiled(*arguments).sum(), arguments)
    assert all(torch.equal(a, e) for a, e in zip(actual, expected))


def test_exported() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, gamma: Any, weight: Any) -> Any:
            return layer(x, gamma, weight)

    arguments = (numbers(4, 8), numbers(8), numbers(8, 3))
    program = torch.export.export(Model(), arguments)
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert "aclnn.rms_norm.default" in targets and "aclnn.mm.default" in targets
    assert torch.equal(program.module()(*arguments), layer(*arguments))


def test_exported_for_any_size() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, gamma: Any, weight: Any) -> Any:
            parts = torch_ops.torch_function("aclnnCat")([x, x], 0)
            return layer(parts, gamma, weight)

    rows, width, columns = (torch.export.Dim(name) for name in ("rows", "width", "columns"))
    shapes = {"x": {0: rows, 1: width}, "gamma": {0: width}, "weight": {0: width, 1: columns}}
    program = torch.export.export(Model(), (numbers(4, 8), numbers(8), numbers(8, 3)), dynamic_shapes=shapes)
    (result,) = (node for node in program.graph.nodes if node.target is torch.ops.aclnn.mm.default)
    assert all(size.node.maybe_as_int() is None for size in result.meta["val"].shape)
    for x in (numbers(4, 8), numbers(7, 16)):
        gamma, weight = numbers(x.shape[1]), numbers(x.shape[1], 5)
        assert torch.equal(program.module()(x, gamma, weight), Model()(x, gamma, weight))
    with pytest.raises(AclError, match="mat2 has shape"):  # the operator checks what comes
        torch_ops.torch_function("aclnnMm")(numbers(4, 8), numbers(9, 3))


def test_compiled_once_for_all_sizes() -> None:
    conv = torch_ops.torch_function("aclnnConvolution")
    topk, counted = torch_ops.torch_function("aclnnTopk"), 0

    def count(graph: Any, inputs: Any) -> Any:
        nonlocal counted
        counted += 1
        return graph.forward

    def step(x: Any, weight: Any) -> Any:
        y = conv(x, weight, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1, 0)
        return topk(y, 2).values

    compiled = torch.compile(step, backend=count, dynamic=True, fullgraph=True)
    for height, width in ((8, 9), (12, 10), (17, 31)):
        x, weight = numbers(2, 3, height, width), numbers(4, 3, 3, 3)
        assert torch.equal(compiled(x, weight), step(x, weight))
    assert counted == 1


def test_sizes_that_an_operator_needs_as_numbers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {r.operator: r for r in checks.check(["aclnnAdd", "aclnnMm", "aclnnSlice"])}
    assert [r.status for r in results.values()] == ["passes"] * 3
    assert [r.fixed_sizes for r in results.values()] == ["", "", "1 of 3"]
    monkeypatch.setattr("ascend_aclnn.call.torch_sizes.infer_symbolic", lambda *args: None)  # numbers for all
    (result,) = checks.check(["aclnnAdd"])
    assert result.fixed_sizes


def test_a_size_that_depends_on_data_goes_on_through_an_operator() -> None:
    nonzero, cast = torch_ops.torch_function("aclnnNonzero"), torch_ops.torch_function("aclnnCast")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x: cast(nonzero(x), torch.float32), backend="eager", fullgraph=True)
        for x in (numbers(3, 4) - 0.5, torch.eye(5)):
            assert torch.equal(compiled((x > 0.1).float()), torch.nonzero(x > 0.1).float())


def test_a_size_that_depends_on_data_is_symbolic_in_one_graph() -> None:
    nonzero = torch_ops.torch_function("aclnnNonzero")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x: nonzero(x) * 2, backend="eager", fullgraph=True)
        for x in (numbers(3, 4) - 0.5, torch.eye(5)):
            assert torch.equal(compiled((x > 0.1).float()), torch.nonzero(x > 0.1) * 2)


def test_fake_tensors_get_shapes_and_refusals() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        y = layer(torch.empty(4096, 7168), torch.empty(7168), torch.empty(7168, 2048))
        assert y.shape == (4096, 2048) and y.dtype == torch.float32
        with pytest.raises(AclError, match="mat2 has shape"):
            layer(torch.empty(4, 8), torch.empty(8), torch.empty(9, 3))
        with aclnn.use_backend("numpy", "Ascend310P3"), pytest.raises(AclError, match="Ascend310P3"):
            layer(torch.empty(4, 8, dtype=torch.bfloat16), torch.empty(8), torch.empty(8, 3))
