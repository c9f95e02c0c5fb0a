/* Device memory that processes share by a key. */
#include "ascendcl/memory/ipc.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/sharing.h"
#include "ascendcl/memory/aliases.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/validate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY_BYTES 65
#define KEY "ascend-emulator-%016" PRIx64

typedef struct entry entry;

/* A key that this process has exported or imported. */
struct entry {
    entry *next;
    emu_device *device;
    emu_shared *shared;
    uint8_t *address;    /* what was exported; where it is mapped */
    uint64_t size;       /* of an import: as mapped, from the page's start */
    bool imported;
    uint32_t count;      /* how often it has been imported */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;
static _Atomic uint32_t exported;

static int name_of(const char *key, uint64_t *name) {
    if (key == NULL) return emu_null_argument("key");
    char written[KEY_BYTES];
    if (strnlen(key, KEY_BYTES) < KEY_BYTES && sscanf(key, KEY, name) == 1) {
        snprintf(written, sizeof written, KEY, *name);  /* sscanf takes "0x", signs, spaces, and what follows the number */
        if (strcmp(key, written) == 0) return 0;
    }
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NOT_SHARED", "key is not what aclrtIpcMemGetExportKey returned");
}

/* The lock is held. */
static entry *entry_of(uint64_t name, bool imported) {
    entry *found = entries;
    while (found != NULL && (emu_shared_name(found->shared) != name || found->imported != imported)) found = found->next;
    return found;
}

static void take_out(const entry *which) {
    for (entry **link = &entries; *link != NULL; link = &(*link)->next) {
        if (*link == which) {
            *link = which->next;
            break;
        }
    }
}

static void add(entry *which) {
    pthread_mutex_lock(&lock);
    which->next = entries;
    entries = which;
    pthread_mutex_unlock(&lock);
}

static entry *new_entry(emu_device *device) {
    entry *item = calloc(1, sizeof *item);
    if (item == NULL) abort();
    item->device = device;
    return item;
}

API aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags) {
    ENTER("aclrtIpcMemGetExportKey");
    if (devPtr == NULL || key == NULL) return emu_null_argument(devPtr == NULL ? "devPtr" : "key");
    if (size == 0 || len != KEY_BYTES || flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %zu, len %zu and flags %llu; size must be greater than 0, len %d and flags 0 or 1", size,
                        len, (unsigned long long)flags, KEY_BYTES);
    emu_device *device = emu_memory_device(devPtr);
    if (device == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not device memory", devPtr);
    int status = emu_memory_check(device, devPtr, size, "devPtr", 0);
    if (status == 0 && !emu_memory_own(device, devPtr))
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not memory of aclrtMalloc, which alone can be exported", devPtr);
    if (status == 0) status = emu_link_check(device);
    if (status != 0) return status;
    if (emu_validates()) emu_validate_used(devPtr, size); /* by other processes */
    entry *item = new_entry(device);
    item->address = devPtr;
    item->size = size;
    status = emu_shared_new(SHARED_MEMORY, (flags & ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION) != 0, device->memory_fd,
                            emu_memory_offset(device, devPtr), size, &item->shared);
    if (status != 0) {
        free(item);
        return status;
    }
    if (emu_validates()) emu_validate_shared(devPtr, size, device->memory_fd, emu_memory_offset(device, devPtr), true);
    snprintf(key, len, KEY, emu_shared_name(item->shared));
    add(item);
    exported++;
    return 0;
}

API aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num) {
    ENTER("aclrtIpcMemSetImportPid");
    uint64_t name;
    if (pid == NULL || num == 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "pid is %p and num %zu; pid must not be null and num not 0", (void *)pid, num);
    int status = name_of(key, &name);
    if (status != 0) return status;
    pthread_mutex_lock(&lock);
    entry *found = entry_of(name, false);
    status = found != NULL ? emu_shared_allow(found->shared, pid, num)
                           : emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NOT_SHARED", "this process has not exported the key");
    pthread_mutex_unlock(&lock);
    return status;
}

/* Maps what another process has exported. */
static int import(emu_device *device, uint64_t name, entry **result) {
    entry *item = new_entry(device);
    int status = emu_shared_open(name, SHARED_MEMORY, &item->shared);
    if (status != 0) {
        free(item);
        return status;
    }
    uint64_t offset = 0;
    int fd = emu_shared_file(item->shared, &offset);
    uint64_t lead = offset % emu_page_size(), size = emu_shared_size(item->shared);
    void *address = NULL;
    status = fd < 0 ? ACL_ERROR_RT_PARAM_INVALID : emu_memory_reserve_foreign(device, size, lead, false, &address);
    if (status == 0) {
        item->address = address;
        item->size = emu_whole_pages(lead + size);
        status = emu_alias_map(device, address, item->size, fd, offset - lead);
        if (status != 0) emu_memory_release_foreign(device, item->address + lead);
        else if (emu_validates()) emu_validate_shared(item->address + lead, size, fd, offset, false);
    }
    if (fd >= 0) close(fd);
    if (status != 0) {
        emu_shared_release(item->shared);
        free(item);
        return status;
    }
    item->address += lead;
    item->imported = true;
    item->count = 1;
    *result = item;
    return 0;
}

API aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags) {
    ENTER("aclrtIpcMemImportByKey");
    emu_context *context;
    uint64_t name;
    if (devPtr == NULL) return emu_null_argument("devPtr");
    int status = name_of(key, &name);
    if (status == 0 && flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flags is %llu; allowed: 0, 1", (unsigned long long)flags);
    if (status == 0) status = emu_current_context(&context);
    if (status != 0) return status;
    pthread_mutex_lock(&lock);
    entry *found = entry_of(name, true);
    bool again = found != NULL && found->device == context->device;
    if (again) {
        found->count++;
        *devPtr = found->address;
    }
    pthread_mutex_unlock(&lock);
    if (again) return 0;
    status = import(context->device, name, &found);
    if (status != 0) return status;
    *devPtr = found->address;
    add(found);
    return 0;
}

/* Ends a mapping that has been taken out of the list. */
static void end(entry *which) {
    if (which->imported) {
        uint64_t lead = (uintptr_t)which->address % emu_page_size();
        if (emu_memory_pinned(which->device, which->address)) emu_streams_drain(which->device); /* queued work uses it */
        emu_alias_unmap(which->device, which->address - lead, which->size);
        emu_memory_release_foreign(which->device, which->address);
    } else {
        exported--;
    }
    emu_shared_release(which->shared);
    free(which);
}

static int still_used(const entry *which) {
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_FREE_IN_USE", "another process still uses the exported memory %p, and must close its key first",
                    which->address);
}

API aclError aclrtIpcMemClose(const char *key) {
    ENTER_RELEASE("aclrtIpcMemClose");
    uint64_t name;
    int status = name_of(key, &name);
    if (status != 0) LEAVE(status);
    pthread_mutex_lock(&lock);
    entry *found = entry_of(name, true);
    if (found == NULL) found = entry_of(name, false);
    bool last = false;
    if (found == NULL)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NOT_SHARED", "this process has neither exported nor imported the key, or has closed it");
    else if (!found->imported && emu_shared_used(found->shared))
        status = still_used(found);
    else
        last = !found->imported || --found->count == 0;
    if (last) take_out(found);
    pthread_mutex_unlock(&lock);
    if (last) end(found);
    LEAVE(status);
}

int emu_ipc_freeing(emu_device *device, const void *address) {
    while (exported > 0) {
        int status = 0;
        pthread_mutex_lock(&lock);
        entry *found = entries;
        while (found != NULL && (found->imported || found->device != device || !emu_memory_same_block(device, found->address, address)))
            found = found->next;
        if (found != NULL && emu_shared_used(found->shared)) status = still_used(found);
        else if (found != NULL) take_out(found);
        pthread_mutex_unlock(&lock);
        if (found == NULL || status != 0) return status;
        end(found);
    }
    return 0;
}

bool emu_ipc_clear(emu_device *device) {
    bool used = device->memory_fd >= 0 && emu_shared_end_file(device->memory_fd);
    for (;;) {
        pthread_mutex_lock(&lock);
        entry *found = entries;
        while (found != NULL && found->device != device) found = found->next;
        if (found != NULL) take_out(found);
        pthread_mutex_unlock(&lock);
        if (found == NULL) return used;
        end(found);
    }
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_IPC, &lock, NULL); }
