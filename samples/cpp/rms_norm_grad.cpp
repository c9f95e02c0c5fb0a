// aclnnRmsNormGrad: the gradients of x and gamma, from the rstd that the forward operator gave.
#include "ascend.hpp"

#include <numeric>

#include "aclnnop/aclnn_rms_norm_grad.h"

int main() {
    return ascend::report([] {
        ascend::Session session;
        std::vector<float> values(32);
        std::iota(values.begin(), values.end(), 1.0f);
        std::vector<float> weights(values.begin(), values.begin() + 16);
        ascend::Tensor<float> dy({2, 1, 16}, values), x({2, 1, 16}, values), gamma({16}, weights);
        ascend::Tensor<float> rstd({2, 1}, {1, 2});
        ascend::Tensor<float> dx({2, 1, 16}), dgamma({16});
        ascend::run(session, aclnnRmsNormGradGetWorkspaceSize, aclnnRmsNormGrad, dy.get(), x.get(), rstd.get(), gamma.get(),
                    dx.get(), dgamma.get());
        dx.print("dx");
        dgamma.print("dgamma");
    });
}
