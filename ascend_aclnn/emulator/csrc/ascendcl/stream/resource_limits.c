/* Resource limits, utilisation, health and identity of devices and streams. Values are stored and returned; they do not limit
 * what runs. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/stream/stream.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------ resource limits */

static int most(aclrtDevResLimitType type, uint32_t *value) {
    const emu_soc *soc = &emu_config()->soc;
    if (type != ACL_RT_DEV_RES_CUBE_CORE && type != ACL_RT_DEV_RES_VECTOR_CORE)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "type is %d; allowed: 0, 1", (int)type);
    *value = (uint32_t)(type == ACL_RT_DEV_RES_CUBE_CORE ? soc->cube_cores : soc->vector_cores);
    return 0;
}

static int check_limit(aclrtDevResLimitType type, uint32_t value) {
    uint32_t cores;
    int status = most(type, &cores);
    if (status == 0 && (value == 0 || value > cores))
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "value is %u; allowed: 1 to %u", value, cores);
    return status;
}

static _Atomic uint32_t device_limits[EMU_MAX_DEVICES][2]; /* 0: not set */

static int limit_of_device(int32_t id, aclrtDevResLimitType type, uint32_t *value) {
    int status = most(type, value);
    if (status == 0 && device_limits[id][type] != 0) *value = device_limits[id][type];
    return status;
}

API aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value) {
    ENTER("aclrtGetDeviceResLimit");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    return value == NULL ? emu_null_argument("value") : limit_of_device(deviceId, type, value);
}

API aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
    ENTER("aclrtSetDeviceResLimit");
    int status = emu_check_device(deviceId);
    if (status == 0) status = check_limit(type, value);
    if (status == 0) device_limits[deviceId][type] = value;
    return status;
}

API aclError aclrtResetDeviceResLimit(int32_t deviceId) {
    ENTER("aclrtResetDeviceResLimit");
    int status = emu_check_device(deviceId);
    for (int type = 0; status == 0 && type < 2; type++) device_limits[deviceId][type] = 0;
    return status;
}

/* The stream's limit, else the device's. */
static int limit_of_stream(emu_stream *stream, aclrtDevResLimitType type, uint32_t *value) {
    int status = limit_of_device(stream->device->id, type, value);
    if (status == 0 && stream->limits[type] != 0) *value = stream->limits[type];
    return status;
}

API aclError aclrtGetStreamResLimit(aclrtStream handle, aclrtDevResLimitType type, uint32_t *value) {
    ENTER("aclrtGetStreamResLimit");
    if (value == NULL) return emu_null_argument("value");
    EMU_WITH_STREAM(handle, status_ = limit_of_stream(stream, type, value));
}

API aclError aclrtSetStreamResLimit(aclrtStream handle, aclrtDevResLimitType type, uint32_t value) {
    ENTER("aclrtSetStreamResLimit");
    int status = check_limit(type, value);
    if (status != 0) return status;
    EMU_WITH_STREAM(handle, stream->limits[type] = value);
}

API aclError aclrtResetStreamResLimit(aclrtStream handle) {
    ENTER("aclrtResetStreamResLimit");
    EMU_WITH_STREAM(handle, stream->limits[0] = stream->limits[1] = 0);
}

static __thread uint32_t thread_limits[2]; /* of the stream in use; 0: the device's */

/* Makes the limits of a stream, or none, those of this thread. */
static int limit_thread(aclrtStream handle, bool on) {
    EMU_WITH_STREAM(handle, for (int type = 0; type < 2; type++) thread_limits[type] = on ? stream->limits[type] : 0);
}

API aclError aclrtUseStreamResInCurrentThread(aclrtStream handle) {
    ENTER("aclrtUseStreamResInCurrentThread");
    return limit_thread(handle, true);
}

API aclError aclrtUnuseStreamResInCurrentThread(aclrtStream handle) {
    ENTER("aclrtUnuseStreamResInCurrentThread");
    return limit_thread(handle, false);
}

API aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value) {
    ENTER("aclrtGetResInCurrentThread");
    emu_context *context;
    if (value == NULL) return emu_null_argument("value");
    int status = emu_current_context(&context);
    if (status == 0) status = limit_of_device(emu_context_device(context)->id, type, value);
    if (status == 0 && thread_limits[type] != 0) *value = thread_limits[type];
    return status;
}

static int check_attribute(aclrtStreamAttr type, const aclrtStreamAttrValue *value) {
    if (value == NULL) return emu_null_argument("value");
    if (type >= ACL_STREAM_ATTR_FAILURE_MODE && type <= ACL_STREAM_ATTR_PRIORITY) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "stmAttrType is %d; allowed: 1 to 5", (int)type);
}

static int set_attribute(emu_stream *stream, aclrtStreamAttr type, const aclrtStreamAttrValue *value) {
    bool fixed = type == ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK || type == ACL_STREAM_ATTR_USER_CUSTOM_TAG; /* during a capture */
    int status = fixed ? emu_refuse_captured(stream) : 0;
    if (status != 0) return status;
    switch (type) {
        case ACL_STREAM_ATTR_FAILURE_MODE: stream->failure_mode = value->failureMode; break;
        case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: stream->overflow_switch = value->overflowSwitch; break;
        case ACL_STREAM_ATTR_PRIORITY: stream->priority = value->streamPriority; break;
        case ACL_STREAM_ATTR_CACHE_OP_INFO: stream->cache_switch = value->cacheOpInfoSwitch; break;
        default: stream->tag = value->userCustomTag; break;
    }
    return 0;
}

static void get_attribute(const emu_stream *stream, aclrtStreamAttr type, aclrtStreamAttrValue *value) {
    memset(value, 0, sizeof *value);
    switch (type) {
        case ACL_STREAM_ATTR_FAILURE_MODE: value->failureMode = stream->failure_mode; break;
        case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: value->overflowSwitch = stream->overflow_switch; break;
        case ACL_STREAM_ATTR_PRIORITY: value->streamPriority = stream->priority; break;
        case ACL_STREAM_ATTR_CACHE_OP_INFO: value->cacheOpInfoSwitch = stream->cache_switch; break;
        default: value->userCustomTag = stream->tag; break;
    }
}

API aclError aclrtSetStreamAttribute(aclrtStream handle, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value) {
    ENTER("aclrtSetStreamAttribute");
    int status = check_attribute(stmAttrType, value);
    if (status != 0) return status;
    EMU_WITH_STREAM(handle, status_ = set_attribute(stream, stmAttrType, value));
}

API aclError aclrtGetStreamAttribute(aclrtStream handle, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value) {
    ENTER("aclrtGetStreamAttribute");
    int status = check_attribute(stmAttrType, value);
    if (status != 0) return status;
    EMU_WITH_STREAM(handle, get_attribute(stream, stmAttrType, value));
}

/* ----------------------------------------------------------------------------------------------- utilisation and health */

/* There are no cores whose load could be measured. The share of memory in use is known. */
API aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo) {
    ENTER("aclrtGetDeviceUtilizationRate");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    if (utilizationInfo == NULL) return emu_null_argument("utilizationInfo");
    emu_device *device = &emu_devices[deviceId];
    pthread_mutex_lock(&device->lock);
    int32_t memory = device->capacity > 0 ? (int32_t)(100.0 * (double)device->used / (double)device->capacity) : 0;
    pthread_mutex_unlock(&device->lock);
    utilizationInfo->cubeUtilization = utilizationInfo->vectorUtilization = utilizationInfo->aicpuUtilization = 0;
    utilizationInfo->memoryUtilization = memory;
    return 0;
}

/* The program is the only user of memory. */
API aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum) {
    ENTER("aclrtGetMemUsageInfo");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    if (memUsageInfo == NULL || outputNum == NULL || inputNum == 0) return emu_null_argument(outputNum == NULL ? "outputNum" : "memUsageInfo");
    emu_device *device = &emu_devices[deviceId];
    status = emu_link_check(device);
    if (status != 0) return status;
    memset(memUsageInfo, 0, sizeof *memUsageInfo);
    snprintf(memUsageInfo->name, sizeof memUsageInfo->name, "APP");
    pthread_mutex_lock(&device->lock);
    memUsageInfo->curMemSize = device->used;
    memUsageInfo->memPeakSize = device->peak > device->used ? device->peak : device->used;
    pthread_mutex_unlock(&device->lock);
    *outputNum = 1;
    return 0;
}

/* Memory is never damaged here. */
API aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize, size_t *retSize) {
    ENTER("aclrtGetMemUceInfo");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    if (memUceInfoArray == NULL || retSize == NULL || arraySize == 0) return emu_null_argument(retSize == NULL ? "retSize" : "memUceInfoArray");
    *retSize = 0;
    return 0;
}

API aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo) {
    ENTER("aclrtGetErrorVerbose");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    if (errorInfo == NULL) return emu_null_argument("errorInfo");
    memset(errorInfo, 0, sizeof *errorInfo);
    errorInfo->errorType = emu_link_lost(&emu_devices[deviceId]) ? ACL_RT_ERROR_OTHERS : ACL_RT_NO_ERROR;
    return 0;
}

API aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid) {
    ENTER("aclrtDeviceGetUuid");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    if (uuid == NULL) return emu_null_argument("uuid");
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "emulated", 8);
    uuid->bytes[15] = (char)deviceId;
    return 0;
}
