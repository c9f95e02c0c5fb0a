"""What torch_npu sees of faults on purpose: a mode for each; it prints what came of them."""

import os
import sys
import time

import torch
import torch_npu  # noqa: F401


def operators() -> None:
    """Kernels that answer wrongly, one after the other: how many elements of each result are wrong."""
    x = torch.linspace(0.1, 1, 64).reshape(8, 8)
    for name in ("neg", "sin", "cos", "exp", "log", "sqrt", "sigmoid"):
        got, wanted = getattr(torch, name)(x.npu()).cpu(), getattr(torch, name)(x)
        wrong = (got.isnan() | ((got - wanted).abs() > 1e-4)).sum().item()
        print(name, "right" if wrong == 0 else "all" if wrong > 32 else "one" if wrong == 1 else wrong)


def slow() -> None:
    x = torch.ones(4).npu()
    torch.abs(x).cpu()
    begin = time.monotonic()
    torch.abs(x).cpu()
    print("kernel", time.monotonic() - begin >= 0.3)


def fails() -> None:
    x = torch.ones(4).npu()
    try:
        torch.abs(x).cpu()
    except RuntimeError as error:
        print("fails", "507015" in str(error))
        os._exit(0)  # the context does not recover


def lost() -> None:
    x = torch.ones(4).npu()
    try:
        torch.abs(x).cpu()
    except RuntimeError as error:
        print("lost", "507899" in str(error))
        os._exit(0)


def call() -> None:
    try:
        torch.npu.Stream()
    except RuntimeError as error:
        print("call", "207005" in str(error))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
