"""docs/trust.md: one page, whose commands do what it says, here on the emulated device with an operator that is wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.cli.main import main
from ascend_aclnn.recording import Recording

PAGE = (Path(__file__).parents[2] / "docs" / "trust.md").read_text(encoding="utf-8")
TABLE = re.findall(r"\| `(ascend-aclnn [^`]+)` \|", PAGE)
BLOCK = [re.split(r"\s{2,}#", line)[0] for line in re.findall(r"^\$ (ascend-aclnn .+)$", PAGE, re.M)]
PROGRAM = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
x = aclnn.asarray(np.linspace(-1, 1, 64, dtype=np.float32))
print(ops.abs(ops.exp(ops.neg(x))).numpy().sum() > 0)
"""
STATUS = {"doctor": (0,), "verify": (0,), "layer": (0, 1), "recording": (0,), "replay": (0, 1)}


def test_it_is_one_page() -> None:
    assert len(PAGE.split()) < 600 and len(TABLE) == 7 and len(BLOCK) == 5


@pytest.mark.parametrize("command", [*TABLE, *BLOCK])
def test_its_options_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    names = words[:2] if words[0] in ("layer", "recording") else words[:1]
    with pytest.raises(SystemExit) as ended:
        main([*names, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    options = words[: words.index("--")] if "--" in words else words
    assert [word for word in options if word.startswith("--") and word not in said] == []


@pytest.mark.long
def test_its_commands_find_the_operator(emulator_home: Path, tmp_path: Path) -> None:
    variables = environment(emulator_home, ASCEND_EMULATOR_FAULT="aclnnExp:wrong-element", ASCEND_EMULATOR_LEAKS="0")
    home = str(Path(__file__).parents[2])
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [home, variables.get("PYTHONPATH", "")]))

    def run(command: str, folder: Path) -> str:
        words = [sys.executable, "-m", "ascend_aclnn", *shlex.split(command)[1:]]
        words = [sys.executable if word == "python" else word for word in words]
        if words[3] == "verify":
            words += ["--family", "control"]  # the whole takes minutes
        done = subprocess.run(
            words, env=variables, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode in STATUS[words[3]], (command, done.stdout, done.stderr)
        return done.stdout

    index = None
    for number, command in enumerate(TABLE):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
        said = run(command, folder)
        if "--check" in command and "sample" not in command:
            index = int(re.search(r"first wrong launch: #(\d+) aclnnExp: ", said)[1])  # type: ignore[index]
        for name in re.findall(r"(?:--report|--record) (\S+)", command):
            assert (folder / name).exists(), command
        if "--check first" in command:
            (said_json,) = json.loads((folder / "wrong.json").read_text(encoding="utf-8")).values()
            assert [finding["operator"] for finding in said_json["findings"]] == ["aclnnExp"]
        if "--data first" in command:
            recording = folder
    assert index is not None
    answers = [run(re.sub(r"\bN\b", str(index), command), recording) for command in BLOCK]
    assert "aclnnExp" in answers[0] and "before:" in answers[0]
    assert f"first difference: #{index} aclnnExp" in answers[1]
    assert "1 launches as recorded" in answers[2]  # the device does it again
    with Recording(recording / "wrong.aclnn") as part:
        assert [launch.operator.name for launch in part.launches] == ["aclnnExp"]
    assert "recorded" in (recording / "test_case.py").read_text()
