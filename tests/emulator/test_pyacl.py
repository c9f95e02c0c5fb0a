"""pyACL's module over the emulated device: its conventions, its name under emulator run, virtual memory as sleep modes use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ascend_aclnn import pyacl
from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.pyacl import util
from ascend_aclnn.pyacl.binding import _gives, _snake_case

PROGRAM = """
import acl
from acl.rt import memcpy  # as vllm-ascend imports it
import numpy as np
assert acl.init() == 0
print(acl.rt.get_device_count(), acl.rt.set_device(0), acl.get_soc_name())
pointer, status = acl.rt.malloc(64, 0)
x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
print(status, memcpy(pointer, 64, acl.util.numpy_to_ptr(x), 64, 1), memcpy(acl.util.numpy_to_ptr(y), 64, pointer, 64, 2))
print((x == y).all())
stream, status = acl.rt.create_stream()
event, event_status = acl.rt.create_event()
print(status, event_status, acl.rt.record_event(event, stream), acl.rt.synchronize_stream(stream))
free, total, status = acl.rt.get_mem_info(1)
print(0 < free <= total, status)
print(acl.rt.free(pointer), acl.rt.free(pointer), "EMULATOR_DOUBLE_FREE" in acl.get_recent_err_msg())
address, status = acl.rt.reserve_mem_address(2 << 20, 0, 0, 0)
print(address > 0, status, acl.rt.release_mem_address(address))
print(acl.rt.destroy_event(event), acl.rt.destroy_stream(stream), acl.rt.reset_device(0), acl.finalize())
try:
    acl.rt.malloc(64)
except TypeError as error:
    print(error)
for missing in ("no_such_function", "launch_simt_kernel_with_host_args"):  # the second one is 9.2.0's
    try:
        getattr(acl.rt, missing)
    except AttributeError as error:
        print(error)
print("malloc_host" in dir(acl.rt), acl.rt.malloc.__doc__)
"""


def test_programs_import_acl_under_emulator_run(emulator_home: Path) -> None:
    variables = {k: v for k, v in environment(emulator_home).items() if k != "ASCEND_EMULATOR_CANN"}
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "(2, 0) 0 Ascend910B1",
        "0 0 0",
        "True",
        "0 0 0 0",
        "True 0",
        "0 107000 True",
        "True 0 0",
        "0 0 0 0",
        "acl.rt.malloc takes 2 arguments (size, policy); 1 were passed",
        "module 'acl.rt' has no function 'no_such_function'",
        "acl.rt.launch_simt_kernel_with_host_args: this CANN has no aclrtLaunchSIMTKernelWithHostArgs",
        "True aclrtMalloc(void ** devPtr, size_t size, aclrtMemMallocPolicy policy)",
    ]


def test_acl_is_not_installed_by_that_name() -> None:
    done = subprocess.run([sys.executable, "-c", "import acl"], capture_output=True, text=True, check=False)
    assert "No module named 'acl'" in done.stderr


def test_descriptions_of_aclnns_operators_are_not_listed() -> None:
    assert "create_tensor" not in dir(pyacl) and "create_data_buffer" in dir(pyacl)


@pytest.mark.parametrize(
    ("spelled", "gives"),
    [
        ("void **", True),
        ("uint32_t *", True),
        ("aclrtStream *", True),
        ("void *", False),
        ("char *", False),
        ("size_t", False),
    ],
)
def test_what_a_parameter_gives_follows_from_its_type(spelled: str, gives: bool) -> None:
    assert (_gives(spelled) is not None) is gives


def test_names_are_pyacls() -> None:
    names = {"MallocHost": "malloc_host", "GetDeviceCount": "get_device_count", "RICaptureBegin": "ri_capture_begin"}
    assert {name: _snake_case(name) for name in names} == names


def test_addresses_of_host_memory() -> None:
    x = np.arange(6, dtype=np.int32)
    pointer = util.numpy_to_ptr(x)
    shared = util.ptr_to_numpy(pointer, (2, 3), np.int32)
    shared[1, 2] = 77
    assert x[5] == 77 and util.ptr_to_bytes(pointer, 8) == x[:2].tobytes()
    assert util.ptr_to_numpy(pointer, (6,), np.dtype(np.int32).num).tolist() == x.tolist()
    data = b"abc"
    assert util.ptr_to_bytes(util.bytes_to_ptr(data), 3) == data
    with pytest.raises(ValueError, match="not contiguous"):
        util.numpy_to_ptr(x[::2])
