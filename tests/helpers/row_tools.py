"""Rows of one test: a test of its own costs 2 ms of pytest's time, which is more than many rows take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any, Callable

import pytest

FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)  # a row that is skipped would hide those after it


def in_one_test(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``, in one test: every row runs, and the failure names each one that failed."""
    words, values = [name.strip() for name in names.split(",")], list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every_row(**fixtures: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for row in values:
                arguments = dict(zip(words, row if len(words) > 1 else [row]))
                try:
                    test(**fixtures, **arguments)
                except FAILURES as error:
                    failed.append((f"{_shown(arguments)}: {type(error).__name__}: {error}", error))
            if failed:
                count = f"{len(failed)} of {len(values)} rows failed"
                raise AssertionError("\n".join([count, *(text for text, _ in failed)])) from failed[0][1]

        signature = inspect.signature(test)
        assert values and set(words) <= set(signature.parameters)
        left = [parameter for name, parameter in signature.parameters.items() if name not in words]
        every_row.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return every_row

    return decorate


def _shown(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(value, 'name', value)}" for name, value in arguments.items())
