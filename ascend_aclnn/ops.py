"""Every aclnn operator as a function, made from its catalog entry on first use.

``ops.rms_norm_grad`` is aclnnRmsNormGrad: drop the prefix, snake case. ``help(ops.rms_norm_grad)`` describes it;
``dir(ops)`` lists all; ``ops.pyi`` has the signatures for editors and type checkers.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import linecache
import textwrap
import warnings
from typing import Any, Callable

from ascend_aclnn import call, catalog
from ascend_aclnn.catalog.signature import docstring, python_parameters
from ascend_aclnn.core.errors import AclError

# The body of every operator function: the only frame between the caller's line and what is wrong with the call.
_SOURCE = """
def {name}({head}*, out=None, stream=None, **unknown):
    if unknown:
        raise TypeError(_unexpected(_plan.operator, unknown))
{note}    try:
        return {result}
    except (_AclError, TypeError, ValueError) as error:
        raise _outside(error) from error.__cause__
"""


def _make(name: str) -> Callable[..., Any]:
    """The function of one operator."""
    operator = catalog.get(name)
    scope: dict[str, Any] = {
        "_call": call.call,
        "_plan": call.plan(operator),
        "_AclError": AclError,
        "_outside": _outside,
        "_unexpected": _unexpected,
    }
    head = ""
    arguments = ""
    for i, (parameter, _, default) in enumerate(python_parameters(operator)):
        arguments += f"{parameter}, "
        if default is inspect.Parameter.empty:
            head += f"{parameter}, "
        else:
            scope[f"_{i}"] = default
            head += f"{parameter}=_{i}, "
    note = ""
    if operator.experimental and operator.python_name in catalog.other_names():
        scope["_note"] = functools.partial(_note, operator)
        note = "    _note()\n"
    result = f"_call(_plan, ({arguments}), out, stream)"
    if operator.unwritten_outputs:
        scope["_written"] = _written
        asked = {p.name: p.python_name for p in operator.parameters}
        fields = ", ".join(f"{asked[name]}={asked[flag]}" for name, flag in operator.unwritten_outputs.items())
        result = f"_written({result}, out, {fields})"
    source = _SOURCE.format(name=operator.python_name, head=head, result=result, note=note).lstrip()
    file = f"ascend_aclnn.ops/{operator.python_name}"
    # What inspect, and so `ops.x??` in IPython, shows; made on request.
    linecache.cache[file] = (lambda: source + _reference_text(operator),)
    exec(compile(source, file, "exec"), scope)  # the text is made of catalog names only
    function: Callable[..., Any] = scope[operator.python_name]
    function.__doc__ = docstring(operator)
    shown = inspect.signature(function)
    parameters = [p for p in shown.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    function.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__module__ = __name__
    return function


def _written(results: Any, out: Any, **asked: bool) -> Any:
    """The results with None for those that were not asked for: CANN takes memory for them and leaves it as it is."""
    given = dict(zip(results._fields, results if out is None else out))
    unwritten = (name for name, wanted in asked.items() if not wanted and (out is None or given[name] is None))
    return results._replace(**dict.fromkeys(unwritten))


def _note(operator: catalog.Operator) -> None:
    """Warns, at the caller's line, that a contributed operator has the name of a function of torch's or NumPy's."""
    meant = " or ".join(f"ops.{name}" for name in catalog.other_names()[operator.python_name].split())
    text = f"ops.{operator.python_name} is the contributed {operator.name}, which CANN's packages lack"
    warnings.warn(f"{text}; the function of this name in torch is {meant}", UserWarning, stacklevel=3)


def _outside(error: Exception) -> Exception:
    """An error of the call without the frames of this package. One that a reference raised itself keeps its frames."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    where = "" if innermost is None else innermost.tb_frame.f_globals.get("__name__", "")
    if isinstance(error, AclError) or where.startswith(("ascend_aclnn.call", "ascend_aclnn.core")):
        return error.with_traceback(None)
    return error


def _reference_text(operator: catalog.Operator) -> str:
    """Where the NumPy backend's reference is, and its source, as comments at the end of a function."""
    from ascend_aclnn import reference

    entry = reference.find(operator)
    if entry is None:
        return f"    # {operator.name} on a device; the NumPy backend has no reference for it.\n"
    function = inspect.unwrap(entry.function)
    if isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if not inspect.isfunction(function):  # a ufunc of NumPy, which has no source
        name = getattr(function, "__name__", type(function).__name__)
        return f"    # {operator.name} on a device; on the NumPy backend, with widened arguments, {name}.\n"
    lines, first = inspect.getsourcelines(function)
    place = f"{function.__module__}, line {first}"
    text = textwrap.dedent("".join(lines)).splitlines()
    head = f"    # {operator.name} on a device; on the NumPy backend, with widened arguments ({place}):\n    #\n"
    return head + "".join(f"    #     {line}".rstrip() + "\n" for line in text)


def _unexpected(operator: catalog.Operator, unknown: dict[str, Any]) -> str:
    """The message about keyword arguments that the function does not have."""
    names = [p.python_name for p in operator.inputs]
    name = next(iter(unknown))
    close = [n for n in names if n.startswith(name)] or difflib.get_close_matches(name, names, 1, 0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    text = f"{operator.python_name}() got an unexpected keyword argument {name!r}; {hint}"
    return text + f"it takes {', '.join(names)}, out and stream"


def __getattr__(name: str) -> Any:
    if name[:1].isupper() and name.endswith("Result"):
        return getattr(call.results, name)
    names = catalog.python_names()
    if name not in names:
        # What asks for a private name only looks whether it is there, as inspect, copy and pytest do, and reads no suggestion.
        hint = "" if name.startswith("_") else _suggestion(name)
        raise AttributeError(f"module {__name__!r} has no operator {name!r}{hint}")
    function = _make(names[name])
    globals()[name] = function
    return function


def _forget(operator: catalog.Operator) -> None:
    """Drops the function of an operator that is registered again, perhaps with another prototype."""
    globals().pop(operator.python_name, None)


catalog.when_registered(_forget)


def __dir__() -> list[str]:
    return sorted(catalog.python_names())


def _suggestion(name: str) -> str:
    """ "; did you mean ..." for a name that no operator has."""
    close = _close_names(name)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _close_names(name: str) -> list[str]:
    """The same name in another spelling, what torch or NumPy calls so, in place as torch marks it, or nearly the same."""
    names = catalog.python_names()

    def plain(text: str) -> str:
        text = text.replace("_", "").lower()
        return text[5:] if text.startswith("aclnn") else text

    if name.startswith("npu_"):  # as torch_npu calls its own
        name = name[4:]
    stem = name.rstrip("_")
    forms = ("", "_scalar", "_tensor", "_tensor_scalar", "_tensor_tensor")
    in_place = [f"inplace_{stem}{form}" for form in forms] if name.endswith("_") else []
    return (
        [k for k in in_place if k in names]
        or [k for k in names if plain(k) == plain(name)]
        or catalog.other_names().get(stem, "").split()
        or [k for k in names if k.startswith(f"{stem}_")][:3]
        or difflib.get_close_matches(name, names, 3, 0.75)
    )
