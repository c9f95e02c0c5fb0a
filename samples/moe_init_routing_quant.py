"""aclnnMoeInitRoutingQuant: tokens sorted by expert and quantised to int8, as the operator does it in half precision."""

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops

tokens, topk = 3, 2
x = np.array([[0.5, 1.5], [2.5, -2.5], [3.4999, 25.07]], np.float32)
expert_idx = np.array([[1, 0], [2, 1], [0, 2]], np.int32)
row_idx = np.arange(tokens * topk, dtype=np.int32).reshape(topk, tokens).T  # rises down a column

result = ops.moe_init_routing_quant(x, row_idx, expert_idx, active_num=tokens, scale=4.0, offset=0.25)

print(f"backend {aclnn.backend().name} ({aclnn.backend().soc})")
print("expert  token  quantised row")
source = np.empty(tokens * topk, np.int32)
source[result.expanded_row_idx] = np.arange(tokens * topk) % tokens  # expanded_row_idx is indexed by k * tokens + token
for expert, token, row in zip(result.expanded_expert_idx, source, result.expanded_x):
    print(f"{expert:6}  {token:5}  {row}")
# 25.07 becomes 25.0625 in half precision; 25.0625 * 4 + .25 = 100.5, which rounds to the even 100 (fp32 would give 101).
assert result.expanded_x[0].tolist() == [2, 6] and result.expanded_x[1].tolist() == [14, 100]
