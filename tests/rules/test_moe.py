"""Rules of the experts' routing: counts of rows, optional outputs, ranges, modes, products, what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD_310P, accepted, detail, each_case, inferred, status, t

OK, NULL, INVALID, INNER_NULL, TILING = 0, 161001, 161002, 561103, 561002
N, H, K, E = 6, 16, 2, 4  # tokens, hidden size, experts per token, experts

_X, _EXPERTS = t([N, H]), t([N, K], "INT32")
_ROWS, _COPIES = t([N * K], "INT32"), t([N * K, H])
_MAP, _PROBS = t([N, E], "BOOL"), t([N, E])
_GATE = (1, 1, 0, 0, 0, False, 1.0, 1e-20)
_V3 = (0, 0, E, 0, 1, True, -1, (0, E), 0)

INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    ("aclnnMoeTokenPermute", (_X, _EXPERTS, 0, False), [((12, H), "FLOAT"), ((12,), "INT32")]),
    ("aclnnMoeTokenPermute", (_X, _EXPERTS, -5, False), [((7, H), "FLOAT"), ((12,), "INT32")]),
    (
        "aclnnMoeTokenPermuteWithEp",
        (_X, _EXPERTS, t([N, K]), (2, 9), 0, False),
        [((7, H), "FLOAT"), ((12,), "INT32"), ((7,), "FLOAT")],
    ),
    (
        "aclnnMoeTokenPermuteWithEpGrad",
        (t([7, H]), _ROWS, t([7]), K, (2, 9), False),
        [((N, H), "FLOAT"), ((N, K), "FLOAT")],
    ),
    ("aclnnMoeTokenUnpermute", (_COPIES, _ROWS, t([N, K]), False, None), [((N, H), "FLOAT")]),
    ("aclnnMoeTokenUnpermuteWithEp", (t([7, H]), _ROWS, t([N, K]), K, (2, 9), False, None), [((N, H), "FLOAT")]),
    (
        "aclnnMoeTokenUnpermuteWithEpGrad",
        (_X, _ROWS, t([7, H]), t([N, K]), False, None, (2, 9), K),
        [((7, H), "FLOAT"), ((N, K), "FLOAT")],
    ),
    (
        "aclnnMoeTokenPermuteWithRoutingMap",
        (_X, _MAP, _PROBS, 13, False),
        [((12, H), "FLOAT"), ((12,), "FLOAT"), ((12,), "INT32")],  # whole tokens: 13 // 6 * 6
    ),
    (
        "aclnnMoeTokenPermuteWithRoutingMap",
        (_X, _MAP, None, 13, True),
        [((12, H), "FLOAT"), (None, ""), ((12,), "INT32")],  # whole experts: 13 // 4 * 4
    ),
    (
        "aclnnMoeTokenPermuteWithRoutingMapGrad",
        (_COPIES, t([12]), _ROWS, _MAP, E, N, False),
        [((N, H), "FLOAT"), ((N, E), "FLOAT")],
    ),
    (
        "aclnnMoeTokenUnpermuteWithRoutingMap",
        (_COPIES, _ROWS, _MAP, _PROBS, False, (N, H)),
        [((N, H), "FLOAT"), ((12,), "INT32"), ((12,), "INT32"), ((12,), "FLOAT")],
    ),
    (
        "aclnnMoeTokenUnpermuteWithRoutingMapGrad",
        (_X, _ROWS, _ROWS, _MAP, _COPIES, _PROBS, False, None),
        [((12, H), "FLOAT"), ((N, E), "FLOAT")],
    ),
    ("aclnnMoeInitRouting", (_X, _EXPERTS, _EXPERTS, 4), [((8, H), "FLOAT"), ((12,), "INT32"), ((12,), "INT32")]),
    (
        "aclnnMoeInitRoutingV2",
        (_X, _EXPERTS, 5, 0, E, 0, 1, False),
        [((5, H), "FLOAT"), ((12,), "INT32"), ((E,), "INT32"), (None, "")],
    ),
    (
        "aclnnMoeInitRoutingV2",
        (_X, _EXPERTS, 0, 3, E, 1, 0, True),
        [((E, 3, H), "FLOAT"), ((12,), "INT32"), (None, ""), ((E,), "INT32")],
    ),
    (
        "aclnnMoeInitRoutingQuantV2",
        (_X, _EXPERTS, None, None, 0, 3, E, 1, 0, False, 1),
        [((E, 3, H), "INT8"), ((12,), "INT32"), (None, ""), (None, ""), ((12,), "FLOAT")],
    ),
    ("aclnnMoeInitRoutingV2Grad", (_COPIES, _ROWS, K, 0, 0), [((N, H), "FLOAT")]),
    (
        "aclnnMoeInitRoutingV3",
        (_X, _EXPERTS, t([N]), None, *_V3),
        [((12, H), "FLOAT"), ((12,), "INT32"), ((E,), "INT64"), ((12,), "FLOAT")],
    ),
    ("aclnnMoeComputeExpertTokens", (_ROWS, E), [((E,), "INT32")]),
    ("aclnnMoeFinalizeRouting", (_COPIES, _X, None, t([E, H]), t([N, K]), _ROWS, _EXPERTS), [((N, H), "FLOAT")]),
    ("aclnnMoeFinalizeRoutingV2", (_COPIES, _ROWS, None, None, None, t([N, K]), None, 0), [((N, H), "FLOAT")]),
    ("aclnnMoeFinalizeRoutingV2", (t([E, 3, H]), _ROWS, None, None, None, t([N, K]), None, 1), [((N, H), "FLOAT")]),
    (
        "aclnnMoeFinalizeRoutingV2Grad",
        (_X, _ROWS, _COPIES, t([N, K]), None, None, 0, 0, 0, 0),
        [((12, H), "FLOAT"), ((N, K), "FLOAT")],
    ),
    ("aclnnMoeGatingTopK", (_PROBS, None, K, *_GATE), [((N, K), "FLOAT"), ((N, K), "INT32"), ((N, E), "FLOAT")]),
    (
        "aclnnMoeGatingTopKSoftmax",
        (t([2, 3, E], "BF16"), t([2, 3], "BOOL"), K),
        [((2, 3, K), "BF16"), ((2, 3, K), "INT32"), ((2, 3, K), "INT32")],
    ),
    (
        "aclnnMoeGatingTopKSoftmaxV2",
        (_PROBS, None, K, 0, True),
        [((N, K), "FLOAT"), ((N, K), "INT32"), ((N, E), "FLOAT")],
    ),
    ("aclnnMoeGatingTopKBackward", (_PROBS, t([N, K], "BF16"), _EXPERTS, 0, 0, 1.0, 1e-20), [((N, E), "BF16")]),
    (
        "aclnnMoeFusedTopk",
        (_PROBS, t([E]), None, None, 2, 1, 1, K, 0, False, 1.0, False),
        [((N, K), "FLOAT"), ((N, K), "INT32")],
    ),
    (
        "aclnnMoeReRouting",
        (t([9, H], "INT8"), t([2, E], "INT64"), t([9]), 1, 0),
        [((9, H), "INT8"), ((9,), "FLOAT"), ((9,), "INT32"), ((E,), "INT64")],
    ),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected
    assert accepted(name, *values) == OK, "its own outputs are refused"


CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    # dtypes are looked at before anything else, shapes when the kernel is tiled
    ("aclnnMoeInitRoutingV2", INVALID, (_X, t([N, K], "FLOAT"), 0, 0, 0, 0, 0, False, _COPIES, _ROWS, None, None), A2),
    ("aclnnMoeInitRoutingV2", TILING, (_X, t([5, K], "INT32"), 0, 0, 0, 0, 0, False, _COPIES, _ROWS, None, None), A2),
    ("aclnnMoeInitRoutingV2", TILING, (_X, _EXPERTS, 0, 7, E, 1, 0, False, t([E, 7, H]), _ROWS, None, None), A2),
    ("aclnnMoeInitRoutingV2", TILING, (_X, _EXPERTS, 0, 0, E, 0, 1, False, _COPIES, _ROWS, None, None), A2),
    ("aclnnMoeInitRoutingV2Grad", INNER_NULL, (_COPIES, _ROWS, 5, 0, 0, _X), A2),
    ("aclnnMoeComputeExpertTokens", TILING, (_ROWS, 2049, t([2049], "INT32")), A2),
    ("aclnnMoeFinalizeRoutingV2", INVALID, (_COPIES, _ROWS, t([N, H], "BF16"), None, None, None, None, 0, _X), A2),
    ("aclnnMoeFinalizeRoutingV2", INVALID, (_COPIES, _ROWS, None, None, None, t([N, K]), None, 1, _X), A2),
    ("aclnnMoeGatingTopK", TILING, (_PROBS, None, 5, *_GATE, t([N, 5]), t([N, 5], "INT32"), _PROBS), A2),
    ("aclnnMoeGatingTopK", TILING, (_PROBS, t([3]), K, *_GATE, t([N, K]), _EXPERTS, _PROBS), A2),
    ("aclnnMoeGatingTopK", TILING, (_PROBS, None, K, 1, 3, *_GATE[2:], t([N, K]), _EXPERTS, _PROBS), A2),
    ("aclnnMoeGatingTopKSoftmax", TILING, (_PROBS, t([5], "BOOL"), K, t([N, K]), _EXPERTS, _EXPERTS), A2),
    (
        "aclnnMoeFusedTopk",
        INVALID,
        (_PROBS, t([E]), None, None, 3, 1, 1, K, 0, False, 1.0, False, t([N, K]), _EXPERTS),
        A2,
    ),
    ("aclnnMoeFusedTopk", NULL, (_PROBS, t([E]), None, None, 2, 1, 1, K, 0, False, 1.0, True, t([N, K]), _EXPERTS), A2),
    # routing maps
    ("aclnnMoeTokenPermuteWithRoutingMap", NULL, (_X, _MAP, _PROBS, 12, False, _COPIES, None, _ROWS), A2),
    ("aclnnMoeTokenPermuteWithRoutingMap", INVALID, (_X, _MAP, None, 25, False, _COPIES, None, _ROWS), A2),
    ("aclnnMoeTokenPermuteWithRoutingMap", INVALID, (_X, _MAP, None, 18, False, _COPIES, None, _ROWS), A2),
    ("aclnnMoeTokenPermuteWithRoutingMapGrad", NULL, (_COPIES, t([12]), _ROWS, None, E, N, False, _X, _PROBS), A2),
    ("aclnnMoeTokenPermuteWithRoutingMapGrad", INVALID, (_COPIES, t([12]), _ROWS, _MAP, 0, N, False, _X, _PROBS), A2),
    (
        "aclnnMoeTokenUnpermuteWithRoutingMap",
        NULL,
        (_COPIES, _ROWS, _MAP, None, False, None, _X, _ROWS, _ROWS, None),
        A2,
    ),
    # expert parallelism
    ("aclnnMoeTokenPermuteWithEp", TILING, (_X, _EXPERTS, None, (2, 13), 0, False, t([11, H]), _ROWS, None), A2),
    ("aclnnMoeTokenUnpermuteWithEp", TILING, (t([7, H]), _ROWS, t([N, K]), 3, (2, 9), False, None, _X), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


@pytest.mark.parametrize(
    ("mode", "tokens", "scales"),
    [
        (-1, ((12, H), "BF16"), ((0,), "FLOAT")),
        (2, ((12, H), "FLOAT8_E5M2"), ((12, 2), "FLOAT8_E8M0")),
        (9, ((12, H // 2), "FLOAT4_E2M1"), ((12, 1, 2), "FLOAT8_E8M0")),
    ],
)
def test_quantised_copies_on_ascend_950(mode: int, tokens: Any, scales: Any) -> None:
    values = (t([N, H], "BF16"), _EXPERTS, 0, False, mode)
    assert inferred("aclnnMoeTokenPermuteV2", *values, soc=NEW_950) == [tokens, ((12,), "INT32"), scales]
    assert accepted("aclnnMoeTokenPermuteV2", *values, soc=NEW_950) == OK
    assert inferred("aclnnMoeTokenPermuteV2", *values)[0] == ((12, H), "BF16")  # elsewhere the mode is ignored


def test_chips_differ() -> None:
    low = (t([N, H], "BF16"), _EXPERTS, 0, 0, 0, 0, 0, False, t([N * K, H], "BF16"), _ROWS, None, None)
    assert [status("aclnnMoeInitRoutingV2", *low, soc=soc) for soc in (A2, OLD_310P)] == [OK, INVALID]
    wide = (_X, t([N, K], "INT64"), 0, 0, 0, 0, 0, False, _COPIES, _ROWS, None, None)
    assert [status("aclnnMoeInitRoutingV2", *wide, soc=soc) for soc in (A2, NEW_950)] == [INVALID, OK]


def test_a_refusal_names_the_range() -> None:
    wrong = (_X, _EXPERTS, None, (0, 99), 0, False, _COPIES, _ROWS, None)
    assert detail("aclnnMoeTokenPermuteWithEp", *wrong) == "range is (0, 99); end is 99; it must be in [0, 12 (copies)]"
