"""Tokens of vLLM on the emulated device beside transformers on the CPU: a line for each model or feature.

    scripts/demo_vllm scripts/compare_vllm_models.py [NAME...]

Each prompt is continued greedily. transformers, in float32 with the weights that were rounded to the model's type, judges every
token after those that vLLM gave before it. A token that is not its first choice is printed with its distance: how far its logit
lies below the best one, beside what rounding explains, 16 ULP of the type at the largest logit's size.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from quantised_models import quantise
from several_engines import continue_prompts, generate_in_replicas, greedy, read_prompts, run_both, transfer_config
from tiny_models import make


class Row(NamedTuple):
    kind: str
    dtype: str = "float16"
    options: tuple[tuple[str, Any], ...] = ()  # of LLM
    lora: bool = False
    quantised: str = ""  # a scheme of quantised_models
    length: int = 12  # of prompts
    sleeps: int = 0  # the level at which it sleeps, and wakes, before it answers
    drafts: int = 0  # tokens that an EAGLE model drafts at a time
    hashed: bool = False  # attention to the blocks whose hashed keys are nearest: all three of a prompt
    transfers: bool = False  # one process reads the prompts, and another continues them with its keys and values


_GRAPHS = ("enforce_eager", False)  # vllm-ascend's default: graphs of pieces, and whole ones of decoding
_NGRAM = ("speculative_config", {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3})
_REPLICAS = ("data_parallel_size", 2)
_RANKS = ("tensor_parallel_size", 2)
_WORKERS = (_REPLICAS, _RANKS)  # an engine starts workers, in processes of their own
# vllm-ascend lets only weights in ND sleep.
_SLEEP = (("enable_sleep_mode", True), ("additional_config", {"weight_nz_mode": 0}))
# Only where others prefill does vllm-ascend launch mla_preprocess; nothing comes from them here. Above 1024 tokens in a batch it
# keeps the weights of prefill.
_NOTHING = {"kv_connector_module_path": "idle_connector", "kv_connector_extra_config": {"connectors": []}}
_CONSUMER = (
    ("kv_transfer_config", {"kv_connector": "IdleConnector", "kv_role": "kv_consumer", **_NOTHING}),
    ("disable_hybrid_kv_cache_manager", True),
    ("max_num_batched_tokens", 1280),
)
_SMALL = {"max_num_batched_tokens": 256}
ROWS = {
    "llama": Row("llama"),
    "llama-graphs": Row("llama", options=(_GRAPHS,)),
    "qwen2": Row("qwen2"),
    "qwen3": Row("qwen3"),
    "qwen3-bfloat16": Row("qwen3", "bfloat16"),
    "qwen3-moe": Row("qwen3_moe"),
    "qwen3-moe-bfloat16": Row("qwen3_moe", "bfloat16"),
    "deepseek-v2": Row("deepseek_v2"),
    "deepseek-v2-bfloat16": Row("deepseek_v2", "bfloat16"),
    "ngram": Row("llama", options=(_NGRAM,)),
    "ngram-graphs": Row("llama", options=(_NGRAM, _GRAPHS)),
    "eagle": Row("llama", drafts=2),
    "eagle-graphs": Row("llama", options=(_GRAPHS,), drafts=2),
    "prefix-caching": Row("llama", options=(("enable_prefix_caching", True),), length=300),
    "chunked-prefill": Row("llama", options=(("max_num_batched_tokens", 64),), length=200),
    "chunked-prefill-mla": Row("deepseek_v2", "bfloat16", options=(("max_num_batched_tokens", 64),), length=200),
    # vllm-ascend's sparse attention takes models with one head of keys alone.
    "hamming-sparse": Row("llama_1", length=300, hashed=True),
    # Below rank 128 vllm-ascend launches kernels of its own (bgmv_shrink); from there on it takes vLLM's own functions.
    "lora": Row("llama", options=(("max_lora_rank", 16),), lora=True),
    "lora-128": Row("llama", options=(("max_lora_rank", 128),), lora=True),
    # CANN takes no FLOAT16 scales of weights for FLOAT16 outputs
    "w8a8": Row("llama", "bfloat16", quantised="W8A8_DYNAMIC"),
    "w8a8-moe": Row("qwen3_moe", "bfloat16", quantised="W8A8_DYNAMIC"),
    "w8a8-static": Row("llama", quantised="W8A8"),
    "w4a8": Row("llama", quantised="W4A8_DYNAMIC"),
    "w4a8-moe": Row("qwen3_moe", "bfloat16", quantised="W4A8_DYNAMIC"),
    "mla-preprocess": Row("deepseek_v2_lora", options=_CONSUMER, quantised="W8A8"),
    "tensor-parallel-2": Row("llama", options=(_RANKS,)),
    "tensor-parallel-2-graphs": Row("llama", options=(_RANKS, _GRAPHS)),
    "expert-parallel-2": Row("qwen3_moe", options=(_RANKS, ("enable_expert_parallel", True))),
    # Two engines and a coordinator, as vllm serve starts them. With experts they run every step together, each with half of them.
    "data-parallel-2": Row("llama", options=(_REPLICAS,)),
    "data-parallel-2-graphs": Row("llama", options=(_REPLICAS, _GRAPHS)),
    "data-parallel-2-moe": Row("qwen3_moe", options=(_REPLICAS, ("enable_expert_parallel", True))),
    # vllm-ascend's connector with Mooncake's transport (pip install mooncake-transfer-engine-npu, apt install libibverbs1).
    "kv-transfer": Row("llama", length=200, transfers=True),
    "kv-transfer-mla": Row("deepseek_v2", "bfloat16", length=200, transfers=True),
    "sleep": Row("llama", options=_SLEEP, sleeps=1),
    "sleep-2": Row("llama", options=_SLEEP, sleeps=2),
}
TOKENS = 16


def make_lora(directory: Path, model: Any, rank: int = 8) -> None:
    """An adapter of the attention's projections, in peft's layout; the model gets its product added."""
    from safetensors.torch import save_file

    directory.mkdir()
    tensors = {}
    targets = ["q_proj", "v_proj", "o_proj"]
    with torch.no_grad():
        for name, module in model.named_modules():
            if name.rpartition(".")[2] in targets:
                a = (torch.randn(rank, module.in_features) * 0.1).half()
                b = (torch.randn(module.out_features, rank) * 0.1).half()
                tensors[f"base_model.model.{name}.lora_A.weight"] = a
                tensors[f"base_model.model.{name}.lora_B.weight"] = b
                module.weight += b.float() @ a.float() * 2
    save_file(tensors, directory / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": targets, "bias": "none"}
    (directory / "adapter_config.json").write_text(json.dumps(config))


def make_eagle(directory: Path, model: Any) -> None:
    """A draft model, in EAGLE's layout, that guesses many tokens right, and not all: it is the model, without its first norm.

    EAGLE's ``fc`` makes a layer's input of a token's embedding and the hidden state that led to the token; here it takes the
    first half and a little of the second one.
    """
    from safetensors.torch import save_file

    directory.mkdir()
    hidden = model.config.hidden_size
    tensors = {
        name.removeprefix("model."): weight
        for name, weight in model.state_dict().items()
        if name.startswith("model.layers.") and name != "model.layers.0.input_layernorm.weight"
    }
    tensors["embed_tokens.weight"] = model.state_dict()["model.embed_tokens.weight"]
    tensors["fc.weight"] = torch.cat([torch.eye(hidden), torch.randn(hidden, hidden) * 0.01], dim=1)
    save_file({name: tensor.half().contiguous() for name, tensor in tensors.items()}, directory / "model.safetensors")
    config = {**model.config.to_dict(), "dtype": "float16", "architectures": ["LlamaForCausalLM"]}
    (directory / "config.json").write_text(json.dumps(config))


def prompts(length: int) -> list[list[int]]:
    """Three prompts: what follows the first 256 tokens of a long one differs."""
    generator = torch.Generator().manual_seed(1)
    shared = torch.randint(2, 250, (max(length - 12, 0),), generator=generator).tolist()
    return [shared + torch.randint(2, 250, (12,), generator=generator).tolist() for _ in range(3)]


def generate(directory: Path, row: Row, part: str = "") -> None:
    """Writes what vLLM gives, and the seconds of loading and of generating, into ``answers.json``.

    ``part`` of a row that transfers: ``reads`` the prompts and writes ``transfer.json``, or ``continues`` them.
    """
    from vllm import LLM
    from vllm.lora.request import LoRARequest

    began = time.perf_counter()
    options: dict[str, Any] = {
        "max_model_len": 512,
        "max_num_seqs": 4,
        "enforce_eager": True,
        "gpu_memory_utilization": 0.02,
        **_SMALL,
    }
    options |= {"enable_prefix_caching": False, "enable_lora": row.lora, **dict(row.options)}
    if row.drafts:
        draft = {"method": "eagle", "model": str(directory / "draft"), "num_speculative_tokens": row.drafts}
        options |= {"speculative_config": draft, "disable_log_stats": False}
    if row.hashed:
        # Whether each layer is left out; vllm-ascend looks for the layer's number there, too, and so leaves out layer 0.
        hashes = {
            "head_dim": 64,
            "hash_bits": 64,
            "vllm_hash_attention_topk": 384,
            "vllm_hash_attention_skip_layers": [False] * 2,
        }
        (directory / "hashes.json").write_text(json.dumps(hashes))
        sparse = {"enabled": True, "sparse_json_location": str(directory / "hashes.json")}
        options["additional_config"] = {"enable_hamming_sparse": True, "hamming_sparse": sparse}
    parameters = greedy(TOKENS)
    asked = [{"prompt_token_ids": ids} for ids in prompts(row.length)]
    if _REPLICAS in row.options:
        options |= {"model": str(directory), "dtype": row.dtype}
        loaded, answers = asyncio.run(generate_in_replicas(options, asked, TOKENS))
        write(directory, answers, loaded - began, time.perf_counter() - loaded)
        return
    if row.transfers:
        options["kv_transfer_config"] = transfer_config(part == "reads")
    llm = LLM(str(directory), dtype=row.dtype, **options)
    loaded = time.perf_counter()
    request = LoRARequest("adapter", 1, str(directory / "adapter")) if row.lora else None
    if row.sleeps:
        llm.generate(asked[:1], parameters, use_tqdm=False)
        llm.sleep(level=row.sleeps)
        llm.wake_up()
        if row.sleeps == 2:  # the weights are gone
            llm.collective_rpc(reload_weights)
    if options["enable_prefix_caching"]:  # so that the three find what the first one has left
        llm.generate(asked[:1], parameters, lora_request=request, use_tqdm=False)
    if part == "reads":
        read_prompts(directory, llm, asked)
        return
    answers = (
        continue_prompts(directory, llm, asked, TOKENS)
        if part == "continues"
        else llm.generate(asked, parameters, lora_request=request, use_tqdm=False)
    )
    seconds = loaded - began, time.perf_counter() - loaded
    for metric in llm.get_metrics() if row.drafts else []:
        if metric.name.startswith("vllm:spec_decode_num_"):
            print(metric, flush=True)
    write(directory, answers, *seconds)


def reload_weights(worker: Any) -> None:
    """vLLM's method of the runner, which NPUWorker passes on under no name."""
    worker.model_runner.reload_weights()


def write(directory: Path, answers: list[Any], *seconds: float) -> None:
    tokens = [list(answer.outputs[0].token_ids) for answer in answers]
    (directory / "answers.json").write_text(json.dumps([tokens, *seconds]))


def run(name: str, directory: Path) -> bool:
    """Generates in processes of their own: vLLM forks its engine, and torch's threads do not survive that."""
    command = [sys.executable, __file__, "--generate", name, str(directory)]
    if ROWS[name].transfers:
        return run_both([*command, "reads"], [*command, "continues"])
    own = {**os.environ, "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}  # reload_weights goes to the engine's process
    if any(option in _WORKERS for option in ROWS[name].options):
        own["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"  # docs/emulator/vllm.md, "Invalid thread pool!"
    return subprocess.run(command, stdout=sys.stderr, env=own, check=False).returncode == 0


def judge(model: Any, row: Row, answers: list[list[int]]) -> tuple[int, list[float], float]:
    """How many tokens are the model's first choice, the distances of the others, and what rounding explains."""
    first, distances, largest = 0, [], 0.0
    for prompt, tokens in zip(prompts(row.length), answers):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
        largest = max(largest, float(logits.abs().max()))
        best, chosen = logits.max(-1).values, logits[torch.arange(len(tokens)), torch.tensor(tokens)]
        gaps = (best - chosen).tolist()
        first += sum(gap == 0 for gap in gaps)
        distances += [gap for gap in gaps if gap > 0]
    return first, sorted(distances, reverse=True), 16 * torch.finfo(getattr(torch, row.dtype)).eps * largest


def main(names: list[str]) -> int:
    heads = ("model", "type", "first choice", "others lie below by", "rounding explains", "loading s", "48 tokens s")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name in names or ROWS:
        row = ROWS[name]
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "model"
            model = make(directory, row.kind, getattr(torch, row.dtype))
            if row.lora:
                make_lora(directory / "adapter", model)
            if row.drafts:
                make_eagle(directory / "draft", model)
            if row.quantised:
                quantise(directory, model, row.quantised, prompts(row.length))
            if not run(name, directory):
                print(f"| {name} | {row.dtype} | fails, see standard error | | | | |", flush=True)
                continue
            answers, loading, generating = json.loads((directory / "answers.json").read_text())
            first, distances, explained = judge(model, row, answers)
            others = ", ".join(f"{distance:.3f}" for distance in distances) or "-"
            total = sum(map(len, answers))
            print(
                f"| {name} | {row.dtype} | {first} of {total} | {others} | {explained:.3f} | {loading:.0f} | {generating:.1f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--generate"]:
        generate(Path(sys.argv[3]), ROWS[sys.argv[2]], *sys.argv[4:])
    else:
        sys.exit(main(sys.argv[1:]))
