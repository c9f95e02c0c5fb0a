/*
 * Kernels that a client brings along as binaries. They cannot run here, and code that compilers generate to launch them ignores
 * statuses. So binaries are loaded and functions are found, by name, and a launch breaks its stream for good: every later wait for
 * it fails with the kernel's name. A kernel must never look as if it had run.
 */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/stream/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kernel kernel;

/* A kernel of a binary. Clients pass its address as a handle, or a stub of their own that was registered for it. */
struct kernel {
    kernel *next;
    const void *binary, *stub;
    char name[200];
};

static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;
static kernel *kernels;

static kernel *add_kernel(const void *binary, const void *stub, const char *name) {
    kernel *added = calloc(1, sizeof *added);
    if (added == NULL) abort();
    added->binary = binary;
    added->stub = stub;
    snprintf(added->name, sizeof added->name, "%s", name);
    pthread_mutex_lock(&kernels_lock);
    added->next = kernels;
    kernels = added;
    pthread_mutex_unlock(&kernels_lock);
    return added;
}

static void remove_kernels(const void *binary) {
    pthread_mutex_lock(&kernels_lock);
    for (kernel **link = &kernels; *link != NULL;) {
        kernel *k = *link;
        if (k->binary == binary) {
            *link = k->next;
            free(k);
        } else {
            link = &k->next;
        }
    }
    pthread_mutex_unlock(&kernels_lock);
}

/* The name behind a function's handle or stub. */
static void name_of(const void *function, char *name, size_t size) {
    snprintf(name, size, "(unknown)");
    pthread_mutex_lock(&kernels_lock);
    for (const kernel *k = kernels; k != NULL; k = k->next) {
        if ((const void *)k == function || (k->stub != NULL && k->stub == function) || k->binary == function) {
            snprintf(name, size, "%s", k->name);
            break;
        }
    }
    pthread_mutex_unlock(&kernels_lock);
}

/* ------------------------------------------------------------------------------------------------------------- binaries */

static int load(void **handle) {
    if (handle == NULL) return emu_null_argument("binHandle");
    *handle = malloc(1); /* an address of its own */
    if (*handle == NULL) abort();
    return 0;
}

static int unload(void *handle) {
    if (handle == NULL) return emu_null_argument("binHandle");
    remove_kernels(handle);
    free(handle);
    return 0;
}

static int find_function(const void *binary, const char *name, aclrtFuncHandle *function) {
    if (binary == NULL || function == NULL) return emu_null_argument(binary == NULL ? "binHandle" : "funcHandle");
    *function = (aclrtFuncHandle)add_kernel(binary, NULL, name);
    return 0;
}

API aclrtBinary aclrtCreateBinary(const void *data, size_t dataLen) {
    ENTER_OR_NULL("aclrtCreateBinary");
    return (aclrtBinary)(data != NULL && dataLen > 0 ? malloc(1) : NULL);
}

API aclError aclrtDestroyBinary(aclrtBinary binary) {
    ENTER_RELEASE("aclrtDestroyBinary");
    free((void *)binary);
    LEAVE(0);
}

API aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle *binHandle) {
    ENTER("aclrtBinaryLoad");
    return binary == NULL ? emu_null_argument("binary") : load((void **)binHandle);
}

API aclError aclrtBinaryLoadFromFile(const char *binPath, aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle) {
    ENTER("aclrtBinaryLoadFromFile");
    (void)options;
    return binPath == NULL ? emu_null_argument("binPath") : load((void **)binHandle);
}

API aclError aclrtBinaryLoadFromData(const void *data, size_t length, const aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle) {
    ENTER("aclrtBinaryLoadFromData");
    (void)length, (void)options;
    return data == NULL ? emu_null_argument("data") : load((void **)binHandle);
}

API aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle) {
    ENTER_RELEASE("aclrtBinaryUnLoad");
    LEAVE(unload((void *)binHandle));
}

API aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle) {
    ENTER("aclrtBinaryGetFunction");
    return kernelName == NULL ? emu_null_argument("kernelName") : find_function(binHandle, kernelName, funcHandle);
}

API aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle binHandle, uint64_t funcEntry, aclrtFuncHandle *funcHandle) {
    ENTER("aclrtBinaryGetFunctionByEntry");
    char name[64];
    snprintf(name, sizeof name, "(entry %llu)", (unsigned long long)funcEntry);
    return find_function(binHandle, name, funcHandle);
}

API int32_t rtDevBinaryRegister(const void *bin, void **hdl) {
    ENTER("rtDevBinaryRegister");
    (void)bin;
    return load(hdl);
}

API int32_t rtRegisterAllKernel(const void *bin, void **hdl) {
    ENTER("rtRegisterAllKernel");
    (void)bin;
    return load(hdl);
}

API int32_t rtDevBinaryUnRegister(void *hdl) {
    ENTER_RELEASE("rtDevBinaryUnRegister");
    LEAVE(unload(hdl));
}

API int32_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName, const void *kernelInfoExt, uint32_t funcMode) {
    ENTER("rtFunctionRegister");
    (void)kernelInfoExt, (void)funcMode;
    add_kernel(binHandle, stubFunc, stubName != NULL ? stubName : "(unnamed)");
    return 0;
}

API int32_t rtFunctionGetMetaInfo(const void *funcHandle, int32_t type, void *data, uint32_t length) {
    (void)funcHandle, (void)type, (void)data, (void)length;
    return emu_not_emulated("rtFunctionGetMetaInfo", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtFunctionGetMetaInfoSize(const void *funcHandle, int32_t type, size_t *size) {
    (void)funcHandle, (void)type, (void)size;
    return emu_not_emulated("rtFunctionGetMetaInfoSize", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

/* ------------------------------------------------------------------------------------------------------------- launches */

static int refuse(const char *name) {
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_KERNEL_BINARY",
                    "the kernel %s was launched as a binary; the emulated device computes operators, not binaries", name);
}

/* Breaks the stream, and refuses the launch. */
static int launch(const void *function, aclrtStream handle) {
    char name[200];
    name_of(function, name, sizeof name);
    EMU_HELD emu_stream *stream = NULL;
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    status = refuse(name);
    emu_stream_break(stream, status);
    return status;
}

API aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t blockDim, const void *argsData, size_t argsSize, aclrtStream stream) {
    ENTER("aclrtLaunchKernel");
    (void)blockDim, (void)argsData, (void)argsSize;
    return launch(funcHandle, stream);
}

API aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t blockDim, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
                                         aclrtArgsHandle argsHandle, void *reserve) {
    ENTER("aclrtLaunchKernelWithConfig");
    (void)blockDim, (void)cfg, (void)argsHandle, (void)reserve;
    return launch(funcHandle, stream);
}

API aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData, size_t argsSize,
                                 aclrtLaunchKernelCfg *cfg, aclrtStream stream) {
    ENTER("aclrtLaunchKernelV2");
    (void)numBlocks, (void)argsData, (void)argsSize, (void)cfg;
    return launch(funcHandle, stream);
}

API aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
                                           void *hostArgs, size_t argsSize, void *placeHolderArray,
                                           size_t placeHolderNum) {
    ENTER("aclrtLaunchKernelWithHostArgs");
    (void)numBlocks, (void)cfg, (void)hostArgs, (void)argsSize, (void)placeHolderArray, (void)placeHolderNum;
    return launch(funcHandle, stream);
}

API int32_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize, void *smDesc, aclrtStream stm) {
    ENTER("rtKernelLaunch");
    (void)blockDim, (void)args, (void)argsSize, (void)smDesc;
    return launch(stubFunc, stm);
}

API int32_t rtKernelLaunchWithFlagV2(const void *stubFunc, uint32_t blockDim, void *argsInfo, void *smDesc, aclrtStream stm,
                                     uint32_t flags, const void *cfgInfo) {
    ENTER("rtKernelLaunchWithFlagV2");
    (void)blockDim, (void)argsInfo, (void)smDesc, (void)flags, (void)cfgInfo;
    return launch(stubFunc, stm);
}

API int32_t rtKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blockDim, void *argsInfo, void *smDesc, aclrtStream stm,
                                     const void *kernelInfo) {
    ENTER("rtKernelLaunchWithHandle");
    (void)tilingKey, (void)blockDim, (void)argsInfo, (void)smDesc, (void)kernelInfo;
    return launch(hdl, stm);
}

API int32_t rtKernelLaunchWithHandleV2(void *hdl, uint64_t tilingKey, uint32_t blockDim, void *argsInfo, void *smDesc, aclrtStream stm,
                                       const void *cfgInfo) {
    ENTER("rtKernelLaunchWithHandleV2");
    (void)tilingKey, (void)blockDim, (void)argsInfo, (void)smDesc, (void)cfgInfo;
    return launch(hdl, stm);
}

API int32_t rtVectorCoreKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blockDim, void *argsInfo, void *smDesc,
                                               aclrtStream stm, const void *cfgInfo) {
    ENTER("rtVectorCoreKernelLaunchWithHandle");
    (void)tilingKey, (void)blockDim, (void)argsInfo, (void)smDesc, (void)cfgInfo;
    return launch(hdl, stm);
}

/* Without a stream to break, the default stream of the thread's context is broken. */
API int32_t rtLaunch(const void *stubFunc) {
    ENTER("rtLaunch");
    return launch(stubFunc, NULL);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_KERNELS, &kernels_lock, NULL); }
