// Calls ATB as its C++ clients do: a product added in float32, and a paged attention that is refused in many ways.
#include "acl/acl.h"
#include "atb/atb_infer.h"

#include <cstdint>
#include <cstdio>
#include <vector>

using namespace atb;

static Tensor on_device(aclDataType dtype, std::vector<int64_t> dims, const void *data) {
    Tensor tensor;
    tensor.desc.dtype = dtype;
    tensor.desc.format = ACL_FORMAT_ND;
    tensor.desc.shape.dimNum = dims.size();
    for (size_t i = 0; i < dims.size(); i++) tensor.desc.shape.dims[i] = dims[i];
    tensor.dataSize = Utils::GetTensorSize(tensor);
    aclrtMalloc(&tensor.deviceData, tensor.dataSize, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(tensor.deviceData, tensor.dataSize, data, tensor.dataSize, ACL_MEMCPY_HOST_TO_DEVICE);
    return tensor;
}

static void run(Operation *operation, VariantPack &pack, Context *context, aclrtStream stream) {
    uint64_t size = 0;
    std::printf("setup %d", operation->Setup(pack, size, context));
    void *workspace = nullptr;
    if (size > 0) aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    std::printf(" execute %d", operation->Execute(pack, static_cast<uint8_t *>(workspace), size, context));
    aclrtSynchronizeStream(stream);
    if (workspace != nullptr) aclrtFree(workspace);
}

static void product(Context *context, aclrtStream stream) {
    const uint16_t one = 0x3c00, two = 0x4000, three = 0x4200;
    const uint16_t x[] = {one, two, three, one}, weight[] = {two, one, one, three};
    const float total[] = {10, 20, 30, 40};
    infer::LinearParam param;
    param.transposeA = true;
    param.transposeB = false;
    param.hasBias = false;
    param.enAccum = true;
    Operation *operation = nullptr;
    std::printf("create %d", CreateOperation(param, &operation));
    VariantPack pack;
    pack.inTensors = {on_device(ACL_FLOAT16, {2, 2}, x), on_device(ACL_FLOAT16, {2, 2}, weight), on_device(ACL_FLOAT, {2, 2}, total)};
    SVector<TensorDesc> ins, outs;
    for (Tensor &tensor : pack.inTensors) ins.push_back(tensor.desc);
    std::printf(" infer %d", operation->InferShape(ins, outs));
    std::printf(" outputs %zu of dtype %d (%ld, %ld)\n", outs.size(), outs.at(0).dtype, (long)outs.at(0).shape.dims[0],
                (long)outs.at(0).shape.dims[1]);
    pack.outTensors = {pack.inTensors.at(2)};
    std::printf("%s takes %u and gives %u\n", operation->GetName().c_str(), operation->GetInputNum(), operation->GetOutputNum());
    for (int i = 0; i < 2; i++) {
        float result[4];
        run(operation, pack, context, stream);
        aclrtMemcpy(result, sizeof result, pack.outTensors.at(0).deviceData, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST);
        std::printf(" result %g %g %g %g\n", result[0], result[1], result[2], result[3]);
    }
    for (Tensor &tensor : pack.inTensors) aclrtFree(tensor.deviceData);
    DestroyOperation(operation);
}

static void refusals(Context *context) {
    std::vector<char> zeros(1 << 16);
    int32_t lengths[] = {3};
    infer::PagedAttentionParam param;
    Operation *operation = nullptr;
    std::printf("no heads %d\n", CreateOperation(param, &operation));
    param.headNum = 2;
    param.kvHeadNum = 1;
    param.scaleType = infer::PagedAttentionParam::SCALE_TYPE_LOGN;
    std::printf("not emulated %d\n", CreateOperation(param, &operation));
    param.scaleType = infer::PagedAttentionParam::SCALE_TYPE_TOR;
    param.rsv[5] = 1;
    std::printf("reserved %d\n", CreateOperation(param, &operation));
    param.rsv[5] = 0;
    std::printf("create %d\n", CreateOperation(param, &operation));
    uint64_t size = 0;
    VariantPack good, pack;
    good.inTensors = {on_device(ACL_FLOAT16, {1, 2, 16}, zeros.data()), on_device(ACL_FLOAT16, {2, 16, 1, 16}, zeros.data()),
                      on_device(ACL_FLOAT16, {2, 16, 1, 16}, zeros.data()), on_device(ACL_INT32, {1, 2}, zeros.data()), Tensor()};
    Tensor &host = good.inTensors.at(4);
    host.desc = good.inTensors.at(3).desc;
    host.desc.shape.dimNum = 1;
    host.desc.shape.dims[0] = 1;
    host.hostData = lengths;
    good.outTensors = {on_device(ACL_FLOAT16, {1, 2, 16}, zeros.data())};
    std::printf("good %d\n", operation->Setup(good, size, context));
    std::printf("no context %d\n", operation->Setup(good, size, nullptr));
    pack = good;
    pack.inTensors.resize(4);
    std::printf("tensor number %d\n", operation->Setup(pack, size, context));
    pack = good;
    pack.inTensors.at(0).desc.dtype = ACL_FLOAT;
    std::printf("data type %d\n", operation->Setup(pack, size, context));
    pack = good;
    pack.inTensors.at(3).desc.shape.dimNum = 1;
    std::printf("dim number %d\n", operation->Setup(pack, size, context));
    pack = good;
    pack.inTensors.at(2).desc.shape.dims[1] = 8;
    std::printf("dim %d\n", operation->Setup(pack, size, context));
    pack = good;
    pack.inTensors.at(1).deviceData = nullptr;
    std::printf("address %d\n", operation->Setup(pack, size, context));
    pack = good;
    pack.inTensors.at(4).hostData = nullptr;
    std::printf("host %d\n", operation->Setup(pack, size, context));
    std::printf("not set up %d\n", operation->Execute(VariantPack(), nullptr, 0, context));
    for (size_t i = 0; i < 4; i++) aclrtFree(good.inTensors.at(i).deviceData);
    aclrtFree(good.outTensors.at(0).deviceData);
    infer::PagedAttentionParam copy;
    std::printf("clone %d", CloneOperationParam(operation, copy));
    std::printf(" %d\n", copy.headNum);
    DestroyOperation(operation);
}

int main() {
    aclrtStream stream;
    Context *context = nullptr;
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    CreateContext(&context);
    context->SetExecuteStream(stream);
    std::printf("streams %zu %d\n", context->GetExecuteStreams().size(), context->GetExecuteStream() == stream);
    product(context, stream);
    refusals(context);
    DestroyContext(context);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
