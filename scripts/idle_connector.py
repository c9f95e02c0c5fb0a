"""A connector of vLLM for an engine that is told to continue what others have read, and gets nothing from them."""

from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector


class IdleConnector(MultiConnector):  # type: ignore[misc]  # vllm has no types where mypy runs
    """vLLM's own of several connectors, without any: vllm-ascend's, which has that name, wants Mooncake."""
