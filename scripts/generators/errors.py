"""docs/errors.md: every error code, what it means, what usually causes it and what to do."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

from ascend_aclnn.core import error_codes
from ascend_aclnn.core.error_codes import CodeGroup, ErrorCode
from generators import operator_pages
from generators.pages import NOTE

FOLDER = None
PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"

INTRODUCTION = """\
# Error codes

`ascend-aclnn explain` finds these codes in whatever it is given: a code, a name, an error's text, a traceback, a plog.

```console
$ ascend-aclnn explain EE2002
$ ascend-aclnn explain ACLNN_ERR_PARAM_INVALID
$ ascend-aclnn explain < ~/ascend/log/debug/plog/plog-12345_20260101000000000.log
```

Numbers are the statuses that CANN's functions return; in them 1 at the front means a wrong call, 2 a resource that is missing, 3
and 5 a fault inside. Codes with letters stand in the texts of CANN; their titles are those of its error reference. Small numbers
are results of HCCL. Names that begin with `EMULATOR_` are errors of the [emulated device](emulator/README.md). `0` is success.
The words are this package's: they say what its users meet. CANN's own error reference and the plog say more.
"""

CHINESE_INTRODUCTION = """\
# 错误码

`ascend-aclnn explain --chinese` 可从错误码、名称、报错文本、traceback 或 plog 中找出下列错误码并给出说明。

```console
$ ascend-aclnn explain --chinese EE2002
$ ascend-aclnn explain --chinese < ~/ascend/log/debug/plog/plog-12345_20260101000000000.log
```

六位数字是 CANN 接口的返回码：首位 1 表示调用有误，2 表示资源不足，3 和 5 表示内部故障。带字母的错误码出现在 CANN 的报错文本中。\
小数字是 HCCL 的返回值。以 `EMULATOR_` 开头的是[仿真设备](emulator/README.md)的错误。`0` 表示成功。没有中文说明的条目为英文。
"""


def title(prefix: str, group: CodeGroup) -> str:
    if prefix.isdigit():
        return f"{prefix}xxx: {group.component}"
    return group.component if "_" in prefix else f"{prefix}: {group.component}"


HEADS = (("code", "name", "what it means", "usual cause", "what to do"), ("代码", "名称", "含义", "处理"))


def cells(entry: ErrorCode, chinese: bool) -> list[str]:
    """Code, name and words, as HTML."""
    name = "" if entry.name == entry.code else entry.name
    if chinese:
        words = [entry.chinese_meaning or entry.meaning, entry.chinese_remedy or entry.remedy]
    else:
        words = [entry.meaning, entry.cause, entry.remedy]
    return [html.escape(text, quote=False) for text in (entry.code, name, *words)]


def rows(group: CodeGroup, entries: list[ErrorCode], chinese: bool, fit: bool) -> Iterator[str]:
    """A table of the codes with words of their own, and a list of the others."""
    plain = [entry for entry in entries if entry.meaning == group.meaning and not entry.remedy]
    described = [cells(entry, chinese) for entry in entries if entry not in plain]
    head = HEADS[chinese]
    if described and fit:
        both = [
            [f'<code>{code}</code><span class="small">{name.replace("_", "_<wbr>")}</span>', *words]
            for code, name, *words in described
        ]
        yield from operator_pages.table("errors", (head[0], *head[2:]), both)
    elif described:
        yield f"| {' | '.join(head)} |"
        yield "| --- " * len(head) + "|"
        for code, *words in described:
            yield f"| {' | '.join([f'`{code}`', *(text.replace('|', chr(92) + '|') for text in words)])} |"
    if described and plain:
        yield ""
    if plain:
        label, end = ("其他：", "。") if chinese else ("Others: ", ".")
        codes = ", ".join(f"`{entry.code}` {html.escape(entry.name, quote=False)}" for entry in plain)
        yield f"{label}{codes}{end}"


def page(chinese: bool = False, fit: bool = False) -> str:
    """The page in English or Chinese; ``fit``: with tables of the site, which fit a screen."""
    lines = [NOTE, CHINESE_INTRODUCTION if chinese else INTRODUCTION]
    entries = error_codes.all_codes()
    for prefix, group in error_codes.groups().items():
        some = [e for e in entries if (e.name if prefix == "HCCL_E_" else e.code).startswith(prefix)]
        if some:
            meaning = group.chinese_meaning if chinese else group.meaning
            lines += [f"## {title(prefix, group)}", "", meaning, "", *rows(group, some, chinese, fit), ""]
    return "\n".join(lines)


def files() -> dict[Path, str]:
    return {PAGE: page()}
