"""The emulated libllm_datadist.so: engines of adxl in two processes, called from C++ as Mooncake's transport calls them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CALLER = Path(__file__).with_name("adxl_caller.cpp")
COUNT = 1 << 18  # numbers of a block, 0, 1, ...
WHOLE = COUNT * (COUNT - 1) // 2
UPPER_HALF = WHOLE - COUNT // 2 * (COUNT // 2 - 1) // 2


@pytest.fixture(scope="module", params=["adxl", "hixl"])
def program(emulator_home: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The program with the names of either library: newer CANN calls the same engine hixl::Hixl."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    path, source, library = tmp_path_factory.mktemp("adxl") / "caller", CALLER.read_text(), "-lllm_datadist"
    if request.param == "hixl":
        source = (
            source.replace("adxl/adxl_engine.h", "hixl/hixl.h").replace("adxl", "hixl").replace("AdxlEngine", "Hixl")
        )
        library = "-lcann_hixl"
    path.with_suffix(".cpp").write_text(source)
    places = [f"-I{emulator_home / 'include'}", f"-L{emulator_home / 'lib64'}", library, "-lmetadef", "-lascendcl"]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    command = [compiler, *flags, str(path.with_suffix(".cpp")), "-o", str(path), *places]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return path


def start(program: Path, emulator_home: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {"LD_LIBRARY_PATH": str(emulator_home / "lib64"), "ASCEND_EMULATOR_STRICT": "1", "PATH": os.defpath}
    return subprocess.Popen(
        [str(program), *arguments], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_two_processes(program: Path, emulator_home: Path) -> None:
    name = f"127.0.0.1:{os.getpid()}"  # a name: the emulated engines listen on no port
    with start(program, emulator_home, "server", name) as server:
        assert server.stdin is not None and server.stdout is not None
        lines = [server.stdout.readline().strip() for _ in range(4)]
        assert lines[:2] == ["server 0 503900", "register 0"]  # a second engine cannot have the name
        with start(program, emulator_home, "client", name, *lines[2:], "60000") as client:
            assert client.stdin is not None and client.stdout is not None
            before = [client.stdout.readline().strip() for _ in range(6)]
            server.stdin.write("\n")
            server.stdin.flush()
            assert server.stdout.readline() == "register 0\n"
            output, _ = client.communicate("\n", timeout=300)
            assert client.returncode == 0
        rest, _ = server.communicate("\n", timeout=300)
        assert server.returncode == 0
    assert before == [
        "connect before 503900",
        "options 103900 0",
        "register 0",
        "not connected 103902 103902",
        "nobody 103901",
        "connect 0 103903 103900",
    ]
    block, later = map(int, lines[2:])
    where = "EMULATOR_INVALID_ADDRESS: AdxlEngine::TransferSync: remote_addr"
    assert output.splitlines() == [
        f"halves 0 sum {WHOLE}",
        "null 103900",
        "local 103900",
        f"remote 103900 {where} ({block + 4 * COUNT - 4:#x}, 8 bytes) is not memory that its engine has registered",
        f"later 103900 {where} ({later:#x}, 4 bytes) is memory that was registered after Connect; "
        "only what was registered before can be reached",
        "write 0",
        f"async 0 0 1 sum {UPPER_HALF} again 503900",
        "deregister 0 103900 103900",
        "disconnect 0 103902",
        "by itself 0",
        "register 0",
        f"by itself 0 sum {WHOLE}",
    ]
    assert rest == f"sum {UPPER_HALF}\n"


def test_an_engine_that_dies(program: Path, emulator_home: Path) -> None:
    """Its name is free again, and whoever is connected learns of it."""
    name = f"127.0.0.1:{os.getpid()}1"
    for _ in range(2):
        with start(program, emulator_home, "server", name) as server:
            assert server.stdin is not None and server.stdout is not None
            lines = [server.stdout.readline().strip() for _ in range(4)]
            assert lines[0] == "server 0 503900"
            with start(program, emulator_home, "client", name, *lines[2:], "100") as client:
                assert client.stdin is not None and client.stdout is not None
                assert [client.stdout.readline() for _ in range(6)][-1].startswith("connect 0")
                server.kill()
                server.wait()
                output, _ = client.communicate("\n", timeout=300)
                answered = dict(line.split(" ", 1) for line in output.splitlines())
                assert answered["halves"].startswith("503900")  # the connection ends
                assert answered["remote"].startswith("103902")  # and is gone afterwards
                assert client.returncode == 0
