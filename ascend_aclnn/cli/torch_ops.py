"""``ascend-aclnn torch-ops``: which operators torch can compile, export and differentiate."""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
from typing import Any

USUAL = ("no reference", "changes an argument in place")  # reasons that are counted; others are listed by operator


def add_commands(commands: Any) -> None:
    parser = commands.add_parser(
        "torch-ops", help="torch.library.opcheck of all operators, and which have a gradient (needs torch)"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators by C name (default: all, some ten minutes)")
    parser.add_argument("--json", action="store_true", help="one object for each operator")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ascend_aclnn import catalog
    from ascend_aclnn.core.progress import Progress
    from ascend_aclnn.verify import torch_ops

    if importlib.util.find_spec("torch") is None:
        raise ValueError("torch is not installed; it is what checks its operators")
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # the checks run on the host
    names = options.names or list(catalog.names())
    for name in names:
        if name not in catalog.python_names().values():
            raise ValueError(catalog.unknown_name(name))
    results = []
    with Progress("torch.library.opcheck", len(names)) as progress:
        for result in torch_ops.check(names):
            results.append(result)
            progress.step()
    if options.json:
        print(json.dumps([result._asdict() for result in results], indent=1))
    else:
        for result in results:
            if result.status == "fails" or (result.status == "not checked" and result.reason not in USUAL):
                print(f"{result.operator}: {result.status}: {result.reason}")
            if result.fixed_sizes:
                print(f"{result.operator}: {result.fixed_sizes} sizes become numbers where torch traces symbolic ones")
        reasons = collections.Counter(r.reason for r in results if r.status == "not checked" and r.reason in USUAL)
        print("\n".join(f"{count} not checked: {reason}" for reason, count in reasons.most_common()))
        counts = collections.Counter(result.status for result in results)
        gradients = sum(result.has_gradient for result in results)
        print(f"opcheck: {counts['passes']} pass, {counts['fails']} fail, {counts['not checked']} are not checked")
        print(f"gradients: {gradients} operators are differentiated")
        open_ = sum(result.status == "passes" and not result.fixed_sizes for result in results)
        print(f"dynamic sizes: {open_} of {counts['passes']} keep all sizes symbolic")
    return int(any(result.status == "fails" for result in results))
