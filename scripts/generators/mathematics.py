"""Formulas of the catalog as MathML, which browsers typeset without scripts or fonts from elsewhere.

A formula of ``catalog/descriptions`` is text: statements separated by "; ", in Python's operators, ``|x|``, ``x^2``,
``sum over k of ...`` and English words between expressions. Words that are no name of the operator stay words. A
statement becomes several ``<math>`` elements, so that a line can break between its terms.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import NamedTuple

TOKEN = re.compile(
    r"(?P<number>0x[0-9A-Fa-f]+|\d+\.\d+(?:e[-+]?\d+)?|\d+(?:e-?\d+)?)"
    r"|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*(?:'s\b|')?)"
    r"|(?P<string>'[^']*')"
    r"|(?P<operator>\.\.\.|->|<->|<<|>>|<=|>=|!=|==|[-+*/]=|//|.)"
)
RELATIONS = {"=": "=", "==": "=", "<": "<", ">": ">", "<=": "≤", ">=": "≥", "!=": "≠", "~": "∼", "->": "→", "<->": "↔",
             "+=": "+=", "-=": "−=", "*=": "*=", "/=": "/="}  # fmt: skip
PRODUCTS = {"*": "⋅", "@": "@", "%": "mod", "mod": "mod", "&": "&", "<<": "≪", ">>": "≫", "x": "×"}
SYMBOLS = {"pi": "π", "inf": "∞"}
OPENING = {"(": ")", "[": "]", "{": "}"}
FENCES = {"floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉"), "abs": ("|", "|")}
NOT_INDEXED = {"Var", "E"}  # what stands in brackets behind them is no index
LONGEST_INDEX = 12  # tokens; longer indices, and slices, stay in brackets


class Token(NamedTuple):
    kind: str
    text: str
    spaced: bool  # white space before it


class Piece(NamedTuple):
    """A part of a statement between which a line may break: MathML, or words."""

    text: str
    words: bool = False


def tokens_of(text: str) -> list[Token]:
    found, position = [], 0
    while position < len(text):
        spaced = text[position].isspace()
        while position < len(text) and text[position].isspace():
            position += 1
        match = TOKEN.match(text, position)
        if match is None:
            break
        found.append(Token(match.lastgroup or "", match[0], spaced))
        position = match.end()
    return found


def element(name: str, *parts: str) -> str:
    return f"<{name}>{''.join(parts)}</{name}>"


def operator(text: str) -> str:
    return '<mo stretchy="false">|</mo>' if text == "|" else element("mo", html.escape(text, quote=False))


def name_of(text: str) -> str:
    """A name: a letter with an index where it is written so (h_t), else as the parameter is called."""
    indexed = re.fullmatch(r"([A-Za-z])_([A-Za-z0-9])", text)
    if indexed:
        return element("msub", name_of(indexed[1]), name_of(indexed[2]))
    if (
        len(text) == 1 and text.isalpha()
    ):  # as itself, italic by style.css: the letters that browsers choose are another font's
        return f'<mi mathvariant="normal" class="letter">{text}</mi>'
    return element("mi", html.escape(SYMBOLS.get(text, text), quote=False))


def row(parts: Iterable[str]) -> str:
    return element("mrow", *parts)


class Statement:
    """One statement as pieces."""

    def __init__(self, text: str, names: frozenset[str]):
        self.tokens = tokens_of(text)
        self.names = names | {
            token.text
            for token, after in zip(self.tokens, [*self.tokens[1:], Token("", "", False)])
            if token.kind == "name"
            and after.text in ("(", "[", "=", "^", "|")
            and (after.text == "=" or not after.spaced)
        }
        self.position = 0
        self.bars = 0  # open absolute values

    def peek(self, ahead: int = 0) -> Token:
        position = self.position + ahead
        return self.tokens[position] if position < len(self.tokens) else Token("end", "", False)

    def take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def is_word(self, token: Token) -> bool:
        """English, and no name of the formula."""
        text = token.text
        if token.kind == "string":
            return True
        if token.kind != "name" or text in self.names or text in SYMBOLS or len(text) == 1 or "." in text:
            return False
        return re.fullmatch(r"[A-Za-z]+(?:'s?)?", text) is not None and re.fullmatch(r"[A-Z]{1,3}", text) is None

    def pieces(self, close: str = "") -> list[Piece]:
        """Up to the closing bracket, or the end."""
        found: list[Piece] = []
        while self.peek().kind != "end" and self.peek().text != close:
            token = self.peek()
            if self.is_word(token) and not self.begins_sum():
                found.append(Piece(self.words(), words=True))
            elif token.text in RELATIONS:
                found.append(Piece(operator(RELATIONS[self.take().text])))
            elif (
                token.text in (",", ":", ";", "...", "?", "!", ".", "'")
                or token.text in OPENING.values()
                or self.divides()
            ):
                text = self.take().text
                mark = operator("…" if text == "..." else text)
                if found and text in (",", ":", ";") and not found[-1].words:
                    found[-1] = Piece(found[-1].text + mark)
                else:
                    found.append(Piece(text if found and found[-1].words and text == "," else mark,
                                       words=bool(found) and found[-1].words and text == ","))  # fmt: skip
            else:
                found += self.terms()
        return found

    def words(self) -> str:
        """All that come now."""
        found = [self.take().text]
        while self.is_word(self.peek()) and not self.begins_sum():
            found.append(self.take().text)
        return " ".join(found)

    def divides(self) -> bool:
        """A bar with room on both sides."""
        return self.peek().text == "|" and self.peek().spaced and self.peek(1).spaced

    def begins_sum(self) -> bool:
        """``sum over k of``, with nothing but names and signs between."""
        if (self.peek().text, self.peek(1).text) != ("sum", "over"):
            return False
        ahead = 2
        while self.peek(ahead).kind != "end" and self.peek(ahead).text != "of":
            if self.is_word(self.peek(ahead)) or ahead > 12:
                return False
            ahead += 1
        return self.peek(ahead).text == "of"

    def terms(self) -> list[Piece]:
        """A sum, a piece for each term."""
        found: list[Piece] = []
        while True:
            sign = ""
            if self.peek().text in ("+", "-"):
                form = ' form="infix"' if found else ""
                sign = f"<mo{form}>{'−' if self.take().text == '-' else '+'}</mo>"
            found.append(Piece(sign + self.product()))
            if self.peek().text not in ("+", "-") or (self.bars and self.peek(1).text == "|"):
                return found

    def product(self) -> str:
        factors = [self.power()]
        while True:
            text = self.peek().text
            is_or = text == "|" and not self.bars and self.peek().spaced
            is_xor = text == "^" and self.peek().spaced
            if text in ("/", "//"):
                self.take()
                fraction = element("mfrac", bare(factors.pop()), bare(self.power()))
                factors.append(row([operator("⌊"), fraction, operator("⌋")]) if text == "//" else fraction)
            elif is_or or is_xor or (text in PRODUCTS and text != "x") or self.is_cross():
                self.take()
                factors += [operator("|" if is_or else "⊕" if is_xor else PRODUCTS[text]), self.power()]
            else:
                return factors[0] if len(factors) == 1 else row(factors)

    def is_cross(self) -> bool:
        """4 x 4."""
        before = self.tokens[self.position - 1]
        return self.peek().text == "x" and before.kind == "number" and self.peek(1).kind == "number"

    def power(self) -> str:
        if self.peek().text in ("-", "+", "~"):
            sign = self.take().text
            return row([operator({"-": "−"}.get(sign, sign)), self.power()])
        base = self.primary()
        while self.peek().text == "^" and not self.peek().spaced:
            self.take()
            base = element("msup", base, bare(self.power()))
        return base

    def group(self, close: str) -> list[str]:
        found = [
            element("mtext", f"\u2002{piece.text}\u2002") if piece.words else piece.text for piece in self.pieces(close)
        ]
        if self.peek().text == close:
            self.take()
        return found

    def primary(self) -> str:
        if self.begins_sum():
            self.position += 2
            limits = self.group("of")
            return row([element("munder", operator("∑"), row(limits)), self.product()])
        if self.is_word(self.peek()):
            words = self.words()
            if " " in words or not words.isalpha():
                return element("mtext", html.escape(words, quote=False))
            return self.applied(name_of(words), words)  # a factor of one word is a name, though no parameter's
        token = self.take()
        if token.kind == "number":
            return element("mn", token.text)
        if token.text in OPENING:
            return self.applied(
                row([operator(token.text), *self.group(OPENING[token.text]), operator(OPENING[token.text])])
            )
        if token.text == "|":
            return self.absolute()
        if token.kind != "name":
            return operator("…" if token.text == "..." else token.text)
        after = self.peek()
        if after.text == "(" and not after.spaced:
            self.take()
            if token.text.endswith("_"):
                return element("msub", element("mi", token.text[:-1]), row(self.group(")")))
            inside = self.group(")")
            if token.text == "sqrt":
                return element("msqrt", *inside)
            if token.text in FENCES:
                left, right = FENCES[token.text]
                return row([operator(left), *inside, operator(right)])
            return self.applied(row([name_of(token.text), operator("("), *inside, operator(")")]))
        if after.text == "|" and not after.spaced and not self.bars:
            self.take()
            return row([name_of(token.text), self.absolute()])
        return self.applied(name_of(token.text), token.text)

    def absolute(self) -> str:
        self.bars += 1
        inside = []
        while self.peek().kind != "end" and self.peek().text != "|":
            inside += [piece.text for piece in self.terms()]
            if self.peek().text == ",":
                inside.append(operator(self.take().text))
        self.bars -= 1
        if self.peek().text == "|":
            self.take()
        return row([operator("|"), *inside, operator("|")])

    def applied(self, base: str, name: str = "") -> str:
        """With what is indexed behind it."""
        while self.peek().text == "[" and not self.peek().spaced:
            start = self.position
            self.take()
            inside = self.group("]")
            between = self.tokens[start + 1 : self.position - 1]
            long = len(between) > LONGEST_INDEX or any(token.text == ":" or self.is_word(token) for token in between)
            if long or name in NOT_INDEXED:
                base = row([base, operator("["), *inside, operator("]")])
            else:
                base = element("msub", base, row(inside))
        return base


def bare(text: str) -> str:
    """Without the parentheses that a fraction or an exponent makes superfluous."""
    inside = re.fullmatch(r"<mrow><mo>\(</mo>(.*)<mo>\)</mo></mrow>", text)
    if inside and inside[1].count("<mo>(</mo>") == inside[1].count("<mo>)</mo>"):
        depth = 0
        for bracket in re.findall(r"<mo>([()])</mo>", inside[1]):
            depth += 1 if bracket == "(" else -1
            if depth < 0:
                return text
        return row([inside[1]])
    return text


def statement(text: str, names: frozenset[str]) -> str:
    """One statement as HTML."""
    parts = []
    for piece in Statement(text, names).pieces():
        parts.append(
            html.escape(piece.text) if piece.words else f'<math displaystyle="true"><mrow>{piece.text}</mrow></math>'
        )
    return " ".join(parts)


def typeset(formula: str, names: Iterable[str]) -> str:
    """A formula as a block of HTML, a line for each statement. The text itself is kept for those who copy it."""
    known = frozenset(names) | set(re.findall(r"(\w+)(?=\s*(?:,\s*\w+\s*)*[-+*/]?=)", formula))
    lines = "".join(f"<p>{statement(part, known)}</p>" for part in formula.split("; ") if part)
    return f'<div class="formula" data-text="{html.escape(formula)}">{lines}</div>'
