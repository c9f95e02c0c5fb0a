// aclnnMoeTokenPermuteGrad: the gradient of one token that was sent to two experts is the sum of its two rows.
#include "ascend.hpp"

#include "aclnnop/aclnn_moe_token_permute_grad.h"

int main() {
    return ascend::report([] {
        ascend::Session session;
        ascend::Tensor<ascend::bfloat16> gradient({2, 2}, {1, 2, 3, 4});
        ascend::Tensor<int32_t> sorted_indices({2}, {0, 1}); // where each copy of the token lies among the rows
        ascend::Tensor<ascend::bfloat16> out({1, 2});
        ascend::run(session, aclnnMoeTokenPermuteGradGetWorkspaceSize, aclnnMoeTokenPermuteGrad, gradient.get(),
                    sorted_indices.get(), int64_t{2}, false, out.get());
        out.print("out");
    });
}
