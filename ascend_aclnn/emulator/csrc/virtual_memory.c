/*
 * Virtual memory: addresses are reserved, physical memory is allocated, and the one is mapped to the other.
 *
 * The device's memory is one file, and an address is a place in it. So the bytes of physical memory lie where it is mapped, or
 * was mapped last; before somebody else's take that place they are put aside.
 */
#include "calls.h"
#include "handles.h"
#include "link.h"
#include "memory.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_2M (2u << 20)
#define PAGE_1G (1u << 30)

typedef struct physical physical;

struct physical {
    emu_device *device;
    uint64_t size;
    uint64_t cleared;    /* of the device when it was allocated: a reset has taken it away since */
    void *address;       /* where its bytes lie, NULL when nowhere */
    bool mapped, freed;
    uint8_t *aside;      /* its bytes while they lie nowhere */
    physical *next;      /* of those whose bytes lie somewhere */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static physical *placed;

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
    int status = emu_current_context(&context);
    (void)expectPtr; /* a wish */
    if (status == 0) emu_link_start(emu_context_device(context));
    return status != 0 ? status : emu_memory_reserve_addresses(emu_context_device(context), size, virPtr);
}

/* Puts the bytes of those aside whose old place is needed: the lock is held. */
static void vacate(const uint8_t *start, uint64_t size) {
    for (physical **link = &placed, *p; (p = *link) != NULL;) {
        const uint8_t *at = p->address;
        if (p->cleared != p->device->cleared || p->mapped || at >= start + size || start >= at + p->size) {
            link = &p->next;
            continue;
        }
        p->aside = malloc(p->size);
        if (p->aside == NULL) abort();
        memcpy(p->aside, p->address, p->size);
        p->address = NULL;
        *link = p->next;
    }
}

API aclError aclrtReleaseMemAddress(void *virPtr) {
    ENTER_RELEASE("aclrtReleaseMemAddress");
    emu_device *device = emu_memory_device(virPtr);
    uint64_t size = 0;
    int status = device != NULL ? emu_memory_reserved(device, virPtr, &size)
                                : emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p has not been reserved", virPtr);
    if (status == 0) {
        pthread_mutex_lock(&lock);
        vacate(virPtr, size);
        status = emu_memory_release_addresses(device, virPtr);
        pthread_mutex_unlock(&lock);
    }
    LEAVE(status);
}

API aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags) {
    ENTER("aclrtMallocPhysical");
    emu_context *context;
    if (handle == NULL || prop == NULL) return emu_null_argument(handle == NULL ? "handle" : "prop");
    int status = emu_current_context(&context);
    if (status != 0) return status;
    if (flags != 0 || size == 0 || size % granule(prop) != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %zu and flags %llu; size must be a multiple of %llu and flags 0", size,
                        (unsigned long long)flags, (unsigned long long)granule(prop));
    if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE || prop->location.id >= (uint32_t)emu_device_count())
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "location is %u of type %d; only devices have such memory here", prop->location.id,
                        (int)prop->location.type);
    emu_device *device = &emu_devices[prop->location.id];
    status = emu_memory_open(device);
    if (status == 0) status = emu_memory_charge(device, size);
    if (status != 0) return status;
    physical *made = calloc(1, sizeof *made);
    if (made == NULL) abort();
    made->device = device;
    made->size = size;
    made->cleared = device->cleared;
    *handle = emu_handle_new(KIND_PHYSICAL, made);
    if (*handle != NULL) return 0;
    emu_memory_discharge(device, size);
    free(made);
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
}

/* Takes physical memory away whose handle is gone and that is not mapped: the lock is held. */
static void end_physical(physical *p) {
    for (physical **link = &placed; *link != NULL; link = &(*link)->next) {
        if (*link == p) {
            *link = p->next;
            if (p->cleared == p->device->cleared) emu_memory_forget(p->device, p->address, p->size);
            break;
        }
    }
    if (p->cleared == p->device->cleared) emu_memory_discharge(p->device, p->size);
    free(p->aside);
    free(p);
}

API aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    ENTER_RELEASE("aclrtFreePhysical");
    void *object = NULL;
    int status = emu_handle_drop(handle, KIND_PHYSICAL, &object);
    if (status == 0) {
        physical *p = object;
        pthread_mutex_lock(&lock);
        p->freed = true; /* mapped memory stays until it is unmapped */
        if (!p->mapped) end_physical(p);
        pthread_mutex_unlock(&lock);
    }
    LEAVE(status);
}

API aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
    ENTER("aclrtMapMem");
    void *object = NULL;
    emu_device *device = emu_memory_device(virPtr);
    int status = emu_handle_find(handle, KIND_PHYSICAL, &object);
    if (status != 0) return status;
    physical *p = object;
    if (device == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p has not been reserved", virPtr);
    if (flags != 0 || offset != 0 || size != p->size)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %zu, offset %zu, flags %llu; size must be the memory's, %llu, offset and flags 0",
                        size, offset, (unsigned long long)flags, (unsigned long long)p->size);
    if (device != p->device)
        return emu_fail(ACL_ERROR_FEATURE_UNSUPPORTED, "EMULATOR_NOT_SUPPORTED", "the emulator does not map memory of device %d to addresses of device %d",
                        p->device->id, device->id);
    if (p->cleared != device->cleared)
        return emu_fail(ACL_ERROR_RT_INVALID_HANDLE, "EMULATOR_USE_AFTER_DESTROY", "the device has been reset since the memory was allocated");
    pthread_mutex_lock(&lock);
    if (p->mapped) {
        status = emu_fail(ACL_ERROR_FEATURE_UNSUPPORTED, "EMULATOR_NOT_SUPPORTED",
                          "the memory is mapped at %p already, and the emulator does not map it twice", p->address);
    } else {
        status = emu_memory_map(device, virPtr, size, true);
    }
    if (status == 0) {
        uint8_t *old = p->address, *aside = p->aside;
        if (old != virPtr) {
            if (old != NULL) { /* its bytes move: they may overlap the new place, and others' bytes may lie there */
                aside = malloc(size);
                if (aside == NULL) abort();
                memcpy(aside, old, size);
                for (physical **link = &placed; *link != NULL; link = &(*link)->next) {
                    if (*link == p) {
                        *link = p->next;
                        break;
                    }
                }
            }
            vacate(virPtr, size);
            if (aside != NULL) memcpy(virPtr, aside, size);
            free(aside);
            p->next = placed;
            placed = p;
        }
        p->aside = NULL;
        p->address = virPtr;
        p->mapped = true;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

API aclError aclrtUnmapMem(void *virPtr) {
    ENTER_RELEASE("aclrtUnmapMem");
    int status;
    pthread_mutex_lock(&lock);
    physical *p = placed;
    while (p != NULL && !(p->mapped && p->address == virPtr && p->cleared == p->device->cleared)) p = p->next;
    if (p == NULL) {
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "nothing is mapped at %p", virPtr);
    } else {
        status = emu_memory_map(p->device, virPtr, p->size, false);
        p->mapped = false;
        if (p->freed) end_physical(p);
    }
    pthread_mutex_unlock(&lock);
    LEAVE(status);
}

/* Every device may use what is mapped; access is not taken away from anybody here. */
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

__attribute__((constructor)) static void at_start(void) { emu_at_fork(&lock, NULL); }
