/*
 * Virtual memory: addresses are reserved, physical memory is allocated, and one is mapped to the other.
 *
 * Physical memory has its bytes in a block of the device's file, its home, whose addresses are not used otherwise. Mapping it maps
 * that part of the file a second time. A process that imports it maps the same part of the same file.
 */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/core/sharing.h"
#include "ascendcl/memory/aliases.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/validate.h"

#include <stdlib.h>
#include <unistd.h>

#define PAGE_2M (2u << 20)
#define PAGE_1G (1u << 30)

typedef struct physical physical;
typedef struct mapping mapping;

struct physical {
    emu_object base;
    physical *next;      /* in the list, which has a reference */
    emu_device *device;
    uint64_t size;
    uint64_t cleared;    /* the device's count when it was allocated: a reset may have reclaimed it since */
    void *home;          /* NULL when it belongs to another process */
    int file;            /* the other process's file, otherwise -1, */
    uint64_t offset;     /* and the offset in it */
    emu_shared *shared;  /* when it has been exported or imported */
    uint32_t maps;
    bool freed;
};

struct mapping {
    mapping *next;
    physical *physical;
    emu_device *device;  /* the device of the addresses */
    void *address;
    uint64_t cleared;    /* of that device */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static physical *physicals;
static mapping *mappings;

static uint64_t granule(const aclrtPhysicalMemProp *prop) {
    switch ((int)prop->memAttr) {
        case ACL_HBM_MEM_HUGE1G: case ACL_HBM_MEM_P2P_HUGE1G: case ACL_MEM_HUGE1G: case ACL_MEM_P2P_HUGE1G: return PAGE_1G;
        default: return PAGE_2M;
    }
}

API aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option, size_t *granularity) {
    ENTER("aclrtMemGetAllocationGranularity");
    if (prop == NULL || granularity == NULL) return emu_null_argument(prop == NULL ? "prop" : "granularity");
    if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "option is %d; allowed: 0, 1", (int)option);
    *granularity = granule(prop);
    return 0;
}

API aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags) {
    ENTER("aclrtReserveMemAddress");
    emu_context *context;
    if (virPtr == NULL) return emu_null_argument("virPtr");
    if (size == 0 || alignment != 0 || flags > 1)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %zu, alignment %zu, flags %llu; size must be greater than 0, alignment 0 and flags 0 or 1",
                        size, alignment, (unsigned long long)flags);
    (void)expectPtr; /* a wish */
    /* CANN asks for no device here, and torch_npu reserves addresses before it sets one. */
    emu_device *device = &emu_devices[0];
    if (emu_current_context(&context) == 0) device = emu_context_device(context);
    else free(emu_take_message());
    int status = emu_check_device(device->id);
    if (status == 0) status = emu_memory_prepare(device);
    return status != 0 ? status : emu_memory_reserve_addresses(device, size, virPtr);
}

API aclError aclrtReleaseMemAddress(void *virPtr) {
    ENTER_RELEASE("aclrtReleaseMemAddress");
    emu_device *device = emu_memory_device(virPtr);
    LEAVE(device != NULL ? emu_memory_release_addresses(device, virPtr)
                         : emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p has not been reserved", virPtr));
}

static bool gone(const physical *p) { return p->home != NULL && p->cleared != p->device->cleared; }

/* Another thread may have freed the memory, or reset its device, since the look-up. The lock is held. */
static int check_physical(const physical *p) {
    if (!p->freed && !gone(p)) return 0;
    return emu_fail(ACL_ERROR_RT_INVALID_HANDLE, "EMULATOR_USE_AFTER_DESTROY",
                    p->freed ? "the memory has been freed" : "the device has been reset since the memory was allocated");
}

/* Other processes may use what is mapped. */
static void validate_mapping(const physical *p, const void *address) {
    if (!emu_validates() || p->shared == NULL) return;
    if (p->home != NULL) emu_validate_shared(address, p->size, p->device->memory_fd, emu_memory_offset(p->device, p->home), false);
    else emu_validate_shared(address, p->size, p->file, p->offset, false);
}

/* What is mapped more than once has one home, where what is known of it is kept. */
static void validate_aliases(const physical *p) {
    for (const mapping *m = mappings; m != NULL && p->home != NULL; m = m->next) {
        if (m->physical == p) emu_validate_alias(m->address, p->size, p->home);
    }
}

/* Makes a handle for physical memory, which goes into the list. */
static int add_physical(physical description, aclrtDrvMemHandle *handle) {
    physical *p = malloc(sizeof *p);
    if (p == NULL) abort();
    *p = description;
    p->base.references = 1; /* the list's */
    pthread_mutex_lock(&lock);
    *handle = emu_object_new(KIND_PHYSICAL, p, free);
    if (*handle != NULL) {
        p->next = physicals;
        physicals = p;
    }
    pthread_mutex_unlock(&lock);
    if (*handle != NULL) return 0;
    emu_object_release(p);
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
}

/* Frees physical memory that has no handle, is not mapped, and is not used by another process. The lock is held. */
static void sweep(void) {
    for (mapping **link = &mappings, *m; (m = *link) != NULL;) { /* a reset has reclaimed these */
        if (m->cleared == m->device->cleared) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        m->physical->maps--;
        free(m);
    }
    for (physical **link = &physicals, *p; (p = *link) != NULL;) {
        bool used = p->maps > 0 || (p->home != NULL && !gone(p) && p->shared != NULL && emu_shared_used(p->shared));
        if (!p->freed || used) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        if (p->home != NULL && !gone(p)) emu_memory_release_home(p->device, p->home);
        if (p->file >= 0) close(p->file);
        emu_shared_release(p->shared);
        emu_object_release(p);
    }
}

API aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags) {
    ENTER("aclrtMallocPhysical");
    if (handle == NULL || prop == NULL) return emu_null_argument(handle == NULL ? "handle" : "prop");
    if (flags != 0 || size == 0 || size % granule(prop) != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %zu and flags %llu; size must be a multiple of %llu and flags 0", size,
                        (unsigned long long)flags, (unsigned long long)granule(prop));
    if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE || prop->location.id >= (uint32_t)emu_device_count())
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "location is %u of type %d; only devices have such memory here", prop->location.id,
                        (int)prop->location.type);
    emu_device *device = &emu_devices[prop->location.id];
    pthread_mutex_lock(&lock);
    sweep();
    pthread_mutex_unlock(&lock);
    void *home = NULL;
    int status = emu_link_check(device);
    if (status == 0) status = emu_memory_prepare(device);
    if (status == 0) status = emu_memory_find_home(device, size, &home);
    if (status != 0) return status;
    status = add_physical((physical){.device = device, .size = size, .cleared = device->cleared, .home = home, .file = -1}, handle);
    if (status != 0) emu_memory_release_home(device, home);
    return status;
}

API aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    ENTER_RELEASE("aclrtFreePhysical");
    int status;
    EMU_HELD physical *p = emu_object_destroy(handle, KIND_PHYSICAL, &status);
    if (p != NULL) {
        pthread_mutex_lock(&lock);
        p->freed = true; /* mapped memory lives until it is unmapped */
        sweep();
        pthread_mutex_unlock(&lock);
    }
    LEAVE(status);
}

API aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
    ENTER("aclrtMapMem");
    int status;
    emu_device *device = emu_memory_device(virPtr);
    mapping *added = malloc(sizeof *added);
    if (added == NULL) abort();
    EMU_HELD physical *p = emu_object_acquire(handle, KIND_PHYSICAL, &status);
    pthread_mutex_lock(&lock);
    if (status == 0) status = check_physical(p);
    if (status == 0 && device == NULL)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p has not been reserved", virPtr);
    if (status == 0 && (flags != 0 || offset != 0 || size != p->size))
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %zu, offset %zu, flags %llu; size must be the memory's, %llu, offset and flags 0",
                          size, offset, (unsigned long long)flags, (unsigned long long)p->size);
    if (status == 0) {
        sweep();
        status = emu_memory_map(device, virPtr, size, true);
    }
    if (status == 0) {
        status = p->home != NULL ? emu_alias_map(device, virPtr, size, p->device->memory_fd, emu_memory_offset(p->device, p->home))
                                 : emu_alias_map(device, virPtr, size, p->file, p->offset);
        if (status != 0) (void)emu_memory_map(device, virPtr, size, false);
    }
    if (status == 0) {
        *added = (mapping){mappings, p, device, virPtr, device->cleared};
        mappings = added;
        p->maps++;
        validate_mapping(p, virPtr);
        if (emu_validates() && p->maps > 1) validate_aliases(p);
    }
    pthread_mutex_unlock(&lock);
    if (status != 0) free(added);
    return status;
}

API aclError aclrtUnmapMem(void *virPtr) {
    ENTER_RELEASE("aclrtUnmapMem");
    emu_device *device = emu_memory_device(virPtr);
    if (device != NULL && emu_memory_pinned(device, virPtr)) emu_streams_drain(device); /* queued work uses it */
    int status = 0;
    pthread_mutex_lock(&lock);
    sweep();
    mapping **link = &mappings;
    while (*link != NULL && (*link)->address != virPtr) link = &(*link)->next;
    mapping *unmapped = *link;
    if (unmapped == NULL) {
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "nothing is mapped at %p", virPtr);
    } else {
        *link = unmapped->next;
        emu_alias_unmap(device, virPtr, unmapped->physical->size);
        status = emu_memory_map(device, virPtr, unmapped->physical->size, false);
        unmapped->physical->maps--;
        sweep();
    }
    pthread_mutex_unlock(&lock);
    free(unmapped);
    LEAVE(status);
}

/* ------------------------------------------------------------------------------------------------------ other processes */

static int export(aclrtDrvMemHandle handle, uint64_t flags, uint64_t *name) {
    int status;
    if (name == NULL) return emu_null_argument("shareableHandle");
    if (flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flags is %llu; allowed: 0, 1", (unsigned long long)flags);
    EMU_HELD physical *p = emu_object_acquire(handle, KIND_PHYSICAL, &status);
    if (p == NULL) return status;
    pthread_mutex_lock(&lock);
    status = check_physical(p);
    if (status == 0 && p->shared != NULL)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, p->home != NULL ? "the memory has been exported already" : "the memory has been imported");
    if (status == 0) status = emu_link_check(p->device);
    if (status == 0)
        status = emu_shared_new(SHARED_PHYSICAL, flags == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, p->device->memory_fd,
                                emu_memory_offset(p->device, p->home), p->size, &p->shared);
    if (status == 0) {
        *name = emu_shared_name(p->shared);
        if (emu_validates()) emu_validate_shared(p->home, p->size, p->device->memory_fd, emu_memory_offset(p->device, p->home), true);
        for (const mapping *m = mappings; m != NULL; m = m->next) {
            if (m->physical == p) validate_mapping(p, m->address);
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static int allow(uint64_t name, const int32_t *pid, size_t count) {
    if (pid == NULL || count == 0) return emu_null_argument("pid");
    pthread_mutex_lock(&lock);
    const physical *p = physicals;
    while (p != NULL && (p->shared == NULL || p->home == NULL || emu_shared_name(p->shared) != name)) p = p->next;
    int status = p != NULL ? emu_shared_allow(p->shared, pid, count)
                           : emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NOT_SHARED", "this process has not exported shareableHandle");
    pthread_mutex_unlock(&lock);
    return status;
}

static int import(uint64_t name, int32_t id, aclrtDrvMemHandle *handle) {
    if (handle == NULL) return emu_null_argument("handle");
    int status = emu_check_device(id);
    if (status != 0) return status;
    physical imported = {.device = &emu_devices[id], .file = -1};
    status = emu_shared_open(name, SHARED_PHYSICAL, &imported.shared);
    if (status != 0) return status;
    if (emu_shared_mine(imported.shared))
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "this process has exported shareableHandle; another one can import it");
    if (status == 0) {
        int file = emu_shared_file(imported.shared, &imported.offset);
        imported.file = file >= 0 ? emu_move_up(file) : -1;
        imported.size = emu_shared_size(imported.shared);
        status = imported.file < 0 ? ACL_ERROR_RT_PARAM_INVALID : emu_memory_prepare(imported.device);
    }
    if (status == 0) status = add_physical(imported, handle);
    if (status != 0) {
        if (imported.file >= 0) close(imported.file);
        emu_shared_release(imported.shared);
    }
    return status;
}

API aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags, uint64_t *shareableHandle) {
    ENTER("aclrtMemExportToShareableHandle");
    if (handleType != ACL_MEM_HANDLE_TYPE_NONE)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "handleType is %d; allowed: 0", (int)handleType);
    return export(handle, flags, shareableHandle);
}

API aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum) {
    ENTER("aclrtMemSetPidToShareableHandle");
    return allow(shareableHandle, pid, pidNum);
}

API aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle *handle) {
    ENTER("aclrtMemImportFromShareableHandle");
    return import(shareableHandle, deviceId, handle);
}

static int check_share_type(aclrtMemSharedHandleType type) {
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT) return 0;
    return emu_fail(ACL_ERROR_FEATURE_UNSUPPORTED, "EMULATOR_NOT_SUPPORTED", "shareType is %d; handles between servers are not emulated", (int)type);
}

API aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType, void *shareableHandle) {
    ENTER("aclrtMemExportToShareableHandleV2");
    int status = check_share_type(shareType);
    return status != 0 ? status : export(handle, flags, shareableHandle);
}

API aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid, size_t pidNum) {
    ENTER("aclrtMemSetPidToShareableHandleV2");
    if (shareableHandle == NULL) return emu_null_argument("shareableHandle");
    int status = check_share_type(shareType);
    return status != 0 ? status : allow(*(const uint64_t *)shareableHandle, pid, pidNum);
}

API aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags, aclrtDrvMemHandle *handle) {
    ENTER("aclrtMemImportFromShareableHandleV2");
    emu_context *context;
    if (shareableHandle == NULL) return emu_null_argument("shareableHandle");
    int status = check_share_type(shareType);
    if (status == 0 && flags != 0) status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flags is %llu; allowed: 0", (unsigned long long)flags);
    if (status == 0) status = emu_current_context(&context);
    return status != 0 ? status : import(*(const uint64_t *)shareableHandle, context->device->id, handle);
}

/* ------------------------------------------------------------------------------------------------------------- access */

/* Every device may access what is mapped; access is never revoked here. */
API aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count) {
    ENTER("aclrtMemSetAccess");
    emu_device *device = emu_memory_device(virPtr);
    if (desc == NULL || count == 0) return emu_null_argument("desc");
    if (device == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p has not been reserved", virPtr);
    return emu_memory_check(device, virPtr, size, "virPtr", 0);
}

API aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag) {
    ENTER("aclrtMemGetAccess");
    emu_device *device = emu_memory_device(virPtr);
    if (location == NULL || flag == NULL) return emu_null_argument(location == NULL ? "location" : "flag");
    if (device == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p has not been reserved", virPtr);
    int status = emu_memory_check(device, virPtr, 1, "virPtr", 0);
    if (status == 0) *flag = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    return status;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_VIRTUAL_MEMORY, &lock, NULL); }
