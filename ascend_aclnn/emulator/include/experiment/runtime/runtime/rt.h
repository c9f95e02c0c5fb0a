/*
 * The runtime's inner functions, as far as triton-ascend's extension needs them to compile: it asks for the SoC and its cores, and
 * loads kernels, which never run here.
 */
#ifndef ASCEND_ACLNN_RT_H
#define ASCEND_ACLNN_RT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t rtError_t;
typedef void *rtStream_t;
typedef uint32_t rtMemType_t;

#define RT_ERROR_NONE 0

#define RT_DEV_BINARY_MAGIC_ELF 0x43554245U
#define RT_DEV_BINARY_MAGIC_ELF_AIVEC 0x41415246U

#define RT_MEMORY_HBM 0x2U
#define RT_MEMORY_HOST 0x81U

typedef struct {
    uint32_t magic;
    uint32_t version;
    const void *data;
    uint64_t length;
} rtDevBinary_t;

typedef enum {
    RT_MEMCPY_HOST_TO_HOST,
    RT_MEMCPY_HOST_TO_DEVICE,
    RT_MEMCPY_DEVICE_TO_HOST,
    RT_MEMCPY_DEVICE_TO_DEVICE
} rtMemcpyKind_t;

typedef enum {
    RT_LIMIT_TYPE_LOW_POWER_TIMEOUT = 0,
    RT_LIMIT_TYPE_SIMT_STACK_SIZE = 1,
    RT_LIMIT_TYPE_SIMT_WARP_STACK_SIZE = 1, /* its earlier name */
    RT_LIMIT_TYPE_SIMT_DVG_WARP_STACK_SIZE = 2,
    RT_LIMIT_TYPE_STACK_SIZE = 3
} rtLimitType_t;

rtError_t rtGetSocVersion(char *version, const uint32_t maxLen);
rtError_t rtGetAiCoreCount(uint32_t *aiCoreCnt);
rtError_t rtSetDevice(int32_t devId);
rtError_t rtDeviceSetLimit(int32_t devId, rtLimitType_t type, uint32_t val);
rtError_t rtStreamCreate(rtStream_t *stm, int32_t priority);
rtError_t rtStreamDestroy(rtStream_t stm);
rtError_t rtMalloc(void **devPtr, uint64_t size, rtMemType_t type, const uint16_t moduleId);
rtError_t rtFree(void *devPtr);
#ifdef __cplusplus
rtError_t rtMallocHost(void **hostPtr, uint64_t size, const uint16_t moduleId = 0);
#else
rtError_t rtMallocHost(void **hostPtr, uint64_t size, const uint16_t moduleId);
#endif
rtError_t rtFreeHost(void *hostPtr);
rtError_t rtMemcpy(void *dst, uint64_t destMax, const void *src, uint64_t cnt, rtMemcpyKind_t kind);

rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl);
rtError_t rtDevBinaryUnRegister(void *hdl);
rtError_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName, const void *kernelInfoExt, uint32_t funcMode);
rtError_t rtKernelLaunch(const void *stubFunc, uint32_t numBlocks, void *args, uint32_t argsSize, void *smDesc, rtStream_t stm);

#ifdef __cplusplus
}
#endif

#endif
