"""Programs that must come to an end by themselves: python programs.py NAME. Each prints "done" as its last line.

A client that waits for its own queue while an operator runs, or that ends with work pending, hangs on a device that
needs the client's interpreter; these programs are run in every queue mode, with operators that take their time.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections.abc import Callable

import torch
import torch.utils.data
import torch_npu


def burst(size: int = 600_000) -> torch.Tensor:
    """Some operators in the queue, each a few milliseconds long."""
    tensor = torch.ones(size, device="npu")
    for _ in range(5):
        tensor = torch.sin(tensor) + 1
    return tensor


def item() -> None:
    assert 1 < burst().sum().item() / 600_000 < 2


def synchronize() -> None:
    burst()
    torch.npu.synchronize()
    burst()
    torch.npu.current_stream().synchronize()


def query() -> None:
    burst()
    while not torch.npu.current_stream().query():
        pass
    event = torch.npu.Event()
    burst()
    event.record()
    while not event.query():
        pass


def empty_cache() -> None:
    for _ in range(3):
        burst()
        torch.npu.empty_cache()


def storage_read() -> None:
    tensor = burst(1000)
    assert len(tensor.cpu().untyped_storage()) == 4000
    tensor.untyped_storage().cpu()


def random_state() -> None:
    burst()
    torch.npu.get_rng_state()
    torch.npu.manual_seed(1)
    torch.rand(1000, device="npu")
    burst()
    torch.npu.get_rng_state()


def backward() -> None:
    weight = torch.ones(500, 500, device="npu", requires_grad=True)
    for _ in range(3):
        (torch.sin(weight @ weight / 500) * 2).sum().backward()


def free_while_running() -> None:
    for _ in range(20):
        tensor = burst(100_000)
        del tensor
    torch.npu.mem_get_info()


def exit_with_work_pending() -> None:
    burst(3_000_000)


def exit_by_sys_exit() -> None:
    burst(3_000_000)
    print("done")
    sys.exit(0)


def exit_by_an_error() -> None:
    burst(3_000_000)
    sys.excepthook = lambda *error: print("done")
    raise RuntimeError("on purpose")


def threads() -> None:
    def work(device: int) -> None:
        torch.npu.set_device(device)
        for _ in range(20):
            tensor = torch.arange(1000.0).npu() * 2
            assert tensor.sum().item() == 999_000

    running = [threading.Thread(target=work, args=(number % 2,)) for number in range(4)]
    for thread in running:
        thread.start()
    burst()
    for thread in running:
        thread.join()


class Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((8,), float(index)), index * index


def data_loader() -> None:
    burst()
    seen = []
    for _ in range(2):
        loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, pin_memory=True, shuffle=True)
        for values, squares in loader:
            values, squares = values.npu(non_blocking=True), squares.npu(non_blocking=True)
            assert torch.equal((values[:, 0] ** 2).long().cpu(), squares.cpu())
            seen.append(len(squares))
    assert sum(seen) == 80


def many_small() -> None:
    tensor = torch.zeros(4, device="npu")
    for _ in range(3000):
        tensor.add_(1)
    assert tensor.tolist() == [3000.0] * 4


def _spawned(number: int, results: torch.multiprocessing.Queue) -> None:
    results.put((torch.ones(3, device="npu") * number).sum().item())


def spawned_children() -> None:
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    children = [context.Process(target=_spawned, args=(number, results)) for number in (1, 2)]
    burst()
    for child in children:
        child.start()
    assert sorted(results.get(timeout=300) for _ in children) == [3.0, 6.0]
    for child in children:
        child.join()
        assert child.exitcode == 0


def refused() -> None:
    """An operator without a reference: the error names it, at the latest when the device is waited for. The last: with
    TASK_QUEUE_ENABLE=2 torch_npu runs nothing after it."""
    operands = torch.ones(128, 256, device="npu").half(), torch.ones(256, 64, device="npu").half()
    try:
        torch_npu.npu_all_gather_base_mm(*operands, "group", 2)
        torch.npu.synchronize()
    except RuntimeError as error:
        assert "aclnnAllGatherMatmul" in str(error)
    else:
        raise AssertionError("nothing was refused")


TOGETHER: tuple[Callable[[], None], ...] = (
    item, synchronize, query, empty_cache, storage_read, random_state, backward, free_while_running, many_small, threads,
    data_loader, spawned_children, refused,
)  # fmt: skip
ENDINGS = (exit_with_work_pending, exit_by_sys_exit, exit_by_an_error)


def main(name: str) -> None:
    """Runs the programs with a name, or those that go together in one process; a hang ends with the threads' stacks."""
    for function in (*TOGETHER, *ENDINGS):
        if function.__name__ == name or (name == "all" and function in TOGETHER):
            faulthandler.dump_traceback_later(120, exit=True)
            print(function.__name__, flush=True)
            function()
            faulthandler.cancel_dump_traceback_later()
    print("done")


if __name__ == "__main__":
    assert torch_npu.npu.is_available()
    main(sys.argv[1])
