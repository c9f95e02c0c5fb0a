"""Functions in blocks: widened, computed and rounded piece by piece on all cores, so that temporaries stay in the caches.

``elementwise`` is for functions of the elements at one place, ``along`` for those that work along some axes.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import convert, programs
from ascend_aclnn.numerics.convert import codes, is_low_precision, parts, round_into, widen
from ascend_aclnn.numerics.programs import Placed, Program
from ascend_aclnn.numerics.steps import Steps
from ascend_aclnn.numerics.threads import Array, for_blocks, scratch

SMALL = 1 << 15  # elements up to which blocks are no faster than one pass
NARROW = 64  # elements in a row below which the overhead per row dominates a program
_WHOLE = 64 * convert.BLOCK  # elements that all cores share at a time, which bounds what is kept of their rows
_WIDE = 256  # adjacent columns from which cache lines and pages are well used
LOOKED_UP = 20  # operations of a program from which a table look-up is faster
_LOOKED_UP_ALONE = 9  # the same without the helper, of results that are not rounded to 16 bits
TABLED = 1 << 18  # elements from which a table of all 65,536 results pays off


def elementwise(function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Stores ``function(*inputs)`` into the outputs, block by block on all cores. False if it cannot; nothing is written then.

    ``function`` computes each element of its results (one array, or a tuple of as many as there are outputs) from the
    elements at the same place of the arrays among the inputs, which broadcast to the outputs' shape; the other inputs
    are passed on. It sees pieces of other shapes than the whole. A function of lists whose result is a list sees lists of
    one item each.
    """
    if len(outputs) == 1 and isinstance(outputs[0], list):
        return _each(function, inputs, outputs[0])
    elements = _elements(function, inputs, outputs)
    if elements is None or _overlaps(inputs, outputs):
        return False
    if elements.tabled and _by_table(function, inputs, outputs):
        return True
    program, views, targets = elements.program, elements.inputs, elements.outputs
    if program is not None and program.single:  # needs no memory but the first-level cache's
        program.run(views, targets, elements.sizes)
        return True
    arrays = [array for array in (*views, *targets) if array is not None]
    wide = any(array.dtype != np.bool_ for array in arrays)
    steps = None if program is not None or not wide else programs.steps(function, inputs, outputs)
    block = convert.BLOCK if steps is None else steps.block
    pieces = parts(elements.sizes, block if wide else 16 * block)  # functions of booleans keep little
    apart = steps is None or not _may_share(inputs, outputs)
    layouts: dict[Any, Any] = {}

    def work(lo: int, hi: int) -> None:
        for piece in pieces[lo:hi]:
            cut = [None if view is None else view[_thin(piece, view.shape)] for view in views]
            results = [None if output is None else output[piece] for output in targets]
            if steps is not None:
                steps.run(cut, results, apart)
            elif program is None:
                _compute(function, inputs, cut, results)
            else:
                sizes = next(output.shape for output in results if output is not None)
                program.run(cut, results, sizes, layouts=layouts)

    for_blocks(len(pieces), 1, work)
    return True


class _Elements(NamedTuple):
    """The arrays of an element-wise function over as few axes as possible, and its program, if it has one."""

    program: Optional[Program]
    inputs: list[Any]  # None for inputs that are not arrays
    outputs: list[Any]
    sizes: tuple[int, ...]
    tabled: bool  # a table of all results is faster, if it can be made


def _elements(function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Optional[_Elements]:
    targets = [output for output in outputs if output is not None]
    arrays = [item for item in inputs if isinstance(item, np.ndarray)]
    if not targets or not arrays or not all(isinstance(target, np.ndarray) for target in targets):
        return None
    shape = targets[0].shape
    if targets[0].size <= SMALL or any(target.shape != shape for target in targets[1:]):
        return None
    if any(isinstance(item, list) for item in inputs) or not _broadcast_to(arrays, shape):
        return None
    program = programs.program(function, inputs, outputs)
    tabled = len(arrays) == 1 and arrays[0].shape == shape and arrays[0].size >= TABLED
    if tabled and native.runs_programs():
        tabled = program is None or not program.single or program.operations > LOOKED_UP
    elif tabled and programs.selects(function, inputs, outputs):
        tabled = False
    elif tabled:
        narrow = [array for array in (*targets, *arrays) if is_low_precision(array.dtype)]
        # bfloat16 is widened and rounded at a third of float16's cost.
        most = _LOOKED_UP_ALONE if len(narrow) < 2 else 0 if any(array.dtype == np.float16 for array in narrow) else 2
        tabled = most == 0 or programs.operations(function, inputs, outputs) > most
    views, sizes = _merged(shape, [*targets, *arrays])
    if any(view.shape != sizes for view in views[: len(targets)]):
        return None  # an output that keeps several elements in one place
    places = dict(zip(map(id, [*targets, *arrays]), views))
    if program is not None and (len(sizes) > programs.DIMS or (len(sizes) > 1 and sizes[-1] < NARROW)):
        program = None
    input_views = [places.get(id(item)) for item in inputs]
    return _Elements(program, input_views, [places.get(id(output)) for output in outputs], sizes, tabled)


def _by_table(function: Callable[..., Any], inputs: Sequence[Any], results: Sequence[Optional[Array]]) -> bool:
    """A function of one array of 16-bit floats through a table of its 65,536 results, looked up by the bits.

    The results are the same: the function computes the table, widened and rounded like any other block. False, with
    nothing written, if there is no such table or the arrays are not contiguous.
    """
    array = next(item for item in inputs if isinstance(item, np.ndarray))
    outputs = [output for output in results if output is not None]
    if array.dtype.itemsize != 2 or not is_low_precision(array.dtype) or not array.flags.c_contiguous:
        return False
    if any(not output.flags.c_contiguous or output.dtype.itemsize > 4 for output in outputs):
        return False
    every = widen(np.arange(1 << 16, dtype=np.uint16).view(array.dtype))
    try:
        with np.errstate(all="ignore"):
            computed = function(*(every if item is array else item for item in inputs))
    except Exception:  # control flow on data: run it on the data itself
        return False
    several = computed if isinstance(computed, tuple) else (computed,)
    if len(several) != len(outputs) or any(np.shape(result) != every.shape for result in several):
        return False
    tables = [np.empty(1 << 16, output.dtype) for output in outputs]
    for table, result in zip(tables, several):
        round_into(table, np.asarray(result))
    bits = array.reshape(-1).view(np.uint16)
    flat = [output.reshape(-1) for output in outputs]

    def look_up(lo: int, hi: int) -> None:
        for table, output in zip(tables, flat):
            if not native.look_up(bits[lo:hi], table, output[lo:hi]):
                np.take(codes(table), bits[lo:hi], out=codes(output)[lo:hi], mode="clip")

    for_blocks(bits.size, convert.BLOCK, look_up)
    return True


def _each(function: Callable[..., Any], inputs: Sequence[Any], outputs: list[Array]) -> bool:
    """An element-wise function of lists of arrays, whose result is a list: one item of all lists after the other."""
    places = tuple([number for number, item in enumerate(inputs) if isinstance(item, list)])
    if not places or any(len(inputs[number]) != len(outputs) for number in places):
        return False
    if not any(output.size > SMALL for output in outputs):
        return False

    numbers = tuple(  # which a formula may ask for
        [
            (number, item.dtype, item.shape, item.tobytes())
            for number, item in enumerate(inputs)
            if isinstance(item, np.ndarray) and item.size == 1
        ]
    )
    one = _of_items(function, places, numbers)
    for i, output in enumerate(outputs):
        items = [item[i] if number in places else item for number, item in enumerate(inputs)]
        for number, *_ in numbers:
            items[number] = None
        if not elementwise(one, items, [output]):
            result = np.asarray(one(*(widen(item) if isinstance(item, np.ndarray) else item for item in items)))
            if result.shape != output.shape:
                raise ValueError(f"the result has shape {result.shape}, the output {output.shape}")
            round_into(output, result)
    return True


def placed(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    output: Placed,
    of_lists: bool,
    starts: Sequence[int],
    sizes: Sequence[int],
    memory: Array,
) -> Optional[Callable[[bytes], bool]]:
    """``elementwise`` for small float32 tensors in one memory, at other offsets in each call: see ``Program.placed``.

    Tensors among the inputs are ``Placed``. ``of_lists``: each stands for a list, with as many items as the output.
    """
    places = [item if isinstance(item, Placed) else None for item in inputs]
    if of_lists:
        function = _of_items(function, tuple([number for number, place in enumerate(places) if place is not None]), ())
    like = np.empty(1, np.float32)
    program = programs.program(
        function, [item if place is None else like for item, place in zip(inputs, places)], [like]
    )
    return None if program is None else program.placed(places, output, starts, sizes, memory)


@functools.lru_cache(64)
def _of_items(
    function: Callable[..., Any],
    places: tuple[int, ...],
    numbers: tuple[tuple[int, np.dtype[Any], tuple[int, ...], bytes], ...],
) -> Callable[..., Any]:
    """A function of lists as a function of one item. Cached, because its programs are cached with it.

    ``numbers``: the arrays of one element among its arguments, by position, data type, shape and bytes.
    """
    constants = {number: widen(np.frombuffer(data, dtype).reshape(shape)) for number, dtype, shape, data in numbers}

    def one(*arguments: Any) -> Any:
        items = ([item] if number in places else constants.get(number, item) for number, item in enumerate(arguments))
        return function(*items)[0]

    return one


def _compute(
    function: Callable[..., Any], inputs: Sequence[Any], parts: Sequence[Any], outputs: Sequence[Optional[Array]]
) -> None:
    """One piece; ``parts`` has the pieces of the inputs that are arrays, None for the others."""
    arguments = list(inputs)
    widened = []
    for number, part in enumerate(parts):
        if part is not None:
            if is_low_precision(part.dtype):
                part = widen(part, scratch(f"blocks.{number}", part.shape, np.float32))
                widened.append(part)
            arguments[number] = part
    if isinstance(function, np.ufunc) and all(a.dtype == np.bool_ for a in filter(_is_array, (*arguments, *outputs))):
        function(*arguments, out=outputs[0])
        return
    results = function(*arguments)
    if not isinstance(results, tuple):
        results = (results,)
    if len(results) != len(outputs):
        raise RuntimeError(f"the function gave {len(results)} results for {len(outputs)} outputs")
    for number, output in enumerate(outputs):
        if output is None:
            continue
        result, spare = results[number], []
        # A result that no one else refers to is not needed once it is rounded, nor is what was widened for it.
        if output.dtype == np.float16 and sys.getrefcount(result) <= _REFERENCES and _is_apart(result):
            spare = [result, *widened] if len(results) == 1 else [result]
        round_into(output, np.asarray(0 if result is None else result), *spare)


def _is_apart(result: Any) -> bool:
    """Whether a result is contiguous float32 memory of its own."""
    return (
        type(result) is np.ndarray and result.dtype == np.float32 and result.base is None and result.flags.c_contiguous
    )


def _references() -> int:
    """What sys.getrefcount says of a value that is in one tuple and one local variable."""
    several = (object(),)
    value = several[0]
    return sys.getrefcount(value)


_REFERENCES = _references()


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray)


# ------------------------------------------------------------------------------------------------------ along axes

# The axes of the first array that a function works along, from its inputs; None where they are unknown.
Axes = Callable[..., Optional[Sequence[int]]]


def along(function: Callable[..., Any], axes: Axes, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Stores ``function(*inputs)`` into the outputs, block by block on all cores. False if it cannot; nothing is written then.

    ``function`` works along some axes of its first input, as a sum or a softmax does, and treats the indices of all
    other axes independently. So the first input is cut beside these axes, and with it the arrays of its rank that have
    its size there; others (weights along the axes) are passed whole. Outputs keep the axes that are worked along, or
    have lost them.
    """
    lines = _lines(axes, inputs, outputs)
    if lines is None or _overlaps(inputs, outputs):
        return False
    first, count = inputs[0], len(lines.axes)
    rows = _row_program(function, inputs, outputs, lines.axes)
    repeated = _repeated(inputs, lines.free) if rows is None else ()
    whole = rows is not None and rows.single  # run on all cores; needs memory for one number per row only
    steps = _row_steps(function, inputs, outputs, lines.axes) if rows is None else None
    block = steps.block if steps is not None else _block(rows)
    apart = steps is None or not _may_share(inputs, outputs)
    pieces = [(slice(None),) * first.ndim]
    layouts: dict[Any, Any] = {}
    if not whole or first.size > block:
        free = [*repeated, *(axis for axis in lines.free if axis not in repeated)]
        pieces = list(_cuts(first.shape, free, first.size, block, singly=repeated))

    def work(lo: int, hi: int) -> None:
        for piece in pieces[lo:hi]:
            parts = [
                None
                if not isinstance(item, np.ndarray)
                else item[_thin(piece, item.shape)]
                if id(item) in lines.cut
                else item
                for item in inputs
            ]
            places = [
                None if output is None else output[_without_lost_axes(piece, lines.lost[id(output)])]
                for output in outputs
            ]
            program = rows
            if repeated:
                whole_or_cut = [item if part is None else part for item, part in zip(inputs, parts)]
                program = _row_program(function, whole_or_cut, places, lines.axes)
            if program is None and steps is not None:
                steps.run([item if part is None else part for item, part in zip(inputs, parts)], places, apart)
            elif program is None:
                _compute(function, inputs, parts, places)
            else:
                matrices, results, sizes, lead = _as_rows(program, count, parts, places)
                program.run(matrices, results, sizes, lead, None if repeated else layouts)

    for_blocks(len(pieces), len(pieces) if whole else 1, work)
    return True


def _block(rows: Optional[Program]) -> int:
    """The elements of a block of a program along rows, or of a formula that runs as it is written.

    Between the calls for a block threads meet at the interpreter lock, so blocks are as large as their memory allows: single
    phases, and phases between which nothing but numbers of rows is kept, take none.
    """
    if rows is None:
        return 2 * convert.BLOCK
    return convert.BLOCK if rows.keeps_blocks else _WHOLE if rows.single else 4 * convert.BLOCK


def of_all(function: Callable[..., Any], array: Array) -> Any:
    """``function`` of a large contiguous array as a matrix of one row, which gives one number of it; None without a program."""
    if array.size <= SMALL or not array.flags.c_contiguous:
        return None
    row, result = array.reshape(1, -1), np.empty((1, 1))
    program = programs.program(function, [row], [result], 1, row)
    if program is None or not program.single:
        return None
    program.run([row], [result], row.shape, (1, 1))
    return result[0, 0]


class _Lines(NamedTuple):
    """What a function works along, and how its arrays are cut beside that."""

    axes: set[int]
    free: list[int]  # the other axes of more than one index
    lost: dict[int, Optional[set[int]]]  # the axes that an output lacks, by its id
    cut: set[int]  # the ids of the inputs that are cut; the others are passed whole


def _lines(axes: Axes, inputs: Sequence[Any], outputs: Sequence[Any]) -> Optional[_Lines]:
    first = inputs[0]
    if not isinstance(first, np.ndarray) or first.size <= SMALL:
        return None
    worked = axes(*inputs)
    if worked is None or any(isinstance(item, list) for item in (*inputs, *outputs)):
        return None
    along_axes = {axis % first.ndim for axis in worked if -first.ndim <= axis < first.ndim}
    free = [axis for axis in range(first.ndim) if axis not in along_axes and first.shape[axis] > 1]
    targets = [output for output in outputs if output is not None]
    lost = {id(target): _lost_axes(target, first, along_axes) for target in targets}
    if not free or not targets or any(places is None for places in lost.values()):
        return None
    arrays = [item for item in inputs if isinstance(item, np.ndarray)]
    cut = {id(a) for a in arrays if a.ndim == first.ndim and all(a.shape[x] in (1, first.shape[x]) for x in free)}
    return _Lines(along_axes, free, lost, cut)


def _repeated(inputs: Sequence[Any], free: Sequence[int]) -> list[int]:
    """The axes along which an input repeats (a mask for all heads), if pieces of one index of each are large enough.

    A program can be made of such pieces, though not of the whole.
    """
    shape = inputs[0].shape
    arrays = [item for item in inputs if isinstance(item, np.ndarray) and item.ndim == len(shape)]
    repeated = [axis for axis in free if any(array.shape[axis] != shape[axis] for array in arrays)]
    return repeated if inputs[0].size >= SMALL * math.prod(shape[axis] for axis in repeated) else []


def _row_program(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], axes: set[int]
) -> Optional[Program]:
    """The program of a function along the last axes, all arrays being contiguous; None where there is none."""
    first = inputs[0]
    count, free = len(axes), first.shape[: first.ndim - len(axes)]
    if axes != set(range(len(free), first.ndim)) or math.prod(first.shape[len(free) :]) < NARROW:
        return None
    for item in (*inputs, *outputs):
        if isinstance(item, np.ndarray) and not item.flags.c_contiguous:
            return None
    for item in inputs:
        if isinstance(item, np.ndarray) and item.ndim > count:
            lead = item.shape[: item.ndim - count]
            if item.ndim != first.ndim or (lead != free and math.prod(lead) != 1):
                return None
    return programs.program(function, inputs, outputs, count, first)


def _row_steps(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], axes: set[int]
) -> Optional[Steps]:
    """The steps of a function along the last axes; None where there are none."""
    first = inputs[0]
    if axes != set(range(first.ndim - len(axes), first.ndim)):
        return None
    return programs.steps(function, inputs, outputs, len(axes), first)


def _as_rows(program: Program, count: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[Any, ...]:
    """What ``program.run`` takes of one piece; the last ``count`` axes are those that the program works along."""
    first = inputs[0]
    lead = first.shape[: first.ndim - count]
    rows = math.prod(lead)
    matrices = [
        item.reshape(-1, math.prod(item.shape[-count:]))
        if isinstance(item, np.ndarray) and item.shape[-count:] != (1,) * count
        else item
        for item in inputs
    ]
    results = [
        item.reshape(rows, -1) if item is not None and item.size == rows * program.width else item for item in outputs
    ]
    return matrices, results, (rows, program.width), (*lead, *(1,) * count)


def _lost_axes(output: Array, first: Array, axes: set[int]) -> Optional[set[int]]:
    """The axes of the first input that an output lacks; None where its shape is neither of the two."""
    free = [axis for axis in range(first.ndim) if axis not in axes]
    if output.ndim == first.ndim and all(output.shape[axis] == first.shape[axis] for axis in free):
        return set()
    if output.shape == tuple(first.shape[axis] for axis in free):
        return axes
    return None


def _without_lost_axes(piece: tuple[slice, ...], lost: Optional[set[int]]) -> tuple[slice, ...]:
    return tuple(part for axis, part in enumerate(piece) if not lost or axis not in lost)


def _cuts(
    shape: tuple[int, ...], free: Sequence[int], size: int, block: int, least: int = 8, singly: Sequence[int] = ()
) -> Iterator[tuple[slice, ...]]:
    """Pieces of about ``block`` elements, cut along the free axes, the first ones first; if large enough ``least`` of them.

    A piece has one index only of the axes that are cut ``singly``.
    """
    whole = [slice(None)] * len(shape)
    axis, n = free[0], shape[free[0]]
    if (size // n > block or axis in singly) and len(free) > 1:
        for i in range(n):
            for inner in _cuts(shape, free[1:], size // n, block, -(-least // n), singly):
                yield (*inner[:axis], slice(i, i + 1), *inner[axis + 1 :])
        return
    step = max(1, min(block * n // size, max(SMALL * n // size, -(-n // least))))
    if axis == len(shape) - 1:
        step = max(step, min(_WIDE, 2 * block * n // size))
    if axis in singly:
        step = 1
    for i in range(0, n, step):
        yield (*whole[:axis], slice(i, min(i + step, n)), *whole[axis + 1 :])


# ------------------------------------------------------------------------------------------------------ both


def prepared(
    function: Callable[..., Any], axes: Optional[Axes], inputs: Sequence[Any], outputs: Sequence[Any], apart: bool
) -> Optional[Callable[[Sequence[Any], Sequence[Any]], bool]]:
    """A call of ``elementwise``, or of ``along``, prepared for arrays of these shapes, strides and data types.

    The returned function takes such arrays and runs the program that was chosen here. It returns False and does nothing if
    the compiled helper has been switched off since, or if outputs overlap inputs (not checked with ``apart``). None instead
    of a function where no single program computes everything.
    """
    if axes is None:
        if any(isinstance(output, list) for output in outputs):
            return None
        elements = _elements(function, inputs, outputs)
        if elements is None or elements.tabled or elements.program is None:
            return None
        program = elements.program
        arguments: tuple[Any, ...] = elements[1:4]
    else:
        lines = _lines(axes, inputs, outputs)
        rows = None if lines is None else _row_program(function, inputs, outputs, lines.axes)
        if lines is None or rows is None or inputs[0].size > _WHOLE:
            return None
        program = rows
        arguments = _as_rows(rows, len(lines.axes), inputs, outputs)
    if not program.single:
        return None
    sizes, lead = arguments[2], arguments[3] if axes is not None else ()
    direct = program.direct(*arguments[:3])
    layouts = program.layouts(*arguments[:3]) if direct is None else {}

    def run(new_inputs: Sequence[Any], new_outputs: Sequence[Any]) -> bool:
        usable = native.runs_programs() and (apart or not _overlaps(new_inputs, new_outputs))
        if usable and direct is not None:
            direct(new_inputs, new_outputs)
        elif usable:
            with np.errstate(all="ignore"):
                program.run(new_inputs, new_outputs, sizes, lead, layouts)
        return usable

    return run


def _overlaps(inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """True where writing a block could change an input of another."""
    targets = [output for output in outputs if output is not None]
    return any(_overlap(item, target) for item in inputs if isinstance(item, np.ndarray) for target in targets)


def _may_share(inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """True where an input and an output may have memory in common."""
    targets = [target for target in outputs if target is not None]
    return any(
        np.may_share_memory(item, target) for item in inputs if isinstance(item, np.ndarray) for target in targets
    )


def _thin(piece: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A piece of an array, all of the axes along which its elements repeat."""
    if piece == (...,):
        return piece
    return tuple(slice(None) if n == 1 else part for part, n in zip(piece, shape))


def _broadcast_to(arrays: Sequence[Array], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays)) == shape
    except ValueError:
        return False


def _overlap(array: Array, target: Array) -> bool:
    """True where writing a block could change an input of another block; two views of the same elements are safe."""
    same = array.strides == target.strides and array.shape == target.shape and array.itemsize == target.itemsize
    if same and native.address(array) == native.address(target):
        return False
    return bool(np.may_share_memory(array, target))


def _merged(shape: tuple[int, ...], arrays: Sequence[Array]) -> tuple[list[Array], tuple[int, ...]]:
    """Views of the arrays over as few axes as possible, in the order of the first one's memory, and the axes' sizes.

    An axis along which an array's elements repeat has size 1 in its view.
    """
    steps = [
        (0,) * (len(shape) - array.ndim) + tuple(0 if n == 1 else step for n, step in zip(array.shape, array.strides))
        for array in arrays
    ]
    axes = [axis for axis in range(len(shape)) if shape[axis] != 1]
    axes.sort(key=lambda axis: -abs(steps[0][axis]))
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in arrays]
    for axis in axes:
        n = shape[axis]
        if sizes and all(merged[-1] == step[axis] * n for merged, step in zip(strides, steps)):
            sizes[-1] *= n
            for merged, step in zip(strides, steps):
                merged[-1] = step[axis]
        else:
            sizes.append(n)
            for merged, step in zip(strides, steps):
                merged.append(step[axis])
    views = [
        np.lib.stride_tricks.as_strided(
            array, tuple(n if step else 1 for n, step in zip(sizes, merged)), merged, writeable=array.flags.writeable
        )
        for array, merged in zip(arrays, strides)
    ]
    return views, tuple(sizes)


__all__ = ["Axes", "along", "elementwise", "of_all", "prepared"]
