"""Recordings used: run again, shown, compared with each other, cut to a part, written as a test. docs/recording.md."""

from ascend_aclnn.replay.collectives import Exchange, exchanges
from ascend_aclnn.replay.difference import Difference, differences
from ascend_aclnn.replay.export import export, trim
from ascend_aclnn.replay.launches import Outcome, Replay, replay, rules_of

__all__ = [
    "Difference",
    "Exchange",
    "Outcome",
    "Replay",
    "differences",
    "exchanges",
    "export",
    "replay",
    "rules_of",
    "trim",
]
