"""What is found for one test of an operator serves the others, in whichever process of pytest they run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import operator_arguments
import pytest


@pytest.fixture(autouse=True, scope="session")
def arguments_are_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "operator-arguments"
    place.mkdir(mode=0o700, exist_ok=True)
    operator_arguments.SHARED = place
    yield
    operator_arguments.SHARED = None
