"""Families of data types that rules name: the same names in ``dtypes(...)`` and in expressions."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType

__all__ = [
    "COMPLEX",
    "FLOAT4S",
    "FLOAT8S",
    "FLOATS",
    "FLOATS_AND_DOUBLE",
    "FLOATS_WITHOUT_BF16",
    "HALVES",
    "INDICES",
    "INTEGERS",
    "NUMBERS",
    "PRODUCTS_BEFORE_950",
    "PRODUCTS_WITH_BF16",
    "REAL",
    "REAL_AND_COMPLEX",
    "UNSIGNED",
]

HALVES = "FLOAT16 BF16"
FLOATS = "FLOAT FLOAT16 BF16"
FLOATS_WITHOUT_BF16 = "FLOAT FLOAT16"  # all that Atlas inference and training products have, and some later kernels
FLOAT8S = "HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN"
FLOAT4S = "FLOAT4_E2M1 FLOAT4_E1M2"
INDICES = "INT32 INT64"
INTEGERS = "INT8 INT16 INT32 INT64 UINT8"
UNSIGNED = "UINT16 UINT32 UINT64"
COMPLEX = "COMPLEX64 COMPLEX128"
FLOATS_AND_DOUBLE = f"{FLOATS_WITHOUT_BF16} DOUBLE"
NUMBERS = f"{FLOATS_AND_DOUBLE} {INTEGERS}"
REAL = f"{NUMBERS} BOOL"
REAL_AND_COMPLEX = f"{REAL} {COMPLEX}"

PRODUCTS_WITH_BF16 = "A2 A3 950"
PRODUCTS_BEFORE_950 = "A2 A3 910 310P 310B 310"

FAMILIES = {
    name: frozenset(DataType[member] for member in members.split())
    for name, members in {
        "HALVES": HALVES,
        "FLOATS": FLOATS,
        "FLOATS_WITHOUT_BF16": FLOATS_WITHOUT_BF16,
        "FLOAT8S": FLOAT8S,
        "FLOAT4S": FLOAT4S,
        "INDICES": INDICES,
        "INTEGERS": INTEGERS,
        "UNSIGNED": UNSIGNED,
        "COMPLEX": COMPLEX,
    }.items()
}
