"""torch_npu's operators that run in ATB on an Ascend 310P, whose caches and masks lie in fractals."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from comparing import numbers
from suite_atb import HALF, attention, check, triangle

TABLE = torch.tensor([[4, 1], [2, 0]], dtype=torch.int32)
LENGTHS = [12, 27]
HIDDEN = -60000.0  # rather than -inf, of which 0 times is no number


def fractals(mask: torch.Tensor) -> torch.Tensor:
    """(rows, keys) as (1, keys / 16, rows, 16), in FRACTAL_NZ."""
    moved = mask.reshape(len(mask), -1, 16).transpose(0, 1).contiguous()
    return torch_npu.npu_format_cast(moved[None].to(HALF).npu(), 29)


def triangle_of(size: int) -> torch.Tensor:
    return torch.ones(size, size, dtype=HALF).triu(1) * HIDDEN


@pytest.fixture(scope="module")
def cache() -> tuple[torch.Tensor, ...]:
    """Keys and values (tokens, 2 heads, 32) of two sequences, and their caches."""
    key, value = (numbers(sum(LENGTHS), 2, 32, seed=seed, dtype=HALF) for seed in (1, 2))
    slots = [int(TABLE[row, t // 16]) * 16 + t % 16 for row, length in enumerate(LENGTHS) for t in range(length)]
    pages = [torch_npu.npu_format_cast(torch.zeros(5, 4, 16, 16, dtype=HALF).npu(), 29) for _ in range(2)]
    torch_npu._npu_reshape_and_cache(key.npu(), value.npu(), *pages, torch.tensor(slots, dtype=torch.int32).npu())
    return key, value, *pages


def test_fractal_caches(cache: tuple[torch.Tensor, ...]) -> None:
    key, value, *pages = cache
    query = numbers(2, 4, 32, dtype=HALF)
    out = torch.empty_like(query).npu()
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    torch_npu._npu_paged_attention(query.npu(), *pages, 2, 4, 0.2, TABLE.npu(), lengths, out)
    parts = zip(query.split(1), key.split(LENGTHS), value.split(LENGTHS))
    check(out, torch.cat([attention(*part, 0.2) for part in parts]))


@pytest.mark.parametrize("compressed", [False, True])
def test_several_tokens_with_fractal_masks(cache: tuple[torch.Tensor, ...], compressed: bool) -> None:
    key, value, *pages = cache
    counts = [3, 2]
    query = numbers(5, 4, 32, dtype=HALF)
    out = torch.empty_like(query).npu()
    sizes = [torch.tensor(n, dtype=torch.int32) for n in (counts, LENGTHS)]
    on = (query.npu(), *pages, TABLE.npu(), sizes[1])
    if compressed:
        mask = fractals(triangle_of(2048))
        torch.ops.atb._npu_paged_attention_splitfuse_v2(*on, mask, sizes[0], 2, 4, 0.2, out=out)
    else:
        rows = torch.zeros(16, 32)
        for row, seen in enumerate([10, 11, 12, 26, 27]):
            rows[row, seen:] = HIDDEN
        torch_npu._npu_paged_attention_splitfuse(*on, fractals(rows), sizes[0], 2, 4, 0.2, out)
    parts = zip(query.split(counts), key.split(LENGTHS), value.split(LENGTHS), counts, LENGTHS)
    check(out, torch.cat([attention(q, k, v, 0.2, triangle(c, n)) for q, k, v, c, n in parts]))


def test_packed_tokens_with_a_fractal_mask(cache: tuple[torch.Tensor, ...]) -> None:
    key, value, *_ = cache
    query = numbers(sum(LENGTHS), 4, 32, dtype=HALF)
    out = torch.empty_like(query).npu()
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    on = [t.npu() for t in (query, key, value)]
    torch_npu._npu_flash_attention(*on, fractals(triangle_of(32)), lengths, 0.2, 4, 2, out)
    parts = [
        (*part, 0.2, triangle(n, n)) for n, *part in zip(LENGTHS, *(t.split(LENGTHS) for t in (query, key, value)))
    ]
    wanted = torch.cat([attention(*part) for part in parts])
    check(out, wanted)
    out.zero_()
    torch_npu._npu_flash_attention(*on, fractals(triangle_of(16)), lengths, 0.2, 4, 2, out)
    with pytest.raises(RuntimeError):  # 27 keys are more than the mask has
        torch.npu.synchronize()


def test_what_310p_lacks() -> None:
    query = numbers(2, 4, 32, dtype=HALF).npu()
    pages = torch.zeros(5, 4, 16, 16, dtype=HALF).npu()
    lengths = torch.tensor([3, 4], dtype=torch.int32)
    for run in (
        lambda: torch_npu._npu_paged_attention_mla(query, pages, 1, 4, 0.2, TABLE.npu(), lengths, 32, query),
        lambda: torch.ops.atb.npu_ring_mla(*[query] * 5, query, lengths, head_num=4, kv_head_num=4, qk_scale=0.1),
    ):
        with pytest.raises(RuntimeError):
            run()
            torch.npu.synchronize()
