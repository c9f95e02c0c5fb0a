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

COMMENTS = (
    ("# queued on the NPU", "# 下发到 NPU，异步执行"),
    ("# waits for it", "# 等待结果"),
    ("# or .npu()", "# 或 .npu()"),
    ("# a torch.Tensor", "# 返回 torch.Tensor"),
)
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
    ("ops.rms_norm(x, gamma)", "your program: results, or one AclError", "bind and check", "catalog, rules", "npu", "ctypes",
     "CANN: libopapi", "an Ascend card", "emulated device", "drop-in CANN libraries", "numpy", "NumPy references"),
    ("ops.rms_norm(x, gamma)", "用户程序：得到结果，或一个 AclError", "绑定与校验", "算子目录、校验规则", "npu", "ctypes",
     "CANN：libopapi", "昇腾卡", "仿真设备", "可替换的 CANN 动态库", "numpy", "NumPy 参考实现"),
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


def picture(language: int) -> str:
    """How a call travels, from top to bottom: as wide as a phone's screen."""
    (call, program, bind, rules, npu, ctypes, library, card, emulated, drop_in, numpy, references) = PICTURE_WORDS[
        language
    ]
    parts = [
        box(52, 4, 256, (call, program)),
        arrow("M180 50 V70"),
        box(76, 72, 208, (bind, rules)),
        arrow("M130 118 C130 130 85 130 85 142"),
        box(4, 144, 162, (npu, ctypes)),
        arrow("M230 118 C230 130 275 130 275 142"),
        box(194, 144, 162, (numpy, references)),
        arrow("M60 190 V212"),
        box(4, 214, 162, (library, card)),
        arrow("M130 190 C130 204 275 196 275 212"),
        box(194, 214, 162, (emulated, drop_in)),
        arrow("M356 167 C378 167 378 27 310 27"),
    ]
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    tip += '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker>'
    name = ("How a call travels", "一次调用的流程")[language]
    head = '<svg class="drawn" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 380 264" role="img"'
    return f'{head} aria-label="{name}"><defs>{tip}</defs>{"".join(parts)}</svg>'


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
        if language:
            for english, chinese in COMMENTS:
                code = code.replace(english, chinese)
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
            f'<div class="picture">{picture(language)}</div>',
            "",
            "</div>",
            "</div>",
            "",
        ]
    )
