"""Generated files are what scripts/generate.py makes, in any clone: everything they derive from is in the repository."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_reports_what_would_change() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import generate
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    path = ROOT / "docs" / "operators" / "README.md"
    words = generate.report(path, generate.present(path).replace("# Operators", "# Something else"))
    assert words.splitlines()[0] == "docs/operators/README.md:"
    assert "-# Operators" in words and "+# Something else" in words


def test_the_picture_is_well_formed() -> None:
    root = ElementTree.parse(ROOT / "docs" / "operators" / "coverage.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert sum(element.tag.endswith("text") for element in root) > 50
