"""Communicator on the NumPy backend and on emulated devices: processes, torchrun's variables, errors."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from comparisons import assert_equal
from ports import free_port
from rank_tools import FORKS, rank_process

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, Communicator
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.collectives import network


def _child(
    body: Callable[[Communicator], Any], info: bytes, rank: int, size: int, backend: str, home: str, results: Any
) -> None:
    try:
        if home:
            os.environ["ASCEND_HOME_PATH"] = home
        with aclnn.use_backend(backend), Communicator.from_root_info(info, rank, size) as comm:
            results.put((rank, body(comm)))
    except BaseException as error:
        results.put((rank, error))


def on_ranks(size: int, body: Callable[[Communicator], Any], backend: str = "numpy", home: str = "") -> list[Any]:
    with aclnn.use_backend("numpy"):
        info, results = Communicator.root_info(), FORKS.Queue()
    arguments = [(body, info, rank, size, backend, home, results) for rank in range(size)]
    children = [rank_process(_child, *row) for row in arguments]
    for child in children:
        child.start()
    found = dict(results.get(timeout=600) for _ in children)
    for child in children:
        child.join(30)
    return [found[rank] for rank in range(size)]


def _everything(comm: Communicator) -> str:
    """Each collective once, in Tensors, against what NumPy says."""
    r, n = comm.rank, comm.size
    base = np.arange(2 * n * 3, dtype=np.float32).reshape(2 * n, 3)
    all_bases = [base + 100 * rank for rank in range(n)]
    mine = aclnn.asarray(all_bases[r])

    out = aclnn.empty(mine.shape, mine.dtype)
    assert comm.all_reduce(mine, out=out) is out
    assert_equal(out, sum(all_bases))
    assert_equal(comm.all_reduce(mine.copy(), "max"), all_bases[-1])
    assert_equal(comm.all_gather(mine), np.concatenate(all_bases))
    assert_equal(comm.reduce_scatter(mine), sum(all_bases)[2 * r : 2 * r + 2])
    counts = [1] * (n - 1) + [n + 1]
    start = sum(counts[:r])
    assert_equal(comm.reduce_scatter_v(mine, counts, "min"), all_bases[0][start : start + counts[r]])
    assert_equal(
        comm.all_gather_v(mine[: counts[r]].copy(), counts), np.concatenate([b[:c] for b, c in zip(all_bases, counts)])
    )
    assert_equal(comm.broadcast(mine.copy(), n - 1), all_bases[n - 1])
    assert_equal(comm.reduce(mine.copy(), 0), sum(all_bases) if r == 0 else all_bases[r])
    part = aclnn.empty((2, 3), np.float32)
    assert_equal(comm.scatter(mine if r == 0 else None, 0, out=part), all_bases[0][2 * r : 2 * r + 2])
    assert_equal(comm.all_to_all(mine), np.concatenate([b[2 * r : 2 * r + 2] for b in all_bases]))
    sends = [2 * n if rank == (r + 1) % n else 0 for rank in range(n)]
    receives = [2 * n if (rank + 1) % n == r else 0 for rank in range(n)]
    assert_equal(comm.all_to_all_v(mine, sends, receives), all_bases[(r - 1) % n])
    if n > 1:
        target = aclnn.empty(mine.shape, mine.dtype)
        comm.batch_send_recv([("send", mine, (r + 1) % n), ("recv", target, (r - 1) % n)])
        assert_equal(target, all_bases[(r - 1) % n])
        half = comm.split(range(0, n, 2))
        assert (half is None) == bool(r % 2)
        if half is not None:
            assert_equal(half.all_reduce(mine.copy()), sum(all_bases[::2]))
            assert half.name != comm.name
            half.close()
    comm.barrier()
    aclnn.synchronize()
    comm.check()
    return comm.name


@pytest.mark.parametrize("size", [1, 2, 3])
def test_collectives_on_numpy(size: int) -> None:
    names = on_ranks(size, _everything)
    assert len(set(names)) == 1 and isinstance(names[0], str), names


@pytest.mark.parametrize("size", [1, 2])
def test_collectives_on_emulated_devices(size: int, emulator_home: Path) -> None:
    names = on_ranks(size, _everything, "npu", str(emulator_home))
    assert len(set(names)) == 1 and isinstance(names[0], str), names


def _arrays(comm: Communicator) -> Any:
    x = np.full(4, comm.rank + 1, np.int32)
    comm.all_reduce(x, "prod")
    return x.tolist(), comm.all_gather(np.array([comm.rank], np.int64)).tolist()


def test_ndarrays_on_numpy() -> None:
    assert on_ranks(3, _arrays) == [([6, 6, 6, 6], [0, 1, 2])] * 3


def _different_counts(comm: Communicator) -> None:
    comm.all_reduce(np.ones(4 + comm.rank, np.float32))


def _lost(comm: Communicator) -> None:
    if comm.rank == 1:
        os._exit(0)
    comm.barrier()


def test_errors_name_ranks_and_collective() -> None:
    for rank, error in enumerate(on_ranks(2, _different_counts)):
        assert isinstance(error, AclError) and error.status == 21 and error.routine == "HcclAllReduce"
        assert f"rank {rank} of 2: all_reduce: the ranks differ in the counts" in str(error)


def test_a_lost_rank_is_an_error_of_the_others() -> None:
    with aclnn.use_backend("numpy"):
        info, results = Communicator.root_info(), FORKS.Queue()
    children = [rank_process(_child, _lost, info, rank, 2, "numpy", "", results) for rank in range(2)]
    for child in children:
        child.start()
    rank, error = results.get(timeout=600)
    assert rank == 0 and isinstance(error, AclError) and "rank 1 is lost" in str(error)
    for child in children:
        child.join(30)


PROGRAM = """
import numpy as np
import ascend_aclnn as aclnn
comm = aclnn.Communicator.from_env()
print(comm.rank, comm.size, comm.all_reduce(np.ones(2, np.float32)).tolist())
"""


def test_ranks_of_a_launcher_find_each_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        try:
            socket.create_connection(server.getsockname()).close()
        except OSError as error:
            pytest.skip(f"there is no loopback interface: {error}")
    port = free_port()
    environment = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "ASCEND_ACLNN_PORT": str(port)}
    environment["ASCEND_ACLNN_BACKEND"] = "numpy"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        told = [child.communicate(timeout=600)[0].strip() for child in children]
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert told == ["0 2 [2.0, 2.0]", "1 2 [2.0, 2.0]"]


def test_what_is_refused(each_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    comm = Communicator.from_root_info(Communicator.root_info(), 0, 1)
    try:
        x = aclnn.zeros((2, 2), np.float32)
        for call, kind, text in (
            (lambda: comm.all_reduce(x, "mean"), ValueError, "op is 'mean'; it must be one of sum, prod, max, min"),
            (lambda: comm.all_reduce(x.T), ValueError, "not contiguous"),
            (lambda: comm.broadcast(x, 1), ValueError, r"the rank is 1; it must be in \[0, 0\]"),
            (lambda: comm.send(x, 0), ValueError, "with rank 0, this rank itself, and no receive from itself"),
            (lambda: comm.recv(x, 0), ValueError, "with rank 0, this rank itself, and no send to itself"),
            (lambda: comm.send(x, 1), ValueError, r"the other rank is 1; it must be in \[0, 0\]"),
            (lambda: comm.all_gather(x, out=aclnn.zeros((3, 2), np.float32)), ValueError, r"out has shape \(3, 2\)"),
            (lambda: comm.all_gather_v(x, [1]), ValueError, r"the tensor has 2 rows; counts\[0\] is 1"),
            (lambda: comm.all_reduce([1.0]), TypeError, "collectives take Tensors"),  # type: ignore[arg-type]
            (lambda: comm.split([0, 0]), ValueError, "they must be different"),
            (lambda: Communicator.from_root_info(b"", 0, 1), ValueError, "root info|info has 0 bytes"),
            (lambda: Communicator.from_root_info(Communicator.root_info(), 2, 2), ValueError, "rank is 2 of 2"),
        ):
            with pytest.raises(kind, match=text):
                call()
    finally:
        comm.close()
    comm.close()
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="start the program with torchrun"):
        Communicator.from_env()


def test_a_rank_sends_to_itself(each_backend: Backend) -> None:
    with Communicator.from_root_info(Communicator.root_info(), 0, 1) as comm:
        x, y = aclnn.asarray(np.arange(4, dtype=np.float32)), aclnn.zeros(4, np.float32)
        comm.batch_send_recv([("recv", y, 0), ("send", x, 0)])
        assert y.tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="4 elements of FLOAT with rank 0, this rank itself"):
            comm.batch_send_recv([("recv", aclnn.zeros(4, np.int32), 0), ("send", x, 0)])


def test_many_communicators_leave_nothing(each_backend: Backend) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        with Communicator.from_root_info(Communicator.root_info(), 0, 1) as comm:
            assert comm.all_reduce(aclnn.ones(3, np.float16)).tolist() == [1, 1, 1]
    assert len(os.listdir("/proc/self/fd")) <= before + 6


def _abort_and_resume(comm: Communicator) -> list[float]:
    """Twice an abort by one rank, which the others notice at their next collective, then all go on."""
    found = []
    for lost in (0, 1):
        if comm.rank == lost:
            comm.abort()
        x = aclnn.asarray(np.ones(3, np.float32))
        with pytest.raises(AclError):
            comm.all_reduce(x)
            aclnn.synchronize()
            comm.check()
            raise AssertionError("the communicator was aborted")
        comm.resume()
        comm.check()
        total = comm.all_reduce(aclnn.asarray(np.full(2, comm.rank + 1, np.float32)))
        found.append(float(np.asarray(total)[0]))
    return found


@pytest.mark.parametrize("backend", ["numpy", "emulator"])
def test_a_communicator_is_resumed_after_an_abort(backend: str, request: pytest.FixtureRequest) -> None:
    home = str(request.getfixturevalue("emulator_home")) if backend == "emulator" else ""
    assert on_ranks(3, _abort_and_resume, "npu" if home else "numpy", home) == [[6.0, 6.0]] * 3


DEVICES = """
import threading, time
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import Communicator
for device in range(2):  # on a busy machine one of the processes may start seconds after the other
    with aclnn.Device(device):
        aclnn.ops.abs(aclnn.asarray([1.0])).numpy()
comms = Communicator.of_devices([0, 1])
def of(comm, value):
    with aclnn.Device(comm.rank):
        return aclnn.asarray(np.full(3, value, np.float32))
def all_reduce(comm):
    with aclnn.Device(comm.rank):
        return comm.all_reduce(of(comm, comm.rank + 1))
def tell(*tensors):
    print([tensor.tolist() for tensor in tensors])
"""

ONE_THREAD = """
with Communicator.group():
    results = [all_reduce(comm) for comm in comms]
    with Communicator.group():  # no more than the outer one
        for comm, result in zip(comms, results):
            with aclnn.Device(comm.rank):
                results.append(comm.all_gather(result))  # in the order of the calls
tell(*results)
received = [of(comm, -1) for comm in comms]
with Communicator.group():
    for comm, result in zip(comms, received):
        with aclnn.Device(comm.rank):
            comm.send(of(comm, 10 + comm.rank), 1 - comm.rank)
            comm.recv(result, 1 - comm.rank)
tell(*received)
try:
    with Communicator.group():
        all_reduce(comms[0])
        raise KeyError("nothing of the block is called")
except KeyError:
    pass
try:
    all_reduce(comms[0])
except RuntimeError as error:
    print(error)
try:
    with Communicator.group():
        for comm in comms:
            with aclnn.Device(comm.rank):
                comm.all_reduce(aclnn.zeros(3, np.uint8))
except aclnn.AclError as error:
    print(error.status)
"""

TWO_THREADS = """
results = [None, None]
def body(comm):
    if comm.rank == 1:
        time.sleep(0.2)  # rank 0 waits in its call
    results[comm.rank] = all_reduce(comm)
threads = [threading.Thread(target=body, args=(comm,)) for comm in comms]
for thread in threads: thread.start()
for thread in threads: thread.join()
tell(*results)
"""


def on_two_devices(home: Path, program: str, **variables: str) -> str:
    environment = {**os.environ, "ASCEND_HOME_PATH": str(home), "ASCEND_ACLNN_BACKEND": "npu", **variables}
    environment["ASCEND_EMULATOR_DEVICES"] = "2"
    program = DEVICES + program
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600
    )
    assert found.returncode == 0 and not found.stderr, found.stdout + found.stderr
    return found.stdout


def test_one_thread_calls_all_devices_in_a_group(emulator_home: Path) -> None:
    lines = on_two_devices(emulator_home, ONE_THREAD).splitlines()
    assert lines[0] == str([[3.0] * 3] * 2 + [[3.0] * 6] * 2)
    assert lines[1] == str([[11.0] * 3, [10.0] * 3])
    assert "one thread cannot make one after the other: put them into with Communicator.group()" in lines[2]
    assert lines[3] == "5"


def test_the_program_of_the_documentation(emulator_home: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
    (program,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "of_devices" in block)
    assert on_two_devices(emulator_home, program).strip() == str([[1.0] * 4] * 2)


def test_each_device_is_called_from_a_thread_of_its_own(emulator_home: Path) -> None:
    assert on_two_devices(emulator_home, TWO_THREADS).strip() == str([[3.0] * 3] * 2)


@pytest.mark.parametrize("call", ["comm.all_reduce(of(comm, 1))", "comm.send(of(comm, 1), 1)"])
def test_the_first_call_waits_for_the_other_ranks_as_long_as_it_may(emulator_home: Path, call: str) -> None:
    """HCCL makes its links in the call, which HCCL_CONNECT_TIMEOUT ends."""
    program = f"""
comm = comms[0]
try:
    with Communicator.group():
        {call}
except aclnn.AclError as error:
    print(error)
"""
    text = on_two_devices(emulator_home, program, HCCL_CONNECT_TIMEOUT="4")
    assert "rank 1 did not answer rank 0 in time" in text and "status 9" in text


def test_the_numpy_backend_has_one_device() -> None:
    with aclnn.use_backend("numpy"):
        (comm,) = Communicator.of_devices([0])
        assert (comm.rank, comm.size) == (0, 1)
        comm.close()
        with pytest.raises(ValueError, match="device 1: the NumPy backend has one device"):
            Communicator.of_devices([0, 1])
        with pytest.raises(ValueError, match="they must be different"):
            Communicator.of_devices([0, 0])


@pytest.mark.parametrize("variable", ["HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", "HCCL_BUFFSIZE"])
@pytest.mark.parametrize("value", ["soon", "-1", "1e400"])
def test_a_wrong_setting_is_named_when_it_is_used(variable: str, value: str) -> None:
    program = """
import ascend_aclnn as aclnn
print(aclnn.ops.add([1.0], [2.0], 1))  # without ranks it does not matter
try:
    aclnn.Communicator.from_root_info(aclnn.Communicator.root_info(), 0, 1)
except ValueError as error:
    print(error)
"""
    environment = {**os.environ, "ASCEND_ACLNN_BACKEND": "numpy", variable: value}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("[3.]\n") and f"{variable} is {value!r}; it must be a number in" in done.stdout, done


def test_ranks_do_not_load_backends_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch_npu, which torch would load, raises RuntimeError on a host without CANN."""
    package = tmp_path / "torch"
    (package / "distributed").mkdir(parents=True)
    name = "TORCH_DEVICE_BACKEND_AUTOLOAD"
    (package / "__init__.py").write_text(
        f"import os\nif os.environ.get('{name}') != '0': raise RuntimeError('no CANN')\n"
    )
    (package / "distributed" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv(name, raising=False)
    for module in [module for module in sys.modules if module.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, module)
    assert network._torch().__file__ == str(package / "__init__.py")
    assert name not in os.environ
    for module in ("torch", "torch.distributed"):  # monkeypatch would put these back, where torch was not loaded before
        del sys.modules[module]
    monkeypatch.setenv(name, "1")  # as the user chose
    with pytest.raises(RuntimeError, match="no CANN"):
        network._torch()
    sys.modules.pop("torch", None)
