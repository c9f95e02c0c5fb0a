"""Rules of recurrent layers: weights by layer and direction, what training keeps, statuses, what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import NEW_950, accepted, detail, inferred, status, t

OK, NULL, INVALID = 0, 161001, 161002
T, B, F, H = 5, 2, 3, 4  # steps, batch, input features, hidden features


def weights(gates: int, layers: int = 1, directions: int = 1, bias: bool = True) -> list[Any]:
    """Parameters in PyTorch's order: for every layer and direction w_ih, w_hh, b_ih, b_hh."""
    made = []
    for layer in range(layers):
        for _ in range(directions):
            made += [t([gates * H, F if layer == 0 else H * directions]), t([gates * H, H])]
            made += [t([gates * H])] * 2 if bias else []
    return made


def states(count: int = 1, kinds: int = 2) -> list[Any]:
    return [t([count, B, H])] * kinds


def lstm(**changed: Any) -> tuple[Any, ...]:
    values: dict[str, Any] = {
        "input": t([T, B, F]),
        "params": weights(4),
        "hx": states(),
        "batchSizes": None,
        "hasBias": True,
        "numLayers": 1,
        "dropout": 0.0,
        "train": False,
        "bidirectional": False,
        "batchFirst": False,
    }
    return tuple({**values, **changed}.values())


def test_lstm_allocates_outputs_and_states() -> None:
    assert inferred("aclnnLSTM", *lstm())[:3] == [((T, B, H), "FLOAT"), ((1, B, H), "FLOAT"), ((1, B, H), "FLOAT")]
    assert accepted("aclnnLSTM", *lstm()) == OK


def test_lstm_keeps_gates_for_training() -> None:
    made = inferred("aclnnLSTM", *lstm(train=True, numLayers=2, params=weights(4, 2), hx=states(2)))
    assert made[3] == ([(T, B, H)] * 2, "FLOAT")
    assert inferred("aclnnLSTM", *lstm())[3][0] in (None, [])


def test_more_layers_than_parameters_make_no_more_gates() -> None:
    """2**31 - 1 layers would need the machine's memory before they are refused."""
    assert len(inferred("aclnnLSTM", *lstm(train=True, numLayers=10000))[3][0]) <= 4


def test_lstm_in_both_directions_and_batch_first() -> None:
    both = lstm(bidirectional=True, params=weights(4, 1, 2), hx=states(2))
    assert inferred("aclnnLSTM", *both)[:2] == [((T, B, 2 * H), "FLOAT"), ((2, B, H), "FLOAT")]
    first = lstm(batchFirst=True, input=t([B, T, F]))
    assert inferred("aclnnLSTM", *first)[0] == ((B, T, H), "FLOAT")
    assert accepted("aclnnLSTM", *both) == accepted("aclnnLSTM", *first) == OK


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"params": weights(3)}, INVALID),
        ({"params": weights(4)[:3]}, INVALID),
        ({"params": weights(4, bias=False)}, INVALID),
        ({"input": t([T, B, F + 1])}, INVALID),
        ({"input": t([T, F])}, INVALID),
        ({"hx": states(2)}, INVALID),
        ({"input": None}, NULL),
        ({"params": None}, NULL),
    ],
)
def test_lstm_refuses(changed: dict[str, Any], expected: int) -> None:
    made = [
        None if sizes is None else [t(s) for s in sizes] if isinstance(sizes, list) else t(sizes, d)
        for sizes, d in inferred("aclnnLSTM", *lstm())
    ]
    assert status("aclnnLSTM", *lstm(**changed), *made) == expected


def test_gru_has_three_gates_and_one_state() -> None:
    values = (t([T, B, F]), weights(3), t([1, B, H]), None, True, 1, 0.0, False, False, False)
    assert inferred("aclnnGRU", *values, soc=NEW_950)[:2] == [((T, B, H), "FLOAT"), ((1, B, H), "FLOAT")]
    wrong = (t([T, B, F]), weights(4), t([1, B, H]), None, True, 1, 0.0, False, False, False)
    outputs = (t([T, B, H]), t([1, B, H]), None, None, None, None, None)
    assert status("aclnnGRU", *wrong, *outputs) == INVALID


def test_lstm_cell() -> None:
    gates = t([B, 4 * H])
    values = (gates, gates, t([B, H]), None, None)
    assert inferred("aclnnThnnFusedLstmCell", *values) == [((B, H), "FLOAT"), ((B, H), "FLOAT"), ((B, 4 * H), "FLOAT")]
    assert (
        status("aclnnThnnFusedLstmCell", gates, gates, t([B, H + 1]), None, None, t([B, H]), t([B, H]), gates)
        == INVALID
    )


def test_a_refusal_names_the_parameter() -> None:
    assert detail("aclnnLSTM", *lstm(params=None), *[None] * 10).startswith("params is None")
