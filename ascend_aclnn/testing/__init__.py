"""A testing kit for operators: CANN's accuracy standards, and a pytest plugin that chooses the backend.

    from ascend_aclnn.testing import assert_accurate, compare

    assert_accurate(actual, golden)                         # AssertionError with the worst elements
    print(compare(actual, golden, standard="bit_equal"))    # a Comparison: verdict, figures, worst elements

The plugin is installed with the package: ``pytest --aclnn-backend=numpy,emulator`` and the fixtures ``aclnn_backend``,
``aclnn_device`` and ``aclnn_stream``.
"""

from __future__ import annotations

from ascend_aclnn.testing.compare import Comparison, Deviation, compare
from ascend_aclnn.testing.failures import AccuracyError, assert_accurate
from ascend_aclnn.testing.standards import STANDARDS, Standard, thresholds

__all__ = [
    "STANDARDS",
    "AccuracyError",
    "Comparison",
    "Deviation",
    "Standard",
    "assert_accurate",
    "compare",
    "thresholds",
]
