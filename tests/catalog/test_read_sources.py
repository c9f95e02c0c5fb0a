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
