"""aclnnRmsNormGrad on its document's input (x = dy = 1..32, gamma = 1..16), on Tensors and asynchronously."""

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops

x = aclnn.asarray(np.arange(1, 33, dtype=np.float32).reshape(2, 1, 16))
gamma = aclnn.asarray(np.arange(1, 17, dtype=np.float32))
# As in the document: not 1/rms of x, which would be .103418 and .040112. The operator trusts what it is given.
rstd = aclnn.asarray(np.array([[1], [2]], np.float32))

dx, dgamma = ops.rms_norm_grad(x, x, rstd, gamma)  # queued on the current stream; numpy() waits for it

np.set_printoptions(formatter={"float": "{:.0f}".format}, linewidth=100)
print(f"backend {aclnn.backend().name} ({aclnn.backend().soc})")
print(f"dx:\n{dx.numpy().reshape(2, 16)}")
print(f"dgamma:\n{dgamma.numpy()}")
assert dgamma.numpy()[0] == 579 and dx.numpy()[0, 0, 0] == -1155
