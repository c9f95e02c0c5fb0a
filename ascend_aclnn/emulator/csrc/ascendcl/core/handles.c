/* The table of handles. */
#include "ascendcl/core/handles.h"

#include "ascendcl/core/api_entry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Slots are reused round robin, so that a destroyed handle is recognised for a long time before its slot is used again. The
 * region of handle values is reserved without access: reading through a handle faults. */

#define HANDLE_STEP 16
#define TABLE_SLOTS (1u << 20)
#define TABLE_FIRST (1u << 14)

typedef struct {
    void *object;
    const void *owner;  /* the list that owns it */
    uint64_t serial;
    const char *routine; /* of --validate: the function that made it, later the one that destroyed it, */
    uint32_t site;       /* and the call site */
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
    "physical_memory", "profile_config", "profile_step", "communicator", "allocator",
    "model", "task_group", "model_task", "condition", "notify",
};

static const char *const kind_names[KIND_COUNT] = {
    "handle", "aclTensor", "aclScalar", "aclIntArray", "aclFloatArray", "aclBoolArray", "aclTensorList", "aclScalarList",
    "aclOpExecutor", "aclrtContext", "aclrtStream", "aclrtEvent", "aclDataBuffer", "aclTensorDesc",
    "aclrtStreamConfigHandle", "aclrtDrvMemHandle", "aclprofConfig", "aclprofStepInfo", "HcclComm", "aclrtAllocatorDesc",
    "aclmdlRI", "aclrtTaskGrp", "aclmdlRITask", "aclmdlRICondHandle", "aclrtNotify",
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

void emu_object_hold(void *object) { atomic_fetch_add_explicit(&((emu_object *)object)->references, 1, memory_order_relaxed); }

void emu_object_release(void *object) {
    emu_object *base = object;
    if (base != NULL && atomic_fetch_sub(&base->references, 1) == 1) base->end(object);
}

uint32_t (*emu_call_site_hook)(void);
void (*emu_blame_hook)(const char *what, const char *routine, uint32_t site);

static void note_call(slot *entry) {
    if (emu_call_site_hook == NULL) return;
    entry->routine = emu_routine();
    entry->site = emu_call_site_hook();
}

void *emu_object_new(emu_kind kind, void *object, void (*end)(void *object)) {
    void *handle = NULL;
    if (object == NULL) {
        emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
        return NULL;
    }
    emu_object *base = object;
    base->end = end;
    emu_object_hold(object);
    bool locked = lock_unless_mine();
    if (open_table()) {
        if (table_live > table_size / 2 && table_size < TABLE_SLOTS) {
            table_cursor = table_size;
            table_size *= 2;
        }
        for (uint32_t tried = 0; tried < table_size; tried++) {
            uint32_t at = table_cursor++ % table_size;
            if (slots[at].live) continue;
            slots[at] = (slot){object, NULL, ++serials, NULL, 0, (uint8_t)kind, true, false};
            note_call(&slots[at]);
            table_live++;
            live_by_kind[kind]++;
            base->handle = handle = (void *)(handle_base + (uintptr_t)at * HANDLE_STEP);
            break;
        }
    }
    uint32_t live = table_live;
    unlock_if(locked);
    if (handle == NULL) {
        emu_object_release(object);
        emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "EMULATOR_OUT_OF_MEMORY", "%u handles are alive", live);
    }
    return handle;
}

static slot *slot_of(const void *handle) {
    uintptr_t value = (uintptr_t)handle;
    if (slots == NULL || value < handle_base) return NULL;
    uintptr_t at = (value - handle_base) / HANDLE_STEP;
    if (at >= table_size || (value - handle_base) % HANDLE_STEP != 0 || slots[at].kind == KIND_NONE) return NULL;
    return &slots[at];
}

/* Sets the status and message for a value that is not a live handle of this kind. */
static int misuse(const void *handle, emu_kind kind, const slot *entry, bool destroying) {
    bool runtime = kind > KIND_EXECUTOR;
    const char *name = kind_names[kind];
    if (handle == NULL)
        return emu_fail(runtime ? ACL_ERROR_RT_PARAM_INVALID : ACLNN_ERR_PARAM_NULLPTR, "EMULATOR_NULL_HANDLE",
                        "the %s is a null pointer", name);
    int status = runtime ? ACL_ERROR_RT_INVALID_HANDLE : ACLNN_ERR_PARAM_INVALID;
    if (emu_blame_hook != NULL && entry->routine != NULL) emu_blame_hook(entry->live ? "it was made" : "it was destroyed", entry->routine, entry->site);
    if (entry->kind == KIND_NONE)
        return emu_fail(status, "EMULATOR_NOT_A_HANDLE", "%p was never a %s", handle, name);
    if (entry->kind != kind)
        return emu_fail(status, "EMULATOR_WRONG_KIND", "%p is %s %s where a %s is asked for", handle,
                        entry->live ? "a live" : "a destroyed", kind_names[entry->kind], name);
    if (entry->live && entry->owner != NULL)
        return emu_fail(status, "EMULATOR_LIST_MEMBER", "the %s %p belongs to the list %p, which destroys it", name, handle,
                        entry->owner);
    return emu_fail(status, destroying ? "EMULATOR_DOUBLE_DESTROY" : "EMULATOR_USE_AFTER_DESTROY",
                    "the %s %p (number %llu) has been destroyed", name, handle, (unsigned long long)entry->serial);
}

/* The live entry of a handle of this kind (`free`: that belongs to no list); otherwise NULL, and *refused is a copy for the
 * message. The lock is held. */
static slot *live_slot(const void *handle, emu_kind kind, bool free, slot *refused) {
    slot *entry = slot_of(handle);
    if (entry != NULL && entry->live && entry->kind == kind && (!free || entry->owner == NULL)) return entry;
    *refused = entry != NULL ? *entry : (slot){0};
    return NULL;
}

static void *look_up(const void *handle, emu_kind kind, bool hold, int *status) {
    slot refused;
    bool locked = lock_unless_mine();
    const slot *entry = live_slot(handle, kind, false, &refused);
    void *object = entry != NULL ? entry->object : NULL;
    if (object != NULL && hold) emu_object_hold(object);
    unlock_if(locked);
    *status = object != NULL ? 0 : misuse(handle, kind, &refused, false);
    return object;
}

void *emu_object_acquire(const void *handle, emu_kind kind, int *status) { return look_up(handle, kind, true, status); }

void *emu_object_borrow(const void *handle, emu_kind kind, int *status) {
    if (!table_mine) abort();
    return look_up(handle, kind, false, status);
}

static void drop_slot(slot *entry) {
    note_call(entry);
    entry->live = false;
    entry->object = NULL;
    table_live--;
    if (!entry->hidden) live_by_kind[entry->kind]--;
}

void *emu_object_destroy(const void *handle, emu_kind kind, int *status) {
    slot refused;
    void *object = NULL;
    bool locked = lock_unless_mine();
    slot *entry = live_slot(handle, kind, true, &refused);
    if (entry != NULL) {
        object = entry->object;
        drop_slot(entry);
    }
    unlock_if(locked);
    *status = object != NULL ? 0 : misuse(handle, kind, &refused, true);
    return object;
}

void emu_object_reclaim(void *object) {
    bool locked = lock_unless_mine();
    slot *entry = slot_of(((emu_object *)object)->handle);
    bool live = entry != NULL && entry->object == object;
    if (live) drop_slot(entry);
    unlock_if(locked);
    if (live) emu_object_release(object);
}

int emu_handle_own(const void *handle, emu_kind kind, const void *owner) {
    slot refused;
    bool locked = lock_unless_mine();
    slot *entry = live_slot(handle, kind, true, &refused);
    if (entry != NULL) entry->owner = owner;
    unlock_if(locked);
    return entry != NULL ? 0 : misuse(handle, kind, &refused, false);
}

void emu_handle_disown(const void *handle) {
    bool locked = lock_unless_mine();
    slot *entry = slot_of(handle);
    if (entry != NULL) entry->owner = NULL;
    unlock_if(locked);
}

uint64_t emu_handle_serial(const void *handle) {
    bool locked = lock_unless_mine();
    const slot *entry = slot_of(handle);
    uint64_t serial = entry != NULL && entry->live ? entry->serial : 0;
    unlock_if(locked);
    return serial;
}

void emu_handle_hide(const void *handle) {
    bool locked = lock_unless_mine();
    slot *entry = slot_of(handle);
    if (entry != NULL && entry->live && !entry->hidden) {
        entry->hidden = true;
        live_by_kind[entry->kind]--;
    }
    unlock_if(locked);
}

uint64_t emu_handles_live(emu_kind kind) {
    bool locked = lock_unless_mine();
    uint64_t live = live_by_kind[kind];
    unlock_if(locked);
    return live;
}

void emu_handles_leaked(void (*found)(const char *kind, const char *routine, uint32_t site)) {
    bool locked = lock_unless_mine();
    for (uint32_t i = 0; slots != NULL && i < table_size; i++) {
        const slot *entry = &slots[i];
        if (entry->live && !entry->hidden && entry->owner == NULL) found(kind_names[entry->kind], entry->routine, entry->site);
    }
    unlock_if(locked);
}

const char *emu_kind_name(emu_kind kind) { return kind_names[kind]; }

emu_kind emu_kind_of(const char *key) {
    for (int kind = 1; kind < KIND_COUNT; kind++) {
        if (strcmp(key, kind_keys[kind]) == 0) return kind;
    }
    return KIND_NONE;
}

size_t emu_handles_describe(char *buffer, size_t size) {
    size_t at = 0;
    const char *comma = "";
    bool locked = lock_unless_mine();
    for (uint32_t i = 0; slots != NULL && i < table_size; i++) {
        if (!slots[i].live || slots[i].hidden) continue;
        at += (size_t)snprintf(at < size ? buffer + at : NULL, at < size ? size - at : 0,
                               "%s{\"kind\": \"%s\", \"handle\": %llu, \"number\": %llu, \"in_list\": %s}", comma,
                               kind_keys[slots[i].kind], (unsigned long long)(handle_base + (uintptr_t)i * HANDLE_STEP),
                               (unsigned long long)slots[i].serial, slots[i].owner != NULL ? "true" : "false");
        comma = ", ";
    }
    unlock_if(locked);
    return at;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_HANDLES, &table_lock, NULL); }
