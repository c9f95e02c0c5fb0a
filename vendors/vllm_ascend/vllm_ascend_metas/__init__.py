"""Shapes for torch.compile and FakeTensor of those ``torch.ops._C_ascend`` names that vllm-ascend 0.23.0 registers without any.

vLLM calls ``plug_in`` where the distribution is installed; elsewhere call ``register`` once vllm-ascend's extension is loaded.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Optional

# They write into their arguments, and return nothing ...
_WRITE = ("bgmv_shrink", "sgmv_shrink", "swap_blocks", "swap_blocks_batch", "store_kv_block_metadata")
_AFTER = "vllm_ascend.meta_registration"  # imported by vllm-ascend behind its extension


def _nothing(*arguments: Any, **options: Any) -> None:
    pass


def _last_three(*arguments: Any, **options: Any) -> tuple[Any, ...]:
    """... or return those that they write into."""
    names = ("compress_cos", "compress_sin", "slot_mapping")
    return tuple(options[name] if name in options else arguments[at] for at, name in enumerate(names, 9))


@functools.lru_cache(1)
def register() -> Any:
    """Registers them; the library that torch keeps them by."""
    from torch.library import Library

    library = Library("_C_ascend", "IMPL")
    for name in _WRITE:
        library.impl(name, _nothing, "Meta")
    library.impl("compressor_metadata_out", _last_three, "Meta")
    return library


class _AfterImport(MetaPathFinder):
    """Registers once vllm-ascend has loaded its extension, which it does late so that devices can be chosen before."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name != _AFTER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def plug_in() -> None:
    """vLLM's plugin: registers now, or when vllm-ascend's extension is loaded."""
    if _AFTER in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _AfterImport())
