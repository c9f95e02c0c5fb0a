"""Directories, file systems and environments in which programs seldom run: odd names, nothing to write to, no space."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ascend_aclnn.core import files
from attacks.scenario import Run, patience, scenario

OPERATOR = """
import numpy as np, ascend_aclnn as aclnn
with aclnn.use_backend("npu"):
    print("sum", aclnn.ops.add(np.ones(1000, np.float32), np.ones(1000, np.float32), 1).sum())
"""
RANKS = """
import multiprocessing, os, numpy as np
from ascend_aclnn import Communicator, use_backend

def run(rank, info):
    with use_backend("numpy"), Communicator.from_root_info(info, rank, 2) as comm:
        total = np.asarray(comm.all_reduce(np.full(500_000, rank, np.float32)))
        assert (total == 1).all()

with use_backend("numpy"):
    info = Communicator.root_info()
fork = multiprocessing.get_context("fork")
ranks = [fork.Process(target=run, args=(rank, info)) for rank in range(2)]
for rank in ranks:
    rank.start()
for rank in ranks:
    rank.join()
assert [rank.exitcode for rank in ranks] == [0, 0]
print("sum 2000.0")
"""
DEVICES = """
import ctypes, numpy as np, ascend_aclnn as aclnn
from ascend_aclnn import Device
pids = set()
for number in range(COUNT):
    with aclnn.use_backend("npu"), Device(number):
        x = np.ones(1000, np.float32)
        total = aclnn.ops.add(x, x, 1).sum()
    pids.add(ctypes.CDLL("libascendcl.so").aclemuDevicePid(number))
assert len(pids - {0}) == COUNT, pids
print("sum", total)
"""
PROGRAMS = {"operator": OPERATOR, "ranks": RANKS}
PLACES = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "ASCEND_EMULATOR_CACHE", "ASCEND_PROCESS_LOG_PATH")
BEFORE_EXEC = 'exec "$@"'


class Place(NamedTuple):
    """Variables, shell commands in a mount namespace before the program, and what an error may say."""

    variables: dict[str, str]
    mounts: str = ""
    words: tuple[str, ...] = ()  # a build may fail with one of these; without any it must succeed


def directory(run: Run, name: str) -> str:
    path = run.directory / f"place{run.round}" / name
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


def lend_objects(cache: str) -> None:
    """Gives a cache the compiled sources of this user's, so that a build there only links."""
    target = Path(cache, "objects")
    target.mkdir(parents=True)
    Path(cache).chmod(0o700)
    for path in (files.cache_place("ASCEND_EMULATOR_CACHE", "emulator")[0] / "objects").glob("*.o"):
        os.link(path, target / path.name)


def odd_name(run: Run, choice: random.Random) -> Place:
    names = ("\u7f13\u5b58", "\u00fc with spaces", "quote'\"$HOME", "new\nline", os.fsdecode(b"\xff\xfe"), "-n", "%s%n")
    path = directory(run, choice.choice(names))
    lend_objects(path)
    locale = choice.choice(({}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}))
    return Place({**dict.fromkeys(PLACES, path), **locale})


def long_name(run: Run, choice: random.Random) -> Place:
    path = directory(run, "/".join(["x" * 200] * choice.choice((3, 15))))
    return Place(dict.fromkeys(PLACES, path), words=("File name too long", "too long"))


def small_shm(run: Run, choice: random.Random) -> Place:
    return Place({}, "mount -t tmpfs -o size=4k tmpfs /dev/shm")


def no_shm(run: Run, choice: random.Random) -> Place:
    path = directory(run, "dev")
    nodes = "".join(
        f"touch '{path}/{name}'; mount --bind /dev/{name} '{path}/{name}'; "
        for name in ("null", "zero", "random", "urandom", "full")
    )
    return Place({}, f"mount -t tmpfs tmpfs '{path}'; {nodes} mount --move '{path}' /dev; ln -s /proc/self/fd /dev/fd")


def read_only(run: Run, choice: random.Random) -> Place:
    path = directory(run, "empty")
    everything = "mount -o remount,bind,ro /; for at in /tmp /dev/shm /var/tmp; do mount -t tmpfs -o ro tmpfs $at; done"
    return Place(dict.fromkeys(PLACES, path), everything, ("Read-only file system", "No usable temporary directory"))


def full_disk(run: Run, choice: random.Random) -> Place:
    path = directory(run, "full")
    fill = choice.choice((f"dd if=/dev/zero of='{path}/zeros' bs=4k 2>/dev/null", f"mkdir '{path}/objects'"))
    size = choice.choice((64, 2048))
    return Place(
        dict.fromkeys(PLACES, path),
        f"mount -t tmpfs -o size={size}k tmpfs '{path}'; {fill}",
        ("No space left on device",),
    )


def no_home(run: Run, choice: random.Random) -> Place:
    path = directory(run, "temporary")
    lend_objects(f"{path}/ascend-aclnn-emulator-{os.getuid()}")
    return Place({"HOME": "/proc/nope", "XDG_CACHE_HOME": "", "ASCEND_EMULATOR_CACHE": "", "TMPDIR": path})


def others_files(run: Run, choice: random.Random) -> Place:
    """Directories where ours would be, with files that say that we have made them, of another user."""
    path = Path(directory(run, "others"))
    for name in ("cache", f"ascend-aclnn-emulator-{os.getuid()}", "build-old"):
        (path / name).mkdir()
        (path / name / "emulator.json").write_text(
            '{"made_by": "ascend_aclnn", "files": {"lib64/libascendcl.so": [1]}}'
        )
    mine = choice.choice((path / "cache", path))
    for each in (*path.rglob("*"), path):
        os.chown(each, 12345, 12345)
        each.chmod(choice.choice((0o755, 0o777, 0o000)) if each.is_dir() else 0o644)
    variables = {"HOME": str(path), "TMPDIR": str(path), "ASCEND_EMULATOR_CACHE": str(mine)}
    return Place(variables, words=("belongs to", "another user", "owned by", "user 12345"))


KINDS: tuple[Callable[[Run, random.Random], Place], ...] = (
    *(odd_name, long_name, small_shm, no_shm, read_only, full_disk, no_home, others_files),
)


@scenario(emulator=(), seconds=60)
def hostile_places(run: Run) -> None:
    """Operators, ranks and builds with odd paths, 4 KB of /dev/shm or none, nothing writable, full disks, others' files."""
    can_mount = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0 and os.getuid() == 0
    for choice in run.rounds():
        kind, program = choice.choice(KINDS), choice.choice(("operator", "ranks", "build"))
        if kind is others_files and os.getuid() != 0:
            continue
        place = kind(run, choice)
        if place.mounts and not can_mount:
            run.count("left out: needs root")
            continue
        try:
            attempt(run, kind.__name__, place, program)
        finally:
            top = run.directory / f"place{run.round}"
            for path in (top, *top.rglob("*")):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)
            shutil.rmtree(top, ignore_errors=True)


def attempt(run: Run, name: str, place: Place, program: str) -> None:
    environment = {**os.environ, **place.variables}
    if program == "build":
        for variable in ("ASCEND_HOME_PATH", "LD_LIBRARY_PATH"):
            environment.pop(variable, None)
        command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--", "true"]
    else:
        command = [sys.executable, "-c", PROGRAMS[program]]
    if place.mounts:
        command = ["unshare", "-m", "sh", "-c", f"{place.mounts}; {BEFORE_EXEC}", "sh", *command]
    run.step(f"{program} in {name}: {place}")
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=patience(120)
        )
    except subprocess.TimeoutExpired as error:
        run.fail(f"{program} in {name} hangs: {error.stderr!r}")
    said = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    if program == "build":
        if done.returncode == 0:
            run.count(f"{name}: built")
            return
        run.expect(0 < done.returncode < 128, f"build in {name} ended with {done.returncode}: {said}")
        run.expect("Traceback" not in said, f"build in {name} fails with a trace: {said}")
        run.expect(any(word in said for word in place.words), f"build in {name} does not say why: {said}")
        run.count(f"{name}: not built, said why")
        return
    run.expect(done.returncode == 0 and "sum 2000.0" in done.stdout, f"{program} in {name} failed: {said}")
    run.count(f"{name}: {program}")


@scenario(emulator=("--devices", "16"), seconds=20)
def many_devices(run: Run) -> None:
    """64 device processes at once: of four programs with sixteen devices each."""
    for _ in run.rounds():
        command = [sys.executable, "-c", DEVICES.replace("COUNT", "16")]
        programs = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(4)
        ]
        run.step("four programs with sixteen devices each")
        for program in programs:
            try:
                said, _ = program.communicate(timeout=patience(60))
            except subprocess.TimeoutExpired:
                for one in programs:
                    one.kill()
                run.fail("a program with sixteen devices hangs")
            run.expect(
                program.returncode == 0 and "sum 2000.0" in said, f"ended with {program.returncode}: {said[-3000:]}"
            )
        run.count("device processes", 64)
