"""Finding the module that declares an operator."""

from __future__ import annotations

import pytest

from ascend_aclnn import catalog, registry


def test_a_family_is_searched_once_for_an_operator_that_it_does_not_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []

    def modules(package: str, operator: catalog.Operator) -> list[str]:
        searches.append(operator.name)
        return []

    monkeypatch.setattr(registry, "_modules", modules)
    monkeypatch.setattr(registry, "_in_vain", set(), raising=False)
    operator = catalog.get("aclnnMm")
    assert [registry.find("ascend_aclnn.rules", operator, {}) for _ in range(3)] == [None] * 3
    assert searches == ["aclnnMm"]


def test_what_is_registered_after_a_search_in_vain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_modules", lambda *_: [])
    monkeypatch.setattr(registry, "_in_vain", set(), raising=False)
    operator, declared = catalog.get("aclnnMm"), dict[str, str]()
    assert registry.find("ascend_aclnn.rules", operator, declared) is None
    declared["aclnnMm"] = "a vendor's"
    assert registry.find("ascend_aclnn.rules", operator, declared) == "a vendor's"
