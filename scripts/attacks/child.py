"""A turn of a scenario: python -m attacks.child NAME SEED SECONDS DIRECTORY [ROUND]. Writes DIRECTORY/result.json."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

from attacks.scenario import Finding, Run, load


def main() -> None:
    name, seed, seconds, directory, *only = sys.argv[1:]
    run = Run(int(seed), float(seconds), Path(directory), int(only[0]) if only else None)
    finding = None
    try:
        load()[name].body(run)
    except Finding as error:
        finding = str(error)
    except Exception:
        finding = f"round {run.round}: {traceback.format_exc()}"
    result = {"finding": finding, "rounds": run.round + 1, "counts": dict(run.counts)}
    Path(directory, "result.json").write_text(json.dumps(result), encoding="utf-8")
    sys.exit(finding is not None)


if __name__ == "__main__":
    main()
