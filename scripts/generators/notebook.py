"""The sample notebook: its outputs, and its page of the site.

``scripts/generate.py`` runs the cells in order on the NumPy backend and keeps what they print, so a stored output is what
the code gives. Cells have no state of Jupyter's; the notebook opens in Jupyter as it is.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import ascend_aclnn as aclnn

FOLDER = None
NOTEBOOK = Path(__file__).resolve().parents[2] / "samples" / "first_steps.ipynb"


def read() -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return notebook


def run_cell(source: str, scope: dict[str, Any]) -> str:
    """What a cell prints, and the value of its last expression, as Jupyter shows them."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(tree, "cell", "exec"), scope)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), scope)
                if value is not None:
                    print(repr(value))
        except aclnn.AclError as error:
            print(f"AclError: {error}")
    return printed.getvalue()


def text_of(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def executed() -> dict[str, Any]:
    """The notebook with its outputs made anew."""
    notebook = read()
    scope: dict[str, Any] = {}
    count = 0
    with aclnn.use_backend("numpy"):
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            count += 1
            text = run_cell(text_of(cell["source"]), scope)
            lines = text.splitlines(keepends=True)
            cell["execution_count"] = count
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if text else []
    return notebook


def page() -> str:
    """The notebook as a page in Markdown."""
    lines = []
    for cell in read()["cells"]:
        source = text_of(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += ["```python", source, "```", ""]
        for output in cell["outputs"]:
            lines += ["```text", text_of(output["text"]).rstrip("\n"), "```", ""]
    return "\n".join(lines)


def files() -> dict[Path, str]:
    return {NOTEBOOK: json.dumps(executed(), indent=1, ensure_ascii=False) + "\n"}
