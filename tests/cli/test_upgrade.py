"""What ``ascend-aclnn upgrade`` finds, beside the release notes read by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import record_an_addition

from ascend_aclnn import cli
from ascend_aclnn.cli.upgrade import STATUSES, uses_in

# The operators that vllm-ascend's sources name, and those behind the functions of torch_npu that it calls (op-plugin).
VLLM = Path(__file__).parent / "vllm_ascend_operators.txt"

# By hand. The notes of 8.5.0 deprecate V1 to V4 of GroupedMatmul and V2 and V3 of FusedInferAttentionScore (releases after
# 2026-12-30 may lack them), those of 9.0.0 FusedInferAttentionScore and MlaPrologV2WeightNz (after 2027-03-30); those of
# 9.1.1 and 9.2.0-beta.2 repeat both and add nothing. V5, V4 and V3WeightNz replace them. Of TransposeQuantBatchMatMul, new in
# 9.0.0, the header of v9.1.0 has an int64_t groupSize where v9.0.0 has an int32_t.
OF_850 = {
    "aclnnGroupedMatmul": ["aclnnGroupedMatmulV5"],
    "aclnnGroupedMatmulV4": ["aclnnGroupedMatmulV5"],
    "aclnnFusedInferAttentionScoreV2": ["aclnnFusedInferAttentionScoreV4"],
    "aclnnFusedInferAttentionScoreV3": ["aclnnFusedInferAttentionScoreV4"],
}
OF_900 = {
    "aclnnFusedInferAttentionScore": ["aclnnFusedInferAttentionScoreV4"],
    "aclnnMlaPrologV2WeightNz": ["aclnnMlaPrologV3WeightNz"],
}
# By the sources at the tags v8.5.0, v9.0.0 and v9.1.0 and of 2026-08-21: the first whose header, document, op_api or
# definition (ACLNNTYPE aclnn, from which the build generates the functions) has the name.
BROUGHT = {
    "9.0.0": "FusedInferAttentionScoreV5 QuantFlashAttentionScore RopeWithSinCosCacheV2 TransposeQuantBatchMatMul",
    "9.1.0": """AddRmsNormDynamicMxQuant ChunkGatedDeltaRule Compressor DynamicBlockQuantV2 DynamicMxQuantV2 DynamicQuantV4
        FlatQuantV2 KvQuantSparseAttnSharedkv KvQuantSparseAttnSharedkvMetadata QuantFlashAttentionScoreGrad
        QuantGroupedMatmulDequantWeightNZ RmsNormDynamicMxQuant SparseAttnSharedkv SparseAttnSharedkvMetadata
        SwigluGroupQuant TransposeBatchMatMulWeightNz TransposeQuantBatchMatMulWeightNz""",
    "9.2.0-beta.2": """DynamicMxQuantV3 GRU GRUBackward InplacePartialRotaryMul KvCompressEpilog MoeFinalizeRoutingV4
        KvQuantSparseFlashAttentionV2 MoeGatingTopKV2 RmsNormDynamicQuant""",
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = cli.main(["upgrade", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("before", "after", "deprecated", "may_be_gone", "changed"),
    [
        ("8.1.RC1", "8.5.0", OF_850, set(), set()),
        ("8.5.0", "9.1.1", {**OF_850, **OF_900}, set(), set()),
        ("9.0.0", "9.2.0", {**OF_850, **OF_900}, set(OF_850), {"aclnnTransposeQuantBatchMatMul"}),
    ],
)
def test_the_operators_of_vllm_ascend(
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    deprecated: dict[str, list[str]],
    may_be_gone: set[str],
    changed: set[str],
) -> None:
    assert len(VLLM.read_text().split()) == 164
    status, found = run(capsys, "--from", before, "--to", after, "--names", str(VLLM))
    assert status == 1
    rows = {row["name"]: row for row in found["findings"]}
    by_status = {s: {name for name, row in rows.items() if row["status"] == s} for s in STATUSES}
    assert {name: rows[name]["replaced_by"] for name in by_status["deprecated"]} == deprecated
    assert by_status["gone"] == set()
    assert by_status["changed"] == changed
    assert {name for name, row in rows.items() if row["may_be_gone"]} == may_be_gone
    days = {rows[name]["removal_after"] for name in OF_850}
    assert days == {"2026-12-30"}
    assert {rows[name]["removal_after"] for name in by_status["deprecated"] & OF_900.keys()} <= {"2027-03-30"}
    assert len(rows) + len(found["unchanged"]) == 164 and found["unknown"] == []
    later = {"8.5.0": ("9.0.0", "9.1.0", "9.2.0-beta.2"), "9.1.1": ("9.2.0-beta.2",), "9.2.0": ()}[after]
    assert by_status["not yet"] == {f"aclnn{name}" for release in later for name in BROUGHT[release].split()}


def test_an_operator_that_no_release_has_yet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """ops-transformer has had BlockAttnResPrepare since September 2026; a release after 9.2.0-beta.2 may have it."""
    names = tmp_path / "names"
    names.write_text("aclnnBlockAttnResPrepare\n")
    assert cli.main(["upgrade", "--from", "8.5.0", "--to", "9.1.1", "--names", str(names)]) == 1
    assert "no release up to CANN 9.2.0-beta.2 has it" in " ".join(capsys.readouterr().out.split())
    assert run(capsys, "--from", "9.1.1", "--to", "9.2.0", "--names", str(names))[1]["findings"] == []


PROGRAM = """
import ctypes
import ascend_aclnn as aclnn, ascend_aclnn.ops as o
from ascend_aclnn import ops
from ascend_aclnn.ops import mla_prolog as prolog, add
runtime = ctypes.CDLL("/usr/local/Ascend/cann/lib64/libascendcl.so")
runtime.aclrtQueryEvent(0, 0)
ops.quant_matmul_v4(1, 2, 3)
aclnn.ops.grouped_matmul_v2(1)
aclnn.Executor("aclnnMlaPrologV3")
prolog(add(1, 2))
getattr(ops, "incre_flash_attention")
o.flip(1)
class Other:
    quant_matmul = 1
Other.quant_matmul
"""


def test_a_program_is_read_by_its_imports_and_calls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "kernel.cpp").write_text(
        '#include "aclnnop/aclnn_add.h"\nauto s = aclnnQuantMatmulGetWorkspaceSize(x, &n, &e);\n// cc -lopapi\n'
    )
    found = {use.name: use.line for use in uses_in(program)}
    assert found == {
        "libascendcl.so": 6,
        "aclrtQueryEvent": 7,
        "aclnnQuantMatmulV4": 8,
        "aclnnGroupedMatmulV2": 9,
        "aclnnMlaPrologV3": 10,
        "aclnnMlaProlog": 11,
        "aclnnAdd": 11,
        "aclnnIncreFlashAttention": 12,
        "aclnnFlip": 13,
    }
    assert {use.name for use in uses_in(tmp_path / "more")} == {"aclnnQuantMatmul", "libopapi.so"}
    status, report = run(capsys, "--from", "8.5.0", "--to", "9.1.0", str(program), str(tmp_path / "more"))
    assert status == 1
    rows = {row["name"]: row for row in report["findings"]}
    assert rows["aclnnMlaPrologV3"]["status"] == "gone" and rows["aclnnMlaPrologV3"]["removed"] == "9.0.0"
    assert rows["aclnnQuantMatmulV4"]["uses"] == [{"file": str(program), "line": 8}]
    assert rows["aclnnQuantMatmulV4"]["python_name"] == "quant_matmul_v4"
    assert rows["libopapi.so"]["kind"] == "library"
    assert report["unchanged"] == ["aclnnAdd", "aclnnFlip"]
    assert cli.main(["upgrade", "--from", "8.5.0", "--to", "9.2.0", str(program)]) == 1
    shown = capsys.readouterr().out
    assert "gone: 9.2.0 does not have it (1)\n  aclnnMlaPrologV3 (ops.mla_prolog_v3): not in CANN 9.0.0" in shown
    assert "deprecated, and may be gone" in shown and f"{program}:8" in shown
    assert "use libacl_rt.so and libacl_mdl.so" in shown.replace("\n      ", " ")


def test_a_recording_is_read_by_its_launches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record_an_addition(tmp_path / "run.rec", launches=2)
    assert [(use.name, use.line) for use in uses_in(tmp_path / "run.rec")] == [("aclnnAdd", 0), ("aclnnAdd", 1)]
    status, report = run(capsys, "--from", "8.5.0", "--to", "9.2.0", str(tmp_path / "run.rec"))
    assert (status, report["unchanged"]) == (0, ["aclnnAdd"])


def test_names_in_any_spelling_and_the_exit_status(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("aclnnAdd, ops.sub  # aclnnQuantMatmul\naclnnMulGetWorkspaceSize\n")
    status, report = run(capsys, "--from", "8.5.0", "--to", "9.2.0", "--names", str(names))
    assert (status, report["findings"], report["unchanged"]) == (0, [], ["aclnnAdd", "aclnnMul", "aclnnSub"])
    names.write_text("mla_prolog aclnnOfAVendor")
    arguments = ("--from", "8.5.0", "--to", "9.1.1", "--names", str(names))
    status, report = run(capsys, *arguments)
    assert (status, report["unknown"]) == (1, ["aclnnOfAVendor"])
    assert run(capsys, *arguments, "--fail-on", "changed")[0] == 0
    assert run(capsys, "--to", "8.5.0", "--names", str(names), "--from", "8.1.RC1")[0] == 0  # 9.0.0 deprecates it
    names.write_text("aclnnGroupedMatmulWeightNz")  # 9.1.0's document lists INT8 no more for its result
    status, report = run(capsys, *arguments)
    assert status == 0 and [row["status"] for row in report["findings"]] == ["documented otherwise"]
    assert run(capsys, *arguments, "--fail-on", "documented")[0] == 1


def test_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    for arguments, words in (
        (["--to", "9.2.0"], "name a program"),
        (["--to", "newest", str(sources)], "not of the form"),
        (["--from", "9.2.0", "--to", "9.0.0", str(sources)], "9.0.0 is older than 9.2.0"),
        (["--from", "8.5.0", "--to", "9.0.0", str(broken)], "broken.py:1: "),
        (["--from", "8.5.0", "--to", "9.0.0", str(tmp_path / "absent.py")], "absent.py"),
    ):
        assert cli.main(["upgrade", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_functions_that_earlier_releases_had_without_a_document(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """aclnnPows has a definition and no header: v8.5.0 generates its function, v9.0.0 does not; aclnnRfft1D goes in 9.1.0."""
    names = tmp_path / "names.txt"
    names.write_text("aclnnPows aclnnGeGluV2 aclnnRfft1D aclnnNoSuchThing\n", encoding="utf-8")
    status, report = run(capsys, "--from", "8.5.0", "--to", "9.0.0", "--names", str(names))
    assert status == 1 and report["unknown"] == ["aclnnNoSuchThing"] and report["unchanged"] == ["aclnnRfft1D"]
    gone = {row["name"]: (row["kind"], row["status"], row["removed"]) for row in report["findings"]}
    assert gone == dict.fromkeys(("aclnnGeGluV2", "aclnnPows"), ("operator", "gone", "9.0.0"))
    status, report = run(capsys, "--from", "8.1.RC1", "--to", "8.5.0", "--names", str(names))
    assert status == 0 and report["unchanged"] == ["aclnnGeGluV2", "aclnnPows", "aclnnRfft1D"]
    status, report = run(capsys, "--from", "9.0.0", "--to", "9.1.0", "--names", str(names))
    assert "aclnnRfft1D" in {row["name"] for row in report["findings"] if row["status"] == "gone"}
