"""vLLM in several engines, for compare_vllm_models.py: data parallel; prompts read in one process and continued in another."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def greedy(count: int, **transfer: Any) -> Any:
    """Parameters of a request for so many tokens; ``transfer``: where keys and values of its prompt are, or go."""
    from vllm import SamplingParams

    extra = {"kv_transfer_params": transfer} if transfer else None
    return SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, extra_args=extra)


async def generate_in_replicas(options: dict[str, Any], asked: list[Any], count: int) -> tuple[float, list[Any]]:
    """When two engines had loaded, and what they answer: the first every other prompt, the second the rest."""
    import asyncio

    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**options))
    loaded = time.perf_counter()

    async def last_of(number: int) -> Any:
        stream = engine.generate(asked[number], greedy(count), str(number), data_parallel_rank=number % 2)
        return [answer async for answer in stream][-1]

    answers = await asyncio.gather(*map(last_of, range(len(asked))))
    engine.shutdown()
    return loaded, answers


def run_both(reads: list[str], continues: list[str]) -> bool:
    """Runs the two commands of a transfer, each on a device of its own; whether both succeed.

    The one that reads prompts ends when its standard input does.
    """

    def start(command: list[str], device: str) -> subprocess.Popen[bytes]:
        own = {**os.environ, "VLLM_HOST_IP": "127.0.0.1", "ASCEND_RT_VISIBLE_DEVICES": device}
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr, env=own)

    first, second = start(reads, "0"), start(continues, "1")
    while first.poll() is None and second.poll() is None:
        time.sleep(0.2)
    if first.poll() is not None:
        second.terminate()
    first.communicate()
    return second.wait() == 0 and first.returncode == 0


def transfer_config(reads: bool) -> dict[str, Any]:
    """For vllm-ascend's connector with Mooncake's transport: the producer of keys and values, or their consumer."""
    size = {"tp_size": 1, "dp_size": 1}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    return {
        "kv_connector": "MooncakeConnectorV1",
        "kv_role": "kv_producer" if reads else "kv_consumer",
        "kv_port": port,
        "engine_id": "reads" if reads else "continues",
        "kv_connector_extra_config": {"prefill": size, "decode": size},
    }


def read_prompts(directory: Path, llm: Any, asked: list[Any]) -> None:
    """Writes where the keys and values of prompts are, and keeps them until standard input ends."""
    parameters = greedy(1, do_remote_decode=True, do_remote_prefill=False)
    transfers = [answer.kv_transfer_params for answer in llm.generate(asked, parameters, use_tqdm=False)]
    part = directory / "transfer.part"
    part.write_text(json.dumps(transfers))
    part.rename(directory / "transfer.json")
    sys.stdin.read()


def continue_prompts(directory: Path, llm: Any, asked: list[Any], count: int) -> list[Any]:
    """Answers prompts with the keys and values of ``read_prompts``; RuntimeError where the engine reads one again."""
    path = directory / "transfer.json"
    while not path.exists():  # run_both ends this process where the other one fails
        time.sleep(0.1)
    parameters = [greedy(count, **transfer) for transfer in json.loads(path.read_text())]
    answers: list[Any] = llm.generate(asked, parameters, use_tqdm=False)
    for prompt, answer in zip(asked, answers):
        if answer.num_cached_tokens < len(prompt["prompt_token_ids"]):
            raise RuntimeError(
                f"of {len(prompt['prompt_token_ids'])} tokens {answer.num_cached_tokens} were transferred"
            )
    return answers
