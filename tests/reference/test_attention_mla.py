"""The preparation of latent attention, token by token in float64."""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np
import pytest
from attention_tools import BF16, close, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(14)
F32 = np.float32
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
TOKENS, HIDDEN, QUERY, HEADS, WIDTH, LATENT, ROPE = 3, 64, 96, 2, 32, 128, 16


def i8(*shape: int) -> Any:
    return RNG.integers(-100, 101, shape).astype(np.int8)


def scales(*shape: int) -> Any:
    return (RNG.random(shape) / 100 + 0.001).astype(F32)


def norm(x: Any, gamma: Any, epsilon: float) -> Any:
    return wide(gamma) * x / np.sqrt((x * x).mean() + epsilon)


def pairs(x: Any, cos: Any, sin: Any) -> Any:
    """Neighbours (a, b) turned, and put into halves."""
    half = len(x) // 2
    made = np.zeros(len(x))
    for j in range(half):
        a, b = x[2 * j], x[2 * j + 1]
        made[j] = a * cos[j] - b * sin[j]
        made[half + j] = b * cos[half + j] + a * sin[half + j]
    return made


class Case:
    """Random operands, whose products are small numbers."""

    def __init__(self, full: bool = False, partial: bool = False) -> None:
        self.x = i8(TOKENS, HIDDEN) if full else numbers(RNG, TOKENS, HIDDEN)
        self.dq = i8(HIDDEN, QUERY) if full else numbers(RNG, HIDDEN, QUERY)
        self.uq = i8(QUERY, HEADS * (WIDTH + ROPE)) if full or partial else numbers(RNG, QUERY, HEADS * (WIDTH + ROPE))
        self.uk = numbers(RNG, HEADS, WIDTH, LATENT)
        self.dkv = i8(HIDDEN, LATENT + ROPE) if full else numbers(RNG, HIDDEN, LATENT + ROPE)
        self.gamma_q, self.gamma_kv = numbers(RNG, QUERY), numbers(RNG, LATENT)
        self.sin, self.cos = numbers(RNG, TOKENS, ROPE), numbers(RNG, TOKENS, ROPE)
        self.scale_x = scales(TOKENS, 1) if full else None
        self.scale_dq = scales(1, QUERY) if full else None
        self.scale_uq = scales(1, HEADS * (WIDTH + ROPE)) if full or partial else None
        self.scale_dkv = scales(1, LATENT + ROPE) if full else None

    def down(self, token: int, weight: Any, scale: Any) -> Any:
        made = wide(self.x[token]) @ wide(weight)
        return made if scale is None else made * wide(self.scale_x)[token] * wide(scale)[0]

    def query(self, token: int, smooth: Optional[Any] = None) -> tuple[Any, Any, Any, Any]:
        """Absorbed and rotated parts by head, the normalised query and its scale."""
        normed = norm(self.down(token, self.dq, self.scale_dq), self.gamma_q, 1e-5)
        scale = None
        if self.scale_uq is not None:
            normed = normed if smooth is None else normed * wide(smooth)[0]
            scale = np.abs(normed).max() / 127
            normed = np.rint(normed / scale)
        made = normed @ wide(self.uq)
        if scale is not None:
            made = made * scale * wide(self.scale_uq)[0]
        made = made.reshape(HEADS, WIDTH + ROPE)
        nope = np.stack([made[h, :WIDTH] @ wide(self.uk[h]) for h in range(HEADS)])
        rope = np.stack([pairs(made[h, WIDTH:], wide(self.cos[token]), wide(self.sin[token])) for h in range(HEADS)])
        return nope, rope, normed, scale

    def key(self, token: int) -> tuple[Any, Any]:
        both = self.down(token, self.dkv, self.scale_dkv)
        turned = pairs(both[LATENT:], wide(self.cos[token]), wide(self.sin[token]))
        return norm(both[:LATENT], self.gamma_kv, 1e-5), turned

    @property
    def weights(self) -> tuple[Any, ...]:
        return self.x, self.dq, self.uq, self.uk, self.dkv, self.gamma_q, self.gamma_kv, self.sin, self.cos

    @property
    def scaling(self) -> tuple[Any, ...]:
        return self.scale_x, self.scale_dq, self.scale_uq, self.scale_dkv


SLOTS = np.array([5, 17, 0], np.int64)


@pytest.mark.parametrize("mode", ["PA_BSND", "PA_NZ"])
def test_prolog(mode: str) -> None:
    case, kv, kr = Case(), np.full((2, 16, 1, LATENT), 3, BF16), np.full((2, 16, 1, ROPE), 3, BF16)
    kv_out, kr_out, query, rope = ops.mla_prolog(*case.weights, SLOTS, kv, kr, *(None,) * 7, 1e-5, 1e-5, mode)
    assert kv_out is kv and kr_out is kr
    for cache, width in ((kv, LATENT), (kr, ROPE)):
        for token, slot in enumerate(SLOTS):
            page, place = divmod(int(slot), 16)
            if mode == "PA_NZ":
                row = cache[page].reshape(width // 16, 16, 16)[:, place].reshape(-1)
            else:
                row = cache[page, place, 0]
            close(row, case.key(token)[0 if width == LATENT else 1])
        assert (wide(cache) == 3).sum() >= (32 - 3) * width
    for token in range(TOKENS):
        nope, turned, _, _ = case.query(token)
        close(query[token], nope)
        close(rope[token], turned)


@pytest.mark.parametrize("smooth", [False, True])
def test_prolog_with_a_quantised_weight(smooth: bool) -> None:
    case, factor = Case(partial=True), np.abs(numbers(RNG, 1, QUERY, dtype=F32)) if smooth else None
    kv, kr = np.zeros((2, 16, 1, LATENT), np.int8), np.zeros((2, 16, 1, ROPE), np.int8)
    ckv, ckr = (np.full((1, n), 20, F32) for n in (LATENT, ROPE))
    _, _, query, rope, dequant = ops.mla_prolog_v2_weight_nz(
        *case.weights, SLOTS, kv, kr, *case.scaling, ckv, ckr, factor, 1e-5, 1e-5, "PA_BSND"
    )
    assert dequant is None
    for token, slot in enumerate(SLOTS):
        nope, turned, _, _ = case.query(token, factor)
        close(query[token], nope, 2.0**-6)
        close(rope[token], turned, 2.0**-6)
        latent, key = case.key(token)
        for cache, wanted in ((kv, latent), (kr, key)):
            expected = np.clip(np.rint(wanted * 20), -128, 127)
            assert np.abs(cache[slot // 16, slot % 16, 0] - expected).max() <= 1


def test_prolog_fully_quantised() -> None:
    case = Case(full=True)
    kv, kr = np.zeros((2, 16, 1, LATENT), np.int8), np.zeros((2, 16, 1, ROPE), BF16)
    scale = np.full(1, 30, F32)
    _, _, query, rope, dequant, normed, normed_scale = ops.mla_prolog_v3(
        *case.weights, kv, kr, SLOTS, *case.scaling, scale, None, None, None, 1e-5, 1e-5, "PA_BSND",
        True, 2, 1, 1, 0, 0, 128, 1.0, 2.0, 0.5,
    )  # fmt: skip
    for token, slot in enumerate(SLOTS):
        nope, turned, own, own_scale = case.query(token)
        nope, turned, own_scale = nope * 2, turned * 2, own_scale * 2
        assert normed_scale[token, 0] == pytest.approx(own_scale, rel=1e-4)
        assert np.abs(normed[token] - own).max() <= 1
        for head in range(HEADS):
            step = np.abs(nope[head]).max() / 127
            assert dequant[token, head, 0] == pytest.approx(step, rel=1e-2)
            assert np.abs(wide(query[token, head]) * dequant[token, head, 0] - nope[head]).max() <= 1.6 * step
            close(rope[token, head], turned[head] * 30 / step, 2.0**-6)
        latent, key = case.key(token)
        assert np.abs(kv[slot // 16, slot % 16, 0] - np.clip(np.rint(latent * 0.5 * 30), -128, 127)).max() <= 1
        close(kr[slot // 16, slot % 16, 0], key)


def test_prolog_with_tiles() -> None:
    """Elements, the rotated part and scales of tiles, all in one cache."""
    case = Case(partial=True)
    cache = np.zeros((2, 16, 1, LATENT + ROPE * 2 + LATENT // 64 * 4), np.int8)
    ops.mla_prolog_v4_weight_nz(
        *case.weights, cache, np.zeros(0, BF16), SLOTS, *case.scaling, None, None, None, None, np.array([0.5], F32),
        1e-5, 1e-5, "PA_BSND", 1, 3, 0, 1, 1, 64, 1.0, 1.0, True,
    )  # fmt: skip
    for token, slot in enumerate(SLOTS):
        row = cache[slot // 16, slot % 16, 0].view(np.uint8)
        latent, key = case.key(token)
        close(row[LATENT : LATENT + ROPE * 2].view(BF16), key)
        found = row[LATENT + ROPE * 2 :].view(F32)
        for tile in range(2):
            own = latent[tile * 64 : tile * 64 + 64]
            most = np.abs(own).max() * 0.5
            assert found[tile] == pytest.approx(most / 127, rel=1e-2)
            expected = np.clip(own, -most, most)
            values = row[tile * 64 : tile * 64 + 64].view(np.int8) * found[tile]
            assert np.abs(values - expected).max() <= most / 100


def test_prolog_with_microscaling() -> None:
    """Tokens and weights in FLOAT8 with a power of two for each 32 elements of a sum."""
    case = Case()
    e8m0 = np.dtype(ml_dtypes.float8_e8m0fnu)
    hidden, query = 64, 96

    def block(outer: int, inner: int) -> tuple[Any, Any, Any]:
        elements = numbers(RNG, outer, inner, dtype=FP8)
        powers = np.exp2(RNG.integers(-2, 2, (outer, inner // 32))).astype(F32)
        return elements, powers.astype(e8m0), wide(elements) * np.repeat(powers, 32, -1)

    x, x_scale, x_wide = block(TOKENS, hidden)
    dq, dq_scale, dq_wide = block(query, hidden)
    uq, uq_scale, uq_wide = block(HEADS * (WIDTH + ROPE), query)
    dkv, dkv_scale, dkv_wide = block(LATENT + ROPE, hidden)
    kv, kr = np.zeros((2, 16, 1, LATENT), BF16), np.zeros((2, 16, 1, ROPE), BF16)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        _, _, out, _rope, *_ = ops.mla_prolog_v3_weight_nz(
            x, np.ascontiguousarray(dq.T), np.ascontiguousarray(uq.T), case.uk, np.ascontiguousarray(dkv.T),
            case.gamma_q, case.gamma_kv, case.sin, case.cos, kv, kr, SLOTS, x_scale, dq_scale, uq_scale, dkv_scale,
            None, None, None, None, None, 1e-5, 1e-5, "PA_BSND", 3, 0, 0, 0, 0, 128, 1.0, 1.0,
        )  # fmt: skip
    for token, slot in enumerate(SLOTS):
        normed = norm(x_wide[token] @ dq_wide.T, case.gamma_q, 1e-5)
        made = (normed @ uq_wide.T).reshape(HEADS, -1)
        nope = np.stack([made[h, :WIDTH] @ wide(case.uk[h]) for h in range(HEADS)])
        limit = np.abs(nope).max()  # 3 bits of mantissa between two products
        assert np.abs(wide(out[token]) - nope).max() <= 0.1 * limit
        both = x_wide[token] @ dkv_wide.T
        close(kv[slot // 16, slot % 16, 0], norm(both[:LATENT], case.gamma_kv, 1e-5))
        close(kr[slot // 16, slot % 16, 0], pairs(both[LATENT:], wide(case.cos[token]), wide(case.sin[token])))


def test_prolog_writes_whole_pages_and_plain_sequences() -> None:
    case = Case()
    kv, kr = np.zeros((4, 2, 1, LATENT), BF16), np.zeros((4, 2, 1, ROPE), BF16)
    rest = (*(None,) * 7,)
    flags = (0, 0, 0, 0, 0, 128, 1.0, 1.0)
    ends = np.array([2, 3], np.int32)
    ops.mla_prolog_v3_weight_nz(
        *case.weights, kv, kr, np.array([3, 1], np.int64), *rest, ends, None, 1e-5, 1e-5, "PA_BLK_BSND", *flags
    )
    for token, place in enumerate(((3, 0), (3, 1), (1, 0))):
        close(kv[place][0], case.key(token)[0])
    plain, plain_rope = np.zeros((TOKENS, 1, LATENT), BF16), np.zeros((TOKENS, 1, ROPE), BF16)
    ops.mla_prolog_v3_weight_nz(*case.weights, plain, plain_rope, None, *rest, None, None, 1e-5, 1e-5, "TND", *flags)
    for token in range(TOKENS):
        close(plain[token, 0], case.key(token)[0])
        close(plain_rope[token, 0], case.key(token)[1])


def test_a_slot_after_the_end_of_the_cache() -> None:
    case, kv, kr = Case(), np.zeros((2, 16, 1, LATENT), BF16), np.zeros((2, 16, 1, ROPE), BF16)
    with pytest.raises(AclError, match=r"cache_index element \[1\] is 32; allowed: -1 to 31"):
        ops.mla_prolog(*case.weights, np.array([0, 32, 1]), kv, kr, *(None,) * 7, 1e-5, 1e-5, "PA_BSND")


# --------------------------------------------------------------------------------------------------- preprocess


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_preprocess(mode: int) -> None:
    tokens, hidden, query, heads, nope_width = 3, 256, 96, 2, 32
    x = numbers(RNG, tokens, hidden)
    gamma0, beta0, gamma1, beta1 = (numbers(RNG, n) for n in (hidden, hidden, query, query))
    gamma2, up = numbers(RNG, 512), numbers(RNG, heads, nope_width, 512)
    scale0, scale1 = np.array([0.05], BF16), np.array([0.04], BF16)
    offset0, offset1 = np.array([3], np.int8), np.array([-2], np.int8)
    down, uq = i8(576 + query, hidden), i8(heads * (nope_width + 64), query)
    descale0, descale1 = scales(576 + query), scales(heads * (nope_width + 64))
    bias0, bias1 = (RNG.integers(-500, 500, n).astype(np.int32) for n in (576 + query, heads * (nope_width + 64)))
    cos, sin = numbers(RNG, tokens, 64), numbers(RNG, tokens, 64)
    ctkv, qscale = np.array([0.03], BF16), np.array([0.5, 0.25], BF16)
    slots = np.array([130, 2, 77], np.int32)
    shapes: Any = {
        0: ((2, 128, 1, 576), None, BF16),
        1: ((2, 128, 1, 512), (2, 128, 1, 64), BF16),
        2: ((2, 16, 128, 32), (2, 4, 128, 16), np.dtype(np.int8)),
        3: ((2, 32, 128, 16), (2, 4, 128, 16), BF16),
    }[mode]
    kv = np.zeros(shapes[0], shapes[2])
    kr = None if shapes[1] is None else np.zeros(shapes[1], BF16)
    q_out, kv_out, q_rope, kr_out, q_down = ops.mla_preprocess_v2(
        x, gamma0, beta0, scale0, offset0, down, descale0, bias0, gamma1, beta1, scale1, offset1, uq, descale1, bias1,
        gamma2, cos, sin, up, kv, kr, slots, ctkv, qscale, 1536, 64, 64, 1e-5, 2, 2, True, True, True, mode, 0, True, 1,
        True,
    )  # fmt: skip

    def quantised(row: Any, gamma: Any, beta: Any, scale: Any, offset: Any) -> Any:
        made = (norm(row, gamma, 1e-5) + wide(beta)) / wide(scale)[0] + float(offset[0])
        return np.clip(np.rint(made), -128, 127)

    def halves(row: Any, token: int) -> Any:
        a, b = np.split(row, 2)
        return row * wide(cos[token]) + np.concatenate([-b, a]) * wide(sin[token])

    for token, slot in enumerate(slots):
        first = (quantised(wide(x[token]), gamma0, beta0, scale0, offset0) @ wide(down).T + bias0) * wide(descale0)
        close(q_down[token], norm(first[576:], gamma1, 1e-5) + wide(beta1), 2.0**-6)
        second = (quantised(first[576:], gamma1, beta1, scale1, offset1) @ wide(uq).T + bias1) * wide(descale1)
        second = second.reshape(heads, -1)
        latent, key = norm(first[:512], gamma2, 1e-5), halves(first[512:576], token)
        page, place = divmod(int(slot), 128)
        cached = (
            kv_out[page].reshape(-1, 128, shapes[0][-1])[:, place].reshape(-1) if mode > 1 else kv_out[page, place, 0]
        )
        if mode == 0:
            close(cached, np.concatenate([latent, key]), 2.0**-6)
        elif mode == 2:
            assert np.abs(cached - np.clip(np.rint(latent / wide(ctkv)[0]), -128, 127)).max() <= 1
        else:
            close(cached, latent, 2.0**-6)
        if kr_out is not None and mode:
            turned = kr_out[page].reshape(4, 128, 16)[:, place].reshape(-1) if mode > 1 else kr_out[page, place, 0]
            close(turned, key, 2.0**-6)
        for head in range(heads):
            absorbed = second[head, :nope_width] @ wide(up[head])
            rope = halves(second[head, nope_width:], token)
            if mode == 0:
                close(q_out[token, head], np.concatenate([absorbed, rope]), 2.0**-5)
                continue
            close(q_rope[token, head], rope, 2.0**-5)
            if mode == 2:
                expected = np.clip(np.rint(absorbed * wide(qscale)[head]), -128, 127)
                assert np.abs(q_out[token, head] - expected).max() <= 2
            else:
                close(q_out[token, head], absorbed, 2.0**-5)
