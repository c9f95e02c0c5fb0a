"""What type checkers must refuse: every line that ends in a comment "error: ..." is a mistake, and no other line."""

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops

x = np.zeros((2, 4), np.float32)
t = aclnn.asarray(x)
y = ops.relu(x)
y.nonsense()  # error: an ndarray has no such method
z = ops.relu(t)
z.nonsense()  # error: a Tensor has no such method
ops.rms_norm(x, x, eps=1e-6)  # error: the parameter is called epsilon
ops.no_such_operator(x)  # error: no such operator
aclnn.no_such_name  # error: no such name  # noqa: B018
ops.convolution(x, x, None)  # error: stride and the others are required
ops.rms_norm(x, x).gamma  # error: no such result  # noqa: B018
aclnn.Executor(1, x)  # error: the name is a string
ops.exp("abc")  # error: a str is no array
(t + 1).nonsense()  # error: a Tensor has no such method
for row in t:
    row.nonsense()  # error: a Tensor has no such method
