"""Which libraries a build has, and what each is made of: a folder of ``csrc/``, generated sources, or both."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ascend_aclnn.emulator import protocol, releases
from ascend_aclnn.emulator.build import atb, hardware

PACKAGE = Path(__file__).parents[2]
CSRC = Path(__file__).parents[1] / "csrc"


class Options(NamedTuple):
    """What a build is to be like."""

    cann: str = releases.DEFAULT  # the release that is claimed, and whose functions are exported
    # The operators in libopapi_math.so, libopapi_nn.so, ... as newer CANN has them, and no libopapi.so; so they are anyway in a
    # release that has libopapi.so no more.
    split: bool = False
    sanitize: tuple[str, ...] = ()  # what -fsanitize is given


class Library(NamedTuple):
    """What a library is made of."""

    folder: str = ""  # of csrc/: all sources below it
    needs: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()  # the libraries whose functions it exports, as the catalog names them
    operators: tuple[str, ...] = ()  # the repositories whose operators it has
    graphs: bool = False  # it exports the graph engine's functions
    operations: bool = False  # it has ATB's operations
    sanitized: bool = True  # with what -fsanitize asks for

    def sources(self) -> list[Path]:
        """The sources that are written by hand."""
        return sorted((CSRC / self.folder).rglob("*.c")) if self.folder else []


_LIBRARIES = {
    "libascendcl.so": Library("ascendcl", functions=("libascendcl.so", "libacl_rt.so")),
    "libnnopbase.so": Library("nnopbase", ("libascendcl.so",), ("libnnopbase.so",)),
    "libhccl.so": Library("hccl", ("libnnopbase.so", "libascendcl.so"), ("libhccl.so", "libhcomm.so")),
    "libacl_op_compiler.so": Library("opcompiler", ("libascendcl.so",), ("libacl_op_compiler.so",)),
    # The device process loads it, and its interpreter is not sanitized.
    "libaclemu_ring.so": Library("ring", sanitized=False),
    "libc_sec.so": Library("securec"),
    "libmetadef.so": Library("metadef"),
    # torch_npu, torchair and MindSpore link against these and use nothing of them before they need a graph or a data channel.
    # torchair finds libc_sec's functions through libgraph.
    "libgraph.so": Library("graph", graphs=True, needs=("libc_sec.so", "libmetadef.so")),
    "libge_runner.so": Library(needs=("libgraph.so",)),
    "libfmk_parser.so": Library(needs=("libgraph.so",)),
    "libascend_protobuf.so": Library(),
    "libacl_tdt_channel.so": Library(functions=("libacl_tdt_channel.so",), needs=("libascendcl.so",)),
    "libacl_tdt_queue.so": Library(functions=("libacl_tdt_queue.so",), needs=("libascendcl.so",)),
    # asnumpy links against it, and uses nothing of it here; code of tilings in extensions opens it and looks up rtGetSocVersion.
    "libruntime.so": Library(needs=("libascendcl.so",)),
    "libplatform.so": Library("platform", functions=("libplatform.so",), needs=("libascendcl.so",)),
    # Extensions with kernels of their own (vllm-ascend's) link against these: two or three functions, or none.
    "libascendalog.so": Library("log"),
    "libunified_dlog.so": Library(
        "log"
    ),  # the same functions: linkers look no further than the libraries that are named
    "libmmpa.so": Library("mmpa"),
    "libascend_dump.so": Library(),
    "liberror_manager.so": Library(),
    "libregister.so": Library(),
    "libge_common_base.so": Library(),
    "libascend_hal.so": Library("hal", ("libascendcl.so",)),
    "libmspti.so": Library("mspti", ("libascendcl.so",)),
    "libms_tools_ext.so": Library("mstx", ("libascendcl.so",)),
    # torch_npu's libop_plugin_atb.so links against it.
    "libatb.so": Library("atb", ("libnnopbase.so", "libascendcl.so"), operations=True),
    # Mooncake's transport for Ascend links against it.
    "libllm_datadist.so": Library("datadist", ("libmetadef.so", "libascendcl.so")),
    "libcann_hixl.so": Library("hixl", ("libllm_datadist.so",)),  # the same under newer names
}

# The operators lie in one library, or, in newer CANN, in one for each repository.
REPOSITORIES = ("ops-math", "ops-nn", "ops-cv", "ops-transformer")
_BASE = ("libnnopbase.so", "libascendcl.so")
_WHOLE = {"libopapi.so": Library("opapi", _BASE, operators=REPOSITORIES)}
_SPLIT = {
    f"libopapi_{name.partition('-')[2]}.so": Library("opapi" if name == "ops-math" else "", _BASE, operators=(name,))
    for name in REPOSITORIES
}

# Other names of a library, most of them newer CANN's, and the library that answers for it: it has nothing but the names.
_FILTERS = {
    "libacl_rt.so": "libascendcl.so",
    "libacl_mdl.so": "libascendcl.so",
    "libacl_op_executor.so": "libascendcl.so",
    "libmsprofiler.so": "libascendcl.so",
    "libprofapi.so": "libascendcl.so",
    "libhcomm.so": "libhccl.so",
}
_FILTER_SINCE = {
    "libacl_mdl.so": "8.5.0",
    "libacl_op_executor.so": "8.5.0",
    "libhcomm.so": "9.0.0",  # torch_npu asks it for HcclGroupStart where the CANN is one of these
}
_RUNTIME, _NEWER_RUNTIME = "libascendcl.so", "libacl_rt.so"


def runtime_of(lib64: Path) -> str:
    """The runtime's library in a build's directory of libraries: CANN 9.2.0 has it by another name."""
    return _RUNTIME if (lib64 / _RUNTIME).exists() else _NEWER_RUNTIME


def libraries(options: Options) -> dict[str, Library]:
    """Every library of a build but those that are only other names; each after those that it needs."""
    split = options.split or releases.lacks_library(options.cann, "libopapi.so")
    return {
        _called(name, options): library._replace(needs=tuple(_called(need, options) for need in library.needs))
        for name, library in {**_LIBRARIES, **(_SPLIT if split else _WHOLE)}.items()
    }


def filters(options: Options) -> dict[str, str]:
    """The libraries that are only other names, and the one that answers for each."""
    return {
        name: _called(target, options)
        for name, target in _FILTERS.items()
        if releases.has(options.cann, _FILTER_SINCE.get(name, releases.DEFAULT)) and name != _called(target, options)
    }


def _called(name: str, options: Options) -> str:
    """A library's name in a release: the runtime has its newer one only, where the older is gone."""
    return _NEWER_RUNTIME if name == _RUNTIME and releases.lacks_library(options.cann, name) else name


# Headers that are made of what the device process knows.
GENERATED = {
    "protocol.h": protocol.c_header,
    "socs.h": hardware.c_header,
    "hccl_data.h": hardware.hccl_header,
    "platform_data.h": hardware.platform_header,
    "atb_data.h": atb.data_header,
}
