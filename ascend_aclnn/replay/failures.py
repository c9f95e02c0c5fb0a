"""Launches that were found wrong, each in a recording of its own: inputs and result, and the golden beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Union

from ascend_aclnn.recording import Recording, Writer
from ascend_aclnn.replay.export import copy_launch
from ascend_aclnn.replay.launches import Outcome
from ascend_aclnn.testing import failures

_OF_ONE_OPERATOR = 2  # files


class Failures:
    """A directory for the first wrong launches of each operator; "off" or "" for none."""

    def __init__(self, directory: Union[str, Path]) -> None:
        self._directory = None if str(directory) in ("", "off") else Path(directory)
        self._written = Counter[str]()  # by operator

    def write(self, recording: Recording, outcome: Outcome) -> list[str]:
        """Records a launch whose results are wrong; lines that name the file and what opens it, or say why there is none."""
        name = outcome.launch.operator.name
        failed = [(one, output) for output, one in outcome.comparisons.items() if not one.accurate]
        if self._directory is None or not failed:
            return []
        if self._written[name] >= _OF_ONE_OPERATOR or sum(self._written.values()) >= failures.MOST_FILES:
            return []
        path = self._directory / f"{failures.file_name(f'{recording.path.stem}-{outcome.launch.index}-{name}')}.aclnn"
        try:
            if _is_failure(recording):
                return []
            self._directory.mkdir(parents=True, exist_ok=True)
            failures.write(
                path, failed, name, before=lambda writer: _copy(recording, outcome, writer), head=recording.header
            )
        except (OSError, TypeError, ValueError) as error:
            return [f"not recorded: {error}"]
        self._written[name] += 1
        return failures.commands(path)


def _is_failure(recording: Recording) -> bool:
    """Whether a recording is one that this module or the testing kit has written."""
    return recording.launches[len(recording.launches) - 1].operator.name == failures.COMPARE


def _copy(recording: Recording, outcome: Outcome, writer: Writer) -> None:
    launch = outcome.launch
    size = sum(t.description.byte_range[1] for value in launch.values for t in value.tensors())
    if size > failures.LIMIT:
        writer.note(f"launch {launch.index} of {recording.path.name} has {size} bytes of tensors and is left out")
    else:
        copy_launch(recording, launch, writer)


__all__ = ["Failures"]
