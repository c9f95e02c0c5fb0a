"""The command line, one module for each group of commands."""

from __future__ import annotations

from ascend_aclnn.cli.main import main

__all__ = ["main"]
