"""torch's everyday functions: the same results, shapes and dtypes on the emulated NPU as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from comparing import compare, compare_gradients, integers, numbers

Case = tuple[Callable[..., Any], tuple[Any, ...]]

x = numbers(4, 5)
y = numbers(4, 5, seed=1)
positive = numbers(4, 5, low=0.1, high=3.0)
unit = numbers(4, 5, low=-0.95, high=0.95)
i = integers(4, 5)
j = integers(4, 5, seed=1, low=1, high=6)
mask = integers(4, 5, seed=2, low=0, high=2).bool()
other = integers(4, 5, seed=3, low=0, high=2).bool()
cube = numbers(3, 4, 5)
index = integers(3, low=0, high=4)
matrix = numbers(5, 6, seed=4)

# Elementwise functions of one tensor; also run in half precisions, transposed and on an empty tensor.
UNARY: dict[str, Case] = {
    "abs": (torch.abs, (x,)),
    "neg": (torch.neg, (x,)),
    "exp": (torch.exp, (x,)),
    "exp2": (torch.exp2, (x,)),
    "expm1": (torch.expm1, (x,)),
    "log": (torch.log, (positive,)),
    "log2": (torch.log2, (positive,)),
    "log10": (torch.log10, (positive,)),
    "log1p": (torch.log1p, (positive,)),
    "sqrt": (torch.sqrt, (positive,)),
    "rsqrt": (torch.rsqrt, (positive,)),
    "reciprocal": (torch.reciprocal, (positive,)),
    "square": (torch.square, (x,)),
    "sin": (torch.sin, (x,)),
    "cos": (torch.cos, (x,)),
    "tan": (torch.tan, (unit,)),
    "asin": (torch.asin, (unit,)),
    "acos": (torch.acos, (unit,)),
    "atan": (torch.atan, (x,)),
    "sinh": (torch.sinh, (x,)),
    "cosh": (torch.cosh, (x,)),
    "tanh": (torch.tanh, (x,)),
    "asinh": (torch.asinh, (x,)),
    "acosh": (torch.acosh, (positive + 1.5,)),
    "atanh": (torch.atanh, (unit,)),
    "erf": (torch.erf, (x,)),
    "erfc": (torch.erfc, (x,)),
    "erfinv": (torch.erfinv, (unit,)),
    "sigmoid": (torch.sigmoid, (x,)),
    "floor": (torch.floor, (x,)),
    "ceil": (torch.ceil, (x,)),
    "round": (torch.round, (x,)),
    "trunc": (torch.trunc, (x,)),
    "frac": (torch.frac, (x,)),
    "sign": (torch.sign, (x,)),
    "relu": (torch.relu, (x,)),
    "relu6": (F.relu6, (x * 4,)),
    "leaky_relu": (F.leaky_relu, (x,)),
    "elu": (F.elu, (x,)),
    "selu": (F.selu, (x,)),
    "celu": (F.celu, (x,)),
    "gelu": (lambda t: F.gelu(t, approximate="tanh"), (x,)),  # aclnnGelu is this one, whatever torch asks for
    "silu": (F.silu, (x,)),
    "mish": (F.mish, (x,)),
    "softplus": (F.softplus, (x,)),
    "hardtanh": (F.hardtanh, (x,)),
    "hardsigmoid": (F.hardsigmoid, (x * 3,)),
    "hardswish": (F.hardswish, (x * 3,)),
    "logsigmoid": (F.logsigmoid, (x,)),
    "softsign": (F.softsign, (x,)),
    "clamp": (lambda t: torch.clamp(t, -0.5, 1.0), (x,)),
    "clamp min": (lambda t: t.clamp(min=0.25), (x,)),
    "clamp max": (lambda t: t.clamp(max=0.25), (x,)),
    "pow 2": (lambda t: t**2, (x,)),
    "pow 3": (lambda t: t**3, (x,)),
    "pow 0.5": (lambda t: t**0.5, (positive,)),
    "pow base": (lambda t: 2.0**t, (x,)),
    "plus number": (lambda t: t + 2.5, (x,)),
    "minus number": (lambda t: t - 2.5, (x,)),
    "number minus": (lambda t: 2.5 - t, (x,)),
    "times number": (lambda t: t * 2.5, (x,)),
    "over number": (lambda t: t / 2.5, (x,)),
    "number over": (lambda t: 2.5 / t, (positive,)),
    "floor over number": (lambda t: t // 0.75, (x,)),
    "remainder number": (lambda t: t % 0.75, (x,)),
    "greater than number": (lambda t: t > 0.25, (x,)),
    "less or equal number": (lambda t: t <= 0.25, (x,)),
    "equal number": (lambda t: torch.round(t) == 1, (x,)),
    "not equal number": (lambda t: torch.round(t) != 1, (x,)),
    "isnan": (torch.isnan, (x / (x > 0),)),
    "isinf": (torch.isinf, (x / (x > 0),)),
    "isfinite": (torch.isfinite, (x / (x > 0),)),
    "nan_to_num": (lambda t: torch.nan_to_num(t, 1.0, 2.0, 3.0), (x / (x > 0),)),
    "logical_not": (torch.logical_not, (torch.round(x),)),
    "threshold": (lambda t: F.threshold(t, 0.1, 20.0), (x,)),
    "to int32": (lambda t: (t * 10).int(), (x,)),
    "zeros_like": (torch.zeros_like, (x,)),
    "ones_like": (torch.ones_like, (x,)),
    "full_like": (lambda t: torch.full_like(t, 3.5), (x,)),
}

# Elementwise functions of two tensors; also run in half precisions and broadcast.
BINARY: dict[str, Case] = {
    "add": (torch.add, (x, y)),
    "add alpha": (lambda a, b: torch.add(a, b, alpha=2), (x, y)),
    "sub": (torch.sub, (x, y)),
    "sub alpha": (lambda a, b: torch.sub(a, b, alpha=0.5), (x, y)),
    "rsub": (torch.rsub, (x, y)),
    "mul": (torch.mul, (x, y)),
    "div": (torch.div, (x, positive)),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (x, positive)),
    "div trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), (x, positive)),
    "remainder": (torch.remainder, (x, positive)),
    "fmod": (torch.fmod, (x, positive)),
    "maximum": (torch.maximum, (x, y)),
    "minimum": (torch.minimum, (x, y)),
    "pow": (torch.pow, (positive, y)),
    "atan2": (torch.atan2, (x, y)),
    "logaddexp": (torch.logaddexp, (x, y)),
    "eq": (torch.eq, (torch.round(x), torch.round(y))),
    "ne": (torch.ne, (torch.round(x), torch.round(y))),
    "lt": (torch.lt, (x, y)),
    "le": (torch.le, (x, y)),
    "gt": (torch.gt, (x, y)),
    "ge": (torch.ge, (x, y)),
    "logical_and": (torch.logical_and, (torch.round(x), torch.round(y))),
    "logical_or": (torch.logical_or, (torch.round(x), torch.round(y))),
    "logical_xor": (torch.logical_xor, (torch.round(x), torch.round(y))),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), (x, y)),
    "hypot": (torch.hypot, (x, y)),
    "copysign": (torch.copysign, (x, y)),
    "xlogy": (torch.xlogy, (positive, positive)),
}

# Everything else, by what it does.
OTHERS: dict[str, Case] = {
    # integers and booleans
    "int add": (torch.add, (i, j)),
    "int mul": (torch.mul, (i, j)),
    "int true division": (torch.div, (i, j)),
    "int floor division": (lambda a, b: a // b, (i, j)),
    "int remainder": (torch.remainder, (i, j)),
    "int fmod": (torch.fmod, (i, j)),
    "int abs": (torch.abs, (i,)),
    "int pow": (lambda a: a**2, (i,)),
    "int plus float": (lambda a: a + 0.5, (i,)),
    "int times float tensor": (torch.mul, (i, x)),
    "int32 plus int64": (torch.add, (i.int(), j)),
    "half plus float": (torch.add, (x.half(), y)),
    "bool plus int": (torch.add, (mask, i)),
    "bitwise_and": (torch.bitwise_and, (i, j)),
    "bitwise_or": (torch.bitwise_or, (i, j)),
    "bitwise_xor": (torch.bitwise_xor, (i, j)),
    "bitwise_not": (torch.bitwise_not, (i,)),
    "bool and": (lambda a, b: a & b, (mask, other)),
    "bool or": (lambda a, b: a | b, (mask, other)),
    "bool xor": (lambda a, b: a ^ b, (mask, other)),
    "bool not": (lambda a: ~a, (mask,)),
    "shift left": (lambda a, b: a << b, (i.abs().int(), j.int())),
    "shift right": (lambda a, b: a >> b, ((i * 100).int(), j.int())),
    "int greater": (torch.gt, (i, j)),
    "int clamp": (lambda a: a.clamp(-2, 3), (i,)),
    "int maximum": (torch.maximum, (i, j)),
    # three tensors
    "where": (torch.where, (mask, x, y)),
    "where number": (lambda m, a: torch.where(m, a, 0.0), (mask, x)),
    "masked_fill": (lambda a, m: a.masked_fill(m, -1.5), (x, mask)),
    "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.5), (x, y, positive)),
    "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), (x, y, positive)),
    "lerp tensor": (torch.lerp, (x, y, unit)),
    "clamp tensors": (torch.clamp, (x, y - 1, y + 1)),
    # in place
    "add_": (lambda a, b: a.add_(b), (x, y)),
    "sub_": (lambda a, b: a.sub_(b), (x, y)),
    "mul_": (lambda a, b: a.mul_(b), (x, y)),
    "div_": (lambda a, b: a.div_(b), (x, positive)),
    "add_ number": (lambda a: a.add_(2), (x,)),
    "mul_ number": (lambda a: a.mul_(2), (x,)),
    "div_ number": (lambda a: a.div_(2), (x,)),
    "addcmul_": (lambda a, b, c: a.addcmul_(b, c, value=2), (x, y, positive)),
    "addcdiv_": (lambda a, b, c: a.addcdiv_(b, c, value=2), (x, y, positive)),
    "lerp_": (lambda a, b: a.lerp_(b, 0.25), (x, y)),
    "clamp_": (lambda a: a.clamp_(-1, 1), (x,)),
    "relu_": (lambda a: a.relu_(), (x,)),
    "sigmoid_": (lambda a: a.sigmoid_(), (x,)),
    "tanh_": (lambda a: a.tanh_(), (x,)),
    "exp_": (lambda a: a.exp_(), (x,)),
    "sqrt_": (lambda a: a.sqrt_(), (positive,)),
    "neg_": (lambda a: a.neg_(), (x,)),
    "zero_": (lambda a: a.zero_(), (x,)),
    "fill_": (lambda a: a.fill_(7), (x,)),
    "copy_ with conversion": (lambda a, b: a.copy_(b), (x, i)),
    "copy_ broadcast": (lambda a, b: a.copy_(b), (x, y[0])),
    "masked_fill_": (lambda a, m: a.masked_fill_(m, 9), (x, mask)),
    "view changed in place": (lambda a: a[1:3].mul_(10), (x,)),
    "transposed view changed in place": (lambda a, b: a.t().add_(b), (x, numbers(5, 4))),
    "int add_": (lambda a, b: a.add_(b), (i, j)),
    "bool and_": (lambda a, b: a.logical_and_(b), (mask, other)),
    # reductions
    "sum": (torch.sum, (x,)),
    "sum dim": (lambda a: a.sum(1), (cube,)),
    "sum dims": (lambda a: a.sum((0, 2), keepdim=True), (cube,)),
    "sum int": (torch.sum, (i,)),
    "sum bool": (torch.sum, (mask,)),
    "sum to dtype": (lambda a: a.sum(dtype=torch.float32), (x.half(),)),
    "sum half": (lambda a: a.sum(0), (x.half(),)),
    "mean": (torch.mean, (x,)),
    "mean dim": (lambda a: a.mean(-1, keepdim=True), (cube,)),
    "prod": (torch.prod, (x,)),
    "prod dim": (lambda a: a.prod(1), (cube,)),
    "max": (torch.max, (x,)),
    "min": (torch.min, (x,)),
    "max dim": (lambda a: tuple(a.max(1)), (cube,)),
    "min dim": (lambda a: tuple(a.min(-1, keepdim=True)), (cube,)),
    "amax": (lambda a: a.amax((0, 1)), (cube,)),
    "amin": (lambda a: a.amin(2), (cube,)),
    "aminmax": (lambda a: tuple(torch.aminmax(a)), (cube,)),
    "argmax": (lambda a: a.argmax(1), (cube,)),
    "argmax all": (torch.argmax, (x,)),
    "argmin": (lambda a: a.argmin(0), (cube,)),
    "all": (torch.all, (mask,)),
    "any": (torch.any, (mask,)),
    "all dim": (lambda a: a.all(0), (mask,)),
    "any dim": (lambda a: a.any(1), (mask,)),
    "var": (torch.var, (x,)),
    "var dim": (lambda a: a.var(1, unbiased=False), (cube,)),
    "std": (torch.std, (x,)),
    "std dim": (lambda a: a.std(-1, keepdim=True), (cube,)),
    "var_mean": (lambda a: torch.var_mean(a, 1), (cube,)),
    "norm": (torch.norm, (x,)),
    "norm 1": (lambda a: torch.norm(a, 1, dim=1), (x,)),
    "vector_norm inf": (lambda a: torch.linalg.vector_norm(a, float("inf")), (x,)),
    "logsumexp": (lambda a: a.logsumexp(1), (x,)),
    "count_nonzero": (torch.count_nonzero, (i,)),
    "median": (lambda a: torch.median(a), (x,)),
    "cumsum": (lambda a: a.cumsum(1), (x,)),
    "cumsum int": (lambda a: a.cumsum(0), (i,)),
    "cumprod": (lambda a: a.cumprod(1), (x,)),
    "cummax": (lambda a: tuple(a.cummax(1)), (x,)),
    "cummin": (lambda a: tuple(a.cummin(0)), (x,)),
    "logcumsumexp": (lambda a: a.logcumsumexp(1), (x,)),
    # order
    "sort": (lambda a: tuple(a.sort(1)), (x,)),
    "sort descending": (lambda a: tuple(torch.sort(a, dim=0, descending=True)), (x,)),
    "sort int": (lambda a: a.sort(1).values, (i,)),
    "argsort": (lambda a: a.argsort(1), (x,)),
    "topk": (lambda a: tuple(a.topk(3, dim=1)), (x,)),
    "topk smallest": (lambda a: tuple(a.topk(2, dim=0, largest=False)), (x,)),
    "kthvalue": (lambda a: tuple(a.kthvalue(2, dim=1)), (x,)),
    "searchsorted": (torch.searchsorted, (torch.arange(0.0, 10.0), numbers(7, low=0, high=9))),
    "bucketize": (torch.bucketize, (numbers(7, low=0, high=9), torch.arange(0.0, 10.0))),
    "unique": (lambda a: torch.unique(a), (i,)),
    "unique with counts": (lambda a: torch.unique(a, return_inverse=True, return_counts=True), (i,)),
    "histc": (lambda a: torch.histc(a, 5, -2, 2), (x,)),
    "bincount": (lambda a: torch.bincount(a), (j.flatten(),)),
    # choosing
    "index_select": (lambda a, n: a.index_select(0, n), (x, index)),
    "index_select dim 1": (lambda a, n: torch.index_select(a, 1, n), (cube, index)),
    "gather": (lambda a, n: a.gather(1, n), (x, integers(4, 3, low=0, high=5))),
    "take_along_dim": (lambda a, n: torch.take_along_dim(a, n, 1), (x, integers(4, 2, low=0, high=5))),
    "take": (torch.take, (x, integers(6, low=0, high=20))),
    "scatter": (lambda a, n, s: a.scatter(1, n, s), (x, torch.tensor([[0, 1], [2, 3]]), y)),
    "scatter number": (lambda a, n: a.scatter(1, n, 5.0), (x, torch.tensor([[0, 1], [2, 3]]))),
    "scatter_add": (lambda a, n, s: a.scatter_add(0, n, s), (x, integers(2, 5, low=0, high=4), y)),
    "scatter_reduce": (lambda a, n, s: a.scatter_reduce(0, n, s, "amax"), (x, integers(2, 5, low=0, high=4), y)),
    "index_add": (lambda a, n, s: a.index_add(0, n, s), (x, index, y[:3])),
    "index_copy": (lambda a, n, s: a.index_copy(0, n, s), (x, torch.tensor([2, 0]), y[:2])),
    "index_fill": (lambda a, n: a.index_fill(0, n, 3.0), (x, index)),
    "masked_select": (torch.masked_select, (x, mask)),
    "masked_scatter": (torch.masked_scatter, (x, mask, y)),
    "nonzero": (torch.nonzero, (i,)),
    "nonzero tuple": (lambda a: torch.nonzero(a, as_tuple=True), (mask,)),
    "x[index]": (lambda a, n: a[n], (x, index)),
    "x[index, index]": (lambda a, n, m: a[n, m], (cube, index % 3, index)),
    "x[:, index]": (lambda a, n: a[:, n], (cube, index)),
    "x[mask]": (lambda a, m: a[m], (x, mask)),
    "x[mask] = number": (lambda a, m: a.masked_fill_(m, 0) if False else a.__setitem__(m, 4.5), (x, mask)),
    "x[index] = tensor": (lambda a, n, b: a.__setitem__(n, b), (x, torch.tensor([2, 0]), y[:2])),
    "x[1] = number": (lambda a: a.__setitem__(1, 2.0), (x,)),
    "x[:, ::2] = tensor": (lambda a, b: a.__setitem__((slice(None), slice(None, None, 2)), b), (x, y[:, :3])),
    "index_put_ accumulate": (lambda a, n, b: a.index_put_((n,), b, accumulate=True), (x, torch.tensor([1, 1]), y[:2])),
    "embedding": (F.embedding, (integers(3, 4, low=0, high=5), matrix)),
    "one_hot": (lambda a: F.one_hot(a, 6), (j - 1,)),
    "isin": (torch.isin, (i, j[0])),
    # layout
    "cat": (lambda a, b: torch.cat([a, b], 1), (x, y)),
    "cat of views": (lambda a, b: torch.cat([a.t(), b.t()]), (x, y)),
    "cat of mixed types": (lambda a, b: torch.cat([a, b]), (x, i)),
    "stack": (lambda a, b: torch.stack([a, b], 1), (x, y)),
    "split": (lambda a: a.split(2), (x,)),
    "chunk": (lambda a: a.chunk(3, 1), (x,)),
    "unbind": (lambda a: a.unbind(1), (x,)),
    "permute": (lambda a: a.permute(2, 0, 1).contiguous(), (cube,)),
    "transpose": (lambda a: a.transpose(0, 2) * 1, (cube,)),
    "reshape of a view": (lambda a: a.t().reshape(-1), (x,)),
    "expand": (lambda a: a[:1].expand(4, 5) + 1, (x,)),
    "repeat": (lambda a: a.repeat(2, 3), (x,)),
    "repeat_interleave": (lambda a: a.repeat_interleave(2, 1), (x,)),
    "repeat_interleave counts": (lambda a, n: a.repeat_interleave(n, 0), (x, torch.tensor([1, 0, 2, 3]))),
    "tile": (lambda a: a.tile(2, 2), (x,)),
    "flip": (lambda a: a.flip((0, 1)), (x,)),
    "roll": (lambda a: a.roll((1, -2), (0, 1)), (x,)),
    "rot90": (lambda a: torch.rot90(a), (x,)),
    "pad": (lambda a: F.pad(a, (1, 2, 0, 1), value=3.0), (x,)),
    "pad reflect": (lambda a: F.pad(a, (1, 2), mode="reflect"), (cube,)),
    "pad replicate": (lambda a: F.pad(a, (1, 2), mode="replicate"), (cube,)),
    "pad circular": (lambda a: F.pad(a, (1, 2), mode="circular"), (cube,)),
    "tril": (torch.tril, (x,)),
    "triu": (lambda a: torch.triu(a, 1), (x,)),
    "diag": (torch.diag, (x[0],)),
    "diagonal": (lambda a: a.diagonal() * 1, (x,)),
    "unfold": (lambda a: a.unfold(1, 3, 1) * 1, (x,)),
    "as_strided": (lambda a: torch.as_strided(a, (3, 3), (5, 2), 1) + 1, (x,)),
    "movedim": (lambda a: a.movedim(0, 2) + 1, (cube,)),
    "squeeze": (lambda a: a[:, None].squeeze(1).unsqueeze(0) + 1, (x,)),
    "meshgrid": (lambda a, b: torch.meshgrid(a, b, indexing="ij"), (x[0], y[1])),
    "pixel_shuffle": (lambda a: F.pixel_shuffle(a, 2), (numbers(2, 8, 3, 3),)),
    # products
    "mm": (torch.mm, (x, matrix)),
    "mm of transposed": (lambda a, b: torch.mm(a.t(), b), (numbers(5, 4), matrix)),
    "matmul batch": (torch.matmul, (cube, matrix)),
    "bmm": (torch.bmm, (cube, numbers(3, 5, 2))),
    "baddbmm": (torch.baddbmm, (numbers(3, 4, 2), cube, numbers(3, 5, 2))),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2), (numbers(6), x, matrix)),
    "mv": (torch.mv, (x, y[0])),
    "dot": (torch.dot, (x[0], y[0])),
    "outer": (torch.outer, (x[0], y[1])),
    "addmv": (torch.addmv, (numbers(4), x, y[0])),
    "einsum": (lambda a, b: torch.einsum("bij,kj->bik", a, b), (cube, x)),
    "linear": (F.linear, (cube, numbers(7, 5), numbers(7))),
    "linear without bias": (F.linear, (x, numbers(7, 5))),
    "mm half": (torch.mm, (x.half(), matrix.half())),
    "mm bf16": (torch.mm, (x.bfloat16(), matrix.bfloat16())),
    # neural networks
    "softmax": (lambda a: F.softmax(a, 1), (cube,)),
    "log_softmax": (lambda a: F.log_softmax(a, -1), (cube,)),
    "softmax half": (lambda a: F.softmax(a, -1), (cube.half(),)),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (5,), w, b), (cube, y[0], y[1])),
    "layer_norm plain": (lambda a: F.layer_norm(a, (4, 5)), (cube,)),
    "rms_norm": (lambda a, w: F.rms_norm(a, (5,), w), (cube, y[0])),
    "group_norm": (lambda a, w, b: F.group_norm(a, 2, w, b), (numbers(3, 4, 5, 2), x[:, 0], x[:, 1])),
    "batch_norm evaluation": (
        lambda a, m, v: F.batch_norm(a, m, v),
        (numbers(3, 4, 5, 2), x[:, 0].clone(), positive[:, 1].clone()),
    ),
    "batch_norm training": (
        lambda a, m, v: F.batch_norm(a, m, v, training=True),
        (numbers(3, 4, 5, 2), x[:, 0].clone(), positive[:, 1].clone()),
    ),
    "instance_norm": (lambda a: F.instance_norm(a), (numbers(3, 4, 5, 2),)),
    "normalize": (lambda a: F.normalize(a, dim=1), (x,)),
    "cosine_similarity": (F.cosine_similarity, (x, y)),
    "cdist": (torch.cdist, (x, y)),
    "max_pool2d": (lambda a: F.max_pool2d(a, 2), (numbers(2, 3, 6, 8),)),
    "max_pool2d stride": (lambda a: F.max_pool2d(a, 3, stride=2, padding=1), (numbers(2, 3, 7, 8),)),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 2), (numbers(2, 3, 6, 8),)),
    "avg_pool2d padding": (lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), (numbers(2, 3, 7, 8),)),
    "avg_pool1d": (lambda a: F.avg_pool1d(a, 2), (numbers(2, 3, 6),)),
    "adaptive_avg_pool2d": (lambda a: F.adaptive_avg_pool2d(a, (3, 4)), (numbers(2, 3, 7, 9),)),
    "adaptive_avg_pool2d one": (lambda a: F.adaptive_avg_pool2d(a, 1), (numbers(2, 3, 7, 9),)),
    "adaptive_max_pool2d": (lambda a: F.adaptive_max_pool2d(a, (2, 2)), (numbers(2, 3, 6, 8),)),
    "conv1d": (F.conv1d, (numbers(2, 3, 8), numbers(4, 3, 3), numbers(4))),
    "conv2d": (lambda a, w, b: F.conv2d(a, w, b, padding=1), (numbers(2, 3, 6, 8), numbers(4, 3, 3, 3), numbers(4))),
    "conv2d stride dilation": (
        lambda a, w: F.conv2d(a, w, stride=2, padding=2, dilation=2),
        (numbers(2, 3, 9, 9), numbers(4, 3, 3, 3)),
    ),
    "conv2d groups": (lambda a, w: F.conv2d(a, w, groups=2), (numbers(2, 4, 6, 6), numbers(6, 2, 3, 3))),
    "conv_transpose2d": (lambda a, w: F.conv_transpose2d(a, w, stride=2), (numbers(2, 3, 5, 5), numbers(3, 4, 3, 3))),
    "conv3d": (F.conv3d, (numbers(1, 2, 4, 5, 5), numbers(3, 2, 2, 3, 3))),
    "interpolate nearest": (lambda a: F.interpolate(a, scale_factor=2), (numbers(2, 3, 4, 5),)),
    "interpolate bilinear": (
        lambda a: F.interpolate(a, size=(7, 9), mode="bilinear", align_corners=False),
        (numbers(2, 3, 4, 5),),
    ),
    "interpolate bicubic": (lambda a: F.interpolate(a, size=(7, 9), mode="bicubic"), (numbers(2, 3, 4, 5),)),
    "interpolate linear": (lambda a: F.interpolate(a, size=9, mode="linear"), (numbers(2, 3, 5),)),
    "fold": (lambda a: F.fold(F.unfold(a, 2), (4, 5), 2), (numbers(2, 3, 4, 5),)),
    "glu": (lambda a: F.glu(a, -1), (numbers(4, 6),)),
    "prelu": (F.prelu, (x, numbers(1))),
    "scaled_dot_product_attention": (
        F.scaled_dot_product_attention,
        (numbers(2, 2, 4, 8), numbers(2, 2, 6, 8, seed=1), numbers(2, 2, 6, 8, seed=2)),
    ),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (numbers(2, 2, 4, 8), numbers(2, 2, 4, 8, seed=1), numbers(2, 2, 4, 8, seed=2)),
    ),
    "dropout evaluation": (lambda a: F.dropout(a, 0.5, training=False), (x,)),
    "cross_entropy": (F.cross_entropy, (x, index.repeat(2)[:4])),
    "cross_entropy smoothed": (lambda a, t: F.cross_entropy(a, t, label_smoothing=0.1), (x, index.repeat(2)[:4])),
    "nll_loss weights": (lambda a, t, w: F.nll_loss(a, t, w), (x, index.repeat(2)[:4], positive[0])),
    "mse_loss": (F.mse_loss, (x, y)),
    "l1_loss": (F.l1_loss, (x, y)),
    "smooth_l1_loss": (F.smooth_l1_loss, (x, y)),
    "huber_loss": (F.huber_loss, (x, y)),
    "kl_div": (lambda a, b: F.kl_div(a, b, reduction="batchmean"), (x, F.softmax(y, 1))),
    "binary_cross_entropy": (F.binary_cross_entropy, (positive / 4, (positive / 4).flip(0))),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, (x, (positive / 4))),
    "soft_margin_loss": (F.soft_margin_loss, (x, torch.sign(y))),
    "cosine_embedding_loss": (F.cosine_embedding_loss, (x, y, torch.tensor([1, -1, 1, -1]))),
    # creation
    "arange": (lambda a: torch.arange(3, 20, 4, device=a.device), (x,)),
    "arange float": (lambda a: torch.arange(0.0, 1.0, 0.125, device=a.device), (x,)),
    "linspace": (lambda a: torch.linspace(-1, 1, 9, device=a.device), (x,)),
    "eye": (lambda a: torch.eye(3, 4, device=a.device), (x,)),
    "full": (lambda a: torch.full((2, 3), 1.5, device=a.device), (x,)),
    "zeros bool": (lambda a: torch.zeros(3, dtype=torch.bool, device=a.device), (x,)),
    "tensor": (lambda a: torch.tensor([[1, 2], [3, 4]], device=a.device) * 2, (x,)),
    "new_tensor": (lambda a: a.new_full((2,), 4) + a.new_zeros(2), (x,)),
    "tril_indices": (lambda a: torch.tril_indices(3, 3, device=a.device), (x,)),
    # comparison of whole tensors
    "equal": (lambda a, b: torch.equal(a, b), (x, x.clone())),
    "allclose": (lambda a, b: torch.allclose(a, b), (x, x + 1e-9)),
    "isclose": (torch.isclose, (x, x + 1e-9)),
    # many tensors at once
    "foreach_add": (lambda a, b: torch._foreach_add([a, b], 1.5), (x, y)),
    "foreach_add lists": (lambda a, b: torch._foreach_add([a, b], [b, a], alpha=2), (x, y)),
    "foreach_mul_": (lambda a, b: torch._foreach_mul_([a, b], 2.0), (x, y)),
    "foreach_sqrt": (lambda a, b: torch._foreach_sqrt([a, b]), (positive, positive)),
    "foreach_norm": (lambda a, b: torch._foreach_norm([a, b]), (x, y)),
    "foreach_addcdiv_": (lambda a, b: torch._foreach_addcdiv_([a], [b], [b], value=2.0), (x, positive)),
    "foreach_lerp_": (lambda a, b: torch._foreach_lerp_([a], [b], 0.5), (x, y)),
    "foreach_zero_": (lambda a, b: torch._foreach_zero_([a, b]), (x, y)),
    # awkward operands
    "0-d": (lambda a: a[0, 0] * 2 + a[1, 1], (x,)),
    "0-d times tensor": (lambda a, s: a * s, (x, torch.tensor(2.5))),
    "empty add": (lambda a: a[:0] + 1, (x,)),
    "empty sum": (lambda a: a[:0].sum(0), (x,)),
    "empty cat": (lambda a: torch.cat([a[:0], a]), (x,)),
    "strided operands": (lambda a, b: a[::2, 1:] * b.t()[1:, ::2].t(), (x, y)),
    "negative strides by flip": (lambda a: a.flip(1)[:, 1:] + a[:, :-1], (x,)),
    "many dimensions": (lambda a: a.sum((1, 3, 5)), (numbers(2, 3, 2, 3, 2, 3),)),
    "complex multiply": (torch.mul, (torch.complex(x, y), torch.complex(y, x))),
    "real and imaginary": (lambda a: torch.view_as_real(a)[..., 0] + 1, (torch.complex(x, y),)),
}

GRADIENTS: dict[str, Case] = {
    "add": (torch.add, (x, y)),
    "mul broadcast": (torch.mul, (cube, y[0])),
    "div": (torch.div, (x, positive)),
    "pow": (lambda a: a**3, (x,)),
    "exp": (torch.exp, (x,)),
    "log": (torch.log, (positive,)),
    "sqrt": (torch.sqrt, (positive,)),
    "rsqrt": (torch.rsqrt, (positive,)),
    "sin": (torch.sin, (x,)),
    "tanh": (torch.tanh, (x,)),
    "sigmoid": (torch.sigmoid, (x,)),
    "relu": (torch.relu, (x,)),
    "gelu": (lambda t: F.gelu(t, approximate="tanh"), (x,)),  # aclnnGelu is this one, whatever torch asks for
    "silu": (F.silu, (x,)),
    "leaky_relu": (F.leaky_relu, (x,)),
    "elu": (F.elu, (x,)),
    "softplus": (F.softplus, (x,)),
    "hardswish": (F.hardswish, (x * 2,)),
    "hardtanh": (F.hardtanh, (x,)),
    "hardsigmoid": (F.hardsigmoid, (x * 3,)),
    "mish": (F.mish, (x,)),
    "logsigmoid": (F.logsigmoid, (x,)),
    "glu": (lambda a: F.glu(a, -1), (numbers(4, 6),)),
    "clamp": (lambda a: a.clamp(-0.5, 0.5), (x,)),
    "abs": (torch.abs, (x,)),
    "where": (lambda a, b: torch.where(a > b, a, b), (x, y)),
    "maximum": (torch.maximum, (x, y)),
    "sum": (lambda a: a.sum(1), (cube,)),
    "mean": (lambda a: a.mean((0, 2)), (cube,)),
    "max dim": (lambda a: a.max(1).values, (cube,)),
    "amax": (lambda a: a.amax(2), (cube,)),
    "var": (lambda a: a.var(1), (cube,)),
    "norm": (lambda a: a.norm(dim=1), (x,)),
    "prod": (lambda a: a.prod(1), (x,)),
    "cumsum": (lambda a: a.cumsum(1), (x,)),
    "logsumexp": (lambda a: a.logsumexp(1), (x,)),
    "mm": (torch.mm, (x, matrix)),
    "bmm": (torch.bmm, (cube, numbers(3, 5, 2))),
    "matmul broadcast": (torch.matmul, (cube, matrix)),
    "linear": (F.linear, (cube, numbers(7, 5), numbers(7))),
    "addmm": (torch.addmm, (numbers(6), x, matrix)),
    "einsum": (lambda a, b: torch.einsum("bij,kj->bik", a, b), (cube, x)),
    "embedding": (lambda w: F.embedding(torch.tensor([[1, 2], [1, 0]], device=w.device), w), (matrix,)),
    "embedding padding": (
        lambda w: F.embedding(torch.tensor([[1, 2], [1, 0]], device=w.device), w, padding_idx=1),
        (matrix,),
    ),
    "index_select": (lambda a: a.index_select(0, torch.tensor([1, 1, 3], device=a.device)), (x,)),
    "gather": (lambda a: a.gather(1, torch.zeros(4, 2, dtype=torch.int64, device=a.device)), (x,)),
    "x[index]": (lambda a: a[torch.tensor([1, 1, 3], device=a.device)], (x,)),
    "slice": (lambda a: a[1:, ::2], (x,)),
    "cat": (lambda a, b: torch.cat([a, b], 1), (x, y)),
    "stack": (lambda a, b: torch.stack([a, b]), (x, y)),
    "pad": (lambda a: F.pad(a, (1, 2)), (x,)),
    "repeat": (lambda a: a.repeat(2, 2), (x,)),
    "expand": (lambda a: a.expand(3, 4, 5), (x,)),
    "softmax": (lambda a: F.softmax(a, -1), (cube,)),
    "log_softmax": (lambda a: F.log_softmax(a, 1), (cube,)),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (5,), w, b), (cube, y[0], y[1])),
    "rms_norm": (lambda a, w: F.rms_norm(a, (5,), w), (cube, y[0])),
    "group_norm": (lambda a, w, b: F.group_norm(a, 2, w, b), (numbers(3, 4, 5, 2), x[:, 0], x[:, 1])),
    "batch_norm": (
        lambda a, w, b: F.batch_norm(a, None, None, w, b, training=True),
        (numbers(3, 4, 5, 2), x[:, 0], x[:, 1]),
    ),
    "max_pool2d": (lambda a: F.max_pool2d(a, 2), (numbers(2, 3, 6, 8),)),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 3, 2, 1), (numbers(2, 3, 7, 8),)),
    "adaptive_avg_pool2d": (lambda a: F.adaptive_avg_pool2d(a, 2), (numbers(2, 3, 6, 8),)),
    "conv1d": (F.conv1d, (numbers(2, 3, 8), numbers(4, 3, 3), numbers(4))),
    "conv2d": (lambda a, w, b: F.conv2d(a, w, b, padding=1), (numbers(2, 3, 6, 8), numbers(4, 3, 3, 3), numbers(4))),
    "conv2d stride": (lambda a, w: F.conv2d(a, w, stride=2), (numbers(2, 3, 7, 7), numbers(4, 3, 3, 3))),
    "conv2d groups": (lambda a, w: F.conv2d(a, w, groups=2), (numbers(2, 4, 6, 6), numbers(6, 2, 3, 3))),
    "conv_transpose2d": (lambda a, w: F.conv_transpose2d(a, w, stride=2), (numbers(2, 3, 5, 5), numbers(3, 4, 3, 3))),
    "interpolate nearest": (lambda a: F.interpolate(a, scale_factor=2), (numbers(2, 3, 4, 5),)),
    "interpolate bilinear": (lambda a: F.interpolate(a, size=(7, 9), mode="bilinear"), (numbers(2, 3, 4, 5),)),
    "attention": (
        F.scaled_dot_product_attention,
        (numbers(2, 2, 4, 8), numbers(2, 2, 6, 8, seed=1), numbers(2, 2, 6, 8, seed=2)),
    ),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (numbers(2, 2, 4, 8), numbers(2, 2, 4, 8, seed=1), numbers(2, 2, 4, 8, seed=2)),
    ),
    "cross_entropy": (lambda a: F.cross_entropy(a, torch.tensor([1, 0, 4, 2], device=a.device)), (x,)),
    "mse_loss": (F.mse_loss, (x, y)),
    "l1_loss": (F.l1_loss, (x, y)),
    "smooth_l1_loss": (F.smooth_l1_loss, (x, y)),
    "binary_cross_entropy_with_logits": (
        lambda a: F.binary_cross_entropy_with_logits(a, torch.ones_like(a) * 0.3),
        (x,),
    ),
    "binary_cross_entropy": (lambda a: F.binary_cross_entropy(a, torch.ones_like(a) * 0.3), (positive / 4,)),
    "kl_div": (lambda a: F.kl_div(a, torch.ones_like(a) / 5, reduction="batchmean"), (x,)),
}


def parameters(table: dict[str, Case]) -> list[Any]:
    return [pytest.param(*case, id=name) for name, case in table.items()]


@pytest.mark.parametrize("function, inputs", parameters({**UNARY, **BINARY, **OTHERS}))
def test_float32(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    compare(function, inputs)


# The CPU's half-precision kernels of these go on from values that were rounded in between.
_ROUNDS_BETWEEN = {"remainder number", "remainder", "floor over number", "div floor", "div trunc", "fmod"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "function, inputs", parameters({n: c for n, c in {**UNARY, **BINARY}.items() if n not in _ROUNDS_BETWEEN})
)
def test_low_precision(function: Callable[..., Any], inputs: tuple[Any, ...], dtype: torch.dtype) -> None:
    compare(function, [t.to(dtype) for t in inputs])


@pytest.mark.parametrize("function, inputs", parameters(UNARY))
def test_on_a_strided_view(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    compare(lambda t: function(t.t()[1:, ::2]), inputs)


@pytest.mark.parametrize("function, inputs", parameters(BINARY))
def test_broadcast(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    compare(lambda a, b: (function(a, b[:1]), function(a[:, :1], b[0])), inputs)


@pytest.mark.parametrize("function, inputs", parameters(GRADIENTS))
def test_gradients(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    compare_gradients(function, inputs)


# What draws random numbers is held to what it promises.
def test_random_numbers() -> None:
    torch.manual_seed(0)
    uniform = torch.rand(100_000, device="npu").cpu()
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    normal = torch.randn(100_000, device="npu").cpu()
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    whole = torch.randint(3, 9, (10_000,), device="npu").cpu()
    assert whole.unique().tolist() == [3, 4, 5, 6, 7, 8]
    assert torch.equal(torch.randperm(50, device="npu").cpu().sort().values, torch.arange(50))
    draws = torch.bernoulli(torch.full((10_000,), 0.3, device="npu")).cpu()
    assert set(draws.unique().tolist()) == {0.0, 1.0} and abs(draws.mean() - 0.3) < 0.03
    assert torch.empty(1000, device="npu").uniform_(2, 3).cpu().min() >= 2
    assert abs(torch.empty(10_000, device="npu").normal_(5, 0.1).cpu().mean() - 5) < 0.02
    chosen = torch.multinomial(torch.tensor([0.0, 1.0, 3.0], device="npu"), 1000, replacement=True).cpu()
    assert set(chosen.unique().tolist()) == {1, 2}


def test_dropout() -> None:
    torch.manual_seed(0)
    ones = torch.ones(10_000, device="npu", requires_grad=True)
    dropped = F.dropout(ones, 0.25)
    kept = dropped.detach().cpu()
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert abs((kept > 0).float().mean() - 0.75) < 0.03
    dropped.sum().backward()
    assert torch.equal(ones.grad.cpu(), kept)
