"""scripts/find_tensor_indices.py: how executors count their tensors, read in small sources written here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Kind, headers

SOURCES = """
aclnnStatus aclnnIncreFlashAttentionV4GetWorkspaceSize(
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value, const aclTensor *pseShift,
    const aclTensor *attenMask, const aclIntArray *actualSeqLengths, const aclTensor *dequantScale1,
    const aclTensor *quantScale1, const aclTensor *dequantScale2, const aclTensor *quantScale2,
    const aclTensor *quantOffset2, const aclTensor *antiquantScale, const aclTensor *antiquantOffset,
    const aclTensor *blocktable, const aclTensor *kvPaddingSize, int64_t numHeads, uint64_t *size, aclOpExecutor **executor)
{
    const aclTensorList *keys = key;
    return Common(query, keys, value, pseShift, attenMask, actualSeqLengths, dequantScale1, quantScale1, dequantScale2,
                  quantScale2, quantOffset2, antiquantScale, antiquantOffset, blocktable, kvPaddingSize, numHeads, size,
                  executor);
}
static aclnnStatus Common(
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value, const aclTensor *p, const aclTensor *m,
    const aclIntArray *lengths, const aclTensor *a, const aclTensor *b, const aclTensor *c, const aclTensor *d,
    const aclTensor *e, const aclTensor *f, const aclTensor *g, const aclTensor *table, const aclTensor *padding,
    int64_t heads, uint64_t *size, aclOpExecutor **executor)
{
    return aclnnInnerAttentionGetWorkspaceSize(query, key, value, p, m, lengths, a, b, c, d, e, f, g, table, padding, heads,
                                               size, executor);
}
aclnnStatus aclnnReluGetWorkspaceSize(const aclTensor *self, aclTensor *out, uint64_t *size, aclOpExecutor **executor)
{
    auto unique = CREATE_EXECUTOR();
    return ACLNN_SUCCESS;
}
aclnnStatus aclnnMmGetWorkspaceSize(
    const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t type, uint64_t *size, aclOpExecutor **executor)
{
    return aclnnInnerMatMulGetWorkspaceSize(mat2, self, out, size, executor);
}
"""
TURNED = """
aclnnStatus aclnnRingAttentionUpdateGetWorkspaceSize(
    const aclTensor *a, const aclTensor *b, const aclTensor *c, const aclTensor *d, const aclTensor *e, const aclTensor *f,
    const aclTensor *g, char *layout, aclTensor *out, aclTensor *most, aclTensor *sum, uint64_t *size, aclOpExecutor **executor)
{
    return aclnnInnerUpdateGetWorkspaceSize(a, b, c, d, e, f, g, layout, out, sum, most, size, executor);
}
"""
DEFINITIONS = """
class AveragePoolingGrad : public OpDef {
public:
    explicit AveragePoolingGrad(const char *name) : OpDef(name)
    {
        this->Input("orig_input_shape").ValueDepend(REQUIRED);
        this->Input("grad_output");
        this->Output("grad_input");
    }
};
OP_ADD(AveragePoolingGrad);
class GatherPaKvCache : public OpDef {
    void Describe() { this->Input("key_cache"); }
};
OP_ADD(GatherPaKvCache);
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    folder = str(Path(__file__).resolve().parents[2] / "scripts")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("find_tensor_indices")
    finally:
        sys.path.remove(folder)


def test_how_each_kind_of_phase_one_counts(script: ModuleType) -> None:
    by_hand = list(script.functions("op_api/aclnn_some.cpp", script.bare(SOURCES)))
    defined = script.definitions({"some_def.cpp": DEFINITIONS})
    assert defined == {"AveragePoolingGrad": 2, "GatherPaKvCache": 1}
    holding, unknown = script.classify(by_hand, defined)
    assert holding == {
        "aclnnIncreFlashAttentionV4": ["actualSeqLengths"],  # handed on in order, through a local name and a helper
        "aclnnAveragePoolingGrad": ["origInputShape"],  # generated
    }
    assert "aclnnMm" in unknown, "handed on in another order"
    assert "aclnnGatherPaKvCache" in unknown, "its definition has fewer inputs than its prototype"
    assert "aclnnAdd" in unknown, "neither source nor definition"
    assert "aclnnRelu" not in unknown, "composed, which ignores the index"


@pytest.mark.parametrize(
    ("outputs", "known"), [("out, sum, most", False), ("out, most, sum", True), ("out, mine, sum", True)]
)
def test_outputs_must_be_handed_on_in_order(script: ModuleType, outputs: str, known: bool) -> None:
    text = TURNED.replace("out, sum, most", outputs)
    _, unknown = script.classify(list(script.functions("aclnn_some.cpp", script.bare(text))), {})
    assert ("aclnnRingAttentionUpdate" not in unknown) is known


def test_slots_are_arrays_and_scalars_before_a_tensor() -> None:
    tensors = (Kind.TENSOR, Kind.TENSOR_LIST)
    holding = [operator for operator in map(catalog.get, catalog.names()) if operator.slots]
    assert len(holding) > 5
    for operator in holding:
        assert operator.knows_tensor_indices
        for name in operator.slots:
            position = next(i for i, p in enumerate(operator.parameters) if p.name == name)
            assert operator.parameters[position].kind not in tensors
            assert any(p.kind in tensors and p.direction == "in" for p in operator.parameters[position:]), operator.name


def test_nothing_is_known_of_a_vendors_operator() -> None:
    prototype = (
        "aclnnStatus aclnnVendorGetWorkspaceSize(const aclTensor *x, aclTensor *out, uint64_t *s, aclOpExecutor **e);"
    )
    assert not headers.operator_from_prototype(prototype).knows_tensor_indices
