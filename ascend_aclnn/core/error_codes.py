"""What an error code means, what usually causes it with this package, and what to do: ``data/errors.json``.

Codes are CANN's statuses ("161002"), the codes of its error reference ("EE2002"), HCCL's results ("5") and the errors of the
emulated device ("EMULATOR_USE_AFTER_FREE"). Names and numbers are CANN's; the words are this package's.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

DATA = Path(__file__).parent / "data" / "errors.json"


class ErrorCode(NamedTuple):
    """One code. ``cause`` and ``remedy`` are "" where there is nothing to say that the meaning does not."""

    code: str  # "161002", "EE2002", "5", "EMULATOR_NULL_HANDLE"
    name: str  # CANN's constant, or the title in its error reference
    component: str
    meaning: str
    cause: str = ""
    remedy: str = ""
    quiet: bool = False  # an error with this code says what to do by itself: its text needs no remedy
    chinese_meaning: str = ""
    chinese_remedy: str = ""


class CodeGroup(NamedTuple):
    """What is known of all codes with the same first characters."""

    component: str
    meaning: str
    chinese_meaning: str


@functools.cache
def _data() -> tuple[dict[str, ErrorCode], dict[str, CodeGroup], dict[str, str]]:
    """The codes, the groups by their prefixes, and the codes by what they may be called, in capitals."""
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    groups = {prefix: CodeGroup(**words) for prefix, words in stored["groups"].items()}
    codes = {}
    for code, words in stored["codes"].items():
        group = _group(groups, words["name"] if len(code) < 3 else code)
        chinese = words.pop("zh", {})
        words.setdefault("meaning", group.meaning)
        codes[code] = ErrorCode(
            code,
            component=group.component,
            chinese_meaning=chinese.get("meaning", ""),
            chinese_remedy=chinese.get("remedy", ""),
            **words,
        )
    spellings = {entry.name: entry.code for entry in codes.values() if re.fullmatch(r"[A-Z]+_[A-Z0-9_]+", entry.name)}
    return codes, groups, {**spellings, **{code: code for code in codes}}


def _group(groups: dict[str, CodeGroup], code: str) -> CodeGroup:
    return next((words for prefix, words in groups.items() if code.startswith(prefix)), CodeGroup("CANN", "", ""))


def all_codes() -> list[ErrorCode]:
    """Every code, in the order of the data: numbers, CANN's codes with letters, the emulated device's."""
    return list(_data()[0].values())


def groups() -> dict[str, CodeGroup]:
    """What is known of all codes with the same first characters, by these; HCCL's results go by their names."""
    return dict(_data()[1])


def find(word: str) -> Optional[ErrorCode]:
    """The entry of a code or of a constant's name, in any case; None where there is none."""
    codes, _, spellings = _data()
    code = spellings.get(word.strip().upper())
    return None if code is None else codes[code]


def group_of(word: str) -> Optional[CodeGroup]:
    """What is known of a code that has no entry, by its first characters; None for what is no code at all."""
    word = word.strip().upper()
    if not re.fullmatch(r"\d{6}|[EW][A-Z0-9]\d{4}", word):
        return None
    group = _group(_data()[1], word)
    return group if group.meaning else None


def near(word: str, count: int = 3) -> list[str]:
    """Codes and names that are spelt like a word."""
    import difflib  # only where a word is not known

    return difflib.get_close_matches(word.strip().upper(), _data()[2], count, 0.6)


# Patterns are compiled at their first use: an import that meets no error has none of their cost.
_WORD = r"\b(?:[EW][A-Z0-9]\d{4}|(?:ACL|ACLNN|HCCL|EMULATOR)_[A-Z0-9_]+)\b"
# A number between other characters is part of a time, an address or a process id, as in "RUNTIME(107002,python)".
_NUMBER = r"(?<![\w.:\-])(?<!PID: )(?<![A-Z]\()\d{6}(?![\w:\-]|\.\d)"
_ROUND = r"(?i)(?:status|error|err|ret|retcode|code|result|returned|failed)\W*(?:(?:is|with|code)\W*)?$"
# HCCL's results: in its log with the module in the upper bytes, in torch_npu's message, in an AclError.
_HCCL = (
    r"errNo\[0x0*5(?P<log>[0-9a-fA-F]{6})\]"
    r"|HCCL function error:[^\n]*error code is (?P<torch>\d+)"
    r"|\bstatus (?P<status>\d{1,2})\b[^\n]* from Hccl"
)


def in_text(text: str) -> list[ErrorCode]:
    """All codes, statuses and names in a text (a plog, a traceback), each once, in the order in which they come."""
    places = sorted([*_words(text), *_numbers(text)], key=lambda place: place[0])
    return list(dict.fromkeys(entry for _, entry in places))


def _words(text: str) -> Iterator[tuple[int, ErrorCode]]:
    for match in re.finditer(_WORD, text):
        entry = find(match.group())
        if entry is not None:
            yield match.start(), entry


def _numbers(text: str) -> Iterator[tuple[int, ErrorCode]]:
    for match in re.finditer(_NUMBER, text):
        entry = find(match.group())
        # A round number is a status only where the text says so: 100000 may count anything.
        before = text[max(0, match.start() - 30) : match.start()]
        if entry is not None and (int(entry.code) % 1000 or re.search(_ROUND, before)):
            yield match.start(), entry
    for match in re.finditer(_HCCL, text):
        number = int(match["log"], 16) if match["log"] else int(match["torch"] or match["status"])
        entry = find(str(number)) if number else None
        if entry is not None:
            yield match.start(), entry


def remedy_of(text: str, status: Optional[int] = None) -> str:
    """What to do about an error by its text, else by its status; "" where that would say nothing new.

    A code with letters is about one cause, a status about many. Numbers of the text may count anything; only with no
    status are they taken for statuses.
    """
    entries = [entry for _, entry in _words(text)]
    named = find(str(status)) if status else None
    if named is not None:
        entries.append(named)
    elif status is None:
        entries += [entry for _, entry in _numbers(text)]
    entries.sort(key=lambda entry: entry.code.isdigit())
    return next((entry.remedy for entry in entries if entry.remedy and not entry.quiet), "")
