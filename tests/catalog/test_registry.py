"""Finding the module that declares an operator, and declaring one outside of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ascend_aclnn import catalog, registry
from ascend_aclnn.reference import function_of, reference
from ascend_aclnn.rules import words_of
from ascend_aclnn.rules.language import rule


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


def test_an_operator_is_declared_once() -> None:
    words_of("aclnnMm")
    with pytest.raises(ValueError, match="aclnnMm has two rules"):
        rule("aclnnMm")
    with pytest.raises(ValueError, match="aclnnMm has two references"):
        reference("aclnnMm")(function_of("aclnnMm"))


VENDOR = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import catalog, ops, registry
from ascend_aclnn.reference import find, function_of, reference
from ascend_aclnn.rules import words_of
from ascend_aclnn.rules.language import dtypes, output_shape, rule, shape_of

operator = aclnn.register_operator(
    "aclnnStatus aclnnTestScaleGetWorkspaceSize(const aclTensor *x, double factor, const aclTensor *biasOptional,"
    " aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);"
)
assert [p.direction for p in operator.parameters] == ["in", "in", "in", "out"]
x = np.ones(3, np.float16)
with aclnn.use_backend("numpy"):
    try:
        ops.test_scale(x, 2.5)
    except TypeError as error:
        assert "in out=" in str(error), error
    rule("aclnnTestScale", output_shape(out=shape_of("x")))
    @reference("aclnnTestScale")
    def scale(x, factor, bias):
        return x * factor
    assert ops.test_scale(x, 2.5).tolist() == [2.5, 2.5, 2.5]
    try:
        ops.test_scale(None, 2.5)
    except aclnn.AclError as error:
        assert error.status == 161001, error
    assert "test_scale" in dir(ops)

# A vendor's form of an operator that the catalog has: before and after the package's own is loaded.
for name in ("aclnnNeg", "aclnnSin"):
    theirs, words = function_of(name), words_of(name)
    aclnn.register_operator(
        f"aclnnStatus {name}GetWorkspaceSize(const aclTensor *self, double factor, aclTensor *out,"
        " uint64_t *workspaceSize, aclOpExecutor **executor);"
    )
    rule(name, words, dtypes("FLOAT16", "self"), replaces=True)
    reference(name, replaces=True)(lambda x, factor, theirs=theirs: theirs(x) * factor)
assert find(catalog.get("aclnnNeg")).function is not theirs
registry.load_all("ascend_aclnn.rules")
registry.load_all("ascend_aclnn.reference")
with aclnn.use_backend("numpy"):
    assert ops.neg(x, 2.5).tolist() == [-2.5, -2.5, -2.5]
    try:
        ops.neg(x.astype(np.float32), 2.5)
    except aclnn.AclError as error:
        assert "self has dtype FLOAT" in str(error), error
print("declared")
"""


def test_vendor_operators_are_declared() -> None:
    done = subprocess.run([sys.executable, "-c", VENDOR], capture_output=True, text=True)
    assert done.stdout == "declared\n", done.stderr
