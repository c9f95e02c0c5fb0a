/* Sizes of tensors, the version. */
#ifndef ASCEND_ACLNN_ATB_UTILS_H
#define ASCEND_ACLNN_ATB_UTILS_H

#include "atb/types.h"

#include <string>

namespace atb {

class Utils {
public:
    static std::string GetAtbVersion();
    static uint64_t GetTensorSize(const Tensor &tensor); /* bytes */
    static uint64_t GetTensorSize(const TensorDesc &tensorDesc);
    static uint64_t GetTensorNumel(const Tensor &tensor); /* elements */
    static uint64_t GetTensorNumel(const TensorDesc &tensorDesc);
    static void QuantParamConvert(const float *src, uint64_t *dest, uint64_t itemCount);
};

}

#endif
