/* What ATB's operations take: descriptions of tensors, tensors, and lists of them. */
#ifndef ASCEND_ACLNN_ATB_TYPES_H
#define ASCEND_ACLNN_ATB_TYPES_H

#include "acl/acl.h"
#include "atb/error_type.h"
#include "atb/svector.h"

#include <cstdint>

namespace atb {

using Status = int32_t; /* an ErrorType */
constexpr uint32_t MAX_DIM = 8;

struct Dims {
    int64_t dims[MAX_DIM];
    uint64_t dimNum = 0;
};

struct TensorDesc {
    aclDataType dtype = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    Dims shape;
};

/* A tensor lies on the device, on the host, or on both; an operation says where it reads. */
struct Tensor {
    TensorDesc desc;
    void *deviceData = nullptr;
    void *hostData = nullptr;
    uint64_t dataSize = 0; /* bytes */
};

struct VariantPack {
    SVector<Tensor> inTensors;
    SVector<Tensor> outTensors;
};

}

#endif
