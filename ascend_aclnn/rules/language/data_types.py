"""Words about data types, and CANN's tables of promotion and casting."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional, Union

from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language.call import Call, Check, DtypeRule, Refusal, Word, carries, refusals_of, refuses
from ascend_aclnn.rules.language.dtype_families import FLOATS_WITHOUT_BF16
from ascend_aclnn.rules.language.expressions import dtype_rule

__all__ = [
    "FLOATS_OF_PRODUCT",
    "DtypeSet",
    "can_cast",
    "castable",
    "documented_dtypes",
    "dtype_attribute",
    "dtype_in",
    "dtype_of",
    "dtype_set",
    "dtype_table",
    "dtypes",
    "fixed_dtype",
    "has_dtype",
    "is_complex",
    "is_floating",
    "is_integral",
    "output_dtype",
    "parse_dtypes",
    "plus_bf16",
    "promote",
    "promoted",
    "same_dtype",
]

# Data types: names in one string, the same for some products ({"A2 A3": "...", "": "the others"}), or a function.
DtypeSet = Union[str, dict[str, str]]


@functools.cache
def parse_dtypes(names: str) -> frozenset[DataType]:
    return frozenset(DataType[name] for name in names.split())


def dtype_set(call: Call, allowed: DtypeSet) -> frozenset[DataType]:
    """The data types that a DtypeSet means on the call's SoC."""
    return parse_dtypes(_names_on(call.product, allowed))


def _names_on(product: str, allowed: DtypeSet) -> str:
    if isinstance(allowed, str):
        return allowed
    for products, names in allowed.items():
        if product in products.split():
            return names
    return allowed.get("", "")


def plus_bf16(names: str) -> DtypeSet:
    """The named data types, and BF16 on Atlas A2 and the later products."""
    return {"A2 A3 950": names + " BF16", "": names}


FLOATS_OF_PRODUCT = plus_bf16(FLOATS_WITHOUT_BF16)


class _Dtypes(Word):
    def __init__(self, allowed: DtypeSet, names: Sequence[str]) -> None:
        super().__init__()
        self.allowed, self.names = allowed, names
        self.members: dict[str, frozenset[DataType]] = {}  # by product
        self.refusals = [Refusal(name, "dtype") for name in names]
        single = DataType.__members__.get(allowed) if isinstance(allowed, str) else None
        if single is not None:
            self.dtypes = {name: [(None, lambda call: single)] for name in names}

    def __call__(self, call: Call) -> None:
        product = call.soc.product
        members = self.members.get(product)
        if members is None:
            members = self.members[product] = dtype_set(call, self.allowed)
        for name in self.names:
            value = call.get(name)
            for item in value if isinstance(value, list) else (value,):
                if item is not None and item.dtype not in members:
                    text = f"has dtype {item.dtype.name}; on {call.soc.name} it must be {_listed(members)}"
                    call.refuse(
                        name, text, cause=("dtype", {"came": item.dtype, "allowed": sorted(members)}), check="dtype"
                    )


def dtypes(allowed: DtypeSet, *names: str) -> Check:
    """Tensors (or scalars, or every tensor of a list) have one of the data types; absent ones pass.

    The only data type that is allowed is inferred for outputs.
    """
    return _Dtypes(allowed, names)


def documented_dtypes(*names: str) -> Check:
    """Tensors have a dtype that the operator's document lists for the product of the SoC (all tensors if none are named)."""

    @functools.cache
    def documented(operator: Operator, product: str) -> list[tuple[str, tuple[DataType, ...]]]:
        kinds = (Kind.TENSOR, Kind.TENSOR_LIST)
        chosen = [p for p in operator.parameters if p.kind in kinds and (not names or p.name in names)]
        listed = [(p.name, operator.dtypes(p, product)) for p in chosen]
        return [(name, allowed) for name, allowed in listed if allowed]

    @carries(
        [
            Refusal(name, "dtype", applies=None if name == "*" else functools.partial(documents_dtypes, name=name))
            for name in names or ("*",)
        ]
    )
    def check(call: Call) -> None:
        for name, allowed in documented(call.operator, call.product):
            for tensor in call.tensors(name):
                if tensor.dtype not in allowed:
                    text = f"has dtype {tensor.dtype.name}; on {call.soc.name} it must be {_listed(allowed)}"
                    call.refuse(name, text, cause=("dtype", {"came": tensor.dtype, "allowed": allowed}), check="dtype")

    return check


def documents_dtypes(operator: Operator, name: str) -> bool:
    """Whether an operator's document lists data types of a parameter."""
    position = operator.positions.get(name)
    return position is not None and bool(operator.parameters[position].dtypes)


class _DtypeTable(Word):
    def __init__(
        self, keys: list[str], rows: Sequence[str], products: list[str], families: dict[str, DtypeSet]
    ) -> None:
        super().__init__()
        self.keys, self.rows, self.products, self.families = keys, rows, products, families
        self.table = functools.cache(self._table)
        self.passed: set[tuple[Any, ...]] = set()  # products and data types that have passed
        self.allowed_beside: dict[tuple[Any, ...], set[DataType]] = {}
        self.refusals = [Refusal(key, "dtype/table") for key in keys]
        self.table("A2")  # a misspelt row fails here
        for position, key in enumerate(keys):
            one_is_left = functools.partial(self._is_only_one, position)
            self.dtypes[key] = [(one_is_left, functools.partial(self._only_one, position))]

    def _table(self, product: str) -> list[tuple[DataType, ...]]:
        members = {letter: _names_on(product, family) for letter, family in self.families.items()}
        return [cells for row in self.rows for cells in _cells(row.split(), members)]

    def __call__(self, call: Call) -> None:
        if self.products and call.product not in self.products:
            return
        combination = self._came(call)
        if combination in self.passed:
            return
        rows = table = self.table(call.product)
        for position, key in enumerate(self.keys):
            if not call.is_present(key):
                continue
            came = call.dtype(key)
            fitting = [row for row in rows if row[position] is came]
            if not fitting:
                allowed = {row[position] for row in rows}
                so_far = ", ".join(
                    f"{call.python_name(k)} {call.dtype(k).name}" for k in self.keys[:position] if call.is_present(k)
                )
                context = f" with {so_far}" if so_far and len(allowed) < len({row[position] for row in table}) else ""
                text = f"has dtype {came.name}; on {call.soc.name}{context} it must be {_listed(allowed)}"
                call.refuse(key, text, cause=("dtype", {"came": came, "allowed": sorted(allowed)}), check="dtype/table")
            rows = fitting
        self.passed.add(combination)

    def _came(self, call: Call) -> tuple[Any, ...]:
        """The product, and the tensors' data types; None for absent tensors."""
        return (call.product, *(call.dtype(key) if call.is_present(key) else None for key in self.keys))

    def _allowed_at(self, position: int, call: Call) -> set[DataType]:
        """The data types in a column of the rows that fit the other tensors."""
        if self.products and call.product not in self.products:
            return set()
        product, *tensor_dtypes = came = self._came(call)
        allowed = self.allowed_beside.get((position, *came))
        if allowed is None:
            others = [(i, dtype) for i, dtype in enumerate(tensor_dtypes) if i != position and dtype is not None]
            fitting = (row for row in self.table(product) if all(row[i] is dtype for i, dtype in others))
            allowed = self.allowed_beside[(position, *came)] = {row[position] for row in fitting}
        return allowed

    def _is_only_one(self, position: int, call: Call) -> bool:
        return len(self._allowed_at(position, call)) == 1

    def _only_one(self, position: int, call: Call) -> DataType:
        return next(iter(self._allowed_at(position, call)))


def dtype_table(names: str, *rows: str, products: str = "", **families: DtypeSet) -> Check:
    """The dtypes of the named tensors together are one of the rows; absent tensors fit any row.

    A cell is a data type, several ("FLOAT16/BF16"), or a letter that stands for one of a family, the same in the whole row:
    ``dtype_table("x scale y", "T S T", T=FLOATS_OF_PRODUCT, S="FLOAT BF16")``. With ``products`` the check applies on
    those only. The only data type that fitting rows leave to an output is inferred.
    """
    return _DtypeTable(names.split(), rows, products.split(), families)


def _cells(row: list[str], families: dict[str, str]) -> Iterator[tuple[DataType, ...]]:
    """The rows of data types that a row with alternatives and letters stands for."""
    letters = [letter for letter in families if letter in row]
    for chosen in itertools.product(*(families[letter].split() for letter in letters)):
        meant = dict(zip(letters, chosen))
        yield from itertools.product(*([DataType[name] for name in meant.get(cell, cell).split("/")] for cell in row))


class _SameDtype(Word):
    def __init__(self, first: str, others: Sequence[str], among: Optional[DtypeSet]) -> None:
        super().__init__()
        self.first, self.others = first, others
        self.among = None if among is None else dtypes(among, first)
        self.refusals = [Refusal(name, f"dtype/as-{first}", other=first) for name in others]
        self.refusals += refusals_of(self.among)
        self.dtypes = {name: [(lambda call: call.is_present(first), dtype_of(first))] for name in others}

    def __call__(self, call: Call) -> None:
        if not call.is_present(self.first):
            return
        if self.among is not None:
            self.among(call)
        wanted = call.dtype(self.first)
        for name in self.others:
            for tensor in call.tensors(name):
                if tensor.dtype is not wanted:
                    text = f"has dtype {tensor.dtype.name}; it must be {wanted.name}, as {call.python_name(self.first)}"
                    values = {"other": call.c_name(self.first), "allowed": wanted, "came": tensor.dtype}
                    call.refuse(name, text, cause=("same dtype", values), check=f"dtype/as-{self.first}")


def same_dtype(first: str, *others: str, among: Optional[DtypeSet] = None) -> Check:
    """The others have the first's data type, one ``among`` a set: checked, and inferred for outputs; absent ones pass."""
    return _SameDtype(first, others, among)


class _HasDtype(Word):
    def __init__(self, name: str, rule: DtypeRule) -> None:
        super().__init__()
        self.name, self.rule = name, rule
        self.refusals = [Refusal(name, "dtype/expected"), *refusals_of(rule)]
        self.dtypes = {name: [(None, rule)]}

    def __call__(self, call: Call) -> None:
        if call.is_present(self.name) and call.dtype(self.name) is not self.rule(call):
            came, wanted = call.dtype(self.name), self.rule(call)
            text = f"has dtype {came.name}; it must be {wanted.name}"
            call.refuse(
                self.name, text, cause=("expected dtype", {"came": came, "allowed": wanted}), check="dtype/expected"
            )


def has_dtype(name: str, source: Union[DtypeRule, str]) -> Check:
    """A tensor has exactly a data type (see ``output_dtype``: an attribute's, a promoted one), and is allocated with it."""
    return _HasDtype(name, dtype_rule(source))


class _OutputDtypes(Word):
    """Data types of outputs; never a check."""

    checks = False

    def __init__(self, rules: dict[str, DtypeRule]) -> None:
        super().__init__()
        self.refusals = [refusal for rule in rules.values() for refusal in refusals_of(rule)]
        self.dtypes = {name: [(None, rule)] for name, rule in rules.items()}


def output_dtype(**rules: Union[DtypeRule, str]) -> Check:
    """The data types of outputs: inferred only. Each is a data type's name, a parameter's, an expression or a DtypeRule."""
    return _OutputDtypes({name: dtype_rule(source) for name, source in rules.items()})


def dtype_in(source: DtypeRule, allowed: DtypeSet, name: str) -> Check:
    """The data type of a rule (an attribute's, a promoted one) is one of a set; ``name`` is the parameter to blame."""

    @refuses("value/dtype", name, carry=[source])
    def check(call: Call) -> None:
        came, members = source(call), dtype_set(call, allowed)
        if came not in members:
            call.refuse(
                name,
                f"makes the data type {came.name}; on {call.soc.name} it must be {_listed(members)}",
                check="value/dtype",
            )

    return check


def dtype_of(name: str) -> DtypeRule:
    return lambda call: call.dtype(name)


def fixed_dtype(name: str) -> DtypeRule:
    member = DataType[name]
    return lambda call: member


def dtype_attribute(name: str) -> DtypeRule:
    """The data type that an aclDataType (or int) attribute names; DT_UNDEFINED for a number CANN does not have."""

    def dtype(call: Call) -> DataType:
        try:
            return DataType(call[name])
        except ValueError:
            return DataType.DT_UNDEFINED

    return dtype


def promoted(*names: str) -> DtypeRule:
    """The data type to which tensors promote, by CANN's table; RuleViolation where they do not."""

    @refuses("dtype/promotion", *names)
    def dtype(call: Call) -> DataType:
        result: Optional[DataType] = None
        for name in names:
            if not call.is_present(name):
                continue
            came = call.dtype(name)
            if result is None:
                if came is DataType.DT_UNDEFINED:
                    call.refuse(name, f"has dtype {came.name}, which promotes with none", check="dtype/promotion")
                result = came
                continue
            both = promote(result, came)
            if both is DataType.DT_UNDEFINED:
                text = f"has dtype {came.name}, which does not promote with {result.name}"
                call.refuse(name, text, check="dtype/promotion")
            result = both
        return DataType.DT_UNDEFINED if result is None else result

    return dtype


def castable(source: Union[DtypeRule, str], *names: str) -> Check:
    """A value of the source's data type (a C name or a DtypeRule) can be cast to each named tensor."""
    rule_ = dtype_rule(source)

    @refuses("dtype/cast", *names, carry=[rule_], other=source if isinstance(source, str) else "")
    def check(call: Call) -> None:
        come = rule_(call)
        for name in names:
            for tensor in call.tensors(name):
                if not can_cast(come, tensor.dtype):
                    text = f"has dtype {tensor.dtype.name}; a {come.name} result cannot be cast to it"
                    call.refuse(name, text, cause=("cast", {"came": come, "allowed": tensor.dtype}), check="dtype/cast")

    return check


_COMPLEX = (DataType.COMPLEX32, DataType.COMPLEX64, DataType.COMPLEX128)
_SIGNED = (DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64)
_UNSIGNED = (DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64)
_WIDE_UNSIGNED = (DataType.UINT16, DataType.UINT32, DataType.UINT64)
_FLOATS = (DataType.FLOAT16, DataType.BF16, DataType.FLOAT, DataType.DOUBLE)
_SMALL_FLOATS = (
    DataType.HIFLOAT8,
    DataType.FLOAT8_E5M2,
    DataType.FLOAT8_E4M3FN,
    DataType.FLOAT8_E8M0,
    DataType.FLOAT6_E3M2,
    DataType.FLOAT6_E2M3,
    DataType.FLOAT4_E2M1,
    DataType.FLOAT4_E1M2,
)


@functools.cache
def is_complex(dtype: DataType) -> bool:
    return dtype in _COMPLEX


@functools.cache
def is_floating(dtype: DataType) -> bool:
    return dtype in _FLOATS or dtype in _SMALL_FLOATS


@functools.cache
def is_integral(dtype: DataType, with_bool: bool = False) -> bool:
    return dtype in _SIGNED or dtype in _UNSIGNED or (with_bool and dtype is DataType.BOOL)


@functools.cache
def promote(a: DataType, b: DataType) -> DataType:
    """The common type of two tensors, as CANN's promotion table has it; DT_UNDEFINED where there is none.

    Two equal types promote to themselves. UINT16 / 32 / 64 promote with complex types only, and only from the left;
    small floats and packed types never do.
    """
    none = DataType.DT_UNDEFINED
    if a is b:
        return a
    if a in _WIDE_UNSIGNED and b in (DataType.COMPLEX64, DataType.COMPLEX128):
        return DataType.COMPLEX128 if a is DataType.UINT64 else b
    promotable = (DataType.BOOL, DataType.UINT8, *_SIGNED, *_FLOATS, *_COMPLEX)
    if a not in promotable or b not in promotable:
        return none
    if is_complex(a) or is_complex(b):
        width = max(_complex_width(a), _complex_width(b))
        return _COMPLEX[width]
    if is_floating(a) or is_floating(b):
        floats = {t for t in (a, b) if is_floating(t)}
        if floats == {DataType.FLOAT16, DataType.BF16}:
            return DataType.FLOAT
        return max(floats, key=_FLOATS.index)
    if DataType.BOOL in (a, b):
        return b if a is DataType.BOOL else a
    if DataType.UINT8 in (a, b):
        other = b if a is DataType.UINT8 else a
        return DataType.INT16 if other is DataType.INT8 else other
    return max((a, b), key=_SIGNED.index)


def _complex_width(dtype: DataType) -> int:
    """Index into _COMPLEX of the narrowest complex type that holds a type."""
    if is_complex(dtype):
        return _COMPLEX.index(dtype)
    return {DataType.FLOAT: 1, DataType.BF16: 1, DataType.DOUBLE: 2}.get(dtype, 0)


@functools.cache
def can_cast(source: DataType, target: DataType) -> bool:
    """CANN's CanCast: not complex to real, not floating to integer, nothing but bool to bool."""
    if is_complex(source) and not is_complex(target):
        return False
    if is_floating(source) and is_integral(target):
        return False
    return source is DataType.BOOL or target is not DataType.BOOL


def _listed(members: Iterable[DataType]) -> str:
    names = [m.name for m in sorted(members)]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" or {names[-1]}" if names else "(none)"
