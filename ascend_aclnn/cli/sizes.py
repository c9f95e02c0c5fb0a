"""Numbers of bytes on the command line."""

from __future__ import annotations

import argparse
import re


def size(text: str) -> int:
    """512, 512K, 512M, 16G or 1T in bytes."""
    match = re.fullmatch("([0-9]{1,18})([KMGT]?)", text, re.IGNORECASE | re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not a number of bytes, as 512M or 16G")
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")
