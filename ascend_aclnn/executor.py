"""Executor: the two phases by hand, with the exact C name and one argument for each C parameter."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional

from ascend_aclnn import call, catalog
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.call import executor_values
from ascend_aclnn.call.invoke import refuse_captured
from ascend_aclnn.core.streams import Stream, check_stream


class Executor:
    """Phase one of an operator; ``run`` is phase two.

    ``name`` is the C name ("aclnnRmsNormGrad"); ``args`` has one item for each C parameter in C order, without
    workspaceSize and executor: Tensor (or ndarray on the NumPy backend), None for a null pointer, numbers for attributes,
    Scalar for aclScalar, sequences for arrays and lists, str for char*. A one-shot executor runs once. With
    ``repeatable=True`` it runs often; where CANN refuses that, each run repeats phase one (``repeatable`` says which).
    """

    def __init__(self, name: str, *args: Any, repeatable: bool = False) -> None:
        try:
            operator = catalog.get(name)
        except KeyError:
            raise ValueError(catalog.unknown_name(name)) from None
        backend = current_backend()
        self.operator = operator
        self._often = repeatable
        self._spent = ""
        self._backend = backend
        self._values = executor_values(backend, operator, args)
        self._prepared = backend.prepare(operator, self._values, repeatable)
        self._run = self._prepared.run

    def __repr__(self) -> str:
        kind = "repeatable" if self._often else "one-shot"
        state = f"{kind}, {self._spent.partition(';')[0]}" if self._spent else kind
        return f"Executor({self.operator.name!r}, {state}, {self._backend.name})"

    @property
    def workspace_size(self) -> int:
        """Bytes of device memory that phase two needs beside the tensors."""
        return self._prepared.workspace_size

    @property
    def repeatable(self) -> bool:
        """True when CANN itself repeats the executor; False for a one-shot one, or when phase one is repeated instead."""
        return self._prepared.repeatable

    def run(self, stream: Optional[Stream] = None) -> None:
        """Phase two on a stream (by default the current one), asynchronously."""
        if stream is not None:
            check_stream(stream, self._backend)
        if self._spent:
            raise RuntimeError(f"{self.operator.name}: the executor {self._spent}")
        if self.operator.data_dependent and self._backend.captures:
            refuse_captured(self._backend, self.operator, stream)
        if not self._often:
            self._spent = "has run; make it with repeatable=True to run it often"
        observer = call.observer
        if observer is not None:
            observer.observe(self.operator.name, self._values, stream, lambda: self._run(stream))
        else:
            self._run(stream)

    def close(self) -> None:
        """Releases the executor and its handles; idempotent."""
        self._spent = "is closed"
        self._values = []
        self._prepared.close()

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
