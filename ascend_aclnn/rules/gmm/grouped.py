"""Rules of aclnnGroupedMatmul, from its first version to that of weights in FRACTAL_NZ.

Where CANN splits: ``groupType`` -1 not at all (lists of the same length), 0 along the rows (M), 2 along the inner axis (K).
"""

from __future__ import annotations

from typing import Any, Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.gmm.common import Operand, operand, optional_list
from ascend_aclnn.rules.language import *

_FLOATS = (DataType.FLOAT16, DataType.BF16, DataType.FLOAT)
_OUT = ("y", "out")
_QUANT = ("scaleOptional", "offsetOptional", "perTokenScaleOptional")
_ANTIQUANT = ("antiquantScaleOptional", "antiquantOffsetOptional")


class _Groups:
    """The operands of a call, and how it splits them."""

    def __init__(self, call: Call) -> None:
        self.call = call
        unpack = "perTokenScaleOptional" in call.operator.positions
        self.out = next(name for name in _OUT if name in call.operator.positions)
        self.x = [operand(t, unpack) for t in call.items("x")]
        self.weight = [operand(t, unpack) for t in call.items("weight")]
        self.y: list[TensorSpec] = call[self.out] or []
        self.bias = optional_list(call, "biasOptional")
        self.split_item = int(call["splitItem"])
        self.first = "groupType" not in call.operator.positions
        self.kind = self._kind() if self.first else int(call["groupType"])

    def _kind(self) -> int:
        """The first version finds out from the lengths of the lists whether it splits."""
        several = len(self.x) > 1 and (len(self.y) > 1 or self.split_item in (0, 1))
        return -1 if several or len(self.weight) == len(self.x) == 1 else 0

    @property
    def single_weight(self) -> bool:
        return len(self.weight) == 1 and self.kind != -1

    @property
    def group_list(self) -> Optional[Any]:
        """The ends (or sizes) of the groups: an int array (versions 1 and 2), or a tensor; None for an empty array."""
        given = self.call["groupListOptional"]
        return None if isinstance(given, tuple) and not given else given

    @property
    def count(self) -> int:
        """How many groups there are."""
        for items in (self.x, self.weight, self.y):
            if len(items) > 1:
                return len(items)
        groups = self.group_list
        if isinstance(groups, TensorSpec):
            return groups.shape[0] if groups.ndim else 1
        return 1 if groups is None else len(groups)

    def require(self, condition: bool, name: str, detail: str) -> None:
        self.call.require(condition, name, detail)


def _not_null(call: Call) -> None:
    """Null and empty lists, and lists with a null in them, count as null pointers."""
    for name in ("x", "weight", *_OUT):
        if name in call.operator.positions:
            items = call[name]
            text = "is None, or empty, or has None in it (a null pointer); it is required"
            call.require(bool(items) and all(t is not None for t in items), name, text, PARAM_NULLPTR)


def _attributes(call: Call) -> None:
    g = _Groups(call)
    if call.product == "310P":
        one = len(g.x) == len(g.weight) == len(g.y) == 1 and g.kind == 0
        versioned = call.operator.name not in ("aclnnGroupedMatmul", "aclnnGroupedMatmulV2")
        call.require(one and versioned, None, "on 310P there are only splits of M of single tensors, from version 3 on")
    g.require(g.kind in (-1, 0, 2), "groupType", f"is {g.kind}; it must be -1, 0 or 2")
    if g.split_item in (2, 3) and not g.first:
        g.require(g.kind != -1, "groupType", "is -1 (no split); with split_item 2 or 3 it must be 0 or 2")
    if call.operator.name.endswith("WeightNz"):
        g.require(g.kind != 2, "groupType", "is 2 (split of K); weights in FRACTAL_NZ are split along M only")
    if g.first:
        alone = len(g.weight) != 1 or (len(g.x) == 1 and len(g.y) == 1)
        g.require(alone, "weight", "has one tensor; x and y must have one as well")
    if "actType" in call.operator.positions:
        act = call["actType"]
        g.require(act in (0, 1, 2, 4, 5), "actType", f"is {act}; it must be 0, 1, 2, 4 or 5")
        kind = call["groupListType"]
        g.require(kind in (0, 1, 2), "groupListType", f"is {kind}; it must be 0, 1 or 2")
        if kind == 2:
            sparse = call.product in ("A2", "A3", "950") and g.kind == 0
            g.require(
                sparse, "groupListType", f"is 2 (sparse); on {call.soc.name} with group_type {g.kind} it must not"
            )
    groups = g.group_list
    if isinstance(groups, TensorSpec):
        wanted = 2 if "groupListType" in call.operator.positions and call["groupListType"] == 2 else 1
        g.require(groups.ndim == wanted, "groupListOptional", f"has rank {groups.ndim}; it must be {wanted}")


def _operands(call: Call) -> None:
    """Ranks; an empty inner axis is taken only where all outputs are empty."""
    g = _Groups(call)
    if g.kind != 2:
        for t in g.x:
            g.require(2 <= len(t.shape) <= 6, "x", f"has shape {t.shape}; its rank must be between 2 and 6")
        for t in g.weight:
            g.require(len(t.shape) >= 2, "weight", f"has shape {t.shape}; its rank must be at least 2")
        no_rows = all(0 in t.shape[:-1] for t in g.x)
        no_columns = all(t.shape[-1] == 0 for t in g.weight)
        inner = all(t.shape[-1] for t in g.x)
        g.require(no_rows or no_columns or inner, "x", "has an empty inner axis; out would not be empty")
    for name in ("activationInputOptional", "activationQuantScaleOptional", "activationQuantOffsetOptional"):
        g.require(optional_list(call, name) is None, name, "is given; it must be None")
    for name in ("activationFeatureOutOptional", "dynQuantScaleOutOptional"):
        g.require(optional_list(call, name) is None, name, "is given; it must be None")


# --------------------------------------------------------------------------------------------------- data types


def _same_dtypes(g: _Groups, name: str, tensors: list[TensorSpec], wanted: DataType) -> None:
    for t in tensors:
        g.require(t.dtype is wanted, name, f"has dtype {t.dtype.name}; it must be {wanted.name}")


def _none_of(g: _Groups, names: tuple[str, ...], why: str) -> None:
    for name in names:
        g.require(optional_list(g.call, name) is None, name, f"is given; {why} it must be None")


def _one_for_each(g: _Groups, name: str, grouped: bool = False) -> None:
    """An optional list has a row for each group (single weight), or a tensor for each weight; ``grouped``: or a matrix."""
    tensors = optional_list(g.call, name) or []
    g.require(len(tensors) == len(g.weight), name, f"has {len(tensors)} tensors; it must have {len(g.weight)}")
    for t, w in zip(tensors, g.weight):
        if t is None:
            g.call.refuse(name, "has None in it")
        ndim = 2 if g.single_weight else 1
        g.require(t.ndim == ndim or (grouped and t.ndim == ndim + 1), name, f"has rank {t.ndim}; it must be {ndim}")
        if grouped and t.ndim == ndim + 1:
            parts, k = t.shape[-2], w.shape[-2]
            g.require(parts > 0 and k % parts == 0, name, f"has {parts} groups, which do not divide the inner axis {k}")
        if g.single_weight:
            g.require(t.shape[0] == g.count, name, f"has shape {t.shape}; it must have {g.count} rows")
        g.require(t.shape[-1] == w.shape[-1], name, f"has shape {t.shape}; its last axis must be {w.shape[-1]}")


def _plain(g: _Groups) -> None:
    x = g.x[0].dtype
    if g.first and x is DataType.FLOAT:
        g.call.refuse("x", "has dtype FLOAT; from version 2 on it may be")
    _same_dtypes(g, "x", [t.tensor for t in g.x], x)
    _same_dtypes(g, "weight", [t.tensor for t in g.weight], x)
    _same_dtypes(g, g.out, g.y, x)
    if g.bias is not None:
        _same_dtypes(g, "biasOptional", g.bias, DataType.FLOAT if x is DataType.BF16 else x)
    _no_activation(g)
    _none_of(g, _QUANT + _ANTIQUANT, "with operands of floating point")


def _no_activation(g: _Groups) -> None:
    act = g.call["actType"] if "actType" in g.call.operator.positions else 0
    g.require(act == 0, "actType", f"is {act}; with these operands it must be 0")


_PER_TOKEN = {(DataType.BF16, DataType.BF16), (DataType.FLOAT, DataType.FLOAT16)}
_PER_CHANNEL = {*_PER_TOKEN, (DataType.INT64, DataType.INT8), (DataType.UINT64, DataType.INT8)}


def _int8(g: _Groups) -> None:
    """INT8 by INT8; an INT32 result is not scaled."""
    for t in g.y:
        fits = t.dtype is g.y[0].dtype and t.dtype.name in ("INT8", "BF16", "FLOAT16", "INT32")
        g.require(fits, g.out, f"has dtype {t.dtype.name}; it must be INT8, BF16, FLOAT16 or INT32, one for all")
    if g.bias is not None:
        one = {t.dtype.name for t in g.bias}
        g.require(one in ({"INT32"}, {"BF16"}), "biasOptional", f"has dtypes {one}; it must be INT32 or BF16")
    if g.y[0].dtype is DataType.INT32:
        return
    g.require(g.kind != 2, "groupType", "is 2 (split of K); INT8 operands are not split so")
    _none_of(g, ("offsetOptional", *_ANTIQUANT), "with INT8 operands")
    scales = optional_list(g.call, "scaleOptional")
    g.require(scales is not None, "scaleOptional", "is None; with INT8 operands it is required")
    _one_for_each(g, "scaleOptional")
    tokens = optional_list(g.call, "perTokenScaleOptional")
    for t in scales or ():
        pairs = _PER_CHANNEL if tokens is None else _PER_TOKEN
        text = f"has dtype {t.dtype.name}, which does not make {g.y[0].dtype.name}"
        g.require((t.dtype, g.y[0].dtype) in pairs, "scaleOptional", text)
    _per_token(g, tokens)


def _per_token(g: _Groups, tokens: Optional[list[TensorSpec]]) -> None:
    if tokens is None:
        return
    name = "perTokenScaleOptional"
    _same_dtypes(g, name, tokens, DataType.FLOAT)
    one = len(g.x) == len(g.y) == len(tokens) == 1
    g.require(one, name, "is taken with single x and y only")
    wanted = (g.x[0].shape[0],)
    g.require(tokens[0].shape == wanted, name, f"has shape {tokens[0].shape}; it must be {wanted}")


def _int4_weight(g: _Groups) -> None:
    """INT8 by INT4. With an offset for each column all parameters are there; without one CANN looks no further."""
    e, n = g.weight[0].shape[0], g.weight[0].shape[-1]
    offset = optional_list(g.call, "offsetOptional")
    if offset is None or offset[0].shape != (e, 1, n):
        return
    g.require(g.y[0].dtype is DataType.FLOAT16, g.out, f"has dtype {g.y[0].dtype.name}; it must be FLOAT16")
    rows = g.x[0].shape[0]
    for name, dtype, wanted in (
        ("offsetOptional", DataType.FLOAT, (e, 1, n)),
        ("biasOptional", DataType.FLOAT, (e, n)),
        ("scaleOptional", DataType.UINT64, (e, 1, n)),
        ("perTokenScaleOptional", DataType.FLOAT, (rows, 1)),
    ):
        tensors = optional_list(g.call, name)
        if tensors is None:
            g.call.refuse(name, "is None; with INT4 weights and an offset it is required")
        came = DataType.UINT64 if tensors[0].dtype is DataType.INT64 else tensors[0].dtype
        g.require(came is dtype, name, f"has dtype {came.name}; it must be {dtype.name}")
        g.require(tensors[0].shape == wanted, name, f"has shape {tensors[0].shape}; it must be {wanted}")
    _none_of(g, _ANTIQUANT, "with INT8 x")


def _int4(g: _Groups) -> None:
    """INT4 by INT4: single tensors, split along M."""
    g.require(
        g.y[0].dtype.name in ("FLOAT16", "BF16"), g.out, f"has dtype {g.y[0].dtype.name}; it must be FLOAT16 or BF16"
    )
    _none_of(g, ("offsetOptional", "biasOptional", *_ANTIQUANT), "with INT4 operands")
    scales = optional_list(g.call, "scaleOptional")
    if scales is None:
        g.call.refuse("scaleOptional", "is None; with INT4 operands it is required")
    scale = scales[0]
    fits = scale.dtype in (DataType.UINT64, DataType.INT64) and scale.ndim in (2, 3) and scale.shape[-1] % 8 == 0
    g.require(fits, "scaleOptional", "must be UINT64, of rank 2 or 3, its last axis a multiple of 8")
    if scale.ndim == 3:
        k, parts = g.x[0].shape[1], scale.shape[1]
        fits = parts > 0 and k % parts == 0 and k // parts % 2 == 0
        g.require(fits, "scaleOptional", f"has {parts} groups, which do not divide the inner axis {k} evenly")
    _per_token(g, optional_list(g.call, "perTokenScaleOptional"))
    one = g.kind == 0 and len(g.x) == len(g.weight) == len(g.y) == 1
    g.require(one, "groupType", "must be 0, with single tensors, where operands are INT4")


def _antiquant(g: _Groups) -> None:
    """16-bit x by INT8 or INT4 weights."""
    x, int4 = g.x[0].dtype, g.weight[0].dtype is DataType.INT4
    _same_dtypes(g, "x", [t.tensor for t in g.x], x)
    _same_dtypes(g, g.out, g.y, x)
    if g.bias is not None:
        _same_dtypes(g, "biasOptional", g.bias, DataType.FLOAT if x is DataType.BF16 else x)
    _no_activation(g)
    g.require(g.kind != 2, "groupType", "is 2 (split of K); quantised weights are not split so")
    for name, required in zip(_ANTIQUANT, (True, not (int4 and g.single_weight))):
        tensors = optional_list(g.call, name)
        g.require(tensors is not None or not required, name, "is None; with quantised weights it is required")
        if tensors is not None:
            _one_for_each(g, name, grouped=int4)
            _same_dtypes(g, name, tensors, x)
    scales, offsets = (optional_list(g.call, name) for name in _ANTIQUANT)
    if int4 and scales and offsets:
        same = all(s.ndim == o.ndim == scales[0].ndim for s, o in zip(scales, offsets))
        g.require(same, "antiquantOffsetOptional", "must have the rank of antiquant_scale")
    _none_of(g, _QUANT, "with quantised weights alone")


def _dtypes(call: Call) -> None:
    g = _Groups(call)
    x, weight = g.x[0].dtype, g.weight[0].dtype
    if call.product == "950":
        documented_dtypes()(call)
        return
    if call.product == "310P":
        half = all(t is DataType.FLOAT16 for t in (x, weight, *(b.dtype for b in g.bias or ())))
        call.require(half, "x", "has to be FLOAT16 on 310P, and so weight and bias")
        _no_activation(g)
    if x is weight and x in _FLOATS:
        _plain(g)
    elif x is DataType.INT8 and weight is DataType.INT8:
        _int8(g)
    elif x is DataType.INT8 and weight is DataType.INT4:
        _int4_weight(g)
    elif x is DataType.INT4 and weight is DataType.INT4:
        _int4(g)
    elif x in (DataType.FLOAT16, DataType.BF16) and weight in (DataType.INT8, DataType.INT4):
        _antiquant(g)
    else:
        call.refuse("weight", f"has dtype {weight.name}; with {x.name} x that is not supported")


# --------------------------------------------------------------------------------------------------- shapes


def _plain_format(g: _Groups, name: str, tensor: TensorSpec) -> None:
    fits = not tensor.format.private or (name == "weight" and tensor.format in NZ)
    g.require(fits, name, f"has the private format {tensor.format.name}")


def _inner(g: _Groups, name: str, size: int) -> None:
    g.require(
        size <= 65535 or g.call.product == "950", name, f"has an axis of {size} items; it must have at most 65535"
    )


def _ranks(g: _Groups, x: int, weight: int, y: int) -> None:
    for name, tensors, ndim in (("x", [t.tensor for t in g.x], x), (g.out, g.y, y)):
        for t in tensors:
            g.require(t.ndim == ndim, name, f"has shape {t.shape}; its rank must be {ndim}")
            _plain_format(g, name, t)
    for w in g.weight:
        g.require(len(w.shape) == weight, "weight", f"has shape {w.shape}; its rank must be {weight}")
        _plain_format(g, "weight", w.tensor)
        same = w.transposed == g.weight[0].transposed or g.kind == 2
        g.require(same, "weight", "has tensors stored transposed and others not")


def _even(g: _Groups) -> None:
    """An INT4 weight has an even number of items along the axis that is stored first."""
    for w in g.weight:
        inner = w.shape[-2 if w.transposed else -1]
        even = w.dtype is not DataType.INT4 or inner % 2 == 0
        g.require(even, "weight", f"has shape {w.shape}; the axis that is stored first must be even")
        if not w.transposed:
            _inner(g, "weight", w.shape[-1])


def _wanted(g: _Groups) -> list[Shape]:
    """The shapes of the outputs."""
    x, weight = g.x, g.weight
    columns = weight[0].shape[-1]
    if g.kind == -1:
        g.require(len(x) == len(weight), "weight", f"has {len(weight)} tensors; it must have {len(x)}, as x")
        return [(*t.shape[:-1], w.shape[-1]) for t, w in zip(x, weight)]
    if g.kind == 2:
        g.require(len(x[0].shape) == 2, "x", f"has shape {x[0].shape}; its rank must be 2")
        return [(g.count, x[0].shape[0], columns)]
    rows = sum(t.shape[0] for t in x)
    if g.split_item in (2, 3):
        return [(rows, columns)]
    groups, before = g.group_list, 0
    shapes: list[Shape] = []
    if len(x) > 1 or not isinstance(groups, tuple):
        g.call.refuse("splitItem", f"is {g.split_item}; with these lists it must be 2 or 3")
    for end, w in zip(groups, weight):
        shapes.append((end - before, w.shape[-1]))
        before = end
    return shapes


def _shapes(call: Call) -> None:
    g = _Groups(call)
    x, weight = g.x, g.weight
    lengths = len(x), len(weight), len(g.y)
    moved = any(t.transposed for t in x)
    if g.kind == 2:
        single = lengths == (1, 1, 1)
        g.require(single, "x", f"is a list; split along K, lists must have one tensor each, not {lengths}")
        g.require(g.bias is None, "biasOptional", "is given; split along K it must be None")
        g.require(x[0].transposed, "x", "must be stored transposed where K is split")
        _ranks(g, 2, 2, 3)
        k = x[0].shape[1]
        g.require(weight[0].shape[0] == k, "weight", f"has shape {weight[0].shape}; its first axis must be {k}")
        g.require(not weight[0].transposed, "weight", "must not be stored transposed where x is")
    else:
        g.require(not moved, "x", "must not be stored transposed where K is not split")
        if g.kind == -1:
            g.require(g.split_item in (0, 1), "splitItem", f"is {g.split_item}; without a split it must be 0 or 1")
            g.require(
                lengths[0] == lengths[1] == lengths[2], "x", f"and weight and y have {lengths} tensors; as many each"
            )
            if not g.first:
                g.require(g.group_list is None, "groupListOptional", "is given; without a split it must be None")
            for t in x:
                _inner(g, "x", t.shape[-1])
            _ranks_no_split(g)
        else:
            _ranks(g, 2, 3 if lengths[1] == 1 and not _lone_matrix(g) else 2, 2)
            several = lengths[2] > 1
            wanted = (0, 1) if several else (2, 3)
            g.require(g.split_item in wanted, "splitItem", f"is {g.split_item}; it must be {wanted[0]} or {wanted[1]}")
            g.require(
                lengths[0] in (1, lengths[1]), "x", f"has {lengths[0]} tensors; it must have {lengths[1]}, as weight"
            )
            array = isinstance(call["groupListOptional"], tuple)
            g.require(not several or (lengths[0] == 1 and array), g.out, "has several tensors")
            for i, w in enumerate(weight):
                k = x[i % lengths[0]].shape[1]
                g.require(w.shape[-2] == k, "weight", f"has shape {w.shape}; its inner axis must be {k}")
                g.require(w.shape[-1] == weight[0].shape[-1] or several, "weight", f"has shape {w.shape}")
                _inner(g, "x", k)
        _even(g)
    shapes = _wanted(g)
    g.require(len(shapes) == len(g.y), g.out, f"has {len(g.y)} tensors; it must have {len(shapes)}")
    for y, made in zip(g.y, shapes):
        g.require(y.shape == made, g.out, f"has shape {y.shape}; it must be {made}")


def _lone_matrix(g: _Groups) -> bool:
    """With FRACTAL_NZ weights a single matrix counts as a list of one."""
    return g.call.operator.name.endswith("WeightNz") and len(g.weight[0].shape) == 2


def _ranks_no_split(g: _Groups) -> None:
    for t, w, y in zip(g.x, g.weight, g.y):
        g.require(len(w.shape) == 2, "weight", f"has shape {w.shape}; its rank must be 2")
        g.require(y.ndim == len(t.shape), g.out, f"has shape {y.shape}; its rank must be {len(t.shape)}")
        g.require(w.shape[0] == t.shape[-1], "weight", f"has shape {w.shape}; its first axis must be {t.shape[-1]}")
        g.require(w.transposed == g.weight[0].transposed, "weight", "has tensors stored transposed and others not")
        for name, tensor in (("x", t.tensor), ("weight", w.tensor), (g.out, y)):
            _plain_format(g, name, tensor)
    stored = g.first and g.weight[0].transposed and g.call.product != "950"
    g.require(not stored, "weight", "must not be stored transposed; from version 2 on it may be")


def _group_list(call: Call) -> None:
    """One end of each group: not decreasing, the last one the size of the split axis."""
    g = _Groups(call)
    groups, name = g.group_list, "groupListOptional"
    wanted = g.weight[0].shape[0] if g.single_weight and g.kind == 0 and not _lone_matrix(g) else g.count
    if isinstance(groups, TensorSpec):
        if g.kind != -1:
            count = groups.shape[0]
            pairs = groups.ndim == 1 or groups.shape[1] == 2
            fits = pairs and 1 <= count <= 1024 and (count == wanted or wanted == 1)
            g.require(fits, name, f"has shape {groups.shape}; it must have {wanted} rows (at most 1024)")
            g.require(groups.dtype is DataType.INT64, name, f"has dtype {groups.dtype.name}; it must be INT64")
    elif groups is not None:
        if g.kind == -1:
            g.require(len(groups) == len(g.x), name, f"has {len(groups)} items; it must have {len(g.x)}")
            flat = all(len(t.shape) == 2 for t in g.x)
            g.require(flat, name, "is given; with x of more than two axes it must be None")
        rising = all(b >= a for a, b in zip((0, *groups), groups))
        fits = rising and len(groups) <= 128 and (len(groups) == wanted or wanted == 1)
        g.require(fits, name, f"is {groups}; it must have {wanted} items, not negative and not decreasing")
        parts = _split_sizes(g)
        if parts is not None:
            ends = [sum(parts[: i + 1]) for i in range(len(parts))]
            same = list(groups) == ends if len(ends) > 1 else groups[-1] == ends[0]
            g.require(same, name, f"is {groups}; the sizes of the tensors make {ends}")
    else:
        needed = g.kind == 2 or (g.kind == 0 and len(g.x) == 1)
        g.require(not needed, name, "is None; where single tensors are split it is required")


def _split_sizes(g: _Groups) -> Optional[list[int]]:
    """The sizes of the groups (or of all of them) along the split axis."""
    if g.kind == 2:
        return [g.x[0].shape[1]]
    if len(g.x) > 1 or g.kind == -1:
        return [t.shape[0] for t in g.x]
    return [t.shape[0] for t in g.y]


def _rest(call: Call) -> None:
    g = _Groups(call)
    if g.bias is not None and call.product != "950":
        _one_for_each(g, "biasOptional")
    for name, items in (("x", g.x), ("weight", g.weight)):
        fits = len(items) <= 128 or call.product == "950"
        g.require(fits, name, f"has {len(items)} tensors; it must have at most 128")
    if "tuningConfigOptional" in call.operator.positions and call["tuningConfigOptional"]:
        expected, rows = call["tuningConfigOptional"][0], max(t.shape[0] for t in g.x)
        g.require(0 <= expected <= rows, "tuningConfigOptional", f"starts with {expected}; it must be in [0, {rows}]")
    empty = all(t.tensor.size == 0 for t in g.x) or all(t.tensor.size == 0 for t in g.weight)
    if empty or call.product == "950":
        return
    for w in g.weight:
        _tiles(g, w)


def _tiles(g: _Groups, w: Operand) -> None:
    """A weight in FRACTAL_NZ fills its tiles; on 310P out's rows fill 32 bytes."""
    k, n = w.shape[-2:]
    if g.call.product == "310P":
        n = k if w.transposed else n
        g.require(n * w.dtype.bits % 256 == 0, "weight", f"has shape {w.shape}; its columns must fill 32 bytes")
    elif w.tensor.format in NZ:
        inner = {DataType.INT8: 32, DataType.INT4: 64}.get(w.dtype, 16)
        unit = (inner, 16) if w.transposed else (16, inner)
        text = f"has shape {w.shape}; in FRACTAL_NZ its last axes must be multiples of {unit}"
        g.require(k % unit[0] == 0 and n % unit[1] == 0, "weight", text)


def _y_shapes(call: Call) -> list[Shape]:
    call.shapes("x", 2)
    call.shapes("weight", 2)
    return _wanted(_Groups(call))


def _y_dtype(call: Call) -> DataType:
    """As x; of quantised operands what the scales make of them."""
    g = _Groups(call)
    x = g.x[0].dtype
    if x in _FLOATS:
        return x
    scales = optional_list(call, "scaleOptional")
    if scales is None:
        return DataType.INT32
    made = {DataType.BF16: DataType.BF16, DataType.FLOAT: DataType.FLOAT16}
    int8 = DataType.INT8 if g.weight[0].dtype is DataType.INT8 else DataType.FLOAT16
    return made.get(scales[0].dtype, int8)


for _name in (
    "aclnnGroupedMatmul",
    "aclnnGroupedMatmulV2",
    "aclnnGroupedMatmulV3",
    "aclnnGroupedMatmulV4",
    "aclnnGroupedMatmulV5",
    "aclnnGroupedMatmulWeightNz",
):
    rule(
        _name,
        _not_null,
        _attributes,
        _operands,
        _dtypes,
        _shapes,
        _group_list,
        _rest,
        infer_shape(
            y=_y_shapes,
            out=_y_shapes,
            activationFeatureOutOptional=lambda call: None,
            dynQuantScaleOutOptional=lambda call: None,
        ),
        output_dtype(y=_y_dtype, out=_y_dtype),
        nullable="x weight y out",
    )
