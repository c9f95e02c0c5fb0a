"""The schedule context of separate attention and FFN ranks: what operators take as ``schedule_context``.

    context = np.zeros(1, SCHEDULE_CONTEXT)
    context["session_num"], context["ffn_token_info_buf"] = 2, window.data_ptr
    ops.inplace_ffn_worker_scheduler(asarray(context.view(np.int8)), 2, 0)

The layout is CANN's struct ScheduleContext (attention_ffn_schedule.h of ops-transformer), whose areas are the beginnings of the
names here. Sizes of buffers and of tokens are bytes.
"""

from __future__ import annotations

import numpy as np

_OFFSETS = {
    "session_num": (0, "u4"),  # attention ranks
    "micro_batch_num": (4, "u4"),
    "micro_batch_size": (8, "u4"),
    "selected_expert_num": (12, "u4"),  # of a token: those it is routed to and the shared ones
    "expert_num": (16, "u4"),
    "attn_to_ffn_token_size": (20, "u4"),
    "ffn_to_attn_token_size": (24, "u4"),
    "schedule_mode": (28, "i4"),  # 0: FFN, 1: attention
    "run_flag": (128, "i4"),  # 0 ends a waiting scheduler
    "attention_token_info_buf": (256, "u8"),
    "attention_token_info_buf_size": (264, "u8"),
    "attention_token_data_buf": (272, "u8"),
    "attention_token_data_buf_size": (280, "u8"),
    "attention_micro_batch_id": (288, "u4"),
    "ffn_token_info_buf": (384, "u8"),
    "ffn_token_info_buf_size": (392, "u8"),
    "ffn_token_data_buf": (400, "u8"),
    "ffn_token_data_buf_size": (408, "u8"),
    "ffn_polling_index": (416, "u8"),
    "ffn_layer_ids_buf": (512, "u8"),
    "ffn_layer_ids_buf_size": (520, "u8"),
    "ffn_session_ids_buf": (528, "u8"),
    "ffn_session_ids_buf_size": (536, "u8"),
    "ffn_micro_batch_ids_buf": (544, "u8"),
    "ffn_micro_batch_ids_buf_size": (552, "u8"),
    "ffn_expert_ids_buf": (560, "u8"),
    "ffn_expert_ids_buf_size": (568, "u8"),
    "ffn_out_num": (576, "u4"),
}
SCHEDULE_CONTEXT = np.dtype(
    {
        "names": list(_OFFSETS),
        "formats": [format for _, format in _OFFSETS.values()],
        "offsets": [offset for offset, _ in _OFFSETS.values()],
        "itemsize": 1024,
    }
)
