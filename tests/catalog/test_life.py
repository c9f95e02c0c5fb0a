"""What the catalog says of the life of operators, functions and libraries, beside what the release notes say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ascend_aclnn import catalog, cli, ops
from ascend_aclnn.catalog import life

# By hand from the notes of CANN 8.5.0 and of 9.0.0, which those of 9.1.1 and 9.2.0-beta.2 repeat: name -> deprecated since,
# the first announced day, what replaces it by the latest notes.
NOTES = {
    "aclnnGroupedMatMulAllReduce": ("8.5.0", "2026-12-30", "aclnnMatmulAllReduce"),
    "aclnnWeightQuantBatchMatmul": ("8.5.0", "2026-12-30", "aclnnWeightQuantBatchMatmulV3"),
    **{f"aclnnQuantMatmul{v}": ("8.5.0", "2026-12-30", "aclnnQuantMatmulV5") for v in ("", "V2", "V3", "V4")},
    **{f"aclnnGroupedMatmul{v}": ("8.5.0", "2026-12-30", "aclnnGroupedMatmulV5") for v in ("", "V2", "V3", "V4")},
    "aclnnIncreFlashAttention": ("9.0.0", "2027-03-30", "aclnnIncreFlashAttentionV4"),
    "aclnnIncreFlashAttentionV2": ("8.5.0", "2026-12-30", "aclnnIncreFlashAttentionV4"),
    "aclnnIncreFlashAttentionV3": ("8.5.0", "2026-12-30", "aclnnIncreFlashAttentionV4"),
    "aclnnPromptFlashAttention": ("9.0.0", "2027-03-30", "aclnnPromptFlashAttentionV3"),
    "aclnnPromptFlashAttentionV2": ("8.5.0", "2026-12-30", "aclnnPromptFlashAttentionV3"),
    "aclnnFusedInferAttentionScore": ("9.0.0", "2027-03-30", "aclnnFusedInferAttentionScoreV4"),
    "aclnnFusedInferAttentionScoreV2": ("8.5.0", "2026-12-30", "aclnnFusedInferAttentionScoreV4"),
    "aclnnFusedInferAttentionScoreV3": ("8.5.0", "2026-12-30", "aclnnFusedInferAttentionScoreV4"),
    "aclnnMlaProlog": ("9.0.0", "2027-03-30", "aclnnMlaPrologV3WeightNz"),
    "aclnnMlaPrologV2WeightNz": ("9.0.0", "2027-03-30", "aclnnMlaPrologV3WeightNz"),
    "aclnnMatmulAllReduceAddRmsNorm": ("9.0.0", "2027-03-30", "aclnnMatmulAllReduce aclnnAddRmsNorm"),
    "aclnnInplaceMatmulAllReduceAddRmsNorm": ("9.0.0", "2027-03-30", "aclnnMatmulAllReduce aclnnAddRmsNorm"),
    "aclnnQuantMatmulAllReduceAddRmsNorm": ("9.0.0", "2027-03-30", "aclnnQuantMatmulAllReduceV2 aclnnAddRmsNorm"),
    "aclnnInplaceQuantMatmulAllReduceAddRmsNorm": (
        "9.0.0",
        "2027-03-30",
        "aclnnQuantMatmulAllReduceV2 aclnnAddRmsNorm",
    ),
    "aclnnWeightQuantMatmulAllReduceAddRmsNorm": (
        "9.0.0",
        "2027-03-30",
        "aclnnWeightQuantMatmulAllReduce aclnnAddRmsNorm",
    ),
    "aclnnInplaceWeightQuantMatmulAllReduceAddRmsNorm": (
        "9.0.0",
        "2027-03-30",
        "aclnnWeightQuantMatmulAllReduce aclnnAddRmsNorm",
    ),
    "aclnnBatchMatmulQuant": ("9.0.0", "", ""),  # its header and its document only
    "aclsysGetCANNVersion": ("8.5.0", "2026-12-30", "aclsysGetVersionStr aclsysGetVersionNum"),
    "libascendcl.so": ("8.5.0", "2026-12-30", "libacl_rt.so libacl_mdl.so libacl_op_executor.so"),
    "libopapi.so": (
        "8.5.0",
        "2026-12-30",
        "libopapi_math.so libopapi_nn.so libopapi_cv.so libopapi_transformer.so libopapi_legacy.so",
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_the_end_of_a_name_is_that_of_the_notes(name: str) -> None:
    lived = life.of(name)
    assert (lived.deprecated, lived.removal, " ".join(lived.replaced_by)) == NOTES[name]
    assert all(said.source for said in lived.announced)


def test_no_other_operator_or_library_is_announced_to_go() -> None:
    announced = {name for name in life.names() if life.of(name).announced and life.of(name).kind != "function"}
    assert announced == {name for name in NOTES if life.of(name).kind != "function"}


def test_what_is_named_exists() -> None:
    """Names of the data and what replaces them are in the catalog; those of hand-written headers and libraries are not."""
    known = {*catalog.names(), *life.functions()}
    for name in life.names():
        lived = life.of(name)
        assert lived.kind != "operator" or name in known or lived.removed
        for said in lived.announced:
            for other in said.replaced_by:
                assert other in known or not other.startswith("aclnn"), (name, other)
    assert {name for name in life._changes() if name not in known} == set()
    assert {name for name in life._brought() if name not in known} == set()


def test_releases_are_ordered() -> None:
    ordered = ["8.1.RC1", "8.3.RC1.alpha001", "8.5.0.alpha001", "8.5.0-beta.1", "8.5.0", "8.5.2", "9.0.0-rc.1", "9.0.0"]
    ordered += ["9.2.0-alpha.1", "9.2.0-beta.1", "9.2.0-beta.2", "9.2.0", "9.10.0"]
    assert sorted(set(ordered), key=life.order) == ordered
    for bad in ("newest", "", "9"):
        with pytest.raises(ValueError, match="not of the form"):
            life.order(bad)


def test_a_name_is_absent_where_its_day_counts_as_passed() -> None:
    quant, attention = life.of("aclnnQuantMatmulV4"), life.of("aclnnFusedInferAttentionScore")
    assert not quant.absent_from("9.2.0-beta.2") and quant.absent_from("9.2.0")
    assert not attention.absent_from("9.2.0") and attention.absent_from("9.3.0")
    assert life.of("aclnnMlaPrologV3").absent_from("9.0.0") and not life.of("aclnnMlaPrologV3").absent_from("8.5.0")
    assert not life.of("aclnnBatchMatmulQuant").absent_from("20.0.0")  # no day is said
    assert not life.of("aclnnAdd").absent_from("20.0.0")


def test_the_release_that_brought_an_operator() -> None:
    """From the sources at the tags: V5 of QuantMatmul in 8.5.0, AlltoAllvQuantGroupedMatMul in 9.0.0, SituGlu in 9.2.0."""
    found = {name: life.of(f"aclnn{name}").since for name in ("Add", "QuantMatmulV5", "AlltoAllvQuantGroupedMatMul")}
    assert found == {"Add": "8.1.RC1", "QuantMatmulV5": "8.5.0", "AlltoAllvQuantGroupedMatMul": "9.0.0"}
    assert life.of("aclnnSituGlu").since == "9.2.0-beta.2"  # "new" in its release notes
    assert life.of("aclsysGetVersionStr").since == "8.5.0"


def test_toolkit_and_operators() -> None:
    """The tables of the release notes of 9.0.1, 9.1.0, 9.1.1 and 9.2.0-beta.1 and .2."""
    for toolkit, package in (
        ("9.1.0", "9.1.1"),
        ("8.5.2", "9.1.1"),
        ("9.0.0", "9.0.1"),
        ("9.1.1", "9.0.0"),
        ("9.1.0", "9.2.0-beta.1"),
        ("8.1.RC1", "8.1.RC1"),
    ):
        assert life.supported(toolkit, package), (toolkit, package)
    for toolkit, package in (("8.1.RC1", "9.1.1"), ("8.5.0", "9.1.1"), ("9.1.0", "9.2.0-beta.2"), ("9.2.0", "8.5.2")):
        assert life.supported(toolkit, package) is None, (toolkit, package)


def test_help_show_and_pages_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = "eprecated since CANN 8.5.0 (use ops.quant_matmul_v5); releases after 2026-12-30 may lack it"
    assert f"D{words}." in (ops.quant_matmul_v4.__doc__ or "")
    assert cli.main(["show", "QuantMatmulV4"]) == 0
    shown = capsys.readouterr().out
    assert f"d{words}" in shown and "releasenote_0018.html" in shown and "since CANN 8.1.RC1 or earlier" in shown
    assert cli.main(["show", "TransposeQuantBatchMatMul"]) == 0
    assert "life     CANN 9.1.0: groupSize is int64_t, was int32_t" in capsys.readouterr().out
    assert cli.main(["show", "quant_matmul_v4", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["life"]
    assert (row["since"], row["deprecated"], row["removal_after"]) == ("8.1.RC1", "8.5.0", "2026-12-30")
    assert row["replaced_by"] == ["aclnnQuantMatmulV5"]
    assert cli.main(["ops", "QuantMatmulV4", "--json"]) == 0
    assert [r["deprecated"] for r in json.loads(capsys.readouterr().out) if r["name"] == "aclnnQuantMatmulV4"] == [
        "8.5.0"
    ]
    page = Path(__file__).resolve().parents[2] / "docs" / "operators" / "ops-nn.matmul.md"
    (line,) = [
        text for text in page.read_text(encoding="utf-8").splitlines() if text.startswith("| [aclnnQuantMatmulV4]")
    ]
    assert "8.1.RC1<br>**deprecated since CANN 8.5.0 (use aclnnQuantMatmulV5); releases after 2026-12-30" in line


def test_the_stub_marks_deprecated_operators() -> None:
    stub = (Path(ops.__file__).parent / "ops.pyi").read_text(encoding="utf-8")
    marked = {
        line.split("def ")[1].split("(")[0]
        for before, line in zip(stub.splitlines(), stub.splitlines()[1:])
        if before.startswith("@deprecated(") and line.startswith("def ")
    }
    c_names = catalog.python_names()
    assert {c_names[name] for name in marked} == {name for name in catalog.names() if life.end_words(life.of(name))}
