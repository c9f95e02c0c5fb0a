"""Writes a recording from Python. The layer writes the same format in C (``layer/csrc/recorder.c``)."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.layouts import pack_bits
from ascend_aclnn.recording import chunks
from ascend_aclnn.recording.records import (
    Call,
    Frame,
    Header,
    Launch,
    Prototype,
    ScalarValue,
    TensorDescription,
    TensorValue,
    Value,
    from_number,
)

_WORTH = 64  # bytes below which nothing is compressed


class Writer:
    """A new recording; FileExistsError where there is a file of the name. Each record is in the file when a call returns."""

    def __init__(self, path: Union[str, os.PathLike[str]], header: Header, compress: bool = True) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)
        self._compress = compress
        self._tensors: dict[TensorDescription, int] = {}
        self._operators: dict[Prototype, int] = {}
        self._sites: dict[tuple[Frame, ...], int] = {}
        self._data: set[str] = set()
        self._launches = self._calls = 0
        os.write(self._descriptor, chunks.PREFIX.pack(chunks.MAGIC, chunks.VERSION, 0))
        self._write(chunks.HEAD, header.to_json())

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def data(self, data: Any) -> str:
        """Puts bytes (anything with a buffer) into the recording, once; their key."""
        view = memoryview(data).cast("B")
        digest = hashlib.blake2b(view, digest_size=16).digest()
        key = digest.hex()
        if key not in self._data:
            payload, codec = bytes(view), chunks.RAW
            if self._compress and len(payload) > _WORTH:
                smaller = zlib.compress(payload, 1)
                if len(smaller) < len(payload):
                    payload, codec = smaller, chunks.ZLIB
            self._append(chunks.DATA, chunks.DATA_HEADER.pack(digest, codec, 0, view.nbytes) + payload)
            self._data.add(key)
        return key

    def tensor(self, array: npt.ArrayLike, description: TensorDescription) -> str:
        """Puts the elements of a row-major tensor without an offset into the recording; the key of its bytes."""
        values = np.ascontiguousarray(array)
        bits = description.spec.dtype.bits
        data = pack_bits(values, bits) if 0 < bits < 8 else values.reshape(-1).view(np.uint8)
        start, stop = description.byte_range
        if start or stop != data.nbytes:
            raise ValueError(f"an array of {data.nbytes} bytes for {description}; it needs bytes {start} to {stop}")
        return self.data(data)

    def launch(
        self,
        operator: Prototype,
        values: Sequence[Value],
        *,
        statuses: tuple[int, Optional[int]] = (0, 0),
        workspace: tuple[int, int] = (0, 0),
        repeatable: bool = False,
        stream: int = 0,
        device: int = 0,
        threads: tuple[int, int] = (0, 0),
        times: tuple[int, int, int, int] = (0, 0, 0, 0),
        site: tuple[Frame, ...] = (),
        error: str = "",
        left_out: str = "",
        late: int = 0,
    ) -> int:
        """Records a launch; its index. The fields are those of ``records.Launch``."""
        if len(values) != len(operator.parameters):
            raise ValueError(f"{operator.name} has {len(operator.parameters)} parameters; {len(values)} values came")
        record = {
            "index": self._launches,
            "op": self._operator(operator),
            "args": [self._value(value) for value in values],
            "status": statuses[0],
            "workspace": list(workspace),
            "repeatable": repeatable,
            "stream": stream,
            "device": device,
            "threads": list(threads),
            "times": list(times[:2]),
        }
        if site:
            record["site"] = self._site(site)
        texts = {name: text for name, text in (("error", error), ("left_out", left_out)) if text}
        if statuses[1] is None:
            record.update(texts)
        self._write(chunks.LAUNCH, record)
        if statuses[1] is not None:
            returned = {"index": self._launches, "status": statuses[1], "times": list(times[2:]), **texts}
            if late:
                returned["late"] = late
            after = [_after(value) for value in values]
            if any(after):
                returned["after"] = after
            self._write(chunks.RETURN, returned)
        self._launches += 1
        return self._launches - 1

    def copy(self, launch: Launch) -> int:
        """Records a launch of another recording; its data are put in by ``data``. Its index here."""
        fields = dict(vars(launch))
        for name in ("index", "operator", "values"):
            del fields[name]
        return self.launch(launch.operator, launch.values, **fields)

    def call(self, call: Call) -> None:
        """Records another function's call."""
        record: dict[str, Any] = {"call": call.name, **call._asdict(), "times": list(call.times)}
        del record["name"], record["site"]
        if call.site:
            record["site"] = self._site(call.site)
        self._write(chunks.CALL, record)
        self._calls += 1

    def note(self, text: str) -> None:
        """Records a remark."""
        self._write(chunks.NOTE, {"text": text})

    def close(self, left_out: str = "") -> None:
        """Says that the recording is complete, and closes the file."""
        if self._descriptor < 0:
            return
        try:
            self._write(chunks.END, {"launches": self._launches, "calls": self._calls, "left_out": left_out})
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    # ---------------------------------------------------------------------------------------------- inside
    def _write(self, kind: bytes, record: Any) -> None:
        self._append(kind, chunks.to_json(record))

    def _append(self, kind: bytes, payload: bytes) -> None:
        rest = memoryview(chunks.chunk(kind, payload))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def _operator(self, operator: Prototype) -> int:
        number = self._operators.get(operator)
        if number is None:
            number = self._operators[operator] = len(self._operators)
            record = {"id": number, "name": operator.name, "parameters": list(operator.parameters)}
            self._write(chunks.OPERATOR, {**record, "directions": list(operator.directions)})
        return number

    def _site(self, site: tuple[Frame, ...]) -> int:
        number = self._sites.get(site)
        if number is None:
            number = self._sites[site] = len(self._sites)
            self._write(chunks.SITE, {"id": number, "frames": [list(frame) for frame in site]})
        return number

    def _value(self, value: Value) -> Any:
        kind, content = value
        if kind in ("null", "integer"):
            return content
        if kind == "tensor":
            return self._tensor(content)
        if kind == "tensors":
            return {kind: [None if member is None else self._tensor(member) for member in content]}
        if kind == "scalar":
            return self._scalar(content)
        if kind == "scalars":
            return {kind: [None if member is None else self._scalar(member) for member in content]}
        if kind == "number":
            return {kind: from_number(content)}
        if kind == "floats":
            return {kind: [from_number(member) for member in content]}
        return {kind: list(content) if isinstance(content, tuple) else content}

    def _tensor(self, tensor: TensorValue) -> dict[str, Any]:
        number = self._tensors.get(tensor.description)
        if number is None:
            number = self._tensors[tensor.description] = len(self._tensors)
            self._write(chunks.TENSOR, tensor.description.to_json(number))
        record: dict[str, Any] = {"tensor": number, "address": tensor.address}
        if tensor.before is not None:
            record["before"] = tensor.before
        return record

    @staticmethod
    def _scalar(scalar: ScalarValue) -> dict[str, Any]:
        return {"scalar": scalar.dtype, "bytes": scalar.data.hex()}


def _after(value: Value) -> Any:
    """The keys of the data of a value after the launch, as ``records`` reads them."""
    if value.kind == "tensor":
        return value.content.after
    if value.kind == "tensors":
        keys = [None if member is None else member.after for member in value.content]
        return keys if any(keys) else None
    return None


__all__ = ["Writer"]
