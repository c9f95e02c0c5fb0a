/* Initialisation, devices and contexts, options, and queries about the device. */
#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/processes.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/aliases.h"
#include "ascendcl/memory/host_mapping.h"
#include "ascendcl/memory/ipc.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/memory/peers.h"
#include "ascendcl/model/model.h"
#include "ascendcl/runtime/inspect.h"
#include "ascendcl/stream/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------------ contexts */

/* Takes a context out of its device's list, whose reference the caller gets; false when another thread has done so. The caller
 * holds emu_world. */
static bool unlist_context(emu_context *context) {
    emu_context **link = &context->device->contexts;
    while (*link != NULL && *link != context) link = &(*link)->next;
    bool listed = *link != NULL;
    if (listed) *link = context->next;
    context->ended = true;
    return listed;
}

/* Ends a context that has been taken out of the list. */
static int end_context(emu_context *context) {
    emu_object_reclaim(context);
    emu_models_reclaim(context); /* first: a captured stream could not be waited for */
    int status = emu_streams_reclaim(context);
    emu_object_release(context);
    return status;
}

/* Makes a context with its default stream; the caller gets a reference. The caller holds emu_world. */
static int make_context(emu_device *device, bool primary, emu_context **result) {
    emu_context *context = calloc(1, sizeof *context);
    if (context != NULL) *context = (emu_context){.base.references = 1, .device = device, .primary = primary};
    if (emu_object_new(KIND_CONTEXT, context, free) == NULL) {
        emu_object_release(context);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    int status = emu_stream_new(context, 0, 0, &context->default_stream);
    if (status != 0) {
        emu_object_reclaim(context);
        emu_object_release(context);
        return status;
    }
    emu_handle_hide(context->default_stream);
    if (primary) emu_handle_hide(context->base.handle);
    context->next = device->contexts;
    device->contexts = context;
    emu_object_hold(context);
    *result = context;
    return 0;
}

API aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
    ENTER("aclrtCreateContext");
    if (context == NULL) return emu_null_argument("context");
    int status = emu_check_device(deviceId);
    if (status == 0) status = emu_link_check(&emu_devices[deviceId]);
    if (status != 0) return status;
    emu_device *device = &emu_devices[deviceId];
    EMU_HELD emu_context *created = NULL;
    pthread_mutex_lock(&emu_world);
    status = emu_process_join(device);
    if (status == 0) status = emu_memory_open(device);
    if (status == 0) status = make_context(device, false, &created);
    pthread_mutex_unlock(&emu_world);
    if (status == 0) {
        emu_set_current(created);
        *context = created->base.handle;
    }
    return status;
}

API aclError aclrtDestroyContext(aclrtContext handle) {
    ENTER_RELEASE("aclrtDestroyContext");
    int status;
    EMU_HELD emu_context *context = emu_object_acquire(handle, KIND_CONTEXT, &status);
    if (context != NULL && context->primary)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the default context ends with aclrtResetDevice");
    else
        emu_object_release(emu_object_destroy(handle, KIND_CONTEXT, &status));
    if (status == 0) {
        if (emu_current_handle() == handle) emu_set_current(NULL);
        pthread_mutex_lock(&emu_world);
        bool listed = unlist_context(context);
        pthread_mutex_unlock(&emu_world);
        if (listed) status = end_context(context);
    }
    LEAVE(status);
}

API aclError aclrtSetCurrentContext(aclrtContext handle) {
    ENTER("aclrtSetCurrentContext");
    int status;
    EMU_HELD emu_context *context = emu_object_acquire(handle, KIND_CONTEXT, &status);
    if (context != NULL) emu_set_current(context);
    return status;
}

API aclError aclrtGetCurrentContext(aclrtContext *context) {
    ENTER("aclrtGetCurrentContext");
    emu_context *current;
    if (context == NULL) return emu_null_argument("context");
    if (emu_current_handle() == NULL && emu_claims(8, 5) && !emu_claims(9, 0)) {
        *context = NULL; /* 8.5: no context is no failure */
        return 0;
    }
    if (emu_current_handle() == NULL) return emu_fail(ACL_ERROR_RT_CONTEXT_NULL, "EMULATOR_NO_DEVICE", "no device is set on this thread");
    int status = emu_current_context(&current);
    if (status == 0) *context = current->base.handle;
    return status;
}

/* ------------------------------------------------------------------------------------------------------------- devices */

API aclError aclrtSetDevice(int32_t deviceId) {
    ENTER("aclrtSetDevice");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    emu_device *device = &emu_devices[deviceId];
    EMU_HELD emu_context *primary = NULL;
    pthread_mutex_lock(&emu_world);
    status = emu_process_join(device);
    if (status == 0) status = emu_memory_open(device);
    if (status == 0 && device->primary != NULL) {
        primary = device->primary;
        emu_object_hold(primary);
    } else if (status == 0) {
        status = make_context(device, true, &primary);
        device->primary = primary;
    }
    if (status == 0) device->set_count++;
    pthread_mutex_unlock(&emu_world);
    if (status == 0) status = emu_link_check(device);
    if (status == 0) emu_set_current(primary);
    return status;
}

/* Reclaims all resources of a device. Waits for the work of its contexts. */
static int clear_device(emu_device *device) {
    int status = 0;
    for (;;) {
        pthread_mutex_lock(&emu_world);
        emu_context *context = device->contexts;
        if (context != NULL) (void)unlist_context(context);
        device->primary = NULL;
        device->set_count = 0;
        pthread_mutex_unlock(&emu_world);
        if (context == NULL) break;
        int failed = end_context(context);
        if (status == 0) status = failed;
    }
    pthread_mutex_lock(&emu_world);
    device->peers = 0;
    device->communicators = 0;
    if (device->contexts == NULL) emu_process_leave(device); /* unless another thread has set the device again */
    pthread_mutex_unlock(&emu_world);
    emu_peers_clear(device);
    bool shared = emu_ipc_clear(device);
    emu_host_unmap_all(device);
    emu_alias_clear(device);
    emu_memory_clear(device, shared);
    if (emu_link_lost(device) || shared) emu_link_stop(device); /* the next aclrtSetDevice starts another process */
    return status;
}

/* The default context ends with the last aclrtResetDevice; explicit contexts keep the device in use. */
static int reset_device(int32_t id, bool force) {
    int status = emu_check_device(id);
    if (status != 0) return status;
    emu_device *device = &emu_devices[id];
    pthread_mutex_lock(&emu_world);
    emu_context *primary = device->primary;
    bool last = primary != NULL && (force || device->set_count == 1);
    uint32_t communicators = last ? device->communicators : 0;
    if (communicators > 0) {
        pthread_mutex_unlock(&emu_world);
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_LIVE_COMMUNICATOR",
                        "%u communicator(s) of HCCL on device %d must be destroyed first (HcclCommDestroy)", communicators, id);
    }
    if (primary != NULL && !last) device->set_count--;
    bool others = false;
    for (emu_context *context = device->contexts; context != NULL; context = context->next) others |= !context->primary;
    if (last && others) {
        (void)unlist_context(primary);
        device->primary = NULL;
        device->set_count = 0;
    }
    pthread_mutex_unlock(&emu_world);
    if (primary == NULL)
        return emu_fail(ACL_ERROR_RT_CONTEXT_NULL, "EMULATOR_NO_DEVICE", "device %d has not been set", id);
    if (!last) return 0;
    if (!others) return clear_device(device);
    return end_context(primary);
}

API aclError aclrtResetDevice(int32_t deviceId) {
    ENTER_RELEASE("aclrtResetDevice");
    LEAVE(reset_device(deviceId, false));
}

API aclError aclrtResetDeviceForce(int32_t deviceId) {
    ENTER_RELEASE("aclrtResetDeviceForce");
    LEAVE(reset_device(deviceId, true));
}

API aclError aclrtGetDevice(int32_t *deviceId) {
    ENTER("aclrtGetDevice");
    emu_context *context;
    if (deviceId == NULL) return emu_null_argument("deviceId");
    if (emu_current_handle() == NULL && emu_default_device >= 0) {
        *deviceId = emu_default_device; /* although no context is current */
        return 0;
    }
    int status = emu_current_context(&context);
    if (status == 0) *deviceId = context->device->id;
    return status;
}

static int no_device(const char *name, int32_t device) {
    if (device < 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%s is %d; it must not be negative", name, (int)device);
    return emu_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1003", "%s is %d, which is none of the %d devices", name, (int)device, emu_device_count());
}

/* Outside containers physical and logic numbers are the same. */
static int logic_of_user(const char *name, int32_t user, const char *result_name, int32_t *logic) {
    if (logic == NULL) return emu_null_argument(result_name);
    int device = emu_logic_device(user);
    if (device < 0) return no_device(name, user);
    *logic = device;
    return 0;
}

static int user_of_logic(const char *name, int32_t logic, const char *result_name, int32_t *user) {
    if (user == NULL) return emu_null_argument(result_name);
    int device = logic < 0 ? -1 : emu_device_count() - 1;
    while (device >= 0 && emu_logic_device(device) != logic) device--;
    if (device < 0) return no_device(name, logic);
    *user = device;
    return 0;
}

API aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId) {
    ENTER("aclrtGetLogicDevIdByUserDevId");
    return logic_of_user("userDevid", userDevid, "logicDevId", logicDevId);
}

API aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid) {
    ENTER("aclrtGetUserDevIdByLogicDevId");
    return user_of_logic("logicDevId", logicDevId, "userDevid", userDevid);
}

/* What these two call logic numbers are the program's own, CANN's document says; functions of 9.1.0 have the right names. */
API aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId) {
    ENTER("aclrtGetPhyDevIdByLogicDevId");
    return logic_of_user("logicDevId", logicDevId, "phyDevId", phyDevId);
}

API aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId) {
    ENTER("aclrtGetLogicDevIdByPhyDevId");
    return user_of_logic("phyDevId", phyDevId, "logicDevId", logicDevId);
}

API aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId) {
    ENTER("aclrtGetPhyDevIdByUserDevId");
    return logic_of_user("userDevId", userDevId, "phyDevId", phyDevId);
}

API aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId) {
    ENTER("aclrtGetUserDevIdByPhyDevId");
    return user_of_logic("phyDevId", phyDevId, "userDevId", userDevId);
}

API aclError aclrtGetDeviceCount(uint32_t *count) {
    ENTER("aclrtGetDeviceCount");
    if (count == NULL) return emu_null_argument("count");
    *count = (uint32_t)emu_device_count();
    if (*count > 0) return 0;
    if (emu_settings_flaw() != NULL) return emu_fail(ACL_ERROR_RT_NO_DEVICE, NULL, "%s", emu_settings_flaw());
    const char *flaw = emu_visible_flaw(), *visible = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (flaw == NULL) return emu_fail(ACL_ERROR_RT_NO_DEVICE, NULL, "ASCEND_EMULATOR_DEVICES is 0");
    return emu_fail(ACL_ERROR_RT_NO_DEVICE, "EE2002", "ASCEND_RT_VISIBLE_DEVICES is '%s': %s", visible != NULL ? visible : "", flaw);
}

API aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active) {
    ENTER("aclrtGetPrimaryCtxState");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    if (active == NULL) return emu_null_argument("active");
    if (flags != NULL) *flags = 0;
    *active = emu_devices[deviceId].primary != NULL;
    return 0;
}

API aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus) {
    ENTER("aclrtQueryDeviceStatus");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    if (deviceStatus == NULL) return emu_null_argument("deviceStatus");
    *deviceStatus = emu_link_lost(&emu_devices[deviceId]) ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
    return 0;
}

API aclError aclrtGetRunMode(aclrtRunMode *runMode) {
    ENTER("aclrtGetRunMode");
    if (runMode == NULL) return emu_null_argument("runMode");
    *runMode = ACL_HOST;
    return 0;
}

API aclError aclrtSetTsDevice(aclrtTsId tsId) {
    ENTER("aclrtSetTsDevice");
    if (tsId != ACL_TS_ID_AICORE && tsId != ACL_TS_ID_AIVECTOR)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "tsId is %d; allowed: 0, 1", (int)tsId);
    return 0;
}

API aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
    ENTER("aclrtDeviceCanAccessPeer");
    if (canAccessPeer == NULL) return emu_null_argument("canAccessPeer");
    int status = emu_check_device(deviceId);
    if (status == 0) status = emu_check_device(peerDeviceId);
    if (status == 0 && deviceId == peerDeviceId)
        status = emu_fail(ACL_ERROR_RT_INVALID_DEVICEID, NULL, "device %d is both the device and its peer", deviceId);
    if (status == 0) *canAccessPeer = 1;
    return status;
}

static int change_peer(int32_t peer, bool enable) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status == 0) status = emu_check_device(peer);
    if (status != 0) return status;
    if (peer == context->device->id)
        return emu_fail(ACL_ERROR_RT_INVALID_DEVICEID, NULL, "device %d is this thread's own device", peer);
    pthread_mutex_lock(&emu_world);
    if (enable) context->device->peers |= 1u << peer;
    else context->device->peers &= ~(1u << peer);
    pthread_mutex_unlock(&emu_world);
    return 0;
}

API aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
    ENTER("aclrtDeviceEnablePeerAccess");
    if (flags != 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flags is %u; allowed: 0", flags);
    return change_peer(peerDeviceId, true);
}

API aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
    ENTER("aclrtDeviceDisablePeerAccess");
    return change_peer(peerDeviceId, false);
}

API aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status_out) {
    ENTER("aclrtDevicePeerAccessStatus");
    if (status_out == NULL) return emu_null_argument("status");
    int status = emu_check_device(deviceId);
    if (status == 0) status = emu_check_device(peerDeviceId);
    if (status == 0) *status_out = emu_devices[deviceId].peers >> peerDeviceId & 1;
    return status;
}

API aclError aclrtDeviceGetBareTgid(int32_t *pid) {
    ENTER("aclrtDeviceGetBareTgid");
    if (pid == NULL) return emu_null_argument("pid");
    *pid = (int32_t)getpid();
    return 0;
}

/* ----------------------------------------------------------------------------------------------- initialise and finalise */

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t init_count;
static bool was_finalised;

/* The number behind "default_device" in a configuration file, -1 for none. Releases before 8.3 do not read it. */
static int configured_device(const char *path) {
    char text[4096] = {0};
    FILE *file = path != NULL && *path != 0 && emu_claims(8, 3) ? fopen(path, "r") : NULL;
    if (file == NULL) return -1;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *at = size > 0 ? strstr(text, "\"default_device\"") : NULL;
    if (at == NULL) return -1;
    at = strpbrk(at + strlen("\"default_device\""), "0123456789");
    return at != NULL ? atoi(at) : -1;
}

API aclError aclInit(const char *configPath) {
    ENTER("aclInit");
    if (emu_config()->soc.product == NULL)
        return emu_fail(ACL_ERROR_INTERNAL_ERROR, NULL, "ASCEND_ACLNN_SOC is %s, which the emulator does not know",
                        emu_config()->soc.name);
    if (configPath != NULL && *configPath != 0 && access(configPath, R_OK) != 0)
        return emu_fail(ACL_ERROR_INVALID_FILE, NULL, "cannot read %s", configPath);
    pthread_mutex_lock(&init_lock);
    uint64_t count = ++init_count;
    was_finalised = false;
    if (count == 1) emu_report_again();
    if (count == 1) emu_default_device = configured_device(configPath);
    pthread_mutex_unlock(&init_lock);
    return count == 1 ? 0 : emu_fail(ACL_ERROR_REPEAT_INITIALIZE, NULL, "already initialised (%llu times)", (unsigned long long)count);
}

/* Ends everything: reports leaks, waits for the devices' work, frees memory and ends the device processes. */
static int finalize(void) {
    int status = 0;
    emu_report_leaks();
    if (emu_activity_observed()) { /* queued work runs, and its activities are reported, before the device processes end */
        for (int i = 0; i < EMU_MAX_DEVICES; i++) emu_streams_drain(&emu_devices[i]);
        emu_activity_collect();
    }
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        int failed = clear_device(device);
        if (status == 0) status = failed;
        emu_link_stop(device);
        emu_memory_close(device);
    }
    return status;
}

API aclError aclFinalize(void) {
    ENTER_RELEASE("aclFinalize");
    pthread_mutex_lock(&init_lock);
    bool initialised = init_count > 0;
    init_count = 0;
    emu_default_device = -1;
    pthread_mutex_unlock(&init_lock);
    LEAVE(initialised ? finalize()
                      : emu_fail(ACL_ERROR_REPEAT_FINALIZE, NULL, was_finalised ? "ACL was finalised already" : "ACL is not initialised"));
}

API aclError aclFinalizeReference(uint64_t *refCount) {
    ENTER_RELEASE("aclFinalizeReference");
    pthread_mutex_lock(&init_lock);
    bool initialised = init_count > 0;
    uint64_t left = initialised ? --init_count : 0;
    pthread_mutex_unlock(&init_lock);
    if (refCount != NULL) *refCount = left;
    int status = 0;
    if (!initialised) status = emu_fail(ACL_ERROR_REPEAT_FINALIZE, NULL, "ACL is not initialised");
    else if (left == 0) status = finalize();
    LEAVE(status);
}

/* ------------------------------------------------------------------------------------------------------------- options */

static int check_option(aclSysParamOpt opt) {
    if ((unsigned)opt < EMU_OPTIONS) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "option is %d; allowed: 0 to %d", (int)opt, EMU_OPTIONS - 1);
}

API aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    ENTER("aclrtSetSysParamOpt");
    int status = check_option(opt);
    if (status == 0) emu_process_options[opt] = value;
    return status;
}

/* Options are 0 until they are set. Only a context knows whether it has a value of its own. */
API aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    ENTER("aclrtGetSysParamOpt");
    if (value == NULL) return emu_null_argument("value");
    int status = check_option(opt);
    if (status == 0) *value = emu_process_options[opt];
    return status;
}

API aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    ENTER("aclrtCtxSetSysParamOpt");
    emu_context *context;
    int status = check_option(opt);
    if (status == 0) status = emu_current_context(&context);
    if (status != 0) return status;
    context->options[opt] = emu_process_options[opt] = value;
    context->option_set[opt] = true;
    return 0;
}

API aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    ENTER("aclrtCtxGetSysParamOpt");
    emu_context *context;
    if (value == NULL) return emu_null_argument("value");
    int status = check_option(opt);
    if (status == 0) status = emu_current_context(&context);
    if (status != 0) return status;
    if (!context->option_set[opt])
        return emu_fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, NULL, "the context's option %d has not been set", (int)opt);
    *value = context->options[opt];
    return 0;
}

/* Of the process, not of a device: CANN's runtime needs no context here, and MindSpore sets the mode before it has one. */
#define NOT_SET ACL_RT_OVERFLOW_MODE_UNDEF
static _Atomic aclrtFloatOverflowMode overflow_mode = NOT_SET;

API aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
    ENTER("aclrtSetDeviceSatMode");
    if ((unsigned)mode >= ACL_RT_OVERFLOW_MODE_UNDEF)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "mode is %d; allowed: 0, 1", (int)mode);
    if (mode == ACL_RT_OVERFLOW_MODE_INFNAN && !emu_config()->soc.inf_nan)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "%s has only the saturation mode", emu_config()->soc.name);
    overflow_mode = mode;
    return 0;
}

API aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode) {
    ENTER("aclrtGetDeviceSatMode");
    if (mode == NULL) return emu_null_argument("mode");
    *mode = overflow_mode;
    if (*mode == NOT_SET) *mode = emu_config()->soc.inf_nan ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION;
    return 0;
}

/* Time limits of operators are stored and returned; no operator is ever cut off. */
static uint64_t execute_timeout_us;

API aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
    ENTER("aclrtSetOpWaitTimeout");
    (void)timeout;
    return 0;
}

API aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
    ENTER("aclrtSetOpExecuteTimeOut");
    execute_timeout_us = (uint64_t)timeout * 1000000u;
    return 0;
}

API aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
    ENTER("aclrtSetOpExecuteTimeOutWithMs");
    execute_timeout_us = (uint64_t)timeout * 1000u;
    return 0;
}

API aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout) {
    ENTER("aclrtSetOpExecuteTimeOutV2");
    if (actualTimeout == NULL) return emu_null_argument("actualTimeout");
    execute_timeout_us = *actualTimeout = timeout;
    return 0;
}

API aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs) {
    ENTER("aclrtGetOpExecuteTimeout");
    if (timeoutMs == NULL) return emu_null_argument("timeoutMs");
    *timeoutMs = (uint32_t)(execute_timeout_us / 1000u);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------- queries */

API const char *aclrtGetSocName(void) {
    ENTER_OR_NULL("aclrtGetSocName");
    return emu_config()->soc.product != NULL ? emu_config()->soc.name : NULL;
}

API aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion) {
    ENTER("aclrtGetVersion");
    if (majorVersion == NULL || minorVersion == NULL || patchVersion == NULL) return emu_null_argument("a version");
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return 0;
}

/* The parts of a release: of 8.1.RC1 8, 1 and RC1. */
static void release_parts(const char *at, char parts[4][ACL_PKG_VERSION_PARTS_MAX_SIZE]) {
    for (int i = 0; i < 4; i++) {
        size_t length = strcspn(at, ".");
        snprintf(parts[i], ACL_PKG_VERSION_PARTS_MAX_SIZE, "%.*s", (int)length, at);
        at += length + (at[length] == '.');
    }
}

API aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version) {
    ENTER("aclsysGetCANNVersion");
    if (version == NULL) return emu_null_argument("version");
    if ((unsigned)name > ACL_PKG_NAME_DRIVER)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "package is %d; allowed: 0 to %d", (int)name, ACL_PKG_NAME_DRIVER);
    bool operators = name == ACL_PKG_NAME_OPP || name == ACL_PKG_NAME_OPP_KERNEL;
    const char *release = operators ? emu_config()->operators : emu_config()->cann;
    char parts[4][ACL_PKG_VERSION_PARTS_MAX_SIZE] = {{0}};
    release_parts(release, parts);
    memset(version, 0, sizeof *version);
    snprintf(version->version, sizeof version->version, "%s", release);
    memcpy(version->majorVersion, parts[0], sizeof parts[0]);
    memcpy(version->minorVersion, parts[1], sizeof parts[1]);
    memcpy(version->releaseVersion, parts[2], sizeof parts[2]);
    memcpy(version->patchVersion, parts[3], sizeof parts[3]);
    return 0;
}

/* The release of a package: ops-nn, ops_math, opp and the like are of the operators. */
static const char *release_of(const char *package) {
    return strncmp(package, "op", 2) == 0 ? emu_config()->operators : emu_config()->cann;
}

API aclError aclsysGetVersionStr(char *pkgName, char *versionStr) {
    ENTER("aclsysGetVersionStr");
    if (pkgName == NULL || versionStr == NULL) return emu_null_argument(pkgName == NULL ? "pkgName" : "versionStr");
    snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%s", release_of(pkgName));
    return 0;
}

API aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum) {
    ENTER("aclsysGetVersionNum");
    if (pkgName == NULL || versionNum == NULL) return emu_null_argument(pkgName == NULL ? "pkgName" : "versionNum");
    char parts[4][ACL_PKG_VERSION_PARTS_MAX_SIZE] = {{0}};
    release_parts(release_of(pkgName), parts);
    *versionNum = atoi(parts[0]) * 10000000 + atoi(parts[1]) * 100000 + atoi(parts[2]) * 1000;
    return 0;
}

API aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num) {
    ENTER("aclGetCannAttributeList");
    static const aclCannAttr list[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};
    if (cannAttrList == NULL || num == NULL) return emu_null_argument(cannAttrList == NULL ? "cannAttrList" : "num");
    *cannAttrList = list;
    *num = sizeof list / sizeof list[0];
    return 0;
}

API aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value) {
    ENTER("aclGetCannAttribute");
    if (value == NULL) return emu_null_argument("value");
    switch (cannAttr) {
        case ACL_CANN_ATTR_INF_NAN: *value = emu_config()->soc.inf_nan; return 0;
        case ACL_CANN_ATTR_BF16: *value = emu_config()->soc.bf16; return 0;
        case ACL_CANN_ATTR_JIT_COMPILE: *value = 0; return 0;
        default: return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "attribute is %d; allowed: 0 to 2", (int)cannAttr);
    }
}

API aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value) {
    ENTER("aclGetDeviceCapability");
    if (value == NULL) return emu_null_argument("value");
    int status = emu_check_device((int32_t)deviceId);
    if (status != 0) return status;
    const emu_soc *soc = &emu_config()->soc;
    switch (deviceInfo) {
        case ACL_DEVICE_INFO_AI_CORE_NUM: *value = soc->cube_cores; return 0;
        case ACL_DEVICE_INFO_VECTOR_CORE_NUM: *value = soc->vector_cores; return 0;
        case ACL_DEVICE_INFO_L2_SIZE: *value = (int64_t)soc->l2_bytes; return 0;
        default: return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "information is %d; allowed: 0 to 2", (int)deviceInfo);
    }
}

API aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value) {
    ENTER("aclrtGetDeviceInfo");
    if (value == NULL) return emu_null_argument("value");
    int status = emu_check_device((int32_t)deviceId);
    if (status != 0) return status;
    const emu_soc *soc = &emu_config()->soc;
    switch (attr) {
        case ACL_DEV_ATTR_AICORE_CORE_NUM: case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = soc->cube_cores; return 0;
        case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = soc->vector_cores; return 0;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = (int64_t)soc->memory; return 0;
        case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = (int64_t)soc->l2_bytes; return 0;
        default: return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_NOT_SUPPORTED", "the emulator lacks attribute %d", (int)attr);
    }
}

API size_t aclDataTypeSize(aclDataType dataType) {
    switch (dataType) {
        case ACL_INT8: case ACL_UINT8: case ACL_BOOL: case ACL_HIFLOAT8: case ACL_FLOAT8_E5M2: case ACL_FLOAT8_E4M3FN:
        case ACL_FLOAT8_E8M0: return 1;
        case ACL_FLOAT16: case ACL_BF16: case ACL_INT16: case ACL_UINT16: return 2;
        case ACL_FLOAT: case ACL_INT32: case ACL_UINT32: case ACL_COMPLEX32: return 4;
        case ACL_DOUBLE: case ACL_INT64: case ACL_UINT64: case ACL_COMPLEX64: return 8;
        case ACL_COMPLEX128: return 16;
        default: return 0;
    }
}

/* CANN's own conversion: infinity and NaN are treated as large numbers. */
API float aclFloat16ToFloat(aclFloat16 value) {
    uint32_t sign = (uint32_t)(value >> 15) << 31, exponent = value >> 10 & 0x1f, mantissa = value & 0x3ff;
    float magnitude = (float)mantissa / 1024.0f;
    magnitude = exponent == 0 ? magnitude / 16384.0f : 1.0f + magnitude;
    for (int i = 15; exponent != 0 && i < (int)exponent; i++) magnitude *= 2.0f;
    for (int i = (int)exponent; exponent != 0 && i < 15; i++) magnitude /= 2.0f;
    return sign != 0 ? -magnitude : magnitude;
}

API aclFloat16 aclFloatToFloat16(float value) {
    union { float number; uint32_t bits; } in = {value};
    uint16_t sign = (uint16_t)(in.bits >> 16 & 0x8000);
    in.bits &= 0x7fffffff;
    if (!(in.number < 65520.0f)) return (aclFloat16)(sign | 0x7bff);
    if (in.number < 6.103515625e-05f) { /* subnormal: adding 0.5 rounds to a multiple of 2^-24 */
        union { float number; uint32_t bits; } low = {in.number + 0.5f};
        return (aclFloat16)(sign | (low.bits - 0x3f000000));
    }
    uint32_t odd = in.bits >> 13 & 1;
    return (aclFloat16)(sign | ((in.bits - 0x38000000 + 0xfff + odd) >> 13));
}

API void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...) {
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    if (getenv("ASCEND_EMULATOR_LOG") == NULL || (unsigned)logLevel > ACL_ERROR || fmt == NULL) return;
    char text[1024];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    fprintf(stderr, "[%s] %s:%u %s: %s\n", names[logLevel], file != NULL ? file : "", line, func != NULL ? func : "", text);
}

__attribute__((constructor)) static void at_start(void) { emu_set_default_device = aclrtSetDevice; }
