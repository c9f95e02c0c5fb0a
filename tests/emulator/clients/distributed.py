"""torch.distributed over HCCL, each collective beside gloo on the CPU; run by torchrun. Argument: what to run."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch_npu  # registers the npu device and the hccl backend
from torch import nn

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("npu", int(os.environ["LOCAL_RANK"]) % torch.npu.device_count())
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8, torch.uint8)


def data(count: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * seed + RANK)
    return torch.randint(-4, 5, (count,), generator=generator).abs().to(dtype)


def beside(run: Callable[[torch.Tensor, Any], Any], x: torch.Tensor, gloo: Any) -> None:
    """The same on both process groups."""
    ours, golden = run(x.to(DEVICE), None), run(x.clone(), gloo)
    for a, b in zip(ours, golden):
        assert torch.equal(a.cpu(), b), (run, a, b)


def collectives(gloo: Any) -> None:
    for dtype in DTYPES:
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN):

            def all_reduce(x: torch.Tensor, group: Any, op: Any = op) -> Any:
                dist.all_reduce(x, op, group=group)
                return [x]

            if dtype is not torch.uint8:
                beside(all_reduce, data(1000, dtype), gloo)
                if dtype is torch.float32:  # what is read where it lies
                    beside(all_reduce, data(1 << 20, dtype), gloo)

        def gather(x: torch.Tensor, group: Any) -> Any:
            parts = [torch.empty_like(x) for _ in range(SIZE)]
            dist.all_gather(parts, x, group=group)
            return parts

        def broadcast(x: torch.Tensor, group: Any) -> Any:
            dist.broadcast(x, SIZE - 1, group=group)
            return [x]

        beside(gather, data(7, dtype), gloo)
        beside(broadcast, data(33, dtype), gloo)

    def reduce(x: torch.Tensor, group: Any) -> Any:
        dist.reduce(x, 0, group=group)
        return [x] if RANK == 0 else []

    def scatter(x: torch.Tensor, group: Any) -> Any:
        target = torch.empty_like(x)
        dist.scatter(target, [x + r for r in range(SIZE)] if RANK == 0 else None, 0, group=group)
        return [target]

    def all_to_all(x: torch.Tensor, group: Any) -> Any:
        parts = [torch.empty(0)] * SIZE if group is not None else []
        if group is None:
            target = torch.empty_like(x)
            dist.all_to_all_single(target, x)
            return [target]
        parts = [torch.empty_like(x) for _ in range(SIZE)]
        dist.all_gather(parts, x, group=group)  # gloo has no all_to_all
        return [torch.cat([p.chunk(SIZE)[RANK] for p in parts])]

    def reduce_scatter(x: torch.Tensor, group: Any) -> Any:
        if group is None:
            target = torch.empty(x.numel() // SIZE, dtype=x.dtype, device=x.device)
            dist.reduce_scatter_tensor(target, x)
            return [target]
        dist.all_reduce(x, group=group)
        return [x.chunk(SIZE)[RANK]]

    def ring(x: torch.Tensor, group: Any) -> Any:
        if SIZE == 1:
            return [x]
        target = torch.empty_like(x)
        requests = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, x, (RANK + 1) % SIZE, group),
                dist.P2POp(dist.irecv, target, (RANK - 1) % SIZE, group),
            ]
        )
        for request in requests:
            request.wait()
        return [target]

    for run in (reduce, scatter, all_to_all, reduce_scatter, ring):
        for count in (8 * SIZE, 48_000 * SIZE, 1_200_000 * SIZE):
            beside(run, data(count, seed=3), gloo)
    mine, target = data(48_000, seed=3).to(DEVICE), torch.zeros(48_000, device=DEVICE)
    for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, RANK), dist.P2POp(dist.irecv, target, RANK)]):
        request.wait()
    assert torch.equal(target, mine)
    objects: list[Any] = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    assert [o["rank"] for o in objects] == list(range(SIZE))
    work = [dist.all_reduce(torch.ones(1 << 16, device=DEVICE), async_op=True) for _ in range(10)]
    for handle in work:
        handle.wait()
    dist.barrier()


def coalescing(gloo: Any) -> None:
    """HcclGroupStart: where this CANN has none, the error comes before the memory of a result can be read."""
    inputs = [torch.full((4,), RANK + 1.0, device=DEVICE) for _ in range(2)]
    outputs = [torch.full((4 * SIZE,), -7.0, device=DEVICE) for _ in range(2)]
    try:
        with dist._coalescing_manager(device=DEVICE, async_ops=True) as manager:
            for source, target in zip(inputs, outputs):
                dist.all_gather_into_tensor(target, source)
        manager.wait()
        results = [target.tolist() for target in outputs]
    except RuntimeError as error:
        print(error, flush=True)
        raise
    expected = [float(rank + 1) for rank in range(SIZE) for _ in range(4)]
    assert results == [expected, expected], results


def groups(gloo: Any) -> None:
    """Groups of some ranks, several at a time."""
    for members in ([0], list(range(0, SIZE, 2)), list(range(SIZE))):
        group = dist.new_group(members)
        x = torch.full((4,), float(RANK + 1), device=DEVICE)
        if RANK in members:
            dist.all_reduce(x, group=group)
            assert x.tolist() == [float(sum(m + 1 for m in members))] * 4
    dist.barrier()


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def steps(net: nn.Module, device: torch.device, optimizer: Any = None, same_data: bool = False) -> list[float]:
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(10):
        torch.manual_seed(100 * step + (0 if same_data else RANK))
        loss = net(torch.randn(8, 16).to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def ddp(gloo: Any) -> None:
    golden = steps(nn.parallel.DistributedDataParallel(model(), process_group=gloo), torch.device("cpu"))
    options: list[dict[str, Any]] = [
        {},
        {"bucket_cap_mb": 0.001},
        {"gradient_as_bucket_view": True, "static_graph": True},
    ]
    for chosen in options:
        net = nn.parallel.DistributedDataParallel(model().to(DEVICE), device_ids=[DEVICE.index], **chosen)
        close(steps(net, DEVICE), golden)


def fsdp(gloo: Any) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    golden = steps(nn.parallel.DistributedDataParallel(model(), process_group=gloo), torch.device("cpu"))
    close(steps(FullyShardedDataParallel(model().to(DEVICE), device_id=DEVICE, use_orig_params=True), DEVICE), golden)


def fsdp2(gloo: Any) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    golden = steps(nn.parallel.DistributedDataParallel(model(), process_group=gloo), torch.device("cpu"))
    net = model().to(DEVICE)
    mesh = init_device_mesh("npu", (SIZE,))
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    close(steps(net, DEVICE), golden)


def golden_run(gloo: Any) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Ten steps on the CPU with the same data, and the parameters afterwards."""
    net = nn.parallel.DistributedDataParallel(model(), process_group=gloo)
    losses = steps(net, torch.device("cpu"))
    return losses, {name: value.detach() for name, value in net.module.named_parameters()}


def ddp_hooks(gloo: Any) -> None:
    """Gradients accumulated without synchronisation, and a communication hook that compresses them."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    def accumulate(net: Any, device: torch.device) -> list[torch.Tensor]:
        torch.manual_seed(RANK)
        batches = [torch.randn(4, 16) for _ in range(3)]
        with net.no_sync():
            for batch in batches[:2]:
                net(batch.to(device)).square().mean().backward()
        net(batches[2].to(device)).square().mean().backward()
        return [p.grad.detach().cpu() for p in net.parameters()]

    golden = accumulate(nn.parallel.DistributedDataParallel(model(), process_group=gloo), torch.device("cpu"))
    for hook in (None, allreduce_hook):
        net = nn.parallel.DistributedDataParallel(model().to(DEVICE), device_ids=[DEVICE.index])
        if hook is not None:
            net.register_comm_hook(None, hook)
        for ours, theirs in zip(accumulate(net, DEVICE), golden):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def zero(gloo: Any) -> None:
    """The states of the optimizer divided between the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    golden, parameters = golden_run(gloo)
    net = nn.parallel.DistributedDataParallel(model().to(DEVICE), device_ids=[DEVICE.index])
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    close(steps(net, DEVICE, optimizer), golden)
    for name, value in net.module.named_parameters():
        torch.testing.assert_close(value.detach().cpu(), parameters[name], rtol=1e-5, atol=1e-5)


def tensor_parallel(gloo: Any) -> None:
    """The layers' matrices divided between the ranks (DTensor), every rank with the same data."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def net() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(16, 24), nn.GELU(approximate="tanh"), nn.Linear(24, 8))

    mesh = init_device_mesh("npu", (SIZE,))
    golden = steps(net(), torch.device("cpu"), same_data=True)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    close(steps(parallelize_module(net().to(DEVICE), mesh, plan), DEVICE, same_data=True), golden)

    torch.manual_seed(2)
    whole = torch.randn(8 * SIZE, 5)
    rows = distribute_tensor(whole.to(DEVICE), mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Replicate()])
    torch.testing.assert_close(columns.to_local().cpu(), whole)
    torch.testing.assert_close(rows.sum(dim=0).full_tensor().cpu(), whole.sum(dim=0))
    torch.testing.assert_close((rows @ rows.t()).full_tensor().cpu(), whole @ whole.t())


def pipeline(gloo: Any) -> None:
    """A stage of the model on each rank, micro-batches passed on by sends and receives."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    if SIZE == 1:
        return
    torch.manual_seed(3)
    stages = [nn.Sequential(nn.Linear(16, 16), nn.GELU(approximate="tanh")) for _ in range(SIZE)]
    whole = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.GELU(approximate="tanh")) for _ in range(SIZE)])
    whole.load_state_dict(nn.Sequential(*stages).state_dict())
    x, target = torch.randn(4 * SIZE, 16), torch.randn(4 * SIZE, 16)  # micro-batches of 2
    mean = nn.functional.mse_loss
    golden = sum(mean(whole(a), b) for a, b in zip(x.chunk(SIZE * 2), target.chunk(SIZE * 2))) / (SIZE * 2)
    golden.backward()
    for schedule in (ScheduleGPipe, Schedule1F1B):
        own = stages[RANK].to(DEVICE)
        own.zero_grad()
        stage = PipelineStage(own, RANK, SIZE, DEVICE)
        runner = schedule(stage, n_microbatches=SIZE * 2, loss_fn=mean)
        losses: list[torch.Tensor] = []
        if RANK == 0:
            runner.step(x.to(DEVICE))
        elif RANK == SIZE - 1:
            runner.step(target=target.to(DEVICE), losses=losses)
            close([float(torch.stack(losses).detach().mean())], [float(golden.detach())])
        else:
            runner.step()
        for ours, theirs in zip(own.parameters(), whole[RANK].parameters()):
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-6)


def checkpoint(gloo: Any) -> None:
    """A sharded model saved by all ranks and loaded into another one."""
    import shutil
    import tempfile

    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("npu", (SIZE,))
    place = [tempfile.mkdtemp() if RANK == 0 else ""]
    dist.broadcast_object_list(place, 0)
    net = fully_shard(model().to(DEVICE), mesh=mesh)
    losses = steps(net, DEVICE)
    state = get_model_state_dict(net)
    dcp.save({"model": state}, checkpoint_id=place[0])
    fresh = model().to(DEVICE)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.add_(1)
    other = fully_shard(fresh, mesh=mesh)
    loaded = {"model": get_model_state_dict(other)}
    dcp.load(loaded, checkpoint_id=place[0])
    set_model_state_dict(other, loaded["model"])
    for (name, a), (_, b) in zip(net.named_parameters(), other.named_parameters()):
        assert torch.equal(a.full_tensor().cpu(), b.full_tensor().cpu()), name
    assert len(losses) == 10
    dist.barrier()
    if RANK == 0:
        shutil.rmtree(place[0])


def graphs(gloo: Any) -> None:
    """Collectives in graphs. Ranks capture those of two groups in different orders, on streams of their own."""
    groups, side = [dist.new_group() for _ in range(2)], torch.npu.Stream()
    x, weight = torch.ones(SIZE, 4, device=DEVICE), torch.ones(4, 4, device=DEVICE)
    gathered = torch.empty(SIZE * SIZE, 4, device=DEVICE)

    def reduce() -> None:
        dist.all_reduce(summed, group=groups[0])

    def gather() -> None:
        with torch.npu.stream(side):
            dist.all_gather_into_tensor(gathered, x, group=groups[1])

    def multiply() -> torch.Tensor:
        return torch_npu.npu_mm_all_reduce_base(x.half(), weight.half(), name)  # an operator that communicates itself

    name = groups[0]._get_backend(DEVICE).get_hccl_comm_name(RANK)
    summed = x.clone()
    reduce()  # HCCL makes its connections now
    multiply()
    side.wait_stream(torch.npu.current_stream())
    gather()
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        main = torch.npu.current_stream()
        summed = x @ weight
        side.wait_stream(main)
        for call in (reduce, gather) if RANK % 2 == 0 else (gather, reduce):
            call()
        main.wait_stream(side)
        y = summed + gathered.sum(dim=0) + multiply()
    for step in range(3):
        x.fill_(RANK + step)
        graph.replay()
        total = sum(rank + step for rank in range(SIZE))
        assert torch.equal(y.cpu(), torch.full((SIZE, 4), 8.0 * total + SIZE * total)), (step, y)
    torch.npu.synchronize()
    graph.reset()


def close(losses: list[float], golden: list[float]) -> None:
    assert max(abs(a - b) for a, b in zip(losses, golden)) < 1e-5, (losses, golden)


def main() -> None:
    torch.npu.set_device(DEVICE)
    dist.init_process_group("hccl")
    gloo = dist.new_group(backend="gloo")
    for name in sys.argv[1:]:
        globals()[name](gloo)
        if RANK == 0:
            print(name, "done", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
