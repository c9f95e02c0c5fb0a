"""Training runs whose losses equal those of CPU torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, integers, numbers
from torch import nn

STEPS = 6
# Older products multiply matrices of float32 numbers as float16.
HALF_PRODUCTS = os.environ.get("ASCEND_ACLNN_SOC", "").startswith(("Ascend310P", "Ascend910A"))
CLOSE = 1e-3 if HALF_PRODUCTS else 1e-5


class LanguageModel(nn.Module):
    """Every layer the issue of a first model asks for, small."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.first_norm = nn.RMSNorm(16)
        self.up = nn.Linear(16, 32)
        self.second_norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 50, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.second_norm(F.gelu(self.up(self.first_norm(self.embedding(tokens))), approximate="tanh")))


class Transformer(nn.Module):
    """Causal self-attention with residuals and a gated feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(2))
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        batch, length, width = hidden.shape
        heads = self.qkv(self.norms[0](hidden)).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        hidden = hidden + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        inner = self.norms[1](hidden)
        return self.head(hidden + self.down(F.silu(self.gate(inner)) * self.up(inner)))


class ConvolutionalNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, stride=2)
        self.last = nn.Linear(8, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.max_pool2d(F.relu(self.norm(self.first(images))), 2)
        return self.last(F.adaptive_avg_pool2d(F.relu(self.second(hidden)), 1).flatten(1))


class MultiHead(nn.Module):
    """torch's own attention layer, with an LSTM-free encoder around it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(tokens)))


def tokens(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = integers(4, 13, seed=step, low=0, high=50)
    return made[:, :-1], made[:, 1:]


def images(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    return numbers(4, 3, 12, 12, seed=step), integers(4, seed=step, low=0, high=10)


Optimizer = Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "AdamW foreach": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1, foreach=True),
    "AdamW one by one": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1, foreach=False),
    "AdamW fused": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1, fused=True),
    "AdamW amsgrad": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True),
    "Adam": lambda p: torch.optim.Adam(p, 1e-2),
    "SGD momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "SGD nesterov one by one": lambda p: torch.optim.SGD(
        p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=False
    ),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 1e-3),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
}


def train(
    device: str,
    model: Callable[[], nn.Module],
    batch: Callable[[int], Any],
    optimizer: Optimizer,
    clip: float | None = 1.0,
) -> tuple[list[float], list[torch.Tensor]]:
    """Losses and final parameters of a short run; both devices start from the same parameters."""
    torch.manual_seed(3)
    net = model().to(device)
    steps = optimizer(net.parameters())
    losses = []
    for step in range(STEPS):
        inputs, targets = (t.to(device) for t in batch(step % 2))
        logits = net(inputs)
        loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
        steps.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        steps.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in net.parameters()]


def assert_trains_alike(model: Callable[[], nn.Module], batch: Callable[[int], Any], optimizer: Optimizer) -> None:
    wanted, parameters = train("cpu", model, batch, optimizer)
    found, found_parameters = train("npu", model, batch, optimizer)
    assert wanted[-2] < wanted[0]  # on the same batch
    assert found == pytest.approx(wanted, abs=CLOSE)
    for ours, theirs in zip(found_parameters, [] if HALF_PRODUCTS else parameters):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_language_model(optimizer: Optimizer) -> None:
    assert_trains_alike(LanguageModel, tokens, optimizer)


@pytest.mark.parametrize("model", [Transformer, MultiHead])
def test_attention(model: Callable[[], nn.Module]) -> None:
    # Not Adam: the gradient of the keys' bias is 0 but for rounding, and Adam takes steps of full length all the same.
    assert_trains_alike(model, tokens, OPTIMIZERS["SGD momentum"])


def test_convolution() -> None:
    assert_trains_alike(ConvolutionalNet, images, OPTIMIZERS["SGD momentum"])


def test_clipped_norms_are_equal() -> None:
    for device in ("cpu", "npu"):
        parameters = [numbers(3, 4).to(device).requires_grad_(), numbers(5, seed=1).to(device).requires_grad_()]
        for parameter in parameters:
            (parameter**2).sum().backward()
        norm = nn.utils.clip_grad_norm_(parameters, 0.5)
        found = [norm, *(p.grad for p in parameters)]
        if device == "cpu":
            wanted = found
    assert_same(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_mixed_precision(dtype: torch.dtype) -> None:
    """autocast computes the products in low precision; the losses are those of float32 within its rounding."""
    wanted, _ = train("cpu", LanguageModel, tokens, OPTIMIZERS["AdamW foreach"])

    class Autocast(LanguageModel):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            with torch.autocast("npu", dtype):
                assert self.up(self.embedding(inputs)).dtype == dtype
                return super().forward(inputs).float()

    found, _ = train("npu", Autocast, tokens, OPTIMIZERS["AdamW foreach"])
    assert found == pytest.approx(wanted, rel=3e-2)


def test_low_precision_parameters() -> None:
    torch.manual_seed(0)
    net = LanguageModel().to("npu", torch.bfloat16)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    losses = []
    for _ in range(STEPS):
        inputs, targets = (t.npu() for t in tokens(0))
        loss = F.cross_entropy(net(inputs).flatten(0, 1).float(), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_accumulating_gradients_and_saving_a_checkpoint(tmp_path: Any) -> None:
    states = []
    for device in ("cpu", "npu"):
        torch.manual_seed(1)
        net = LanguageModel().to(device)
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        for step in range(2):
            inputs, targets = (t.to(device) for t in tokens(step))
            (F.cross_entropy(net(inputs).flatten(0, 1), targets.flatten()) / 2).backward()
        optimizer.step()
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / device)
        states.append(torch.load(tmp_path / device, map_location="cpu"))
    cpu, npu = states
    assert_same([npu["model"][k] for k in cpu["model"]], list(cpu["model"].values()))
    assert cpu["optimizer"]["state"].keys() == npu["optimizer"]["state"].keys()
