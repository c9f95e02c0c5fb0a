"""Arguments for any operator, found by trying: small random ones, until phase one and the reference accept a set."""

from __future__ import annotations

import functools
import os
import pickle
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np
from long_tests import LONG

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import AclError, ops, reference
from ascend_aclnn.catalog import Operator
from ascend_aclnn.verify.drawn import Draws

# Where the processes of one run leave what they have found for each other; each would search for itself otherwise.
SHARED: Optional[Path] = None
TRIES = 300
TRIES_BESIDE_AN_EXAMPLE = TRIES if LONG else 60  # most such operators ask for more than chance finds


class Search(Draws):
    """Tries arguments of one operator, the same ones on every run."""

    def find(self, count: int) -> list[list[Any]]:
        """Up to ``count`` sets that run on the NumPy backend."""
        function, found = getattr(ops, self.operator.python_name), []
        with aclnn.use_backend("numpy"):
            for _ in range(TRIES if self.operator.example is None else TRIES_BESIDE_AN_EXAMPLE):
                arguments = self.draw()
                try:
                    function(*copied(arguments))
                except AclError:
                    continue
                except (TypeError, ValueError) as error:  # a wrong call; one from inside does not begin so
                    if not str(error).startswith(self.operator.name + ":"):
                        raise
                    continue
                found.append(arguments)
                if len(found) == count:
                    break
        return found


@functools.cache
def found(operator: Operator) -> list[list[Any]]:
    """A set of arguments that a search finds, by the default's rules; two where there is no example."""
    if reference.find(operator) is None or samples.soc(operator) is not None:
        return []
    kept = SHARED / operator.name if SHARED is not None else None
    if kept is not None and kept.exists():
        sets: list[list[Any]] = pickle.loads(kept.read_bytes())
        return sets
    sets = Search(operator).find(2 if operator.example is None else 1)
    if kept is not None:
        part = kept.with_name(f"{kept.name}.{os.getpid()}")
        part.write_bytes(pickle.dumps(sets))
        part.rename(kept)  # whole, or not there
    return sets


def copied(value: Any) -> Any:
    """The arguments again, in memory of their own: in-place operators change theirs."""
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def changed(value: Any, change: Callable[[Any], Any], shape: Optional[tuple[int, ...]] = None) -> Any:
    """An array, or the arrays of a list, changed; with ``shape``, where they have it."""
    if isinstance(value, list):
        return [changed(item, change, shape) for item in value]
    return change(value) if isinstance(value, np.ndarray) and shape in (None, value.shape) else value


def shapes(arguments: list[Any]) -> str:
    """The arguments in words, arrays by data type and shape."""
    return ", ".join(f"{a.dtype} {a.shape}" if isinstance(a, np.ndarray) else repr(a) for a in arguments)


def listed(path: Path) -> set[str]:
    """The operators of a list of gaps: the first word of each line that is no comment."""
    return {line.split()[0] for line in path.read_text().splitlines() if line[0] != "#"}


def spread(value: Any) -> Any:
    """The same arguments as views with gaps, backwards and in column-major order."""
    if isinstance(value, list):
        return [spread(item) for item in value]
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    wide = np.zeros((*(2 * n for n in value.shape[:-1]), 3 * value.shape[-1]), value.dtype, "F")
    view = wide[(*(slice(None, None, -2) for _ in value.shape[:-1]), slice(1, None, 3))]
    view[...] = value
    return view


def arrays(results: Any) -> list[Any]:
    """The results of an operator in one flat list."""
    if isinstance(results, (list, tuple)):
        return [array for item in results for array in arrays(item)]
    return [results]
