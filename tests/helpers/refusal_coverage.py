"""Which refusals of an operator's rule are reached by changing one argument of its example's call, outputs among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rule_tools import A2, NEW_950, OLD, OLD_310P

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import rules
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.outputs import bind_outputs
from ascend_aclnn.call.plan import plan
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.current import current_backend
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import soc
from ascend_aclnn.core.spec import TensorSpec

DTYPES = (
    DataType.FLOAT,
    DataType.FLOAT16,
    DataType.BF16,
    DataType.DOUBLE,
    DataType.INT8,
    DataType.INT32,
    DataType.INT64,
    DataType.UINT8,
    DataType.BOOL,
    DataType.COMPLEX64,
    DataType.UINT64,
)
SOCS = (A2, OLD, OLD_310P, NEW_950)


def example_values(operator: Operator) -> list[Any]:
    """The values of all parameters of the example's call; tensors are specs."""
    invocation = Invocation(current_backend(), plan(operator), False)
    no_memory: Any = plain
    invocation.allocate = no_memory
    call = samples.call(operator)
    invocation.bind_inputs(call.arguments)
    bind_outputs(invocation, call.options.get("out"))
    return [plain(value) for value in invocation.values]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, TensorSpec):
        return value
    return TensorSpec(value.shape, value.dtype, value.strides, 0, value.format, value.storage_shape)


def variants(value: Any) -> Iterator[Any]:
    """A value that is changed in one respect: data type, shape, rank, strides, format, number, presence."""
    if isinstance(value, TensorSpec):
        shape = value.shape
        yield from (TensorSpec(shape, dtype, format=value.format) for dtype in DTYPES if dtype is not value.dtype)
        shapes = [(1, *shape), (*shape, 1), (1,) * 9, (), shape[1:], (0, *shape[1:]), (value.size,)]
        for axis, size in enumerate(shape):
            shapes += [(*shape[:axis], n, *shape[axis + 1 :]) for n in (size + 1, size - 1, size * 2, 2**20)]
        yield from (TensorSpec(other, value.dtype, format=value.format) for other in shapes if other != shape)
        yield from (
            TensorSpec(shape, value.dtype, None, 0, form) for form in (Format.FRACTAL_NZ, Format.NC1HWC0, Format.NHWC)
        )
        yield TensorSpec(shape, value.dtype, (7,) * len(shape))
        if len(shape) > 1:
            yield TensorSpec(shape, value.dtype, (*value.strides[:-2], 1, shape[-2]))
    elif isinstance(value, Scalar):
        yield from (Scalar(number) for number in (-1, 0, 1e300, 1j, True, float("nan")))
    elif isinstance(value, list) and value:
        yield from ([], value[:-1], [*value, value[-1]], [*value[:-1], None])
        yield from ([*value[:-1], item] for item in variants(value[-1]) if item is not None)
        yield from ([item, *value[1:]] for item in variants(value[0]) if item is not None)
    elif isinstance(value, tuple):
        yield from ((), (*value, 1), value[:-1], tuple(-1 for _ in value), tuple(0 for _ in value), (99,) * len(value))
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield from ("", "none", "x" * 300)
    elif isinstance(value, (int, float)):
        yield from (-(2**31), -9, -1, 0, 1, 2, 3, 5, 17, 2**31 - 1)
        if isinstance(value, float):
            yield float("nan")
    if value is not None and not isinstance(value, (int, float)):  # a pointer
        yield None


def reached(operator: Operator) -> set[str]:
    """The refusals that a change of one argument brings about, by identifier; the call of the example itself is accepted."""
    name = samples.soc(operator)
    with aclnn.use_backend("numpy", soc=name):
        try:
            values = example_values(operator)
        except (AclError, TypeError):
            return set()
    answers = {chip: identifier(operator, values, chip) for chip in {name or A2: None, **dict.fromkeys(SOCS)}}
    found = set(answers.values())
    chips = [chip for chip, answer in answers.items() if not answer]
    for position, value in enumerate(values):
        for variant in variants(value):
            changed = [*values[:position], variant, *values[position + 1 :]]
            found.update(identifier(operator, changed, chip) for chip in chips)
    return found - {""}


def identifier(operator: Operator, values: Sequence[Any], chip: str) -> str:
    violation = rules.check(operator, values, soc(chip))
    return "" if violation is None else rules.identifier(operator, violation) or ""


def counts(operator: Operator) -> tuple[int, int]:
    """How many refusals of the operator's rule are reached, and how many there are; none without an example."""
    listed = rules.rule_of(operator).refusals(operator)
    return len(listed.keys() & reached(operator)) if operator.example is not None else 0, len(listed)
