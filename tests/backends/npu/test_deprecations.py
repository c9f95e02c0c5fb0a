"""The DeprecationWarning of an operator that the installed CANN marks as deprecated."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_aclnn import catalog
from ascend_aclnn.backends.npu.versions import ops_versions, warn_of_deprecated


def installation(home: Path, toolkit: str, **packages: str) -> Any:
    """What the versions of an installation are read from."""
    (home / "lib64").mkdir(parents=True)
    (home / "ascend_toolkit_install.info").write_text(f"version={toolkit}\n")
    for name, version in packages.items():
        (home / "share/info" / name).mkdir(parents=True)
        (home / "share/info" / name / "version.info").write_text(f"Version={version}\n")
    return SimpleNamespace(directory=home / "lib64", optional=lambda name: None)


@pytest.mark.parametrize(
    ("operator", "toolkit", "packages", "says"),
    [
        ("aclnnQuantMatmulV4", "8.3.RC1", {}, ""),
        ("aclnnQuantMatmulV4", "8.5.0", {}, "use ops.quant_matmul_v5"),
        ("aclnnMlaProlog", "8.5.2", {}, ""),
        ("aclnnMlaProlog", "8.5.2", {"ops_transformer": "9.0.1", "ops_nn": "8.5.2"}, "operators are 9.0.1"),
        ("aclnnAdd", "9.2.0", {}, ""),
        ("aclnnQuantMatmulV4", "a build of our own", {}, ""),
    ],
)
def test_the_release_of_the_operators_decides(
    tmp_path: Path, operator: str, toolkit: str, packages: dict[str, str], says: str
) -> None:
    libraries = installation(tmp_path, toolkit, **packages)
    assert ops_versions(tmp_path) == dict(sorted(packages.items()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_deprecated(catalog.get(operator), libraries)
    assert len(caught) == bool(says)
    if says:
        assert caught[0].category is DeprecationWarning
        assert says in str(caught[0].message)
        assert caught[0].filename == __file__  # the caller's line
