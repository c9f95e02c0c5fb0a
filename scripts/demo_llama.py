"""Compares llama.cpp's CANN backend with its CPU backend on small random models; run by scripts/demo_llama.

A model of each type decodes greedily: with captured graphs and weights in FRACTAL_NZ (ggml's defaults), eager, with weights in
ND, with graphs for the prompt, and with ggml's fused operators. The CPU backend runs the same weights in float32, because it
rounds the activations of quantised products to 8 bits, which CANN does not. Exit status 1: a token differs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np

HIDDEN, HEADS, KV_HEADS, FORWARD, VOCABULARY, CONTEXT = 256, 4, 2, 512, 512, 512
TYPES = {"F16": 1, "Q4_0": 2, "Q8_0": 7}  # and llama.cpp's numbers of files of that type
RUNS: dict[str, dict[str, str]] = {
    "graphs, NZ": {},
    "eager, NZ": {"GGML_CANN_ACL_GRAPH": "off"},
    "graphs, ND": {"GGML_CANN_WEIGHT_NZ": "off"},
    "graphs for the prompt too": {"GGML_CANN_PREFILL_USE_GRAPH": "on"},
    "fused operators": {"GGML_CANN_OPERATOR_FUSION": "on"},
}
PROMPT = [1, 40, 80, 120, 33, 107]


def write_model(path: Path, kind: str, *, layers: int, experts: int, exact: bool) -> None:
    """A random llama model. ``exact``: the values of its quantised weights, in float32."""
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(TYPES[kind])
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*special, *(f"word{i}" for i in range(VOCABULARY - len(special)))])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * (VOCABULARY - len(special))])

    def add(name: str, *shape: int) -> None:
        values = (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        stored = gguf.GGMLQuantizationType[kind]
        packed = gguf.quants.quantize(values, stored)
        if exact:
            writer.add_tensor(name, gguf.quants.dequantize(packed, stored).astype(np.float32))
        else:
            writer.add_tensor(name, packed, raw_dtype=stored)

    writer.add_tensor("token_embd.weight", random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32))
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    add("output.weight", VOCABULARY, HIDDEN)
    for layer in range(layers):
        block = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}{norm}.weight", np.ones(HIDDEN, np.float32))
        for projection, width in (("q", HIDDEN), ("k", HIDDEN // HEADS * KV_HEADS), ("v", HIDDEN // HEADS * KV_HEADS)):
            add(f"{block}attn_{projection}.weight", width, HIDDEN)
        add(f"{block}attn_output.weight", HIDDEN, HIDDEN)
        several, suffix = ((experts,), "_exps") if experts else ((), "")
        if experts:
            add(f"{block}ffn_gate_inp.weight", experts, HIDDEN)
        add(f"{block}ffn_gate{suffix}.weight", *several, FORWARD, HIDDEN)
        add(f"{block}ffn_up{suffix}.weight", *several, FORWARD, HIDDEN)
        add(f"{block}ffn_down{suffix}.weight", *several, HIDDEN, FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def generate(model: Path, on_cpu: bool, count: int, logits: Path) -> dict[str, Any]:
    """Decodes greedily in this process; ggml reads its settings once."""
    from llama_cpp import Llama

    llama = Llama(
        str(model),
        n_gpu_layers=0 if on_cpu else 99,
        n_ctx=CONTEXT,
        flash_attn=True,
        offload_kqv=not on_cpu,
        op_offload=not on_cpu,
        verbose=False,
    )
    tokens: list[int] = []
    rows: list[np.ndarray] = []
    seconds: list[float] = []
    ahead = PROMPT
    for _ in range(count):
        start = time.perf_counter()
        llama.eval(ahead)
        rows.append(np.ctypeslib.as_array(llama._ctx.get_logits(), (VOCABULARY,)).copy())
        seconds.append(time.perf_counter() - start)
        tokens.append(int(rows[-1].argmax()))
        ahead = tokens[-1:]
    np.save(logits, np.stack(rows))
    live = ctypes.CDLL("libascendcl.so").aclemuLiveCount
    live.restype, live.argtypes = ctypes.c_int64, [ctypes.c_char_p]
    return {"tokens": tokens, "seconds": float(np.median(seconds[1:])), "graphs": live(b"model")}


def run(model: Path, on_cpu: bool, count: int, settings: dict[str, str]) -> tuple[dict[str, Any], np.ndarray]:
    logits = model.with_suffix(".npy")
    command = [sys.executable, __file__, "--tokens", str(count), "--generate", str(model), "--logits", str(logits)]
    done = subprocess.run(
        command + ["--cpu"] * on_cpu, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1]), np.load(logits)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", nargs="+", choices=TYPES, default=["F16", "Q4_0"], help="of the weights")
    parser.add_argument("--tokens", type=int, default=48, help="to decode (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--experts", type=int, default=0, help="of each layer, two of them used (default: none)")
    for hidden, kind in (("--generate", Path), ("--logits", Path)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--cpu", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate is not None:
        print(json.dumps(generate(options.generate, options.cpu, options.tokens, options.logits)))
        return 0
    different = 0
    print("weights  run                        tokens equal  largest difference of logits  graphs  ms a token")
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.types:
            model, exact = Path(folder, f"{kind}.gguf"), Path(folder, f"{kind}-exact.gguf")
            for path in (model, exact):
                write_model(path, kind, layers=options.layers, experts=options.experts, exact=path == exact)
            expected, right = run(exact, True, options.tokens, {})
            for name, settings in RUNS.items():
                got, logits = run(model, False, options.tokens, settings)
                equal = np.array(got["tokens"]) == expected["tokens"]
                alike = (
                    len(equal) if equal.all() else int(equal.argmin()) + 1
                )  # behind a differing token all else differs
                error = np.abs(logits[:alike] - right[:alike]).max()
                scale = np.abs(right[:alike]).max()
                different += not equal.all()
                print(
                    f"{kind:<7}  {name:<25}  {f'{equal.sum()} of {len(equal)}':<12}  "
                    f"{f'{error:.1e}, the largest is {scale:.1f}':<28}  {got['graphs']:<6}  {got['seconds'] * 1e3:.1f}",
                    flush=True,
                )
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
