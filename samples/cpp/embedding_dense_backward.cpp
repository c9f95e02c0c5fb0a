// aclnnEmbeddingDenseBackward: each row of the weight's gradient is the sum of the gradient rows with its index.
#include "ascend.hpp"

#include "aclnnop/aclnn_embedding_dense_backward.h"

int main() {
    return ascend::report([] {
        ascend::Session session;
        ascend::Tensor<float> gradient({2, 3}, {1, 2, 3, 4, 5, 6});
        ascend::Tensor<int64_t> indices({2}, {1, 2});
        ascend::Tensor<float> out({4, 3});
        const uint64_t rows = 4, padding = 0; // row 0 gets no gradient; UINT64_MAX: every row gets its own
        ascend::run(session, aclnnEmbeddingDenseBackwardGetWorkspaceSize, aclnnEmbeddingDenseBackward, gradient.get(),
                    indices.get(), rows, padding, false, out.get());
        out.print("out");
    });
}
