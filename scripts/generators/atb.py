"""docs/operators/atb.md: ATB's operations, what they take, and which of it the emulated device takes."""

from __future__ import annotations

from ascend_aclnn.catalog import atb
from ascend_aclnn.catalog.atb import Operation, Slot

TITLE = "# Operations of ATB"
HEAD = ("operation", "inputs", "outputs", "parameters that the emulated device takes in part")


def page(note: str) -> str:
    operations = list(map(atb.get, atb.names()))
    lines = [
        note,
        TITLE,
        "",
        f"What the emulated libatb.so has of the Ascend Transformer Boost library: {len(operations)} operations, made of the",
        'structures `atb::infer::...Param` ([ATB in torch_npu](../emulator/torch-npu.md#atb)). An input with "if" is there under',
        "that condition on the parameters; one in italics is read on the host when the operation is set up. Of parameters that",
        "the last column does not name, every value that ATB takes is taken.",
        "",
        f"| {' | '.join(HEAD)} |",
        "| --- " * len(HEAD) + "|",
        *map(row, operations),
        "",
        "C functions that make, set up and execute an operation: "
        + ", ".join(f"`{function.name}`" for function in atb.functions())
        + ".",
        "",
        "[All operators](README.md)",
        "",
    ]
    return "\n".join(lines)


def row(operation: Operation) -> str:
    taken = [
        f"`{name}`: {', '.join(_word(value) for value in allowed)}" for name, allowed in operation.emulated.items()
    ]
    cells = [
        operation.name,
        "<br>".join(map(_slot, operation.inputs)),
        "<br>".join(map(_slot, operation.outputs)),
        "<br>".join(taken) or "all are taken whole",
    ]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _slot(slot: Slot) -> str:
    name = f"*{slot.name}*" if slot.on_host else f"`{slot.name}`"
    return f"{name} if {slot.condition}" if slot.condition else name


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
