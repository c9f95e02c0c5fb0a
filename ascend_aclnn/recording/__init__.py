"""Recordings: what a program asked of CANN, in a file. docs/recording.md describes the format.

with Recording("run.aclnn") as recording:
    for launch in recording.launches:
        print(launch.index, launch.operator.name, launch.statuses)
"""

from ascend_aclnn.recording.chunks import RecordingError
from ascend_aclnn.recording.reader import LIMIT, Event, Note, Recording, elements
from ascend_aclnn.recording.records import (
    Call,
    End,
    Frame,
    Header,
    Launch,
    Prototype,
    ScalarValue,
    TensorDescription,
    TensorValue,
    Value,
    shown_frames,
)
from ascend_aclnn.recording.writer import Writer

__all__ = [
    "LIMIT",
    "Call",
    "End",
    "Event",
    "Frame",
    "Header",
    "Launch",
    "Note",
    "Prototype",
    "Recording",
    "RecordingError",
    "ScalarValue",
    "TensorDescription",
    "TensorValue",
    "Value",
    "Writer",
    "elements",
    "shown_frames",
]
