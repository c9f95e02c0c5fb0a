/*
 * Functions of CANN's inner layers that torch_npu and MindSpore link against. No profiler is attached, so profiling callbacks
 * are never called and reports are dropped.
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

API uint64_t MsprofStr2Id(const char *hashInfo, size_t length) { return MsprofGetHashId(hashInfo, length); }

/* Cycles are nanoseconds. */
API uint64_t MsprofSysCycleTime(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* Device memory; the type and the module are for CANN's own components. */
API int32_t rtMalloc(void **devPtr, uint64_t size, uint32_t type, uint16_t moduleId) {
    (void)type, (void)moduleId;
    return aclrtMalloc(devPtr, size, ACL_MEM_MALLOC_NORMAL_ONLY);
}

API int32_t rtFree(void *devPtr) { return aclrtFree(devPtr); }

API int32_t rtRegStreamStateCallback(const char *regName, const void *callback) {
    ENTER("rtRegStreamStateCallback");
    (void)regName, (void)callback; /* no stream is made behind the client's back */
    return 0;
}

API int32_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len) {
    (void)addr, (void)len;
    return emu_not_emulated("rtGetC2cCtrlAddr", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}
