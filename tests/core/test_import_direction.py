"""Data flows one way: which rooms may import which, and no file in an import circle.

Imports inside functions, under TYPE_CHECKING and by a constant name through importlib count. Backends and operator families
are found by name from data (``selection``, ``registry``), which is one edge down.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from import_graph import circles

import ascend_aclnn

PACKAGE = Path(ascend_aclnn.__file__).parent

# Room -> the rooms it may import, beside itself. A file at the top of the package is a room of its own.
ALLOWED = {
    "core": "",
    "catalog": "core",
    "recording": "core",
    "registry": "core catalog",
    "rules": "core catalog registry",
    "native": "core",
    "numerics": "core native",
    "collectives": "core numerics",
    "reference": "core catalog registry rules numerics native collectives",
    "interface": "core catalog",
    "backends": "core catalog interface rules reference numerics native collectives",
    "call": "core catalog interface rules",
    "emulator": "core catalog backends interface numerics collectives reference version",
    "layer": "core catalog backends emulator version recording replay",
}


@functools.cache
def modules() -> dict[str, Path]:
    """Module name -> file, of every module of the package."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ["ascend_aclnn", *path.relative_to(PACKAGE).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, types: bool) -> Iterator[str]:
    """The modules that a file imports; types: also those under TYPE_CHECKING."""
    yield from _imports(parsed(path), types)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(node: ast.AST, types: bool = False) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if not types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for part in child.orelse:
                yield from _imports(part)
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            assert child.level == 0, "imports are absolute"
            for alias in child.names:
                name = f"{child.module}.{alias.name}"
                yield name if name in modules() else child.module
        elif isinstance(child, ast.Call) and _last_name(child.func) == "import_module":
            yield from (a.value for a in child.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
        yield from _imports(child, types)


def _last_name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


@functools.cache
def graph(types: bool = True) -> dict[str, set[str]]:
    known = modules()
    return {name: {m for m in imports(path, types) if m in known and m != name} for name, path in known.items()}


def room(module: str) -> str:
    if module == "ascend_aclnn.backends.interface":  # known to what calls backends, which knows none of them
        return "interface"
    return module.split(".")[1] if "." in module else ""


def test_no_file_is_in_an_import_circle() -> None:
    assert circles(graph(types=False)) == []


def test_no_file_is_in_a_circle_of_types() -> None:
    assert circles(graph()) == []


@pytest.mark.parametrize("name", ALLOWED)
def test_a_room_imports_only_what_lies_below_it(name: str) -> None:
    allowed = {name, *ALLOWED[name].split()}
    assert [
        f"{m} -> {n}" for m, targets in graph().items() if room(m) == name for n in targets if room(n) not in allowed
    ] == []


def test_nothing_below_the_operators_imports_the_package_itself() -> None:
    assert [m for m, targets in graph().items() if "ascend_aclnn" in targets and room(m) in ALLOWED] == []


def test_only_the_command_line_knows_itself() -> None:
    assert [m for m, targets in graph().items() if room(m) != "cli" for n in targets if room(n) == "cli"] == [
        "ascend_aclnn.__main__"
    ]


def test_backends_do_not_know_each_other() -> None:
    for one, other in (("npu", "numpy"), ("numpy", "npu")):
        prefix, foreign = f"ascend_aclnn.backends.{one}", f"ascend_aclnn.backends.{other}"
        assert [
            m for m, targets in graph().items() if m.startswith(prefix) for t in targets if t.startswith(foreign)
        ] == []


def test_tests_are_collected_without_torch() -> None:
    """torch is no requirement of the tests; what needs it asks for the fixture, or skips with a reason."""
    tests = Path(__file__).parents[1]
    for path in tests.rglob("*.py"):
        if path.name == "torch_tools.py" or path.parent.name == "clients":  # imported where torch is, run by torch_npu
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.partition(".")[0] in ("torch", "torch_npu")], path


def test_the_finder_of_circles_finds_them() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [("a", "b", "c")]
    assert circles({"a": {"b"}, "b": set()}) == []
    guarded = "if TYPE_CHECKING:\n    import ascend_aclnn.ops"
    assert list(_imports(ast.parse(guarded), types=True)) == ["ascend_aclnn.ops"]
    assert list(_imports(ast.parse(guarded))) == []
    assert list(
        _imports(ast.parse("def f():\n    import importlib\n    importlib.import_module('ascend_aclnn.ops')"))
    ) == [
        "importlib",
        "ascend_aclnn.ops",
    ]
