"""References of recurrent layers against torch's layers and gradients in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_aclnn as acl
from ascend_aclnn import AclError, catalog, ops, reference

torch = pytest.importorskip(
    "torch", reason="torch's layers are the oracle; without them recurrent layers are not tested"
)
from torch_tools import check, tensor  # noqa: E402 (it imports torch)

ASCEND_950 = "Ascend950PR_9599"
T, B, F, H = 5, 3, 4, 6  # steps, batch, input features, hidden features
LAYERS = pytest.mark.parametrize(
    ("layers", "both", "bias", "batch_first"),
    [(1, False, True, False), (2, False, False, True), (2, True, True, False)],
)


def direct(name: str, *values: Any) -> Any:
    """The reference itself: these operators are of other products, or want tensors that are called NCL."""
    found = reference.find(catalog.get(f"aclnn{name}"))
    assert found is not None
    return found.function(*values)


class Case:
    """A layer of torch with its weights, an input and first states, all in float64 here and float32 for the operator."""

    def __init__(self, kind: Any, layers: int, both: bool, bias: bool, batch_first: bool) -> None:
        torch.manual_seed(layers)
        self.layer = kind(F, H, layers, bias, batch_first, 0.0, both).double()
        self.params = [p.detach().numpy().astype(np.float32) for p in self.layer.parameters()]
        with torch.no_grad():
            for leaf, value in zip(self.layer.parameters(), self.params):
                leaf.copy_(tensor(value))
        rng = np.random.default_rng(layers)
        self.x = rng.standard_normal((B, T, F) if batch_first else (T, B, F)).astype(np.float32)
        self.cells = layers * (2 if both else 1)
        self.h, self.c = (rng.standard_normal((self.cells, B, H)).astype(np.float32) for _ in range(2))
        self.dy = rng.standard_normal((*self.x.shape[:2], H * (2 if both else 1))).astype(np.float32)
        self.dh, self.dc = (rng.standard_normal(self.h.shape).astype(np.float32) for _ in range(2))


def grad(leaf: Any) -> Any:
    return leaf.grad.numpy()


@LAYERS
def test_lstm(layers: int, both: bool, bias: bool, batch_first: bool) -> None:
    case = Case(torch.nn.LSTM, layers, both, bias, batch_first)
    x, h, c = (tensor(v).requires_grad_() for v in (case.x, case.h, case.c))
    y, (hy, cy) = case.layer(x, (h, c))
    options = (bias, layers, 0.0, True, both, batch_first)
    actual = ops.lstm(case.x, case.params, [case.h, case.c], None, *options)
    for value, wanted in zip(actual[:3], (y, hy, cy)):
        check(value, wanted.detach().numpy(), 3)
    idle = ops.lstm(case.x, case.params, None, None, bias, layers, 0.0, False, both, batch_first)
    check(idle.output, case.layer(x)[0].detach().numpy(), 3)
    assert idle[3] is None

    torch.autograd.backward([y, hy, cy], [tensor(v) for v in (case.dy, case.dh, case.dc)])
    i, j, f, o, hs, cs, tanh_c = actual[3:]
    back = direct(
        "LstmBackward",
        case.x,
        [case.h, case.c],
        case.params,
        case.dy,
        case.dh,
        case.dc,
        i,
        j,
        f,
        o,
        hs,
        cs,
        tanh_c,
        None,
        *options,
        None,
    )
    for value, wanted in zip(back[:3], (x, h, c)):
        check(value, grad(wanted), 20)
    for value, leaf in zip(back[3], case.layer.parameters()):
        check(value, grad(leaf), 20)


def test_lstm_of_several_lengths() -> None:
    """With batch sizes, input and output gradients lie in (steps * batch, ...), filled up after the ends."""
    case = Case(torch.nn.LSTM, 2, True, True, False)
    lengths = [5, 4, 2]
    sizes = np.array([sum(n > t for n in lengths) for t in range(T)], np.int64)
    x, h, c = (tensor(v).requires_grad_() for v in (case.x, case.h, case.c))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
    y, (hy, cy) = case.layer(packed, (h, c))
    y = torch.nn.utils.rnn.pad_packed_sequence(y)[0]
    options = (True, 2, 0.0, True, True, False)
    flat = case.x.reshape(T * B, F)
    actual = ops.lstm(flat, case.params, [case.h, case.c], sizes, *options)
    for value, wanted in zip(actual[:3], (y, hy, cy)):
        check(value, wanted.detach().numpy(), 3)
    torch.autograd.backward([y, hy, cy], [tensor(v) for v in (case.dy, case.dh, case.dc)])
    back = direct(
        "LstmBackward",
        flat,
        [case.h, case.c],
        case.params,
        case.dy.reshape(T * B, 2 * H),
        case.dh,
        case.dc,
        *actual[3:],
        sizes,
        *options,
        None,
    )
    check(back[0].reshape(case.x.shape), grad(x), 20)
    check(back[1], grad(h), 20)
    for value, leaf in zip(back[3], case.layer.parameters()):
        check(value, grad(leaf), 20)
    with pytest.raises(AclError, match="batch_sizes"):
        ops.lstm(flat, case.params, [case.h, case.c], sizes + 1, *options)


@LAYERS
def test_gru(layers: int, both: bool, bias: bool, batch_first: bool) -> None:
    case = Case(torch.nn.GRU, layers, both, bias, batch_first)
    x, h = (tensor(v).requires_grad_() for v in (case.x, case.h))
    y, hy = case.layer(x, h)
    with acl.use_backend("numpy", soc=ASCEND_950):
        actual = ops.gru(case.x, case.params, case.h, None, bias, layers, 0.0, True, both, batch_first)
        for value, wanted in zip(actual[:2], (y, hy)):
            check(value, wanted.detach().numpy(), 3)
        torch.autograd.backward([y, hy], [tensor(v) for v in (case.dy, case.dh)])
        back = ops.gru_backward(
            case.x, case.params, case.h, case.dy, case.dh, *actual[2:], None, bias, layers, both, batch_first
        )
    check(back[0], grad(x), 20)
    check(back[1], grad(h), 20)
    for value, leaf in zip(back[2], case.layer.parameters()):
        check(value, grad(leaf), 20)


@pytest.mark.parametrize("both", [False, True])
def test_lstm_with_weights_one_by_one(both: bool) -> None:
    case = Case(torch.nn.LSTM, 1, both, True, False)
    y, (hy, cy) = case.layer(tensor(case.x), (tensor(case.h), tensor(case.c)))
    weights = (*case.params, *[None] * (8 - len(case.params)))
    made = direct("BidirectionLSTM", case.x, case.h, case.c, *weights, 1, True, False, both)
    for value, wanted in zip(made, (y, hy, cy)):
        check(value, wanted.detach().numpy(), 3)

    lengths = [5, 4, 2]
    packed = torch.nn.utils.rnn.pack_padded_sequence(tensor(case.x), lengths)
    y, (hy, cy) = case.layer(packed, (tensor(case.h), tensor(case.c)))
    sizes = packed.batch_sizes.numpy()
    rows = packed.data.numpy().astype(np.float32)
    made = direct("BidirectionLSTMV2", rows, case.h, case.c, *weights, sizes, 1, True, False, both, True)
    for value, wanted in zip(made, (y.data, hy, cy)):
        check(value, wanted.detach().numpy(), 3)


@pytest.mark.parametrize("bias", [False, True])
def test_lstm_cell(bias: bool) -> None:
    cell = torch.nn.LSTMCell(F, H, bias).double()
    rng = np.random.default_rng(1)
    x, h, c, dh, dc = (rng.standard_normal((B, n)).astype(np.float32) for n in (F, H, H, H, H))
    weights = [p.detach().numpy().astype(np.float32) for p in cell.parameters()]
    with torch.no_grad():
        for leaf, value in zip(cell.parameters(), weights):
            leaf.copy_(tensor(value))
    leaf_c = tensor(c).requires_grad_()
    wanted = cell(tensor(x), (tensor(h), leaf_c))
    biases = weights[2:] if bias else [None, None]
    hy, cy, storage = ops.thnn_fused_lstm_cell(x @ weights[0].T, h @ weights[1].T, c, *biases)
    check(hy, wanted[0].detach().numpy(), 4)
    check(cy, wanted[1].detach().numpy(), 4)
    torch.autograd.backward(list(wanted), [tensor(dh), tensor(dc)])
    gates, d_c, d_bias = ops.thnn_fused_lstm_cell_backward(dh, dc, c, cy, storage, bias)
    check(d_c, grad(leaf_c), 10)
    check(gates.T @ x, grad(cell.weight_ih), 30)
    if bias:
        check(d_bias, grad(cell.bias_ih), 10)


def test_half_precision_is_rounded_at_the_end() -> None:
    case = Case(torch.nn.LSTM, 1, False, True, False)
    half = [v.astype(np.float16) for v in (case.x, case.h, case.c)]
    params = [p.astype(np.float16) for p in case.params]
    options = (True, 1, 0.0, False, False, False)
    actual = ops.lstm(half[0], params, half[1:], None, *options)
    wide = ops.lstm(
        half[0].astype(np.float32),
        [p.astype(np.float32) for p in params],
        [v.astype(np.float32) for v in half[1:]],
        None,
        *options,
    )
    np.testing.assert_array_equal(actual.output, wide.output.astype(np.float16))
