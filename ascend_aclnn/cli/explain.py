"""``ascend-aclnn explain``: what an error code means, what usually causes it with this package, and what to do."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ascend_aclnn.core import error_codes
from ascend_aclnn.core.error_codes import ErrorCode


def add_commands(subparsers: Any) -> None:
    """Adds ``explain`` to the command line."""
    parser = subparsers.add_parser("explain", help="what an error code means, what causes it, and what to do")
    parser.add_argument(
        "text",
        nargs="*",
        metavar="CODE or TEXT",
        help="EE2002, 507015, ACLNN_ERR_PARAM_INVALID, or a text with codes in it: an error, a traceback, a plog; "
        "without any, the text is read from standard input",
    )
    parser.add_argument("--chinese", action="store_true", help="in Chinese, where there are Chinese words")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    words = options.text or [sys.stdin.read()]
    entries, unknown = look_up(words)
    if options.json:
        print(json.dumps({"codes": [entry._asdict() for entry in entries], "unknown": unknown}, indent=2))
    else:
        print("\n\n".join(explained(entry, options.chinese) for entry in entries), end="\n" if entries else "")
    for word in unknown:
        print(f"ascend-aclnn: {_unknown(word)}", file=sys.stderr)
    if not entries and not unknown:
        print("ascend-aclnn: there is no error code in the text", file=sys.stderr)
    return 0 if entries and not unknown else 1


def look_up(words: list[str]) -> tuple[list[ErrorCode], list[str]]:
    """The codes of command line words, each once, and the words that are none. Words that are not all codes are a text."""
    parts = words if all(map(_is_code, words)) else [" ".join(words)]
    codes: list[ErrorCode] = []
    unknown = []
    for part in parts:
        entry = error_codes.find(part)
        entries = [entry] if entry else error_codes.in_text(part)
        codes += entries
        if not entries and len(part.split()) == 1:
            unknown.append(part.strip())
    return list(dict.fromkeys(codes)), unknown


def _is_code(word: str) -> bool:
    return error_codes.find(word) is not None or error_codes.group_of(word) is not None


def _unknown(word: str) -> str:
    near = error_codes.near(word)
    group = error_codes.group_of(word)
    text = f"{word} is no code that is known here"
    if group is not None:
        text += f"; codes like it are of {group.component}: {group.meaning}"
    return f"{text}\n  near it: {', '.join(near)}" if near else text


def explained(entry: ErrorCode, chinese: bool = False) -> str:
    """One code in lines."""
    title = entry.name if entry.name == entry.code else f"{entry.code} {entry.name}"
    if chinese and entry.chinese_meaning:
        rows = [("含义", entry.chinese_meaning), ("处理", entry.chinese_remedy)]
    else:
        rows = [("means", entry.meaning), ("cause", entry.cause), ("to do", entry.remedy)]
    return "\n".join([f"{title} ({entry.component})", *(f"  {label:<7}{text}" for label, text in rows if text)])
