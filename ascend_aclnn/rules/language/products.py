"""Words about products of matrices."""

from __future__ import annotations

from ascend_aclnn.rules.language.attributes import in_range
from ascend_aclnn.rules.language.call import Check
from ascend_aclnn.rules.language.conditions import require
from ascend_aclnn.rules.language.expressions import define
from ascend_aclnn.rules.language.groups import when

__all__ = ["cube_math_type", "matrix_product"]


def matrix_product(left: str, right: str, *transposes: str) -> tuple[Check, ...]:
    """The operands of a product: their batches broadcast, and the axes that are summed have one size.

    ``left`` and ``right`` are expressions ("x1", "x1.unpacked"), ``transposes`` the attributes that swap the last two axes
    of each. Its sizes ``batch``, ``m``, ``k`` and ``n`` are names for the rule's other expressions.
    """
    swap_left, swap_right = (f" if {name} else " for name in transposes) if transposes else ("", "")

    def axis(operand: str, index: int, swap: str) -> str:
        return f"{operand}[{-3 - index}]{swap}{operand}[{index}]" if swap else f"{operand}[{index}]"

    return (
        define(
            batch=f"broadcast({left}[:-2], {right}[:-2])",
            m=axis(left, -2, swap_left),
            k=axis(left, -1, swap_left),
            n=axis(right, -1, swap_right),
        ),
        require(f"({axis(right, -2, swap_right)}) == k", argument=right.partition(".")[0]),
        require(f"broadcasts({left}[:-2], {right}[:-2])"),
    )


def cube_math_type(*operands: str, least: int = 0, most: int = 4) -> tuple[Check, ...]:
    """cubeMathType is known, and possible: the cubes of old products multiply no FLOAT."""
    wide = " or ".join(f"{name}.dtype == FLOAT" for name in operands)
    return (
        in_range("cubeMathType", least, most),
        when(
            f"product not in ('A2', 'A3', '950') and ({wide})",
            require("cubeMathType in (1, 2)", why="as the product multiplies FLOAT operands as FLOAT16"),
        ),
    )
