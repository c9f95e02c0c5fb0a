/* Settings, messages, call counting and fault injection, the handle table, the leak report. */
#include "emu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

pthread_mutex_t emu_world = PTHREAD_MUTEX_INITIALIZER;
emu_device emu_devices[EMU_MAX_DEVICES];

/* ---------------------------------------------------------------------------------------------------------- settings */

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

/* First match counts. Core counts, memory and L2 are those of CANN 8.1's platform files, limits those of its documents. */
static const struct {
    const char *prefix;
    emu_chip chip;
} chips[] = {
    {"Ascend910B3", {NULL, true, 64 * GIB, 20, 40, 192 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910B4-1", {NULL, true, 32 * GIB, 20, 40, 168 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910B4", {NULL, true, 32 * GIB, 20, 40, 96 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910B1", {NULL, true, 64 * GIB, 24, 48, 192 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910B2", {NULL, true, 64 * GIB, 24, 48, 192 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910_936", {NULL, true, 32 * GIB, 20, 40, 168 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910_937", {NULL, true, 64 * GIB, 20, 40, 192 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910_93", {NULL, true, 64 * GIB, 24, 48, 192 * MIB, 1984, 65535, true, true, true}},
    {"Ascend910B", {NULL, true, 32 * GIB, 30, 0, 32 * MIB, 2048, 65535, false, false, false}},
    {"Ascend910ProB", {NULL, true, 32 * GIB, 30, 0, 32 * MIB, 2048, 65535, false, false, false}},
    {"Ascend910", {NULL, true, 32 * GIB, 32, 0, 32 * MIB, 2048, 65535, false, false, false}},
    {"Ascend310P1", {NULL, true, 24000000000, 10, 8, 16 * MIB, 1024, 1023, false, false, false}},
    {"Ascend310P", {NULL, true, 24000000000, 8, 7, 16 * MIB, 1024, 1023, false, false, false}},
    {"Ascend310B", {NULL, true, 32 * GIB, 1, 1, 4 * MIB, 512, 65535, false, false, false}},
    {"Ascend950", {NULL, true, 128 * GIB, 32, 64, 128 * MIB, 1984, 65535, true, true, true}},
};

static emu_settings settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static emu_chip find_chip(const char *name) {
    emu_chip chip = {NULL, false, 64 * GIB, 0, 0, 0, 1984, 65535, true, true, true};
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        if (strncmp(name, chips[i].prefix, strlen(chips[i].prefix)) == 0) {
            chip = chips[i].chip;
            break;
        }
    }
    chip.name = name;
    return chip;
}

/* A size with an optional suffix K, M, G or T (of 1024). */
static uint64_t parse_bytes(const char *text, uint64_t otherwise) {
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text) return otherwise;
    switch (*end) {
        case 'T': case 't': value <<= 10; /* fall through */
        case 'G': case 'g': value <<= 10; /* fall through */
        case 'M': case 'm': value <<= 10; /* fall through */
        case 'K': case 'k': value <<= 10; break;
        default: break;
    }
    return value;
}

static bool flag(const char *name, bool otherwise) {
    const char *text = getenv(name);
    if (text == NULL || *text == 0) return otherwise;
    return strcmp(text, "0") != 0;
}

/* How many devices ASCEND_RT_VISIBLE_DEVICES leaves: ascending numbers between commas, up to the first bad one. Devices
 * are numbered from 0 again, and one is like the other here. */
static int visible_devices(int devices) {
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");
    int count = 0;
    long last = -1;
    if (text == NULL) return devices;
    while (*text >= '0' && *text <= '9') {
        char *end;
        long device = strtol(text, &end, 10);
        if (device <= last || device >= devices || (*end != 0 && *end != ',')) break;
        last = device;
        count++;
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

static void forked_child(void);

static void read_settings(void) {
    const char *soc = getenv("ASCEND_ACLNN_SOC");
    settings.chip = find_chip(strdup(soc != NULL && *soc != 0 ? soc : "Ascend910B1"));
    const char *memory = getenv("ASCEND_EMULATOR_MEMORY");
    if (memory != NULL) settings.chip.memory = parse_bytes(memory, settings.chip.memory);
    const char *devices = getenv("ASCEND_EMULATOR_DEVICES");
    settings.devices = devices != NULL && *devices != 0 ? atoi(devices) : 2;
    if (settings.devices < 0) settings.devices = 0;
    if (settings.devices > EMU_MAX_DEVICES) settings.devices = EMU_MAX_DEVICES;
    settings.devices = visible_devices(settings.devices);
    const char *streams = getenv("ASCEND_EMULATOR_STREAMS");
    if (streams != NULL && strcmp(streams, "eager") == 0) settings.streams = STREAMS_EAGER;
    if (streams != NULL && strcmp(streams, "deferred") == 0) settings.streams = STREAMS_DEFERRED;
    settings.noop = flag("ASCEND_EMULATOR_NOOP", false);
    settings.strict = flag("ASCEND_EMULATOR_STRICT", false);
    const char *cann = getenv("ASCEND_EMULATOR_CANN");
    settings.cann = strdup(cann != NULL && *cann != 0 ? cann : "8.1.RC1");
    settings.tell_leaks = flag("ASCEND_EMULATOR_LEAKS", true);
    settings.repeatable = flag("ASCEND_EMULATOR_REPEATABLE", true);
    const char *fill = getenv("ASCEND_EMULATOR_FILL");
    settings.fill = fill != NULL && *fill != 0 ? (int)(strtol(fill, NULL, 0) & 0xff) : -1;
    const char *workspace = getenv("ASCEND_EMULATOR_WORKSPACE");
    settings.workspace = workspace != NULL && *workspace != 0 ? (int64_t)parse_bytes(workspace, 0) : -1;
    Dl_info info;
    if (dladdr((void *)read_settings, &info) != 0 && info.dli_fname != NULL) {
        char *real = realpath(info.dli_fname, NULL);
        snprintf(settings.directory, sizeof settings.directory, "%s", real != NULL ? real : info.dli_fname);
        free(real);
        char *slash = strrchr(settings.directory, '/');
        if (slash != NULL) *slash = 0;
    }
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        device->id = i;
        device->memory_fd = device->control = -1;
        device->saturation = settings.chip.inf_nan ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION;
        pthread_mutex_init(&device->lock, NULL);
        pthread_mutex_init(&device->link_lock, NULL);
    }
    pthread_atfork(NULL, NULL, forked_child);
}

const emu_settings *emu_config(void) {
    pthread_once(&settings_once, read_settings);
    return &settings;
}

/* ---------------------------------------------------------------------------------------------- messages of a thread */

typedef struct {
    const char *routine;
    char *message;   /* not read yet */
    char *returned;  /* what aclGetRecentErrMsg gave out last */
    aclError last;
} thread_state;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static __thread thread_state *thread;

static void free_thread(void *state) {
    thread_state *old = state;
    free(old->message);
    free(old->returned);
    free(old);
    thread = NULL;
}

static void make_thread_key(void) { pthread_key_create(&thread_key, free_thread); }

static thread_state *self(void) {
    if (thread == NULL) {
        pthread_once(&thread_once, make_thread_key);
        thread = calloc(1, sizeof *thread);
        if (thread == NULL) abort();
        pthread_setspecific(thread_key, thread);
    }
    return thread;
}

static int set_message(int status, char *text) {
    thread_state *state = self();
    free(state->message);
    state->message = text;
    state->last = status;
    return status;
}

int emu_fail(int status, const char *error, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *routine = self()->routine;
    char *message = NULL;
    int length = asprintf(&message, "%s%s%s%s%s", error != NULL ? error : "", error != NULL ? ": " : "",
                          routine != NULL ? routine : "", routine != NULL ? ": " : "", text);
    return set_message(status, length < 0 ? NULL : message);
}

int emu_fail_with(int status, const char *text) { return set_message(status, strdup(text)); }

char *emu_take_message(void) {
    thread_state *state = self();
    char *text = state->message;
    state->message = NULL;
    return text;
}

void emu_set_routine(const char *routine) { self()->routine = routine; }

const char *emu_routine(void) { return self()->routine; }

API const char *aclGetRecentErrMsg(void) {
    thread_state *state = self();
    free(state->returned);
    state->returned = state->message;
    state->message = NULL;
    return state->returned;
}

API aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
    ENTER("aclrtPeekAtLastError");
    (void)level;
    return self()->last;
}

API aclError aclrtGetLastError(aclrtLastErrLevel level) {
    ENTER("aclrtGetLastError");
    (void)level;
    aclError last = self()->last;
    self()->last = ACL_SUCCESS;
    return last;
}

/* ----------------------------------------------------------------------------------- call counting, fault injection */

static _Atomic uint64_t calls;
static _Atomic bool armed;
static _Atomic bool forked;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[128];
    uint64_t left;
    int status;
    char failed[128];
} fault;

static void forked_child(void) {
    forked = true;
    emu_link_forked();
}

static int inject(const char *routine) {
    int status = 0;
    pthread_mutex_lock(&fault_lock);
    if (fault.left > 0 && (fault.name[0] == 0 || strcmp(fault.name, routine) == 0) && --fault.left == 0) {
        status = fault.status;
        snprintf(fault.failed, sizeof fault.failed, "%s", routine);
        armed = false;
    }
    pthread_mutex_unlock(&fault_lock);
    if (status != 0) emu_fail(status, "EMULATOR_INJECTED", "made to fail with %d by aclemuFailAt", status);
    return status;
}

int emu_enter(const char *routine) {
    self()->routine = routine;
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (__builtin_expect(forked, 0)) {
        emu_config();
        return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_FORKED",
                        "this process was forked after the libraries were in use; start it with spawn instead");
    }
    if (__builtin_expect(armed, 0)) return inject(routine);
    return 0;
}

int emu_leave(int entered, int status) {
    if (entered == 0) return status;
    if (status == 0 && self()->message == NULL)
        emu_fail(entered, "EMULATOR_INJECTED", "made to fail with %d by aclemuFailAt", entered);
    return entered;
}

API uint64_t aclemuCallCount(void) { return calls; }

API void aclemuFailAt(const char *name, uint64_t nth, int32_t status) {
    pthread_mutex_lock(&fault_lock);
    memset(&fault, 0, sizeof fault);
    if (name != NULL) snprintf(fault.name, sizeof fault.name, "%s", name);
    fault.left = nth;
    fault.status = status;
    armed = nth > 0;
    pthread_mutex_unlock(&fault_lock);
}

API const char *aclemuFailedCall(void) { return fault.failed[0] != 0 ? fault.failed : NULL; }

API void aclemuReset(void) {
    aclemuFailAt(NULL, 0, 0);
    calls = 0;
}

/* --------------------------------------------------------------------------------------------------- the handle table */

/* Slots are taken round robin, so a destroyed handle is recognised as such for a long time before its slot is used
 * again. The region of handle values is reserved without access: reading through a handle faults. */

#define HANDLE_STEP 16
#define TABLE_SLOTS (1u << 20)
#define TABLE_FIRST (1u << 14)

typedef struct {
    void *object;
    const void *owner;  /* the list that owns it */
    uint64_t serial;
    uint8_t kind;
    bool live, hidden;
} slot;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool table_mine;  /* this thread holds the lock */
static slot *slots;
static uintptr_t handle_base;
static uint32_t table_size, table_cursor, table_live;
static uint64_t serials, live_by_kind[KIND_COUNT];

/* Kinds as aclemuLiveCount names them. */
static const char *const kind_keys[KIND_COUNT] = {
    "", "tensor", "scalar", "int_array", "float_array", "bool_array", "tensor_list", "scalar_list", "executor", "context",
    "stream", "event", "data_buffer", "tensor_desc", "stream_config",
};

static const char *const kind_names[KIND_COUNT] = {
    "handle", "aclTensor", "aclScalar", "aclIntArray", "aclFloatArray", "aclBoolArray", "aclTensorList", "aclScalarList",
    "aclOpExecutor", "aclrtContext", "aclrtStream", "aclrtEvent", "aclDataBuffer", "aclTensorDesc",
    "aclrtStreamConfigHandle",
};

void emu_table_lock(void) {
    pthread_mutex_lock(&table_lock);
    table_mine = true;
}

void emu_table_unlock(void) {
    table_mine = false;
    pthread_mutex_unlock(&table_lock);
}

static bool lock_unless_mine(void) {
    if (table_mine) return false;
    pthread_mutex_lock(&table_lock);
    return true;
}

static void unlock_if(bool locked) {
    if (locked) pthread_mutex_unlock(&table_lock);
}

static bool open_table(void) {
    if (slots != NULL) return true;
    void *values = mmap(NULL, (size_t)TABLE_SLOTS * HANDLE_STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *table = mmap(NULL, (size_t)TABLE_SLOTS * sizeof(slot), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (values == MAP_FAILED || table == MAP_FAILED) return false;
    handle_base = (uintptr_t)values;
    slots = table;
    table_size = TABLE_FIRST;
    return true;
}

void *emu_handle_new(emu_kind kind, void *object) {
    void *handle = NULL;
    bool locked = lock_unless_mine();
    if (open_table()) {
        if (table_live > table_size / 2 && table_size < TABLE_SLOTS) {
            table_cursor = table_size;
            table_size *= 2;
        }
        for (uint32_t tried = 0; tried < table_size; tried++) {
            uint32_t at = table_cursor++ % table_size;
            if (slots[at].live) continue;
            slots[at] = (slot){object, NULL, ++serials, (uint8_t)kind, true, false};
            table_live++;
            live_by_kind[kind]++;
            handle = (void *)(handle_base + (uintptr_t)at * HANDLE_STEP);
            break;
        }
    }
    unlock_if(locked);
    if (handle == NULL)
        emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "EMULATOR_OUT_OF_MEMORY", "%u handles are alive", table_live);
    return handle;
}

static slot *slot_of(const void *handle) {
    uintptr_t value = (uintptr_t)handle;
    if (slots == NULL || value < handle_base) return NULL;
    uintptr_t at = (value - handle_base) / HANDLE_STEP;
    if (at >= table_size || (value - handle_base) % HANDLE_STEP != 0 || slots[at].kind == KIND_NONE) return NULL;
    return &slots[at];
}

/* The status and message for a handle that is not a live one of this kind. */
static int misuse(const void *handle, emu_kind kind, const slot *found, bool destroying) {
    bool runtime = kind > KIND_EXECUTOR;
    const char *name = kind_names[kind];
    if (handle == NULL)
        return emu_fail(runtime ? ACL_ERROR_RT_PARAM_INVALID : ACLNN_ERR_PARAM_NULLPTR, "EMULATOR_NULL_HANDLE",
                        "the %s is a null pointer", name);
    int status = runtime ? ACL_ERROR_RT_INVALID_HANDLE : ACLNN_ERR_PARAM_INVALID;
    if (found == NULL)
        return emu_fail(status, "EMULATOR_NOT_A_HANDLE", "%p was never a %s", handle, name);
    if (found->kind != kind)
        return emu_fail(status, "EMULATOR_WRONG_KIND", "%p is %s %s where a %s is asked for", handle,
                        found->live ? "a live" : "a destroyed", kind_names[found->kind], name);
    if (found->live && found->owner != NULL)
        return emu_fail(status, "EMULATOR_LIST_MEMBER", "the %s %p belongs to the list %p, which destroys it", name, handle,
                        found->owner);
    return emu_fail(status, destroying ? "EMULATOR_DOUBLE_DESTROY" : "EMULATOR_USE_AFTER_DESTROY",
                    "the %s %p (number %llu) has been destroyed", name, handle, (unsigned long long)found->serial);
}

int emu_handle_find(const void *handle, emu_kind kind, void **object) {
    bool locked = lock_unless_mine();
    slot *found = slot_of(handle);
    bool good = found != NULL && found->live && found->kind == kind;
    if (good) *object = found->object;
    slot copy = found != NULL ? *found : (slot){0};
    unlock_if(locked);
    return good ? 0 : misuse(handle, kind, found != NULL ? &copy : NULL, false);
}

static void drop_slot(slot *found) {
    found->live = false;
    found->object = NULL;
    table_live--;
    if (!found->hidden) live_by_kind[found->kind]--;
}

int emu_handle_drop(const void *handle, emu_kind kind, void **object) {
    bool locked = lock_unless_mine();
    slot *found = slot_of(handle);
    bool good = found != NULL && found->live && found->kind == kind && found->owner == NULL;
    slot copy = found != NULL ? *found : (slot){0};
    if (good) {
        *object = found->object;
        drop_slot(found);
    }
    unlock_if(locked);
    return good ? 0 : misuse(handle, kind, found != NULL ? &copy : NULL, true);
}

void emu_handle_reclaim(const void *handle) {
    bool locked = lock_unless_mine();
    slot *found = slot_of(handle);
    if (found != NULL && found->live) drop_slot(found);
    unlock_if(locked);
}

int emu_handle_own(const void *handle, emu_kind kind, const void *owner) {
    bool locked = lock_unless_mine();
    slot *found = slot_of(handle);
    bool good = found != NULL && found->live && found->kind == kind && found->owner == NULL;
    slot copy = found != NULL ? *found : (slot){0};
    if (good) found->owner = owner;
    unlock_if(locked);
    return good ? 0 : misuse(handle, kind, found != NULL ? &copy : NULL, false);
}

void emu_handle_disown(const void *handle) {
    bool locked = lock_unless_mine();
    slot *found = slot_of(handle);
    if (found != NULL) found->owner = NULL;
    unlock_if(locked);
}

uint64_t emu_handle_serial(const void *handle) {
    bool locked = lock_unless_mine();
    slot *found = slot_of(handle);
    uint64_t serial = found != NULL && found->live ? found->serial : 0;
    unlock_if(locked);
    return serial;
}

void emu_handle_hide(const void *handle) {
    bool locked = lock_unless_mine();
    slot *found = slot_of(handle);
    if (found != NULL && found->live && !found->hidden) {
        found->hidden = true;
        live_by_kind[found->kind]--;
    }
    unlock_if(locked);
}

/* ------------------------------------------------------------------------------------------------------------- leaks */

static uint64_t live_device_memory(void) {
    uint64_t total = 0;
    for (int i = 0; i < emu_config()->devices; i++) total += emu_memory_live(&emu_devices[i]);
    return total;
}

API int64_t aclemuLiveCount(const char *kind) {
    emu_config();
    int64_t total = 0;
    bool known = kind == NULL;
    bool locked = lock_unless_mine();
    for (int i = 1; i < KIND_COUNT; i++) {
        if (kind != NULL && strcmp(kind, kind_keys[i]) != 0) continue;
        known = true;
        total += (int64_t)live_by_kind[i];
    }
    unlock_if(locked);
    if (kind == NULL || strcmp(kind, "allocation") == 0) known = true, total += (int64_t)live_device_memory();
    if (kind == NULL || strcmp(kind, "host_allocation") == 0) known = true, total += (int64_t)emu_host_live();
    return known ? total : -1;
}

API size_t aclemuDump(char *buffer, size_t size) {
    emu_config();
    size_t at = 0;
#define PUT(...) at += (size_t)snprintf(at < size ? buffer + at : NULL, at < size ? size - at : 0, __VA_ARGS__)
    PUT("{\"handles\": [");
    bool locked = lock_unless_mine();
    const char *comma = "";
    for (uint32_t i = 0; slots != NULL && i < table_size; i++) {
        if (!slots[i].live || slots[i].hidden) continue;
        PUT("%s{\"kind\": \"%s\", \"handle\": %llu, \"number\": %llu, \"in_list\": %s}", comma, kind_keys[slots[i].kind],
            (unsigned long long)(handle_base + (uintptr_t)i * HANDLE_STEP), (unsigned long long)slots[i].serial,
            slots[i].owner != NULL ? "true" : "false");
        comma = ", ";
    }
    unlock_if(locked);
    PUT("], ");
    at += emu_memory_describe(at < size ? buffer + at : NULL, at < size ? size - at : 0);
    PUT("}");
#undef PUT
    return at;
}

static bool reported;
static _Atomic bool leaked;

void emu_report_again(void) { reported = false; }

void emu_report_leaks(void) {
    if (reported || forked) return;
    reported = true;
    char text[1024];
    size_t at = 0;
    for (int i = 1; i < KIND_COUNT; i++) {
        if (live_by_kind[i] > 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu %s", at > 0 ? ", " : "",
                                   (unsigned long long)live_by_kind[i], kind_names[i]);
    }
    uint64_t device = live_device_memory(), host = emu_host_live();
    if (device > 0)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu blocks of device memory", at > 0 ? ", " : "",
                               (unsigned long long)device);
    if (host > 0)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu blocks of host memory", at > 0 ? ", " : "",
                               (unsigned long long)host);
    if (at == 0) return;
    leaked = true;
    if (emu_config()->tell_leaks || emu_config()->strict) fprintf(stderr, "EMULATOR_LEAK: never released: %s\n", text);
}

__attribute__((destructor)) static void at_exit(void) {
    if (forked) return;
    emu_report_leaks();
    for (int i = 0; i < EMU_MAX_DEVICES; i++) emu_link_stop(&emu_devices[i]);
    if (leaked && emu_config()->strict) {
        fflush(NULL);
        _exit(86);
    }
}
