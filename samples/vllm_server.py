"""An OpenAI-compatible server on the loopback answers a prompt: `vllm serve`, unmodified, with a small random model.

    ./scripts/demo_vllm

On a card the same program runs on the card, with CANN's environment (set_env.sh).
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

PROMPT = "The emulated device says"
# Triton's kernels are interpreted, token by token: a start with fewer tokens to a batch takes less time. Device memory is that of
# the host.
OPTIONS = (
    "--dtype float16 --max-model-len 256 --max-num-seqs 4 --max-num-batched-tokens 256 --enforce-eager "
    "--gpu-memory-utilization 0.02"
)


def ask(url, payload=None, timeout=600):
    data = None if payload is None else json.dumps(payload).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read()


def wait_until_ready(server, url):
    while server.poll() is None:
        try:
            return ask(f"{url}/health", timeout=5)
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit(f"the server ended with status {server.returncode}")


def main():
    from tiny_models import make

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/tiny-llama"
        make(Path(model))
        began = time.perf_counter()
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--host", "127.0.0.1"]
        server = subprocess.Popen([*command, "--port", str(port), *OPTIONS.split()], stdout=sys.stderr)
        try:
            wait_until_ready(server, f"http://127.0.0.1:{port}")
            ready = time.perf_counter()
            request = {"model": model, "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
            answer = json.loads(ask(f"http://127.0.0.1:{port}/v1/completions", request))
            done = time.perf_counter()
        finally:
            server.terminate()
            server.wait()
    print(f"prompt      {PROMPT!r}")
    print(f"completion  {answer['choices'][0]['text']!r}  (random weights say nothing sensible)")
    print(
        f"tokens      {answer['usage']['completion_tokens']} in {done - ready:.1f} s; ready after {ready - began:.0f} s"
    )


if __name__ == "__main__":
    main()
