"""Makes small random models with a tokenizer of their own, as vLLM loads them: no hub, no download.

    ascend-aclnn emulator run -- python scripts/tiny_models.py DIRECTORY [KIND]

Importing transformers imports torch_npu where it is installed, hence the emulated device. Kinds are those of ``CONFIGS``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

_DENSE = {
    "vocab_size": 320,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
}
_HEADS = {"head_dim": 64}
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "norm_topk_prob": True}
_LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "first_k_dense_replace": 1,
    "topk_method": "greedy",
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": False,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_DENSE, **_HEADS},
    "llama_1": {**_DENSE, **_HEADS, "num_key_value_heads": 1},
    "qwen2": _DENSE,
    "qwen3": {**_DENSE, **_HEADS},
    "qwen3_moe": {**_DENSE, **_HEADS, **_EXPERTS},
    "deepseek_v2": {**_DENSE, **_LATENT},
    "deepseek_v2_lora": {**_DENSE, **_LATENT, "q_lora_rank": 256},  # queries through latents, too
}


def make_tokenizer(directory: Path) -> None:
    """A token for each byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(["<s>", "</s>", *alphabet])}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    whole.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    whole.save_pretrained(directory)


def make(directory: Path, kind: str = "llama", dtype: torch.dtype = torch.float16, seed: int = 0) -> Any:
    """Writes a model of a kind and its tokenizer; returns it, with weights that were rounded to the dtype, in float32."""
    torch.manual_seed(seed)
    family = kind.removesuffix("_lora").removesuffix("_1")
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **CONFIGS[kind]))
    scales = {"embed_tokens": 1.0, "lm_head": 0.2}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                scale = next((value for part, value in scales.items() if part in name), 0.05)
                weight.copy_(torch.randn_like(weight) * scale)
    model = model.to(dtype)
    model.save_pretrained(directory)
    make_tokenizer(directory)
    return model.float().eval()


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "llama")
