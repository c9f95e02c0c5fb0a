"""Tensors on the device that go to another process and back through torch.multiprocessing."""

import torch
import torch.multiprocessing as multiprocessing


def child(there, back) -> None:
    while (tensor := there.get()) is not None:
        tensor.data.mul_(2)
        back.put((tensor.detach() + 1).cpu())
        del tensor


def main() -> None:
    multiprocessing.set_start_method("spawn")
    there, back = multiprocessing.Queue(), multiprocessing.Queue()
    process = multiprocessing.Process(target=child, args=(there, back), daemon=True)
    process.start()
    first = torch.arange(1000, dtype=torch.float32, device="npu")
    parameter = torch.nn.Parameter(torch.ones(5, device="npu"))
    for sent in (first.add_(1), first[10:20], parameter):
        before = sent.detach().cpu()
        there.put(sent)
        torch.testing.assert_close(back.get(timeout=300), before * 2 + 1)
        torch.testing.assert_close(sent.detach().cpu(), before * 2)
    there.put(None)
    process.join()
    assert process.exitcode == 0
    print("shared")


if __name__ == "__main__":
    main()
