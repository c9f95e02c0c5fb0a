"""The words of operators' pages in Chinese: headings, table heads and standard sentences, from the English ones.

What an operator's own data says in English (the meanings of parameters) stays as it is.
"""

from __future__ import annotations

import re
from typing import Callable

WORDS = {
    # headings and heads of tables
    "## Parameters and results": "## 参数与返回值",
    "## Example": "## 示例",
    "## CANN and NumPy": "## CANN 与 NumPy",
    "## Statuses": "## 返回码",
    "## Checks": "## 校验项",
    "## In C": "## C 接口",
    "name": "名称",
    "type": "类型",
    "shape": "形状",
    "meaning": "含义",
    "status": "返回码",
    "when": "条件",
    "identifier (AclError.rule)": "标识（AclError.rule）",
    "source": "依据",
    "None.": "无。",
    # relations
    "gradient of": "前向算子",
    "gradient": "梯度算子",
    "in place": "原地形式",
    "not in place": "非原地形式",
    "versions": "其他版本",
    # kinds and directions of parameters
    "tensor": "张量",
    "tensors": "张量列表",
    "scalar": "标量",
    "scalars": "标量列表",
    "int": "int",
    "ints": "int 数组",
    "float": "float",
    "floats": "float 数组",
    "bool": "bool",
    "bools": "bool 数组",
    "str": "str",
    "DataType": "DataType",
    "in": "输入",
    "out": "输出",
    "inout": "输入输出",
    "optional": "可选",
    "contiguous only": "须连续",
    "changed in place": "原地修改",
    "default () (all axes)": "默认 ()（所有轴）",
    "default None (the data type of the input, INT64 for integers)": "默认 None（与输入的数据类型相同，整数为 INT64）",
    "any rank": "任意维数",
    # facts
    "products": "支持的产品系列",
    "not documented": "文档未说明",
    "since": "起始版本",
    "unknown": "未知",
    "life": "版本变化",
    "experimental": "实验性",
    "yes: a default build of CANN does not install it": "是：CANN 的默认构建不安装该算子",
    "deterministic": "确定性计算",
    "switchable": "可开关",
    "nondeterministic": "非确定性计算",
    "NumPy backend": "NumPy 后端",
    "has a reference": "有参考实现",
    "no reference: phase one checks, then 561003": "没有参考实现：一阶段接口校验后返回 561003",
    "checks": "校验规则",
    "own rules": "专有规则",
    "the tables of the document": "文档中的表格",
    "outputs": "输出",
    "allocated by a rule": "按规则推导并申请",
    "to be passed as out=": "须用 out= 传入",
    "rounding": "舍入",
    "low precision is widened to float32, computed, and rounded once to the output": "低精度先提升到 float32，计算后只舍入一次",
    "accuracy standard": "精度标准",
    "every bit must be the same": "逐位相等",
    "integers may differ by one": "整数之差不超过 1",
    "random: shape and data type only": "随机算子：只检查形状和数据类型",
    "that of floats, or equal integers": "浮点数标准；整数须相等",
    "data-dependent": "取决于数据",
    "outputs are allocated for the worst case and cut after the operator has run": "输出按最大可能申请，算子执行后截取",
    "random numbers": "随机数",
    "see the page on random numbers": "见“随机数”页面",
    "header": "头文件",
    "[CANN and NumPy](../cann-and-numpy.md) says what these mean and where results may differ.": (
        "各项的含义以及结果可能不同之处见 [CANN 与 NumPy](../cann-and-numpy.md)（英文）。"
    ),
    # conditions of statuses
    "": "",
    "a required pointer is null": "必选指针为空",
    "a dtype is not supported": "数据类型不支持",
    "dtypes do not go together": "数据类型组合不支持",
    "dtypes cannot be promoted to one": "数据类型无法推导出公共类型",
    "a dtype cannot be converted to the output's": "数据类型无法转换为输出的类型",
    "a format is not supported": "数据格式不支持",
    "a rank is out of range": "维数超出范围",
    "a shape is not allowed": "形状不允许",
    "shapes do not match": "形状不匹配",
    "shapes cannot be broadcast": "形状无法广播",
    "a value is out of range": "取值超出范围",
    "a tensor is empty": "存在空张量",
    "a constraint of the document does not hold": "不满足文档的约束",
    "a tensor is not contiguous": "张量不连续",
    "the product is not supported": "产品系列不支持",
    "soc_unsupported": "芯片型号不支持",
    "inner_nullptr": "内部出现空指针",
    # what a check rests on
    "document": "文档",
    "tiling": "tiling 源码",
    "judgement": "本包判断",
    # examples
    "Example (not run):": "未执行的示例：",
}

# Sentences with values in them: a pattern of the whole, and what takes its place.
PATTERNS = (
    (r"rank (.+)", r"维数 \1"),
    (r"shape of (.+)", r"与 \1 相同"),
    (r"shape (.+)", r"\1"),
    (r"default (.+)", r"默认 \1"),
    (r"CANN (\S+) or earlier", r"CANN \1 或更早"),
    (r"CANN (\S+)", r"CANN \1"),
    (r"the public sources of (.+)", r"\1 的公开源码"),
    (r"determinism, (.+)", r"确定性（\1）"),
    (r"Example \(with the rules of (.+)\):", r"示例（采用 \1 的规则）："),
    (r"\[Document of (.+)\]\((.+)\)", r"[\1 的文档](\2)"),
    (r"([\w ]+): not (.+)", r"\1：不支持 \2"),
    (r"([\w ]+): (.+)", r"\1：\2"),
)
LIFE = (
    (r"deprecated since (CANN \S+) \(use (.+)\)", r"自 \1 起弃用（改用 \2）"),
    (r"deprecated since (CANN \S+)", r"自 \1 起弃用"),
    (r"releases after (\S+) may lack it", r"\1 之后的版本可能不再提供"),
    (r"not in (CANN \S+) and later", r"从 \1 起不再提供"),
    (r"(CANN \S+): (\w+) is no longer documented as (.+) \(new: (.+)\)", r"\1：\2 的文档不再列出 \3（新增 \4）"),
    (r"(CANN \S+): (\w+) is no longer documented as (.+)", r"\1：\2 的文档不再列出 \3"),
    (r"(CANN \S+): (.+) (?:is|are) gone: (\d+) parameters, were (\d+)", r"\1：去掉 \2，参数由 \4 个变为 \3 个"),
    (r"(CANN \S+): (\w+) is (\S+), was (\S+)", r"\1：\2 由 \4 变为 \3"),
)


def words(text: str) -> str:
    """Standard words in Chinese; LookupError for words that are in none of the lists."""
    known = WORDS.get(text)
    if known is not None:
        return known
    for pattern, replacement in PATTERNS:
        if re.fullmatch(pattern, text):
            return re.sub(pattern, replacement, text)
    raise LookupError(f"no Chinese for {text!r}: add it to scripts/generators/chinese.py")


def life(text: str) -> str:
    """A sentence on an operator's life, or several with semicolons; what no pattern fits stays English."""
    parts = []
    for part in text.split("; "):
        pattern, replacement = next(((p, r) for p, r in LIFE if re.fullmatch(p, part)), ("", ""))
        parts.append(re.sub(pattern, replacement, part).replace(" and ", " 和 ") if pattern else part)
    return "；".join(parts)


def listed(text: str) -> str:
    """Words that commas separate."""
    return "，".join(words(part) for part in re.split(r", (?![^(]*\))", text)) if text else ""


SAY: tuple[Callable[[str], str], ...] = (str, words)  # by language: 0 English, 1 Chinese
SAY_LIST: tuple[Callable[[str], str], ...] = (str, listed)
SAY_LIFE: tuple[Callable[[str], str], ...] = (str, life)
