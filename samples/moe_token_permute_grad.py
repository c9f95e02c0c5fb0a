"""aclnnMoeTokenPermuteGrad on its document's input: the copies of each token's gradient are gathered and added."""

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops

# Two experts per token, one token of hidden size 2: rows 0 and 1 of the gradient belong to it.
permuted_output_grad = np.array([[1, 2], [3, 4]], ml_dtypes.bfloat16)
sorted_indices = np.array([0, 1], np.int32)

out = ops.moe_token_permute_grad(permuted_output_grad, sorted_indices, num_topk=2)

print(f"backend {aclnn.backend().name} ({aclnn.backend().soc})")
print(f"gradient of the tokens, {out.dtype}:\n{out}")
assert out.astype(np.float32).tolist() == [[4, 6]]
