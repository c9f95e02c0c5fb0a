"""Times completion after ``ops.`` in editors: jedi (IPython, Jupyter, vim) and pyright (VS Code), in seconds.

For pyright also what the size of the stub costs: processor time of the first completion with the stub as it is, without its
docstrings, with one overload of each function, and with three functions. Processor time is read from /proc (Linux).

python scripts/bench_completion.py        needs: pip install jedi basedpyright
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TEXT = "from ascend_aclnn import ops\nops."

JEDI = """
import sys, tempfile, time
import jedi
jedi.settings.cache_directory = tempfile.mkdtemp()
{setup}
for _ in range(2):
    start = time.perf_counter()
    found = {complete}
    print(len(found), time.perf_counter() - start)
"""


def jedi(setup: str, complete: str) -> list[tuple[int, float]]:
    """Names and seconds of the first and the second completion in a process, without jedi's cache on disk."""
    program = JEDI.format(setup=setup, complete=complete)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    rows = [line.split() for line in done.stdout.splitlines()]
    return [(int(count), float(seconds)) for count, seconds in rows]


class LanguageServer:
    """As much of the Language Server Protocol as one completion needs."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", "from basedpyright.langserver import main; main()", "--stdio"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        self.number = 0
        place = {"uri": folder.as_uri(), "name": folder.name}
        self.ask(
            "initialize", {"processId": None, "rootUri": place["uri"], "workspaceFolders": [place], "capabilities": {}}
        )
        self.tell("initialized", {})

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.process.stdin.flush()

    def tell(self, method: str, parameters: Any) -> None:
        self.send({"method": method, "params": parameters})

    def ask(self, method: str, parameters: Any) -> Any:
        """The answer to a request; what the server asks meanwhile is answered with nothing."""
        self.number += 1
        self.send({"id": self.number, "method": method, "params": parameters})
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                return message["result"]
            if "id" in message:
                items = message.get("params", {}).get("items")
                self.send({"id": message["id"], "result": [{} for _ in items] if items else None})

    def receive(self) -> dict[str, Any]:
        stream = self.process.stdout
        assert stream is not None
        length = 0
        while (line := stream.readline()) != b"\r\n":
            if not line:
                raise RuntimeError("the language server has ended")
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(stream.read(length))
        return message


def processor_time(root: int) -> float:
    """Seconds of a process and of those that it has started."""
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            spent[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total, left = 0.0, [root]
    while left:
        process = left.pop()
        total += spent.get(process, 0.0)
        left += children.get(process, [])
    return total


def pyright(package: Path = ROOT) -> list[tuple[int, float, float]]:
    """Names, seconds and processor time of the first and the second completion of a server that has just started."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(package)]}))
        server = LanguageServer(Path(folder))
        try:
            file = (Path(folder) / "program.py").as_uri()
            document = {"uri": file, "languageId": "python", "version": 1, "text": TEXT}
            server.tell("textDocument/didOpen", {"textDocument": document})
            rows = []
            for _ in range(2):
                start, before = time.perf_counter(), processor_time(server.process.pid)
                place = {"textDocument": {"uri": file}, "position": {"line": 1, "character": 4}}
                answer = server.ask("textDocument/completion", place)
                spent = processor_time(server.process.pid) - before
                rows.append((len(answer["items"]), time.perf_counter() - start, spent))
            return rows
        finally:
            server.process.terminate()
            server.process.wait()


def stubs() -> Iterator[tuple[str, str]]:
    """The stub, and smaller ones of the same functions."""
    text = (ROOT / "ascend_aclnn" / "ops.pyi").read_text(encoding="utf-8")
    yield "the stub as it is", text
    yield "without docstrings", re.sub(r'\n    """.*?"""', " ...", text, flags=re.S)
    known: set[str] = set()
    parts = []
    for part in re.split(r"(?m)^(?=@overload|@deprecated|class |def )", text):
        name = re.match(r"def (\w+)", part)
        if part.startswith("@") or (name and name[1] in known):
            continue
        known.update(name.groups() if name else ())
        parts.append(part)
    yield "one overload of each", "".join(parts)
    yield "three functions", "".join(parts[:4])


def main_of_stubs() -> None:
    for label, text in stubs():
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "ascend_aclnn"
            shutil.copytree(
                ROOT / "ascend_aclnn", package, ignore=shutil.ignore_patterns("data", "csrc", "__pycache__")
            )
            (package / "ops.pyi").write_text(text, encoding="utf-8")
            (_, first, spent), _ = pyright(Path(folder))
        print(f"pyright, {label:<21} {len(text) / 1e6:.2f} MB, first {first:.2f} s, {spent:.2f} s of processor time")


def main() -> None:
    program = f"jedi.Script({TEXT!r}).complete(2, 4)"
    for label, rows in (
        (
            "jedi in a shell (IPython)",
            jedi("from ascend_aclnn import ops", "jedi.Interpreter('ops.', [globals()]).complete()"),
        ),
        ("jedi in a file", jedi("", program)),
        ("pyright", [(count, seconds) for count, seconds, _ in pyright()]),
    ):
        (count, first), (_, second) = rows
        print(f"{label:<28} {count} names, first {first:.2f} s, then {second:.2f} s")
    main_of_stubs()


if __name__ == "__main__":
    main()
