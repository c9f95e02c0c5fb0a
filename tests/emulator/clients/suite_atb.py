"""torch_npu's operators that run in ATB (libatb.so), against independent float64 computations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import pytest
import torch
import torch_npu
from comparing import numbers

HALF, BF16 = torch.float16, torch.bfloat16
ATOL = {HALF: 2e-3, BF16: 1.6e-2, torch.float32: 1e-4}


def check(got: torch.Tensor, wanted: torch.Tensor) -> None:
    """``wanted`` is float64; one rounding to the type of ``got``, and sums in another order."""
    got = got.cpu()
    assert got.shape == wanted.shape
    torch.testing.assert_close(got.double(), wanted, atol=ATOL[got.dtype], rtol=ATOL[got.dtype])


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, added: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """Of (queries, heads, width), (keys, key heads, width); float64."""
    q, k, v = q.double(), k.double(), v.double()
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    if added is not None:
        scores = scores + added
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


def triangle(queries: int, keys: int) -> torch.Tensor:
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    return torch.zeros(queries, keys, dtype=torch.float64).masked_fill(hidden, float("-inf"))


class Cache:
    """Sequences of keys and values, written to shuffled pages by ``_npu_reshape_and_cache``."""

    def __init__(self, lengths: list[int], heads: int, width: int, dtype: torch.dtype, size: int = 16) -> None:
        self.lengths, self.size = lengths, size
        counts = [-(-length // size) for length in lengths]
        pages = torch.randperm(sum(counts) + 2, generator=torch.Generator().manual_seed(3))
        self.table = torch.zeros(len(lengths), max(counts), dtype=torch.int32)
        self.slots: list[int] = []
        for row, (length, count) in enumerate(zip(lengths, counts)):
            self.table[row, :count] = pages[sum(counts[:row]) :][:count]
            self.slots += [int(self.table[row, t // size]) * size + t % size for t in range(length)]
        self.key = numbers(sum(lengths), heads, width, seed=1, dtype=dtype)
        self.value = numbers(sum(lengths), heads, width, seed=2, dtype=dtype)
        shape = (len(pages), size, heads, width)
        self.keys, self.values = (torch.full(shape, 9.0, dtype=dtype).npu() for _ in range(2))
        torch_npu._npu_reshape_and_cache(self.key.npu(), self.value.npu(), self.keys, self.values, self.slot_tensor())

    def slot_tensor(self) -> torch.Tensor:
        return torch.tensor(self.slots, dtype=torch.int32).npu()

    def of(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        start = sum(self.lengths[:row])
        part = slice(start, start + self.lengths[row])
        return self.key[part], self.value[part]

    def context(self) -> torch.Tensor:
        return torch.tensor(self.lengths, dtype=torch.int32)


# --------------------------------------------------------------------------------------------------- caches of pages


def test_rows_are_written_at_their_slots_and_nowhere_else() -> None:
    cache = Cache([5, 17, 40], 2, 64, HALF)
    for pages, rows in ((cache.keys, cache.key), (cache.values, cache.value)):
        flat = pages.cpu().reshape(-1, 2, 64)
        assert torch.equal(flat[cache.slots], rows)
        flat[cache.slots] = 9
        assert bool((flat == 9).all())


def test_a_slot_below_zero_is_left_out_and_keys_may_be_alone() -> None:
    pages = torch.zeros(2, 16, 1, 32, dtype=BF16).npu()
    rows = numbers(3, 1, 32, dtype=BF16)
    torch_npu._npu_reshape_and_cache_siso(rows.npu(), pages, torch.tensor([20, -1, 3], dtype=torch.int32).npu())
    flat = pages.cpu().reshape(-1, 1, 32)
    assert torch.equal(flat[[20, 3]], rows[[0, 2]])
    assert int((flat != 0).any(-1).sum()) == 2


@pytest.fixture
def private_formats() -> Iterator[None]:
    torch.npu.config.allow_internal_format = True
    yield
    torch.npu.config.allow_internal_format = False


def test_fractal_caches(private_formats: None) -> None:
    key, value = numbers(4, 2, 32, dtype=HALF), numbers(4, 2, 48, seed=1, dtype=HALF)
    caches = [
        torch_npu.npu_format_cast(torch.zeros(3, heads, 16, 16, dtype=HALF).npu(), 29) for heads in (64 // 16, 96 // 16)
    ]
    slots = [33, 2, 17, 40]
    torch_npu._npu_reshape_and_cache(key.npu(), value.npu(), *caches, torch.tensor(slots, dtype=torch.int32).npu())
    for cache, rows in zip(caches, (key, value)):
        pages = torch_npu.npu_format_cast(cache, 2).cpu()
        assert torch.equal(pages.transpose(1, 2).reshape(48, -1)[slots], rows.reshape(4, -1))


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_paged_attention(dtype: torch.dtype) -> None:
    cache = Cache([5, 17, 40], 2, 64, dtype)
    query = numbers(3, 8, 64, dtype=dtype).npu()
    out = torch.empty_like(query)
    arguments = (query, cache.keys, cache.values, 2, 8, 0.125, cache.table.npu(), cache.context(), out)
    wanted = torch.cat([attention(query[i : i + 1].cpu(), *cache.of(i), 0.125) for i in range(3)])
    torch_npu._npu_paged_attention(*arguments)
    check(out, wanted)
    workspace = torch_npu._npu_paged_attention_get_workspace(*arguments)
    out.zero_()
    torch_npu._npu_paged_attention(*arguments, workspace=workspace)
    check(out, wanted)


def test_paged_attention_of_latent_keys() -> None:
    cache = Cache([9, 30], 1, 576, BF16)
    query = numbers(2, 16, 576, dtype=BF16).npu()
    out = torch.empty(2, 16, 512, dtype=BF16).npu()
    torch_npu._npu_paged_attention_mla(query, cache.keys, 1, 16, 0.05, cache.table.npu(), cache.context(), 512, out)
    check(
        out, torch.cat([attention(query[i : i + 1].cpu(), k := cache.of(i)[0], k[..., :512], 0.05) for i in range(2)])
    )


def test_several_tokens_over_pages_with_a_row_of_the_mask_for_each() -> None:
    cache, counts = Cache([20, 33], 2, 64, HALF), [4, 1]
    query = numbers(5, 4, 64, dtype=HALF).npu()
    mask = torch.cat([torch.nn.functional.pad(triangle(c, n), (0, 40 - n)) for c, n in zip(counts, cache.lengths)])
    out = torch.empty_like(query)
    torch_npu._npu_paged_attention_splitfuse(
        query, cache.keys, cache.values, cache.table.npu(), cache.context(), mask.to(HALF).npu(),
        torch.tensor(counts, dtype=torch.int32), 2, 4, 0.125, out,
    )  # fmt: skip
    parts = zip(query.cpu().split(counts), range(2), counts, cache.lengths)
    check(out, torch.cat([attention(q, *cache.of(i), 0.125, triangle(c, n)) for q, i, c, n in parts]))


def test_a_bias_of_each_head() -> None:
    cache = Cache([7, 25], 2, 64, BF16)
    query = numbers(2, 4, 64, dtype=BF16).npu()
    bias = numbers(4, 1, 32, seed=5, dtype=BF16)
    out = torch.empty_like(query)
    torch.ops.atb._npu_paged_attention_v2(
        query, cache.keys, cache.table.npu(), cache.lengths, value_cache=cache.values, mask=bias.npu(), num_kv_heads=2,
        num_heads=4, scale_value=0.125, mask_type=2, out=out,
    )  # fmt: skip
    wanted = [
        attention(query[i : i + 1].cpu(), *cache.of(i), 0.125, bias[..., : cache.lengths[i]].double()) for i in range(2)
    ]
    check(out, torch.cat(wanted))


def test_caches_of_bytes() -> None:
    cache = Cache([12, 20], 2, 64, torch.int8)
    query = numbers(2, 4, 64, dtype=HALF).npu()
    scales = numbers(2, 128, low=0.1, high=0.5)
    out = torch.empty_like(query)
    torch_npu._npu_paged_attention_quant(
        query, cache.keys, cache.values, 2, 4, 0.05, cache.table.npu(), cache.context(), 1, -1, scales[0].npu(),
        scales[1].npu(), out,
    )  # fmt: skip
    wanted = []
    for i in range(2):
        k, v = (part.double() * scale.reshape(2, 64) for part, scale in zip(cache.of(i), scales))
        wanted.append(attention(query[i : i + 1].cpu(), k, v, 0.05))
    check(out, torch.cat(wanted))


def test_pages_become_rows() -> None:
    cache = Cache([5, 17], 2, 64, HALF)
    key, value = torch.ops.atb.npu_paged_cache_load(cache.keys, cache.values, cache.table.npu(), cache.context().npu())
    assert torch.equal(key.cpu(), cache.key) and torch.equal(value.cpu(), cache.value)


# ------------------------------------------------------------------------------------------------------- packed tokens


def packed(dtype: torch.dtype, lengths: list[int], heads: int = 4, key_heads: int = 2) -> list[torch.Tensor]:
    shapes = ((heads, 64), (key_heads, 64), (key_heads, 64))
    return [numbers(sum(lengths), *shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]


def by_sequence(tensors: list[torch.Tensor], lengths: list[int], scale: float, causal: bool) -> torch.Tensor:
    parts = zip(*(t.split(lengths) for t in tensors))
    return torch.cat([attention(*part, scale, triangle(n, n) if causal else None) for part, n in zip(parts, lengths)])


def test_sequences_of_packed_tokens() -> None:
    lengths = [9, 14]
    tensors = packed(HALF, lengths)
    out = torch.empty_like(tensors[0]).npu()
    sizes = torch.tensor(lengths, dtype=torch.int32)
    for function in (torch_npu._npu_flash_attention_unpad, torch_npu._npu_flash_attention_unpad_v2):
        out.zero_()
        settings = {} if function is torch_npu._npu_flash_attention_unpad else {"out": out}
        last = () if settings else (out,)
        function(*(t.npu() for t in tensors), sizes, 0.125, 4, 2, *last, **settings)
        check(out, by_sequence(tensors, lengths, 0.125, False))


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_a_mask_of_packed_tokens(dtype: torch.dtype) -> None:
    """Halves get what is added, BF16 ones where a key is hidden."""
    lengths = [9, 14]
    tensors = packed(dtype, lengths)
    mask = (triangle(16, 16) if dtype is HALF else triangle(16, 16) != 0).to(dtype)
    out = torch.empty_like(tensors[0]).npu()
    sizes = torch.tensor(lengths, dtype=torch.int32)
    torch_npu._npu_flash_attention(*(t.npu() for t in tensors), mask.npu(), sizes, 0.125, 4, 2, out)
    check(out, by_sequence(tensors, lengths, 0.125, True))


def test_a_compressed_mask_of_packed_tokens() -> None:
    lengths = [9, 14]
    tensors = packed(BF16, lengths)
    mask = torch.ones(128, 128, dtype=BF16).triu(1)
    out = torch.empty_like(tensors[0]).npu()
    sizes = torch.tensor(lengths, dtype=torch.int32)
    torch_npu._npu_flash_attention_v3(*(t.npu() for t in tensors), mask.npu(), sizes, 0.125, 4, 2, out=out)
    check(out, by_sequence(tensors, lengths, 0.125, True))


@pytest.mark.parametrize("masked", [True, False])
def test_packed_queries_over_pages(masked: bool) -> None:
    cache, counts = Cache([20, 40], 2, 64, HALF), [4, 40]
    query = numbers(44, 4, 64, dtype=HALF).npu()
    out = torch.empty_like(query)
    if masked:
        torch_npu._npu_flash_attention_qlens(
            query, cache.keys, cache.values, cache.table.npu(), torch.ones(128, 128, dtype=HALF).triu(1).npu(),
            torch.tensor(counts, dtype=torch.int32), cache.context(), 2, 4, 0.125, out,
        )  # fmt: skip
    else:
        out = torch.ops.atb.npu_self_attention_prefix_encoder(
            query, cache.keys, cache.values, cache.table.npu(), counts, cache.lengths, 4, 0.125, 2
        )
    parts = zip(query.cpu().split(counts), range(2), counts, cache.lengths)
    check(out, torch.cat([attention(q, *cache.of(i), 0.125, triangle(c, n)) for q, i, c, n in parts]))


# --------------------------------------------------------------------------------------------------------- latent keys


def test_latent_attention_over_pages() -> None:
    cache, rope = Cache([9, 30], 1, 512, BF16), Cache([9, 30], 1, 64, BF16)
    nope, turned = numbers(2, 8, 512, dtype=BF16), numbers(2, 8, 64, seed=7, dtype=BF16)
    arguments = (nope.npu(), turned.npu(), cache.keys, rope.keys, cache.table.npu(), cache.lengths, 8, 0.04, 1)
    keys = [torch.cat([cache.of(i)[0], rope.of(i)[0]], -1) for i in range(2)]
    query = torch.cat([nope, turned], -1)
    wanted = torch.cat([attention(query[i : i + 1], keys[i], cache.of(i)[0], 0.04) for i in range(2)])
    check(torch.ops.atb.npu_multi_head_latent_attention(*arguments), wanted)
    out, lse = torch.ops.atb.npu_multi_head_latent_attention.lse(*arguments, True, calc_type="calc_type_ring")
    check(out, wanted)
    scores = [torch.einsum("hd,kd->hk", query[i].double(), keys[i][:, 0].double()) * 0.04 for i in range(2)]
    torch.testing.assert_close(
        lse.cpu().double(), torch.stack([s.logsumexp(-1, True) for s in scores]), atol=2e-2, rtol=1e-2
    )


def test_rings_of_keys_give_what_all_keys_give() -> None:
    lengths, later = [6, 10], [6, 10]
    query = [numbers(16, 4, width, seed=width, dtype=BF16) for width in (128, 64)]
    blocks = [[numbers(16, 4, width, seed=width + i, dtype=BF16) for width in (128, 64, 128)] for i in (1, 2)]
    mask = torch.ones(512, 512, dtype=BF16).triu(1).npu()
    sizes = torch.tensor([lengths, later], dtype=torch.int32)
    settings = {"head_num": 4, "kv_head_num": 4, "qk_scale": 0.07}
    on = [t.npu() for t in query]
    out, lse = torch.ops.atb.npu_ring_mla(
        *on, *(t.npu() for t in blocks[0]), mask, sizes, mask_type="mask_type_triu", **settings
    )
    out, lse = torch.ops.atb.npu_ring_mla(
        *on, *(t.npu() for t in blocks[1]), mask, sizes, pre_out=out, prev_lse=lse, mask_type="no_mask",
        calc_type="calc_type_default", **settings,
    )  # fmt: skip
    wanted = []
    for row, n in enumerate(lengths):
        start = sum(lengths[:row])
        part = slice(start, start + n)
        q = torch.cat([t[part] for t in query], -1)
        k = torch.cat([torch.cat([b[0][part], b[1][part]], -1) for b in blocks])
        v = torch.cat([b[2][part] for b in blocks])
        seen = torch.cat([triangle(n, n), torch.zeros(n, n, dtype=torch.float64)], -1)
        wanted.append(attention(q, k, v, 0.07, seen))
    check(out, torch.cat(wanted))


# --------------------------------------------------------------------------------------------------------- latent tokens


class Latents:
    """Weights and tokens of ``npu_mla_preprocess``, of two heads; weights are small whole numbers."""

    def __init__(self, dtype: torch.dtype, per_token: bool) -> None:
        self.dtype, self.per_token = dtype, per_token
        generator = torch.Generator().manual_seed(5)
        self.down, self.up = (
            torch.randint(-9, 9, shape, generator=generator, dtype=torch.int8) for shape in ((2112, 7168), (384, 1536))
        )
        self.input = numbers(3, 7168, dtype=dtype)
        self.wuk = numbers(2, 128, 512, seed=1, dtype=dtype) * 0.1
        self.gamma = [1 + 0.1 * numbers(n, seed=n, dtype=dtype) for n in (7168, 1536, 512)]
        self.beta = [0.1 * numbers(n, seed=n + 1, dtype=dtype) for n in (7168, 1536)]
        self.scale = [torch.tensor([value], dtype=dtype) for value in (0.03125, 0.0625)]
        self.offset = [torch.tensor([value], dtype=torch.int8) for value in (3, -2)]
        self.descale = [numbers(n, seed=n, dtype=torch.float32).abs() * 1e-4 + 1e-5 for n in (2112, 384)]
        self.bias = [torch.randint(-99, 99, (n,), generator=generator, dtype=torch.int32) for n in (2112, 384)]
        angles = torch.outer(torch.tensor([0.5, 2, 7]), 100 ** (-torch.arange(32.0) / 32)).repeat(1, 2)
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def norm(self, x: torch.Tensor, number: int) -> torch.Tensor:
        normed = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * self.gamma[number].double()
        return normed + self.beta[number].double() if number < 2 else normed

    def product(self, x: torch.Tensor, number: int, weight: torch.Tensor) -> torch.Tensor:
        x = self.norm(x, number)
        if self.per_token:
            rows = x.abs().amax(-1, keepdim=True) / 127
            return (x / rows).round() @ weight.double().T * rows * self.descale[number].double()
        whole = (x / self.scale[number].double() + self.offset[number]).round().clamp(-128, 127)
        return (whole @ weight.double().T + self.bias[number]) * self.descale[number].double()

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        cos, sin = (t.double().reshape(3, *(1,) * (x.ndim - 2), 64) for t in (self.cos, self.sin))
        return x * cos + torch.cat([-second, first], -1) * sin

    def wanted(self) -> tuple[torch.Tensor, ...]:
        """Queries, their rotated part, latents of keys and their rotated part."""
        latent, key, query = self.product(self.input.double(), 0, self.down).split([512, 64, 1536], -1)
        heads = self.product(query, 1, self.up).reshape(3, 2, 192)
        nope = torch.einsum("thd,hdc->thc", heads[..., :128], self.wuk.double())
        return nope, self.turned(heads[..., 128:]), self.norm(latent, 2), self.turned(key)

    def run(
        self, cache: torch.Tensor, rope: torch.Tensor, slots: list[int], mode: str, folded: bool, **more: Any
    ) -> Any:
        down, up = (folds(w, 32)[None].npu() if folded else w.npu() for w in (self.down, self.up))
        down, up = (torch_npu.npu_format_cast(w, 29) for w in (down, up))
        descale = self.descale
        if self.dtype == HALF and not self.per_token:  # the device's format: the bits of float32
            descale = [t.view(torch.int32).long() for t in descale]
        if not self.per_token:
            for name in ("scale", "offset"):
                more |= {f"quant_{name}{i}": getattr(self, name)[i].npu() for i in (0, 1)}
            more |= {f"bias{i}": self.bias[i].npu() for i in (0, 1)}
        quant = "per_token_quant_symm" if self.per_token else "per_tensor_quant_asymm"
        outputs = [torch.zeros(3, 2, width, dtype=kind).npu() for width, kind in ((512, cache.dtype), (64, self.dtype))]
        torch.ops.atb.npu_mla_preprocess.out(
            *(t.npu() for t in (self.input, self.gamma[0], self.beta[0])), down, descale[0].npu(),
            *(t.npu() for t in (self.gamma[1], self.beta[1])), up, descale[1].npu(),
            *(t.npu() for t in (self.gamma[2], self.cos, self.sin, self.wuk)), cache, rope,
            torch.tensor(slots, dtype=torch.int32).npu(), cache_mode=mode, quant_mode=quant, **more,
            q_out0=outputs[0], kv_cache_out0=cache, q_out1=outputs[1], kv_cache_out1=rope,
        )  # fmt: skip
        return outputs


def folds(x: torch.Tensor, width: int) -> torch.Tensor:
    """(rows, columns) in fractals (columns / width, rows, width)."""
    return x.reshape(len(x), -1, width).transpose(0, 1).contiguous()


def near(got: torch.Tensor, wanted: torch.Tensor) -> None:
    """Steps between round to 16 and 8 bits: a little of the largest value, where a few integers differ by one."""
    assert got.shape == wanted.shape
    assert float((got.cpu().double() - wanted).abs().max()) < 0.03 * float(wanted.abs().max())


@pytest.mark.parametrize(
    ("dtype", "per_token", "folded"),
    [(HALF, False, False), (BF16, False, True), (HALF, True, True), (BF16, True, False)],
)
def test_tokens_are_prepared_for_latent_attention(dtype: torch.dtype, per_token: bool, folded: bool) -> None:
    latents = Latents(dtype, per_token)
    cache, rope = (torch.zeros(2, 16, 1, width, dtype=dtype).npu() for width in (512, 64))
    got = latents.run(cache, rope, [18, -1, 5], "krope_ctkv", folded)
    nope, turned, latent, key = latents.wanted()
    near(got[0], nope)
    near(got[1], turned)
    for written, rows in ((cache, latent), (rope, key)):
        written = written.cpu().reshape(32, -1)
        near(written[[18, 5]], rows[[0, 2]])
        assert int(written.any(-1).sum()) == 2


def test_tokens_are_prepared_for_caches_in_fractals() -> None:
    latents = Latents(BF16, False)
    _, _, latent, key = latents.wanted()
    cache, rope = (torch.zeros(2, width // 16, 128, 16, dtype=BF16).npu() for width in (512, 64))
    latents.run(cache, rope, [130, 7, 0], "nzcache", True)
    for written, rows in ((cache, latent), (rope, key)):
        written = written.cpu().transpose(1, 2).reshape(256, -1)
        near(written[[130, 7, 0]], rows)
    cache = torch.zeros(2, 16, 128, 32, dtype=torch.int8).npu()
    scales = {
        "ctkv_scale": torch.tensor([0.03125], dtype=BF16).npu(),
        "q_nope_scale": torch.tensor([8.0, 4], dtype=BF16).npu(),
    }
    got = latents.run(cache, rope, [130, 7, 0], "int8_nzcache", True, **scales)
    stored = cache.cpu().transpose(1, 2).reshape(256, -1)[[130, 7, 0]].double()
    assert float((stored - (latent / 0.03125).round().clamp(-128, 127)).abs().max()) <= 2
    wanted = latents.wanted()[0] * torch.tensor([8.0, 4]).double().reshape(2, 1)
    assert float((got[0].cpu().double() - wanted.round().clamp(-128, 127)).abs().max()) <= 4


# ---------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("neox", [True, False])
def test_rotary_positions(neox: bool) -> None:
    """In a program of its own for each style: op-plugin keeps the first cache of sines and cosines."""
    query, key = numbers(3, 4 * 32, dtype=HALF), numbers(3, 2 * 32, seed=1, dtype=HALF)
    angles = torch.outer(torch.arange(9.0), 100 ** (-torch.arange(16.0) / 16))
    cache = torch.cat([angles.cos(), angles.sin()], -1).to(HALF)
    positions = torch.tensor([2, 8, 0])
    got = [query.npu(), key.npu()]
    torch_npu._npu_rotary_embedding(positions.npu(), *got, 32, cache.npu(), neox)
    cos, sin = (part[positions][:, None].double() for part in cache.chunk(2, -1))
    for turned, x in zip(got, (query, key)):
        heads = x.double().reshape(3, -1, 32)
        first, second = heads.chunk(2, -1) if neox else (heads[..., ::2], heads[..., 1::2])
        rotated = first * cos - second * sin, second * cos + first * sin
        wanted = torch.cat(rotated, -1) if neox else torch.stack(rotated, -1).flatten(-2)
        check(turned, wanted.reshape(x.shape))


def test_groups_of_experts() -> None:
    scores = numbers(5, 16, dtype=HALF)
    for count, n in ((2, 1), (1, 2)):
        got = scores.npu()
        torch_npu._npu_group_topk(got, k=count, group_num=4, n=n)
        values = scores.float().reshape(5, 4, 4).topk(n, -1).values.sum(-1)
        chosen = torch.zeros(5, 4).scatter(1, values.topk(count, -1).indices, 1).repeat_interleave(4, -1)
        assert torch.equal(got.cpu(), scores * chosen)


def test_experts_by_biased_sigmoids() -> None:
    x, bias = numbers(6, 32, dtype=torch.float32), numbers(32, seed=1, low=-0.2, high=0.2)
    y, indices = torch.ops.atb.npu_fused_add_topk_div(
        x.npu(), bias.npu(), group_num=4, group_topk=2, n=2, k=6, is_norm=True, scale=2.5
    )
    weights = x.double().sigmoid()
    biased = weights + bias.double()
    groups = biased.reshape(6, 4, 8).topk(2, -1).values.sum(-1).topk(2, -1).indices
    allowed = torch.zeros(6, 4, dtype=torch.float64).scatter(1, groups, 1).repeat_interleave(8, -1)
    wanted = (biased * allowed).topk(6, -1).indices
    assert torch.equal(indices.cpu().long(), wanted)
    chosen = weights.gather(1, wanted)
    check(y, chosen / chosen.sum(-1, keepdim=True) * 2.5)


def test_a_product_added_in_float32() -> None:
    x, weight, total = numbers(12, 5, dtype=BF16), numbers(12, 7, seed=1, dtype=BF16), numbers(5, 7, seed=2)
    got = total.npu()
    torch_npu._npu_matmul_add_fp32(x.npu(), weight.npu(), got)
    check(got, total.double() + x.double().T @ weight.double())


def test_quantisation() -> None:
    x, scale = numbers(3, 32, dtype=HALF), numbers(32, seed=1, low=0.02, high=0.05, dtype=HALF)
    offset = torch.arange(32, dtype=torch.int8)
    y = torch.empty(3, 32, dtype=torch.int8).npu()
    torch_npu._npu_quantize_per_tensor(x.npu(), scale.npu(), offset.npu(), y)
    wanted = (x.double() / scale.double() + offset.double()).clip(-128, 127)
    assert float((y.cpu().double() - wanted).abs().max()) <= 0.55  # the quotient is rounded to FLOAT16 before
    gamma, beta = numbers(32, seed=2, dtype=HALF), numbers(32, seed=3, dtype=HALF)
    one, zero = torch.tensor([0.03], dtype=HALF), torch.tensor([5], dtype=torch.int8)
    torch_npu._npu_quant_rms_norm(x.npu(), gamma.npu(), beta.npu(), one.npu(), zero.npu(), y, 1e-5)
    norm = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma.double() + beta.double()
    wanted = (norm / one.double() + 5).clip(-128, 127)
    assert float((y.cpu().double() - wanted).abs().max()) <= 0.51


# ------------------------------------------------------------------------------------------------------ around launches


def test_a_graph_of_atbs_operators() -> None:
    """Captured once, replayed on other contents."""
    cache = Cache([5, 17], 2, 64, HALF)
    query, row = numbers(2, 4, 64, dtype=HALF).npu(), numbers(2, 2, 64, seed=8, dtype=HALF).npu()
    slots = torch.tensor([cache.slots[0], cache.slots[5]], dtype=torch.int32).npu()
    out = torch.empty_like(query)
    table, graph = cache.table.npu(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch_npu._npu_reshape_and_cache(row, row, cache.keys, cache.values, slots)
        torch_npu._npu_paged_attention(query, cache.keys, cache.values, 2, 4, 0.125, table, cache.context(), out)
    query.copy_(numbers(2, 4, 64, seed=9, dtype=HALF))
    row.copy_(numbers(2, 2, 64, seed=10, dtype=HALF))
    graph.replay()
    wanted = []
    for i in range(2):
        k, v = (part.clone() for part in cache.of(i))
        k[0] = v[0] = row[i].cpu()
        wanted.append(attention(query[i : i + 1].cpu(), k, v, 0.125))
    check(out, torch.cat(wanted))


def refused(capfd: Any, call: Any, *words: str) -> None:
    with pytest.raises(RuntimeError):
        call()
        torch.npu.synchronize()
    text = capfd.readouterr().err
    assert all(word in text for word in words), text


def test_what_is_refused_says_why(capfd: Any) -> None:
    """Parameters when an operation is made; tensors when it is set up, which ends torch_npu's queue."""
    cache = Cache([5, 17], 2, 64, HALF)
    query = numbers(2, 4, 64, dtype=HALF).npu()
    table, out = cache.table.npu(), torch.empty(2, 4, 64, dtype=HALF).npu()

    def paged(key_heads: int = 2, q: torch.Tensor = query, context: Any = None) -> None:
        lengths = cache.context() if context is None else context
        torch_npu._npu_paged_attention(q, cache.keys, cache.values, key_heads, 4, 0.125, table, lengths, out)

    refused(capfd, lambda: paged(key_heads=3), "PagedAttentionParam", "kv_head_num is 3")
    tensors = [t.npu() for t in packed(HALF, [9, 14])]
    refused(
        capfd,
        lambda: torch.ops.atb._npu_flash_attention_v2(
            *tensors, [9, 14], mask=torch.zeros(256, 256, dtype=HALF).npu(), slopes=torch.ones(4).npu(), kernel_type=1,
            mask_type=4, scale_value=0.1, num_heads=4, num_kv_heads=2, out=torch.empty_like(tensors[0]),
        ),
        "SelfAttentionParam", "EMULATOR_NOT_SUPPORTED", "maskType is 4",
    )  # fmt: skip
