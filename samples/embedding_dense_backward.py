"""aclnnEmbeddingDenseBackward on its document's input, by the two-phase interface."""

import numpy as np

import ascend_aclnn as aclnn

grad = aclnn.asarray(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
indices = aclnn.asarray(np.array([1, 2], np.int64))
out = aclnn.empty((4, 3), np.float32)

# The arguments of aclnnEmbeddingDenseBackwardGetWorkspaceSize in C order: numWeights 4, paddingIdx 0, scaleGradByFreq false.
with aclnn.Executor("aclnnEmbeddingDenseBackward", grad, indices, 4, 0, False, out) as executor:
    print(f"backend {aclnn.backend().name} ({aclnn.backend().soc}), workspace {executor.workspace_size} bytes")
    executor.run()

print(f"gradient of the embedding table:\n{out.numpy()}")
assert out.numpy().tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6], [0, 0, 0]]
