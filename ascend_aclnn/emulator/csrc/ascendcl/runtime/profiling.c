/*
 * Profiling: which operators ran, when they were launched and when the device process computed them.
 *
 * aclprofStop leaves a directory PROF_... as CANN does, with the time of the host's clock (host/start_info), a directory for each
 * device, and, in place of CANN's raw data, whose format is not public, trace events, the JSON that chrome://tracing and Perfetto
 * read (host/data). The emulated msprof exports it.
 */
#include "acl/acl_prof.h"
#include "ascendcl/core/activity.h"
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
#include <time.h>
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
static struct timespec real; /* the time of day at the start, */
static uint64_t monotonic, raw; /* that of emu_now, and of CLOCK_MONOTONIC_RAW, to which CANN relates it */

static const char *const KINDS[] = {"kernel", "collective", "copy", "set", "graph"};

static void add_event(const char *line, int length) {
    pthread_mutex_lock(&lock);
    if (running && length > 0) emu_buffer_put(&events, line, (size_t)length);
    pthread_mutex_unlock(&lock);
}

/* A span of the host. */
static void add_host(const char *name, uint32_t thread, uint64_t begin, uint64_t end, uint64_t correlation) {
    char line[500];
    add_event(line, snprintf(line, sizeof line,
                             "{\"name\": \"%.200s\", \"ph\": \"X\", \"pid\": \"host\", \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, "
                             "\"args\": {\"correlation\": %llu}},\n",
                             name, thread, (double)begin * 1e-3, (double)(end - begin) * 1e-3, (unsigned long long)correlation));
}

static void called(uint64_t correlation, const emu_activity_call *call) {
    add_host(call->name, call->thread, call->begin, call->end, correlation);
}

static void ran(uint64_t correlation, const emu_activity_call *call, uint64_t begin, uint64_t end) {
    char line[700];
    if (call->stream == EMU_NOWHERE) return; /* in the call itself */
    add_event(line, snprintf(line, sizeof line,
                             "{\"name\": \"%.200s\", \"ph\": \"X\", \"pid\": \"device %u\", \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, "
                             "\"args\": {\"correlation\": %llu, \"kind\": \"%s\", \"bytes\": %llu}},\n",
                             call->name, call->device, call->stream, (double)begin * 1e-3, (double)(end - begin) * 1e-3,
                             (unsigned long long)correlation, KINDS[call->kind],
                             call->kind == ACTIVITY_COPY || call->kind == ACTIVITY_SET ? (unsigned long long)call->bytes : 0ull));
}

static const emu_activity_observer observer = {.called = called, .ran = ran};

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
    for (uint32_t i = 0; i < config->count && status == 0; i++) status = emu_memory_prepare(&emu_devices[config->devices[i]]);
    if (status != 0) return status;
    monotonic = emu_now();
    clock_gettime(CLOCK_REALTIME, &real);
    struct timespec unslewed;
    clock_gettime(CLOCK_MONOTONIC_RAW, &unslewed);
    raw = (uint64_t)unslewed.tv_sec * 1000000000 + (uint64_t)unslewed.tv_nsec;
    running = true;
    emu_activity_observe(0, &observer);
    return 0;
}

static int write_failed(const char *path) { return emu_fail(ACL_ERROR_WRITE_FILE, NULL, "%s: %s", path, strerror(errno)); }

/* Makes a directory of the path so far. */
static bool made(const char *path) { return mkdir(path, 0750) == 0 || errno == EEXIST; }

static int write_file(const char *path, const char *head, const emu_buffer *content, const char *tail) {
    FILE *file = fopen(path, "we");
    size_t size = content != NULL && content->size >= 2 ? content->size - 2 : 0; /* without the last comma */
    bool good = file != NULL && fputs(head, file) >= 0;
    good = good && (size == 0 || fwrite(content->data, 1, size, file) == size) && fputs(tail, file) >= 0;
    if (file != NULL && fclose(file) != 0) good = false;
    return good ? 0 : write_failed(path);
}

/* The directory: PROF_, a number, the time, and letters that no other has. */
static int write_trace(const aclprofConfig *config) {
    char folder[sizeof place + 80], path[sizeof folder + 80], text[200], time[32];
    struct tm local;
    localtime_r(&real.tv_sec, &local);
    strftime(time, sizeof time, "%Y%m%d%H%M%S", &local);
    snprintf(folder, sizeof folder, "%s/PROF_%06u_%s%03ld_EMULATOR%d", place, ++files, time, real.tv_nsec / 1000000, (int)getpid());
    const char *parts[] = {"", "/host", "/host/data"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s%s", folder, parts[i]);
        if (!made(path)) return write_failed(path);
    }
    for (uint32_t i = 0; i < config->count; i++) {
        snprintf(path, sizeof path, "%s/device_%u", folder, config->devices[i]);
        if (!made(path)) return write_failed(path);
    }
    snprintf(path, sizeof path, "%s/host/start_info", folder);
    snprintf(text, sizeof text, "{\"collectionTimeBegin\": \"%lld\", \"clockMonotonicRaw\": \"%llu\", \"clockMonotonic\": \"%llu\"}\n",
             (long long)real.tv_sec * 1000000 + real.tv_nsec / 1000, (unsigned long long)raw, (unsigned long long)monotonic);
    int status = write_file(path, text, NULL, "");
    snprintf(path, sizeof path, "%s/host/data/ascend_emulator_trace_%d_%u.json", folder, (int)getpid(), files);
    if (status == 0) status = write_file(path, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", &events, "\n]}\n");
    return status;
}

API aclError aclprofStop(const aclprofConfig *profilerConfig) {
    ENTER("aclprofStop");
    int status;
    EMU_HELD aclprofConfig *config = emu_object_acquire(profilerConfig, KIND_PROFILE_CONFIG, &status);
    if (config == NULL) return status;
    if (!running) return emu_fail(ACL_ERROR_PROF_NOT_RUN, NULL, "aclprofStart must come first");
    for (uint32_t i = 0; i < config->count; i++) emu_streams_drain(&emu_devices[config->devices[i]]);
    emu_activity_collect();
    emu_activity_observe(0, NULL);
    pthread_mutex_lock(&lock);
    running = false;
    status = write_trace(config);
    emu_buffer_free(&events);
    pthread_mutex_unlock(&lock);
    return status;
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
    if (step != NULL && tag == ACL_STEP_START) step->begin = emu_now();
    else if (step != NULL && step->begin != 0) add_host("step", (uint32_t)syscall(SYS_gettid), step->begin, emu_now(), 0);
    return status;
}

API void aclprofDestroyStepInfo(aclprofStepInfo *stepinfo) {
    int status;
    emu_set_routine("aclprofDestroyStepInfo");
    if (!emu_is_forked()) emu_object_release(emu_object_destroy(stepinfo, KIND_PROFILE_STEP, &status));
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_PROFILING, &lock, NULL); }
