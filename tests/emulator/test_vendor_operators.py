"""Operators of vendors on the emulated device: emulator run --operators, for this package and for C++ programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import catalog
from ascend_aclnn.emulator import operators
from ascend_aclnn.emulator.build import headers
from ascend_aclnn.emulator.build.libraries import runtime_of
from ascend_aclnn.emulator.build.vendor import _snake_case

SAMPLE = Path(__file__).parents[2] / "samples" / "vendor_operator"


def run(file: Path, *program: str, cann: str = "") -> subprocess.CompletedProcess[str]:
    plain = {
        k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "LD_")) or k == "ASCEND_EMULATOR_CACHE"
    }
    plain["PYTHONPATH"] = os.pathsep.join([str(SAMPLE), *sys.path])
    emulator = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *(("--cann", cann) if cann else ())]
    command = [*emulator, "--operators", str(file), "--", *program]
    return subprocess.run(command, env=plain, capture_output=True, text=True, timeout=300, check=False)


def test_the_sample_runs_on_the_emulated_device(emulator_home: Path) -> None:
    done = run(SAMPLE / "scaled_rows.py", sys.executable, str(SAMPLE / "main.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "npu (the emulated device)" in done.stdout
    assert "[[4.5 5.  5.5]\n [1.5 2.  2.5]]" in done.stdout
    assert "factor is -1.0; it must be positive" in done.stdout


@pytest.mark.parametrize("name", ["libascendcl.so", "libacl_rt.so"])
def test_the_runtime_is_the_one_that_a_build_has(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert runtime_of(tmp_path) == name


@pytest.mark.long
def test_the_sample_runs_where_the_runtime_has_its_newer_name(emulator_home: Path) -> None:
    done = run(SAMPLE / "scaled_rows.py", sys.executable, str(SAMPLE / "main.py"), cann="9.2.0")
    assert done.returncode == 0 and "[[4.5 5.  5.5]\n [1.5 2.  2.5]]" in done.stdout, done.stdout + done.stderr


def test_data_that_the_reference_refuses_are_an_error_of_the_stream(emulator_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "my_ops.py"
    file.write_text((SAMPLE / "scaled_rows.py").read_text() + "    # an index outside of x is an IndexError\n")
    program = """
import numpy as np, my_ops, ascend_aclnn as aclnn
from ascend_aclnn import ops
try:
    ops.scaled_rows(np.ones((2, 2), np.float32), np.array([7]), 1.0)
except aclnn.AclError as error:
    print(error.status, "index 7 is out of bounds" in str(error))
print(ops.scaled_rows(np.ones((2, 2), np.float32), np.array([1]), 3.0).tolist())
"""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    try:
        done = run(file, sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{program}")
    finally:
        os.environ["PYTHONPATH"] = os.environ["PYTHONPATH"].partition(os.pathsep)[2]
    assert done.stdout.splitlines() == ["561000 True", "[[3.0, 3.0]]"], done.stdout + done.stderr


def test_a_c_program_calls_the_operator_by_its_header(emulator_home: Path, tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler (c++)")
    build = (
        f'c++ -std=c++14 -Wall -Wextra -Werror "{SAMPLE / "caller.cpp"}" -o "{tmp_path / "caller"}" '
        '-I"$ASCEND_HOME_PATH/include" -I"$ASCEND_CUSTOM_OPP_PATH/op_api/include" '
        '-L"$ASCEND_HOME_PATH/lib64" -L"$ASCEND_CUSTOM_OPP_PATH/op_api/lib" -lcust_opapi -lnnopbase -lascendcl'
    )
    done = run(SAMPLE / "scaled_rows.py", "sh", "-c", f'{build} && "{tmp_path / "caller"}"')
    assert done.stdout == "out: 8 10 0 2\n" and done.stderr == "", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("absent.py", None, "is no Python file"),
        ("words.txt", "x", "is no Python file"),
        ("sys", None, "is no Python file, directory of a package, or top-level module"),
        ("no_such_module_at_all", None, "or top-level module that can be imported"),
        ("broken.py", "import no_such_module_at_all", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=expected) as refused:
        operators.load([str(tmp_path / name) if "." in name else name])
    assert name in str(refused.value)


def test_a_module_is_a_file_a_package_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, file = tmp_path / "a_package_of_operators", tmp_path / "a_file_of_operators.py"
    package.mkdir()
    (package / "__init__.py").write_text("from a_package_of_operators import part\n")
    (package / "part.py").write_text("import a_file_of_operators  # a neighbour of the package\n")
    file.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for path in (package, file):
        assert operators.locate(str(path)) == operators.locate(path.stem) == path
    try:
        assert operators.load([str(package)]) == [] and "a_package_of_operators.part" in sys.modules
    finally:
        for name in (package.name, f"{package.name}.part", file.stem):
            sys.modules.pop(name, None)


def test_loading_gives_what_a_file_declares_once(tmp_path: Path) -> None:
    file = tmp_path / "declares_one_operator.py"
    file.write_text((SAMPLE / "scaled_rows.py").read_text().replace("ScaledRows", "ScaledRowsOfATest"))
    try:
        assert [operator.name for operator in operators.load([str(file)])] == ["aclnnScaledRowsOfATest"]
        assert operators.load([str(file)]) == []
    finally:
        catalog.forget("aclnnScaledRowsOfATest")
        sys.modules.pop("declares_one_operator", None)
        sys.path.remove(str(tmp_path))


def test_cann_has_no_header_of_a_vendors_operator(tmp_path: Path) -> None:
    """Shims are built in processes that know some."""
    aclnn.register_operator(
        "aclnnStatus aclnnOfNoCannGetWorkspaceSize(const aclTensor *x, aclTensor *out, uint64_t *size, aclOpExecutor **executor);"
    )
    try:
        headers.write(tmp_path)
    finally:
        catalog.forget("aclnnOfNoCann")
    assert (tmp_path / "aclnnop" / "aclnn_add.h").is_file()
    assert not any("OfNoCann" in path.read_text() for path in tmp_path.rglob("*.h"))


@pytest.mark.parametrize(
    ("name", "header"),
    [("aclnnScaledRows", "aclnn_scaled_rows"), ("aclnnMoeV2Grad", "aclnn_moe_v2_grad"), ("aclnnFFN", "aclnn_ffn")],
)
def test_headers_are_named_as_cann_names_them(name: str, header: str) -> None:
    assert _snake_case(name) == header
