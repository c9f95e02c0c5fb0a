"""Rules of ops-transformer/mamba: causal convolutions of one channel each, with cached states."""

from __future__ import annotations

from ascend_aclnn.rules.language import *


def _channels(call: Call) -> None:
    """x (tokens, channels) or (batch, tokens, channels); a kernel of 2 to 4 taps; states of as many tokens but one."""
    rank(2, 3, "x")(call)
    rank(2, 2, "weight")(call)
    rank(3, 3, "convStatesRef")(call)
    channels, (taps, width), states = call.shape("x")[-1], call.sizes("weight", 2), call.shape("convStatesRef")
    call.require(2 <= taps <= 4, "weight", f"has {taps} taps; it must have between 2 and 4")
    call.require(width == channels, "weight", f"has {width} channels; it must have {channels}, as x")
    fits = states[2] == channels and states[1] >= taps - 1
    call.require(fits, "convStatesRef", f"has shape {states}; at least {taps - 1} rows of {channels} are needed")
    fits = 64 <= channels <= 16384 and channels % 16 == 0
    call.require(fits, "x", f"has {channels} channels; between 64 and 16384, a multiple of 16, are needed")


def _sequences(update: bool) -> Check:
    """Where the sequences start is told by their starts, or by the first axis of x."""

    def check(call: Call) -> None:
        x, starts = call.shape("x"), "queryStartLocOptional"
        if call.is_present(starts):
            rank(1, 1, starts)(call)
        count = call.shape(starts)[0] - 1 if call.is_present(starts) and call.shape(starts)[0] > 0 else None
        if len(x) == 2:
            call.require(count is not None, starts, "is None; with x of two axes it is required")
            if update:
                accepted = call.is_present("numAcceptedTokensOptional")
                call.require(accepted, "numAcceptedTokensOptional", "is None; with x of two axes it is required")
        elif not update:
            call.require(x[1] > 0, "x", f"has shape {x}; its sequences must not be empty")
            call.require(count in (None, x[0]), starts, f"has {count} sequences; it must have {x[0]}, as x")
        if update and call.is_present("numAcceptedTokensOptional"):
            taps = call.shape("weight")[0]
            call.require(taps == 4, "weight", f"has {taps} taps; with num_accepted_tokens it must have 4")
        batch = x[0] if len(x) == 3 and (count is None or not update) else count
        lines = call.shape("convStatesRef")[0]
        fits = batch is not None and 1 <= batch <= 1024 and lines >= batch
        call.require(fits, "convStatesRef", f"has {lines} lines; {batch} sequences (1 to 1024) need one each")

    return check


for _name, _update in (("aclnnCausalConv1dFn", False), ("aclnnCausalConv1dUpdate", True)):
    rule(
        _name,
        dtypes("FLOAT16 BF16", "x"),
        same_dtype("x", "weight", "convStatesRef", "y", "biasOptional"),
        dtypes("INT32", "queryStartLocOptional", "cacheIndicesOptional"),
        documented_dtypes(),
        _channels,
        _sequences(_update),
        lambda call: rank(len(call.shape("x")), len(call.shape("x")), "y")(call),
        one_of("activation", "silu", "none", ""),
        documented_products,
        infer_shape(y="x"),
        nullable="activation",
    )
