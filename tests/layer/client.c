/* A client of CANN, linked against its libraries. What it does besides two launches is its argument. */
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "acl/acl.h"
#include "acl/acl_op_compiler.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static aclrtStream stream;

static aclTensor *tensor(const float *values, void **address) {
    int64_t dims[2] = {2, 2}, storage = 4;
    aclrtMalloc(address, 16, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(*address, 16, values, 16, ACL_MEMCPY_HOST_TO_DEVICE);
    return aclCreateTensor(dims, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &storage, 1, *address);
}

static int add(const aclTensor *x, const aclTensor *y, aclTensor *out) {
    float one = 1;
    uint64_t size = 0;
    aclOpExecutor *executor = NULL;
    aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
    int status = aclnnAddGetWorkspaceSize(x, y, alpha, out, &size, &executor);
    if (status == 0) status = aclnnAdd(NULL, size, executor, stream);
    aclDestroyScalar(alpha);
    return status;
}

static int concatenate(aclTensor *const *parts, uint64_t count) {
    int64_t dims[2] = {2, 4};
    uint64_t size = 0;
    void *address = NULL;
    aclOpExecutor *executor = NULL;
    aclrtMalloc(&address, 32, ACL_MEM_MALLOC_HUGE_FIRST);
    aclTensor *out = aclCreateTensor(dims, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 2, address);
    aclTensorList *list = aclCreateTensorList((const aclTensor *const *)parts, count);
    int status = aclnnCatGetWorkspaceSize(list, 1, out, &size, &executor);
    if (status == 0) status = aclnnCat(NULL, size, executor, stream);
    aclrtSynchronizeStream(stream);
    aclDestroyTensorList(list);
    aclDestroyTensor(out);
    aclrtFree(address);
    return status;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    const float x[4] = {1, 2, 3, 4}, y[4] = {10, 20, 30, 40};
    float result[4] = {0};
    void *address[3];
    aclInit(NULL);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    aclTensor *tensors[3] = {tensor(x, &address[0]), tensor(y, &address[1]), tensor(x, &address[2])};
    int status = add(tensors[0], tensors[1], tensors[2]);
    aclrtSynchronizeStream(stream);
    aclrtMemcpy(result, 16, address[2], 16, ACL_MEMCPY_DEVICE_TO_HOST);
    printf("%d %g %g %g %g\n", status, result[0], result[1], result[2], result[3]);
    fflush(stdout);
    if (strcmp(what, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(what, "refused") == 0) {
        printf("%d\n", add(NULL, tensors[1], tensors[2]));
        const char *message = aclGetRecentErrMsg();
        printf("%s\n", message != NULL ? message : "nothing");
    }
    if (strcmp(what, "fork") == 0) {
        if (fork() == 0) _exit(0); /* a child that does nothing writes nothing */
        wait(NULL);
    }
    if (strcmp(what, "single") == 0) {
        int64_t dims[2] = {2, 2};
        aclTensorDesc *descs[2] = {aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND), aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND)};
        aclDataBuffer *buffers[2] = {aclCreateDataBuffer(address[0], 16), aclCreateDataBuffer(address[2], 16)};
        aclopAttr *attributes = aclopCreateAttr();
        printf("%d\n", aclopCompileAndExecute("Neg", 1, (const aclTensorDesc *const *)&descs[0], (const aclDataBuffer *const *)&buffers[0], 1,
                                              (const aclTensorDesc *const *)&descs[1], &buffers[1], attributes, ACL_ENGINE_SYS, ACL_COMPILE_SYS,
                                              NULL, stream));
        aclrtSynchronizeStream(stream);
        for (int i = 0; i < 2; i++) {
            aclDestroyTensorDesc(descs[i]);
            aclDestroyDataBuffer(buffers[i]);
        }
        aclopDestroyAttr(attributes);
    }
    aclTensor *parts[2] = {tensors[0], tensors[1]};
    status = concatenate(parts, 2);
    aclDestroyTensor(tensors[2]);
    for (int i = 0; i < 3; i++) aclrtFree(address[i]);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return status;
}
