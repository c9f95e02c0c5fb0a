"""What torch_npu runs as a single operator by its type name, against the same in CPU torch or its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from comparing import assert_same, numbers
from torch import nn

# ------------------------------------------------------------------------------------------------------------- recurrence


def run_layer(layer: nn.Module, device: str, *inputs: Any) -> tuple[Any, ...]:
    """Outputs, and the gradients of everything for fixed gradients of all outputs."""
    layer = layer.to(device)
    held = [t.detach().to(device).requires_grad_() for t in inputs]
    x, *state = held
    y, last = layer(x, tuple(state) if len(state) > 1 else state[0])
    outputs = [y, *(last if isinstance(last, tuple) else (last,))]
    weights = [torch.linspace(-1, 1, t.numel()).reshape(t.shape).to(device) for t in outputs]
    grads = torch.autograd.grad(outputs, [*held, *layer.parameters()], weights)
    return outputs, [g.cpu() for g in grads]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU], ids=["lstm", "gru"])
@pytest.mark.parametrize(
    ("layers", "bidirectional", "bias", "batch_first"),
    [(1, False, True, False), (2, False, True, True), (1, True, True, False), (1, False, False, False)],
)
def test_layers_and_their_gradients(kind: Any, layers: int, bidirectional: bool, bias: bool, batch_first: bool) -> None:
    torch.manual_seed(0)
    layer = kind(5, 4, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional)
    directions = layers * (2 if bidirectional else 1)
    x = numbers(2, 3, 5) if batch_first else numbers(3, 2, 5)
    states = [numbers(directions, 2, 4, seed=s) for s in range(2 if kind is nn.LSTM else 1)]
    wanted = run_layer(layer, "cpu", x, *states)
    assert_same(run_layer(layer, "npu", x, *states), wanted)


def test_a_cell_and_its_gradients() -> None:
    torch.manual_seed(0)
    cell = nn.LSTMCell(5, 4)
    results = []
    for device in ("cpu", "npu"):
        cell = cell.to(device)
        held = [t.to(device).requires_grad_() for t in (numbers(2, 5), numbers(2, 4), numbers(2, 4, seed=1))]
        outputs = cell(held[0], (held[1], held[2]))
        results.append((outputs, torch.autograd.grad([t.square().sum() for t in outputs], [*held, *cell.parameters()])))
    assert_same(results[1], results[0])


# ------------------------------------------------------------------------------------------------------------------ boxes


def corners(boxes: torch.Tensor) -> torch.Tensor:
    return torch.cat([boxes[:2] - boxes[2:] / 2, boxes[:2] + boxes[2:] / 2])


def overlaps(kind: str, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Of centres and sizes (4, n), side by side; torch differentiates it."""
    a, b = corners(first), corners(second)
    shared = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod(0)
    union = first[2:].prod(0) + second[2:].prod(0) - shared
    enclosing = torch.maximum(a[2:], b[2:]) - torch.minimum(a[:2], b[:2])
    overlap = shared / union
    if kind == "giou":
        return overlap - (enclosing.prod(0) - union) / enclosing.prod(0)
    overlap = overlap - (first[:2] - second[:2]).square().sum(0) / enclosing.square().sum(0)
    if kind == "ciou":
        v = 4 / torch.pi**2 * (torch.atan(second[2] / second[3]) - torch.atan(first[2] / first[3])) ** 2
        overlap = overlap - (v / (1 - shared / union + v)).detach() * v
    return overlap


@pytest.mark.parametrize("kind", ["giou", "diou", "ciou"])
def test_overlaps_of_boxes_and_their_gradients(kind: str) -> None:
    boxes, truth = (
        torch.cat([numbers(2, 20, seed=s, low=0, high=8), numbers(2, 20, seed=s, low=2, high=6)]) for s in range(2)
    )
    ours, theirs = ([t.to(d).requires_grad_() for t in (boxes, truth)] for d in ("npu", "cpu"))
    options = {"trans": True, "is_cross": False}
    found = getattr(torch_npu, f"npu_{kind}")(*ours, **options).reshape(-1)
    wanted = overlaps(kind, *theirs)
    assert_same(found, wanted)
    weight = torch.linspace(-1, 1, 20)
    assert_same(torch.autograd.grad(found, ours, weight.npu()), torch.autograd.grad(wanted, theirs, weight))


def test_encoding_and_decoding_boxes() -> None:
    start, size = numbers(6, 2, low=0, high=20), numbers(6, 2, low=3, high=9, seed=1)
    anchors = torch.cat([start, start + size], 1)
    truth = anchors + numbers(6, 4, seed=2, low=-1, high=1)
    means, stds = (0.1, 0.0, 0.2, 0.0), (0.5, 1.0, 1.0, 0.25)
    deltas = torch_npu.npu_bounding_box_encode(anchors.npu(), truth.npu(), *means, *stds)
    wide, true_wide = anchors[:, 2:] - anchors[:, :2] + 1, truth[:, 2:] - truth[:, :2] + 1
    moved = ((truth[:, :2] + truth[:, 2:]) - (anchors[:, :2] + anchors[:, 2:])) / 2 / wide
    expected = (torch.cat([moved, (true_wide / wide).log()], 1) - torch.tensor(means)) / torch.tensor(stds)
    torch.testing.assert_close(deltas.cpu(), expected, rtol=1e-2, atol=2e-2)  # the kernel works in FLOAT16
    back = torch_npu.npu_bounding_box_decode(anchors.npu(), expected.npu(), *means, *stds, (1000, 1000), 0.016)
    assert_same(back, truth.clamp(min=0))
    clipped = torch_npu.npu_bounding_box_decode(anchors.npu(), deltas, *means, *stds, (10, 12), 0.016).cpu()
    assert clipped.max(0).values.tolist() == [11, 9, 11, 9]


def test_encoding_boxes_as_documented() -> None:
    """The example of npu_bounding_box_encode's document: FLOAT boxes, but what FLOAT16 makes of them."""
    anchors = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]])
    truth = torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]])
    found = torch_npu.npu_bounding_box_encode(anchors.npu(), truth.npu(), 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2)
    wanted = torch.tensor([[13.328125, 13.328125, 0, 0], [13.328125, 6.6640625, 0, torch.nan]])
    torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=0, equal_nan=True)


def test_encoding_boxes_for_a_grid() -> None:
    anchors, truth = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([[3.0, 3, 8, 23]])
    found = torch_npu.npu_yolo_boxes_encode(anchors.npu(), truth.npu(), torch.tensor([16], dtype=torch.int32).npu())
    assert_same(found, torch.tensor([[0.5 + 0.5 / 16, 1 - 1e-6, 0, 0]]).where(
        torch.tensor([True, True, False, False]), torch.log(torch.tensor([[1, 1, 0.5, 2.0]]))
    ))  # fmt: skip


def test_anchors_in_charge() -> None:
    truth = torch.tensor([[0.0, 0, 10, 10], [16, 8, 24, 24]])
    flags = torch_npu.npu_anchor_response_flags(truth.npu(), (4, 3), (8, 8), 2).cpu().reshape(4, 3, 2)
    expected = torch.zeros(4, 3, 2, dtype=torch.uint8)
    expected[0, 0] = expected[2, 2] = 1  # the centres are (5, 5) and (20, 16)
    assert_same(flags, expected)


def test_assigning_anchors() -> None:
    overlaps_of = torch.tensor([[0.6, 0.1, 0.3, 0.3], [0.2, 0.4, 0.3, 0.0]])
    flags = torch.tensor([1, 1, 0, 1], dtype=torch.uint8)
    highest, best = overlaps_of.max(0)
    true_highest, true_best = overlaps_of.max(1)
    for every, wanted in ((False, [1.0, 2, 0, 0]), (True, [1.0, 2, 0, 0])):
        found = torch_npu.npu_grid_assign_positive(
            torch.zeros(4).npu(), overlaps_of.npu(), flags.npu(), highest.npu(), best.int().npu(), true_highest.npu(),
            true_best.int().npu(), 2, 0.5, 0.0, every,
        )  # fmt: skip
        assert found.cpu().tolist() == wanted


# ------------------------------------------------------------------------------------------------------------ suppression


def brute_force(boxes: torch.Tensor, limit: float) -> list[int]:
    """Which of boxes in order remain."""
    kept: list[int] = []
    for number, (x1, y1, x2, y2) in enumerate(boxes.tolist()):
        for other in kept:
            u1, v1, u2, v2 = boxes[other].tolist()
            shared = max(min(x2, u2) - max(x1, u1), 0) * max(min(y2, v2) - max(y1, v1), 0)
            if shared / ((x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - shared) > limit:
                break
        else:
            kept.append(number)
    return kept


def some_boxes(count: int) -> torch.Tensor:
    start = numbers(count, 2, low=0, high=20)
    return torch.cat([start, start + numbers(count, 2, low=4, high=12, seed=1)], 1)


def test_suppression() -> None:
    boxes, scores = some_boxes(40), numbers(40, low=0, high=1, seed=3).sort(descending=True).values
    kept = brute_force(boxes, 0.3)
    rows, index, mask = torch_npu.npu_nms_with_mask(torch.cat([boxes, scores[:, None]], 1).npu(), 0.3)
    assert_same(rows, torch.cat([boxes, scores[:, None]], 1))
    assert index.cpu().tolist() == list(range(40))
    assert mask.cpu().nonzero().flatten().tolist() == kept

    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    threshold, least = torch.tensor(0.3).npu(), torch.tensor(0.5).npu()
    chosen, count = torch_npu.npu_nms_v4(boxes[order].npu(), scores[order].npu(), 20, threshold, least)
    expected = [order.tolist().index(k) for k in kept if scores[k] > 0.5][:20]
    assert int(count) == len(expected)
    assert chosen.cpu().tolist()[: len(expected)] == expected


def test_suppression_by_classes() -> None:
    boxes = some_boxes(12).half()
    scores = numbers(12, 2, low=0, high=1).half()
    found = torch_npu.npu_batch_nms(boxes[None, :, None].npu(), scores[None].npu(), 0.3, 0.5, 4, 6)
    rows = []
    for group in range(2):
        order = scores[:, group].argsort(descending=True)
        order = order[scores[order, group] > 0.3]
        kept = brute_force(boxes[order].float(), 0.5)[:4]
        rows += [(float(scores[order[k], group]), group, boxes[order[k]].tolist()) for k in kept]
    rows = sorted(rows, key=lambda row: -row[0])[:6]
    assert int(found[3]) == len(rows)
    for at, (score, group, box) in enumerate(rows):
        assert found[0][0, at].tolist() == box
        assert (float(found[1][0, at]), float(found[2][0, at])) == (score, group)


# ----------------------------------------------------------------------------------------------------------- turned boxes


def test_overlaps_of_turned_boxes() -> None:
    boxes = torch.tensor([[0, 0, 4, 2, 0], [0, 0, 4, 2, 90], [0, 0, 4, 4, 45], [1, 0.5, 3, 2, 30]])
    shared = torch_npu.npu_rotated_overlaps(boxes[None].npu(), boxes[None].npu(), trans=False).cpu()[0]
    # A square of side 4 turned by 45 degrees holds the points with |x| + |y| <= 2 sqrt(2).
    corner = 2 * 2**0.5
    inside = 8 - 4 * max(3 - corner, 0) ** 2 / 2
    exact = torch.tensor([[8, 4, inside], [4, 8, inside], [inside, inside, 16]])
    assert torch.allclose(shared[:3, :3], exact, rtol=1e-5)
    # by counting points of a grid
    step = 0.01
    axis = torch.arange(-4, 4, step) + step / 2
    grid = torch.cartesian_prod(axis, axis)

    def holds(box: torch.Tensor) -> torch.Tensor:
        angle = torch.deg2rad(box[4])
        x, y = (grid - box[:2]).T
        along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
        return (along.abs() < box[2] / 2) & (across.abs() < box[3] / 2)

    counted = torch.tensor([[float((holds(a) & holds(b)).sum()) * step**2 for b in boxes] for a in boxes])
    assert torch.allclose(shared, counted, atol=0.05)
    iou = torch_npu.npu_rotated_iou(boxes[None].npu(), boxes[None].npu(), False, 0, True, 0.0, 0.0).cpu()[0]
    areas = boxes[:, 2] * boxes[:, 3]
    assert torch.allclose(iou, shared / (areas[:, None] + areas - shared), atol=1e-5)


def test_encoding_turned_boxes() -> None:
    anchors = torch.tensor([[[30.69, 32.6], [45.94, 59.88], [44.53, 43.4], [59.88, 70.1], [8, 20.0]]])
    truth = anchors + torch.tensor([1.0, 2, 3, 4, 5]).reshape(1, 5, 1)
    weight = torch.tensor([1.0, 2, 1, 1, 3])
    deltas = torch_npu.npu_rotated_box_encode(anchors.npu(), truth.npu(), weight.npu())
    size, true_size = anchors[:, 2:4] - anchors[:, :2], truth[:, 2:4] - truth[:, :2]
    moved = ((truth[:, :2] + true_size / 2) - (anchors[:, :2] + size / 2)) / size
    turn = torch.tan(torch.deg2rad(truth[:, 4:])) - torch.tan(torch.deg2rad(anchors[:, 4:]))
    expected = torch.cat([moved, (true_size / size).log(), turn], 1) * weight.reshape(1, 5, 1)
    torch.testing.assert_close(deltas.cpu(), expected, rtol=1e-4, atol=1e-5)
    back = torch_npu.npu_rotated_box_decode(anchors.npu(), deltas, weight.npu())
    torch.testing.assert_close(back.cpu(), truth, rtol=1e-4, atol=1e-4)


# ----------------------------------------------------------------------------------------------------------- convolutions


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_and_their_gradients(groups: int) -> None:
    x, weight, bias = numbers(2, 4, 7, 6), numbers(6, 4 // groups, 3, 2), numbers(6)
    results = []
    for device in ("cpu", "npu"):
        held = [t.to(device).requires_grad_() for t in (x, weight, bias)]
        if device == "npu":
            y = torch_npu.npu_convolution(*held, [2, 1], [1, 1], [1, 1], groups)
        else:
            y = F.conv2d(*held, (2, 1), (1, 1), (1, 1), groups)
        results.append((y, torch.autograd.grad(y.square().sum(), held)))
    assert_same(results[1], results[0])


def test_transposed_and_three_dimensional_convolutions() -> None:
    x, weight = numbers(2, 4, 5, 6), numbers(4, 3, 3, 3)
    found = torch_npu.npu_conv_transpose2d(x.npu(), weight.npu(), None, [1, 1], [1, 0], [2, 2], [1, 1], 1)
    assert_same(found, F.conv_transpose2d(x, weight, None, 2, (1, 1), (1, 0)))
    volume, weight = numbers(1, 2, 4, 5, 6), numbers(3, 2, 2, 3, 3)
    found = torch_npu.npu_conv3d(volume.npu(), weight.npu(), None, [1, 1, 1], [0, 1, 1], [1, 1, 1], 1)
    assert_same(found, F.conv3d(volume, weight, None, 1, (0, 1, 1)))


# -------------------------------------------------------------------------------------------------------------- attention


def attend(query: Any, key: Any, value: Any, mask: Any) -> Any:
    weights = torch.softmax(query.float() @ key.float().mT * 0.25 + mask.float(), -1)
    y = (weights @ value.float()).half()
    return y.permute(0, 2, 1, 3).reshape(y.shape[0] * y.shape[2], -1)


def test_fused_attention_and_its_gradients() -> None:
    inputs = [numbers(2, 3, 16, 16, seed=s).half() for s in range(3)]
    mask = numbers(2, 3, 16, 16, seed=4).half()
    results = []
    for device in ("cpu", "npu"):
        held = [t.to(device).requires_grad_() for t in inputs]
        if device == "npu":
            y = torch_npu.npu_fused_attention_score(*held, mask.npu(), 0.25, 1.0)
        else:
            y = attend(*held, mask)
        weight = torch.linspace(-1, 1, y.numel()).reshape(y.shape).half().to(device)
        results.append((y, torch.autograd.grad(y, held, weight)))
    (wanted, wanted_grads), (found, found_grads) = results
    assert_same(found, wanted)
    for ours, theirs in zip(found_grads, wanted_grads):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-2, atol=1e-2)


def test_softmax_with_dropout() -> None:
    x1, x2 = numbers(4, 8, 32), numbers(4, 8, 32, seed=1)
    mask, plain, _ = torch_npu.npu_dropout_with_add_softmax(x2.npu(), x1.npu(), 0.5, 0.25, -1)
    softmax = torch.softmax(x1 + 0.5 * x2, -1)
    assert_same(plain, softmax)
    torch.npu.synchronize()  # the mask is made on another stream, which the function does not wait for
    kept = mask.cpu()[: softmax.numel()].reshape(softmax.shape) != 0
    assert 0.65 < kept.float().mean() < 0.85
    dy = numbers(4, 8, 32, seed=2)
    found, _ = torch_npu.npu_dropout_with_add_softmax_backward(dy.npu(), mask, plain, 0.5, 0.25, -1)
    slope = torch.where(kept, dy / 0.75, torch.zeros(()))
    assert_same(found, 0.5 * softmax * (slope - (slope * softmax).sum(-1, keepdim=True)))


def test_layer_norm_with_three_products() -> None:
    x, weights = numbers(32, 64).half(), [numbers(64, 64, seed=s).half() / 8 for s in range(1, 4)]
    gamma, beta, bias = numbers(64, seed=5).half(), numbers(64, seed=6).half(), numbers(64, seed=7).half()
    found = torch_npu.npu_fused_attention_layernorm_qkv_fwd(
        x.npu(), *(w.npu() for w in weights), gamma.npu(), beta.npu(), bias.npu(), bias.npu(), bias.npu(), 16, 4, 1e-5
    )
    norm = F.layer_norm(x.float(), (64,), gamma.float(), beta.float())
    torch.testing.assert_close(found[0].cpu(), norm.half(), rtol=2e-3, atol=2e-3)
    for ours, weight in zip(found[1:4], weights):
        expected = (norm @ weight.float() + bias.float()).reshape(2, 16, 4, 16).permute(0, 2, 1, 3)
        torch.testing.assert_close(ours.cpu(), expected.half(), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(found[4].cpu().float(), x.float().mean(1), rtol=2e-3, atol=2e-3)


# ----------------------------------------------------------------------------------------------------------------- others


def test_a_step_of_bert_adam() -> None:
    var, m, v, grad = (numbers(4, 8, seed=s, low=0.1) for s in range(4))
    ours = torch_npu.npu_bert_apply_adam(
        0.1, 0.9, 0.99, 1e-6, grad.npu(), 1.0, 4.0, 0.01, out=(var.npu(), m.npu(), v.npu())
    )
    small = grad / 4
    new_m, new_v = 0.9 * m + 0.1 * small, 0.99 * v + 0.01 * small**2
    assert_same(ours, (var - 0.1 * (new_m / (new_v.sqrt() + 1e-6) + 0.01 * var), new_m, new_v))


def test_filling_ranges() -> None:
    x = numbers(3, 4, 10)
    start, end = torch.tensor([[1, 2, 3]], dtype=torch.int32), torch.tensor([[4, 6, 3]], dtype=torch.int32)
    found = torch_npu.npu_masked_fill_range(x.npu(), start.npu(), end.npu(), torch.tensor([7.0]).npu(), 2)
    expected = x.clone()
    expected[0, :, 1:4] = expected[1, :, 2:6] = 7
    assert_same(found, expected)


def test_scattering_at_an_axis() -> None:
    x, indices, updates = torch.zeros(3, 4), torch.tensor([1, 0, 3], dtype=torch.int32), torch.tensor([1.0, 2, 3])
    found = torch_npu.npu_scatter(x.npu(), indices.npu(), updates.npu(), 1)
    assert_same(found, x.scatter(1, indices[:, None].long(), updates[:, None]))


def test_normalising_batches_of_several_lengths() -> None:
    x, lengths = numbers(2, 3, 8), torch.tensor([8, 5], dtype=torch.int32)
    found = torch_npu.npu_normalize_batch(x.npu(), lengths.npu(), normalize_type=0).cpu()
    for sample, length in enumerate(lengths.tolist()):
        own = x[sample, :, :length]  # the steps behind it are moved and scaled alike
        expected = (x[sample] - own.mean(1, keepdim=True)) / (own.std(1, keepdim=True) + 1e-5)
        torch.testing.assert_close(found[sample], expected)


def test_adding_blocks_of_channels() -> None:
    x1, x2 = numbers(2, 32, 3, 3), numbers(2, 48, 3, 3, seed=1)
    found = torch_npu.npu_stride_add(x1.npu(), x2.npu(), 0, 1, 1)
    assert_same(found, x1[:, :16] + x2[:, 16:32])


def test_no_overflow_is_reported() -> None:
    status = torch_npu.npu_alloc_float_status(torch.ones(1).npu())
    assert not torch_npu.npu_get_float_status(status).cpu().any()
    torch_npu.npu_clear_float_status(status)


def test_layer_norm_without_training() -> None:
    x, weight, bias = numbers(3, 4, 6), numbers(6, seed=1), numbers(6, seed=2)
    found = torch_npu.npu_layer_norm_eval(x.npu(), (6,), weight.npu(), bias.npu(), 1e-5)
    assert_same(found, F.layer_norm(x, (6,), weight, bias))


def test_choosing_at_random() -> None:
    x = torch.rand(6, 5, generator=torch.Generator().manual_seed(0)) > 0.5
    places, mask = (t.cpu() for t in torch_npu.npu_random_choice_with_mask(x.npu(), 40, 1, 2))
    chosen = places[mask].tolist()
    assert sorted(chosen) == x.nonzero().tolist()
    assert int(mask.sum()) == int(x.sum())

    labels = torch.tensor([-1, 1, 1, 0, 0, 1, 0, -1, 0], dtype=torch.int32)
    kept = torch_npu.npu_sub_sample(labels.npu(), 4, 0.5).cpu()
    assert [(kept == value).sum().item() for value in (1, 0, -1)] == [2, 2, 5]
    assert torch.equal(kept[kept != -1], labels[kept != -1])


def test_the_gradient_of_ctc_loss() -> None:
    x = numbers(8, 2, 5)
    targets, lengths = torch.tensor([[1, 2, 3], [4, 1, 0]]), torch.tensor([3, 2])
    results = []
    torch.npu.set_compile_mode(jit_compile=True)
    try:
        for device in ("cpu", "npu"):
            held = x.to(device).requires_grad_()
            steps, sizes = torch.tensor([8, 7]).to(device), lengths.to(device)
            loss = F.ctc_loss(held.log_softmax(-1), targets.to(device), steps, sizes)
            results.append((loss, torch.autograd.grad(loss, held)))
    finally:
        torch.npu.set_compile_mode(jit_compile=False)
    assert_same(results[1], results[0])


@pytest.mark.parametrize("layout", [3, 4, 32, 33], ids=["NC1HWC0", "FRACTAL_Z", "NDC1HWC0", "FRACTAL_Z_3D"])
def test_storage_in_blocks(layout: int) -> None:
    """By Identity; the copy to the host takes the blocks apart."""
    x = numbers(2, 20, *((3, 4) if layout < 32 else (2, 3, 4))).half()
    torch.npu.config.allow_internal_format = True
    try:
        y = torch_npu.npu_format_cast(x.npu(), layout)
        assert torch_npu.get_npu_format(y) == layout and torch.equal(y.cpu(), x)
    finally:
        torch.npu.config.allow_internal_format = False
