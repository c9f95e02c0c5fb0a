"""The pages: links lead somewhere, both READMEs have the same structure, code in them runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops, reference
from ascend_aclnn.core.interface import Backend
from ascend_aclnn.rules import language

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def structure(page: Path) -> list[str]:
    """Levels of headings, fences, list items and table rows, in order, and the code as it is."""
    shape, fenced = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
            shape.append(line)
        elif fenced:
            shape.append(line.split("#")[0].rstrip())
        elif line.startswith("#"):
            shape.append(line.split()[0])
        elif line.startswith("- "):
            shape.append("-")
        elif line.startswith("|"):
            shape.append("|" * line.count("|"))
    return shape


def test_both_readmes_have_the_same_structure() -> None:
    assert structure(ROOT / "README.md") == structure(ROOT / "README.zh-CN.md")


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def test_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python blocks in order, in one namespace; those that need an NPU's torch tensor are left to its own tests."""
    scope: dict[str, object] = {}
    with aclnn.use_backend("numpy"):
        for block in python_blocks(ROOT / "README.md"):
            if "from_torch" in block:
                continue
            exec(
                compile(
                    block.replace("(4096, 7168)", "(8, 7168)").replace("4096, 7168", "8, 7168"), "README.md", "exec"
                ),
                scope,
            )


def test_the_page_on_testing_runs() -> None:
    exec(compile(python_blocks(ROOT / "docs" / "testing.md")[0], "testing.md", "exec"), {})


def test_the_page_on_streams_runs(each_backend: Backend) -> None:
    scope: dict[str, object] = {}
    for block in python_blocks(ROOT / "docs" / "streams.md"):
        exec(compile(block, "streams.md", "exec"), scope)
    assert scope["done"].result() == 131072.0  # type: ignore[attr-defined]


def test_the_page_on_operators_runs(each_backend: Backend) -> None:
    """The rule and the reference, under the name of an operator of a vendor; the test; and the vendor's operator."""
    name = f"aclnnEmbeddingOfThePage{each_backend.name.capitalize()}"
    rule, function, test, vendor = python_blocks(ROOT / "docs" / "adding-an-operator.md")
    aclnn.register_operator(
        f"aclnnStatus {name}GetWorkspaceSize(const aclTensor *weight, const aclTensor *indices, const aclTensor *out, "
        "uint64_t *workspaceSize, aclOpExecutor **executor);"
    )
    scope: dict[str, Any] = {**vars(language), "reference": reference.reference, "np": np, "ops": ops}
    exec(rule.replace("aclnnEmbedding", name), scope)
    exec(function.replace("aclnnEmbedding", name), scope)
    exec(test, scope)
    scope["test_embedding"](each_backend)
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    with aclnn.use_backend("numpy"):
        embedding: Any = aclnn.function(name)
        made = embedding(table, np.array([2, 0]))
        assert made.tolist() == [[4, 5], [0, 1]]
        with pytest.raises(aclnn.AclError, match="indices has dtype FLOAT"):
            embedding(table, table)
    with pytest.raises(aclnn.UnsupportedOperator, match="aclnnMyScale"):  # no library has it
        exec(vendor, {"x": aclnn.asarray(table)})


def test_the_page_on_ranks_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the only rank; tests/collectives runs more."""
    for variable, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("ASCEND_ACLNN_PORT", "0")):
        monkeypatch.setenv(variable, value)
    scope: dict[str, Any] = {}
    exec(python_blocks(ROOT / "docs" / "distributed.md")[0], scope)
    assert scope["parts"].numpy().tolist() == [0, 0, 0, 0]
    assert scope["half"].size == 1
    scope["half"].close()
    scope["comm"].close()


# Blocks that run elsewhere, or in another program: page -> how many, and where.
ELSEWHERE = {
    "README.md": (1, "torch tensors of a device: tests/emulator/clients"),
    "distributed.md": (2, "two ranks, and two devices: tests/collectives"),
    "emulator.md": (1, "tests/emulator/test_activate.py"),
    "hardware.md": (1, "torch tensors of a device: tests/emulator/clients"),
    "testing.md": (1, "a user's test: samples/testing_project"),
}
RUN = {"README.md": 3, "adding-an-operator.md": 4, "distributed.md": 1, "streams.md": 3, "testing.md": 1}


def test_every_block_of_python_is_run_somewhere() -> None:
    found = {page.name: len(python_blocks(page)) for page in PAGES if page.name != "README.zh-CN.md"}
    counted = {name: RUN.get(name, 0) + ELSEWHERE.get(name, (0,))[0] for name in found}
    assert found == counted


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert headings[0] == aclnn.__version__
