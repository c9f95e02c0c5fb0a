"""Rules of the optimizers: lists that belong together, one-element hyperparameters, statuses."""

from __future__ import annotations

from typing import Any

from rule_tools import A2, NEW_950, OLD, detail, each_case, status, t

OK, NULL, INVALID = 0, 161001, 161002

_P, _ONE, _STEP = t([2, 3]), t([1]), t([1], "INT64")
_RATES = (0.1, 0.9, 0.99, 0.01, 1e-8)


def adamw(params: Any, grads: Any, steps: Any, scale: Any = None) -> tuple[Any, ...]:
    return (params, grads, params, params, params, steps, scale, None, *_RATES, True, False)


def sgd(params: Any, grads: Any, buffers: Any, momentum: float = 0.9) -> tuple[Any, ...]:
    return (params, grads, buffers, None, 0.1, momentum, 0.1, 0.0, False, False, False)


CASES: list[tuple[str, int, tuple[Any, ...], str]] = [
    ("aclnnApplyAdamWV2", OK, (_P, _P, _P, None, _P, _ONE, *_RATES, False, False), A2),
    ("aclnnApplyAdamWV2", OK, (_P, _P, _P, None, _P, _STEP, *_RATES, False, False), A2),
    ("aclnnApplyAdamWV2", INVALID, (_P, _P, _P, None, _P, t([2]), *_RATES, False, False), A2),
    ("aclnnApplyAdamWV2", INVALID, (_P, _P, t([2]), None, _P, _ONE, *_RATES, False, False), A2),
    ("aclnnApplyAdamWV2", INVALID, (_P, _P, _P, None, t([2, 3], "INT32"), _ONE, *_RATES, False, False), A2),
    ("aclnnApplyAdamWV2", NULL, (_P, _P, _P, None, None, _ONE, *_RATES, False, False), A2),
    ("aclnnApplyAdamWV2", NULL, (_P, _P, _P, None, _P, _ONE, *_RATES, True, False), A2),  # amsgrad needs the maxima
    ("aclnnApplyAdamW", INVALID, (_P, _P, _P, *[t([2])] * 7, _P, None, False, False), A2),
    ("aclnnFusedAdamw", OK, adamw([_P, t([4])], [_P, t([4])], [_ONE, _ONE]), NEW_950),
    ("aclnnFusedAdamw", INVALID, adamw([_P, t([4])], [_P], [_ONE, _ONE]), NEW_950),
    ("aclnnFusedAdamw", INVALID, adamw([_P], [t([3, 2])], [_ONE]), NEW_950),
    ("aclnnFusedSgd", OK, sgd([_P], [_P], [_P]), NEW_950),
    ("aclnnFusedSgd", INVALID, sgd([_P], [_P, _P], [_P]), NEW_950),
    ("aclnnFusedSgd", INVALID, sgd([_P], [t([2, 4])], [_P]), NEW_950),
    ("aclnnAdvanceStep", NULL, (None, *[t([2], "INT64")] * 5, 2, 2, 8), A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: tuple[Any, ...], soc: str) -> None:
    assert status(name, *values, soc=soc) == expected, detail(name, *values, soc=soc)


def test_a_refusal_names_the_tensor() -> None:
    text = detail("aclnnApplyAdamWV2", _P, _P, t([2]), None, _P, _ONE, *_RATES, False, False)
    assert text.startswith("v has shape (2,)")


def test_chips_differ() -> None:
    low = t([2], "BF16")
    assert status("aclnnApplyAdamWV2", low, low, low, None, low, _ONE, *_RATES, False, False) == OK
    assert status("aclnnApplyAdamWV2", low, low, low, None, low, _ONE, *_RATES, False, False, soc=OLD) != OK
