"""torch_npu training whose device processes or ranks are killed or stopped at random moments.

Ranks are forked by a process that has imported torch_npu and not used a device, so that a round takes a second or two.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from attacks.scenario import DIED, Run, patience, scenario

FORK = multiprocessing.get_context("fork")
STEPS = 40
STOPPED = 3  # HCCL_EXEC_TIMEOUT where a rank is stopped for good, in seconds


def train(rank: int, size: int, place: Path, pipe: Any, settings: dict[str, str]) -> None:
    """One rank, or, of one, a program without ranks: tells its device process, each step, and its error."""
    output = os.open(place / f"rank{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(settings)
    import torch
    import torch.distributed as dist

    try:
        torch.npu.set_device(rank % 2)
        torch.manual_seed(0)
        model: Any = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)).npu()
        if size > 1:
            dist.init_process_group("hccl", init_method=f"file://{place}/store", rank=rank, world_size=size)
            model = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.linspace(-1, 1, 32 * 16).reshape(32, 16).npu(), torch.linspace(0, 1, 32 * 4).reshape(32, 4).npu()
        pid = ctypes.CDLL("libascendcl.so").aclemuDevicePid(rank % 2)
        pipe.send(("device", pid))
        loss = 0.0
        for step in range(STEPS):
            optimizer.zero_grad()
            error = ((model(x) - y) ** 2).mean()
            error.backward()
            optimizer.step()
            loss = error.item()
            pipe.send(("step", step))
        pipe.send(("done", loss))
        if size > 1:
            dist.barrier()
            dist.destroy_process_group()
    except BaseException as error:
        pipe.send(("error", f"{type(error).__name__}: {error}"))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Job:
    """Some ranks that train, and what they have told."""

    def __init__(self, run: Run, size: int, settings: dict[str, str]) -> None:
        self.run, self.size = run, size
        self.place = run.directory / f"job{run.round}"
        self.place.mkdir()
        self.pipes, self.processes = [], []
        for rank in range(size):
            ours, theirs = FORK.Pipe(duplex=False)
            process = FORK.Process(target=train, args=(rank, size, self.place, theirs, settings), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.devices: dict[int, int] = {}
        self.steps = dict.fromkeys(range(size), -1)
        self.ends: dict[int, str] = {}  # the error, or "" where a rank is done
        self.losses: dict[int, float] = {}

    def listen(self, seconds: float) -> None:
        """Takes what ranks tell within some seconds, or until one of them has told something."""
        ready = multiprocessing.connection.wait([pipe for pipe in self.pipes if not pipe.closed], seconds)
        for rank, pipe in enumerate(self.pipes):
            if pipe not in ready:
                continue
            try:
                what, value = pipe.recv()
            except (EOFError, ConnectionResetError):
                pipe.close()
                self.ends.setdefault(
                    rank, "died: " + (self.place / f"rank{rank}.txt").read_text(errors="replace")[-3000:]
                )
                continue
            if what == "device":
                self.devices[rank] = value
            elif what == "step":
                self.steps[rank] = value
            else:
                self.ends[rank] = value if what == "error" else ""
                if what == "done":
                    self.losses[rank] = value

    def until(self, condition: Any, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            self.listen(0.05)
        return True

    def finish(self) -> None:
        """Every process must end by itself; what is stopped or dead does not count."""
        for rank, process in enumerate(self.processes):
            process.join(patience(10))
            if process.exitcode is None:
                process.kill()
                process.join()
                self.run.fail(f"rank {rank} does not end after its error: {self.ends.get(rank)}")
        for pipe in self.pipes:
            pipe.close()
        for path in self.place.iterdir():
            path.unlink()
        self.place.rmdir()


def named(text: str, rank: int, victim: int, device: bool) -> bool:
    """Whether an error names what died."""
    if rank == victim and device:
        return "EMULATOR_DEVICE_LOST" in text or "device process" in text
    return f"rank {victim}" in text


def strike(job: Job, choice: random.Random, way: str) -> None:
    """Kills or stops something once all ranks train; what must come of it."""
    run, size = job.run, job.size
    ready = job.until(lambda: len(job.devices) == size or job.ends, patience(30))
    run.expect(ready and not job.ends, f"the job does not start: {job.ends or 'no answer'}")
    # Before the first step ranks meet, for which they wait as long as HCCL_CONNECT_TIMEOUT says.
    after, victim = choice.randrange(0 if way == "stop" else -1, 10), choice.randrange(size)
    job.until(lambda: job.steps[victim] >= after, patience(30))
    time.sleep(choice.random() * 0.03)
    device = size == 1 or choice.random() < 0.5
    target = job.devices[victim] if device else job.processes[victim].pid or 0
    assert target > 0
    what = f"the device process of rank {victim}" if device else f"rank {victim}"
    run.step(f"{way} {what} of {size} (process {target}) after step {job.steps[victim]}")
    if way == "pause":
        os.kill(target, signal.SIGSTOP)
        time.sleep(choice.random())
        os.kill(target, signal.SIGCONT)
        run.expect(
            job.until(lambda: len(job.ends) == size, patience(30)), f"{what} was stopped and continued: a rank hangs"
        )
        run.expect(not any(job.ends.values()), f"{what} was stopped and continued: {job.ends}")
        run.expect(len(set(job.losses.values())) == 1, f"losses differ: {job.losses}")
        run.count("paused and went on")
        return
    early = {rank for rank in range(size) if job.ends.get(rank) == ""}
    start = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, signal.SIGKILL if way == "kill" else signal.SIGSTOP)
    if way == "stop":
        others = [rank for rank in range(size) if rank != victim]
        limit = STOPPED + patience(DIED)
        heard = job.until(lambda: all(rank in job.ends for rank in others), limit)
        run.expect(heard, f"{what} was stopped: no error after {limit:.0f} seconds on the others; {job.ends}")
        for rank in others:
            run.expect(
                not job.ends[rank] or f"rank {victim}" in job.ends[rank],
                f"{what} was stopped; rank {rank}: {job.ends[rank]}",
            )
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL)
        run.expect(
            not device or job.until(lambda: victim in job.ends, limit), f"{what} was stopped and killed: it hangs"
        )
        run.count("stopped and named")
        return
    survivors = [rank for rank in range(size) if rank not in early and (device or rank != victim)]
    limit = patience(DIED)
    heard = job.until(lambda: all(rank in job.ends for rank in survivors), limit)
    slow = [rank for rank in survivors if rank not in job.ends]
    run.expect(heard, f"{what} was killed: ranks {slow} have no error after {limit:.0f} seconds; {job.ends}")
    done = [rank for rank in survivors if job.ends[rank] == ""]
    if len(done) == len(survivors):
        run.count("killed after the end")
        return
    for rank in survivors:
        text = job.ends[rank]
        run.expect(
            not text or named(text, rank, victim, device), f"{what} was killed; rank {rank} does not name it: {text}"
        )
    seconds = time.monotonic() - start
    run.count(f"killed and named within {'1 s' if seconds < 1 else f'{limit:.0f} s'}")


@scenario(emulator=(), needs=("torch_npu",), seconds=60, OMP_NUM_THREADS="1", HCCL_CONNECT_TIMEOUT="120")
def training_kills(run: Run) -> None:
    """A device process or a rank of a torch_npu training is killed or stopped at a random moment: named at once, no hang."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(run.directory / "inductor")  # torch_npu makes it
    import torch_npu  # noqa: F401

    for choice in run.rounds():
        size = choice.choice((1, 2, 2, 3))
        mode = choice.choice(("0", "1", "1"))
        way = choice.choice(("kill", "kill", "kill", "pause", "stop" if size > 1 else "pause"))
        settings = {"TASK_QUEUE_ENABLE": mode, **({"HCCL_EXEC_TIMEOUT": str(STOPPED)} if way == "stop" else {})}
        run.step(f"{size} ranks, {settings}")
        job = Job(run, size, settings)
        try:
            strike(job, choice, way)
            job.finish()
        finally:
            for process in job.processes:
                process.kill()
            for pid in job.devices.values():  # one that is stopped does not notice
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
