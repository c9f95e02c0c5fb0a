// Calls ATB's C functions: rows of a paged cache, attention with lengths on the host, and a refusal.
#include "acl/acl.h"
#include "atb/atb_acl.h"
#include "atb/atb_infer.h"

#include <cstdint>
#include <cstdio>
#include <vector>

static std::vector<void *> addresses;
static std::vector<aclTensor *> tensors;

static aclTensor *described(aclDataType dtype, std::vector<int64_t> dims, void *address) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i > 0; i--) strides[i - 1] = strides[i] * dims[i];
    tensors.push_back(aclCreateTensor(dims.data(), dims.size(), dtype, strides.data(), 0, ACL_FORMAT_ND, dims.data(), dims.size(), address));
    return tensors.back();
}

// `first`, `first` + 1, ... in steps of `step`; zeros where the step is 0.
static aclTensor *on_device(aclDataType dtype, std::vector<int64_t> dims, int first = 0, int step = 0) {
    std::vector<char> bytes;
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    bytes.resize(count * aclDataTypeSize(dtype));
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ACL_INT32) reinterpret_cast<int32_t *>(bytes.data())[i] = first + step * (int)i;
        else if (step != 0) reinterpret_cast<uint16_t *>(bytes.data())[i] = (uint16_t)(0x3c00 + step * (i % 16)); // 1 to 2 in FLOAT16
    }
    void *address = nullptr;
    aclrtMalloc(&address, bytes.size(), ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(address, bytes.size(), bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE);
    addresses.push_back(address);
    return described(dtype, dims, address);
}

int main() {
    aclrtStream stream;
    atb::Context *context = nullptr;
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    atb::CreateContext(&context);
    context->SetExecuteStream(stream);

    auto execute = [&](const char *name, int status, decltype(&AtbRingMLA) function, uint64_t size, atb::Operation *operation) {
        void *workspace = nullptr;
        if (size > 0) aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
        std::printf("%s %d %d\n", name, status, function(workspace, size, operation, context));
        aclrtSynchronizeStream(stream);
        if (workspace != nullptr) aclrtFree(workspace);
        atb::DestroyOperation(operation);
    };

    uint64_t size = 0;
    atb::Operation *operation = nullptr;
    aclTensor *pages = on_device(ACL_FLOAT16, {2, 16, 1, 16}, 0, 8), *table = on_device(ACL_INT32, {1, 2}, 1, -1);
    aclTensor *key = on_device(ACL_FLOAT16, {20, 1, 16}), *value = on_device(ACL_FLOAT16, {20, 1, 16});
    int status = AtbPagedCacheLoadGetWorkspaceSize(pages, pages, table, on_device(ACL_INT32, {1}, 20), key, value, nullptr,
                                                   1, false, false, &size, &operation, context);
    execute("load", status, AtbPagedCacheLoad, size, operation);

    int32_t lengths[] = {2, 3};
    aclTensor *parts[5];
    for (int i = 0; i < 5; i++) parts[i] = on_device(ACL_FLOAT16, {5, 2, i == 1 || i == 3 ? 64 : 128}, 0, i + 1);
    aclTensor *mask = on_device(ACL_FLOAT16, {512, 512}), *sizes = described(ACL_INT32, {2}, lengths);
    aclTensor *out = on_device(ACL_FLOAT16, {5, 2, 128}), *sums = described(ACL_FLOAT, {2, 5}, addresses[0]);
    for (int heads : {2, 3}) {
        operation = nullptr;
        status = AtbRingMLAGetWorkspaceSize(parts[0], parts[1], parts[2], parts[3], parts[4], mask, sizes, nullptr, nullptr, heads, 2, 0.5f, 1, 0, 0,
                                            1, out, sums, &size, &operation, context);
        lengths[0] = 9; // has been read by now
        if (status == 0) execute("ring", status, AtbRingMLA, size, operation);
        else std::printf("ring %d\n", status);
        lengths[0] = 2;
    }

    for (aclTensor *tensor : tensors) aclDestroyTensor(tensor);
    for (void *address : addresses) aclrtFree(address);
    atb::DestroyContext(context);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
