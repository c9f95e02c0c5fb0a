"""Makes ascend_aclnn/catalog/data/modules.txt: which module declares each operator's rule, and which its reference.

python scripts/make_module_index.py           # writes the file
python scripts/make_module_index.py --check   # says whether it is up to date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ascend_aclnn import catalog, registry
from ascend_aclnn.reference import declare
from ascend_aclnn.rules import language


class Recorder(dict[str, Any]):
    """A registry that notes which module was being imported when a name was registered."""

    def __init__(self, package: str) -> None:
        super().__init__()
        self.package = package + "."
        self.modules: dict[str, str] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        frame: Any = sys._getframe(1)
        while frame.f_code.co_name != "<module>" or not frame.f_globals["__name__"].startswith(self.package):
            frame = frame.f_back
        self.modules[name] = frame.f_globals["__name__"][len(self.package) :]
        super().__setitem__(name, value)


def index() -> str:
    rules, references = (Recorder(package) for package in registry.PACKAGES)
    language.declared, declare.REFERENCES = rules, references
    for package in registry.PACKAGES:
        registry.load_all(package)
    head = "# operator, module of rules, module of reference; made by scripts/make_module_index.py\n"
    rows = (f"{n} {rules.modules.get(n, '-')} {references.modules.get(n, '-')}\n" for n in sorted(catalog.names()))
    return head + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    made = index()
    if not options.check:
        registry.INDEX.write_text(made, encoding="utf-8")
        return 0
    current = registry.INDEX.read_text(encoding="utf-8") if registry.INDEX.exists() else ""
    print("modules.txt is up to date" if made == current else "modules.txt is stale: run scripts/make_module_index.py")
    return int(made != current)


if __name__ == "__main__":
    sys.exit(main())
