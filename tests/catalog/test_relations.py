"""Relations between operators: forward and gradient, in-place forms, versions."""

from __future__ import annotations

import json

import pytest

from ascend_aclnn import catalog
from ascend_aclnn.catalog.relations import NameParts, name_parts, relations

OPERATORS = [catalog.get(name) for name in catalog.names()]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("aclnnRmsNorm", ("rmsnorm", False, False, 1)),
        ("aclnnInplaceAddV3", ("add", False, True, 3)),
        ("aclnnForeachACosInplace", ("foreachacos", False, True, 1)),
        ("aclnnMoeInitRoutingV2Grad", ("moeinitrouting", True, False, 2)),
        ("aclnnFlashAttentionScoreGradV4", ("flashattentionscore", True, False, 4)),
        ("aclnnAvgPool2dBackward", ("avgpool2d", True, False, 1)),
        ("aclStft", ("stft", False, False, 1)),
    ],
)
def test_names_come_apart(name: str, parts: tuple[object, ...]) -> None:
    assert name_parts(name) == NameParts(*parts)


def test_relations_of_some() -> None:
    assert relations(catalog.get("aclnnRmsNorm")).gradients == ("aclnnRmsNormGrad", "aclnnRmsNormGradQuant")
    assert relations(catalog.get("aclnnRmsNormGrad")).forward == ("aclnnRmsNorm",)
    assert relations(catalog.get("aclnnEmbedding")).gradients == (
        "aclnnEmbeddingDenseBackward",
        "aclnnEmbeddingDenseGrad",
    )
    assert relations(catalog.get("aclnnAdd")).in_place == ("aclnnInplaceAdd", "aclnnInplaceAddV3")
    assert relations(catalog.get("aclnnInplaceAdd")).out_of_place == ("aclnnAdd", "aclnnAddV2", "aclnnAddV3")
    assert relations(catalog.get("aclnnSub")).versions == ("aclnnSubV2",)


def test_relations_go_both_ways() -> None:
    found = {operator.name: relations(operator) for operator in OPERATORS}
    for name, row in found.items():
        assert name not in {related for names in row for related in names}
        assert all(name in found[other].gradients for other in row.forward), name
        assert all(name in found[other].forward for other in row.gradients), name
        assert all(name in found[other].out_of_place for other in row.in_place), name
        assert all(name in found[other].versions for other in row.versions), name


def test_listed_gradients_are_operators_that_names_do_not_relate() -> None:
    listed = json.loads((catalog.FOLDER / "relations.json").read_text(encoding="utf-8"))
    assert list(listed) == sorted(listed)
    for gradient, forward in listed.items():
        assert {gradient, *forward.split()} <= set(catalog.names())
        assert name_parts(gradient).base not in {name_parts(name).base for name in forward.split()}


def test_most_gradients_know_their_forward_operator() -> None:
    """Those that do not are named: their forward operator is not one of CANN's aclnn operators, or there is none."""
    lonely = [o.name for o in OPERATORS if name_parts(o.name).gradient and not relations(o).forward]
    assert lonely == [
        "aclnnChamferDistanceBackward",
        "aclnnDenseLightningIndexerKLLossGrad",
        "aclnnFusedLinearCrossEntropyLossGrad",
        "aclnnSparseLightningIndexerKLLossGrad",
        "aclnnThreeInterpolateBackward",
        "aclnnUnfoldGrad",
    ]
