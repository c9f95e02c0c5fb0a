"""Causal convolutions of one channel each, whose first tokens come from a cache of states."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference


def convolved(padded: Array, weight: Array) -> Array:
    """y[i] = sum of weight[k] * padded[i + k]; as many tokens fewer as there are taps but one."""
    many = len(padded) - len(weight) + 1
    return np.asarray(sum(padded[k : k + many] * weight[k] for k in range(len(weight))), np.float32)


def sequences(x: Array, starts: Optional[Array]) -> list[Any]:
    """Where each sequence lies: (batch, tokens, channels), or packed tokens by where they start."""
    if x.ndim == 3:
        return list(range(len(x)))
    if starts is None:
        raise DataError("queryStartLoc", "is None; with x of two axes it is required")
    if starts[0] != 0 or starts[-1] != len(x) or (np.diff(starts) < 0).any():
        raise DataError("queryStartLoc", f"is {starts.tolist()}; it must rise from 0 to {len(x)}")
    return [slice(int(a), int(b)) for a, b in zip(starts, starts[1:])]


def keep_last(state: Array, padded: Array) -> None:
    """The last tokens of a sequence, at the end of its state."""
    many = min(len(state), len(padded))
    state[len(state) - many :] = padded[len(padded) - many :]


# --------------------------------------------------------------------------------------------------- with a mask


def _shifted(x: Array, by: int) -> Array:
    """Tokens later by so many, zeros before them (or earlier, zeros after them)."""
    shifted = np.zeros_like(x)
    if abs(by) < len(x):
        shifted[max(by, 0) : len(x) + min(by, 0)] = x[max(-by, 0) : len(x) - max(by, 0)]
    return shifted


def _masked(x: Array, mask: Optional[Array]) -> Array:
    return x if mask is None else x * (mask != 0).T[..., None]


@reference("aclnnMaskedCausalConv1d")
def masked_causal_conv1d(x: Array, weight: Array, mask: Optional[Array]) -> Array:
    """mask * sum of x[i - k] * weight[W - 1 - k]; x is (tokens, batch, channels)."""
    taps = len(weight)
    return _masked(np.asarray(sum(_shifted(x, k) * weight[taps - 1 - k] for k in range(taps))), mask)


@reference("aclnnMaskedCausalConv1dBackward")
def masked_causal_conv1d_backward(grad: Array, x: Array, weight: Array, mask: Optional[Array]) -> tuple[Array, Array]:
    taps, dy = len(weight), _masked(grad, mask)
    dx = np.asarray(sum(_shifted(dy, -k) * weight[taps - 1 - k] for k in range(taps)))
    return dx, np.stack([(_shifted(dy, k + 1 - taps) * x).sum((0, 1)) for k in range(taps)])


# --------------------------------------------------------------------------------------------------- with prefix caching


class _Fused:
    """One call; states are changed in place."""

    def __init__(self, args: NamedArguments, states: Array) -> None:
        self.args, self.states = args, states
        self.indices = args["cacheIndices"]
        self.cached_blocks = self.indices is not None and self.indices.ndim == 2
        self.history = len(args["weight"]) - 1

    def of(self, name: str, number: int) -> Optional[int]:
        values = self.args[name]
        return None if values is None else int(values[number])

    def line(self, number: int, block: Optional[int]) -> int:
        """Which state belongs to a sequence (and one of its blocks)."""
        if self.indices is None:
            state = number
        elif self.cached_blocks:
            if block is None or not 0 <= block < self.indices.shape[1]:
                raise DataError(
                    "initialStateIdx", f"or a block index is {block}; there are {self.indices.shape[1]} blocks"
                )
            state = int(self.indices[number, block])
        else:
            state = int(self.indices[number])
        check_range("cacheIndices", np.array([state]), 0, len(self.states))
        return state

    def padded(self, x: Array, number: int, line: int) -> tuple[Array, int]:
        """The cached tokens and x, and where the ones that are convolved begin."""
        state, computed, accepted = (
            self.states[line],
            self.of("numComputedTokens", number),
            self.of("numAcceptedTokens", number),
        )
        if computed == 0:
            offset, cached = 0, np.zeros((self.history, x.shape[1]), np.float32)
        else:
            offset = len(state) - self.history if accepted is None else accepted - 1
            if not 0 <= offset <= len(state) - self.history:
                raise DataError(
                    "numAcceptedTokens", f"element [{number}] is {accepted}; the states are {len(state)} tokens long"
                )
            cached = state[: offset + self.history]
        return np.concatenate([cached, x]), offset

    def fill_blocks(self, x: Array, number: int, first: int, last: int) -> None:
        """The states at the ends of the blocks that x completes; x begins with the history."""
        size, tokens = self.args["blockSize"], len(x) - self.history
        done = size - int(self.args["numComputedTokens"][number]) % size
        rest = (tokens - done) % size
        boundary = tokens - rest - (size if rest == 0 else 0)
        for chunk in range(last - first):
            at = boundary - (last - first - chunk - 1) * size
            if 0 <= at <= tokens:
                state = self.states[self.line(number, first + chunk)]
                state[len(state) - self.history :] = x[at : at + self.history]

    def run(self, x: Array, number: int) -> Optional[Array]:
        """The result of one sequence; None for one that is left out."""
        args = self.args
        if self.indices is not None and self.indices.reshape(len(self.indices), -1)[number, 0] == args["padSlotId"]:
            return None
        first, last = self.of("blockIdxFirstScheduledToken", number), self.of("blockIdxLastScheduledToken", number)
        padded, offset = self.padded(x, number, self.line(number, self.of("initialStateIdx", number)))
        keep_last(self.states[self.line(number, last)], padded)
        used = padded[offset:]
        if self.cached_blocks and first is not None and last is not None and args["numComputedTokens"] is not None:
            self.fill_blocks(used, number, first, last)
        y = convolved(used, args["weight"])
        computed = self.of("numComputedTokens", number)
        if args["convMode"] == 1 and computed is not None:
            y[: min(max(self.history - computed, 0), len(y))] = 0
        return x + y if args["residualConnection"] else y


@reference_by_name("aclnnFusedCausalConv1d", "aclnnInplaceFusedCausalConv1d")
def fused_causal_conv1d(args: NamedArguments) -> dict[str, Array]:
    """Each sequence after its cached tokens, convolved, added to x if that is asked for; the cache keeps the last tokens."""
    x, states = args["x"], args["convStates"].copy()
    fused, y = _Fused(args, states), np.zeros(x.shape, np.float32)
    for number, where in enumerate(sequences(x, args["queryStartLoc"])):
        result = fused.run(x[where], number)
        if result is not None:
            y[where] = result
        elif args.operator == "aclnnInplaceFusedCausalConv1d":
            y[where] = x[where]
    return {"x": y, "y": y, "convStates": states}
