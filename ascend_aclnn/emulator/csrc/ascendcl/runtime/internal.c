/*
 * Functions of CANN's inner layers that torch_npu and MindSpore link against. No profiler is attached, so profiling callbacks
 * are never called and reports are dropped.
 */
#include "ascendcl/core/api_entry.h"

#include "ascendcl/core/settings.h"

#include <stdio.h>
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

API int32_t rtMallocHost(void **hostPtr, uint64_t size, uint16_t moduleId) {
    (void)moduleId;
    return aclrtMallocHost(hostPtr, size);
}

API int32_t rtFreeHost(void *hostPtr) { return aclrtFreeHost(hostPtr); }

/* The kinds have acl's values. */
API int32_t rtMemcpy(void *dst, uint64_t destMax, const void *src, uint64_t cnt, int32_t kind) {
    return aclrtMemcpy(dst, destMax, src, cnt, (aclrtMemcpyKind)kind);
}

API int32_t rtSetDevice(int32_t devId) { return aclrtSetDevice(devId); }

API int32_t rtStreamCreate(aclrtStream *stm, int32_t priority) {
    (void)priority;
    return aclrtCreateStream(stm);
}

API int32_t rtStreamDestroy(aclrtStream stm) { return aclrtDestroyStream(stm); }

/* Facts about the SoC, with and without a device. */
API int32_t rtGetSocVersion(char *version, uint32_t maxLen) {
    ENTER("rtGetSocVersion");
    if (version == NULL) return emu_null_argument("version");
    const char *name = emu_config()->soc.name;
    int length = snprintf(version, maxLen, "%s", name);
    return length < 0 || (uint32_t)length >= maxLen ? ACL_ERROR_RT_PARAM_INVALID : 0;
}

API int32_t rtGetAiCoreCount(uint32_t *aiCoreCnt) {
    ENTER("rtGetAiCoreCount");
    if (aiCoreCnt == NULL) return emu_null_argument("aiCoreCnt");
    *aiCoreCnt = (uint32_t)emu_config()->soc.cube_cores;
    return 0;
}

API int32_t rtDeviceSetLimit(int32_t devId, int32_t type, uint32_t val) {
    (void)devId, (void)type, (void)val;
    return emu_not_emulated("rtDeviceSetLimit", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtRegStreamStateCallback(const char *regName, const void *callback) {
    ENTER("rtRegStreamStateCallback");
    (void)regName, (void)callback; /* no stream is made behind the client's back */
    return 0;
}

API int32_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len) {
    (void)addr, (void)len;
    return emu_not_emulated("rtGetC2cCtrlAddr", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}
