// The same operator from C++, by the two phases of its header.
#include "acl/acl.h"
#include "aclnn_scaled_rows.h"

#include <cstdint>
#include <cstdio>
#include <vector>

#define CHECK(call)                                                                           \
    do {                                                                                      \
        int status = (call);                                                                  \
        if (status != 0) {                                                                    \
            std::fprintf(stderr, "%s: %d %s\n", #call, status, aclGetRecentErrMsg());         \
            return 1;                                                                         \
        }                                                                                     \
    } while (0)

template <typename T>
static aclTensor *upload(const std::vector<T> &values, const std::vector<int64_t> &shape, aclDataType type, void **memory) {
    size_t size = values.size() * sizeof(T);
    if (aclrtMalloc(memory, size, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return nullptr;
    if (aclrtMemcpy(*memory, size, values.data(), size, ACL_MEMCPY_HOST_TO_DEVICE) != 0) return nullptr;
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return aclCreateTensor(shape.data(), shape.size(), type, strides.data(), 0, ACL_FORMAT_ND, shape.data(), shape.size(), *memory);
}

int main() {
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream));

    std::vector<float> values = {0, 1, 2, 3, 4, 5}, result(4);
    std::vector<int64_t> chosen = {2, 0};
    void *memory[3] = {};
    aclTensor *x = upload(values, {3, 2}, ACL_FLOAT, &memory[0]);
    aclTensor *rows = upload(chosen, {2}, ACL_INT64, &memory[1]);
    aclTensor *out = upload(result, {2, 2}, ACL_FLOAT, &memory[2]);

    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    CHECK(aclnnScaledRowsGetWorkspaceSize(x, rows, 2.0, out, &size, &executor));
    void *workspace = nullptr;
    if (size > 0) CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclnnScaledRows(workspace, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(result.data(), 16, memory[2], 16, ACL_MEMCPY_DEVICE_TO_HOST));
    std::printf("out: %g %g %g %g\n", result[0], result[1], result[2], result[3]);

    for (const aclTensor *tensor : {x, rows, out}) aclDestroyTensor(tensor);
    for (void *each : memory) aclrtFree(each);
    if (workspace != nullptr) aclrtFree(workspace);
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    return aclFinalize();
}
