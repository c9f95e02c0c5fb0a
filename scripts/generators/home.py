"""The site's home page, in English and Chinese: one screen that shows what the package is."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from ascend_aclnn import catalog
from ascend_aclnn.catalog import DATA
from ascend_aclnn.cli.coverage import coverage

# The three tabs: title, a sentence, language, code of at most 66 columns. tests/docs/test_site.py runs the Python of each.
TABS = (
    (
        ("On a card", "有昇腾卡"),
        ("After `source set_env.sh`. Without a card the same lines run on NumPy.",
         "先执行 `source set_env.sh`。没有卡时，同样的代码由 NumPy 计算。"),
        "python",
        """\
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops

x = aclnn.asarray(np.ones((4096, 7168), np.float16))
gamma = aclnn.asarray(np.ones(7168, np.float16))

y, rstd = ops.rms_norm(x, gamma)  # queued on the NPU
print(y.numpy())                  # waits for it""",
    ),
    (
        ("In CI, no card", "没有卡的 CI"),
        ("The same test on NumPy, on the emulated device and on a card: `pytest --aclnn-backend=numpy,emulator`",
         "同一个测试可在 NumPy、仿真设备和真实设备上运行：`pytest --aclnn-backend=numpy,emulator`"),
        "python",
        """\
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.testing import assert_accurate

def test_silu(aclnn_backend):
    x = np.linspace(-4, 4, 1000).astype(np.float16)
    y = ops.silu(aclnn.asarray(x))
    golden = x / (1 + np.exp(-x.astype(np.float64)))
    assert_accurate(y, golden)""",
    ),
    (
        ("With torch", "与 torch 一起用"),
        ("torch tensors in, torch tensors out; `npu` tensors of torch_npu share memory and stream.",
         "传入 torch 张量即返回 torch 张量；torch_npu 的 `npu` 张量共享显存与流。"),
        "python",
        """\
import torch
from ascend_aclnn import ops

x = torch.randn(8, 64)        # or .npu()
gate = ops.silu(x)            # a torch.Tensor
y, rstd = ops.rms_norm(gate, torch.ones(64))
print(y.mean(), rstd.shape)""",
    ),
)  # fmt: skip

TITLE = "ascend_aclnn"
LEAD = (
    "Every operator of CANN's <code>aclnn</code> interface as a Python function. On an Ascend NPU it runs CANN's kernel,"
    " through ctypes, with nothing to compile. On any other host NumPy answers, with the same shapes, dtypes, rounding and"
    " errors.",
    "把 CANN 的每一个 <code>aclnn</code> 算子变成 Python 函数。有昇腾 NPU 时，经 ctypes 直接调用 CANN 的算子核函数，无需编译；"
    "没有 NPU 时由 NumPy 计算，形状、数据类型、舍入和错误码都与 CANN 一致。",
)
INSTALL = (
    ("Get started", "start/", "Find an operator", "operators/", "First day on a card", "hardware/"),
    ("快速入门", "start/", "查找算子", "operators/", "卡上的第一天", "hardware/"),
)
FIGURES = (
    ("operators, each a function with a real signature", "个算子，每个都是有完整签名的函数"),
    ("with a NumPy reference", "个有 NumPy 参考实现"),
    ("CANN functions on the emulated device", "个 CANN 接口可在仿真设备上链接"),
    ("error codes with cause and remedy", "个错误码附有原因与处理方法"),
)


def figures() -> list[tuple[int, str]]:
    """Numbers, and the pages that they lead to."""
    from ascend_aclnn.core import error_codes

    operators = [catalog.get(name) for name in catalog.names()]
    references = sum(coverage(operator).reference for operator in operators)
    functions = json.loads((DATA / "runtime_functions.json").read_text(encoding="utf-8"))
    return [
        (len(operators), "operators/"),
        (references, "cann-and-numpy/"),
        (len(functions), "emulator/"),
        (len(error_codes.all_codes()), "errors/"),
    ]


PICTURE_WORDS = (
    ("ops.rms_norm(x, gamma)", "your program", "bind and check", "catalog, rules", "npu", "ctypes", "CANN: libopapi",
     "an Ascend card", "emulated device", "drop-in CANN libraries", "numpy", "NumPy references", "results, or one AclError"),
    ("ops.rms_norm(x, gamma)", "用户程序", "绑定与校验", "算子目录、校验规则", "npu", "ctypes", "CANN：libopapi",
     "昇腾卡", "仿真设备", "可替换的 CANN 动态库", "numpy", "NumPy 参考实现", "结果，或一个 AclError"),
)  # fmt: skip


def box(x: int, y: int, width: int, words: Sequence[str], height: int = 46) -> str:
    lines = [f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>']
    first = y + height / 2 + (5 if len(words) == 1 else -3)
    for i, text in enumerate(words):
        more = ' class="light"' if i else ' font-weight="600"'
        place = f'x="{x + width / 2}" y="{first + 17 * i}" font-size="{12 if i else 13}" text-anchor="middle"'
        lines.append(f"<text {place}{more}>{html.escape(text)}</text>")
    return "".join(lines)


def arrow(path: str) -> str:
    return f'<path class="arrow" d="{path}" stroke-width="1.4" marker-end="url(#tip)"/>'


def svg(kind: str, width: int, height: int, language: int, parts: Sequence[str]) -> str:
    """A picture in one line, with the arrows' tip."""
    tip = f'<marker id="tip-{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    tip += '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker>'
    name = ("How a call travels", "一次调用的流程")[language]
    head = f'<svg class="drawn {kind}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
    body = "".join(parts).replace("url(#tip)", f"url(#tip-{kind})")
    return f'{head} aria-label="{name}"><defs>{tip}</defs>{body}</svg>'


def note(x: int, y: int, text: str) -> str:
    return f'<text class="light" x="{x}" y="{y}" font-size="12">{html.escape(text)}</text>'


def pictures(language: int) -> str:
    """How a call travels: from left to right, and for phones from top to bottom."""
    (call, program, bind, rules, npu, ctypes, library, card, emulated, drop_in, numpy, references, results) = (
        PICTURE_WORDS[language]
    )
    wide = [
        box(4, 62, 190, (call, program)),
        arrow("M194 85 H226"),
        box(228, 62, 150, (bind, rules)),
        arrow("M378 78 C400 78 396 31 420 31"),
        box(422, 8, 130, (npu, ctypes)),
        arrow("M378 92 C400 92 396 139 420 139"),
        box(422, 116, 130, (numpy, references)),
        arrow("M552 31 H590"),
        box(592, 8, 160, (library, card)),
        arrow("M552 38 C572 38 572 85 590 85"),
        box(592, 62, 160, (emulated, drop_in)),
        note(228, 140, results),
        arrow("M422 148 H100 V110"),
    ]
    narrow = [
        box(70, 4, 200, (call, program)),
        arrow("M170 50 V72"),
        box(70, 74, 200, (bind, rules)),
        arrow("M120 120 C120 132 80 132 80 144"),
        box(4, 146, 154, (npu, ctypes)),
        arrow("M220 120 C220 132 258 132 258 144"),
        box(182, 146, 154, (numpy, references)),
        arrow("M60 192 V216"),
        box(4, 218, 154, (library, card)),
        arrow("M140 192 C140 206 259 200 259 216"),
        box(182, 218, 154, (emulated, drop_in)),
    ]
    return svg("wide", 760, 170, language, wide) + svg("narrow", 340, 270, language, narrow)


def page(language: int) -> str:
    """Markdown with HTML, for MkDocs. English is 0, Chinese 1."""
    actions = INSTALL[language]
    buttons = " ".join(
        f'<a class="md-button{" md-button--primary" if not i else ""}" href="{actions[i + 1]}">{actions[i]}</a>'
        for i in range(0, len(actions), 2)
    )
    shown = "".join(
        f'<a href="{target}"><strong>{number:,}</strong><span>{words[language]}</span></a>'
        for (number, target), words in zip(figures(), FIGURES)
    )
    tabs = []
    for titles, sentences, kind, code in TABS:
        tabs += [f'=== "{titles[language]}"', "", f"    ```{kind}"]
        tabs += [f"    {line}".rstrip() for line in code.splitlines()]
        tabs += ["    ```", "", f"    {sentences[language]}", ""]
    return "\n".join(
        [
            "---",
            "hide: [navigation, toc]",
            f"title: {('Home', '首页')[language]}",
            "search: {exclude: true}",
            "---",
            '<div class="hero" markdown>',
            "<div markdown>",
            "",
            f"<h1>{TITLE}</h1>",
            f'<p class="lead">{LEAD[language]}</p>',
            f"<p>{buttons}</p>",
            f'<div class="figures">{shown}</div>',
            "",
            "</div>",
            '<div markdown="block">',
            "",
            *tabs,
            "</div>",
            "</div>",
            "",
            f'<div class="picture">{pictures(language)}</div>',
            "",
        ]
    )
