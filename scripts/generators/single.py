"""docs/operators/single.md: every single operator by type name, what it takes, and what does its work."""

from __future__ import annotations

from ascend_aclnn.catalog import single
from ascend_aclnn.catalog.single import SingleOperator

TITLE = "# Single operators by type name"
HEAD = ("type", "inputs", "outputs", "attributes", "work done by", "not taken")


def page(note: str) -> str:
    entries = [entry for entry in map(single.find, single.names()) if entry is not None]
    unsupported = [entry for entry in entries if entry.unsupported is not None]
    lines = [
        note,
        TITLE,
        "",
        f"What clients run by a type name (`aclopCompileAndExecute`), as torch_npu does: {len(entries) - len(unsupported)}",
        "types run on the emulated device. On an NPU CANN compiles a kernel for each; here an aclnn operator does the work, or",
        "a NumPy reference of the type's own. Inputs with `?` may be absent, `*` stands for a list; an attribute",
        "without `=` must be given; one in italics is accepted and not read. `ascend-aclnn show MaxPool3D` says what",
        "each parameter of the operator gets.",
        "",
        f"| {' | '.join(HEAD)} |",
        "| --- " * len(HEAD) + "|",
    ]
    lines += [row(entry) for entry in entries if entry.unsupported is None]
    lines += ["", "## Not run", "", "| type | why |", "| --- | --- |"]
    lines += [f"| {entry.name} | {entry.unsupported} |" for entry in unsupported]
    return "\n".join([*lines, "", "[All operators](README.md)", ""])


def row(entry: SingleOperator) -> str:
    marks = {"tensor": "", "optional tensor": "?", "list of tensors": "*"}
    read = entry.attributes_read
    attributes = [
        f"`{name}` {attribute.words}" if name in read else f"*{name}* {attribute.words}"
        for name, attribute in entry.attributes.items()
    ]
    cells = [
        entry.name,
        ", ".join(f"`{name}`{marks[form]}" for name, form in entry.inputs.items()),
        ", ".join(f"`{name}`" for name in entry.outputs),
        "<br>".join(attributes),
        ", ".join(entry.operators) or "a reference",
        "<br>".join(refusal.words for refusal in entry.refused),
    ]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
