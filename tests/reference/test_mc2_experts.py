"""Dispatch and combine: tokens go to the ranks of their experts and come back, against one formula over all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import ml_dtypes
import numpy as np
import pytest
from rank_tools import Crew

import ascend_aclnn as aclnn
from ascend_aclnn import ops

A3, NEW_950 = "Ascend910_9391", "Ascend950PR_9599"
BF16 = ml_dtypes.bfloat16
TOKENS, CHOICES, HIDDEN = 6, 3, 32


@pytest.fixture(scope="module")
def crews() -> Iterator[dict[Any, Crew]]:
    made: dict[Any, Crew] = {}
    yield made
    for crew in made.values():
        crew.close()


@pytest.fixture(params=["numpy 2", "numpy 4", "emulator 2", "emulator 4"])
def crew(request: pytest.FixtureRequest, crews: dict[Any, Crew]) -> Crew:
    backend, size = request.param.split()
    home = str(request.getfixturevalue("emulator_home")) if backend == "emulator" else ""
    key = request.param
    if key not in crews:
        crews[key] = Crew(int(size), "npu" if home else "numpy", "" if home else A3, home)
    return crews[key]


@pytest.fixture(params=["numpy 4", "emulator 4 A3"])
def crew_a3(request: pytest.FixtureRequest, crews: dict[Any, Crew]) -> Crew:
    if request.param not in crews:
        if request.param.startswith("numpy"):
            crews[request.param] = Crew(4, "numpy", A3)
        else:
            home = str(request.getfixturevalue("emulator_home"))
            crews[request.param] = Crew(4, "npu", "", home, ASCEND_ACLNN_SOC=A3)
    return crews[request.param]


@pytest.fixture
def crew_950(crews: dict[Any, Crew]) -> Crew:
    if "950" not in crews:
        crews["950"] = Crew(2, "numpy", NEW_950)
    return crews["950"]


class Layer:
    """The tokens and choices of all ranks, and what their experts make of them: expert e multiplies by e + 2."""

    def __init__(
        self, size: int, experts: int, seed: int = 0, shared: int = 0, shared_ranks: int = 0, dtype: Any = BF16
    ) -> None:
        generator = np.random.default_rng(seed)
        self.size, self.experts, self.shared, self.shared_ranks = size, experts, shared, shared_ranks
        self.x = [generator.normal(0, 1, (TOKENS, HIDDEN)).astype(dtype) for _ in range(size)]
        self.ids = [
            np.stack([generator.permutation(experts)[:CHOICES] for _ in range(TOKENS)]).astype(np.int32)
            for _ in range(size)
        ]
        self.weights = [generator.random((TOKENS, CHOICES)).astype(np.float32) for _ in range(size)]

    @property
    def per_rank(self) -> int:
        return self.experts // (self.size - self.shared_ranks)

    def room(self) -> int:
        return TOKENS * self.size * CHOICES + TOKENS * self.size

    def local(self, rank: int) -> int:
        return 1 if rank < self.shared_ranks else self.per_rank

    def rows(self, rank: int, masks: Optional[list[Any]] = None) -> list[tuple[int, int, int, int]]:
        """What a rank gets, in order: (rank, token, place, expert); brute force."""
        made = []
        if rank < self.shared_ranks:
            copies = self.shared_ranks // self.shared
            for source in range(self.size):
                if source % copies == rank % copies:
                    for token in range(TOKENS):
                        if masks is None or masks[source][token].any():
                            made.append((source, token, CHOICES + rank // copies, -1))
            return made
        first = (rank - self.shared_ranks) * self.per_rank
        for expert in range(first, first + self.per_rank):
            for source in range(self.size):
                for token in range(TOKENS):
                    for place in range(CHOICES):
                        if self.ids[source][token, place] == expert and (masks is None or masks[source][token, place]):
                            made.append((source, token, place, expert))
        return made

    def result(self, rank: int, mask: Any = None) -> Any:
        """In float64."""
        x = self.x[rank].astype(np.float64)
        factor = np.where(np.ones((TOKENS, CHOICES), bool) if mask is None else mask, self.weights[rank], 0)
        total = x * (factor * (self.ids[rank] + 2)).sum(axis=1, keepdims=True)
        return total + x * (-3.0 * self.shared)


def expert_work(comm: Any, rows: Any, counts: Any, per_rank: int, shared_ranks: int) -> Any:
    """Expert e multiplies by e + 2, the shared ones by -3; exact in float32, rounded once."""
    made = np.zeros_like(rows)
    start = 0
    for local, count in enumerate(counts):
        factor = -3 if comm.rank < shared_ranks else (comm.rank - shared_ranks) * per_rank + local + 2
        made[start : start + count] = (rows[start : start + count].astype(np.float32) * factor).astype(rows.dtype)
        start += count
    return made


def there_and_back(comm: Any, version: int, layer: Layer, options: dict[str, Any]) -> dict[str, Any]:
    """One rank's dispatch, experts and combine; all that came out."""
    r = comm.rank
    a, local = layer.room(), layer.local(comm.rank)
    mask, quant = options.get("mask", [None] * comm.size)[r], options.get("quant", 0)
    common = {"group_ep": comm.name, "ep_world_size": comm.size, "ep_rank_id": r, "moe_expert_num": layer.experts}
    common.update(shared_expert_num=layer.shared, shared_expert_rank_num=layer.shared_ranks)
    suffix = "" if version == 1 else f"_v{version}"
    extra = {} if version < 3 else {f"{k}_expert_num": options.get(k, 0) for k in ("zero", "copy", "const")}
    if version == 4:
        extra.update(group_tp="", tp_world_size=0, tp_rank_id=0, expert_shard_type=0, global_bs=0, comm_alg="")
    width = options.get("scales_width")
    outputs = (
        np.zeros((a, HIDDEN), options.get("dtype", layer.x[0].dtype)),
        np.zeros(a if width is None else (a, width), options.get("scales_dtype", np.float32)),
        np.zeros(TOKENS * CHOICES if version == 1 else a * 128, np.int32),
        np.zeros(local, np.int64),
        np.zeros(comm.size * local, np.int32),
        None if version != 2 else np.zeros(1, np.int32),
        np.zeros(a, np.float32),
    )
    tensors: dict[str, Any] = {"elastic_info": None} if version > 2 else {}
    if version == 4:
        tensors["performance_info"] = None
    dispatch = getattr(ops, f"moe_distribute_dispatch{suffix}")(
        layer.x[r],
        layer.ids[r],
        options.get("scales", [None] * comm.size)[r],
        mask,
        layer.weights[r],
        **tensors,
        **common,
        **extra,
        quant_mode=quant,
        expert_token_nums_type=options.get("type", 1),
        out=outputs,
    )
    rows, scales, info, counts, received, _, row_weights = dispatch
    dense = rows if not quant else (rows.astype(np.float32) * scales[:, None]).astype(BF16)
    sizes = counts if options.get("type", 1) else np.diff(counts, prepend=0)
    worked = expert_work(comm, dense, sizes, layer.per_rank, layer.shared_ranks)
    combine: dict[str, Any] = {
        "tp_send_counts": None,
        "x_active_mask": mask,
        "activation_scale": None,
        "weight_scale": None,
    }
    combine.update(group_list=None, expand_scales=None)
    if version > 1:
        combine["shared_expert_x"] = options.get("shared_x", [None] * comm.size)[r]
    if version > 2:
        combine.update(elastic_info=None, ori_x=options.get("ori_x", [None] * comm.size)[r])
        combine.update(
            {f"const_expert_{k}": v for k, v in zip(("alpha1", "alpha2", "v"), options.get("constants", [None] * 3))}
        )
    if version == 4:
        combine.update(performance_info=None)
        extra.update(out_dtype=0, group_list_type=0)
    y = np.full((TOKENS, HIDDEN), 77, dense.dtype)
    mode = {"comm_quant_mode": options.get("communication", 0)}
    back = getattr(ops, f"moe_distribute_combine{suffix}")(
        worked,
        layer.ids[r],
        info,
        received,
        options.get("weights", layer.weights)[r],
        **combine,
        **common,
        **extra,
        **mode,
        out=y,
    )
    names = ("y", "rows", "scales", "info", "counts", "received", "row_weights")
    return dict(zip(names, (back, rows, scales, info, counts, received, row_weights)))


def run(crew: Crew, version: int, layer: Layer, **options: Any) -> list[dict[str, Any]]:
    found = crew.run(there_and_back, version, layer, options)
    for item in found:
        if isinstance(item, BaseException):
            raise item
    return found


def check(found: dict[str, Any], layer: Layer, rank: int, mask: Any = None, tolerance: float = 0.02) -> None:
    expected = layer.result(rank, mask)
    kept = np.ones(TOKENS, bool) if mask is None else mask.any(axis=1)
    np.testing.assert_allclose(
        found["y"].astype(np.float64)[kept], expected[kept], atol=tolerance * np.abs(expected).max()
    )
    assert (found["y"][~kept] == 77).all()  # tokens that are masked are not written


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_tokens_come_back_weighted(crew: Crew, version: int) -> None:
    layer = Layer(crew.size, 2 * crew.size)
    for rank, found in enumerate(run(crew, version, layer)):
        check(found, layer, rank)


def test_rows_lie_by_expert_and_rank(crew: Crew) -> None:
    layer = Layer(crew.size, 2 * crew.size, seed=3)
    for kind, found in ((kind, run(crew, 2, layer, type=kind)) for kind in (0, 1)):
        for rank, own in enumerate(found):
            rows = layer.rows(rank)
            np.testing.assert_array_equal(own["rows"][: len(rows)], np.stack([layer.x[s][t] for s, t, _, _ in rows]))
            assert own["info"][: 3 * len(rows)].reshape(-1, 3).tolist() == [list(row[:3]) for row in rows]
            np.testing.assert_array_equal(
                own["row_weights"][: len(rows)], [layer.weights[s][t, k] for s, t, k, _ in rows]
            )
            first = rank * layer.per_rank
            table = np.array(
                [
                    [sum(1 for s, _, _, e in rows if (s, e) == (source, first + local)) for source in range(crew.size)]
                    for local in range(layer.per_rank)
                ]
            )
            np.testing.assert_array_equal(own["received"], np.cumsum(table))
            by_expert = table.sum(axis=1)
            np.testing.assert_array_equal(own["counts"], np.cumsum(by_expert) if kind == 0 else by_expert)


def test_places_of_version_1(crew: Crew) -> None:
    """For each token and expert, how many rows of this rank go to that expert before."""
    layer = Layer(crew.size, 2 * crew.size, seed=4)
    for rank, own in enumerate(run(crew, 1, layer)):
        flat = layer.ids[rank].reshape(-1).tolist()
        assert own["info"].tolist() == [flat[:i].count(e) for i, e in enumerate(flat)]


@pytest.mark.parametrize("shared, shared_ranks", [(1, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("version", [1, 2])
def test_shared_experts(crews: Any, request: Any, version: int, shared: int, shared_ranks: int) -> None:
    if version == 1 and shared > 1:
        return  # version 1 has one shared expert
    crew = crews["numpy 4"] if "numpy 4" in crews else crews.setdefault("numpy 4", Crew(4, "numpy", A3))
    layer = Layer(4, 6, seed=5, shared=shared, shared_ranks=shared_ranks)
    for rank, found in enumerate(run(crew, version, layer)):
        check(found, layer, rank)
        if version == 2:
            rows = layer.rows(rank)
            np.testing.assert_array_equal(found["rows"][: len(rows)], np.stack([layer.x[s][t] for s, t, _, _ in rows]))


@pytest.mark.parametrize("rank_of_mask", [1, 2])
def test_masked_tokens_stay(crew: Crew, rank_of_mask: int) -> None:
    layer = Layer(crew.size, 2 * crew.size, seed=6)
    generator = np.random.default_rng(7)
    full = [generator.random((TOKENS, CHOICES)) < 0.6 for _ in range(crew.size)]
    if rank_of_mask == 1:
        full = [np.repeat(np.arange(TOKENS)[:, None] < 2 + r, CHOICES, axis=1) for r in range(crew.size)]
    masks = [m[:, 0] if rank_of_mask == 1 else m for m in full]
    for rank, found in enumerate(run(crew, 2, layer, mask=masks)):
        check(found, layer, rank, full[rank])
        assert found["received"][-1] == len(layer.rows(rank, full))


def test_tokens_are_quantised_before_they_are_sent(crew: Crew) -> None:
    layer = Layer(crew.size, 2 * crew.size, seed=8)
    smooth = np.abs(np.random.default_rng(9).normal(1, 0.2, (layer.experts, HIDDEN))).astype(np.float32)
    actual = run(crew, 2, layer, quant=2, dtype=np.int8, scales=[smooth] * crew.size)
    for rank, own in enumerate(actual):
        rows = layer.rows(rank)
        values = np.stack([layer.x[s][t].astype(np.float64) * smooth[e] for s, t, _, e in rows])
        most = np.abs(values).max(axis=1)
        np.testing.assert_allclose(own["scales"][: len(rows)], most / 127, rtol=1e-6)
        assert np.abs(own["rows"][: len(rows)] - values * 127 / most[:, None]).max() <= 0.501


def test_rows_come_back_in_eight_bits(crew: Crew) -> None:
    layer = Layer(crew.size, 2 * crew.size, seed=10)
    for rank, found in enumerate(run(crew, 2, layer, communication=2)):
        check(found, layer, rank, tolerance=0.05)
        plain = layer.result(rank)
        assert not np.allclose(found["y"].astype(np.float64), plain, atol=1e-3 * np.abs(plain).max())


def test_experts_that_no_rank_has(crew: Crew) -> None:
    """Experts behind the real ones: zero gives nothing, copy the token, constant alpha1 * token + alpha2 * v."""
    size, real = crew.size, 2 * crew.size
    layer = Layer(size, real, seed=11)
    generator = np.random.default_rng(12)
    layer.ids = [generator.integers(0, real + 4, (TOKENS, CHOICES)).astype(np.int32) for _ in range(size)]
    constants = [generator.normal(0, 1, (2, HIDDEN)).astype(BF16) for _ in range(3)]
    actual = run(crew, 3, layer, zero=1, copy=1, const=2, ori_x=layer.x, constants=constants)
    alpha1, alpha2, v = (c.astype(np.float64) for c in constants)
    for rank, own in enumerate(actual):
        x = layer.x[rank].astype(np.float64)
        total = np.zeros_like(x)
        for token, choices in enumerate(layer.ids[rank]):
            for place, e in enumerate(choices):
                if e < real:
                    part = x[token] * (e + 2)
                elif e == real:
                    part = np.zeros(HIDDEN)
                elif e == real + 1:
                    part = x[token]
                else:
                    c = e - real - 2
                    part = alpha1[c] * x[token] + alpha2[c] * v[c]
                total[token] += layer.weights[rank][token, place] * part
        np.testing.assert_allclose(own["y"].astype(np.float64), total, atol=0.02 * np.abs(total).max())


def test_a_shared_expert_that_was_computed_elsewhere_is_added(crew: Crew) -> None:
    layer = Layer(crew.size, 2 * crew.size, seed=13)
    shared = [x * BF16(0.5) for x in layer.x]
    for rank, found in enumerate(run(crew, 2, layer, shared_x=shared)):
        expected = layer.result(rank) + shared[rank].astype(np.float64)
        np.testing.assert_allclose(found["y"].astype(np.float64), expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize(
    "mode, dtype", [(3, ml_dtypes.float8_e4m3fn), (4, ml_dtypes.float8_e4m3fn), (4, ml_dtypes.float8_e5m2)]
)
def test_tiles_and_shared_exponents(crew_950: Crew, mode: int, dtype: Any) -> None:
    layer = Layer(2, 4, seed=14)
    scales_dtype = np.float32 if mode == 3 else ml_dtypes.float8_e8m0fnu
    found = crew_950.run(_dispatched, layer, mode, dtype, scales_dtype, 1 if mode == 3 else 2)
    for rank, own in enumerate(found):
        assert not isinstance(own, BaseException), own
        rows, scales = own
        expected = np.stack([layer.x[s][t].astype(np.float64) for s, t, _, _ in layer.rows(rank)])
        count = len(expected)
        values = rows[:count].astype(np.float64) * np.repeat(scales[:count, :1].astype(np.float64), HIDDEN, axis=1)
        np.testing.assert_allclose(values, expected, atol=0.13 * np.abs(expected).max())


def _dispatched(comm: Any, layer: Layer, mode: int, dtype: Any, scales_dtype: Any, width: int) -> Any:
    a = layer.room()
    out = (
        np.zeros((a, HIDDEN), dtype),
        np.zeros((a, width), scales_dtype),
        np.zeros(a * 128, np.int32),
        np.zeros(layer.per_rank, np.int64),
        np.zeros(comm.size * layer.per_rank, np.int32),
        np.zeros(1, np.int32),
        np.zeros(a, np.float32),
    )
    r = comm.rank
    actual = ops.moe_distribute_dispatch_v2(
        layer.x[r], layer.ids[r], None, None, None, comm.name, comm.size, r, layer.experts, quant_mode=mode, out=out
    )
    return actual[0], actual[1]


def _normed(comm: Any, layer: Layer, residual: Any, gamma: Any) -> Any:
    r, a = comm.rank, layer.room()
    out = (
        np.zeros((a, HIDDEN), BF16),
        np.zeros(a, np.float32),
        np.zeros(a * 128, np.int32),
        np.zeros(layer.per_rank, np.int64),
        np.zeros(comm.size * layer.per_rank, np.int32),
        np.zeros(1, np.int32),
        np.zeros(a, np.float32),
    )
    common = (comm.name, comm.size, r, layer.experts)
    rows, _, info, counts, received, _, _ = ops.moe_distribute_dispatch_v2(
        layer.x[r], layer.ids[r], None, None, None, *common, out=out
    )
    worked = expert_work(comm, rows, counts, layer.per_rank, 0)
    return tuple(
        ops.moe_distribute_combine_add_rms_norm(
            worked, layer.ids[r], info, received, layer.weights[r], residual, gamma, *[None] * 7, *common
        )
    )


def test_combine_add_rms_norm(crews: dict[Any, Crew]) -> None:
    crew = crews["numpy 2"] if "numpy 2" in crews else crews.setdefault("numpy 2", Crew(2, "numpy", A3))
    layer = Layer(2, 4, seed=15)
    generator = np.random.default_rng(16)
    residual, gamma = (
        generator.normal(0, 1, (TOKENS, 1, HIDDEN)).astype(BF16),
        generator.normal(0, 1, HIDDEN).astype(BF16),
    )
    for rank, found in enumerate(crew.run(_normed, layer, residual, gamma)):
        assert not isinstance(found, BaseException), found
        y, rstd, x = found
        sums = layer.result(rank)[:, None] + residual.astype(np.float64)
        inverse = 1 / np.sqrt(np.square(sums).mean(-1, keepdims=True) + 1e-6)
        np.testing.assert_allclose(x.astype(np.float64), sums, atol=0.02 * np.abs(sums).max())
        np.testing.assert_allclose(rstd, inverse, rtol=0.01)
        np.testing.assert_allclose(y.astype(np.float64), sums * inverse * gamma.astype(np.float64), atol=0.05)


def _halves(comm: Any, layer: Layer, mode: int) -> Any:
    """Setup and Teardown of both ways; between them the ranks are free to do other things."""
    r, a, per_rank = comm.rank, layer.room(), layer.per_rank
    common = (comm.name, comm.size, r, layer.experts)
    commands = (TOKENS * CHOICES + comm.size * per_rank) * 16
    dtype = ml_dtypes.float8_e4m3fn if mode else BF16
    y, places, info = ops.moe_distribute_dispatch_setup(
        layer.x[r],
        layer.ids[r],
        None,
        None,
        *common,
        quant_mode=mode,
        comm_type=2,
        out=(
            np.zeros((TOKENS * CHOICES, 512 if mode else 256), dtype),
            np.zeros(TOKENS * CHOICES, np.int32),
            np.zeros(commands, np.int32),
        ),
    )
    rows, scales, assist, counts = ops.moe_distribute_dispatch_teardown(
        layer.x[r],
        y,
        layer.ids[r],
        info,
        *common,
        quant_mode=mode,
        comm_type=2,
        out=(
            np.zeros((a, HIDDEN), dtype),
            np.zeros((a, 2), ml_dtypes.float8_e8m0fnu) if mode else np.zeros(a, np.float32),
            np.zeros(a * 128, np.int32),
            np.zeros(per_rank, np.int64),
        ),
    )
    dense = rows if not mode else (rows.astype(np.float32) * scales[:, :1].astype(np.float32)).astype(BF16)
    worked = expert_work(comm, dense, counts, per_rank, 0)
    quantised, back = ops.moe_distribute_combine_setup(
        worked,
        layer.ids[r],
        assist,
        *common,
        expert_shared_type=0,
        comm_type=2,
        out=(np.zeros((a, 512), np.int8), np.zeros((a + comm.size) * 16, np.int32)),
    )
    return ops.moe_distribute_combine_teardown(
        worked, quantised, layer.ids[r], places, layer.weights[r], back, None, None, *common, comm_type=2
    )


@pytest.mark.parametrize("mode", [0, 4])
def test_both_ways_in_two_halves(crew_950: Crew, mode: int) -> None:
    layer = Layer(2, 4, seed=17)
    for rank, found in enumerate(crew_950.run(_halves, layer, mode)):
        assert not isinstance(found, BaseException), found
        expected = layer.result(rank)
        np.testing.assert_allclose(
            found.astype(np.float64), expected, atol=(0.1 if mode else 0.02) * np.abs(expected).max()
        )


# --------------------------------------------------------------------------------------------------- refusals


def _refused(comm: Any, layer: Layer, change: dict[str, Any]) -> tuple[int, str]:
    try:
        there_and_back(comm, 2, layer, change)
    except aclnn.AclError as error:
        return error.status, error.detail
    return 0, ""


def test_what_is_refused(crew: Crew) -> None:
    size = crew.size
    layer = Layer(size, 2 * size, seed=18)
    layer.ids = [ids + 2 * size * (i == 0) for i, ids in enumerate(layer.ids[:1] * size)]
    layer.ids = [layer.ids[0]] * size
    for status, text in crew.run(_refused, layer, {}):
        assert status == 161002 and f"they must be in [0, {2 * size - 1}]" in text
    uneven = Layer(size, 2 * size, seed=18)
    uneven.experts += 1
    for status, text in crew.run(_refused, uneven, {}):
        assert status == 161002 and "moe_expert_num" in text


# --------------------------------------------------------------------------------------------------- beside them


def test_update_expert_chooses_copies() -> None:
    table = np.array([[1, 4, -1], [2, 0, 7], [2, 3, 5]], np.int32)
    ids = np.array([[0, 1], [1, 2], [2, 0]], np.int32)
    with aclnn.use_backend("numpy", soc=A3):
        by_rank, _ = ops.moe_update_expert(ids, table, None, None, None, local_rank_id=3, world_size=4, balance_mode=0)
        by_token, _ = ops.moe_update_expert(ids, table, None, None, None, local_rank_id=3, world_size=4, balance_mode=1)
        scales = np.array([[0.6, 0.4], [0.9, 0.1], [0.5, 0.5]], np.float32)
        _, kept = ops.moe_update_expert(
            ids,
            table,
            scales,
            np.array([0.3, 0.3], np.float32),
            np.array([True, True, False]),
            local_rank_id=0,
            world_size=4,
        )
    assert by_rank.tolist() == [[4, 7], [7, 5], [5, 4]]  # rank 3 of 4 has the second of two copies
    assert by_token.tolist() == [[4, 0], [7, 5], [3, 4]]
    assert kept.tolist() == [[True, True], [True, False], [False, False]]


def _in_step(comm: Any) -> Any:
    import time

    if comm.rank == 0:
        time.sleep(0.3)
    x, came = np.arange(3, dtype=np.float16), time.monotonic()
    ops.distribute_barrier(x, comm.name, comm.size)
    aclnn.synchronize()
    left = time.monotonic()
    ops.distribute_barrier_v2(x, None, None, comm.name, comm.size)
    rows = np.arange(comm.size * 2, dtype=np.float16).reshape(-1, 2) + 10 * comm.rank
    to = (np.arange(comm.size) + comm.rank) % comm.size
    y, counts = ops.bandwidth_test(
        rows,
        to.astype(np.int32),
        comm.name,
        comm.size,
        8,
        0,
        out=(np.zeros((comm.size, 2), np.float16), np.zeros(comm.size, np.int32)),
    )
    return (came, left), x.tolist(), y.tolist(), counts.tolist()


def test_barriers_and_rows_by_rank(crew: Crew) -> None:
    size = crew.size
    answers = crew.run(_in_step)
    for rank, found in enumerate(answers):
        assert not isinstance(found, BaseException), found
        (_, left), x, y, counts = found
        assert left >= max(came for (came, _), *_ in answers) and x == [0, 1, 2]
        assert counts == [1] * size
        assert y == [[2 * ((rank - s) % size) + 10 * s, 2 * ((rank - s) % size) + 1 + 10 * s] for s in range(size)]


# --------------------------------------------------------------------------------------------------- fewer ranks


def _elastic_info(size: int, members: list[int], shared_ranks: int, experts: int) -> Any:
    numbers = [members.index(rank) if rank in members else -1 for rank in range(size)]
    return np.array(
        [1, len(members), shared_ranks, experts, *numbers, *members, *[-1] * (size - len(members))], np.int32
    )


def _without_some(comm: Any, version: int, layer: Layer, members: list[int]) -> Any:
    """Dispatch, experts and combine of those ranks that are left, by the layer in which they are numbered anew."""
    if comm.rank not in members:
        return None
    rank, size = members.index(comm.rank), comm.size
    info = _elastic_info(size, members, layer.shared_ranks, layer.experts)
    common = {"group_ep": comm.name, "ep_world_size": size, "ep_rank_id": comm.rank}
    common.update(moe_expert_num=layer.per_rank * (size - layer.shared_ranks), elastic_info=info)
    common.update(shared_expert_num=layer.shared, shared_expert_rank_num=layer.shared_ranks)
    extra, rest, late = {}, {}, {}
    if version == 4:
        extra = dict.fromkeys(("zero_expert_num", "copy_expert_num", "const_expert_num"), 0)
        extra.update(group_tp="", tp_world_size=0, tp_rank_id=0, expert_shard_type=0, global_bs=0, comm_alg="")
        rest = {"performance_info": None, "quant_mode": 0, "expert_token_nums_type": 1}
        late = {"performance_info": None, "out_dtype": 0, "comm_quant_mode": 0, "group_list_type": 0}
    a, local = layer.room(), layer.per_rank  # as many as before
    out = (
        *(np.zeros((a, HIDDEN), BF16), np.zeros(a, np.float32), np.zeros(a * 128, np.int32)),
        *(np.zeros(local, np.int64), np.zeros(size * local, np.int32), None, np.zeros(a, np.float32)),
    )
    dispatch = getattr(ops, f"moe_distribute_dispatch_v{version}")
    rows, _, places, counts, received, *_ = dispatch(
        layer.x[rank], layer.ids[rank], None, None, layer.weights[rank], **common, **extra, **rest, out=out
    )

    class Renumbered:
        pass

    own: Any = Renumbered()
    own.rank = rank
    worked = expert_work(own, rows, counts, layer.per_rank, layer.shared_ranks)
    combine = getattr(ops, f"moe_distribute_combine_v{version}")
    y = combine(
        *(worked, layer.ids[rank], places, received, layer.weights[rank]),
        **common,
        **extra,
        **late,
        out=np.zeros((TOKENS, HIDDEN), BF16),
    )
    return {"y": y, "rows": rows, "info": places}


def check_remaining(found: Any, layer: Layer, rank: int) -> None:
    assert not isinstance(found, BaseException), found
    check(found, layer, rank)
    rows = layer.rows(rank)
    np.testing.assert_array_equal(found["rows"][: len(rows)], np.stack([layer.x[s][t] for s, t, _, _ in rows]))
    assert found["info"][: 3 * len(rows)].reshape(-1, 3).tolist() == [list(row[:3]) for row in rows]


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("backend", ["numpy 4", "emulator 4"])
def test_ranks_that_were_taken_out(backend: str, version: int, crews: Any, request: pytest.FixtureRequest) -> None:
    """Three of four ranks, twice with other ones; nothing asks the fourth. Then all four."""
    home = str(request.getfixturevalue("emulator_home")) if backend.startswith("emulator") else ""
    if backend not in crews:
        crews[backend] = Crew(4, "npu" if home else "numpy", "" if home else A3, home)
    crew = crews[backend]
    for seed, (members, shared, shared_ranks) in enumerate((([0, 1, 3], 0, 0), ([3, 2, 0], 1, 1), ([1, 2, 3], 0, 0))):
        layer = Layer(3, 2 * (3 - shared_ranks), seed, shared, shared_ranks)
        found = crew.run(_without_some, version, layer, members)
        for rank, member in enumerate(members):
            check_remaining(found[member], layer, rank)
        assert [answer for rank, answer in enumerate(found) if rank not in members] == [None]
    layer = Layer(4, 8)
    for rank, found in enumerate(run(crew, version, layer)):
        check(found, layer, rank)


@pytest.mark.parametrize("backend", ["numpy", "emulator"])
def test_ranks_go_on_without_one_that_died(backend: str, request: pytest.FixtureRequest) -> None:
    home = str(request.getfixturevalue("emulator_home")) if backend == "emulator" else ""
    crew = Crew(3, "npu" if home else "numpy", "" if home else A3, home)
    try:
        whole = Layer(3, 6)
        for rank, found in enumerate(run(crew, 3, whole)):
            check(found, whole, rank)
        crew.children[1].kill()
        crew.children[1].join()
        layer = Layer(2, 4, seed=5)
        for rank, found in enumerate(crew.run_on([0, 2], _without_some, 3, layer, [0, 2])):
            check_remaining(found, layer, rank)
    finally:
        crew.close()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({8: 2}, "one must undo the other"),
        ({1: 5}, "one must undo the other"),
        ({4: -1}, "one must undo the other"),
    ],
)
def test_wrong_tables_are_refused(crews: Any, change: dict[int, int], text: str) -> None:
    if "numpy 4" not in crews:
        crews["numpy 4"] = Crew(4, "numpy", A3)
    for found in crews["numpy 4"].run(_wrong_tables, Layer(4, 8), change):
        assert text in found


def _wrong_tables(comm: Any, layer: Layer, change: dict[int, int]) -> str:
    info = _elastic_info(4, [0, 1, 2, 3], 0, 8)
    for place, value in change.items():
        info[place] = value
    try:
        ops.moe_distribute_dispatch_v3(
            *(layer.x[0], layer.ids[0], None, None, layer.weights[0], info, comm.name, 4, comm.rank, 8),
            shared_expert_num=0,
        )
        aclnn.synchronize()
    except BaseException as error:
        return str(error)
    return "accepted"


# --------------------------------------------------------------------------------------------------- tensor groups


def _crossed_groups(comm: Any) -> tuple[Any, Any]:
    """Of ranks 2 n + t: those with the same t, which exchange tokens, and those with the same n, which share an expert."""
    size = comm.size // 2
    groups = [[2 * n + t for n in range(size)] for t in range(2)], [[2 * n, 2 * n + 1] for n in range(size)]
    made = [[comm.split(ranks) for ranks in kind] for kind in groups]
    (ep,), (tp,) = ([group for group in kind if group is not None] for kind in made)
    return ep, tp


def _with_tensor_groups(comm: Any, version: int, layers: list[Layer], quant: int) -> Any:
    """Ranks 2 n + t hold part t of expert n; each part t sends its own tokens."""
    size, part = comm.size // 2, comm.rank % 2
    ep, tp = _crossed_groups(comm)
    layer, number = layers[part], comm.rank // 2
    common = {"group_ep": ep.name, "ep_world_size": size, "ep_rank_id": number, "moe_expert_num": size}
    common.update(group_tp=tp.name, tp_world_size=2, tp_rank_id=part, shared_expert_num=0, shared_expert_rank_num=0)
    extra, rest, late = {}, {}, {}
    if version == 4:
        extra = dict.fromkeys(("zero_expert_num", "copy_expert_num", "const_expert_num"), 0)
        extra.update(expert_shard_type=0, global_bs=0, comm_alg="")
        rest = {"expert_token_nums_type": 1}
        late = {"out_dtype": 0, "comm_quant_mode": 0, "group_list_type": 0}
    suffix = "" if version == 1 else f"_v{version}"
    dispatch = getattr(ops, f"moe_distribute_dispatch{suffix}")
    rows, scales, places, counts, received, halves, _ = dispatch(
        layer.x[number],
        layer.ids[number],
        None,
        None,
        layer.weights[number],
        **common,
        **extra,
        **rest,
        quant_mode=quant,
    )
    dense = rows if not quant else (rows.astype(np.float32) * scales[:, None]).astype(BF16)
    share = np.float32(0.25 + 0.5 * part)  # of the expert's factor; exact, as are the sums of both
    worked = np.zeros_like(dense)
    worked[: counts[0]] = (dense[: counts[0]].astype(np.float32) * ((number + 2) * share)).astype(dense.dtype)
    combine = getattr(ops, f"moe_distribute_combine{suffix}")
    given = (worked, layer.ids[number], places, received, layer.weights[number], halves)
    y = combine(*given, **common, **extra, **late)
    for group in (ep, tp):
        group.close()
    return {
        "y": np.asarray(y),
        "rows": dense,
        "halves": halves.tolist(),
        "received": received.tolist(),
        "count": counts,
    }


@pytest.mark.parametrize("quant", [0, 2])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_experts_that_lie_on_two_ranks(crew_a3: Crew, version: int, quant: int) -> None:
    """Each rank gets the rows of both parts; the parts of what comes out are added before the rows go back."""
    layers = [Layer(2, 2, seed) for seed in (1, 2)]
    for layer in layers:
        layer.ids = [ids[:, :1] for ids in layer.ids]
        layer.weights = [weights[:, :1] for weights in layer.weights]
    answers = crew_a3.run(_with_tensor_groups, version, layers, quant)
    for place, found in enumerate(answers):
        assert not isinstance(found, BaseException), found
        number, part = divmod(place, 2)
        x = layers[part].x[number].astype(np.float64)
        expected = x * (layers[part].weights[number] * (layers[part].ids[number] + 2))
        np.testing.assert_allclose(found["y"].astype(np.float64), expected, atol=0.03 * np.abs(expected).max())
        own, other = (_rows_of(layers[t], number) for t in (part, 1 - part))
        assert found["halves"] == [len(_rows_of(layers[t], number)) for t in (0, 1)] and found["count"] == [
            sum(found["halves"])
        ]
        tolerance = 0.02 if quant else 0
        np.testing.assert_allclose(
            found["rows"][: len(own) + len(other)].astype(np.float32),
            np.stack(own + other).astype(np.float32),
            atol=tolerance * 4,
        )
        assert found["received"] == [end for t in (part, 1 - part) for end in _ends(layers[t], number)]


SIGNS = np.resize([1.0, -1.0], HIDDEN)


def _shared_in_parts(comm: Any, layers: list[Layer], parts: tuple[float, float]) -> Any:
    """Version 1, the shared expert on ranks 0 and 1, the other one on ranks 2 and 3; what each makes is ``parts`` or minus it."""
    ep, tp = _crossed_groups(comm)
    number, part = divmod(comm.rank, 2)
    layer = layers[part]
    common = {"group_ep": ep.name, "ep_world_size": 2, "ep_rank_id": number, "moe_expert_num": 1}
    common.update(group_tp=tp.name, tp_world_size=2, tp_rank_id=part, shared_expert_num=1, shared_expert_rank_num=1)
    ids, weights = np.zeros((TOKENS, 1), np.int32), np.ones((TOKENS, 1), np.float32)
    actual = ops.moe_distribute_dispatch(layer.x[number], ids, None, None, weights, **common)
    rows, _, places, counts, received, halves, _ = actual
    worked = np.broadcast_to(parts[part] * SIGNS, rows.shape).astype(rows.dtype)
    y = ops.moe_distribute_combine(worked, ids, places, received, weights, halves, **common)
    for group in (ep, tp):
        group.close()
    return np.asarray(y).astype(np.float32), rows[: counts[0]], halves.tolist(), received.tolist()


def test_version_1_shares_an_expert_and_rounds_sums_of_parts_away_from_zero(crew_a3: Crew) -> None:
    """The sum of the parts lies half way between two BF16 numbers, the even one being nearer to zero."""
    step = 2.0**-6  # of BF16 from 2 to 4
    layers = [Layer(2, 1, seed) for seed in (3, 4)]
    answers = crew_a3.run(_shared_in_parts, layers, (3.0, step / 2))
    for place, found in enumerate(answers):
        assert not isinstance(found, BaseException), found
        y, rows, halves, received = found
        part = place % 2
        np.testing.assert_array_equal(y, np.broadcast_to(2 * (3 + step) * SIGNS, y.shape))
        assert halves == [2 * TOKENS] * 2 and received == [TOKENS, 2 * TOKENS] * 2
        expected = [layers[t].x[source] for t in (part, 1 - part) for source in (0, 1)]
        np.testing.assert_array_equal(rows, np.concatenate(expected))


def _rows_of(layer: Layer, expert: int) -> list[Any]:
    return [layer.x[s][t] for s in range(2) for t in range(TOKENS) if layer.ids[s][t, 0] == expert]


def _ends(layer: Layer, expert: int) -> list[int]:
    return np.cumsum([(ids == expert).sum() for ids in layer.ids]).tolist()


@pytest.mark.parametrize("soc", ["Ascend910B2", NEW_950])
@pytest.mark.parametrize("version", [1, 2])
def test_tensor_groups_are_of_atlas_a3_only(soc: str, version: int) -> None:
    suffix = "" if version == 1 else f"_v{version}"
    with aclnn.use_backend("numpy", soc=soc), pytest.raises(aclnn.AclError) as caught:
        getattr(ops, f"moe_distribute_dispatch{suffix}")(
            *(np.zeros((2, 32), np.float16), np.zeros((2, 1), np.int32), None, None, None, "ep", 2, 0, 2),
            group_tp="tp",
            tp_world_size=2,
            tp_rank_id=0,
            expert_shard_type=0,
        )
    assert caught.value.status == 561002 and "tp_world_size" in str(caught.value)


# --------------------------------------------------------------------------------------------------- barriers


def _late(comm: Any, limit: int) -> Any:
    """Rank 1 comes only once rank 0 has given up, if it does."""
    made = comm.split([0, 1])
    x, wait = np.zeros(1, np.float16), np.array([limit], np.int32)
    try:
        if comm.rank == 0 or limit > 1_000_000:
            ops.distribute_barrier_v2(x, wait, None, made.name, 2)
            aclnn.synchronize()
    except aclnn.AclError as error:
        return error.status, str(error)
    finally:
        comm.barrier()
        aclnn.synchronize()
        made.close()
    return 0, ""


def _barrier_of(comm: Any, members: list[int]) -> Any:
    if comm.rank in members:
        info = _elastic_info(comm.size, members, 0, 0)
        ops.distribute_barrier_v2(np.zeros(1, np.float16), None, info, comm.name, comm.size)
        aclnn.synchronize()
    return comm.rank in members


def test_a_barrier_with_a_limit_and_with_fewer_ranks(crews: dict[Any, Crew]) -> None:
    if "numpy 2" not in crews:
        crews["numpy 2"] = Crew(2, "numpy", A3)
    (status, text), other = crews["numpy 2"].run(_late, 100_000)
    assert status == 507035 and "rank 1 did not answer rank 0 in time" in text and other == (0, "")
    assert crews["numpy 2"].run(_late, 60_000_000) == [(0, "")] * 2
    if "numpy 4" not in crews:
        crews["numpy 4"] = Crew(4, "numpy", A3)
    assert crews["numpy 4"].run(_barrier_of, [3, 1]) == [False, True, False, True]


def _links(comm: Any, servers: int) -> Any:
    per_server = comm.size // servers
    for server in range(servers if comm.rank else 1):  # rank 0 sends to the first server only
        ops.elastic_receivable_test(np.array([server * per_server], np.int32), comm.name, comm.size, per_server)
    for _ in range(0 if comm.rank else servers - 1):  # but takes part
        ops.elastic_receivable_test(np.array([0], np.int32), comm.name, comm.size, per_server)
    return ops.elastic_receivable_info_collect(comm.name, comm.size, out=np.zeros((comm.size, comm.size), np.int32))


def test_links(crews: dict[Any, Crew]) -> None:
    crew = crews["numpy 4"] if "numpy 4" in crews else crews.setdefault("numpy 4", Crew(4, "numpy", A3))
    found = crew.run(_links, 2)
    sent = np.ones((4, 4), bool)
    sent[0, 2:] = False
    for rank, y in enumerate(found):
        assert not isinstance(y, BaseException), y
        expected = np.where(sent.T, np.arange(1, 5), 0) * sent[:, rank][:, None]
        np.testing.assert_array_equal(y, expected)
