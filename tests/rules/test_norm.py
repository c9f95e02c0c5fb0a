"""Rules of norms: shapes over the normalised axes, optional outputs, masks, products, statuses, what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, NEW_950, OLD, OLD_310P, accepted, detail, each_case, inferred, s, status, t

OK, NULL, INVALID, TILING = 0, 161001, 161002, 561002

_C = t([4])
_X4, _ND4, _STAT = t([2, 4, 3, 3], format="NCHW"), t([2, 4, 3, 3]), t([4])
_EPS = 1e-5

_SILU = (t([2, 128], "FLOAT16"), t([128]), t([128]), 1, _EPS, True, t([2, 128], "FLOAT16"), t([2, 1]), t([2, 1]))
CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    # layer norms
    (
        "aclnnAdaLayerNormBackward",
        OK,
        (
            *(t([2, 6, 5, 6]), t([2, 6, 5, 6]), (6,), t([2, 6, 5, 1]), t([2, 6, 5, 1]), t([2, 6, 6]), t([2, 6, 1, 6])),
            *(None, None, t([2, 6, 5, 6]), t([2, 6, 6]), t([2, 6, 1, 6]), t([6]), t([6])),
        ),
        A2,
    ),
    ("aclnnLayerNorm", OK, (t([2, 3, 4]), (4,), _C, None, _EPS, t([2, 3, 4]), t([2, 3, 1]), t([2, 3, 1])), A2),
    ("aclnnLayerNorm", OK, (t([2, 3, 4]), (4,), None, None, _EPS, t([2, 3, 4]), None, None), A2),
    ("aclnnLayerNorm", INVALID, (t([2, 3, 4]), (3,), None, None, _EPS, t([2, 3, 4]), None, None), A2),
    ("aclnnLayerNorm", INVALID, (t([2, 3, 4]), (), None, None, _EPS, t([2, 3, 4]), None, None), A2),
    ("aclnnLayerNorm", INVALID, (t([2, 3, 4]), (4,), t([3]), None, _EPS, t([2, 3, 4]), None, None), A2),
    ("aclnnLayerNorm", INVALID, (t([2, 4], "BF16"), (4,), None, None, _EPS, t([2, 4], "BF16"), None, None), OLD),
    ("aclnnLayerNorm", NULL, (t([2, 4]), None, None, None, _EPS, t([2, 4]), None, None), A2),
    ("aclnnAddLayerNorm", TILING, (t([2, 4]), t([3, 4]), _C, _C, None, _EPS, True, *[t([2, 4])] * 4), A2),
    # RMS norms
    ("aclnnRmsNorm", OK, (t([2, 3, 4]), _C, _EPS, t([2, 3, 4]), t([2, 3, 1])), A2),
    ("aclnnRmsNorm", INVALID, (t([2, 3, 4]), _C, _EPS, t([2, 3, 4], "FLOAT16"), t([2, 3, 1])), A2),
    ("aclnnAddRmsNorm", INVALID, (t([2, 4]), t([2, 4], "BF16"), _C, _EPS, t([2, 4]), t([2, 1]), t([2, 4])), A2),
    # batch norms
    ("aclnnBatchNorm", OK, (_X4, _C, _C, _C, _C, True, 0.1, _EPS, _X4, _STAT, _STAT), A2),
    ("aclnnBatchNorm", INVALID, (_X4, t([3]), _C, _C, _C, True, 0.1, _EPS, _X4, _STAT, _STAT), A2),
    ("aclnnBatchNorm", INVALID, (t([4]), _C, _C, _C, _C, True, 0.1, _EPS, t([4]), _STAT, _STAT), A2),
    ("aclnnBatchNorm", INVALID, (_X4, _C, _C, _C, _C, True, 0.1, _EPS, t([2, 4, 3, 4]), _STAT, _STAT), A2),
    # group norms
    ("aclnnGroupNorm", OK, (_X4, _C, _C, 2, 4, 9, 2, _EPS, _X4, t([2, 2]), t([2, 2])), A2),
    ("aclnnGroupNorm", INVALID, (_X4, _C, _C, 2, 4, 9, 3, _EPS, _X4, t([2, 3]), t([2, 3])), A2),
    ("aclnnGroupNorm", INVALID, (_X4, _C, _C, 2, 4, 8, 2, _EPS, _X4, t([2, 2]), t([2, 2])), A2),
    ("aclnnGroupNorm", INVALID, (_X4, _C, _C, 2, 4, 9, 2, 0.0, _X4, t([2, 2]), t([2, 2])), A2),
    ("aclnnGroupNormSilu", INVALID, (_X4, _C, _C, 0, _EPS, _X4, t([2, 2]), t([2, 2])), A2),
    ("aclnnGroupNormSiluV2", OK, _SILU, NEW_950),
    ("aclnnGroupNormSiluV2", INVALID, (*_SILU[:-1], t([2, 1], "FLOAT16")), NEW_950),
    # vector norms
    ("aclnnNorm", OK, (t([2, 3]), s(2.0, "FLOAT"), (1,), True, t([2, 1])), A2),
    ("aclnnNorm", INVALID, (t([2, 3]), s(2.0, "FLOAT"), (2,), True, t([2, 1])), A2),
    ("aclnnNorm", INVALID, (t([2, 3]), s(2.0, "FLOAT"), (1,), True, t([2])), A2),
    ("aclnnLinalgVectorNorm", INVALID, (t([2, 3]), s(2.0, "FLOAT"), (1, 1), False, 0, t([2])), A2),
    ("aclnnRenorm", INVALID, (t([2, 3]), s(-1.0, "FLOAT"), 0, s(1.0, "FLOAT"), t([2, 3])), A2),
    ("aclnnRenorm", INVALID, (t([2, 3]), s(1.0, "FLOAT"), 2, s(1.0, "FLOAT"), t([2, 3])), A2),
    ("aclnnRenorm", NULL, (t([2, 3]), None, 0, s(1.0, "FLOAT"), t([2, 3])), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


INFERRED: list[tuple[str, tuple[Any, ...], list[tuple[Any, str]]]] = [
    (
        "aclnnLayerNorm",
        (t([2, 3, 4], "FLOAT16"), (3, 4), None, None, _EPS),
        [((2, 3, 4), "FLOAT16"), ((2, 1, 1), "FLOAT"), ((2, 1, 1), "FLOAT")],
    ),
    (
        "aclnnLayerNormBackward",
        (t([2, 4]), t([2, 4]), (4,), t([2, 1]), t([2, 1]), _C, _C, (True, False, True)),
        [((2, 4), "FLOAT"), (None, ""), ((4,), "FLOAT")],
    ),
    ("aclnnRmsNorm", (t([2, 3, 4], "BF16"), t([3, 4], "BF16"), _EPS), [((2, 3, 4), "BF16"), ((2, 1, 1), "FLOAT")]),
    (
        "aclnnAddRmsNorm",
        (t([2, 4], "BF16"), t([2, 4], "BF16"), t([4], "BF16"), _EPS),
        [((2, 4), "BF16"), ((2, 1), "FLOAT"), ((2, 4), "BF16")],
    ),
    (
        "aclnnAddRmsNormQuant",
        (t([2, 4], "BF16"), t([2, 4], "BF16"), t([4], "BF16"), t([4], "BF16"), None, None, None, -1, _EPS, True),
        [((2, 4), "INT8"), ((2, 4), "INT8"), ((2, 4), "BF16")],
    ),
    (
        "aclnnBatchNorm",
        (_ND4, _C, _C, _C, _C, True, 0.1, _EPS),
        [((2, 4, 3, 3), "FLOAT"), ((4,), "FLOAT"), ((4,), "FLOAT")],
    ),
    (
        "aclnnBatchNormBackward",
        (_ND4, _ND4, _C, None, None, _C, _C, True, _EPS, (True, True, False)),
        [((2, 4, 3, 3), "FLOAT"), ((4,), "FLOAT"), (None, "")],
    ),
    ("aclnnBatchNormReduce", (_X4,), [((4,), "FLOAT"), ((4,), "FLOAT")]),
    (
        "aclnnGroupNorm",
        (_ND4, _C, _C, 2, 4, 9, 2, _EPS),
        [((2, 4, 3, 3), "FLOAT"), ((2, 2), "FLOAT"), ((2, 2), "FLOAT")],
    ),
    ("aclnnGroupNormSilu", (_ND4, _C, _C, 2, _EPS), [((2, 4, 3, 3), "FLOAT"), ((2, 2), "FLOAT"), ((2, 2), "FLOAT")]),
    ("aclnnNorm", (t([2, 3]), s(2.0, "FLOAT"), (), False), [((), "FLOAT")]),
    ("aclnnLinalgVectorNorm", (t([2, 3]), s(2.0, "FLOAT"), (0,), True, 0), [((1, 3), "FLOAT")]),
    ("aclnnRenorm", (t([2, 3], "FLOAT16"), s(2.0, "FLOAT"), 0, s(1.0, "FLOAT")), [((2, 3), "FLOAT16")]),
]


@pytest.mark.parametrize(("name", "values", "expected"), INFERRED, ids=[f"{i}-{c[0]}" for i, c in enumerate(INFERRED)])
def test_what_is_allocated(name: str, values: tuple[Any, ...], expected: list[tuple[Any, str]]) -> None:
    assert inferred(name, *values) == expected
    assert accepted(name, *values) == OK, "its own outputs are refused"


def test_chips_differ() -> None:
    values = (t([2, 4], "BF16"), t([4], "BF16"), _EPS, t([2, 4], "BF16"), t([2, 1]))
    assert [status("aclnnRmsNorm", *values, soc=soc) for soc in (A2, NEW_950)] == [OK, OK]
    assert status("aclnnRmsNorm", *values, soc=OLD_310P) == INVALID


def test_a_refusal_names_the_axes() -> None:
    text = detail("aclnnLayerNorm", t([2, 3, 4]), (3,), None, None, _EPS, t([2, 3, 4]), None, None)
    assert "normalized_shape" in text or "(2, 3, 4)" in text


def test_rms_norm_quant_v3_compares_gamma_and_beta_with_x() -> None:
    def code(gamma: list[int], beta: list[int]) -> int:
        x, scale, rstd = t([2, 64], "FLOAT16"), t([1]), t([2, 1])
        given = (x, t(gamma, "FLOAT16"), scale, None, t(beta, "FLOAT16"), 1e-6, True, True, t([2, 64], "INT8"), rstd)
        return status("aclnnRmsNormQuantV3", *given, soc=NEW_950)

    assert code([64], [64]) == 0
    assert code([32], [32]) == code([64], [32]) == TILING
