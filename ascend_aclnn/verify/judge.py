"""One call on both backends: whether the device's results are accurate, and what is wrong where they are not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.testing.compare import Comparison, compare
from ascend_aclnn.testing.rounding import one_sided
from ascend_aclnn.verify.calls import (
    Case,
    arrays,
    build,
    filled_array,
    filled_outputs,
    golden,
    laid_out,
    like_outputs,
    reference_results,
    uploaded,
)
from ascend_aclnn.verify.samples import ExampleCall

REPEATS = 5  # of the call whose cost on the host is measured
Array = npt.NDArray[Any]


class Output(NamedTuple):
    """One array of a case's results. ``fault`` is "" where it is accurate; without a comparison it was not even comparable."""

    name: str
    fault: str
    comparison: Optional[Comparison]


class Judgement(NamedTuple):
    """The outputs of a case, the device's results and the reference's, in the order of ``operator.outputs``."""

    outputs: list[Output]
    results: list[Any]
    reference: list[Any]

    @property
    def faults(self) -> list[str]:
        """What is wrong with the results; nothing where they are accurate."""
        return [f"{output.name}: {output.fault}" for output in self.outputs if output.fault]


def judge(
    operator: Operator,
    case: Case,
    soc: str,
    stream: Optional[Stream],
    begin: Callable[[], None],
    end: Callable[[], None],
) -> Judgement:
    """The device's results of a case against the reference's. The device is the current one.

    ``begin`` is called when the golden results are there, before the device gets work, ``end`` when it has done it.
    """
    expected = reference_results(operator, case, soc)
    begin()
    results = _on_device(operator, case, expected, stream)
    end()
    judged = []
    for parameter, result, wanted in zip(operator.outputs, results, expected):
        for at, (one, other) in enumerate(zip(arrays(result), arrays(wanted))):
            name = parameter.python_name + (f"[{at}]" if isinstance(wanted, (list, tuple)) else "")
            judged.append(Output(name, *compared(operator, one, other)))
    return Judgement(judged, results, expected)


def host_microseconds(operator: Operator, soc: str) -> float:
    """What a call of the example costs the host, with Tensors on the device: the fastest of some."""
    with aclnn.use_backend("numpy", soc=soc):
        expected = golden(operator, build(operator, Case()), soc)
    function, fastest = getattr(ops, operator.python_name), float("inf")
    call = uploaded(operator, build(operator, Case()))
    out = filled_outputs(operator, expected)
    for _ in range(REPEATS):
        if any(p.direction == "inout" for p in operator.parameters):  # it changes what it takes
            call = uploaded(operator, build(operator, Case()))
        begin = time.perf_counter()
        function(*call.arguments, out=out)
        fastest = min(fastest, (time.perf_counter() - begin) * 1e6)
        aclnn.synchronize()
    return round(fastest, 1)


def refusal(operator: Operator, soc: str) -> Optional[str]:
    """What is wrong with the answer to a null pointer for a required tensor; None where it is refused.

    The status is held against the rule's where the document names it; elsewhere any refusal will do.
    """
    position, wanted = refused_input(operator, soc)
    if position is None:
        return None
    parameter = operator.inputs[position]
    with aclnn.use_backend("numpy", soc=soc):
        expected = golden(operator, build(operator, Case()), soc)
    call = uploaded(operator, build(operator, Case()))
    call.arguments[position] = None
    status = _status(operator, call, like_outputs(operator, expected))
    documented = any(text.startswith(str(wanted)) for text in operator.statuses)
    if status is None or status == wanted or (status != 0 and not documented):
        return None
    answer = "success" if status == 0 else f"status {status}"
    return f"a null pointer for {parameter.python_name} gives {answer}; it must be status {wanted}"


def refused_input(operator: Operator, soc: str) -> tuple[Optional[int], int]:
    """The position of an input in place of which the rule refuses a null pointer, and the status; (None, 0) without one."""
    with aclnn.use_backend("numpy", soc=soc):
        expected = golden(operator, build(operator, Case()), soc)
        for position, parameter in enumerate(operator.inputs):
            if parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST) and not parameter.optional:
                call = build(operator, Case())
                call.arguments[position] = None
                status = _status(operator, call, like_outputs(operator, expected))
                if status:
                    return position, status
    return None, 0


def _status(operator: Operator, call: ExampleCall, out: Any) -> Optional[int]:
    """The status that a call ends with; None where it never comes as far as phase one."""
    try:
        getattr(ops, operator.python_name)(*call.arguments, out=out)
        aclnn.synchronize()
    except AclError as error:
        return error.status
    except (TypeError, ValueError):
        return None
    return 0


def _on_device(operator: Operator, case: Case, expected: list[Any], stream: Optional[Stream]) -> list[Any]:
    """The results as ndarrays that came from device memory."""
    with stream if stream is not None else contextlib.nullcontext():
        call = laid_out(operator, build(operator, case), case.layout)
        out = filled_outputs(operator, expected, case.layout)
        returned = getattr(ops, operator.python_name)(*call.arguments, out=out)
        results = [_downloaded(result) for result in (returned if len(operator.outputs) > 1 else (returned,))]
        aclnn.synchronize()  # errors that come late belong to this case
        return call.judged(results)


def _downloaded(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_downloaded(item) for item in value]
    return value.numpy() if isinstance(value, aclnn.Tensor) else value


def compared(operator: Operator, result: Any, wanted: Any) -> tuple[str, Optional[Comparison]]:
    """What is wrong with one output ("" where it is accurate), and the comparison where there is one."""
    if wanted is None or result is None:
        return "" if wanted is result else f"is {type(result).__name__}; it must be {type(wanted).__name__}", None
    wanted = wanted.numpy() if isinstance(wanted, aclnn.Tensor) else np.asarray(wanted)
    result = np.asarray(result)
    if result.dtype != wanted.dtype:
        return f"has dtype {result.dtype}; it must be {wanted.dtype}", None
    comparison = compare(result, wanted, operator=operator.name)
    if not comparison.accurate:
        text = f"{result.dtype} {result.shape}: {comparison.reason.partition(';')[0]}"
        return " ".join([text, *_first_deviation(comparison)]), comparison
    if operator.accuracy_standard == "unspecified":
        return _random(result, wanted), comparison
    return one_sided(operator.name, result, wanted), comparison


def _first_deviation(comparison: Any) -> Iterator[str]:
    for worst in comparison.worst[:1]:
        yield f"([{', '.join(map(str, worst.index))}] is {worst.actual}, expected {worst.golden})"


_SIGMAS = 8.0  # by which the means of random results may differ
_MANY = 1000  # elements whose mean says something


def _random(result: Array, wanted: Array) -> str:
    """Random results: whether they were written, and are distributed like the reference's."""
    fill = filled_array(result)
    if result.dtype.kind == "f" and result.size >= 3 and (result == fill).all() and not (wanted == fill).all():
        return f"{result.dtype} {result.shape}: is not written"
    if result.size < _MANY or result.dtype.kind not in "fiub":
        return ""
    one, other = (x.astype(np.float64) for x in (result, wanted))
    spread = max(float(other.std()), 1e-12) / np.sqrt(result.size) * np.sqrt(2)
    distance = abs(float(one.mean() - other.mean()))
    if distance > _SIGMAS * spread:
        return f"{result.dtype} {result.shape}: the mean is {one.mean():.4g}, the reference's {other.mean():.4g}"
    if not 0.5 < (float(one.std()) + 1e-12) / (float(other.std()) + 1e-12) < 2:
        return f"{result.dtype} {result.shape}: the deviation is {one.std():.4g}, the reference's {other.std():.4g}"
    return ""


__all__ = [
    "Judgement",
    "Output",
    "compared",
    "host_microseconds",
    "judge",
    "refusal",
    "refused_input",
]
