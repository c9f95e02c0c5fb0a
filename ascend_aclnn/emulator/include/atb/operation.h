/* An operation: made of a structure of parameters, set up with tensors, executed with the workspace that it asks for. */
#ifndef ASCEND_ACLNN_ATB_OPERATION_H
#define ASCEND_ACLNN_ATB_OPERATION_H

#include "atb/context.h"

#include <string>

namespace atb {

class Operation {
public:
    Operation() = default;
    virtual ~Operation() = default;
    virtual std::string GetName() const = 0;
    virtual Status InferShape(const SVector<TensorDesc> &inTensorDescs, SVector<TensorDesc> &outTensorDescs) const = 0;
    virtual uint32_t GetInputNum() const = 0;
    virtual uint32_t GetOutputNum() const = 0;
    virtual Status Setup(const VariantPack &variantPack, uint64_t &workspaceSize, Context *context) = 0;
    virtual Status Execute(const VariantPack &variantPack, uint8_t *workspace, uint64_t workspaceSize, Context *context) = 0;
};

template <typename OpParam>
Status CreateOperation(const OpParam &opParam, Operation **operation);
template <typename OpParam>
Status CloneOperationParam(const Operation *operation, OpParam &opParam);
template <typename OpParam>
Status UpdateOperationParam(Operation *operation, const OpParam &opParam);
Status DestroyOperation(Operation *operation);
Status SetExecuteStreamId(Operation *operation, uint32_t streamId);
uint32_t GetExecuteStreamId(Operation *operation);

}

#endif
