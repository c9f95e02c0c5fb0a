"""The pages: links lead somewhere, both READMEs have the same structure, code in them runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from recordings import record_an_addition

import ascend_aclnn as aclnn
from ascend_aclnn.backends.interface import Backend

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "README.zh-CN.md",
        ROOT / "CONTRIBUTING.md",
        *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "operators"),
    ]
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def anchor_of(heading: str) -> str:
    """As GitHub and MkDocs make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_anchors_are_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        assert anchor in map(anchor_of, re.findall(r"^#+ (.+)$", text, re.M)), f"{page.name}: {target}#{anchor}"


EVERY_FILE = {
    "/" + path.relative_to(ROOT).as_posix()
    for folder in ("ascend_aclnn", "docs", "samples", "scripts", "tests", "vendors")
    for path in (ROOT / folder).rglob("*")
    if "__pycache__" not in path.parts
} | {f"/{path.name}" for path in ROOT.iterdir()}
# Files of users, of builds, of CANN and of torch_npu.
ELSEWHERE_FILES = {
    "acl_default.json",
    "ascend_emulator_trace_PID_N.json",
    "atb/atb_acl.h",  # of ATB; the emulated one is written by build/atb.py
    "emulator.json",
    "layer.json",
    "report/result.json",
    "trace_view.json",
    "used.json",
    "wrong.json",
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_pages_name_exist(page: Path) -> None:
    """Sources in backquotes, whose first folders a page may leave out, and what commands name of tests, scripts and samples."""
    text = page.read_text(encoding="utf-8")
    commands = "".join(re.findall(r"```console\n(.*?)```", text, re.S))
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    named = set(re.findall(r"`((?:[\w.-]+/)*\w[\w-]*\.(?:py|c|h|json|md|toml))`", prose))
    named |= set(re.findall(r"(?<![\w/])((?:tests|scripts|samples)/[\w./-]*\w)", commands))
    missing = [path for path in sorted(named - ELSEWHERE_FILES) if not any(f.endswith(f"/{path}") for f in EVERY_FILE)]
    assert missing == []


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


TRANSLATED = [page for page in PAGES if page.name.endswith(".zh-CN.md")]


def original(page: Path) -> Path:
    return page.with_name(page.name.replace(".zh-CN", ""))


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_translations_have_the_structure_and_the_code_of_their_originals(page: Path) -> None:
    """A heading, a command, a row or an item that only one of them has fails here: bring the other up to date."""
    assert structure(original(page)) == structure(page)


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_translations_and_originals_lead_to_each_other(page: Path) -> None:
    assert f"[English]({original(page).name})" in page.read_text(encoding="utf-8")
    assert re.search(rf"\[中文(说明)?\]\({re.escape(page.name)}\)", original(page).read_text(encoding="utf-8"))


def prose(text: str) -> str:
    """Without inline code, the targets of links, and what Python code has before a comment."""
    text = re.sub(r"`[^`\n]+`", "X", re.sub(r"\]\([^)\n]*\)", "]", text))
    return "\n".join(re.sub(r"^[^#]*#", "#", line) if "  #" in line else line for line in text.splitlines())


CHINESE = "[\u4e00-\u9fff]"


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_chinese_has_full_width_marks_and_no_broken_lines(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    assert re.findall(rf".{{0,10}}(?:{CHINESE} *[,:;!?()]|[,:;!?()] *{CHINESE}).{{0,10}}", text) == []
    assert re.findall(rf".{{0,10}}(?:{CHINESE}[A-Za-z0-9]|[A-Za-z0-9]{CHINESE}).{{0,10}}", text) == []
    # A line end between Chinese characters is a space on a page.
    assert re.findall(rf".{{0,10}}{CHINESE}[，。；：、）]?\n(?:{CHINESE}|[（“]).{{0,10}}", text) == []


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_a_link_from_chinese_to_an_english_page_says_so(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for label, target, after in re.findall(r"\[([^\]]+)\]\(([^)#:]+\.md)(?:#[^)]*)?\)(.{0,12})", text):
        if label == "English" or target.endswith(".zh-CN.md") or "glossary" in target:
            continue
        assert not (page.parent / target.replace(".md", ".zh-CN.md")).exists(), f"{label}: there is a page in Chinese"
        assert after.startswith(("（英文）", "（中文见")), f"{label} ({target})"


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


def test_the_page_on_graphs_runs(each_backend: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "graphs.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    for block in python_blocks(ROOT / "docs" / "graphs.md"):
        exec(compile(block, "graphs.md", "exec"), scope)
    aclnn.synchronize()
    assert (scope["y"].numpy() == 16).all()
    assert (scope["z"].numpy() == 8).all()
    printed = capsys.readouterr().out.splitlines()
    shown = page.partition("```text\n")[2].partition("\n```")[0].splitlines()
    assert printed[1:] == shown[1:]
    if each_backend.name == "numpy":
        assert printed[0] == shown[0]


def test_the_page_on_performance_runs(
    each_backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks(ROOT / "docs" / "performance.md")
    exec(compile(block, "performance.md", "exec"), {})
    table, result = capsys.readouterr().out.rsplit("rms_norm: ", 1)
    assert "aclnnRmsNorm" in table and " a call, " in result
    assert (tmp_path / "step.json").stat().st_size > 0


def test_the_page_on_arrays_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    with aclnn.use_backend("numpy"):
        for block in python_blocks(ROOT / "docs" / "arrays.md"):
            exec(compile(block, "arrays.md", "exec"), scope)
    assert scope["tensors"]["scale"].tolist() == [1, 2.5]


def test_the_page_on_recordings_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    record_an_addition(tmp_path / "run.aclnn")
    exec(python_blocks(ROOT / "docs" / "recording.md")[0], {})
    assert "0 aclnnAdd (0, 0)" in capsys.readouterr().out


def test_the_page_on_torch_runs(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    layer, shapes = python_blocks(ROOT / "docs" / "torch.md")
    scope: dict[str, Any] = {}
    with aclnn.use_backend("numpy"):
        exec(compile(layer, "torch.md", "exec"), scope)
        assert scope["x"].grad.shape == (4, 8)
        exec(compile(shapes, "torch.md", "exec"), scope)
    assert capsys.readouterr().out == shapes.splitlines()[-1][2:] + "\n"


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
    "docs/adding-an-operator.md": (4, "test_adding_an_operator.py"),
    "docs/distributed.md": (2, "two ranks, and two devices: tests/collectives"),
    "docs/emulator/graphs.md": (1, "tests/emulator/clients/suite_graphs.py"),
    "docs/emulator/torch-npu.md": (1, "tests/emulator/test_activate.py"),
    "docs/emulator/validate.md": (25, "tests/emulator/test_validate.py"),
    "docs/emulator/vllm.md": (1, "tests/emulator/test_triton.py"),
    "docs/hardware.md": (1, "torch tensors of a device: tests/emulator/clients"),
    "docs/testing.md": (2, "a user's tests: samples/testing_project, tests/testing/test_plugin.py"),
}
RUN = {
    "README.md": 4,
    "docs/arrays.md": 2,
    "docs/distributed.md": 1,
    "docs/graphs.md": 3,
    "docs/performance.md": 1,
    "docs/recording.md": 1,
    "docs/streams.md": 3,
    "docs/testing.md": 1,
    "docs/torch.md": 2,
}


def test_every_block_of_python_is_run_somewhere() -> None:
    found = {name_of(page): len(python_blocks(page)) for page in PAGES if page not in TRANSLATED}
    counted = {name: RUN.get(name, 0) + ELSEWHERE.get(name, (0,))[0] for name in found}
    assert found == counted


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert headings[0] == aclnn.__version__
