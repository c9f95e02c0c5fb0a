"""Session: what everything that uses a device shares: the libraries, the runtime, the handles, the stream to launch on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from ascend_aclnn.backends.npu.handles import Handles
from ascend_aclnn.backends.npu.library import Libraries
from ascend_aclnn.backends.npu.memory import NpuStorage, Pool
from ascend_aclnn.backends.npu.runtime import DeviceState, Runtime, StreamState
from ascend_aclnn.core.interface import DeviceInterface, StreamHandle
from ascend_aclnn.core.streams import entered_streams


class Session:
    """One initialised CANN. Made once per process, by the backend."""

    def __init__(self, backend: DeviceInterface, libraries: Libraries) -> None:
        self.backend = backend  # what storages and streams name as theirs
        self.libraries = libraries
        self.runtime = Runtime.start(libraries, Pool)
        self.handles = Handles(self.runtime)
        self.set_repeatable = libraries.function("aclSetAclOpExecutorRepeatable")
        self.destroy_executor = libraries.function("aclDestroyAclOpExecutor")
        cache = [
            libraries.optional(f) for f in ("InitPTACacheThreadLocal", "SetPTAHashKey", "UnInitPTACacheThreadLocal")
        ]
        self._executor_cache: Optional[list[Any]] = cache if all(cache) else None

    @property
    def library_path(self) -> Path:
        """The runtime library in use."""
        assert self.libraries.search_result.runtime is not None
        return self.libraries.search_result.runtime

    @contextlib.contextmanager
    def without_executor_cache(self) -> Iterator[None]:
        """Keeps CANN from answering phase one from this thread's cache of executors, as op-plugin does: with key 0."""
        if self._executor_cache is None:
            yield
            return
        begin, set_key, end = self._executor_cache
        begin()
        set_key(0)
        try:
            yield
        finally:
            end()

    def allocate(self, nbytes: int, device: int) -> NpuStorage:
        """A storage whose memory is reserved at its first touch."""
        return NpuStorage(self.backend, self.runtime, device, nbytes)

    def device(self) -> DeviceState:
        """The current device, whose context is current then."""
        runtime = self.runtime
        cells = runtime.cells
        if runtime.closed or not cells.has_context or runtime.get_device(cells.device_at):
            return runtime.current()
        # what current() does where all is well, without the call
        return runtime.devices.get(cells.device.value) or runtime.current()

    def target(self, stream: Optional[StreamHandle]) -> StreamState:
        """The stream to launch on (None: the current one), whose device must be current."""
        runtime, state = self.runtime, self.device()
        if stream is None:
            return runtime.current_stream(state.index) if entered_streams() else state.default
        if stream.device != state.index:
            raise ValueError(
                f"the stream is of device {stream.device}, the current device is {state.index}; "
                f"run it under  with Device({stream.device})"
            )
        if not stream._release.alive:
            raise ValueError(f"{stream!r} is closed")
        handle = stream.handle
        return state.streams.get(handle) or runtime.stream(stream.device, handle)
