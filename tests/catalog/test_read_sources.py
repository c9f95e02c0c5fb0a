"""scripts/read_sources.py: what it reads of headers and documents, on a small checkout written here."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ascend_aclnn import catalog

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "read_sources.py"
DOCUMENT = """# aclnnRelu
- <term>Ascend 950PR/Ascend 950DT</term>：不支持
- <term>Atlas A3 训练系列产品/Atlas A3 推理系列产品</term>：支持
- <term>Atlas A2 训练系列产品/Atlas A2 推理系列产品</term>：支持
- <term>Atlas 200I/500 A2 推理产品</term>：不支持
- <term>Atlas 推理系列产品</term>：不支持
- <term>Atlas 训练系列产品</term>：支持
```Cpp
aclnnStatus aclnnReluGetWorkspaceSize(const aclTensor *self, aclTensor *out, uint64_t *size, aclOpExecutor **executor)
```
## aclnnReluGetWorkspaceSize
<table><tr><th>参数名</th><th>描述</th><th>数据类型</th><th>数据格式</th><th>维度(shape)</th><th>非连续Tensor</th></tr>
<tr><td>self（aclTensor*）</td><td>x</td><td>FLOAT32、BFLOAT16</td><td>ND</td><td>0-8</td><td>√</td></tr>
<tr><td>out（aclTensor*）</td><td>x</td><td>与self一致</td><td>ND</td><td>同self</td><td>×</td></tr></table>
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("read_sources", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["read_sources"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "ops-nn"
    (folder / "activation/relu/docs").mkdir(parents=True)
    (folder / "activation/relu/docs/aclnnRelu.md").write_text(DOCUMENT, encoding="utf-8")
    (folder / "activation/relu/aclnn_new.h").write_text(
        "aclnnStatus aclnnNewThingGetWorkspaceSize(const aclTensor *x, uint64_t *size, aclOpExecutor **executor);"
    )
    return folder


def test_what_is_read(script: ModuleType, checkout: Path) -> None:
    facts = script.read(checkout)
    assert facts["aclnnNewThing"].prototype == [("const aclTensor*", "x")]
    relu = facts["aclnnRelu"]
    assert relu.products == "A2 A3 910"
    assert relu.document == "activation/relu/docs/aclnnRelu.md"
    assert relu.parameters == {
        "self": {"dtypes": "FLOAT BF16", "formats": "ND", "rank": "0-8", "noncontiguous": True},
        "out": {"formats": "ND", "noncontiguous": False},  # what is not plain is left to a reader
    }


def test_what_is_taken_over(script: ModuleType, checkout: Path) -> None:
    entry = json.loads((catalog.DATA / "ops-nn.activation.json").read_text(encoding="utf-8"))["aclnnRelu"]
    changes = script.differences("aclnnRelu", script.read(checkout)["aclnnRelu"], entry, "ops-nn")
    assert changes["products"] == ("A2 A3 910 950", "A2 A3 910")
    assert "prototype" not in changes
    script.take_over(entry, changes)
    assert entry["parameters"][0]["dtypes"] == "FLOAT BF16" and entry["products"] == "A2 A3 910"
    assert not script.differences("aclnnRelu", script.read(checkout)["aclnnRelu"], entry, "ops-nn")


def test_an_entry_is_written_as_the_files_have_it(script: ModuleType) -> None:
    for path in catalog.DATA.glob("ops-nn.*.json"):
        text = path.read_text(encoding="utf-8")
        entries = json.loads(text)
        assert "{\n" + ",\n\n".join(script.entry_text(n, e) for n, e in entries.items()) + "\n}\n" == text, path.name


DEFINITION = """
class NewSum : public OpDef {
public:
    explicit NewSum(const char* name) : OpDef(name)
    {
        this->Input("x_in").ParamType(REQUIRED).DataType({ge::DT_FLOAT}); // this->Input("ghost")
        this->Input("acc").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->Input("size").ParamType(REQUIRED).ValueDepend(Option::OPTIONAL).DataType({ge::DT_INT64});
        this->Input("bias").ParamType(OPTIONAL).Version(2);
        this->Output("acc").ParamType(REQUIRED);
        this->Output("y_out").ParamType(REQUIRED);
        this->Attr("round_mode").AttrType(OPTIONAL).String("rint");
        this->Attr("eps").AttrType(OPTIONAL).Float(1e-6);
    }
};
OP_ADD(NewSum);
"""


def test_generated_functions_come_from_definitions(script: ModuleType, checkout: Path) -> None:
    """Inputs, attributes, outputs; what is changed is ...Ref, the only output out; .Version(2) belongs to ...V2."""
    host = checkout / "experimental/math/new_sum/op_host"
    host.mkdir(parents=True)
    (host / "new_sum_def.cpp").write_text(DEFINITION)
    (host / "CMakeLists.txt").write_text("add_modules_sources(OPTYPE new_sum ACLNNTYPE aclnn_exclude)")
    assert "aclnnNewSum" not in script.read(checkout)
    (host / "CMakeLists.txt").write_text("add_modules_sources(OPTYPE new_sum ACLNNTYPE aclnn)")
    facts = script.read(checkout)
    assert facts["aclnnNewSum"].source == "definition"
    assert facts["aclnnNewSum"].prototype == [
        ("const aclTensor*", "xIn"),
        ("aclTensor*", "accRef"),
        ("const aclIntArray*", "size"),
        ("char*", "roundModeOptional"),
        ("double", "eps"),
        ("const aclTensor*", "out"),
    ]
    assert facts["aclnnNewSumV2"].prototype[3] == ("const aclTensor*", "biasOptional")
    entry = script.new_entry("aclnnNewSum", facts["aclnnNewSum"], "ops-nn", "2026-08")
    assert entry["family"] == "ops-nn/experimental/math" and entry["experimental"]
    assert entry["header"] == "aclnnop/aclnn_new_sum.h"
    assert [row.get("direction", "in") for row in entry["parameters"]] == ["in", "inout", "in", "in", "in", "out"]


def test_functions_without_a_header_are_found(script: ModuleType, checkout: Path) -> None:
    api = checkout / "mc2/hidden/op_api"
    api.mkdir(parents=True)
    phase_one = (
        "aclnnStatus aclnn%sGetWorkspaceSize(const aclTensor *x, aclTensor *yOut, uint64_t *size, aclOpExecutor **e)"
    )
    phase_two = "aclnnStatus aclnnHidden(void *w, uint64_t n, aclOpExecutor *e, aclrtStream s)\n{ return 0; }"
    inner = "extern " + phase_one % "InnerHidden" + ";"
    (api / "aclnn_hidden.cpp").write_text(inner + phase_one % "Base" + "{}" + phase_one % "Hidden" + "{}\n" + phase_two)
    facts = script.read(checkout)
    assert facts["aclnnHidden"].source == "function"
    assert "aclnnBase" not in facts and "aclnnInnerHidden" not in facts  # no second phase; not for programs


def test_a_summary_and_a_check(script: ModuleType, checkout: Path) -> None:
    comparison = script.compare(checkout)
    assert comparison.new == ["aclnnNewThing"] and "aclnnSoftmax" in comparison.gone
    remarks = comparison.remarks()
    assert remarks["aclnnNewThing"].startswith("not in the catalog (header activation/relu/aclnn_new.h)")
    assert remarks["aclnnRelu products"] == "A2 A3 910 950 -> A2 A3 910"
    lines = list(script.summary(comparison, {"aclnnRelu *": "known", "aclnnNewThing": "known"}))
    assert lines[0].startswith("ops-nn: 1 of 5") and "  new: 0" in lines and "  facts: 0" in lines
    assert script.reason("aclnnRelu products", {"aclnnRelu *": "known"}) == "known"
    assert script.reason("aclnnRelu6", {"aclnnRelu *": "known"}) is None


def test_reasons_are_about_operators_that_are_or_were_there(script: ModuleType) -> None:
    reasons = json.loads(script.REASONS.read_text(encoding="utf-8"))
    names = set(catalog.names())
    left_out = {"aclnnAddExample*", "aclnnContiguous"}
    assert {key for key in reasons if key.split()[0] not in names} == left_out
    assert all(text and not text.endswith(".") for text in reasons.values())
