"""vLLM with vllm-ascend, unmodified, where ASCEND_ACLNN_VLLM names a Python that has them (scripts/demo_vllm makes one)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPERATORS = ROOT / "vendors" / "vllm_ascend" / "vllm_ascend_operators"


@pytest.fixture
def python() -> str:
    found = os.environ.get("ASCEND_ACLNN_VLLM")
    if not found:
        pytest.skip("vLLM's environment is 8 GB: scripts/demo_vllm makes it, ASCEND_ACLNN_VLLM names its Python")
    return found


def run(python: str, *program: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment.update({"ASCEND_EMULATOR_LEAKS": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    command = [python, "-m", "ascend_aclnn", "emulator", "run", "--cann", "9.0.0", "--operators", str(OPERATORS), "--"]
    done = subprocess.run([*command, python, *program], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_a_server_answers_a_prompt(python: str) -> None:
    done = run(python, str(ROOT / "samples" / "vllm_server.py"))
    assert re.search(r"^tokens      16 in ", done.stdout, re.M), done.stdout


KERNELS = """
import torch, torch_npu
import vllm_ascend.vllm_ascend_C

C = torch.ops._C_ascend
torch.manual_seed(0)

def same(got, expected, step):
    print(torch.allclose(got.cpu().double(), expected.double(), rtol=step, atol=step))

for dtype in (torch.float16, torch.bfloat16):
    step = 2 * torch.finfo(dtype).eps
    x, down, up = torch.randn(5, 64, dtype=dtype), torch.randn(3, 1, 8, 64, dtype=dtype), torch.randn(3, 32, 8, dtype=dtype)
    adapters, y, whole = torch.tensor([0, 1, 2, 2, 1]), torch.zeros(5, 8).npu(), torch.randn(5, 100, dtype=dtype)
    expected = 0.5 * torch.einsum("th,trh->tr", x.double(), down[adapters, 0].double())
    C.bgmv_shrink(x.npu(), down.npu(), adapters.npu(), y, 0.5)
    same(y, expected, 1e-5)
    y.zero_()
    C.sgmv_shrink(x.npu(), down.npu(), torch.tensor([0, 1, 2, 1]).npu(), torch.tensor([1, 1, 2, 1]).npu(), y, 0.5)
    same(y, expected, 1e-5)
    result = whole.npu()
    C.bgmv_expand(y, up.npu(), adapters.npu(), result, 16, 32)
    whole = whole.double()
    whole[:, 16:48] += torch.einsum("tr,tcr->tc", expected, up[adapters].double())
    same(result, whole, step)
    a, b = torch.randn(6, 4, 32, dtype=dtype), torch.randn(4, 32, 48, dtype=dtype)
    for right, form in ((b, "ND"), (b.reshape(4, 32, 3, 16).transpose(1, 2).contiguous(), "NZ")):
        c = torch.zeros(6, 4, 48, dtype=dtype).npu()
        C.batch_matmul_transpose(a.npu(), right.npu(), c, form)
        same(c, torch.einsum("mbk,bkn->mbn", a.double(), b.double()), 4 * step)
rows, mask = C.get_masked_input_and_mask(torch.tensor([9, 10, 19, 30], dtype=torch.int32).npu(), 10, 20, 4, 30, 32)
print(rows.tolist() == [0, 0, 9, 14] and mask.tolist() == [True, False, False, False])
"""


def test_its_own_kernels_are_computed(python: str) -> None:
    """With the arguments that its extension launches them with, and the tilings that it computes."""
    done = run(python, "-c", KERNELS)
    assert done.stdout.split() == ["True"] * 11, done.stdout + done.stderr[-3000:]
