"""Emulated releases: one in which announced removals have happened, and a toolkit and operators of different releases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from emulator_client import environment

from ascend_aclnn import catalog, cli
from ascend_aclnn.catalog import life
from ascend_aclnn.emulator import build as building
from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import headers
from ascend_aclnn.emulator.build.libraries import filters, libraries

GONE = "9.2.0"  # the first release after 2026-12-30, as the catalog assumes


def test_a_release_is_one_or_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_EMULATOR_CANN", raising=False)
    assert releases.chosen(None) == "8.1.RC1"
    assert releases.chosen("ops=9.1.1,toolkit=9.1.0") == "toolkit=9.1.0,ops=9.1.1"
    assert releases.chosen("toolkit=9.1.0,ops=9.1.0") == "9.1.0"
    assert (releases.toolkit("toolkit=9.1.0,ops=9.1.1"), releases.operators("9.1.1")) == ("9.1.0", "9.1.1")
    assert releases.has("toolkit=9.0.0,ops=9.1.1", "9.0.0") and not releases.has("toolkit=9.0.0,ops=9.1.1", "9.1.0")
    for bad, words in (
        ("toolkit=9.1.0", "not of the form"),
        ("toolkit=9.1.0,toolkit=9.1.1", "not of the form"),
        ("toolkit=9.1.0;ops=9.1.1", "not of the form"),
        ("toolkit=8.1.RC1,ops=9.1.1", r"no release notes say that operators 9\.1\.1 go with toolkit 8\.1\.RC1"),
        ("toolkit=7.0.0,ops=9.1.1", "older than"),
    ):
        with pytest.raises(ValueError, match=words):
            releases.chosen(bad)


def test_which_libraries_a_release_has() -> None:
    def names(cann: str) -> set[str]:
        options = building.Options(cann)
        return {*libraries(options), *filters(options)}

    newer = {"libacl_rt.so", "libacl_mdl.so", "libacl_op_executor.so"}
    assert {"libascendcl.so", "libopapi.so", "libacl_rt.so"} <= names("8.1.RC1")
    assert {"libascendcl.so", "libopapi.so", *newer} <= names("9.2.0-beta.2")
    assert newer | {"libopapi_nn.so"} <= names(GONE) and not {"libascendcl.so", "libopapi.so"} & names(GONE)
    assert {"libascendcl.so", "libopapi_nn.so"} <= names("toolkit=9.1.0,ops=9.2.0")
    assert "libopapi.so" not in names("toolkit=9.1.0,ops=9.2.0")
    for cann in ("8.1.RC1", GONE):
        present = names(cann)
        for library in libraries(building.Options(cann)).values():
            assert set(library.needs) <= present
        assert set(filters(building.Options(cann)).values()) <= present


PROGRAM = """
import warnings
import numpy as np
from ascend_aclnn import backend, ops
from ascend_aclnn.core.errors import UnsupportedOperator
assert backend().emulated and backend().library_path.name == "libacl_rt.so", backend().library_path
assert (ops.add(np.ones(3, np.float32), np.ones(3, np.float32)) == 2).all()
x, w = np.ones((2, 32), np.int8), np.ones((32, 2), np.int8)
try:
    ops.quant_matmul_v4(x, w, np.ones(2, np.float32), transpose_x1=False, transpose_x2=False, out=np.empty((2, 2), np.int8))
except UnsupportedOperator as error:
    print(error)
x = np.ones((32, 32), np.float16)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        ops.batch_matmul_quant(x, x, np.ones(32, np.uint64), transpose_x1=False, transpose_x2=False)
print(*[f"{w.category.__name__} in {w.filename}: {w.message}" for w in caught], sep="\\n")
"""


@pytest.mark.usefixtures("compiler")
def test_a_release_without_what_was_announced_to_go() -> None:
    home = building.build(cann=GONE)
    lib64 = home / "lib64"
    assert not list(lib64.glob("libascendcl*")) and not (lib64 / "libopapi.so").exists()
    operators: set[str] = set()
    for library in lib64.glob("libopapi_*.so"):
        done = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
        operators |= {line.split()[2] for line in done.stdout.splitlines()}
    gone = {name for name in catalog.names() if life.of(name).absent_from(GONE)}
    assert {"aclnnQuantMatmulV4", "aclnnGroupedMatmul", "aclnnMlaPrologV3"} <= gone
    assert "aclnnFusedInferAttentionScore" not in gone  # its day is 2027-03-30
    for name in catalog.names():
        phases = {name, f"{name}GetWorkspaceSize"}
        assert (phases <= operators) == (name not in gone) and (name not in gone or not phases & operators), name
    text = (home / "include" / "acl" / "acl.h").read_text()
    assert "aclsysGetCANNVersion" not in text and "aclnnQuantMatmulV4" not in "".join(
        path.read_text() for path in (home / "include" / "aclnnop").glob("aclnn_quant_matmul*.h")
    )
    code = (
        "import ctypes; r = ctypes.CDLL('libacl_rt.so'); s = ctypes.create_string_buffer(128);"
        "assert not hasattr(r, 'aclsysGetCANNVersion'); assert r.aclsysGetVersionStr(b'runtime', s) == 0;"
        "print(s.value.decode());"
        "ctypes.CDLL('libacl_mdl.so').aclmdlLoadFromFile; ctypes.CDLL('libacl_op_executor.so').aclopExecuteV2"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(home), capture_output=True, text=True)
    assert done.stdout.strip() == GONE, done.stderr
    variables = environment(home, ASCEND_ACLNN_BACKEND="npu", ASCEND_HOME_PATH=str(home))
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True)
    assert "aclnnQuantMatmulV4: not in this CANN" in done.stdout, done.stderr
    assert "deprecated since CANN 8.5.0 (use ops.quant_matmul_v5)" in done.stdout
    (warning,) = (line for line in done.stdout.splitlines() if line.startswith("DeprecationWarning"))
    assert warning.startswith("DeprecationWarning in <string>: aclnnBatchMatmulQuant is deprecated since CANN 9.0.0")
    assert warning.endswith("this CANN's operators are 9.2.0")


def test_the_notes_of_a_pair(tmp_path: Path) -> None:
    from ascend_aclnn.backends.npu.versions import noted_version, ops_versions
    from ascend_aclnn.emulator.build.tree import complete

    (tmp_path / "lib64").mkdir()
    complete(tmp_path, building.Options("toolkit=9.1.0,ops=9.1.1"))
    assert noted_version(tmp_path) == "9.1.0"
    assert set(ops_versions(tmp_path).values()) == {"9.1.1"}
    assert "cann=toolkit=9.1.0,ops=9.1.1\n" in (tmp_path / "lib64" / "emulator.conf").read_text()


def test_the_runtime_says_both_releases(emulator_home: Path) -> None:
    """By the variable here; a build of a pair has the same text in its configuration."""
    packages = headers.enums()["aclCANNPackageName"]
    code = (
        "import ctypes, sys; r = ctypes.CDLL('libascendcl.so'); text = ctypes.create_string_buffer(512)\n"
        "for package in map(int, sys.argv[1:]):\n"
        "    assert r.aclsysGetCANNVersion(package, text) == 0; print(text.value.decode())"
    )
    names = ("RUNTIME", "TOOLKIT", "OPP", "OPP_KERNEL")
    command = [sys.executable, "-c", code, *(str(packages[f"ACL_PKG_NAME_{name}"]) for name in names)]
    for text, wanted in (("toolkit=9.1.0,ops=9.1.1", ["9.1.0", "9.1.0", "9.1.1", "9.1.1"]), ("9.1.0", ["9.1.0"] * 4)):
        variables = environment(emulator_home, ASCEND_EMULATOR_CANN=text)
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        assert done.stdout.split() == wanted


@pytest.mark.long
@pytest.mark.usefixtures("compiler")
def test_a_build_of_a_pair() -> None:
    """Compiled, with a runtime of one release and operators of another, whom doctor names both."""
    home = building.build(cann="toolkit=9.1.0,ops=9.1.1")
    variables = environment(home, ASCEND_ACLNN_BACKEND="npu", ASCEND_HOME_PATH=str(home))
    command = [sys.executable, "-m", "ascend_aclnn", "doctor"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0 and "one addition on each device" in done.stdout, done.stdout + done.stderr
    assert "CANN         9.1.0, operators 9.1.1 (a pair of https://" in done.stdout
    assert (home / "lib64" / "libacl_rt.so").exists(), "the runtime of 9.1.0 has its own library"


def test_doctor_names_a_pair(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from ascend_aclnn.cli.doctor import _operators_words

    assert _operators_words({"cann": "9.1.0", "ops": "9.1.0"}) == ""
    words = _operators_words({"cann": "9.1.0", "ops": "9.1.1"})
    assert "operators 9.1.1 (a pair of https://" in words and "9.1.1/release-notes" in words
    assert "no release notes name" in _operators_words({"cann": "8.5.0", "ops": "9.1.1"})
    assert cli.main(["emulator", "build", "/nowhere", "--cann", "toolkit=8.1.RC1,ops=9.1.1"]) == 1
    assert "no release notes say" in capsys.readouterr().err
    assert "aclsysGetVersionStr" in headers.runtime_functions()
