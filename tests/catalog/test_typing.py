"""A user's program under strict type checking: mypy and pyright accept what is right and refuse what is wrong."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_aclnn import catalog, ops
from ascend_aclnn.catalog.signature import result_fields, result_type_name

ROOT = Path(__file__).resolve().parents[2]
PROGRAM, MISTAKES = (Path(__file__).parent / "typed" / name for name in ("program.py", "mistakes.py"))
WANTED = {i for i, line in enumerate(MISTAKES.read_text(encoding="utf-8").splitlines(), 1) if "# error:" in line}
# pyright, or basedpyright, which brings its own Node.js from the package index and so runs without a network.
PYRIGHT = next((name for name in ("basedpyright", "pyright") if importlib.util.find_spec(name)), None)


def test_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path)]
    settings = tmp_path / "mypy.ini"  # a user's, not this project's
    settings.write_text("[mypy]\n")
    command += ["--config-file", str(settings)]
    done = subprocess.run(
        [*command, str(PROGRAM), str(MISTAKES)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stderr == ""
    found = re.findall(r"^(\S+?):(\d+): error:", done.stdout, re.MULTILINE)
    assert {Path(name).name for name, _ in found} == {"mistakes.py"}, done.stdout
    assert {int(line) for _, line in found} == WANTED, done.stdout


@pytest.mark.skipif(PYRIGHT is None, reason="neither basedpyright nor pyright is installed")
def test_pyright(tmp_path: Path) -> None:
    settings = {
        "include": [str(PROGRAM.parent)],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "reportUnknownMemberType": False,  # what NumPy leaves unknown
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    rows = [row for row in json.loads(done.stdout)["generalDiagnostics"] if row["severity"] == "error"]
    assert {Path(row["file"]).name for row in rows} == {"mistakes.py"}, done.stdout
    assert {row["range"]["start"]["line"] + 1 for row in rows} == WANTED, done.stdout


def test_the_program_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        check=False,
        env={"ASCEND_ACLNN_BACKEND": "numpy", "PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "[[2. 2. 2. 2.]\n [2. 2. 2. 2.]]" in done.stdout  # a Tensor


def test_the_types_of_results_can_be_had_from_ops() -> None:
    operator = catalog.get("aclnnTopk")
    fields = ops.TopkResult._fields
    assert fields == tuple(field.name for field in result_fields(operator))
    with pytest.raises(AttributeError):
        ops.NoSuchResult  # type: ignore[attr-defined]  # noqa: B018


def test_every_operator_is_in_the_stub() -> None:
    text = (ROOT / "ascend_aclnn" / "ops.pyi").read_text(encoding="utf-8")
    for operator in map(catalog.get, catalog.names()):
        assert f"def {operator.python_name}(" in text and f'    """{operator.summary}' in text, operator.name
        if len(result_fields(operator)) > 1:
            assert f"class {result_type_name(operator)}(NamedTuple, Generic[_T]):" in text


def test_a_required_parameter_is_required_in_the_stub() -> None:
    text = (ROOT / "ascend_aclnn" / "ops.pyi").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("def group_norm_silu(")]
    assert len(rows) == 8  # four kinds of call, each by position and by keyword
    assert all("group: _Int," in row for row in rows)
    assert sum("beta: Optional[_A] = None, *, group: _Int, eps: _Float = 1e-05" in row for row in rows) == 1


def test_what_may_be_none_is_optional_in_the_stub() -> None:
    """By the rule too: nothing in the name of matmul_all_reduce's bias, or of its document, says so."""
    text = (ROOT / "ascend_aclnn" / "ops.pyi").read_text(encoding="utf-8")
    rows = {
        name: re.findall(rf"^def {name}\(.*", text, re.MULTILINE) for name in ("matmul_all_reduce", "dynamic_quant")
    }
    assert rows["matmul_all_reduce"] and all("bias: Optional[" in row for row in rows["matmul_all_reduce"])
    assert rows["dynamic_quant"] and all("x: Optional[" not in row for row in rows["dynamic_quant"])
