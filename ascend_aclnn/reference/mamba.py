"""References of ops-transformer/mamba: causal convolutions of one channel each, with cached states."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention.causal_conv import convolved, keep_last, sequences


def _line(args: NamedArguments, number: int) -> Optional[int]:
    """Which state belongs to a sequence; None for one that is left out."""
    indices = args["cacheIndices"]
    if indices is None:
        return number
    state = int(indices.reshape(-1)[number])
    if state == args["nullBlockId"]:
        return None
    check_range("cacheIndicesOptional", indices.reshape(-1)[number : number + 1], 0, len(args["convStatesRef"]))
    return state


def _finished(args: NamedArguments, padded: Array) -> Array:
    y = convolved(padded, args["weight"])
    if args["bias"] is not None:
        y = y + args["bias"]
    return y / (1 + np.exp(-y)) if args["activation"] == "silu" else y


@reference_by_name("aclnnCausalConv1dFn")
def causal_conv1d_fn(args: NamedArguments) -> dict[str, Array]:
    """Whole sequences, after zeros or after their cached states; the states keep their last tokens.

    The kernel does not look at the indices of blocks.
    """
    x, states, mode = args["x"], args["convStatesRef"].copy(), args["initialStateMode"]
    y, history = np.zeros(x.shape, np.float32), len(args["weight"]) - 1
    for number, where in enumerate(sequences(x, args["queryStartLoc"] if x.ndim == 2 else None)):
        line = _line(args, number)
        if line is None or not len(x[where]):
            continue
        before = np.zeros((history, x.shape[-1]), np.float32)
        if mode is not None and mode[number]:
            before = args["convStatesRef"][line, :history]
        padded = np.concatenate([before, x[where]])
        y[where] = _finished(args, padded)
        keep_last(states[line], padded)
    return {"convStatesRef": states, "y": y}


def _several_tokens(call: Any) -> Optional[str]:
    if call["numAcceptedTokensOptional"] is None and len(call.shape("x")) == 3 and call.shape("x")[1] != 1:
        return "x has several tokens for a sequence, and num_accepted_tokens is None: the document has no such case"
    return None


@reference_by_name("aclnnCausalConv1dUpdate", unsupported=_several_tokens)
def causal_conv1d_update(args: NamedArguments) -> dict[str, Array]:
    """The next tokens of each sequence; its state begins after the tokens that were accepted, and slides over them."""
    x, states, accepted = args["x"], args["convStatesRef"].copy(), args["numAcceptedTokens"]
    y, history, size = np.zeros(x.shape, np.float32), len(args["weight"]) - 1, states.shape[1]
    for number, where in enumerate(sequences(x, args["queryStartLoc"] if x.ndim == 2 else None)):
        line = _line(args, number)
        if line is None or not len(x[where]):
            continue
        first = 0 if accepted is None else max(int(accepted[number]) - 1, 0)
        if first + history > size:
            limit = size - history + 1
            raise DataError("numAcceptedTokensOptional", f"element [{number}] is {first + 1}; allowed: 0 to {limit}")
        padded = np.concatenate([args["convStatesRef"][line, first : first + history], x[where]])
        y[where] = _finished(args, padded)
        many = min(len(padded) - 1, size)
        states[line, :many] = padded[1 : 1 + many]
    return {"convStatesRef": states, "y": y}
