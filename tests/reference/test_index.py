"""References of ops-nn/index through the public functions, against torch and NumPy: reading, writing and choosing."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_equal
from reference_tools import same

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, I8, I32, I64, BOOL = (np.dtype(t) for t in (np.float16, np.float32, np.int8, np.int32, np.int64, np.bool_))
MOVED = [F32, F16, BF16, I8, I64, BOOL]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is the oracle of gathering, scattering and choosing")


def sample(shape: Any, dtype: Any = F32, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 5).astype(dtype)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_medians_of_all_items_go_to_one_element_of_any_rank(shape: tuple[int, ...]) -> None:
    x = np.array([[3, 1, 7], [5, np.nan, 2]], F32)
    assert np.isnan(ops.median(x, out=np.zeros(shape, F32)).reshape(()))
    assert ops.nan_median(x, out=np.zeros(shape, F32)).reshape(()) == 3


def test_an_impossible_k_or_number_of_repeats_is_refused_before_anything_is_reserved() -> None:
    with pytest.raises(AclError, match=r"aclnnTopk.* k is 4611686018427387904; it must be in"):
        ops.topk(np.ones(4, F32), 2**62, 0, True, True)
    with pytest.raises(AclError, match=r"aclnnRepeatInterleave: .*the repeats add up to 27670116110564327424"):
        ops.repeat_interleave(np.ones(6, F32), np.full(6, 2**62), 8)


def drawn(shape: Any, high: int, seed: int = 0, dtype: Any = I64) -> Any:
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def strided(x: Any) -> Any:
    """The same elements with gaps between them."""
    wide = np.empty([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def tensor(torch: Any, x: Any) -> Any:
    """A torch tensor of the elements; low-precision floats as float64."""
    x = np.ascontiguousarray(x)
    return torch.from_numpy(x.astype(np.float64) if x.dtype in (F16, BF16) else x)


# ------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather(torch: Any, dtype: Any, dim: int) -> None:
    x, index = sample((3, 4, 5), dtype), drawn((2, 3, 4), 3, dtype=I32)
    assert_equal(
        ops.gather(strided(x), dim, strided(index)), torch.gather(tensor(torch, x), dim, tensor(torch, index).long())
    )


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select(dtype: Any, dim: int) -> None:
    x, index = sample((3, 4, 5), dtype), drawn((6,), 3)
    same(ops.index_select(strided(x), dim, index), np.take(x, index, dim))
    same(ops.gather_v2(x, dim, index.reshape(2, 3)), np.take(x, index.reshape(2, 3), dim))
    same(ops.take(strided(x), index.reshape(3, 2)), x.reshape(-1)[index.reshape(3, 2)])


def test_reading_from_and_with_0d_tensors() -> None:
    x = np.float32(7)
    assert ops.gather(np.array(x), 0, np.array(0)).tolist() == 7
    assert ops.index_select(np.array(x), 0, np.array([0])).tolist() == 7
    assert ops.index_select(np.float32([1, 2]), 0, np.array(1)).tolist() == [2]
    assert ops.gather_v3(sample((3, 4)), 0, np.array(2), 0, 1).shape == (4,)
    assert ops.flip(np.array(x), []).tolist() == 7


def test_gather_v3_in_batches() -> None:
    x, index = sample((2, 3, 4, 5), BF16), drawn((2, 3, 6, 2), 4)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        for batch in (1, 2):
            y = ops.gather_v3(x, 2, index, batch, 1)
            for at in np.ndindex(*x.shape[:batch]):
                same(np.array(y[at]), np.take(x[at], index[at], 2 - batch))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gather_nd(depth: int) -> None:
    x, indices = sample((3, 4, 5), F16), drawn((2, 6, depth), 3, dtype=I32)
    expected = x[tuple(np.moveaxis(indices, -1, 0))]
    same(ops.gather_nd(strided(x), indices, False), expected)
    same(ops.gather_nd(x, indices - np.array([3, 4, 5][:depth], np.int32), True), expected)


ALL = np.zeros(0, np.int64)
KEYS = [
    ([drawn((4,), 3)], lambda i: (i[0],)),
    ([ALL, drawn((2, 3), 4)], lambda i: (slice(None), i[1])),
    ([drawn((2, 1), 3), drawn((3,), 4, 1, I32)], lambda i: (i[0], i[1])),
    ([drawn((4,), 3) - 3, ALL, drawn((4,), 5)], lambda i: (i[0], slice(None), i[2])),
    ([drawn((3, 4), 2).astype(bool)], lambda i: (i[0],)),
    ([ALL, ALL, np.array([True, False, True, True, False])], lambda i: (slice(None), slice(None), i[2])),
    ([np.array([True, False, True]), drawn((2,), 4)], lambda i: (i[0], i[1])),
]


@pytest.mark.parametrize("dtype", [F32, BF16, BOOL], ids=str)
@pytest.mark.parametrize("key", range(len(KEYS)))
def test_index(dtype: Any, key: int) -> None:
    indices, numpy_key = KEYS[key]
    x = sample((3, 4, 5), dtype)
    expected = x[numpy_key(indices)]
    same(ops.index(strided(x), indices, out=np.empty_like(expected)), expected)
    if not any(i.dtype == bool for i in indices):
        same(ops.index(x, indices), expected)


def test_flip() -> None:
    for dtype in MOVED:
        x = sample((3, 4, 5), dtype)
        same(ops.flip(strided(x), [0, -1]), x[::-1, :, ::-1])
        same(ops.flip(x, []), x)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.gather(x, 1, np.array([[0, 4]])), r"index element \[0, 1\] is 4; allowed: 0 to 3"),
        (lambda x: ops.gather(x, 0, np.array([[-1]])), r"index element \[0, 0\] is -1; allowed: 0 to 2"),
        (lambda x: ops.index_select(x, 0, np.array([2, 3])), r"index element \[1\] is 3; allowed: 0 to 2"),
        (lambda x: ops.take(x, np.array([12])), r"index element \[0\] is 12; allowed: -12 to 11"),
        (lambda x: ops.index(x, [np.array([-4])]), r"indices \[0\] element \[0\] is -4; allowed: -3 to 2"),
        (lambda x: ops.gather_nd(x, np.array([[0, 4]]), False), r"indices \[\.\.\., 1\] element \[0\] is 4"),
        (lambda x: ops.gather_nd(x, np.array([[0, -1]]), False), r"indices \[\.\.\., 1\] element \[0\] is -1"),
    ],
)
def test_reading_out_of_range(call: Any, text: str) -> None:
    with pytest.raises(AclError, match=text) as caught:
        call(sample((3, 4)))
    assert caught.value.argument in ("index", "indices")


# ------------------------------------------------------------------------------------------------- choosing

SORTED = [F32, F16, BF16, I8, I64]


def with_nans(x: Any) -> Any:
    if x.dtype not in (F32, F16, BF16):
        return x
    x[0, 1] = x[2, 0] = x[1, 1] = np.nan
    return x


@pytest.mark.parametrize("dtype", SORTED, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("largest", [False, True])
def test_topk(torch: Any, dtype: Any, dim: int, largest: bool) -> None:
    x = sample((4, 5, 6), dtype)
    values, indices = ops.topk(strided(x), 3, dim, largest, True)
    assert_equal(values, torch.topk(tensor(torch, x), 3, dim, largest).values)
    same(values, np.take_along_axis(x, indices, dim))
    assert indices.dtype == I64 and values.dtype == dtype


def test_topk_of_equals_nan_and_0d() -> None:
    values, indices = ops.topk(np.float32([1, 3, np.nan, 3]), 3, -1, True, True)
    assert indices.tolist() == [2, 1, 3] and values.tolist()[1:] == [3, 3]
    assert ops.topk(np.float32([1, 1, 0]), 2, 0, False, True)[1].tolist() == [2, 0]
    assert [y.tolist() for y in ops.topk(np.array(5, np.float32), 1, 0, True, True)] == [5, 0]
    assert ops.topk(np.float32([1, 2]), 0, 0, True, True)[0].shape == (0,)


def long_rows(what: str) -> Any:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 2100)).astype(F32)
    if what == "ties of few values":
        return np.round(x)
    if what == "signed zeros at the limit":
        x[np.abs(x) < 2.5] = 0
        return x * rng.choice(np.array([-1, 1], F32), x.shape)
    if what == "NaN, folded and behind":
        x[0, 17] = x[1, -1] = x[2, -1] = np.nan
    elif what == "infinities":
        x[:, 40:] = -np.inf
        x[:, 7] = np.inf
    elif what == "int32":
        return (x * 1000).astype(I32)
    elif what == "bfloat16":
        return x.astype(BF16)
    return x


@pytest.mark.parametrize(
    "what",
    [
        "plain",
        "ties of few values",
        "signed zeros at the limit",
        "NaN, folded and behind",
        "infinities",
        "int32",
        "bfloat16",
    ],
)
@pytest.mark.parametrize("largest", [False, True])
def test_topk_chooses_among_few_of_a_long_row_what_a_stable_sort_puts_first(what: str, largest: bool) -> None:
    x = long_rows(what)
    wide = x.astype(np.float64)
    numbers, is_nan = np.nan_to_num(-wide if largest else wide, nan=0, posinf=np.inf, neginf=-np.inf), np.isnan(wide)
    last = ~is_nan if largest else is_nan
    wanted = np.stack([np.lexsort((numbers[row], last[row]))[:9] for row in range(len(x))])  # stable
    for dim, array in ((1, x), (0, np.ascontiguousarray(x.T))):
        values, indices = ops.topk(array, 9, dim, largest, True)
        places = wanted if dim else wanted.T
        assert np.array_equal(indices, places)
        same(values, np.take_along_axis(array, places, dim))


@pytest.mark.parametrize("dtype", SORTED, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_kthvalue_and_medians(torch: Any, dtype: Any, dim: int, keepdim: bool) -> None:
    x = with_nans(sample((4, 5, 6), dtype))
    at = {
        "kthvalue": ops.kthvalue(x, 2, dim, keepdim),
        "median": ops.median_dim(strided(x), dim, keepdim),
        "nanmedian": ops.nan_median_dim(x, dim, keepdim),
    }
    for name, (values, indices) in at.items():
        arguments = (2, dim, keepdim) if name == "kthvalue" else (dim, keepdim)
        assert_equal(values, getattr(torch, name)(tensor(torch, x), *arguments).values)
        taken = np.take_along_axis(x, indices if keepdim else np.expand_dims(indices, dim), dim)
        same(values, taken if keepdim else taken.squeeze(dim))


def test_medians_of_everything() -> None:
    x = np.float32([[1, np.nan], [3, 2]])
    assert np.isnan(ops.median(x)) and ops.nan_median(x).tolist() == 2
    assert ops.median_dim(x, 1, False)[1].tolist() == [1, 1]
    assert ops.median(np.int32([4, 1, 3, 2])).tolist() == 2
    assert np.isnan(ops.nan_median(np.float32([np.nan])))
    assert np.isnan(ops.median(np.zeros((0, 2), np.float32)))
    assert ops.median(np.zeros(0, np.int32)).tolist() == np.iinfo(np.int32).min
    assert [y.tolist() for y in ops.kthvalue(np.array(5, np.float32), 1, 0, False)] == [5, 0]


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_nonzero(dtype: Any) -> None:
    x = sample((3, 4, 5), dtype)
    x[np.random.default_rng(1).random(x.shape) < 0.5] = 0
    same(ops.nonzero(strided(x)), np.argwhere(x != 0))
    same(ops.nonzero_v2(x), np.argwhere(x != 0).T)
    same(ops.nonzero(np.zeros((2, 3), dtype)), np.zeros((0, 2), I64))
    assert ops.nonzero(np.ones((), dtype)).shape == (1, 0)


@pytest.mark.parametrize("dtype", [*SORTED, BOOL], ids=str)
def test_unique(torch: Any, dtype: Any) -> None:
    x = np.trunc(sample((5, 6), F32) / 3).astype(dtype)
    values, inverse, counts = ops.unique2(strided(x), True, True, True)
    expected = torch.unique(tensor(torch, x), True, True, True)
    for actual, wanted in zip((values, inverse, counts), expected):
        assert_equal(actual, wanted)
    assert values.dtype == dtype
    for actual, wanted in zip(ops.unique(x, True, True), expected):
        assert_equal(actual, wanted)
    assert_equal(ops.unique2(x, False, False, False)[0], expected[0])
    nothing = ops.unique2(np.zeros(0, dtype), True, True, True)
    assert [y.shape for y in nothing] == [(0,), (0,), (0,)]


def test_unique_of_nan_and_zeros() -> None:
    values, _, counts = ops.unique2(np.float32([np.nan, 0, -0.0, np.nan]), True, True, True)
    assert values.tolist()[0] == 0 and np.isnan(values[1:]).all() and counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("dim", [0, 1, -1, 1000])
@pytest.mark.parametrize("dtype", [F32, BF16, I8, BOOL], ids=str)
def test_unique_consecutive(torch: Any, dim: int, dtype: Any) -> None:
    x = np.repeat(np.repeat(drawn((3, 2, 2), 2), 2, 0), 3, 1)[:, :, drawn(5, 2)].astype(dtype)
    expected = torch.unique_consecutive(tensor(torch, x), True, True, None if dim == 1000 else dim)
    for actual, wanted in zip(ops.unique_consecutive(x, True, True, dim), expected):
        assert_equal(actual, wanted)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [F32, BF16, I8, BOOL], ids=str)
def test_unique_dim(torch: Any, dim: int, dtype: Any) -> None:
    x = drawn((4, 5, 3), 2).astype(dtype)[drawn(7, 4)][:, drawn(6, 5)][:, :, drawn(5, 3)]
    expected = torch.unique(tensor(torch, x), True, True, True, dim)
    for actual, wanted in zip(ops.unique_dim(strided(x), True, True, dim), expected):
        assert_equal(actual, wanted)


@pytest.mark.parametrize("dtype", [F32, F16, BF16, I32, I64], ids=str)
@pytest.mark.parametrize("right", [False, True])
def test_bucketize(dtype: Any, right: bool) -> None:
    boundaries, x = np.array([-3, 0, 2, 5]).astype(dtype), np.array([[-4, -3, 0], [1, 5, 6]]).astype(dtype)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        y = ops.bucketize(x, boundaries, True, right)
    assert y.dtype == I32
    assert_equal(y, np.digitize(x.astype(float), boundaries.astype(float), right=not right))


# ------------------------------------------------------------------------------------------------- writing

NUMBERS = [F32, F16, BF16, I8, I64]


def near(actual: Any, expected: Any) -> None:
    """Equal up to one rounding to the actual dtype."""
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    if actual.dtype in (F16, BF16, F32):
        same(actual, expected.astype(np.float32).astype(actual.dtype))
    else:
        assert_equal(actual, expected)


def wide(torch: Any, x: Any) -> Any:
    """A torch tensor to add up in: floats as float64."""
    return tensor(torch, x.astype(np.float64) if x.dtype == F32 else x)


@pytest.mark.parametrize("dtype", [*NUMBERS, BOOL], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scatter(dtype: Any, dim: int) -> None:
    x, source = sample((3, 4, 5), dtype), sample((3, 4, 5), dtype, 1)
    index = np.argsort(sample((3, 4, 5), F32, 2), dim).astype(I32)[:2, :3]
    expected, filled = x.copy(), x.copy()
    for at in np.ndindex(*index.shape):
        place = list(at)
        place[dim] = index[at]
        expected[tuple(place)], filled[tuple(place)] = source[at], 2
    same(ops.scatter(strided(x), dim, strided(index), strided(source), 0), expected)
    same(ops.scatter_value(strided(x), dim, index, 2, 0), filled)
    changed, refilled = strided(x), strided(x)
    ops.inplace_scatter(changed, dim, index, source, 0)
    ops.inplace_scatter_value(refilled, dim, index, 2, 0)
    same(changed.copy(), expected)
    same(refilled.copy(), filled)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reduce", ["sum", "prod"])
def test_scatter_and_compute(torch: Any, dtype: Any, dim: int, reduce: str) -> None:
    x, source, index = sample((3, 4, 5), dtype), sample((3, 4, 5), dtype, 1), drawn((2, 3, 4), 3, dtype=I32)
    number = 1 + ("sum", "prod").index(reduce)
    places, two = tensor(torch, index).long(), torch.full(index.shape, 2)
    expected = wide(torch, x).scatter_reduce(dim, places, wide(torch, source), reduce)
    near(ops.scatter(strided(x), dim, strided(index), strided(source), number), expected)
    if reduce == "sum":
        near(ops.scatter_add(x, dim, index, source), expected)
    expected = wide(torch, x).scatter_reduce(dim, places, two.to(wide(torch, x).dtype), reduce)
    near(ops.scatter_value(x, dim, index, 2, number), expected)


@pytest.mark.parametrize("dtype", [F32, F16, I64], ids=str)
@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
def test_scatter_reduce(torch: Any, dtype: Any, include_self: bool, reduce: str) -> None:
    x, source, index = sample((4, 5), dtype), sample((6, 5), dtype, 1), drawn((6, 4), 4)
    number = 1 + ["sum", "prod", "amax", "amin", "mean"].index(reduce)
    expected = wide(torch, x).scatter_reduce(
        0, tensor(torch, index), wide(torch, source), reduce, include_self=include_self
    )
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        near(ops.scatter_reduce(x, 0, index, source, number, include_self), expected)
        changed = x.copy()
        ops.inplace_scatter_reduce(changed, 0, index, source, number, include_self)
        near(changed, expected)


def test_scattering_bool_0d_and_nothing() -> None:
    x = np.array([True, False, False])
    assert ops.scatter_add(x, 0, np.array([1, 0]), np.array([True, True])).tolist() == [True, True, False]
    assert ops.scatter_value(np.array(1.0, np.float32), 0, np.array(0), 3, 0).tolist() == 3
    same(ops.scatter(x, 0, np.zeros(0, np.int64), x, 0), x)
    assert ops.scatter_value(np.zeros(2, np.int32), 0, np.array([1]), 2.9, 0).tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [*NUMBERS, BOOL], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_entries_of_an_axis(torch: Any, dtype: Any, dim: int) -> None:
    x, index, distinct = sample((3, 4, 5), dtype), drawn((7,), 3), np.array([2, 0])
    source = sample([7 if i == dim % 3 else n for i, n in enumerate(x.shape)], dtype, 1)
    alpha = 1 if dtype == BOOL else 2
    expected = wide(torch, x).index_add(dim, tensor(torch, index), wide(torch, source), alpha=alpha)
    near(ops.index_add(strided(x), dim, index, strided(source), alpha), expected)
    two = np.take(source, [0, 1], dim)
    expected = tensor(torch, x).index_copy(dim, tensor(torch, distinct), tensor(torch, two))
    changed, out = strided(x), np.zeros_like(x)
    ops.inplace_index_copy(changed, dim, distinct, strided(two))
    assert_equal(changed, expected)
    changed = x.copy()
    ops.index_copy(changed, dim, distinct, two, out)
    assert_equal(out, expected)
    same(changed, x)
    if dtype != I8:
        expected = tensor(torch, x).index_fill(dim, tensor(torch, distinct), 1)
        assert_equal(ops.index_fill(strided(x), dim, distinct, 1), expected)
        assert_equal(ops.index_fill_tensor(x, dim, [2, -x.shape[dim]], 1), expected)
        for call in (ops.inplace_index_fill, ops.inplace_index_fill_tensor):
            changed = strided(x)
            call(changed, dim, distinct if call is ops.inplace_index_fill else distinct.tolist(), 1)
            assert_equal(changed, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_index_add_of_whole_rows(dtype: str) -> None:
    """Rows of several and of no values, added up in float64 and rounded once."""
    rng = np.random.default_rng(0)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x, source = (rng.standard_normal((1, rows, 700)).astype(np.float32).astype(kind) for rows in (50, 90))
    index = rng.integers(0, 40, 90)
    wanted = x.astype(np.float64)
    for i, row in enumerate(index):
        wanted[0, row] += source[0, i].astype(np.float64)
    result = ops.index_add(x, 1, index, source, 1)
    assert result.dtype == kind and np.array_equal(result[:, 40:], x[:, 40:])
    eps = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    assert np.all(np.abs(result.astype(np.float64) - wanted) <= 0.501 * eps * np.abs(wanted) + 1e-7)
    alike = x.copy()
    assert np.array_equal(ops.index_add(alike, 1, index, source, 1, out=alike), result)  # in place, the other way


def test_index_add_v2_index_fill_and_0d() -> None:
    x, source = np.zeros(3, np.float32), np.float32([1, 2])
    assert ops.index_add_v2(x, 0, np.array([1, 1]), source, 2, 1).tolist() == [0, 6, 0]
    assert (
        ops.index_add_v2(np.zeros((3, 8), np.float32), 0, np.array([1]), np.ones((1, 8), np.float32), 2, 1)[1, 0] == 2
    )
    assert ops.index_fill(x, 0, np.array([-1, 5, -9, 0]), 7).tolist() == [7, 0, 7]
    assert ops.index_add(np.array(1, np.float32), 0, np.array(0), np.array(2, np.float32), 3).tolist() == 7
    zero = np.array(1, np.float32)
    ops.inplace_index_copy(zero, 0, np.array(0), np.array(5, np.float32))
    assert zero.tolist() == 5


@pytest.mark.parametrize("dtype", [*NUMBERS, BOOL], ids=str)
@pytest.mark.parametrize("key", range(len(KEYS) - 1))
def test_index_put(torch: Any, dtype: Any, key: int) -> None:
    indices, numpy_key = KEYS[key]
    x = sample((3, 4, 5), dtype)
    at = numpy_key(indices)
    values = sample(x[at].shape, dtype, 1)
    if not any(isinstance(k, slice) for k in at):
        changed = strided(x)
        ops.index_put_impl(changed, indices, values, True, False)
        torch_key = tuple(torch.from_numpy(k if k.dtype == bool else k.astype(np.int64)) for k in at)
        near(changed.copy(), wide(torch, x).index_put(torch_key, wide(torch, values), True))
    changed, wanted = strided(x), x.copy()
    wanted[at] = values
    ops.index_put_impl(changed, indices, values, False, False)
    same(changed.copy(), wanted)
    ops.index_put_impl(changed, indices, np.ones(1, dtype), False, True)
    wanted[at] = 1
    same(changed.copy(), wanted)


@pytest.mark.parametrize("dtype", [F32, BF16, I8], ids=str)
def test_index_put_accumulates_after_a_slice(dtype: Any) -> None:
    x, index = np.zeros((2, 3, 4), dtype), np.array([1, 1, 2])
    ops.index_put_impl(x, [ALL, index], np.ones((2, 3, 4), dtype), True, False)
    assert x[:, :, 0].tolist() == [[0, 2, 1]] * 2
    with pytest.raises(AclError, match=r"values has shape \(5,\); the indices name \(2, 3, 4\)"):
        ops.index_put_impl(x, [ALL, index], np.ones(5, dtype), False, False)


@pytest.mark.parametrize("dtype", [*NUMBERS, BOOL], ids=str)
def test_put(torch: Any, dtype: Any) -> None:
    x, index, source = sample((3, 4), dtype), drawn((2, 5), 12), sample((2, 5), dtype, 1)
    changed = strided(x)
    if dtype != BF16:
        ops.inplace_put(changed, index, source, True)
        near(changed.copy(), wide(torch, x).put(tensor(torch, index), wide(torch, source), True))
    changed, wanted = strided(x), x.copy()
    ops.inplace_put(changed, index[:1], source[:1], False)
    np.put(wanted, index[:1], source[:1])
    same(changed.copy(), wanted)


@pytest.mark.parametrize("dtype", [*NUMBERS, BOOL], ids=str)
def test_masked_scatter(torch: Any, dtype: Any) -> None:
    x, source, mask = sample((3, 4, 5), dtype), sample((9, 7), dtype, 1), drawn((4, 5), 2).astype(bool)
    changed = strided(x)
    ops.inplace_masked_scatter(changed, mask, strided(source))
    assert_equal(changed, tensor(torch, x).masked_scatter(tensor(torch, mask), tensor(torch, source)))
    with pytest.raises(AclError, match=r"source has 1 elements; the mask chooses"):
        ops.inplace_masked_scatter(changed, mask, source[:1, :1])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd(depth: int) -> None:
    for dtype in (F32, F16, BF16, BOOL):
        x = sample((3, 4, 5), dtype)
        indices = np.array([[[0, 3, 1]], [[2, 0, 4]]])[..., :depth]
        updates = sample((2, 1, *x.shape[depth:]), dtype, 1)
        expected = x.copy()
        expected[tuple(np.moveaxis(indices, -1, 0))] = updates
        same(ops.scatter_nd(x, indices, strided(updates)), expected)
        changed = strided(x)
        ops.scatter_nd_update(changed, indices, updates)
        same(changed.copy(), expected)
        if dtype != BOOL:
            total, twice = strided(x), np.concatenate([indices, indices])
            ops.tf_scatter_add(total, twice, np.concatenate([updates, updates]))
            wanted = x.astype(np.float64)
            np.add.at(wanted, tuple(np.moveaxis(twice, -1, 0)), np.concatenate([updates, updates]).astype(np.float64))
            near(total.copy(), wanted)


@pytest.mark.parametrize("dtype", [F32, F16, I32, I8], ids=str)
def test_slices_of_the_first_axis(dtype: Any) -> None:
    x, indices, updates = sample((4, 3), dtype), np.int32([[1, 3], [1, 0]]), sample((2, 2, 3), dtype, 1)
    updates[updates == 0] = 1
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "div": np.true_divide}
    for name, function in functions.items():
        expected = x.astype(np.float64)
        for row, update in zip(indices.reshape(-1), updates.reshape(-1, 3)):
            expected[row] = function(expected[row], update.astype(np.float64))
            if dtype.kind == "i":
                expected[row] = np.trunc(expected[row]).astype(np.int64).astype(dtype)
        changed = strided(x)
        with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
            if name == "add":
                ops.tf_scatter_add(changed, indices, updates)
            else:
                getattr(ops, f"scatter_{name}")(changed, indices, updates, False)
        near(changed.copy(), expected)


def test_updates_at_offsets() -> None:
    x, updates = sample((3, 2, 6, 4), F16), sample((2, 2, 3, 4), F16, 1)
    expected = x.copy()
    for i, start in enumerate((3, 0)):
        expected[i, :, start : start + 3] = updates[i]
    changed = strided(x)
    ops.inplace_scatter_update(changed, np.array([3, 0]), updates, -2)
    same(changed.copy(), expected)
    expected = x.copy()
    expected[2, :, 1:4], expected[0, :, 2:5] = updates
    changed = x.copy()
    ops.inplace_scatter_update(changed, np.array([[2, 1], [0, 2]]), updates, -2)
    same(changed, expected)
    with pytest.raises(AclError, match=r"indices element \[0\] is 4; allowed: 0 to 3"):
        ops.inplace_scatter_update(changed, np.array([4, 0]), updates, -2)


def test_quantised_updates() -> None:
    x, updates = np.zeros((2, 1, 4, 3), np.int8), np.float16([[[[1, 2, 300]]], [[[-2.5, 3.5, -300]]]])
    ops.inplace_quant_scatter(x, np.array([1, 2]), updates, np.float32([1, 0.5, 1]), np.int32([1, 0, 0]), -2, -1, 1)
    assert x[0, 0, 1].tolist() == [2, 4, 127] and x[1, 0, 2].tolist() == [-2, 7, -128] and np.count_nonzero(x) == 6


def test_scatter_list() -> None:
    x, updates = [sample((5, 4), F32, i) for i in range(3)], sample((3, 2, 4), F32, 9)
    expected = [t.copy() for t in x]
    expected[0][3:5], expected[2][1:3] = updates[0], updates[2]
    changed = [t.copy() for t in x]
    ops.scatter_list(changed, np.array([3, 0, 1]), updates, np.uint8([1, 0, 1]), "update", -2)
    for actual, wanted in zip(changed, expected):
        same(actual, wanted)
    ops.scatter_list(changed, np.array([[0, 1], [4, 0], [3, 2]]), updates, None, "update", -2)
    expected[0][0], expected[2][3:5] = updates[0, 0], updates[2]
    for actual, wanted in zip(changed, expected):
        same(actual, wanted)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.scatter_add(x, 0, np.array([[3]]), x), r"index element \[0, 0\] is 3; allowed: 0 to 2"),
        (lambda x: ops.scatter_value(x, 1, np.array([[-1]]), 0, 0), r"index element \[0, 0\] is -1; allowed: 0 to 3"),
        (lambda x: ops.index_add(x, 0, np.array([3]), x[:1], 1), r"index element \[0\] is 3; allowed: 0 to 2"),
        (lambda x: ops.index_put_impl(x, [np.array([3])], x[0], False, False), r"indices \[0\] element \[0\] is 3"),
        (lambda x: ops.inplace_put(x, np.array([-1]), x[0, :1], False), r"index element \[0\] is -1; allowed: 0 to 11"),
        (lambda x: ops.scatter_nd_update(x, np.array([[0, 4]]), x[0, :1]), r"indices \[\.\.\., 1\] element \[0\] is 4"),
    ],
)
def test_writing_out_of_range(call: Any, text: str) -> None:
    x = sample((3, 4))
    before = x.copy()
    with pytest.raises(AclError, match=text):
        call(x)
    same(x, before)


# ------------------------------------------------------------------------------------------------- repeating


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_repeat_interleave(dtype: Any) -> None:
    x, times = sample((3, 4), dtype), np.array([2, 0, 3], np.int32)
    same(ops.repeat_interleave_with_dim(strided(x), times, 0, 5), np.repeat(x, times, 0))
    same(ops.repeat_interleave_with_dim(x, np.array([2]), -1, 8), np.repeat(x, 2, 1))
    same(ops.repeat_interleave_int_with_dim(x, 3, 1, 12), np.repeat(x, 3, 1))
    same(ops.repeat_interleave_int(strided(x), 2, 24), np.repeat(x, 2))
    each = drawn(12, 4)
    same(ops.repeat_interleave(x, each, int(each.sum())), np.repeat(x, each))
    same(ops.repeat_interleave(x, np.array(2), 24), np.repeat(x, 2))


def test_repeat_interleave_tensor_and_refusals() -> None:
    assert ops.repeat_interleave_tensor(np.array([2, 0, 1], np.int32), 3).tolist() == [0, 0, 2]
    x = sample((3, 4))
    with pytest.raises(AclError, match=r"repeats element \[1\] is -1; allowed: 0 or more"):
        ops.repeat_interleave_with_dim(x, np.array([1, -1, 2]), 0, 2)
    with pytest.raises(AclError, match=r"output_size is 5; the repeats add up to 6"):
        ops.repeat_interleave_with_dim(x, np.array([1, 3, 2]), 0, 5)


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_repeat_interleave_grad(torch: Any, dtype: Any, dim: int) -> None:
    times = np.array([2, 0, 3])
    leaf = torch.zeros(3, 3, 3, dtype=torch.float64, requires_grad=True)
    y = leaf.repeat_interleave(torch.from_numpy(times), dim)
    grad = sample(tuple(y.shape), dtype)
    y.backward(wide(torch, grad))
    near(ops.repeat_interleave_grad(strided(grad), times, dim), leaf.grad)
    out = np.empty([1 if n == 5 else n for n in grad.shape], dtype)
    near(ops.repeat_interleave_grad(grad, np.array([5]), dim, out=out), wide(torch, grad).sum(dim, keepdim=True))


def test_expand_into_jagged_permute() -> None:
    y = ops.expand_into_jagged_permute(np.int32([1, 0, 2]), np.int32([0, 4, 9, 12]), np.int32([0, 5, 9, 12]), 12)
    assert y.tolist() == [4, 5, 6, 7, 8, 0, 1, 2, 3, 9, 10, 11]


# ------------------------------------------------------------------------------------------------- unpooling, bags


@pytest.mark.parametrize("dtype", [F32, F16, I8, I64], ids=str)
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("batch", [(2, 3), (3,)])
def test_max_unpool(torch: Any, dtype: Any, axes: int, batch: Any) -> None:
    large = (4, 6, 2)[:axes]
    x = np.random.default_rng(0).permutation(np.arange(np.prod((*batch, *large)))).reshape((*batch, *large)).astype(F32)
    pooled, indices = getattr(torch.nn.functional, f"max_pool{axes}d")(torch.from_numpy(x), 2, return_indices=True)
    small, indices = (pooled.numpy() % 100).astype(dtype), indices.numpy()
    expected = np.zeros((*batch, int(np.prod(large))), dtype)
    np.put_along_axis(expected, indices.reshape(*batch, -1), small.reshape(*batch, -1), -1)
    expected = expected.reshape(x.shape)
    grad = (x % 100).astype(dtype)
    taken = np.take_along_axis(grad.reshape(*batch, -1), indices.reshape(*batch, -1), -1).reshape(small.shape)
    if axes == 2:
        same(ops.max_unpool2d(strided(small), strided(indices), large), expected)
        same(ops.max_unpool2d_backward(strided(grad), small, indices, large), taken)
    else:
        out = np.empty(x.shape, dtype)
        ops.max_unpool3d(small, indices, large, (2, 2, 2), (0, 0, 0), out)
        same(out, expected)
        same(ops.max_unpool3d_backward(grad, small, indices, large, (2, 2, 2), (0, 0, 0)), taken)
    with pytest.raises(AclError, match=r"indices element .* is -1; allowed: 0 to"):
        if axes == 2:
            ops.max_unpool2d(small, indices * 0 - 1, large)
        else:
            ops.max_unpool3d(small, indices * 0 - 1, large, (2, 2, 2), (0, 0, 0), out)


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("padding", [-1, 2])
def test_embedding_bag(torch: Any, dtype: Any, mode: str, last: bool, padding: int) -> None:
    weight, indices, number = sample((6, 5), dtype), drawn(11, 6), ("sum", "mean", "max").index(mode)
    weight[4] = weight[1]
    offsets = np.array([0, 3, 3, 9, 11] if last else [0, 3, 3, 9])
    weights = sample(11, dtype, 1) if mode == "sum" else None
    options = {"mode": number, "include_last_offset": last, "padding_idx": padding}
    if weights is not None:
        options["per_sample_weights"] = wide(torch, weights)
    expected = torch._embedding_bag(
        wide(torch, weight), torch.from_numpy(indices), torch.from_numpy(offsets), **options
    )
    output, owners, sizes, largest = ops.embedding_bag(
        weight, indices, offsets, False, number, False, weights, last, padding
    )
    np.testing.assert_allclose(output.astype(np.float64), expected[0], rtol=1e-3 if dtype == F16 else 1e-6)
    assert_equal(owners, np.repeat([0, 2, 3], [3, 6, 2]))
    if mode != "sum":
        assert_equal(sizes, expected[2])
        assert_equal(largest, expected[3])


# ------------------------------------------------------------------------------------------------- sampling


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("given", ["k", "p", "kp"])
def test_apply_top_k_top_p(dtype: Any, given: str) -> None:
    logits = np.random.default_rng(0).permuted(np.tile(np.arange(12) / 2, (5, 1)), axis=1).astype(dtype)
    k, p = np.array([1, 3, 12, 7, 5], np.int32), np.array([0.5, 0.9, 1, 0.01, 0.75]).astype(dtype)
    expected = logits.astype(np.float64)
    for row in range(5):
        x = expected[row]
        if "k" in given:
            x[x < np.sort(x)[-k[row]]] = -np.inf
        if "p" in given:
            ranked = np.argsort(x)
            low = np.cumsum(softmax(x)[ranked]) <= 1 - float(p[row])
            x[ranked[:-1][low[:-1]]] = -np.inf
    assert_equal(
        ops.apply_top_k_top_p(strided(logits), p if "p" in given else None, k if "k" in given else None), expected
    )


def test_apply_top_k_refuses_a_rank_out_of_range() -> None:
    with pytest.raises(AclError, match=r"k element \[1\] is 5; allowed: 1 to 4"):
        ops.apply_top_k_top_p(sample((2, 4)), None, np.int32([1, 5]))


@pytest.mark.parametrize("with_q", [False, True])
@pytest.mark.parametrize(("version", "min_p"), [(1, None), (2, None), (2, 0.0), (2, 0.3), (2, 1.0)])
def test_top_k_top_p_sample(with_q: bool, version: int, min_p: Any) -> None:
    rng = np.random.default_rng(3)
    logits = rng.permuted(np.tile(np.arange(24) / 4, (6, 1)), axis=1).astype(F16)
    k, p = np.array([1, 5, 24, 2000, 8, 2000], np.int32), np.array([0.5, 0.6, 0.9, 0.4, 1, 1]).astype(F16)
    q = rng.exponential(size=logits.shape).astype(F32) if with_q else None
    if version == 1:
        token, selected = ops.top_k_top_p_sample(logits, k, p, q, 1e-8, True, 32)
    else:
        lowest = None if min_p is None else np.full(6, min_p, F16)
        arguments = (logits, k, p, q, lowest, 1e-8, True, 32, 1024, True)
        token, selected, _, _ = ops.top_k_top_p_sample_v2(*arguments, False)
        _, _, positions, masked = ops.top_k_top_p_sample_v2(*arguments, True)
    for row, x in enumerate(logits.astype(np.float64)):
        ranked = np.argsort(-x) if k[row] <= 24 or p[row] < 1 else np.arange(24)
        chosen = ranked[: k[row]]
        shares = softmax(x[chosen])
        if p[row] < 1:
            chosen = chosen[: np.argmax(np.cumsum(shares) > float(p[row])) + 1]
            shares = shares[: len(chosen)]
        if min_p:
            enough = shares >= min_p * shares.max()
            chosen, shares = chosen[enough], shares[enough]
        wanted = np.full(24, -np.inf)
        wanted[chosen] = x[chosen]
        assert_equal(selected[row], wanted)
        weights = shares if q is None else shares / (q[row, : len(chosen)] + 1e-8)
        assert token[row] == chosen[np.argmax(weights)]
        if version == 2:
            assert positions[row, : len(chosen)].tolist() == chosen.tolist()
            np.testing.assert_allclose(masked[row], np.pad(shares, (0, 24 - len(chosen))), rtol=1e-5)


def test_top_p_of_zero_and_given_probabilities() -> None:
    shares = np.float32([[0.1, 0.6, 0.3], [0.2, 0.3, 0.5]])
    k, p = np.int32([0, 0]), np.float32([0, 0.7])
    token, selected, _, _ = ops.top_k_top_p_sample_v2(shares, k, p, None, None, 1e-8, True, 32, 1024, False, False)
    assert token.tolist() == [1, 2]
    same(selected, np.float32([[0, 0.6, 0], [0, 0.3, 0.5]]))


# ------------------------------------------------------------------------------------------------- inverse


@pytest.mark.parametrize("dtype", [F32, F16, np.dtype(np.complex64)], ids=str)
def test_inverse(dtype: Any) -> None:
    x = (sample((2, 3, 3), F32) + 6 * np.eye(3)).astype(dtype)
    exact = np.linalg.inv(x.astype(np.complex128))
    np.testing.assert_allclose(ops.inverse(strided(x)), exact, rtol=1e-3 if dtype == F16 else 1e-6)
    with pytest.raises(AclError, match=r"self holds a singular matrix"):
        ops.inverse(np.zeros((2, 2), F32))


def test_negative_indices_where_the_kernel_is_asked_for_them() -> None:
    x, index = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([-1, 0, -3], np.int64)
    np.testing.assert_array_equal(ops.take(x, index), [11, 0, 9])
    np.testing.assert_array_equal(ops.gather_v2(x, 0, index), x[[2, 0, 0]])
    with pytest.raises(aclnn.AclError, match="-1; allowed: 0 to 2"):
        ops.index_select(x, 0, index)


def test_index_put_of_a_mask_that_names_nothing() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    held = x.copy()
    for accumulate in (False, True):
        ops.index_put_impl(held, [np.zeros(0, np.int64)], np.ones(3, np.float32), accumulate, False)
        np.testing.assert_array_equal(held, x)
