/*
 * Functions of CANN's inner layers that torch_npu and MindSpore link against. No profiler is attached, so profiling callbacks
 * are never called and reports are dropped. Kernels given as binaries cannot run.
 */
#include "ascendcl/core/api_entry.h"

#include <time.h>

typedef int32_t (*profiling_callback)(uint32_t type, void *data, uint32_t length);

API int32_t MsprofRegisterCallback(uint32_t moduleId, profiling_callback handle) {
    ENTER("MsprofRegisterCallback");
    (void)moduleId;
    return handle != NULL ? 0 : -1;
}

API int32_t MsprofReportApi(uint32_t agingFlag, const void *api) {
    (void)agingFlag, (void)api;
    return emu_not_emulated("MsprofReportApi", -1);
}

API int32_t MsprofReportCompactInfo(uint32_t agingFlag, const void *data, uint32_t length) {
    (void)agingFlag, (void)data, (void)length;
    return emu_not_emulated("MsprofReportCompactInfo", -1);
}

API int32_t MsprofReportAdditionalInfo(uint32_t agingFlag, const void *data, uint32_t length) {
    (void)agingFlag, (void)data, (void)length;
    return emu_not_emulated("MsprofReportAdditionalInfo", -1);
}

/* A number for a text: FNV-1a. */
API uint64_t MsprofGetHashId(const char *hashInfo, size_t length) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; hashInfo != NULL && i < length; i++) hash = (hash ^ (uint8_t)hashInfo[i]) * 0x100000001b3ull;
    return hash;
}

/* Cycles are nanoseconds. */
API uint64_t MsprofSysCycleTime(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

API int32_t rtDevBinaryRegister(const void *bin, void **hdl) {
    (void)bin, (void)hdl;
    return emu_not_emulated("rtDevBinaryRegister", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtDevBinaryUnRegister(void *hdl) {
    (void)hdl;
    return emu_not_emulated("rtDevBinaryUnRegister", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName, const void *kernelInfoExt,
                               uint32_t funcMode) {
    (void)binHandle, (void)stubFunc, (void)stubName, (void)kernelInfoExt, (void)funcMode;
    return emu_not_emulated("rtFunctionRegister", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize, void *smDesc,
                           aclrtStream stm) {
    (void)stubFunc, (void)blockDim, (void)args, (void)argsSize, (void)smDesc, (void)stm;
    return emu_not_emulated("rtKernelLaunch", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtLaunch(const void *stubFunc) {
    (void)stubFunc;
    return emu_not_emulated("rtLaunch", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len) {
    (void)addr, (void)len;
    return emu_not_emulated("rtGetC2cCtrlAddr", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}
