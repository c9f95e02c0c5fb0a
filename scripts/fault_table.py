#!/usr/bin/env python
"""Operators that are wrong on purpose, and where that is noticed: a table; exit status 1 where one is missed.

    scripts/fault_table.py                     a C++ program, training in torch_npu (where it is installed) and MindSpore
    scripts/fault_table.py --write             also docs/results/faults.md
    scripts/fault_table.py --kind stale        one kind of fault
    scripts/fault_table.py --references        every reference made wrong, judged by the standard and the cases of verify
    scripts/fault_table.py --references --family norm --all      of one family, by all cases of the suite

The first ones run programs under the layer's check; ASCEND_ACLNN_MINDSPORE names a Python that has MindSpore. The emulated
device makes the faults (ASCEND_EMULATOR_FAULT, docs/emulator/reference.md). A row is right where every launch that the check
names is of the faulty operator, and there is one; "no fault" is right where none is named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

TRAINING = """
import torch, torch_npu
torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm = torch.nn.Embedding(50, 32), torch.nn.LayerNorm(32)
        self.first, self.second = torch.nn.Linear(32, 64), torch.nn.Linear(64, 50)

    def forward(self, x):
        return self.second(torch.relu(self.first(self.norm(self.embedding(x) * 1.3))))

net = Net().npu()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
x, y = (torch.randint(0, 50, (16,)).npu() for _ in range(2))
for _ in range(2):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    loss.item()
side = torch.npu.Stream()
with torch.npu.stream(side):  # nobody waits for it before the end
    late = torch.neg(net.first.weight.detach())
torch.npu.synchronize()
"""

C_PLUS_PLUS = r"""
#include "acl/acl.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_neg.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_softmax.h"
#include <vector>

static aclrtStream stream;

struct Array {
    void *data = nullptr;
    aclTensor *tensor = nullptr;
    Array(int64_t rows, int64_t columns, float seed) {
        std::vector<float> values(rows * columns);
        for (size_t i = 0; i < values.size(); i++) values[i] = seed * (float)((i * 7919) % 1009) / 1009 - seed / 2;
        int64_t dims[2] = {rows, columns};
        aclrtMalloc(&data, 4 * values.size(), ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtMemcpy(data, 4 * values.size(), values.data(), 4 * values.size(), ACL_MEMCPY_HOST_TO_DEVICE);
        tensor = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, data);
    }
    ~Array() {
        aclDestroyTensor(tensor);
        aclrtFree(data);
    }
};

typedef aclnnStatus phase_two(void *, uint64_t, aclOpExecutor *, aclrtStream);

static void run(phase_two *two, uint64_t size, aclOpExecutor *executor) {
    void *workspace = nullptr;
    if (size > 0) aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    two(workspace, size, executor, stream);
    aclrtSynchronizeStream(stream);
    if (workspace != nullptr) aclrtFree(workspace);
}

int main() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    {
        Array x(24, 40, 3), weight(40, 32, 2), scaled(24, 40, 0), product(24, 32, 0), hidden(24, 32, 0), result(24, 32, 0);
        double factor = 1.3;
        aclScalar *scale = aclCreateScalar(&factor, ACL_DOUBLE);
        uint64_t size = 0;
        aclOpExecutor *executor = nullptr;
        aclnnMulsGetWorkspaceSize(x.tensor, scale, scaled.tensor, &size, &executor);
        run(aclnnMuls, size, executor);
        aclnnMmGetWorkspaceSize(scaled.tensor, weight.tensor, product.tensor, 0, &size, &executor);
        run(aclnnMm, size, executor);
        aclnnReluGetWorkspaceSize(product.tensor, hidden.tensor, &size, &executor);
        run(aclnnRelu, size, executor);
        aclnnSoftmaxGetWorkspaceSize(hidden.tensor, -1, result.tensor, &size, &executor);
        run(aclnnSoftmax, size, executor);
        aclrtStream side = nullptr; /* nobody waits for it before the end */
        aclrtCreateStream(&side);
        aclnnNegGetWorkspaceSize(result.tensor, hidden.tensor, &size, &executor);
        aclnnNeg(nullptr, 0, executor, side);
        aclrtSynchronizeDevice();
        aclrtDestroyStream(side);
        aclDestroyScalar(scale);
    }
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
}
"""

# Kind of fault -> the operator that has it, in C++, torch_npu and MindSpore. "late": it fails on another stream.
FAULTS = {
    "wrong-rounding": ("aclnnMuls", "aclnnMuls", "aclnnMuls"),
    "wrong-element": ("aclnnSoftmax", "aclnnReduceSum", "aclnnMean"),
    "axes-swapped": ("aclnnMm", "aclnnMm", "aclnnMatmul"),
    "tail": ("aclnnMm", "aclnnLayerNormBackward", "aclnnTanh"),
    "low-precision": ("aclnnMm", "aclnnAddmm", "aclnnMatmul"),
    "stale": ("aclnnRelu", "aclnnEmbedding", "aclnnTanh"),
    "fail": ("aclnnMm", "aclnnRelu", "aclnnTanh"),
    "late": ("aclnnNeg", "aclnnNeg", "aclnnNeg"),
    "": ("", "", ""),
}
PROGRAMS = ("C++", "torch_npu", "MindSpore")


def findings(program: list[str], home: Path, fault: str, folder: Path) -> list[dict[str, Any]]:
    """What the check says of a program with a fault."""
    from ascend_aclnn.cli.emulator import environment

    report = folder / "report.json"
    settings = {"ASCEND_EMULATOR_FAULT": fault, "ASCEND_EMULATOR_LEAKS": "0", "OMP_NUM_THREADS": "1", "GLOG_v": "4"}
    variables = environment(home, **settings)
    command = [
        sys.executable,
        "-m",
        "ascend_aclnn",
        "layer",
        "run",
        "--check",
        "--failures",
        "off",
        "--report",
        str(report),
    ]
    command += ["--", *program]
    report.unlink(missing_ok=True)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=ROOT, check=False)
    if not report.exists():
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    (said,) = json.loads(report.read_text(encoding="utf-8")).values()
    return [finding for finding in said["findings"] if finding["kind"] != "NaN or infinity"]


# ------------------------------------------------------------------------------------------------- references

RUNS = 8  # of a job among ranks, at most
REFERENCE_FAULTS = ("wrong-rounding", "wrong-element", "axes-swapped", "low-precision", "tail")


def noticed(name: str, thorough: bool) -> tuple[dict[str, str], str]:
    """Of each kind of fault in an operator's reference: "caught", "missed", "allowed" by the standard, or "-": no difference.

    And why a wrong rounding is missed.
    """
    import numpy as np

    import ascend_aclnn as aclnn
    from ascend_aclnn import catalog
    from ascend_aclnn.testing.rounding import ENOUGH, Sides
    from ascend_aclnn.verify import suite
    from ascend_aclnn.verify.calls import NULL, SPECIAL, NoCase, arrays, reference_results

    operator = catalog.get(name)
    soc = suite.soc_of(operator)
    sides: dict[str, Sides] = {}
    verdicts = dict.fromkeys(REFERENCE_FAULTS, "-")
    with aclnn.use_backend("numpy", soc=soc), np.errstate(all="ignore"):
        items = list(suite.numbered(operator, soc))
        chosen = items if thorough else suite.usual(items)
        for item in chosen:
            left = [kind for kind, verdict in verdicts.items() if verdict != "caught"]
            if item.case.values == NULL or not left:
                continue
            try:
                results = reference_results(operator, item.case, soc)
            except NoCase:
                continue
            wanted = [np.asarray(value) for value in arrays(results) if value is not None]
            for kind in left:
                verdict = _verdict(operator, kind, wanted, sides if item.case.values not in SPECIAL else {})
                verdicts[kind] = max(verdicts[kind], verdict, key=VERDICTS.index)
        small = verdicts["wrong-rounding"] == "missed" and not operator.data_dependent
        for item in suite.again(chosen) if small else ():
            if not any(0 < side.size < ENOUGH for side in sides.values()):
                break
            try:
                results = reference_results(operator, item.case, soc)
            except NoCase:
                continue
            wanted = [np.asarray(value) for value in arrays(results) if value is not None]
            _verdict(operator, "wrong-rounding", wanted, sides)
    return verdicts, _over_all_cases(verdicts, sides)


def noticed_among_ranks(name: str) -> tuple[dict[str, str], str]:
    """The same of an operator of a job among ranks: one run of the job, more for a wrong rounding of few numbers."""
    import numpy as np

    from ascend_aclnn import catalog
    from ascend_aclnn.testing.rounding import ENOUGH, Sides
    from ascend_aclnn.verify import ranks

    operator = catalog.get(name)
    sides: dict[str, Sides] = {}
    verdicts = dict.fromkeys(REFERENCE_FAULTS, "-")
    for seed in range(RUNS):
        results = ranks.values(operator, ranks.on_numpy(ranks.WORKS[name], seed))
        wanted = [np.asarray(value) for value in results if value is not None]
        for kind in REFERENCE_FAULTS if seed == 0 else ("wrong-rounding",):
            verdicts[kind] = max(verdicts[kind], _verdict(operator, kind, wanted, sides), key=VERDICTS.index)
        if verdicts["wrong-rounding"] != "missed" or not any(0 < side.size < ENOUGH for side in sides.values()):
            break
    return verdicts, _over_all_cases(verdicts, sides)


def _over_all_cases(verdicts: dict[str, str], sides: dict[str, Any]) -> str:
    """Judges a wrong rounding over all cases; why it is missed."""
    from ascend_aclnn.testing.rounding import ENOUGH

    if any(side.fault for side in sides.values()):
        verdicts["wrong-rounding"] = "caught"
    counted = ", ".join(f"{side.size} {dtype}" for dtype, side in sides.items() if side.size)
    return f"{counted or 'no'} elements that are rounded, and of fixed values: {ENOUGH} are needed"


VERDICTS = ("-", "allowed", "missed", "caught")
_WIDE = ("float32", "float64", "complex64", "complex128")  # a step of these is within what CANN's standard allows


def _verdict(operator: Any, kind: str, wanted: list[Any], sides: dict[str, Any]) -> str:
    """What comes of results that are spoilt. ``sides`` counts to which side they are rounded, over all cases."""
    import numpy as np

    from ascend_aclnn.emulator.process.faults import spoil
    from ascend_aclnn.testing.rounding import Sides
    from ascend_aclnn.verify.judge import compared

    spoilt = [array.copy() for array in wanted if array.size]
    for array in spoilt:
        before = np.frombuffer(b"\x5b" * array.itemsize, array.dtype)[0]
        spoil(kind, array, before)
    pairs = [(bad, good) for bad, good in zip(spoilt, (a for a in wanted if a.size)) if bad.tobytes() != good.tobytes()]
    if not pairs:
        return "-"
    if any(compared(operator, bad, good)[0] for bad, good in pairs):
        return "caught"
    if kind == "wrong-rounding":
        for bad, good in pairs:
            sides.setdefault(bad.dtype.name, Sides(operator.name)).add(bad, good)
        if all(bad.dtype.name in _WIDE for bad, _ in pairs):
            return "allowed"
    return "missed"


def reference_table(families: list[str], thorough: bool) -> int:
    """Prints a row for each family, and the operators of which a fault is missed; how many those are."""
    from collections import Counter

    from ascend_aclnn import catalog
    from ascend_aclnn.verify import suite
    from ascend_aclnn.verify.ranks import WORKS

    count: dict[str, Counter[tuple[str, str]]] = {}
    missed: dict[str, list[str]] = {}
    for name in catalog.names():
        operator = catalog.get(name)
        chosen = not families or operator.family in families or operator.family.rpartition("/")[2] in families
        if operator.name not in suite.read(operator.family) or not chosen:
            continue
        if operator.accuracy_standard == "unspecified":
            continue  # random values
        verdicts, why = noticed_among_ranks(name) if operator.name in WORKS else noticed(name, thorough)
        for kind, verdict in verdicts.items():
            count.setdefault(operator.family, Counter())[kind, verdict] += 1
            if verdict == "missed":
                missed.setdefault(kind, []).append(f"{name} ({why})" if kind == "wrong-rounding" else name)
    print(f"{'caught of those that the fault changes':40}" + "".join(f"{kind:>16}" for kind in REFERENCE_FAULTS))
    total: Counter[tuple[str, str]] = sum(count.values(), Counter())
    for title, counted in [*sorted(count.items()), ("all", total)]:
        cells = (f"{counted[k, 'caught']}/{counted[k, 'caught'] + counted[k, 'missed']}" for k in REFERENCE_FAULTS)
        print(f"{title:40}" + "".join(f"{cell:>16}" for cell in cells))
    cells = (str(total[kind, "-"]) for kind in REFERENCE_FAULTS)
    print(f"{'not applicable: no element changes':40}" + "".join(f"{cell:>16}" for cell in cells))
    cells = (str(total[kind, "allowed"]) for kind in REFERENCE_FAULTS)
    print(f"{'within the standard: FLOAT alone':40}" + "".join(f"{cell:>16}" for cell in cells))
    for kind, names in missed.items():
        print(f"{kind} missed: {len(names)}\n  " + "\n  ".join(names))
    return sum(map(len, missed.values()))


def main() -> int:
    from ascend_aclnn.emulator.build import build, find_compiler

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=[kind for kind in FAULTS if kind])
    parser.add_argument("--program", nargs="+", choices=PROGRAMS, default=PROGRAMS, help="only these (default: all)")
    parser.add_argument("--write", action="store_true", help="also write docs/results/faults.md")
    parser.add_argument("--references", action="store_true", help="faults in references, by the cases of verify")
    parser.add_argument("--family", nargs="+", default=[], metavar="F", help="with --references: of these")
    parser.add_argument("--all", action="store_true", help="with --references: all cases of the suite")
    options = parser.parse_args()
    if options.references:
        return 1 if reference_table(options.family, options.all) else 0
    home = build()
    missed = 0
    rows: list[list[str]] = []
    print(f"{'program':10} {'fault':16} {'in operator':26} {'named first':32} {'all named':20}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, binary = folder / "program.cpp", folder / "program"
        source.write_text(C_PLUS_PLUS, encoding="utf-8")
        places = [f"-I{home / 'include'}", f"-L{home / 'lib64'}", "-lopapi", "-lnnopbase", "-lascendcl"]
        subprocess.run([find_compiler(), str(source), *places, "-lstdc++", "-o", str(binary)], check=True)
        programs = {"C++": [str(binary)]}
        if importlib.util.find_spec("torch_npu"):
            programs["torch_npu"] = [sys.executable, "-c", TRAINING]
        if os.environ.get("ASCEND_ACLNN_MINDSPORE"):
            checked = ROOT / "tests" / "emulator" / "clients" / "mindspore_checked.py"
            programs["MindSpore"] = [os.environ["ASCEND_ACLNN_MINDSPORE"], str(checked)]
        for title, program in programs.items():
            for kind, operators in FAULTS.items():
                if options.kind not in (None, kind) or title not in options.program:
                    continue
                operator = operators[PROGRAMS.index(title)]
                made = "fail" if kind == "late" else kind
                found = findings(program, home, f"{operator}:{made}" if kind else "", folder)
                names = {finding["operator"] for finding in found}
                right = names == ({operator} if kind else set())
                missed += not right
                first = f"#{found[0]['index']} {found[0]['operator']}" if found else "none"
                verdict = "" if right else "  MISSED"
                rows.append(
                    [f"{title}: {kind or 'no fault'}", operator, first, str(len(found)), "yes" if right else "NO"]
                )
                print(
                    f"{title:10} {kind or 'no fault':16} {operator:26} {first:32} {len(found):3} launches{verdict}",
                    flush=True,
                )
    if options.write:
        write(rows)
    return 1 if missed else 0


def write(rows: list[list[str]]) -> None:
    """The table as a page."""
    import bench_results

    text = (
        "One operator of a program is wrong on purpose, and `layer run --check` names launches: right where there is one, and "
        "each is of that operator. Kinds: [faults on purpose](../emulator/reference.md#faults-on-purpose); late: the operator "
        "fails on a stream for which nobody waits."
    )
    head = ["", "in operator", "named first", "launches named", "right"]
    bench_results.write(
        "faults", "Faults on purpose", "scripts/fault_table.py --write", text, [bench_results.Table(head, rows)]
    )


if __name__ == "__main__":
    sys.exit(main())
