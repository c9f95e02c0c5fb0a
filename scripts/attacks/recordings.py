"""Recordings from strangers."""

from __future__ import annotations

import resource

from hostile_recordings import bomb, mutated, original, parts, put_together, use

from ascend_aclnn import use_backend
from attacks.scenario import Run, scenario

_MEMORY = 4 << 30  # bytes of address space


@scenario()
def hostile_recordings(run: Run) -> None:
    """Chunks with right checksums and wrong content, and bombs: refused or read, in bounded memory, writing nothing."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    folder = run.directory / "work"
    folder.mkdir()
    whole = parts(original(run.directory / "original"))
    for choice in run.rounds():
        listed = whole
        for _ in range(choice.randrange(1, 4)):
            listed = mutated(listed, choice) if len(listed) > 2 else whole
        path = put_together(folder / "hostile.aclnn", listed)
        if choice.random() < 0.02:
            path.unlink()
            bomb(path, 1 << choice.randrange(20, 29))
        run.step(f"a recording of {path.stat().st_size} bytes")
        with use_backend("numpy"):
            run.count("read" if use(path, folder) else "refused")
        names = {file.name.partition("-")[2] for file in folder.iterdir() if file != path}
        run.expect(names <= {"test.py", "part.aclnn"}, f"files that were not asked for: {sorted(names)}")
