"""Runs recorded launches again, and compares what they wrote with what was recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import html
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.call import executor_values
from ascend_aclnn.catalog import Operator, atb
from ascend_aclnn.core.errors import AclError, UnsupportedOperator
from ascend_aclnn.core.socs import relative_of
from ascend_aclnn.core.streams import synchronize
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.executor import Executor
from ascend_aclnn.recording import Launch, Recording, TensorValue, Value, shown_frames
from ascend_aclnn.replay import blocks
from ascend_aclnn.replay.arguments import (
    Unavailable,
    arguments,
    check_prototype,
    is_operation,
    name_of_status,
    outputs,
    value_of,
)
from ascend_aclnn.selection import use_backend
from ascend_aclnn.testing import failures
from ascend_aclnn.testing.compare import Comparison, compare
from ascend_aclnn.testing.rounding import one_sided

_DRAWN = 5  # launches that a notebook shows


@dataclasses.dataclass
class Outcome:
    """A launch that was run again. ``difference`` is "" where nothing differs, ``left_out`` says why it was not run."""

    launch: Launch
    difference: str = ""
    left_out: str = ""
    kind: str = ""  # that reason without what differs from launch to launch
    comparisons: dict[str, Comparison] = dataclasses.field(default_factory=dict)  # by output
    partly: str = ""  # which part was run, where it was not all: "12 of 64 blocks of rows"
    recorded: list[str] = dataclasses.field(
        default_factory=list
    )  # lines that name the file of its own, if there is one

    @property
    def title(self) -> str:
        return f"#{self.launch.index} {self.launch.operator.name}"

    def __str__(self) -> str:
        if self.left_out:
            return f"{self.title} was not run again: {self.left_out}"
        if not self.difference:
            return f"{self.title} is as recorded" + (f" in {self.partly}" if self.partly else "")
        where = "".join(f"\n  launched at {frame}" for frame in shown_frames(self.launch.site, 1))
        return f"{self.title} differs: {self.difference}{where}"

    def picture(self) -> list[str]:
        """Of each output that is wrong how many elements are, the worst one, and where they lie."""
        lines = []
        for name, one in self.comparisons.items():
            if one.summary:
                lines += [f"{name}: {one.summary}", *(f"  {line}" for line in one.picture())]
        return lines

    def to_html(self) -> str:
        """The launch and its comparisons as a section of a page."""
        parts = [f"<h2>{html.escape(self.title)}</h2><p>{html.escape(self.difference)}</p>"]
        parts += [f"<p>at {html.escape(str(frame))}</p>" for frame in self.launch.site]
        parts += [
            f"<h3>{html.escape(name)}</h3>{one._repr_html_()}"
            for name, one in self.comparisons.items()
            if not one.accurate
        ]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return self.to_html() if self.difference else f"<p>{html.escape(str(self))}</p>"

    def forget_arrays(self) -> None:
        """Lets go of the arrays that were compared."""
        for one in self.comparisons.values():
            one.forget_arrays()

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.launch.index,
            "operator": self.launch.operator.name,
            "difference": self.difference,
            "left_out": self.left_out,
            "partly": self.partly,
            "outputs": {
                name: {"accurate": one.accurate, "reason": one.reason, "wrong": one.wrong, "figures": one.figures}
                for name, one in self.comparisons.items()
            },
        }


@dataclasses.dataclass
class Replay:
    """The outcomes of the launches that were run again, in their order."""

    outcomes: list[Outcome]

    @property
    def first(self) -> Optional[Outcome]:
        """The first launch that differs."""
        return next((outcome for outcome in self.outcomes if outcome.difference), None)

    @property
    def ok(self) -> bool:
        """Something was run again, and nothing differs."""
        return self.first is None and any(not outcome.left_out for outcome in self.outcomes)

    def _repr_html_(self) -> str:
        """For notebooks: the first launches that differ, with pictures."""
        different = [outcome for outcome in self.outcomes if outcome.difference]
        left_out = sum(bool(outcome.left_out) for outcome in self.outcomes)
        title = f"<p>{len(self.outcomes)} launches: {len(different)} different, {left_out} left out</p>"
        return "\n".join([title, *(outcome.to_html() for outcome in different[:_DRAWN])])


def rules_of(recording: Recording) -> contextlib.AbstractContextManager[object]:
    """On the NumPy backend, the rules of the SoC that the recording was made on, where it is known; a device has its own."""
    soc = relative_of(recording.header.soc)
    return (
        use_backend("numpy", soc=soc)
        if soc is not None and current_backend().name == "numpy"
        else contextlib.nullcontext()
    )


def replay(
    recording: Recording,
    launches: Optional[Iterable[int]] = None,
    comparing: bool = True,
    memory: Optional[int] = None,
    seconds: Optional[float] = None,
) -> Iterator[Outcome]:
    """Runs launches again, each on its recorded inputs, on the backend in use; by default all of them.

    A launch whose tensors have more than ``memory`` bytes together (default: the recording's limit) is run by blocks of rows,
    where its operator computes rows from rows, for about ``seconds`` at most; others of that size are left out.

    With ``comparing``, results are held against the recorded ones by the operator's accuracy standard: on the NumPy backend
    the reference's results are the golden ones, on a device the recorded ones.
    """
    for index in range(len(recording.launches)) if launches is None else launches:
        bound = recording.limit if memory is None else min(memory, recording.limit)
        yield _replayed(recording, recording.launches[index], comparing, bound, seconds)


def _replayed(recording: Recording, launch: Launch, comparing: bool, memory: int, seconds: Optional[float]) -> Outcome:
    outcome = Outcome(launch)
    if launch.operator.name == failures.COMPARE:
        _compare_again(recording, launch, outcome)
        return outcome
    try:
        operator = _operator(launch)
        if comparing and blocks.nbytes_of(launch) > memory:
            _by_blocks(recording, launch, operator, outcome, memory, seconds)
            return outcome
        values = arguments(recording, launch, operator)
        status, text = _run(operator, values)
        outcome.difference = _status_difference(launch, status, text)
        if comparing and not outcome.difference and status == 0:
            _compare(recording, launch, operator, values, outcome)
    except Unavailable as reason:
        outcome.left_out, outcome.kind = str(reason), reason.kind
    return outcome


def _compare_again(recording: Recording, launch: Launch, outcome: Outcome) -> None:
    """A result beside its golden, as a comparison that failed has left them."""
    try:
        found = failures.compared(recording, launch)
    except (TypeError, ValueError) as reason:
        outcome.left_out = str(reason)
        return
    name = found.output or "result"
    comparison = outcome.comparisons[name] = found.comparison
    text = described(comparison) if not comparison.accurate else ""
    if found.operator and not text and comparison.arrays is not None and comparison.standard != "unspecified":
        text = one_sided(found.operator, *comparison.arrays)
    if text:
        outcome.difference = f"{found.operator} {name}: {text}".lstrip()


def _operator(launch: Launch) -> Operator:
    if is_operation(launch):
        return atb.get(launch.operator.name.removesuffix("Operation")).operator
    if not launch.operator.name.startswith("acl"):
        raise Unavailable("it is a single operator (aclopExecuteV2), whose attributes are not recorded")
    try:
        operator = catalog.get(launch.operator.name)
    except KeyError:
        raise Unavailable(f"this version does not know {launch.operator.name}") from None
    if operator.groups and any(launch.values[position].content for position in operator.groups):
        raise Unavailable("it works among ranks, which a replay does not have")
    return operator


def _run(operator: Operator, values: list[Any]) -> tuple[int, str]:
    """The status and text with which the launch ends."""
    try:
        if operator.family == atb.FAMILY:
            _run_operation(operator, values)
        else:
            with Executor(operator.name, *values) as executor:
                executor.run()
        synchronize()
    except UnsupportedOperator as error:
        raise Unavailable(str(error).partition("\n")[0]) from None
    except AclError as error:
        return error.status, str(error)
    except (TypeError, ValueError) as error:  # values that no call of this version takes
        raise Unavailable(f"{type(error).__name__}: {error}") from None
    return 0, ""


def _run_operation(operator: Operator, values: list[Any]) -> None:
    """Runs an operation of ATB's: no function of C's is named like it."""
    backend = current_backend()
    if backend.name != "numpy":
        raise Unavailable("it is an operation of ATB's, which is replayed on NumPy alone")
    prepared = backend.prepare(operator, executor_values(backend, operator, values), False)
    try:
        prepared.run(None)
    finally:
        prepared.close()


def _by_blocks(
    recording: Recording, launch: Launch, operator: Operator, outcome: Outcome, memory: int, seconds: Optional[float]
) -> None:
    """Runs and compares a launch by blocks of rows."""
    check_prototype(launch, operator)
    rows = blocks.rows_of(operator, launch)
    reason = f"its tensors are too large (the limit is {memory} bytes)"
    if rows is None:
        raise Unavailable(f"{reason}, and {operator.name} is not known to compute rows from rows as it was called")
    results = [
        at for at, p in enumerate(operator.parameters) if p.direction != "in" and at in {*rows.dimensions, *rows.items}
    ]
    for parameter, value in zip(operator.parameters, launch.values):
        if parameter.direction != "out" and any(t.before is None for t in value.tensors()):
            raise Unavailable(f"the data of {parameter.name} were not recorded")
    if launch.status != 0 or not any(t.after for at in results for t in launch.values[at].tensors()):
        raise Unavailable(f"{reason}, and its results were not recorded")
    listed, done = rows.blocks(memory), 0
    arrays = blocks.Arrays(recording)
    for start, stop in blocks.timed(listed, seconds):
        block = blocks.Block(rows, start, stop, arrays)
        recorded = [block.value(value, at) for at, value in enumerate(launch.values)]
        values = [
            value_of(parameter, value, functools.partial(block.tensor, at=at))
            for at, (parameter, value) in enumerate(zip(operator.parameters, recorded))
        ]
        done += 1
        status, text = _run(operator, values)
        if status:
            outcome.difference = f"{rows.title} {start} to {stop} are refused with status {status}: {text}"
            break
        for at in results:
            _judge_block(outcome, operator, at, rows, block, arrays, recorded[at], values[at], (start, stop))
        if outcome.difference:
            break
    if done < len(listed) and not outcome.difference:
        outcome.partly = f"{done} of {len(listed)} blocks of {rows.title}"


def _judge_block(
    outcome: Outcome,
    operator: Operator,
    at: int,
    rows: blocks.Rows,
    block: blocks.Block,
    arrays: blocks.Arrays,
    recorded: Value,
    results: Any,
    bounds: tuple[int, int],
) -> None:
    """Compares an output of a block."""
    start, stop = bounds
    name = operator.parameters[at].name
    if at in rows.items:
        for number, (value, result) in enumerate(zip(recorded.content, results), start):
            came = arrays.after(value)
            if came is not None:
                _judge(outcome, operator, f"{name}[{number}]", came, result)
        return
    dimension = rows.dimensions[at]
    for value in recorded.tensors():
        came = arrays.after(value)
        if came is not None:
            result = results[0] if recorded.kind == "tensors" else results
            _judge(outcome, operator, f"{name}[{':, ' * dimension}{start}:{stop}]", block.cut(came, dimension), result)


def _status_difference(launch: Launch, status: int, text: str) -> str:
    recorded = launch.status
    if recorded is None or recorded == status:
        return ""
    if status and recorded:
        return f"it is refused with status {status} now; {recorded} ({name_of_status(launch, recorded)}) was recorded: {text}"
    if status:
        return f"it is refused now, and was not: {text}"
    name = name_of_status(launch, recorded)
    what = (
        f"its stream ended with status {recorded} ({name})"
        if launch.late == recorded
        else f"status {recorded} ({name}) was recorded"
    )
    return f"{what}, and it succeeds now. {launch.error}".rstrip(". ")


def _compare(recording: Recording, launch: Launch, operator: Operator, values: list[Any], outcome: Outcome) -> None:
    missing = True
    for name, recorded, tensor in outputs(launch, operator, values):
        if recorded.after is None or not recorded.description.byte_range[1]:
            continue
        missing = False
        try:
            came = _recorded(recording, recorded, tensor)
        except TypeError as error:  # a data type without values on the host
            raise Unavailable(f"{name}: {error}") from None
        _judge(outcome, operator, name, came, tensor)
    if missing and launch.statuses[1] is not None:
        outcome.left_out = f"its results were not recorded{f' ({launch.left_out})' if launch.left_out else ''}"


def _judge(outcome: Outcome, operator: Operator, name: str, came: npt.NDArray[Any], tensor: Tensor) -> None:
    """Compares what came out of a launch with what was recorded."""
    reference = current_backend().name == "numpy"
    try:
        result = tensor.numpy()
    except TypeError as error:  # a data type without values on the host
        raise Unavailable(f"{name}: {error}") from None
    actual, golden = (came, result) if reference else (result, came)
    known = operator.name if operator.family != atb.FAMILY else None
    comparison = outcome.comparisons[name] = compare(actual, golden, operator=known)
    text = described(comparison) if not comparison.accurate else ""
    if not text:
        comparison.forget_arrays()
    if reference and not text and comparison.standard != "unspecified":
        text = one_sided(operator.name, actual, golden)
    if text and not outcome.difference:
        outcome.difference = f"{name} {tensor.dtype.name} {tensor.shape}: {text}"


def _recorded(recording: Recording, recorded: TensorValue, tensor: Tensor) -> npt.NDArray[Any]:
    """The recorded elements; where data tell the shape of an output, those at the front."""
    array = recording.array(recorded, "after")
    if array.shape != tensor.shape:
        return np.asarray(array.reshape(-1)[: tensor.size].reshape(tensor.shape))
    return array


def described(comparison: Comparison) -> str:
    """A comparison that failed in one line: how many elements, the worst one."""
    text = comparison.reason.partition(";")[0]
    if comparison.worst:
        worst = comparison.worst[0]
        where = f"[{', '.join(map(str, worst.index))}]"
        text += f"; worst at {where}: {worst.actual}, golden {worst.golden}"
    return text
