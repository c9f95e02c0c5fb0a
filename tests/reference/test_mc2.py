"""Operators that communicate, on 2 and 4 ranks: what all ranks compute together, against one formula in float64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_near
from rank_tools import GROUP, Crew

import ascend_aclnn as aclnn

A2, A3, NEW_950 = "Ascend910B1", "Ascend910_9391", "Ascend950PR_9599"
HALF, BF16 = np.float16, ml_dtypes.bfloat16
E4M3, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu


class Crews:
    """Crews by size, backend and SoC, started when first asked for."""

    def __init__(self) -> None:
        self._made: dict[Any, Crew] = {}

    def __call__(self, size: int, backend: str = "numpy", soc: str = "", home: str = "") -> Crew:
        key = size, backend, soc
        if key not in self._made:
            self._made[key] = Crew(size, backend, soc, home)
        return self._made[key]

    def close(self) -> None:
        for crew in self._made.values():
            crew.close()


@pytest.fixture(scope="module")
def crews() -> Iterator[Crews]:
    made = Crews()
    yield made
    made.close()


@pytest.fixture(params=["numpy 2", "numpy 4", "emulator 2", "emulator 4"])
def crew(request: pytest.FixtureRequest, crews: Crews) -> Crew:
    """Ranks of Atlas A2."""
    backend, size = request.param.split()
    if backend == "numpy":
        return crews(int(size))
    home: Path = request.getfixturevalue("emulator_home")
    return crews(int(size), "npu", home=str(home))


@pytest.fixture(params=[2, 4])
def crew_950(request: pytest.FixtureRequest, crews: Crews) -> Crew:
    return crews(request.param, soc=NEW_950)


def normal(seed: int, *shape: int, dtype: Any = HALF, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).normal(0, scale, shape)).astype(dtype)


def whole(seed: int, *shape: int, dtype: Any = np.int8, most: int = 8) -> Any:
    return np.random.default_rng(seed).integers(-most, most, shape).astype(dtype)


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def one(crew: Crew, name: str, arguments: list[list[Any]], out: Any) -> list[list[Any]]:
    """The outputs of one operator on each rank; ``out(rank)`` makes its outputs."""
    found = crew.call([[(name, own, out(rank))] for rank, own in enumerate(arguments)])
    return [program[0] for program in found]


def parts(values: Any, size: int) -> Any:
    return np.split(np.asarray(values), size)


# --------------------------------------------------------------------------------------------------- gather, scatter

M, K, N = 8, 256, 24


def test_all_gather_add(crew: Crew) -> None:
    size = crew.size
    a, b = [normal(r, M, K) for r in range(size)], [normal(9 + r, M * size, K) for r in range(size)]
    found = one(
        crew,
        "all_gather_add",
        [[a[r], b[r], GROUP, size] for r in range(size)],
        lambda r: (np.empty((M * size, K), HALF), np.empty((M * size, K), HALF)),
    )
    gathered = np.concatenate(a)
    for rank, (c, gather) in enumerate(found):
        np.testing.assert_array_equal(gather, gathered)
        np.testing.assert_array_equal(c, (wide(gathered) + wide(b[rank])).astype(HALF))


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_all_gather_matmul(crew: Crew, dtype: Any) -> None:
    size = crew.size
    x1, x2 = (
        [normal(r, M, K, dtype=dtype) for r in range(size)],
        [normal(9 + r, K, N, dtype=dtype) for r in range(size)],
    )
    found = one(
        crew,
        "all_gather_matmul",
        [[x1[r], x2[r], None, GROUP, 0, 0, 1] for r in range(size)],
        lambda r: (np.empty((M * size, N), dtype), np.empty((M * size, K), dtype)),
    )
    gathered = np.concatenate(x1)
    for rank, (output, gather) in enumerate(found):
        np.testing.assert_array_equal(gather, gathered)
        assert_near(output, wide(gathered) @ wide(x2[rank]), 0.0, 4e-3, floor=1e-6)


def test_all_gather_matmul_v2_of_integers(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [whole(r, M, K) for r in range(size)], whole(5, K, N)
    rows = [np.abs(normal(20 + r, M, 1, dtype=np.float32)) + 0.1 for r in range(size)]
    columns = np.abs(normal(30, 1, N, dtype=np.float32)) + 0.1
    found = one(
        crew,
        "all_gather_matmul_v2",
        [[x1[r], x2, None, rows[r], columns, None, 0, GROUP, 0, 0, 1, 0, "aiv"] for r in range(size)],
        lambda r: (np.empty((M * size, N), HALF), np.empty((M * size, K), np.int8), None),
    )
    expected = wide(np.concatenate(x1)) @ wide(x2) * wide(np.concatenate(rows)) * wide(columns)
    for output, gather, _ in found:
        assert_near(output, expected, 0.0, 1e-3, floor=1e-6)
        np.testing.assert_array_equal(gather, np.concatenate(x1))


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_matmul_reduce_scatter(crew: Crew, dtype: Any) -> None:
    size = crew.size
    x1, x2 = (
        [normal(r, 2 * size, K, dtype=dtype) for r in range(size)],
        [normal(9 + r, K, N, dtype=dtype) for r in range(size)],
    )
    bias = [normal(50 + r, N, dtype=dtype) for r in range(size)]
    found = one(
        crew,
        "matmul_reduce_scatter",
        [[x1[r], x2[r], bias[r], GROUP, "sum", 0, 1] for r in range(size)],
        lambda r: np.empty((2, N), dtype),
    )
    total = sum(wide(a) @ wide(b) + wide(c) for a, b, c in zip(x1, x2, bias))
    for (output,), expected in zip(found, parts(total, size)):
        assert_near(output, expected, 0.0, 2e-2 if dtype is BF16 else 4e-3, floor=1e-6)


def test_matmul_reduce_scatter_v2_of_integers(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [whole(r, 2 * size, K) for r in range(size)], [whole(9 + r, K, N) for r in range(size)]
    rows = [np.abs(normal(20 + r, 2 * size, 1, dtype=np.float32)) * 0.01 for r in range(size)]
    columns, bias = np.abs(normal(30, 1, N, dtype=np.float32)), normal(31, N, dtype=np.float32)
    found = one(
        crew,
        "matmul_reduce_scatter_v2",
        [[x1[r], x2[r], bias, rows[r], columns, None, 0, GROUP, "sum", 0, 1, 0, "aiv"] for r in range(size)],
        lambda r: (np.empty((2, N), HALF), None),
    )
    total = sum(wide(a) @ wide(b) * wide(c) * wide(columns) + wide(bias) for a, b, c in zip(x1, x2, rows))
    for (output, _), expected in zip(found, parts(total, size)):
        assert_near(output, expected, 0.0, 4e-3, floor=1e-6)


# --------------------------------------------------------------------------------------------------- sums


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_matmul_all_reduce(crew: Crew, dtype: Any) -> None:
    size = crew.size
    x1, x2 = (
        [normal(r, 2, 3, K, dtype=dtype) for r in range(size)],
        [normal(9 + r, K, N, dtype=dtype) for r in range(size)],
    )
    bias, x3 = normal(40, N, dtype=dtype), [normal(41 + r, 2, 3, N, dtype=dtype) for r in range(size)]
    found = one(
        crew,
        "matmul_all_reduce_v2",
        [[x1[r], x2[r], bias, x3[r], GROUP, "sum", 0, 1] for r in range(size)],
        lambda r: np.empty((2, 3, N), dtype),
    )
    expected = sum(wide(a) @ wide(b) + wide(bias) + wide(c) for a, b, c in zip(x1, x2, x3))
    for (output,) in found:
        assert_near(output, expected, 0.0, 2e-2 if dtype is BF16 else 4e-3, floor=1e-6)
        assert output.tobytes() == found[0][0].tobytes()


def test_a_card_sends_partial_sums_as_they_are_stored(crew: Crew) -> None:
    """Each rank's product is rounded to the output's data type; their sum is taken in float32 and rounded once."""
    x1 = [np.full((1, 1), 1 + 2.0**-10, HALF) for _ in range(crew.size)]
    x2 = np.full((1, 1), 1 + 2.0**-10, HALF)
    found = one(
        crew,
        "matmul_all_reduce",
        [[x1[r], x2, None, GROUP, "sum", 0, 1] for r in range(crew.size)],
        lambda r: np.empty((1, 1), HALF),
    )
    sent = HALF(np.float32(1 + 2.0**-10) ** 2)
    assert all(output[0, 0] == HALF(np.float32(sent) * crew.size) for (output,) in found)


def test_quant_matmul_all_reduce(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [whole(r, M, K) for r in range(size)], [whole(9 + r, K, N) for r in range(size)]
    bias, x3 = whole(3, N, dtype=np.int32, most=100), normal(4, M, N)
    scale = np.abs(normal(5, N, dtype=np.float32)) * 0.01
    rows = [np.abs(normal(20 + r, M, dtype=np.float32)) for r in range(size)]
    packed = aclnn.ops.trans_quant_param_v2(scale, None)
    kept = (packed.astype(np.uint64) & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)
    plain = one(
        crew,
        "quant_matmul_all_reduce",
        [[x1[r], x2[r], bias, x3, packed, GROUP, "sum", 0, 1] for r in range(size)],
        lambda r: np.empty((M, N), HALF),
    )
    by_row = one(
        crew,
        "quant_matmul_all_reduce_v2",
        [[x1[r], x2[r], bias, x3, scale, rows[r], GROUP, "sum", 0, 1] for r in range(size)],
        lambda r: np.empty((M, N), HALF),
    )
    products = [wide(a) @ wide(b) + wide(bias) for a, b in zip(x1, x2)]
    for (output,) in plain:
        assert_near(output, sum(p * wide(kept) + wide(x3) for p in products), 0.0, 4e-3, floor=1e-6)
    for (output,) in by_row:
        assert_near(
            output,
            sum(p * wide(scale) * wide(r)[:, None] + wide(x3) for p, r in zip(products, rows)),
            0.0,
            4e-3,
            floor=1e-6,
        )


def test_quant_matmul_all_reduce_in_eight_bits(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [whole(r, M, K) for r in range(size)], [whole(9 + r, K, N) for r in range(size)]
    scale, rows = np.full(N, 2.0**-7, np.float32), np.ones(M, np.float32)
    first, second = np.full(N, 0.5, HALF), np.full(N, 1.0, HALF)
    found = one(
        crew,
        "quant_matmul_all_reduce_v3",
        [[x1[r], x2[r], None, None, scale, rows, first, second, GROUP, "sum", 0, 1] for r in range(size)],
        lambda r: np.empty((M, N), HALF),
    )
    sent = [np.clip(np.rint(wide(a) @ wide(b) * 2.0**-7 / 0.5), -128, 127) for a, b in zip(x1, x2)]
    expected = np.clip(np.rint(sum(sent) * 0.5), -128, 127)
    for (output,) in found:
        np.testing.assert_array_equal(wide(output), expected)


def test_weight_quant_matmul_all_reduce(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [normal(r, M, K) for r in range(size)], [whole(9 + r, K, N) for r in range(size)]
    scale, offset = np.abs(normal(5, K // 32, N)) * HALF(0.1), normal(6, K // 32, N)
    found = one(
        crew,
        "weight_quant_matmul_all_reduce",
        [[x1[r], x2[r], None, scale, offset, None, GROUP, "sum", 0, 1, 32] for r in range(size)],
        lambda r: np.empty((M, N), HALF),
    )
    spread = [np.repeat(wide(v), 32, axis=0) for v in (scale, offset)]
    expected = sum(wide(a) @ ((wide(b) + spread[1]) * spread[0]) for a, b in zip(x1, x2))
    for (output,) in found:
        assert_near(output, expected, 0.0, 4e-3, floor=1e-6)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("kind", ["", "quant_", "weight_quant_"])
def test_matmul_all_reduce_add_rms_norm(crew: Crew, kind: str, inplace: bool) -> None:
    size = crew.size
    quantised = {"": (False, False), "quant_": (True, True), "weight_quant_": (False, True)}[kind]
    x1 = [whole(r, 6, K) if quantised[0] else normal(r, 6, K) for r in range(size)]
    x2 = [whole(9 + r, K, N) if quantised[1] else normal(9 + r, K, N) for r in range(size)]
    scale = np.full(N, 2.0**-6, np.float32)
    extra: list[Any] = {
        "": [],
        "quant_": [aclnn.ops.trans_quant_param_v2(scale, None)],
        "weight_quant_": [scale.astype(HALF), None],
    }[kind]
    residual, gamma = normal(4, 2, 3, N), normal(5, N)
    tail = [1e-6, GROUP, "sum", 0, 1, *([0] if kind == "weight_quant_" else [])]
    name = f"{'inplace_' if inplace else ''}{kind}matmul_all_reduce_add_rms_norm"
    found = one(
        crew,
        name,
        [[x1[r], x2[r], None, *extra, residual.copy(), gamma, *tail] for r in range(size)],
        lambda r: None,
    )
    factor = wide(scale) if kind else 1.0
    total = sum(wide(a) @ (wide(b) * factor) for a, b in zip(x1, x2)).reshape(2, 3, N) + wide(residual)
    norm = total / np.sqrt(np.square(total).mean(-1, keepdims=True) + 1e-6) * wide(gamma)
    for sums, normed in found:
        assert_near(sums, total, 0.0, 4e-3, floor=1e-6)
        assert_near(normed, norm, 0.0, 1e-2, floor=1e-6)


def test_grouped_matmul_all_reduce(crew: Crew) -> None:
    size = crew.size
    x = [normal(r, 10, 32) for r in range(size)]
    weights = [[normal(10 * r + g, 32, 16) for g in range(2)] for r in range(size)]
    found = one(
        crew,
        "grouped_mat_mul_all_reduce",
        [[[x[r]], weights[r], None, [4, 10], 3, GROUP, "sum", 0, 1] for r in range(size)],
        lambda r: None,
    )
    expected = sum(
        np.concatenate([wide(x[r][:4]) @ wide(weights[r][0]), wide(x[r][4:]) @ wide(weights[r][1])])
        for r in range(size)
    )
    for (y,) in found:
        assert_near(y[0], expected, 0.0, 4e-3, floor=1e-6)


# --------------------------------------------------------------------------------------------------- all to all


def test_all_to_all_matmul(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [normal(r, 3 * size, 16) for r in range(size)], [normal(9 + r, 16 * size, N) for r in range(size)]
    bias = normal(40, N)
    found = one(
        crew,
        "allto_all_matmul",
        [[x1[r], x2[r], bias, None, GROUP, False, False] for r in range(size)],
        lambda r: (np.empty((3, N), HALF), np.empty((3, 16 * size), HALF)),
    )
    for rank, (output, exchanged) in enumerate(found):
        left = np.concatenate([x[3 * rank : 3 * rank + 3] for x in x1], axis=1)
        np.testing.assert_array_equal(exchanged, left)
        assert_near(output, wide(left) @ wide(x2[rank]) + wide(bias), 0.0, 4e-3, floor=1e-6)


@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_all_to_all(crew: Crew, transposed: bool) -> None:
    size = crew.size
    x1, x2 = [normal(r, 3, K) for r in range(size)], [normal(9 + r, K, 4 * size) for r in range(size)]
    found = one(
        crew,
        "matmul_allto_all",
        [
            [x1[r], np.ascontiguousarray(x2[r].T) if transposed else x2[r], None, [-1, -2], GROUP, False, transposed]
            for r in range(size)
        ],
        lambda r: np.empty((3 * size, 4), HALF),
    )
    products = [wide(a) @ wide(b) for a, b in zip(x1, x2)]
    for rank, (output,) in enumerate(found):
        assert_near(output, np.concatenate([p[:, 4 * rank : 4 * rank + 4] for p in products]), 0.0, 4e-3, floor=1e-6)


def test_quant_matmul_all_to_all(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [whole(r, 3, K) for r in range(size)], [whole(9 + r, K, 4 * size) for r in range(size)]
    rows, columns = np.abs(normal(3, 3, dtype=np.float32)) * 0.01, np.abs(normal(4, 4 * size, dtype=np.float32))
    bias = normal(5, 4 * size)
    found = one(
        crew,
        "quant_matmul_allto_all",
        [
            [x1[r], x2[r], bias, rows, columns, None, None, None, None, GROUP, 3, 2, 0, -1, 0, False, False]
            for r in range(size)
        ],
        lambda r: np.empty((3 * size, 4), HALF),
    )
    products = [wide(a) @ wide(b) * wide(rows)[:, None] * wide(columns) + wide(bias) for a, b in zip(x1, x2)]
    for rank, (output,) in enumerate(found):
        assert_near(output, np.concatenate([p[:, 4 * rank : 4 * rank + 4] for p in products]), 0.0, 1e-3, floor=1e-6)


def test_all_to_all_quant_matmul_quantises_after_the_exchange(crew: Crew) -> None:
    size = crew.size
    x1, x2 = [normal(r, 3 * size, 16) for r in range(size)], [whole(9 + r, 16 * size, N) for r in range(size)]
    columns = np.abs(normal(4, N, dtype=np.float32))
    found = one(
        crew,
        "allto_all_quant_matmul",
        [
            [x1[r], x2[r], None, None, columns, None, None, None, GROUP, None, 7, 2, 0, -1, 2, 0, False, False]
            for r in range(size)
        ],
        lambda r: (np.empty((3, N), HALF), None),
    )
    for rank, (output, _) in enumerate(found):
        left = wide(np.concatenate([x[3 * rank : 3 * rank + 3] for x in x1], axis=1))
        scale = np.abs(left).max(axis=1, keepdims=True) / 127
        assert_near(output, (np.rint(left / scale) @ wide(x2[rank])) * scale * wide(columns), 0.0, 2e-3, floor=1e-6)


def groups_of_two(comm: Any, calls: list[tuple[str, list[Any], Any]]) -> list[Any]:
    """Operators with an expert group and a tensor group of two ranks each, of four."""
    expert, tensor = None, None
    for first in (0, 1):
        expert = comm.split([first, first + 2]) or expert
    for first in (0, 2):
        tensor = comm.split([first, first + 1]) or tensor
    assert expert is not None and tensor is not None
    names = {"<ep>": expert.name, "<tp>": tensor.name}
    found = []
    for name, arguments, out in calls:
        made = [names.get(a, a) if isinstance(a, str) else a for a in arguments]
        result = getattr(aclnn.ops, name)(*made, out=out)
        found.append(list(result) if isinstance(result, tuple) else [result])
    return found


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("backend", ["numpy", "emulator"])
def test_experts_between_two_groups(crews: Crews, request: Any, backend: str, shard: int) -> None:
    """Ranks are (ep, tp) = (rank // 2, rank % 2); there and back again, against the experts' whole matrices."""
    home = str(request.getfixturevalue("emulator_home")) if backend == "emulator" else ""
    crew = crews(4, "npu" if home else "numpy", A3 if not home else "", home)
    ep = tp = 2
    experts, rows, hidden, middle = 4, 4, 8, 6
    tokens = [normal(70 + e, experts, rows, hidden) for e in range(ep)]  # of each expert rank, whole
    up, down = normal(80, experts, hidden, tp * middle, scale=0.5), normal(81, experts, tp * middle, hidden, scale=0.5)
    bias_up, bias_down = normal(82, experts, 1, tp * middle), normal(83, experts, 1, hidden)

    def share(x: Any, rank: int) -> Any:
        """A tensor rank's part of rows or columns."""
        return np.ascontiguousarray(np.split(x, tp, axis=1 if shard else 2)[rank % tp])

    def of_rank(x: Any, rank: int, axis: int) -> Any:
        own = np.split(x, ep)[rank // tp]
        return np.ascontiguousarray(np.split(own, tp, axis)[rank % tp])

    there = crew.run_each(
        groups_of_two,
        [
            (
                [
                    (
                        "allto_all_all_gather_batch_mat_mul",
                        [
                            share(tokens[r // tp], r),
                            of_rank(up, r, 2),
                            of_rank(bias_up, r, 2),
                            "<ep>",
                            "<tp>",
                            ep,
                            tp,
                            shard,
                            3,
                        ],
                        (
                            np.empty((experts // ep, ep * rows, middle), HALF),
                            np.empty((experts // ep, ep * rows, hidden), HALF),
                            np.empty((experts // ep, ep * rows, middle), HALF),
                        ),
                    )
                ],
            )
            for r in range(4)
        ],
    )
    arrived = [np.concatenate([np.split(t, ep)[e] for t in tokens], axis=1) for e in range(ep)]
    for rank, result in enumerate(there):
        assert not isinstance(result, BaseException), result
        y1, y2, y3 = result[0]
        np.testing.assert_array_equal(y2, arrived[rank // tp])
        expected = wide(y2) @ wide(of_rank(up, rank, 2)) + wide(of_rank(bias_up, rank, 2))
        assert_near(y3, expected, 0.0, 4e-3, floor=1e-6)
        assert_near(y1, np.maximum(expected, 0), 0.0, 4e-3, floor=1e-6)

    back = crew.run_each(
        groups_of_two,
        [
            (
                [
                    (
                        "batch_mat_mul_reduce_scatter_allto_all",
                        [
                            there[r][0][0],
                            of_rank(down, r, 1),
                            np.split(bias_down, ep)[r // tp] if shard else of_rank(bias_down, r, 2),
                            "<ep>",
                            "<tp>",
                            ep,
                            tp,
                            shard,
                        ],
                        np.empty((experts, rows // (tp if shard else 1), hidden // (1 if shard else tp)), HALF),
                    )
                ],
            )
            for r in range(4)
        ],
    )
    for rank, result in enumerate(back):
        assert not isinstance(result, BaseException), result
        x = wide(tokens[rank // tp])
        whole_result = np.maximum(x @ wide(up) + wide(bias_up), 0) @ wide(down) + wide(bias_down)
        assert_near(result[0][0], share(whole_result, rank), 0.0, 1e-2, floor=1e-6)


# --------------------------------------------------------------------------------------------------- groups


def counts_for(size: int, experts: int) -> Any:
    """How many rows each rank sends to each rank's experts: (from, to, expert)."""
    return np.random.default_rng(size).integers(0, 4, (size, size, experts))


@pytest.mark.parametrize("transposed", [False, True])
def test_all_to_all_v_grouped_matmul_and_back(crew: Crew, transposed: bool) -> None:
    size, experts, hidden = crew.size, 2, 16
    sent = counts_for(size, experts)
    x = [normal(r, int(sent[r].sum()), hidden) for r in range(size)]
    weights = [normal(20 + r, experts, hidden, N) for r in range(size)]
    shared_x, shared_weight = normal(30, 5, 8), normal(31, 8, 6)
    given = [np.ascontiguousarray(w.swapaxes(1, 2)) if transposed else w for w in weights]
    blocks = [np.split(x[r], np.cumsum(sent[r].reshape(-1))[:-1]) for r in range(size)]  # [from][to * experts + expert]
    arrived = [
        np.concatenate([blocks[f][to * experts + e] for e in range(experts) for f in range(size)]) for to in range(size)
    ]
    found = one(
        crew,
        "allto_allv_grouped_mat_mul",
        [
            [
                *(
                    x[r],
                    given[r],
                    None,
                    None,
                    shared_x,
                    np.ascontiguousarray(shared_weight.T) if transposed else shared_weight,
                ),
                *(
                    GROUP,
                    size,
                    sent[r].reshape(-1).tolist(),
                    sent[:, r].reshape(-1).tolist(),
                    transposed,
                    transposed,
                    True,
                ),
            ]
            for r in range(size)
        ],
        lambda r: (
            np.empty((len(arrived[r]), N), HALF),
            np.empty((5, 6), HALF),
            np.empty((len(arrived[r]), hidden), HALF),
        ),
    )
    middle = []
    for rank, (y, shared, permuted) in enumerate(found):
        np.testing.assert_array_equal(permuted, arrived[rank])
        ends = np.cumsum(sent[:, rank].sum(axis=0))
        expected = np.concatenate(
            [wide(p) @ wide(w) for p, w in zip(np.split(arrived[rank], ends[:-1]), weights[rank])]
        )
        assert_near(y, expected, 0.0, 4e-3, floor=1e-6)
        assert_near(shared, wide(shared_x) @ wide(shared_weight), 0.0, 4e-3, floor=1e-6)
        middle.append(y)

    down = [normal(60 + r, experts, N, hidden) for r in range(size)]
    returned = one(
        crew,
        "grouped_mat_mul_allto_allv",
        [
            [
                *(
                    middle[r],
                    np.ascontiguousarray(down[r].swapaxes(1, 2)) if transposed else down[r],
                    None,
                    None,
                    None,
                    None,
                ),
                *(GROUP, size, sent[:, r].reshape(-1).tolist(), sent[r].reshape(-1).tolist(), transposed, False),
            ]
            for r in range(size)
        ],
        lambda r: (np.empty((len(x[r]), hidden), HALF), None),
    )
    for rank, (y, _) in enumerate(returned):
        expected = [
            wide(blocks[rank][to * experts + e]) @ wide(weights[to][e]) @ wide(down[to][e])
            for to in range(size)
            for e in range(experts)
        ]
        assert_near(y, np.concatenate(expected), 0.0, 1e-2, floor=1e-6)


def test_counts_that_do_not_fit_are_refused(crews: Crews) -> None:
    crew = crews(2)
    x, weight = normal(0, 4, 8), normal(1, 1, 8, 4)
    found = crew.run_each(
        _status,
        [
            (
                "allto_allv_grouped_mat_mul",
                [x, weight, None, None, None, None, GROUP, 2, [2, 3], [2, 2], False, False, False],
                (np.empty((4, 4), HALF), None, None),
            )
        ]
        * 2,
    )
    assert [status for status, _ in found] == [161002, 161002]
    assert "send_counts adds up to 5; there are 4 rows" in found[0][1]


def _status(comm: Any, name: str, arguments: list[Any], out: Any) -> tuple[int, str]:
    try:
        getattr(aclnn.ops, name)(*[comm.name if isinstance(a, str) and a == GROUP else a for a in arguments], out=out)
    except aclnn.AclError as error:
        return error.status, error.detail
    return 0, ""


@pytest.mark.parametrize("backend", ["numpy", "npu"])
def test_a_group_that_does_not_exist(crews: Crews, request: Any, backend: str) -> None:
    """CANN's phase one asks HCCL for the communicator and returns 361001 without one."""
    crew = crews(2, backend, home=str(request.getfixturevalue("emulator_home")) if backend == "npu" else "")
    x1, x2, out = normal(0, M, K), normal(1, K, N), np.empty((M, N), HALF)
    for status, text in crew.run(_status, "matmul_all_reduce", [x1, x2, None, "nobody", "sum", 0, 1], out):
        assert status == 361001 and "group is 'nobody'" in text
    comm_size = [np.zeros(1, HALF), GROUP, 3]
    for status, text in crew.run(_status, "distribute_barrier", comm_size, None):
        assert status == 161002 and "has 2 ranks" in text


# --------------------------------------------------------------------------------------------------- small floats


def shared_exponents(x: Any) -> tuple[Any, Any, Any]:
    """Elements, scales (rows, blocks / 2, 2), and the values that they mean, of rows with a multiple of 64 columns."""
    blocks = wide(x).reshape(len(x), -1, 32)
    exponent = np.floor(np.log2(np.abs(blocks).max(-1))) - 8
    elements = np.clip(blocks / 2.0 ** exponent[..., None], -448, 448).astype(E4M3)
    scales = (2.0**exponent).astype(np.float32).astype(E8M0).reshape(len(x), -1, 2)
    return elements.reshape(x.shape), scales, (wide(elements) * 2.0 ** exponent[..., None]).reshape(x.shape)


def test_small_floats_with_shared_exponents(crew_950: Crew) -> None:
    """The right operand is given transposed, (n, k), with its scales as (n, k / 64, 2)."""
    size = crew_950.size
    left = [shared_exponents(normal(r, 4, K, dtype=np.float32)) for r in range(size)]
    right = shared_exponents(normal(40, N, K, dtype=np.float32))
    found = one(
        crew_950,
        "all_gather_matmul_v2",
        [[x[0], right[0].T, None, x[1], right[1], None, 0, GROUP, 0, 0, 1, 0, "ccu"] for x in left],
        lambda r: (np.empty((4 * size, N), np.float32), np.empty((4 * size, K), E4M3), None),
    )
    for output, gather, _ in found:
        assert_near(output, np.concatenate([x[2] for x in left]) @ right[2].T, 0.0, 1e-5, floor=1e-6)
        np.testing.assert_array_equal(wide(gather), np.concatenate([wide(x[0]) for x in left]))

    rows = [shared_exponents(normal(60 + r, 2 * size, 64, dtype=np.float32)) for r in range(size)]
    columns = shared_exponents(normal(50, N, 64 * size, dtype=np.float32))
    exchanged = one(
        crew_950,
        "allto_all_quant_matmul",
        [
            [w[0], columns[0], None, w[1], columns[1], None, None, None, GROUP, None, 6, 6, 0, -1, 0, 0, False, True]
            for w in rows
        ],
        lambda r: (np.empty((2, N), np.float32), None),
    )
    for rank, (output, _) in enumerate(exchanged):
        own = np.concatenate([w[2][2 * rank : 2 * rank + 2] for w in rows], axis=1)
        assert_near(output, own @ columns[2].T, 0.0, 1e-5, floor=1e-6)


def test_small_floats_with_one_scale(crew_950: Crew) -> None:
    size = crew_950.size
    x1, x2 = [normal(r, 2 * size, K, dtype=np.float32).astype(E4M3) for r in range(size)], normal(9, K, N).astype(E4M3)
    scale, bias = [np.array([0.5 + r], np.float32) for r in range(size)], normal(40, N, dtype=np.float32)
    second = np.array([0.25], np.float32)
    found = one(
        crew_950,
        "matmul_reduce_scatter_v2",
        [[x1[r], x2, bias, scale[r], second, None, 0, GROUP, "sum", 0, 1, 0, "ccu"] for r in range(size)],
        lambda r: (np.empty((2, N), np.float32), None),
    )
    total = sum(wide(a) @ wide(x2) * float(s[0]) * 0.25 + wide(bias) for a, s in zip(x1, scale))
    for (output, _), expected in zip(found, parts(total, size)):
        assert_near(output, expected, 0.0, 1e-5, floor=1e-6)


def test_values_with_scales_are_summed(crew_950: Crew) -> None:
    size = crew_950.size
    x = [whole(r, 2 * size, 1024, most=127) for r in range(size)]
    scales = [np.abs(normal(20 + r, 2 * size, 8, dtype=np.float32)) for r in range(size)]
    total = sum(wide(a) * np.repeat(wide(b), 128, axis=1) for a, b in zip(x, scales))
    summed = one(
        crew_950,
        "quant_all_reduce",
        [[x[r], scales[r], GROUP, "sum"] for r in range(size)],
        lambda r: np.empty((2 * size, 1024), np.float32),
    )
    for (output,) in summed:
        assert_near(output, total, 0.0, 1e-6, floor=1e-6)
    shared = one(
        crew_950,
        "quant_reduce_scatter",
        [[x[r], scales[r], GROUP, "sum"] for r in range(size)],
        lambda r: np.empty((2, 1024), np.float32),
    )
    for (output,), expected in zip(shared, parts(total, size)):
        assert_near(output, expected, 0.0, 1e-6, floor=1e-6)
    small = [shared_exponents(normal(r, 2 * size, 1024, dtype=np.float32)) for r in range(size)]
    exponents = one(
        crew_950,
        "quant_all_reduce",
        [[s[0], s[1].reshape(2 * size, 16, 2), GROUP, "sum"] for s in small],
        lambda r: np.empty((2 * size, 1024), np.float32),
    )
    for (output,) in exponents:
        assert_near(output, sum(s[2] for s in small), 0.0, 1e-6, floor=1e-6)


@pytest.mark.parametrize("mode", [1, 6])
def test_quantised_experts(crew_950: Crew, mode: int) -> None:
    """Scales of rows travel with the rows."""
    size, experts, hidden = crew_950.size, 2, 64
    sent = counts_for(size, experts)
    count = sent.sum(axis=(1, 2))
    given = [normal(r, int(count[r]), hidden, dtype=np.float32) for r in range(size)]
    weights = [normal(20 + r, experts, N, hidden, dtype=np.float32) for r in range(size)]  # transposed
    if mode == 6:
        x = [shared_exponents(g) for g in given]
        w = [[shared_exponents(v) for v in of_rank] for of_rank in weights]
        wq, ws, wv = ([np.stack([v[i] for v in of_rank]) for of_rank in w] for i in range(3))
    else:
        x = [(g.astype(E4M3), np.array([0.5], np.float32), wide(g.astype(E4M3)) * 0.5) for g in given]
        wq = [v.astype(E4M3) for v in weights]
        ws, wv = [np.array([0.25], np.float32)] * size, [wide(v) * 0.25 for v in wq]
    blocks = [np.split(x[r][2], np.cumsum(sent[r].reshape(-1))[:-1]) for r in range(size)]
    found = one(
        crew_950,
        "allto_allv_quant_grouped_mat_mul",
        [
            [
                *(x[r][0], wq[r], x[r][1], ws[r], None, None, None, None, None, None, mode, mode, 0, 0),
                *(GROUP, size, sent[r].reshape(-1).tolist(), sent[:, r].reshape(-1).tolist(), True, False, 0, False),
            ]
            for r in range(size)
        ],
        lambda r: (np.empty((int(sent[:, r].sum()), N), HALF), None, None),
    )
    for to, (y, _, _) in enumerate(found):
        expected = [blocks[f][to * experts + e] @ wv[to][e].T for e in range(experts) for f in range(size)]
        assert_near(y, np.concatenate(expected), 0.0, 1e-3, floor=1e-6)
