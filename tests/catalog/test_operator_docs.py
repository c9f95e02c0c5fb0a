"""The operator reference in docs/operators is what its script makes."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_committed_pages_are_what_the_script_makes() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_operator_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_picture_is_well_formed() -> None:
    root = ElementTree.parse(ROOT / "docs" / "operators" / "coverage.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert sum(element.tag.endswith("text") for element in root) > 50
