/* MSPTI, as the public headers of CANN 8.1.RC1 have it, with the kinds that came later: activities of the emulated device. */
#ifndef ASCEND_ACLNN_MSPTI_H
#define ASCEND_ACLNN_MSPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSPTI_INVALID_DEVICE_ID ((uint32_t)0xFFFFFFFFU)
#define MSPTI_INVALID_STREAM_ID ((uint32_t)0xFFFFFFFFU)
#define MSPTI_INVALID_CORRELATION_ID ((uint64_t)0)

typedef enum {
    MSPTI_SUCCESS = 0,
    MSPTI_ERROR_INVALID_PARAMETER = 1,
    MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 2,
    MSPTI_ERROR_MAX_LIMIT_REACHED = 3,
    MSPTI_ERROR_DEVICE_OFFLINE = 4,
    MSPTI_ERROR_QUEUE_EMPTY = 5,
    MSPTI_ERROR_WITHOUT_LD_PRELOAD = 6,
    MSPTI_ERROR_INNER = 999,
    MSPTI_ERROR_FORCE_INT = 0x7fffffff
} msptiResult;

typedef enum {
    MSPTI_ACTIVITY_KIND_INVALID = 0,
    MSPTI_ACTIVITY_KIND_MARKER = 1,
    MSPTI_ACTIVITY_KIND_KERNEL = 2,
    MSPTI_ACTIVITY_KIND_API = 3,
    MSPTI_ACTIVITY_KIND_HCCL = 4,
    MSPTI_ACTIVITY_KIND_MEMORY = 5,
    MSPTI_ACTIVITY_KIND_MEMSET = 6,
    MSPTI_ACTIVITY_KIND_MEMCPY = 7,
    MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 8,
    MSPTI_ACTIVITY_KIND_COMMUNICATION = 9,
    MSPTI_ACTIVITY_KIND_ACL_API = 10,
    MSPTI_ACTIVITY_KIND_NODE_API = 11,
    MSPTI_ACTIVITY_KIND_RUNTIME_API = 12,
    MSPTI_ACTIVITY_KIND_COUNT,
    MSPTI_ACTIVITY_KIND_FORCE_INT = 0x7fffffff
} msptiActivityKind;

typedef enum { MSPTI_ACTIVITY_SOURCE_KIND_HOST = 0, MSPTI_ACTIVITY_SOURCE_KIND_DEVICE = 1 } msptiActivitySourceKind;

typedef enum {
    MSPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
    MSPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN = 1,
    MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 2,
    MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1 = 3,
    MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 = 4,
    MSPTI_EXTERNAL_CORRELATION_KIND_SIZE,
    MSPTI_EXTERNAL_CORRELATION_KIND_FORCE_INT = 0x7fffffff
} msptiExternalCorrelationKind;

typedef enum {
    MSPTI_ACTIVITY_FLAG_NONE = 0,
    MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS = 1 << 0,
    MSPTI_ACTIVITY_FLAG_MARKER_START = 1 << 1,
    MSPTI_ACTIVITY_FLAG_MARKER_END = 1 << 2,
    MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS_WITH_DEVICE = 1 << 3,
    MSPTI_ACTIVITY_FLAG_MARKER_START_WITH_DEVICE = 1 << 4,
    MSPTI_ACTIVITY_FLAG_MARKER_END_WITH_DEVICE = 1 << 5
} msptiActivityFlag;

typedef enum {
    MSPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN = 0,
    MSPTI_ACTIVITY_MEMCPY_KIND_HTOH = 1,
    MSPTI_ACTIVITY_MEMCPY_KIND_HTOD = 2,
    MSPTI_ACTIVITY_MEMCPY_KIND_DTOH = 3,
    MSPTI_ACTIVITY_MEMCPY_KIND_DTOD = 4,
    MSPTI_ACTIVITY_MEMCPY_KIND_DEFAULT = 5
} msptiActivityMemcpyKind;

typedef enum {
    MSPTI_ACTIVITY_COMMUNICATION_INT8 = 0,
    MSPTI_ACTIVITY_COMMUNICATION_INT16 = 1,
    MSPTI_ACTIVITY_COMMUNICATION_INT32 = 2,
    MSPTI_ACTIVITY_COMMUNICATION_FP16 = 3,
    MSPTI_ACTIVITY_COMMUNICATION_FP32 = 4,
    MSPTI_ACTIVITY_COMMUNICATION_INT64 = 5,
    MSPTI_ACTIVITY_COMMUNICATION_UINT64 = 6,
    MSPTI_ACTIVITY_COMMUNICATION_UINT8 = 7,
    MSPTI_ACTIVITY_COMMUNICATION_UINT16 = 8,
    MSPTI_ACTIVITY_COMMUNICATION_UINT32 = 9,
    MSPTI_ACTIVITY_COMMUNICATION_FP64 = 10,
    MSPTI_ACTIVITY_COMMUNICATION_BFP16 = 11,
    MSPTI_ACTIVITY_COMMUNICATION_INVALID_TYPE = 0x0000FFFF
} msptiCommunicationDataType;

#define MSPTI_PACKED __attribute__((__packed__)) __attribute__((aligned(8)))

typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
} msptiActivity;

typedef struct {
    uint32_t processId, threadId;
} msptiThread;

typedef struct {
    uint32_t deviceId, streamId;
} msptiStream;

typedef union __attribute__((__packed__)) {
    msptiThread pt;
    msptiStream ds;
} msptiObjectId;

/* Times are nanoseconds of the time of day. */
typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    msptiActivityFlag flag;
    msptiActivitySourceKind sourceKind;
    uint64_t timestamp;
    uint64_t id;
    msptiObjectId objectId;
    const char *name; /* NULL at an end */
    const char *domain;
} msptiActivityMarker;

/* Of the kinds API, ACL_API and NODE_API. */
typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    uint64_t start, end;
    msptiThread pt;
    uint64_t correlationId;
    const char *name;
} msptiActivityApi;

typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    uint64_t start, end;
    msptiStream ds;
    uint64_t correlationId;
    const char *type, *name;
} msptiActivityKernel;

typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    uint64_t start, end;
    msptiStream ds;
    double bandWidth; /* GB/s */
    const char *name, *commName;
} msptiActivityHccl;

typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    msptiCommunicationDataType dataType;
    uint64_t count;
    msptiStream ds;
    uint64_t start, end;
    const char *algType, *name, *commName;
    uint64_t correlationId;
} msptiActivityCommunication;

typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    uint32_t value;
    uint64_t bytes, start, end;
    uint32_t deviceId, streamId;
    uint64_t correlationId;
    uint8_t isAsync;
} msptiActivityMemset;

typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    msptiActivityMemcpyKind copyKind;
    uint64_t bytes, start, end;
    uint32_t deviceId, streamId;
    uint64_t correlationId;
    uint8_t isAsync;
} msptiActivityMemcpy;

typedef struct MSPTI_PACKED {
    msptiActivityKind kind;
    msptiExternalCorrelationKind externalKind;
    uint64_t externalId, correlationId;
} msptiActivityExternalCorrelation;

typedef enum { MSPTI_CB_DOMAIN_INVALID = 0, MSPTI_CB_DOMAIN_RUNTIME = 1, MSPTI_CB_DOMAIN_HCCL = 2 } msptiCallbackDomain;
typedef uint32_t msptiCallbackId;
typedef struct msptiSubscriber_st *msptiSubscriberHandle;
typedef void (*msptiCallbackFunc)(void *userdata, msptiCallbackDomain domain, msptiCallbackId cbid, const void *cbdata);
typedef void (*msptiBuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size, size_t *maxNumRecords);
typedef void (*msptiBuffersCallbackCompleteFunc)(uint8_t *buffer, size_t size, size_t validSize);

msptiResult msptiSubscribe(msptiSubscriberHandle *subscriber, msptiCallbackFunc callback, void *userdata);
msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber);
/* Callbacks are not emulated: MSPTI_ERROR_INVALID_PARAMETER, and a message of aclGetRecentErrMsg. */
msptiResult msptiEnableCallback(uint32_t enable, msptiSubscriberHandle subscriber, msptiCallbackDomain domain, msptiCallbackId cbid);
msptiResult msptiEnableDomain(uint32_t enable, msptiSubscriberHandle subscriber, msptiCallbackDomain domain);
msptiResult msptiActivityRegisterCallbacks(msptiBuffersCallbackRequestFunc funcBufferRequested,
                                           msptiBuffersCallbackCompleteFunc funcBufferCompleted);
/* MEMORY and RUNTIME_API are not emulated, and refused in the same way. */
msptiResult msptiActivityEnable(msptiActivityKind kind);
msptiResult msptiActivityDisable(msptiActivityKind kind);
bool msptiActivityIsEnabled(msptiActivityKind kind);
msptiResult msptiActivityEnableMarkerDomain(const char *name);
msptiResult msptiActivityDisableMarkerDomain(const char *name);
msptiResult msptiActivityGetNextRecord(uint8_t *buffer, size_t validBufferSizeBytes, msptiActivity **record);
msptiResult msptiActivityFlushAll(uint32_t flag);
msptiResult msptiActivityFlushPeriod(uint32_t time);
msptiResult msptiActivityPushExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t id);
msptiResult msptiActivityPopExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t *lastId);

#ifdef __cplusplus
}
#endif

#endif
