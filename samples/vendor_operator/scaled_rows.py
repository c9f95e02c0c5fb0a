"""A vendor's operator: out[i] = x[rows[i]] * factor. Declaration, rule and reference are all that the emulated device needs."""

import ascend_aclnn as aclnn
from ascend_aclnn.reference import reference
from ascend_aclnn.rules.language import *

aclnn.register_operator("""
aclnnStatus aclnnScaledRowsGetWorkspaceSize(const aclTensor *x, const aclTensor *rows, double factor, aclTensor *out,
                                            uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnScaledRows",
    same_dtype("x", "out", among=FLOATS),
    dtypes(INDICES, "rows"),
    rank(2, "x"),
    rank(1, "rows"),
    require("factor > 0"),
    output_shape(out="(rows[0], x[1])"),
)


@reference("aclnnScaledRows")
def scaled_rows(x, rows, factor):
    return x[rows] * factor
