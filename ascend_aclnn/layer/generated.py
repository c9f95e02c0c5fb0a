"""The C code of the shims, from the same catalog and prototypes as the emulated device's libraries.

A shim has a function of its own for each one that is recorded and that the library behind it exports. Everything else that
this library exports, C++ too, is found behind the shim, because the shim needs it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator, atb
from ascend_aclnn.catalog.headers import (
    Change,
    abi_type,
    operators_from_header,
    parse_atb_prototypes,
    parse_prototypes,
)
from ascend_aclnn.emulator import protocol
from ascend_aclnn.emulator.build import headers
from ascend_aclnn.emulator.build.atb import argument_lines, on_host, phase_one, structure_lines
from ascend_aclnn.emulator.build.generated import MAX_WORKSPACE

# The functions beside operators that are recorded: memory, copies, streams, events, devices, captured graphs, collectives.
_RECORDED = re.compile(
    "acl(Init|Finalize|rt(Set|Reset)Device(Force)?|rt(Create|Destroy)Context"
    "|rt(Malloc|Free)(?!Buf)\\w*|rt(Memcpy|Memset)\\w*|rt(Reserve|Release)MemAddress\\w*|rt(Unm|M)apMem"
    "|rtHost(Unr|R)egister(V2)?|rt(Create|Destroy)(Stream|Event)(?!Config)\\w*|rt(Record|Reset)Event(WithFlag)?"
    "|rtSynchronize\\w+|rtStreamWaitEvent\\w*|rtStreamAbort|rtLaunch\\w+|rtQueryEvent(Wait)?(Status)?|rtStreamQuery"
    "|mdlRI(CaptureBegin|CaptureEnd|ExecuteAsync|Execute|Destroy))"
    "|Hccl(?!.*(GetRank|GetComm|ErrorString|Capability|GetConfig|ConfigGetInfo|GetHandle))\\w+"
)

# Queries, which are recorded only where they say this: how often a program asks is nothing to look at.
_COMPLETE = {
    "aclrtQueryEvent": "ACL_EVENT_STATUS_COMPLETE",
    "aclrtQueryEventStatus": "ACL_EVENT_RECORDED_STATUS_COMPLETE",
    "aclrtQueryEventWaitStatus": "ACL_EVENT_WAIT_STATUS_COMPLETE",
    "aclrtStreamQuery": "ACL_STREAM_STATUS_COMPLETE",
}

# What the layer does before and after single functions; `result_` is what the function returned.
_TENSOR = "viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum"
_BEFORE = {
    "aclDestroyTensor": "layer_destroyed(tensor);",
    "aclDestroyScalar": "layer_destroyed(scalar);",
    **dict.fromkeys((f"aclDestroy{kind}Array" for kind in ("Int", "Float", "Bool")), "layer_forget(array);"),
    **dict.fromkeys(("aclDestroyTensorList", "aclDestroyScalarList"), "layer_forget_list(array);"),
    "aclDestroyAclOpExecutor": "layer_forget_executor(executor);",
    **dict.fromkeys(("aclrtFree", "aclrtResetDevice", "aclrtResetDeviceForce", "aclFinalize"), "layer_received();"),
}
_HANDLE = re.compile("acl(Create|Destroy)(Tensor|Scalar|(Int|Float|Bool)Array|(Tensor|Scalar)List)")
_LIST = "layer_made_list(result_, (const void *const *)value, size);"
_ADDRESS = "if (result_ == 0) layer_moved_tensor(tensor, addr);"
_MEMBER_ADDRESS = "if (result_ == 0) layer_moved_member(tensors, relativeIndex, addr);"
_SIDES = ("Input", "Output", "")
_AFTER = {
    "aclCreateTensor": f"layer_made_tensor(result_, {_TENSOR}, tensorData);",
    "aclInitTensor": f"if (result_ == 0) layer_changed_tensor(tensor, {_TENSOR}, tensorDataAddr);",
    "aclSetRawTensorAddr": _ADDRESS,
    **{f"{a}clSet{side}TensorAddr": _ADDRESS for a in "aA" for side in _SIDES},
    **{f"{a}clSetDynamic{side}TensorAddr": _MEMBER_ADDRESS for a in "aA" for side in _SIDES},
    "aclCreateScalar": "layer_made_scalar(result_, value, dataType);",
    **{
        f"aclCreate{kind}Array": f"layer_made_array(result_, LETTER_{kind.upper()}_ARRAY, value, size);"
        for kind in ("Int", "Float", "Bool")
    },
    "aclCreateTensorList": _LIST,
    "aclCreateScalarList": _LIST,
    **dict.fromkeys(("aclDestroyTensorList", "aclDestroyScalarList"), "layer_forgot_list();"),
    "aclSetAclOpExecutorRepeatable": "if (result_ == 0) layer_repeatable(executor);",
    **dict.fromkeys(
        ("aclrtSetDevice", "aclrtResetDevice", "aclrtSetCurrentContext", "aclrtCreateContext", "aclrtResetDeviceForce"),
        "layer_device_changed();",
    ),
    # What is launched then runs later, or never.
    **dict.fromkeys(
        (
            "aclmdlRICaptureBegin",
            "aclmdlRICaptureToModelRIBegin",
            "aclmdlRICaptureTaskUpdateBegin",
            "aclmdlRIBuildBegin",
        ),
        "if (result_ == 0) layer_capturing(1);",
    ),
    **dict.fromkeys(("aclmdlRICaptureEnd", "aclmdlRICaptureTaskUpdateEnd", "aclmdlRIBuildEnd"), "layer_capturing(-1);"),
    "aclGetRecentErrMsg": "result_ = layer_message(result_);",
    **dict.fromkeys(
        ("aclrtSynchronizeStream", "aclrtSynchronizeStreamWithTimeout"),
        "result_ = layer_late_status(stream, result_); layer_received();",
    ),
    **dict.fromkeys(
        ("aclrtSynchronizeDevice", "aclrtSynchronizeDeviceWithTimeout"),
        "result_ = layer_late_status((const void *)UINTPTR_MAX, result_); layer_received();",
    ),
    **dict.fromkeys(("aclrtSynchronizeEvent", "aclrtSynchronizeEventWithTimeout"), "layer_received();"),
    "HcclGroupStart": "if (result_ == 0) layer_group(1);",
    "HcclGroupEnd": "layer_group(-1);",
}

# The buffers of collectives whose data are recorded: direction, name, elements, data type. Nobody waits for a send or a receive,
# which may wait for what is called later: what a receive has got is recorded when it is over.
_ALL = "layer_ranks(comm)"
_UINT64 = "HCCL_DATA_TYPE_UINT64"
_BUFFERS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "HcclAllReduce": (("i", "sendBuf", "count", "dataType"), ("o", "recvBuf", "count", "dataType")),
    "HcclBroadcast": (("x", "buf", "count", "dataType"),),
    "HcclReduce": (
        ("i", "sendBuf", "count", "dataType"),
        ("o", "recvBuf", "layer_is_rank(comm, root) ? count : 0", "dataType"),
    ),
    "HcclAllGather": (("i", "sendBuf", "sendCount", "dataType"), ("o", "recvBuf", f"sendCount * {_ALL}", "dataType")),
    "HcclReduceScatter": (
        ("i", "sendBuf", f"recvCount * {_ALL}", "dataType"),
        ("o", "recvBuf", "recvCount", "dataType"),
    ),
    "HcclScatter": (
        ("i", "sendBuf", f"layer_is_rank(comm, root) ? recvCount * {_ALL} : 0", "dataType"),
        ("o", "recvBuf", "recvCount", "dataType"),
    ),
    "HcclAlltoAll": (
        ("i", "sendBuf", f"sendCount * {_ALL}", "sendType"),
        ("o", "recvBuf", f"recvCount * {_ALL}", "recvType"),
    ),
    "HcclAlltoAllV": (
        *(("h", name, _ALL, _UINT64) for name in ("sendCounts", "sdispls", "recvCounts", "rdispls")),
        ("i", "sendBuf", "layer_reach(sendCounts, sdispls, comm)", "sendType"),
        ("o", "recvBuf", "layer_reach(recvCounts, rdispls, comm)", "recvType"),
    ),
    "HcclAlltoAllVC": (
        ("h", "sendCountMatrix", f"{_ALL} * {_ALL}", _UINT64),
        ("i", "sendBuf", "layer_row(sendCountMatrix, comm)", "sendType"),
        ("o", "recvBuf", "layer_column(sendCountMatrix, comm)", "recvType"),
    ),
    "HcclAllGatherV": (
        *(("h", name, _ALL, _UINT64) for name in ("recvCounts", "recvDispls")),
        ("i", "sendBuf", "sendCount", "dataType"),
        ("o", "recvBuf", "layer_reach(recvCounts, recvDispls, comm)", "dataType"),
    ),
    "HcclReduceScatterV": (
        *(("h", name, _ALL, _UINT64) for name in ("sendCounts", "sendDispls")),
        ("i", "sendBuf", "layer_reach(sendCounts, sendDispls, comm)", "dataType"),
        ("o", "recvBuf", "recvCount", "dataType"),
    ),
    "HcclSend": (("i", "sendBuf", "count", "dataType"),),
    "HcclRecv": (("r", "recvBuf", "count", "dataType"),),
    "HcclBatchSendRecv": (),  # layer_items
    "HcclBarrier": (),
}

# Single operators, which are recorded as launches.
_SINGLE = ("aclopExecute", "aclopExecuteV2", "aclopCompileAndExecute", "aclopCompileAndExecuteV2")
_DESCRIPTIONS = ("inputDesc", "inputs", "outputDesc", "outputs")

# torch_npu asks these for an executor of an earlier call with the same arguments, and would then leave phase one, which the layer
# records, out. Their answer is that there is none.
_CACHES = {
    "CanUsePTACache": "bool CanUsePTACache(const char *api) { (void)api; return false; }",
    "PTAGetExecCache": (
        "void *PTAGetExecCache(uint64_t hash, uint64_t *size) { (void)hash; (void)size; return NULL; }"
    ),
    "PTAFindExecCache": (
        "void *PTAFindExecCache(uint8_t *key, size_t length, uint64_t *size) "
        "{ (void)key; (void)length; (void)size; return NULL; }"
    ),
}

_PREAMBLE = """\
#include "layer.h"
#include "protocol.h"

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "aclnn/aclnn_base.h"
#include "hccl/hccl.h"

void *shim_library(void);
#define REAL(slot, name) (__atomic_load_n(&slot, __ATOMIC_ACQUIRE) ?: layer_find(shim_library(), name, &slot))
"""
# What operators have in common: written out in each of them, it takes twice as long to compile.
_PHASES = """\
static __attribute__((noinline)) void *begin_(layer_frame *frame, void **slot, const char *name) {
    *frame = (layer_frame){0, layer_depth++ == 0 && layer_records};
    if (frame->outer) frame->begin = layer_now();
    return REAL(*slot, name);
}

static __attribute__((noinline)) aclnnStatus phase_two_(void **slot, const char *name, void *workspace, uint64_t size,
                                                        aclOpExecutor *executor, aclrtStream stream) {
    LAYER_PASS;
    aclnnStatus (*real)(void *, uint64_t, aclOpExecutor *, aclrtStream) = (__typeof__(real))REAL(*slot, name);
    layer_launch *launch = frame_.outer ? layer_before_phase_two(workspace, size, executor, stream) : NULL;
    aclnnStatus status = real(workspace, size, executor, stream);
    layer_after_phase_two(launch, status);
    return status;
}
"""


def shim_lines(path: Path) -> Iterator[str]:
    """What every shim has: the library behind it."""
    yield '#include "layer.h"'
    yield '__attribute__((visibility("hidden"))) void *shim_library(void) {'
    yield "    static void *library;"
    yield "    void *found = __atomic_load_n(&library, __ATOMIC_ACQUIRE);"
    yield "    if (found == NULL) {"
    yield f"        found = layer_open({_quoted(str(path))});"
    yield "        __atomic_store_n(&library, found, __ATOMIC_RELEASE);"
    yield "    }\n    return found;\n}"
    yield "__attribute__((constructor)) static void open_library(void) { shim_library(); }"


def function_lines(exports: Collection[str], include: Path) -> Iterator[str]:
    """The functions of a library that are recorded, or from which something follows."""
    yield _PREAMBLE
    declared = declared_functions(include)
    for name, row in headers.runtime_functions().items():
        if name not in exports or name not in declared:
            continue
        if _is_recorded(name, row) or name in _BEFORE or name in _AFTER:
            yield from _function(name, row)
    texts = [(include / "acl" / header).read_text(encoding="utf-8") for header in ("acl_op.h", "acl_op_compiler.h")]
    for name in _SINGLE:
        declaration = re.search(rf"aclError {name}\(([^;]*)\);", "\n".join(texts))
        if name in exports and declaration is not None:
            yield from _single(name, " ".join(declaration[1].split()))
    for name, code in _CACHES.items():
        if name in exports:
            yield f"LAYER {code}"


def operator_lines(operators: Sequence[Operator], exports: Collection[str]) -> Iterator[str]:
    """Both phases of operators."""
    yield _PREAMBLE
    yield _PHASES
    for operator in operators:
        yield from _operator(operator, exports)


def unknown_lines(names: Iterable[str], stream: str = "stream") -> Iterator[str]:
    """Phase two of operators whose prototype is not known; what phase one takes is passed through.

    ``stream`` is what the stream is in C, where the last argument is something else.
    """
    for name in names:
        yield f'static layer_operator operator_{name} = {{"{name}", "", "", NULL, 0, 0}};'
        parameters = "void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream"
        yield f"LAYER aclnnStatus {name}({parameters});\nLAYER aclnnStatus {name}({parameters}) {{"
        yield "    static void *slot_;\n    LAYER_ENTER;"
        yield f'    __typeof__(&{name}) real_ = (__typeof__(real_))REAL(slot_, "{name}");'
        yield f"    layer_launch *launch_ = layer_before_unknown(&frame_, &operator_{name}, workspace, workspaceSize,"
        yield f"                                                 (void *)(uintptr_t){stream});"
        yield "    aclnnStatus status_ = real_(workspace, workspaceSize, executor, stream);"
        yield "    layer_after_phase_two(launch_, status_);"
        yield "    return status_;\n}"


# By the type of the operation's parameter.
_ATB_CREATE = re.compile(r"_ZN3atb15CreateOperationI((?:NS?_?)?[^E]+)E.*OperationE")
_ATB_UPDATE = re.compile(r"_ZN3atb20UpdateOperationParamI.+PNS_9OperationERKT_")
_ATB_DESTROY = "_ZN3atb16DestroyOperationEPNS_9OperationE"


def atb_lines(exports: Collection[str], header: Path) -> Iterator[str]:
    """ATB's operations, from which Setup and Execute follow, and its C functions.

    ``header`` is what declares these, ``atb/atb_acl.h``, if it is a file: a function that it declares in another way than the
    catalog has phase two alone, without arguments.
    """
    yield _PREAMBLE
    yield 'static const char *const names_atb[] = {"type", "operation"};'
    yield 'static const layer_function function_atb = {"atb::CreateOperation", "so", names_atb};'
    known = {f"{name}Param": atb.get(name) for name in atb.names()}
    kinds: dict[str, str] = {}  # of operations, what follows kind_ in C
    for name in sorted(exports):
        if match := _ATB_CREATE.fullmatch(name):
            kind = "::".join(part for part in re.split(r"[0-9]+", match[1].replace("NS_", "")) if part)
            operation = known.get(kind.removeprefix("infer::"))
            yield from _operation_kind(name, kind, operation)
            if operation is not None:
                kinds[operation.name] = name
            lines = ["layer_call(&frame_, &function_atb, values_, status_);"]
            lines += [f"if (status_ == 0) layer_made_operation(&frame_, &kind_{name}, parameter, *operation);"]
            values = f'{{.pointer = "{kind}"}}, {{.pointer = operation}}'
            yield from _atb_function(name, "const void *parameter, void **operation", "", values, lines)
        elif _ATB_UPDATE.fullmatch(name):
            lines = ["if (status_ == 0) layer_changed_operation(parameter, operation);"]
            yield from _atb_function(name, "void *operation, const void *parameter", "", "", lines)
        elif name == _ATB_DESTROY:
            yield from _atb_function(name, "void *operation", "layer_forget_operation(operation);", "", [])
    pairs = [name for name in sorted(exports) if name.startswith("Atb") and f"{name}GetWorkspaceSize" in exports]
    installed = parse_atb_prototypes(header.read_text(encoding="utf-8", errors="replace")) if header.is_file() else {}
    for function in atb.functions():
        ours = [abi_type(ctype) for ctype in function.parameters.values()]
        theirs = installed.get(function.name)
        if function.name not in pairs or (theirs is not None and [abi_type(ctype) for ctype, _ in theirs] != ours):
            continue
        pairs.remove(function.name)
        operation = atb.get(function.operation)
        if operation.name not in kinds:
            kinds[operation.name] = operation.name
            yield from _operation_kind(operation.name, f"{operation.name}Param", operation)
        yield from _atb_phases(function, operation, kinds[operation.name])
    yield from unknown_lines(pairs, "layer_stream_of(stream)")


def _atb_phases(function: atb.Function, operation: atb.Operation, kind: str) -> Iterator[str]:
    """Both C functions: a launch of the operation that they make."""
    name = function.name
    one = phase_one(function, "void **op, void *context")
    arguments = ", ".join([*function.parameters, "workspaceSize", "op", "context"])
    yield f"LAYER int {one};\nLAYER int {one} {{"
    yield "    static void *slot_;\n    LAYER_ENTER;"
    yield f'    __typeof__(&{name}GetWorkspaceSize) real_ = (__typeof__(real_))REAL(slot_, "{name}GetWorkspaceSize");'
    yield f"    int status_ = real_({arguments});"
    yield from argument_lines(function, operation)
    yield f"    layer_prepared(&frame_, &kind_{kind}, &structure, (const void *const *)ins, (const void *const *)outs, status_,"
    yield "                   workspaceSize, op);"
    yield "    return status_;\n}"
    two = f"{name}(void *workspace, uint64_t size, void *op, void *context)"
    yield f"LAYER int {two};\nLAYER int {two} {{"
    yield "    static void *slot_;\n    LAYER_PASS;"
    yield f'    __typeof__(&{name}) real_ = (__typeof__(real_))REAL(slot_, "{name}");'
    yield "    void *stream_ = frame_.outer ? (void *)(uintptr_t)layer_stream_of(context) : NULL;"
    yield "    layer_launch *launch_ = frame_.outer ? layer_before_phase_two(workspace, size, op, stream_) : NULL;"
    yield "    int status_ = real_(workspace, size, op, context);"
    yield "    layer_after_phase_two(launch_, status_);"
    yield "    return status_;\n}"


def _operation_kind(symbol: str, kind: str, operation: Optional[atb.Operation]) -> Iterator[str]:
    """The ``layer_operation`` of a function that makes some."""
    name = f"{kind.rpartition('::')[2].removesuffix('Param')}Operation"
    if operation is None:
        yield f'static const layer_operation kind_{symbol} = {{.name = "{name}"}};'
        return
    yield from structure_lines(operation, "layer_value")
    yield from _described(operation.operator)
    counts = f"{len(operation.inputs)}, {len(operation.values)}, {len(operation.outputs)}, {on_host(operation)}u"
    functions = f"present_{operation.name}, read_{operation.name}"
    yield f'static const layer_operation kind_{symbol} = {{"{name}", &operator_{name}, {counts}, {functions}}};'


def _atb_function(name: str, parameters: str, before: str, values: str, after: Iterable[str]) -> Iterator[str]:
    arguments = ", ".join(parameter.split()[-1].lstrip("*") for parameter in parameters.split(","))
    yield f"LAYER int {name}({parameters});\nLAYER int {name}({parameters}) {{"
    yield f"    static void *slot_;\n    {'LAYER_ENTER' if values else 'LAYER_PASS; (void)frame_'};"
    yield f'    __typeof__(&{name}) real_ = (__typeof__(real_))REAL(slot_, "{name}");'
    yield f"    {before}\n    int status_ = real_({arguments});"
    if values:
        yield f"    const layer_value values_[] = {{{values}}};"
    yield from (f"    {line}" for line in after)
    yield "    return status_;\n}"


def vendors_operators(exports: Collection[str], include: Path) -> tuple[list[Operator], list[str]]:
    """The operators that a vendor's library exports and its headers declare, and the names of those that they do not."""
    declared: dict[str, Operator] = {}
    for header in sorted(include.glob("*.h")):
        with contextlib.suppress(OSError, ValueError):  # a header that cannot be read declares nothing
            declared.update((operator.name, operator) for operator in operators_from_header(header))
    pairs = [name for name in sorted(exports) if name.startswith("aclnn") and f"{name}GetWorkspaceSize" in exports]
    return [declared[name] for name in pairs if name in declared], [name for name in pairs if name not in declared]


def operators_of(exports: Collection[str], include: Optional[Path]) -> tuple[list[Operator], list[str]]:
    """The operators that a library exports with the catalog's prototype, and the names of those with another one."""
    operators: list[Operator] = []
    others: list[Operator] = []
    for operator in map(catalog.get, catalog.names()):
        if operator.name in exports and operator.phase_one in exports:
            (operators if _agrees(operator, include) else others).append(operator)
    return operators, [operator.name for operator in others]


def _agrees(operator: Operator, include: Optional[Path]) -> bool:
    """Whether the installed header, if there is one, has the catalog's prototype: a call by another corrupts memory."""
    header = include / operator.header if include is not None else None
    if header is None or not header.is_file():
        return not operator.variants
    installed = parse_prototypes(header.read_text(encoding="utf-8", errors="replace")).get(operator.name)
    ours = [(p.ctype, p.name) for p in operator.parameters]
    return installed is None or not Change(operator.name, installed, ours).abi


def declared_functions(include: Path) -> frozenset[str]:
    """The functions that the generated headers declare: those whose types are known."""
    names: set[str] = set()
    for folder in ("acl", "aclnn", "hccl"):
        for path in (include / folder).glob("*.h"):
            names.update(re.findall(r"\b(\w+)\([^;{]*\);", path.read_text(encoding="utf-8")))
    return frozenset(names)


# ------------------------------------------------------------------------------------------------- functions

_STATUSES = ("aclError", "aclnnStatus", "HcclResult")
_INTEGERS = re.compile(r"(const )?(u?int(8|16|32|64)_t|int|size_t|bool)")
_HANDLES = re.compile(r"(const )?(aclrt(Stream|Event|Context|Notify|DrvMemHandle|Label|MemPool)|aclmdlRI|HcclComm)")
_OUT_64 = re.compile(r"(void \*\*|(u?int64_t|size_t) \*|(aclrt\w+|aclmdlRI|HcclComm) \*)")
_OUT_32 = re.compile(r"u?int32_t \*")


def _is_recorded(name: str, row: dict[str, Any]) -> bool:
    return (
        _RECORDED.fullmatch(name) is not None
        and row["returns"] in _STATUSES
        and not row.get("variadic")
        and all(_kind(ctype) for _, ctype in row["params"])
    )


def _kind(ctype: str) -> str:
    """The letter of a parameter (layer.h); "" for what is passed by value in another way."""
    if ctype == "const char *":
        return "s"
    if _HANDLES.fullmatch(ctype):
        return "p"
    if _OUT_32.fullmatch(ctype):
        return "u"
    if ctype.endswith("*"):
        named = ctype.split()[0]
        is_handle = named in ("void", "uint64_t", "int64_t", "size_t") or _HANDLES.fullmatch(named) is not None
        return "o" if _OUT_64.fullmatch(ctype) and is_handle else "p"
    if _INTEGERS.fullmatch(ctype) or ctype in headers.enums():
        return "i"
    return "p" if re.fullmatch(r"aclrt\w*(Callback|Func)", ctype) else ""


def _function(name: str, row: dict[str, Any]) -> Iterator[str]:
    arguments = ", ".join(parameter for parameter, _ in row["params"])
    recorded = _is_recorded(name, row)
    if recorded:
        kinds = "".join(_kind(ctype) for _, ctype in row["params"])
        yield from _names(name, [parameter for parameter, _ in row["params"]])
        yield f'static const layer_function function_{name} = {{"{name}", "{kinds}", names_{name}}};'
    yield f"LAYER {headers.prototype(name, row).rstrip(';')} {{"
    alone = _HANDLE.fullmatch(name) is not None  # nothing that is recorded is called within it
    begin = "" if alone else f" {'LAYER_ENTER' if recorded else 'LAYER_PASS'};"
    yield f"    static void *slot_;{begin}"
    yield f'    __typeof__(&{name}) real_ = (__typeof__(real_))REAL(slot_, "{name}");'
    if name in _BEFORE:
        yield f"    {_BEFORE[name]}"
    if name in _BUFFERS:
        yield f'    const bool data_ = frame_.outer && layer_with_data("{name}");'
        yield from _buffers(name)
        yield f'    layer_before_collective(&frame_, "{name}", buffers_, number_, comm, stream);'
    yield f"    {row['returns']} result_ = real_({arguments});"
    if name in _BUFFERS:
        yield "    layer_after_collective(buffers_, number_, (int)result_, stream);"
    if name in _AFTER:
        yield f"    {_AFTER[name]}"
    if name in _COMPLETE:
        yield f"    if (result_ == 0 && status != NULL && *status != {_COMPLETE[name]}) return result_;"
    if recorded:
        values = ", ".join(_boxed(_kind(ctype), parameter) for parameter, ctype in row["params"]) or "{.integer = 0}"
        yield f"    const layer_value values_[] = {{{values}}};"
        yield f"    layer_call(&frame_, &function_{name}, values_, result_);"
    elif not alone:
        yield "    (void)frame_;"
    yield "    return result_;\n}"


def _buffers(name: str) -> Iterator[str]:
    """The buffers of a collective, as ``buffers_``, and how many they are, as ``number_``."""
    rows = _BUFFERS[name]
    if name == "HcclBatchSendRecv":
        yield "    layer_buffer buffers_[LAYER_ITEMS];"
        yield "    const int number_ = data_ ? layer_items(sendRecvInfo, itemNum, buffers_) : 0;"
        return
    yield "    const layer_buffer buffers_[] = {"
    for direction, buffer, count, dtype in rows:
        yield f"        {{\"{buffer}\", {buffer}, data_ ? {count} : 0, (int){dtype}, '{direction}', -1}},"
    yield f"        {{NULL, NULL, 0, 0, 'h', -1}},\n    }};\n    const int number_ = data_ ? {len(rows)} : 0;"


def _single(name: str, parameters: str) -> Iterator[str]:
    arguments = ", ".join(re.findall(r"(\w+)(?:\[\])?(?:,|$)", parameters))
    inputs, buffers, outputs, output_buffers = (f"(const void *const *){names}" for names in _DESCRIPTIONS)
    yield f"LAYER aclError {name}({parameters}) {{"
    yield "    static void *slot_;\n    LAYER_ENTER;"
    yield f'    __typeof__(&{name}) real_ = (__typeof__(real_))REAL(slot_, "{name}");'
    yield f"    layer_launch *launch_ = layer_before_single(&frame_, opType, numInputs, {inputs}, {buffers},"
    yield f"        numOutputs, {outputs}, {output_buffers}, stream);"
    yield f"    aclError result_ = real_({arguments});"
    yield "    layer_after_phase_two(launch_, result_);"
    yield "    return result_;\n}"


def _boxed(kind: str, name: str) -> str:
    return f"{{.integer = (int64_t){name}}}" if kind == "i" else f"{{.pointer = (const void *)(uintptr_t){name}}}"


def _names(name: str, parameters: Sequence[str]) -> Iterator[str]:
    listed = ", ".join(f'"{parameter}"' for parameter in parameters) or "NULL"
    yield f"static const char *const names_{name}[] = {{{listed}}};"


# ------------------------------------------------------------------------------------------------- operators


def _operator(operator: Operator, exports: Collection[str]) -> Iterator[str]:
    name = operator.name
    one, two = (text.rstrip(";") for text in headers.operator_prototypes(operator))
    values = ", ".join(f"{{.{protocol.member(p.kind)} = {p.name}}}" for p in operator.parameters) or "{.integer = 0}"
    yield from _described(operator)
    phases = [operator.phase_one]
    if f"{name}GetMaxWorkspaceSize" in exports and name in MAX_WORKSPACE:
        phases.append(f"{name}GetMaxWorkspaceSize")
    for phase in phases:
        prototype = one.replace(f"{operator.phase_one}(", f"{phase}(")
        arguments = ", ".join([*(p.name for p in operator.parameters), "workspaceSize", "executor"])
        yield f"LAYER {prototype};\nLAYER {prototype} {{"
        yield "    static void *slot_;\n    __attribute__((cleanup(layer_leave))) layer_frame frame_;"
        yield f'    __typeof__(&{phase}) real_ = (__typeof__(real_))begin_(&frame_, &slot_, "{phase}");'
        yield f"    aclnnStatus status_ = real_({arguments});"
        yield f"    const layer_value values_[] = {{{values}}};"
        yield f"    layer_phase_one(&frame_, &operator_{name}, values_, status_, workspaceSize, (void *const *)executor);"
        yield "    return status_;\n}"
    yield f"LAYER {two};\nLAYER {two} {{"
    yield "    static void *slot_;"
    if operator.phase_two:
        more = "".join(f"{parameter}, " for _, parameter in operator.phase_two)
        yield "    LAYER_PASS;"
        yield f'    __typeof__(&{name}) real_ = (__typeof__(real_))REAL(slot_, "{name}");'
        yield "    layer_launch *launch_ ="
        yield "        frame_.outer ? layer_before_phase_two(workspace, workspaceSize, executor, stream) : NULL;"
        yield f"    aclnnStatus status_ = real_(workspace, workspaceSize, executor, {more}stream);"
        yield "    layer_after_phase_two(launch_, status_);"
        yield "    return status_;\n}"
    else:
        yield f'    return phase_two_(&slot_, "{name}", workspace, workspaceSize, executor, stream);\n}}'


def _described(operator: Operator) -> Iterator[str]:
    """The ``layer_operator`` of an operator."""
    letters = {"in": "i", "out": "o", "inout": "x"}
    directions = "".join(letters[parameter.direction] for parameter in operator.parameters)
    yield from _names(operator.name, [parameter.name for parameter in operator.parameters])
    yield f"static layer_operator operator_{operator.name} = {{"
    count = len(operator.parameters)
    yield f'    "{operator.name}", "{protocol.kinds(operator)}", "{directions}", names_{operator.name}, {count}, 0}};'


def _quoted(text: str) -> str:
    """A C string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
