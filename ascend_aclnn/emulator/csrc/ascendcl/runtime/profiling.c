/*
 * Profiling: which operators ran, when they were launched and when the device process computed them.
 *
 * aclprofStop writes a file of trace events, the JSON that chrome://tracing and Perfetto read, and not CANN's directory of raw
 * data, which only CANN's tool reads.
 */
#include "ascendcl/runtime/profiling.h"

#include "acl/acl_prof.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/stream/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct aclprofConfig {
    emu_object base;
    uint32_t count;
    uint32_t devices[EMU_MAX_DEVICES];
};

struct aclprofStepInfo {
    emu_object base;
    _Atomic uint64_t begin;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool running;
static _Atomic bool initialised;
static char place[3000];
static emu_buffer events;
static uint32_t files;

uint64_t emu_profile_begin(void) { return __builtin_expect(running, 0) ? emu_now() : 0; }

void emu_profile_end(const char *name, uint64_t begin) {
    char line[400];
    if (begin == 0 || !running) return;
    int length = snprintf(line, sizeof line, "{\"name\": \"%.200s\", \"ph\": \"X\", \"pid\": \"host\", \"tid\": %ld, \"ts\": %.3f, \"dur\": %.3f},\n", name,
                          (long)syscall(SYS_gettid), (double)begin * 1e-3, (double)(emu_now() - begin) * 1e-3);
    pthread_mutex_lock(&lock);
    if (running) emu_buffer_put(&events, line, (size_t)length);
    pthread_mutex_unlock(&lock);
}

API aclError aclprofInit(const char *profilerResultPath, size_t length) {
    ENTER("aclprofInit");
    if (profilerResultPath == NULL) return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "profilerResultPath is a null pointer");
    if (length == 0 || length >= sizeof place || strnlen(profilerResultPath, length + 1) != length)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "length is %zu, which is not that of profilerResultPath, or is more than %zu", length, sizeof place - 1);
    pthread_mutex_lock(&lock);
    int status = initialised ? emu_fail(ACL_ERROR_REPEAT_INITIALIZE, NULL, "aclprofFinalize must come first") : 0;
    if (status == 0) {
        memcpy(place, profilerResultPath, length);
        place[length] = 0;
        if (mkdir(place, 0750) != 0 && errno != EEXIST) status = emu_fail(ACL_ERROR_INVALID_FILE, NULL, "%s: %s", place, strerror(errno));
    }
    if (status == 0) initialised = true;
    pthread_mutex_unlock(&lock);
    return status;
}

API aclError aclprofFinalize(void) {
    ENTER("aclprofFinalize");
    pthread_mutex_lock(&lock);
    int status = !initialised ? emu_fail(ACL_ERROR_PROF_NOT_RUN, NULL, "aclprofInit must come first")
                 : running    ? emu_fail(ACL_ERROR_PROF_ALREADY_RUN, NULL, "aclprofStop must come first")
                              : 0;
    if (status == 0) initialised = false;
    pthread_mutex_unlock(&lock);
    return status;
}

API aclprofConfig *aclprofCreateConfig(uint32_t *deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics aicoreMetrics,
                                       const aclprofAicoreEvents *aicoreEvents, uint64_t dataTypeConfig) {
    ENTER_OR_NULL("aclprofCreateConfig");
    (void)aicoreMetrics, (void)aicoreEvents, (void)dataTypeConfig; /* there are no cores to measure */
    if ((deviceIdList == NULL && deviceNums > 0) || deviceNums > EMU_MAX_DEVICES) {
        emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "deviceNums is %u", deviceNums);
        return NULL;
    }
    for (uint32_t i = 0; i < deviceNums; i++) {
        if (emu_check_device((int32_t)deviceIdList[i]) != 0) return NULL;
    }
    aclprofConfig *config = calloc(1, sizeof *config);
    if (config == NULL) abort();
    config->count = deviceNums;
    if (deviceNums > 0) memcpy(config->devices, deviceIdList, deviceNums * sizeof *deviceIdList);
    return emu_object_new(KIND_PROFILE_CONFIG, config, free);
}

API aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig) {
    ENTER_RELEASE("aclprofDestroyConfig");
    int status;
    emu_object_release(emu_object_destroy(profilerConfig, KIND_PROFILE_CONFIG, &status));
    LEAVE(status);
}

/* Switches recording in a device process on or off, and fetches what it has recorded. */
static int tell(emu_device *device, uint64_t on, emu_buffer *answer) {
    emu_buffer request = {0};
    emu_buffer_put(&request, &on, sizeof on);
    int status = emu_memory_prepare(device);
    if (status == 0) status = emu_link_call(device, CALL_PROFILE, &request, answer);
    emu_buffer_free(&request);
    return status;
}

/* How often and which hardware is sampled: accepted without effect, as there is no hardware. */
API aclError aclprofSetConfig(aclprofConfigType configType, const char *config, size_t configLength) {
    ENTER("aclprofSetConfig");
    if (config == NULL) return emu_null_argument("config");
    if (configLength == 0 || strnlen(config, configLength) != configLength)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "config is not a text of %zu bytes", configLength);
    if (configType <= ACL_PROF_ARGS_MIN || configType >= ACL_PROF_ARGS_MAX)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "configType is %d; allowed: %d to %d", (int)configType,
                        ACL_PROF_ARGS_MIN + 1, ACL_PROF_ARGS_MAX - 1);
    return 0;
}

API aclError aclprofStart(const aclprofConfig *profilerConfig) {
    ENTER("aclprofStart");
    int status;
    EMU_HELD aclprofConfig *config = emu_object_acquire(profilerConfig, KIND_PROFILE_CONFIG, &status);
    if (config == NULL) return status;
    if (!initialised || running)
        return emu_fail(running ? ACL_ERROR_PROF_ALREADY_RUN : ACL_ERROR_PROF_NOT_RUN, NULL, running ? "it runs already" : "aclprofInit must come first");
    emu_buffer answer = {0};
    for (uint32_t i = 0; i < config->count && status == 0; i++) status = tell(&emu_devices[config->devices[i]], 1, &answer);
    emu_buffer_free(&answer);
    if (status == 0) running = true;
    return status;
}

static int write_trace(void) {
    char path[sizeof place + 80];
    snprintf(path, sizeof path, "%s/ascend_emulator_trace_%d_%u.json", place, (int)getpid(), files++);
    FILE *file = fopen(path, "we");
    bool good = file != NULL && fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", file) >= 0;
    size_t size = events.size >= 2 ? events.size - 2 : 0; /* without the last comma */
    good = good && (size == 0 || fwrite(events.data, 1, size, file) == size) && fputs("\n]}\n", file) >= 0;
    if (file != NULL && fclose(file) != 0) good = false;
    return good ? 0 : emu_fail(ACL_ERROR_WRITE_FILE, NULL, "%s: %s", path, strerror(errno));
}

API aclError aclprofStop(const aclprofConfig *profilerConfig) {
    ENTER("aclprofStop");
    int status;
    EMU_HELD aclprofConfig *config = emu_object_acquire(profilerConfig, KIND_PROFILE_CONFIG, &status);
    if (config == NULL) return status;
    if (!running) return emu_fail(ACL_ERROR_PROF_NOT_RUN, NULL, "aclprofStart must come first");
    for (uint32_t i = 0; i < config->count; i++) {
        emu_buffer answer = {0};
        emu_device *device = &emu_devices[config->devices[i]];
        emu_streams_drain(device);
        int failed = tell(device, 0, &answer);
        pthread_mutex_lock(&lock);
        if (failed == 0) emu_buffer_put(&events, answer.data, answer.size);
        pthread_mutex_unlock(&lock);
        if (status == 0) status = failed;
        emu_buffer_free(&answer);
    }
    pthread_mutex_lock(&lock);
    running = false;
    int failed = write_trace();
    emu_buffer_free(&events);
    pthread_mutex_unlock(&lock);
    return status != 0 ? status : failed;
}

API aclprofStepInfo *aclprofCreateStepInfo(void) {
    ENTER_OR_NULL("aclprofCreateStepInfo");
    return emu_object_new(KIND_PROFILE_STEP, calloc(1, sizeof(aclprofStepInfo)), free);
}

API aclError aclprofGetStepTimestamp(aclprofStepInfo *stepInfo, aclprofStepTag tag, aclrtStream stream) {
    ENTER("aclprofGetStepTimestamp");
    int status;
    (void)stream; /* host time */
    EMU_HELD aclprofStepInfo *step = emu_object_acquire(stepInfo, KIND_PROFILE_STEP, &status);
    if (step != NULL && tag == ACL_STEP_START) step->begin = emu_profile_begin();
    else if (step != NULL) emu_profile_end("step", step->begin);
    return status;
}

API void aclprofDestroyStepInfo(aclprofStepInfo *stepinfo) {
    int status;
    emu_set_routine("aclprofDestroyStepInfo");
    if (!emu_is_forked()) emu_object_release(emu_object_destroy(stepinfo, KIND_PROFILE_STEP, &status));
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_PROFILING, &lock, NULL); }
