"""What builds of C sources do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_aclnn.emulator.build import compiler


def compiled_sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of sources that are compiled from now on."""
    compiled: list[str] = []
    run_compiler = compiler.run_compiler

    def noted(command: list[str]) -> None:
        if "-c" in command:
            compiled.append(Path(command[command.index("-c") + 1]).name)
        run_compiler(command)

    monkeypatch.setattr(compiler, "run_compiler", noted)
    return compiled
