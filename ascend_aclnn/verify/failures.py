"""A case that failed as a recording, which ``ascend-aclnn replay FILE --compare`` runs again: inputs before, results after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import ascend_aclnn as aclnn
from ascend_aclnn.catalog import Operator
from ascend_aclnn.recording import Writer
from ascend_aclnn.testing import failures
from ascend_aclnn.testing.compare import Comparison
from ascend_aclnn.verify.calls import Case, build, filled_outputs, golden, laid_out, placed


def record(
    path: Path,
    device: dict[str, Any],
    operator: Operator,
    case: Case,
    *,
    results: Optional[list[Any]] = None,
    failed: Sequence[tuple[Comparison, str]] = (),
    absent: Optional[int] = None,
    statuses: tuple[int, Optional[int]] = (0, 0),
    error: str = "",
) -> None:
    """Writes a recording of one launch and of the comparisons that failed; one that is there is replaced.

    ``device`` has "soc", "cann" and "emulated". ``results`` are the device's, in the order of the outputs; without them the
    launch has none. ``failed`` are comparisons with the names of their outputs. ``absent`` is the position of an input that was a
    null pointer. ``statuses`` and ``error`` are how both phases ended.
    """

    def launch(writer: Writer) -> None:
        out = placed(filled_outputs(operator, golden(operator, build(operator, case), device["soc"])), "")
        call = laid_out(operator, build(operator, case), case.layout)
        if absent is not None:
            call.arguments[absent] = None
        out = call.options.get("out") if out is None else out
        failures.record_launch(writer, operator, call.arguments, out, results or (), statuses=statuses, error=error)
        writer.note(f"ascend-aclnn verify: {operator.name} [{case.label}], seed {case.seed}")

    head = failures.header(device["soc"], device["cann"] or "", device["emulated"], ("ascend-aclnn", "verify"))
    with aclnn.use_backend("numpy", soc=device["soc"]):
        failures.write(path, failed, operator.name, before=launch, head=head)


__all__ = ["record"]
