// aclnnMoeInitRoutingQuant: the rows of x in the order of their experts, quantised to int8 (in half precision).
#include "ascend.hpp"

#include "aclnnop/aclnn_moe_init_routing_quant.h"

int main() {
    return ascend::report([] {
        ascend::Session session;
        ascend::Tensor<float> x({3, 2}, {0.5f, 1.5f, 2.5f, -2.5f, 3.4999f, 25.07f});
        ascend::Tensor<int32_t> row_idx({3, 2}, {0, 3, 1, 4, 2, 5}); // copy k of token n is number k * 3 + n
        ascend::Tensor<int32_t> expert_idx({3, 2}, {1, 0, 2, 1, 0, 2});
        ascend::Tensor<int8_t> expanded_x({6, 2});
        ascend::Tensor<int32_t> expanded_row_idx({6}), expanded_expert_idx({6});
        const double scale = 4, offset = 0.25;
        ascend::run(session, aclnnMoeInitRoutingQuantGetWorkspaceSize, aclnnMoeInitRoutingQuant, x.get(), row_idx.get(),
                    expert_idx.get(), int64_t{3}, scale, offset, expanded_x.get(), expanded_row_idx.get(),
                    expanded_expert_idx.get());
        expanded_x.print("expanded_x");
        expanded_row_idx.print("expanded_row_idx");
        expanded_expert_idx.print("expanded_expert_idx");
    });
}
