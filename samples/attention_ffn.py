"""The experts of some layers on ranks of their own: attention ranks send tokens, FFN ranks send results back.

    attention ranks   AttentionToFFN -> ...       InplaceAttentionWorkerScheduler -> AttentionWorkerCombine -> next layer
    FFN ranks         InplaceFfnWorkerScheduler -> FfnWorkerBatching -> Mm per expert -> FFNToAttention

No rank calls a collective: each side writes into the windows of the other, whose scheduler waits for it. Every token goes to
``--topk`` of the experts and to a shared one, which all FFN ranks have. What attention itself does is left out. At the end the
attention ranks compute their tokens alone and compare. The operators are Atlas A3's, the windows CANN 8.5's.

    python samples/attention_ffn.py --attention 2 --ffn 2                            # NumPy, on any host
    ascend-aclnn emulator run --cann 8.5.0 --soc Ascend910_9391 -- \\
        python samples/attention_ffn.py --attention 2 --ffn 2                        # the emulated device
    torchrun --nproc_per_node=4 samples/attention_ffn.py --launched                  # cards
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops

SOC = "Ascend910_9391"  # of the NumPy backend
NO_EXPERT = np.iinfo(np.int32).max  # in the place of an expert
ALIGNED = 512  # bytes: where the tokens of a window begin
TOLERANCE = 2e-3


class Layout:
    """What all ranks know: shapes, which rank has which expert, and how the windows are divided."""

    def __init__(self, options):
        self.sessions, self.workers = options.attention, options.ffn
        self.tokens, self.hidden, self.topk = options.tokens, options.hidden, options.topk
        self.places = self.topk + 1  # experts of a token, the shared one last
        self.per_rank = options.experts // self.workers
        self.routed = self.per_rank * self.workers
        # Of each expert: on how many ranks it is, and of each of them the rank and the expert's number there.
        self.table = np.zeros((1, self.routed + 1, 1 + 2 * self.workers), np.int32)
        for expert in range(self.routed):
            self.table[0, expert, :3] = 1, self.sessions + expert // self.per_rank, expert % self.per_rank
        self.table[0, -1, 0] = self.workers
        self.table[0, -1, 1::2] = self.sessions + np.arange(self.workers)
        self.table[0, -1, 2::2] = self.per_rank
        # The window of an FFN rank, then that of an attention rank: a table, and the tokens.
        self.ffn_info = [self.sessions, 1, 2 + self.tokens * self.places]
        self.ffn_data = [self.sessions, 1, self.tokens, self.places, self.hidden]
        self.attention_info = [1, self.tokens, self.places]
        self.attention_data = [1, self.tokens, self.places, self.hidden]
        generator = np.random.default_rng(7)
        shape = (options.layers, self.routed + 1, self.hidden, self.hidden)
        self.weights = (generator.standard_normal(shape, np.float32) / self.hidden**0.5).astype(np.float16)

    def is_session(self, rank):
        return rank < self.sessions

    def window(self, comm):
        """This rank's window, its table empty, and where the tokens begin in it."""
        info, data = (
            (self.attention_info, self.attention_data) if self.is_session(comm.rank) else (self.ffn_info, self.ffn_data)
        )
        start = -(-4 * math.prod(info) // ALIGNED) * ALIGNED
        others = [rank for rank in range(comm.size) if self.is_session(rank) != self.is_session(comm.rank)]
        window = comm.window(start + 2 * math.prod(data), others)
        if not self.is_session(comm.rank):
            empty = np.full(info, NO_EXPERT, np.int32)
            empty[:, :, :2] = 0  # flag and layer
            aclnn.Tensor.from_pointer(window.data_ptr, info, "INT32").assign(empty)
        comm.barrier()  # all tables are ready
        aclnn.synchronize()
        return window, start

    def context(self, **fields):
        """A schedule context with this rank's addresses."""
        context = np.zeros(1, aclnn.SCHEDULE_CONTEXT)
        context["session_num"], context["micro_batch_num"], context["run_flag"] = self.sessions, 1, 1
        context["micro_batch_size"], context["selected_expert_num"] = self.tokens, self.places
        context["attn_to_ffn_token_size"] = context["ffn_to_attn_token_size"] = 2 * self.hidden
        for name, value in fields.items():
            context[name] = value
        return aclnn.asarray(context.view(np.int8))


def attend(comm, layout, layers):
    """An attention rank. Seconds, and the largest error beside the same computed alone."""
    window, start = layout.window(comm)
    schedule = layout.context(
        schedule_mode=1,
        attention_token_info_buf=window.data_ptr,
        attention_token_info_buf_size=start,
        attention_token_data_buf=window.data_ptr + start,
        attention_token_data_buf_size=window.nbytes - start,
    )
    generator = np.random.default_rng(100 + comm.rank)
    x = generator.standard_normal((layout.tokens, layout.hidden), np.float32).astype(np.float16)
    scores = generator.random((layers, layout.tokens, layout.routed), np.float32)
    ids = np.argsort(-scores, axis=-1)[..., : layout.topk].astype(np.int32)
    weights = np.take_along_axis(scores, ids, -1) / layout.topk
    session, first = np.array([comm.rank], np.int32), np.zeros(1, np.int32)
    y = aclnn.asarray(x)
    begin = time.perf_counter()
    for layer in range(layers):
        number = np.array([layer], np.int32)
        ops.attention_to_ffn(
            y.reshape(1, *y.shape), session, first, number, ids[layer][None], layout.table,
            group=comm.name, world_size=comm.size, moe_expert_num=layout.routed, ffn_start_rank_id=layout.sessions,
            ffn_token_info_table_shape=layout.ffn_info, ffn_token_data_shape=layout.ffn_data,
            attn_token_info_table_shape=layout.attention_info, quant_mode=0, sync_flag=0,
        )  # fmt: skip
        ops.inplace_attention_worker_scheduler(schedule)
        y, _ = ops.attention_worker_combine(
            schedule, aclnn.asarray(weights[layer]), aclnn.asarray(number), layout.hidden, 0, 0
        )
    result = y.numpy().astype(np.float32)
    seconds = time.perf_counter() - begin
    for layer in range(layers):
        x = alone(x, ids[layer], weights[layer], layout.weights[layer])
    return seconds, float(np.abs(result - x).max() / np.abs(x).max())


def alone(x, ids, weights, experts):
    """A layer on one rank, in float32 but for what is sent."""
    wide = x.astype(np.float32)
    products = np.stack([(wide @ expert.astype(np.float32)).astype(np.float16) for expert in experts], 1).astype(
        np.float32
    )
    chosen = np.take_along_axis(products, ids[..., None], 1)
    return ((chosen * weights[..., None]).sum(1) + products[:, -1]).astype(np.float16)


def feed(comm, layout, layers):
    """An FFN rank: its experts and the shared one. Seconds, and the rows that came."""
    window, start = layout.window(comm)
    notes = aclnn.zeros((3 + layout.tokens * layout.places, layout.sessions), "INT32")
    where, fields = notes.data_ptr, {}
    for name in ("layer_ids", "session_ids", "micro_batch_ids", "expert_ids"):
        nbytes = 4 * layout.sessions * (layout.tokens * layout.places if name == "expert_ids" else 1)
        fields[f"ffn_{name}_buf"], fields[f"ffn_{name}_buf_size"], where = where, nbytes, where + nbytes
    schedule = layout.context(
        ffn_token_info_buf=window.data_ptr,
        ffn_token_info_buf_size=start,
        ffn_token_data_buf=window.data_ptr + start,
        ffn_token_data_buf_size=window.nbytes - start,
        **fields,
    )
    first, rows = (comm.rank - layout.sessions) * layout.per_rank, 0
    begin = time.perf_counter()
    for layer in range(layers):
        experts = [*layout.weights[layer, first : first + layout.per_rank], layout.weights[layer, -1]]
        ops.inplace_ffn_worker_scheduler(schedule, layout.sessions, 0)
        most = (layout.sessions, layout.tokens, layout.places, layout.hidden)
        y, groups, sessions, batches, tokens, places, _, total = ops.ffn_worker_batching(
            schedule, len(experts), most, 0, 0, 0
        )
        done, end = aclnn.zeros(y.shape, y.dtype), 0
        for expert, count in groups.numpy().tolist():
            if count:
                ops.mm(y[end : end + count], aclnn.asarray(experts[expert]), out=done[end : end + count])
                end += count
        ops.ffn_to_attention(
            done, sessions, batches, tokens, places, total, None, comm.name, comm.size, layout.attention_info,
            layout.attention_data,
        )  # fmt: skip
        rows += end
    aclnn.synchronize()
    return time.perf_counter() - begin, float(rows)


def run(comm, options):
    """One rank's part."""
    layout = Layout(options)
    if comm.size != layout.sessions + layout.workers:
        raise SystemExit(
            f"there are {comm.size} ranks; --attention and --ffn ask for {layout.sessions + layout.workers}"
        )
    seconds, value = (attend if layout.is_session(comm.rank) else feed)(comm, layout, options.layers)
    reports = np.asarray(comm.all_gather(aclnn.asarray(np.array([[seconds, value]], np.float32))))
    aclnn.synchronize()
    if comm.rank == 0:
        backend = aclnn.backend()
        emulated = ", emulated" if backend.emulated else ""
        print(f"{comm.size} ranks on {backend.name} ({backend.soc}{emulated}): {options.layers} layers, ")
        print(
            f"  {layout.tokens} tokens of {layout.hidden} on each attention rank, {layout.routed} experts and a shared one\n"
        )
        print(f"{'rank':>4} {'':9} {'ms':>9} {'rows':>6} {'relative error':>15}")
        for rank, (seconds_taken, value) in enumerate(reports.tolist()):
            role, cell = ("attention", f"{'':6} {value:15.2e}") if layout.is_session(rank) else ("FFN", f"{value:6.0f}")
            print(f"{rank:4} {role:9} {seconds_taken * 1e3:9.2f} {cell}")
    worst = float(reports[: layout.sessions, 1].max())
    if not worst <= TOLERANCE:
        raise SystemExit(f"FAILED: error {worst:.2e} is above {TOLERANCE:.0e}")
    if comm.rank == 0:
        print(f"all within {TOLERANCE:.0e} of the layers on one rank")


def start(info, rank, options):
    """A rank that this program started itself."""
    choose_soc()
    aclnn.Device(rank % aclnn.backend().device_count()).use()
    with Communicator.from_root_info(info, rank, options.attention + options.ffn) as comm:
        run(comm, options)


def choose_soc():
    if aclnn.backend().name == "numpy":
        aclnn.use_backend("numpy", soc=SOC)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attention", type=int, default=2, help="attention ranks")
    parser.add_argument("--ffn", type=int, default=2, help="FFN ranks")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=1024, help="1024 to 8192")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--topk", type=int, default=2)
    parser.add_argument("--launched", action="store_true", help="a launcher has started the ranks")
    options = parser.parse_args()
    if options.launched:
        with Communicator.from_env() as comm:
            run(comm, options)
        return
    info = Communicator.root_info()
    context = multiprocessing.get_context("spawn")
    count = options.attention + options.ffn
    ranks = [context.Process(target=start, args=(info, rank, options)) for rank in range(count)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in ranks))


if __name__ == "__main__":
    main()
