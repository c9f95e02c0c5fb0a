/* Device and host memory: one sparse memfd per device, mapped here and in the device process, and sub-allocated here. */
#include "emu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT 512u
#define TAIL 32u                      /* aclrtMalloc's padding behind a block */
#define PAGE 4096u
#define PUNCH_AT_ONCE (1u << 20)      /* freed blocks of this size go back to the system at once, */
#define PUNCH_TOGETHER (16u << 20)    /* smaller ones when they add up to this */

static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/* ----------------------------------------------------------------------------------------------------- opening, closing */

int emu_memory_open(emu_device *device) {
    if (device->base != NULL) return 0;
    uint64_t capacity = round_up(emu_config()->chip.memory, 2u << 20);
    /* Twice the address space: freed ranges are used again late, so that their use after free is noticed, and
     * fragmentation does not look like a full device. */
    uint64_t window = capacity * 2;
    int low = memfd_create("ascend-device-memory", MFD_CLOEXEC);
    int fd = low < 0 ? -1 : emu_move_up(low);
    if (fd < 0) return emu_fail(ACL_ERROR_RT_DEV_SETUP_ERROR, NULL, "memfd_create failed: %s", strerror(errno));
    void *base = MAP_FAILED;
    for (; window >= capacity; window -= capacity) {
        if (ftruncate(fd, (off_t)window) == 0)
            base = mmap(NULL, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (base != MAP_FAILED || window == capacity) break;
    }
    if (base == MAP_FAILED) {
        int status = emu_fail(ACL_ERROR_RT_DEV_SETUP_ERROR, NULL, "cannot map %llu bytes of device memory: %s",
                              (unsigned long long)capacity, strerror(errno));
        close(fd);
        return status;
    }
    pthread_mutex_lock(&device->lock);
    device->memory_fd = fd;
    device->base = base;
    device->window = window;
    device->capacity = capacity;
    device->used = device->dirty = 0;
    device->cursor = ALIGNMENT; /* offset 0 is never handed out */
    device->count = 0;
    memset(device->freed, 0, sizeof device->freed);
    pthread_mutex_unlock(&device->lock);
    return 0;
}

void emu_memory_close(emu_device *device) {
    pthread_mutex_lock(&device->lock);
    if (device->base != NULL) {
        munmap(device->base, device->window);
        close(device->memory_fd);
        free(device->blocks);
        device->blocks = NULL;
        device->count = device->room = 0;
        device->base = NULL;
        device->memory_fd = -1;
        device->used = 0;
    }
    pthread_mutex_unlock(&device->lock);
}

/* -------------------------------------------------------------------------------------------------------------- blocks */

/* Index of the first block that starts behind an offset. */
static size_t block_behind(const emu_device *device, uint64_t offset) {
    size_t low = 0, high = device->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (device->blocks[middle].start > offset) high = middle;
        else low = middle + 1;
    }
    return low;
}

static emu_block *block_at(const emu_device *device, uint64_t offset) {
    size_t behind = block_behind(device, offset);
    if (behind == 0) return NULL;
    emu_block *block = &device->blocks[behind - 1];
    return offset < block->start + block->span ? block : NULL;
}

static void punch(emu_device *device, uint64_t start, uint64_t end) {
    uint64_t first = round_up(start, PAGE), last = end / PAGE * PAGE;
    if (first < last)
        (void)fallocate(device->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(last - first));
}

static void punch_gaps(emu_device *device) {
    uint64_t from = 0;
    for (size_t i = 0; i <= device->count; i++) {
        uint64_t to = i < device->count ? device->blocks[i].start : device->window;
        punch(device, from, to);
        if (i < device->count) from = device->blocks[i].start + device->blocks[i].span;
    }
    device->dirty = 0;
}

void emu_memory_clear(emu_device *device) {
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < device->count; i++)
        device->freed[device->freed_at++ % EMU_FREED] = (emu_range){device->blocks[i].start, device->blocks[i].span};
    device->count = 0;
    device->used = 0;
    if (device->base != NULL) punch_gaps(device);
    pthread_mutex_unlock(&device->lock);
}

/* An offset with `span` free bytes, from the cursor on and then from the start; 0 when there is none. */
static uint64_t find_gap(const emu_device *device, uint64_t span) {
    for (int round = 0; round < 2; round++) {
        uint64_t at = round == 0 ? device->cursor : ALIGNMENT;
        size_t next = block_behind(device, at);
        if (next > 0) {
            const emu_block *before = &device->blocks[next - 1];
            if (before->start + before->span > at) at = before->start + before->span;
        }
        for (;; next++) {
            uint64_t end = next < device->count ? device->blocks[next].start : device->window;
            if (at + span <= end) return at;
            if (next >= device->count) break;
            at = device->blocks[next].start + device->blocks[next].span;
        }
    }
    return 0;
}

static int reserve_block(emu_device *device, uint64_t size, uint64_t tail, void **address) {
    uint64_t span = round_up(size + tail, ALIGNMENT);
    pthread_mutex_lock(&device->lock);
    uint64_t start = size <= device->capacity && device->used + span <= device->capacity ? find_gap(device, span) : 0;
    if (start != 0 && device->count == device->room) {
        size_t room = device->room > 0 ? device->room * 2 : 256;
        emu_block *more = realloc(device->blocks, room * sizeof *more);
        if (more == NULL) start = 0;
        else device->blocks = more, device->room = room;
    }
    if (start == 0) {
        uint64_t left = device->capacity - device->used;
        pthread_mutex_unlock(&device->lock);
        return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY",
                        "%llu bytes asked for, %llu of %llu are free on device %d", (unsigned long long)size,
                        (unsigned long long)left, (unsigned long long)device->capacity, device->id);
    }
    size_t at = block_behind(device, start);
    memmove(&device->blocks[at + 1], &device->blocks[at], (device->count - at) * sizeof(emu_block));
    device->blocks[at] = (emu_block){start, size, span, 0};
    device->count++;
    device->used += span;
    device->cursor = start + span;
    *address = device->base + start;
    pthread_mutex_unlock(&device->lock);
    if (emu_config()->fill >= 0) memset(*address, emu_config()->fill, size);
    return 0;
}

/* What is wrong with a range: a status with a message. The caller does not hold the lock. */
static int bad_range(const emu_device *device, uint64_t offset, uint64_t size, const char *what, const emu_block *block,
                     bool was_freed) {
    const void *address = device->base + offset;
    if (block != NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_OUT_OF_BOUNDS",
                        "%s needs %llu bytes from %p on, where %llu are left of an allocation of %llu", what,
                        (unsigned long long)size, address,
                        (unsigned long long)(block->start + block->size > offset ? block->start + block->size - offset : 0),
                        (unsigned long long)block->size);
    if (was_freed)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_USE_AFTER_FREE", "%s (%p) has been freed", what, address);
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS",
                    "%s (%p) is in the memory of device %d but in no allocation", what, address, device->id);
}

static bool freed_lately(const emu_device *device, uint64_t offset) {
    for (size_t i = 0; i < EMU_FREED; i++) {
        if (offset >= device->freed[i].start && offset < device->freed[i].start + device->freed[i].size) return true;
    }
    return false;
}

emu_device *emu_memory_device(const void *address) {
    const uint8_t *at = address;
    for (int i = 0; i < emu_config()->devices; i++) {
        emu_device *device = &emu_devices[i];
        if (device->base != NULL && at >= device->base && at < device->base + device->window) return device;
    }
    return NULL;
}

uint64_t emu_memory_offset(const emu_device *device, const void *address) {
    return (uint64_t)((const uint8_t *)address - device->base);
}

static int pin(emu_device *device, const void *address, uint64_t size, const char *what, uint32_t pins) {
    uint64_t offset = emu_memory_offset(device, address);
    pthread_mutex_lock(&device->lock);
    emu_block *block = block_at(device, offset);
    bool good = block != NULL && offset + size <= block->start + block->size;
    bool was_freed = block == NULL && freed_lately(device, offset);
    emu_block copy = block != NULL ? *block : (emu_block){0};
    if (good) block->pins += pins;
    pthread_mutex_unlock(&device->lock);
    return good ? 0 : bad_range(device, offset, size, what, block != NULL ? &copy : NULL, was_freed);
}

int emu_memory_pin(emu_device *device, const void *address, uint64_t size, const char *what) {
    if (emu_memory_device(address) != device) {
        emu_device *other = emu_memory_device(address);
        if (other != NULL)
            return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_WRONG_CONTEXT", "%s (%p) is on device %d, not on device %d",
                            what, address, other->id, device->id);
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%s (%p) is not in device memory", what,
                        address);
    }
    return pin(device, address, size, what, 1);
}

void emu_memory_unpin(emu_device *device, const void *address) {
    pthread_mutex_lock(&device->lock);
    emu_block *block = block_at(device, emu_memory_offset(device, address));
    if (block != NULL && block->pins > 0) block->pins--;
    pthread_mutex_unlock(&device->lock);
}

uint64_t emu_memory_live(const emu_device *device) { return device->count; }

/* --------------------------------------------------------------------------------------------------------- host memory */

/* Pinned host allocations and registered ranges, sorted by address. */
typedef struct {
    uint64_t start, size;
    uint32_t pins;
    bool registered;
} host_block;

static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static host_block *host_blocks;
static size_t host_count, host_room, host_allocated;
static uint64_t host_freed[64];
static size_t host_freed_at;

static size_t host_behind(uint64_t address) {
    size_t low = 0, high = host_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (host_blocks[middle].start > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

static host_block *host_at(const void *address) {
    size_t behind = host_behind((uint64_t)(uintptr_t)address);
    if (behind == 0) return NULL;
    host_block *block = &host_blocks[behind - 1];
    return (uint64_t)(uintptr_t)address < block->start + block->size ? block : NULL;
}

static bool host_add(const void *address, uint64_t size, bool registered) {
    pthread_mutex_lock(&host_lock);
    bool good = true;
    if (host_count == host_room) {
        size_t room = host_room > 0 ? host_room * 2 : 64;
        host_block *more = realloc(host_blocks, room * sizeof *more);
        good = more != NULL;
        if (good) host_blocks = more, host_room = room;
    }
    if (good) {
        size_t at = host_behind((uint64_t)(uintptr_t)address);
        memmove(&host_blocks[at + 1], &host_blocks[at], (host_count - at) * sizeof(host_block));
        host_blocks[at] = (host_block){(uint64_t)(uintptr_t)address, size, 0, registered};
        host_count++;
        if (!registered) host_allocated++;
    }
    pthread_mutex_unlock(&host_lock);
    return good;
}

/* Forgets a block that starts at the address: 0, or a status with a message. */
static int host_remove(const void *address, bool registered) {
    pthread_mutex_lock(&host_lock);
    host_block *block = host_at(address);
    bool good = block != NULL && block->start == (uint64_t)(uintptr_t)address && block->registered == registered;
    bool in_use = good && block->pins > 0, freed = false;
    for (size_t i = 0; i < 64; i++) freed |= host_freed[i] == (uint64_t)(uintptr_t)address;
    if (good && !in_use) {
        size_t at = (size_t)(block - host_blocks);
        memmove(block, block + 1, (host_count - at - 1) * sizeof(host_block));
        host_count--;
        if (!registered) {
            host_allocated--;
            host_freed[host_freed_at++ % 64] = (uint64_t)(uintptr_t)address;
        }
    }
    pthread_mutex_unlock(&host_lock);
    if (in_use)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_FREE_IN_USE", "queued copies still use the host memory %p", address);
    if (good) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, freed ? "EMULATOR_DOUBLE_FREE" : "EMULATOR_INVALID_ADDRESS",
                    freed ? "%p has been freed" : "%p is not what %s returned", address,
                    registered ? "aclrtHostRegister" : "aclrtMallocHost");
}

static bool host_pin(const void *address, uint32_t pins) {
    pthread_mutex_lock(&host_lock);
    host_block *block = host_at(address);
    if (block != NULL) block->pins += pins;
    pthread_mutex_unlock(&host_lock);
    return block != NULL;
}

static void host_unpin(const void *address) {
    pthread_mutex_lock(&host_lock);
    host_block *block = host_at(address);
    if (block != NULL && block->pins > 0) block->pins--;
    pthread_mutex_unlock(&host_lock);
}

static uint32_t host_pins(const void *address) {
    pthread_mutex_lock(&host_lock);
    const host_block *block = host_at(address);
    uint32_t pins = block != NULL ? block->pins : 0;
    pthread_mutex_unlock(&host_lock);
    return pins;
}

uint64_t emu_host_live(void) { return host_allocated; }

size_t emu_memory_describe(char *buffer, size_t size) {
    size_t at = 0;
#define PUT(...) at += (size_t)snprintf(at < size ? buffer + at : NULL, at < size ? size - at : 0, __VA_ARGS__)
    PUT("\"allocations\": [");
    const char *comma = "";
    for (int i = 0; i < emu_config()->devices; i++) {
        emu_device *device = &emu_devices[i];
        pthread_mutex_lock(&device->lock);
        for (size_t k = 0; k < device->count; k++) {
            PUT("%s{\"device\": %d, \"address\": %llu, \"bytes\": %llu, \"in_use\": %u}", comma, i,
                (unsigned long long)(uintptr_t)(device->base + device->blocks[k].start),
                (unsigned long long)device->blocks[k].size, device->blocks[k].pins);
            comma = ", ";
        }
        pthread_mutex_unlock(&device->lock);
    }
    PUT("], \"host_allocations\": [");
    comma = "";
    pthread_mutex_lock(&host_lock);
    for (size_t k = 0; k < host_count; k++) {
        if (host_blocks[k].registered) continue;
        PUT("%s{\"address\": %llu, \"bytes\": %llu}", comma, (unsigned long long)host_blocks[k].start,
            (unsigned long long)host_blocks[k].size);
        comma = ", ";
    }
    pthread_mutex_unlock(&host_lock);
    PUT("]");
#undef PUT
    return at;
}

/* ------------------------------------------------------------------------------------------------- allocation functions */

static int current_device(emu_device **device) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status == 0) *device = emu_context_device(context);
    return status;
}

static int malloc_device(void **address, size_t size, int policy, uint64_t tail) {
    emu_device *device;
    if (address == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "devPtr is a null pointer");
    if (size == 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is 0; it must be greater");
    int status = current_device(&device);
    if (status != 0) return status;
    if ((policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P) && !emu_config()->chip.page_1g)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "%s has no pages of 1 GiB", emu_config()->chip.name);
    return reserve_block(device, size, tail, address);
}

static bool pinned(emu_device *device, uint64_t offset) {
    pthread_mutex_lock(&device->lock);
    const emu_block *block = block_at(device, offset);
    bool result = block != NULL && block->pins > 0;
    pthread_mutex_unlock(&device->lock);
    return result;
}

static int free_device(const void *address) {
    if (address == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "devPtr is a null pointer");
    emu_device *device = emu_memory_device(address);
    if (device == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not device memory", address);
    uint64_t offset = emu_memory_offset(device, address);
    if (pinned(device, offset)) emu_streams_poll(device); /* the work may have ended without anybody having looked */
    pthread_mutex_lock(&device->lock);
    emu_block *block = block_at(device, offset);
    bool inside = block != NULL && block->start != offset;
    bool in_use = block != NULL && block->pins > 0;
    bool was_freed = block == NULL && freed_lately(device, offset);
    if (block != NULL && !inside && !in_use) {
        emu_block old = *block;
        size_t at = (size_t)(block - device->blocks);
        memmove(block, block + 1, (device->count - at - 1) * sizeof(emu_block));
        device->count--;
        device->used -= old.span;
        device->freed[device->freed_at++ % EMU_FREED] = (emu_range){old.start, old.span};
        if (old.span >= PUNCH_AT_ONCE) {
            punch(device, old.start, old.start + old.span);
        } else {
            device->dirty += old.span;
            if (device->dirty >= PUNCH_TOGETHER) punch_gaps(device);
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (in_use)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_FREE_IN_USE",
                        "queued work still uses %p; synchronize its stream first", address);
    if (inside)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is inside an allocation, not its start",
                        address);
    if (block == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, was_freed ? "EMULATOR_DOUBLE_FREE" : "EMULATOR_INVALID_ADDRESS",
                        was_freed ? "%p has been freed" : "%p is in no allocation", address);
    return 0;
}

API aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ENTER("aclrtMalloc");
    return malloc_device(devPtr, size, policy, TAIL);
}

API aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ENTER("aclrtMallocAlign32");
    return malloc_device(devPtr, size, policy, 0);
}

API aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ENTER("aclrtMallocCached");
    return malloc_device(devPtr, size, policy, TAIL);
}

API aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg) {
    ENTER("aclrtMallocWithCfg");
    (void)cfg;
    return malloc_device(devPtr, size, policy, TAIL);
}

API aclError aclrtFree(void *devPtr) {
    ENTER_RELEASE("aclrtFree");
    LEAVE(free_device(devPtr));
}

API aclError aclrtFreeWithDevSync(void *devPtr) {
    ENTER_RELEASE("aclrtFreeWithDevSync");
    int status = aclrtSynchronizeDevice();
    emu_set_routine("aclrtFreeWithDevSync");
    int freed = free_device(devPtr);
    LEAVE(freed != 0 ? freed : status);
}

static int malloc_host(void **address, size_t size) {
    emu_context *context;
    if (address == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "hostPtr is a null pointer");
    if (size == 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is 0; it must be greater");
    int status = emu_current_context(&context);
    if (status != 0) return status;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size) != 0 || !host_add(memory, size, false)) {
        free(memory);
        return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "%zu bytes of host memory", size);
    }
    *address = memory;
    return 0;
}

static int free_host(void *address) {
    if (address == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "hostPtr is a null pointer");
    for (int i = 0; i < emu_config()->devices; i++) {
        if (host_pins(address) > 0) emu_streams_poll(&emu_devices[i]);
    }
    int status = host_remove(address, false);
    if (status == 0) free(address);
    return status;
}

API aclError aclrtMallocHost(void **hostPtr, size_t size) {
    ENTER("aclrtMallocHost");
    return malloc_host(hostPtr, size);
}

API aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg) {
    ENTER("aclrtMallocHostWithCfg");
    (void)cfg;
    return malloc_host(ptr, size);
}

API aclError aclrtFreeHost(void *hostPtr) {
    ENTER_RELEASE("aclrtFreeHost");
    LEAVE(free_host(hostPtr));
}

API aclError aclrtFreeHostWithDevSync(void *hostPtr) {
    ENTER_RELEASE("aclrtFreeHostWithDevSync");
    int status = aclrtSynchronizeDevice();
    emu_set_routine("aclrtFreeHostWithDevSync");
    int freed = free_host(hostPtr);
    LEAVE(freed != 0 ? freed : status);
}

API aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr) {
    ENTER("aclrtHostRegister");
    (void)type;
    if (ptr == NULL || size == 0 || devPtr == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "ptr and devPtr must not be null and size not 0");
    if (!host_add(ptr, size, true)) return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no memory");
    *devPtr = ptr;
    return 0;
}

API aclError aclrtHostUnregister(void *ptr) {
    ENTER_RELEASE("aclrtHostUnregister");
    LEAVE(host_remove(ptr, true));
}

API aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *total) {
    ENTER("aclrtGetMemInfo");
    emu_device *device;
    if (free_bytes == NULL || total == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "free and total must not be null pointers");
    int status = current_device(&device);
    if (status != 0) return status;
    switch (attr) {
        case ACL_DDR_MEM: case ACL_HBM_MEM: case ACL_DDR_MEM_HUGE: case ACL_DDR_MEM_NORMAL: case ACL_HBM_MEM_HUGE:
        case ACL_HBM_MEM_NORMAL: case ACL_MEM_NORMAL: case ACL_MEM_HUGE:
            pthread_mutex_lock(&device->lock);
            *total = device->capacity;
            *free_bytes = device->capacity - device->used;
            pthread_mutex_unlock(&device->lock);
            return 0;
        default:
            *free_bytes = *total = 0;
            return 0;
    }
}

API aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
    ENTER("aclrtPointerGetAttributes");
    if (ptr == NULL || attributes == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "ptr and attributes must not be null pointers");
    emu_device *device = emu_memory_device(ptr);
    memset(attributes, 0, sizeof *attributes);
    attributes->location.id = device != NULL ? (uint32_t)device->id : 0;
    if (device != NULL) attributes->location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    else attributes->location.type = host_pin(ptr, 0) ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    attributes->pageSize = PAGE;
    return 0;
}

/* -------------------------------------------------------------------------------------------------------------- copies */

typedef struct {
    emu_task task;
    uint8_t *dst;
    const uint8_t *src;
    size_t dpitch, spitch, width, height;
    int value;                              /* of a memset, whose src is NULL */
    emu_device *dst_device, *src_device;
    bool dst_host_pinned, src_host_pinned;
    uint8_t staged[];                       /* the source's bytes, when its owner may change them at once */
} copy_task;

static void copy_now(const copy_task *copy) {
    for (size_t row = 0; row < copy->height; row++) {
        uint8_t *dst = copy->dst + row * copy->dpitch;
        if (copy->src == NULL) memset(dst, copy->value, copy->width);
        else memmove(dst, copy->src + row * copy->spitch, copy->width);
    }
}

static int run_copy(emu_task *task, emu_stream *stream) {
    (void)stream;
    copy_now((copy_task *)task);
    return 0;
}

static void finish_copy(emu_task *task) {
    copy_task *copy = (copy_task *)task;
    if (copy->dst_device != NULL) emu_memory_unpin(copy->dst_device, copy->dst);
    if (copy->src_device != NULL) emu_memory_unpin(copy->src_device, copy->src);
    if (copy->dst_host_pinned) host_unpin(copy->dst);
    if (copy->src_host_pinned) host_unpin(copy->src);
    free(copy);
}

static uint64_t extent(size_t pitch, size_t width, size_t height) { return (uint64_t)(height - 1) * pitch + width; }

/* Whether a kind says device (1), host (0), or leaves it to the address (-1), for destination and source. */
static int kind_of(aclrtMemcpyKind kind, bool destination) {
    switch (kind) {
        case ACL_MEMCPY_HOST_TO_HOST: return 0;
        case ACL_MEMCPY_HOST_TO_DEVICE: case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: return destination;
        case ACL_MEMCPY_DEVICE_TO_HOST: return !destination;
        case ACL_MEMCPY_DEVICE_TO_DEVICE: case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE: case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
            return 1;
        default: return -1;
    }
}

static int check_direction(const void *address, aclrtMemcpyKind kind, bool destination) {
    int wanted = kind_of(kind, destination);
    bool device = emu_memory_device(address) != NULL;
    if (wanted < 0 || wanted == (int)device) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_COPY_DIRECTION", "kind %d, but %s (%p) is %s memory", (int)kind,
                    destination ? "dst" : "src", address, device ? "device" : "host");
}

/* Reading another device's memory needs aclrtDeviceEnablePeerAccess, except on chips where all devices share a bus. */
static int check_peers(const emu_device *dst, const emu_device *src) {
    if (dst == NULL || src == NULL || dst == src) return 0;
    if (strncmp(emu_config()->chip.name, "Ascend910_93", 12) == 0) return 0;
    if ((dst->peers >> src->id & 1) != 0 || (src->peers >> dst->id & 1) != 0) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_WRONG_CONTEXT",
                    "a copy between device %d and device %d needs aclrtDeviceEnablePeerAccess first", src->id, dst->id);
}

typedef struct {
    void *dst;
    const void *src;
    size_t dpitch, spitch, width, height;
    aclrtMemcpyKind kind;
} copy_request;

static int check_copy(const copy_request *request) {
    emu_context *context;
    if (request->dst == NULL || request->src == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%s is a null pointer", request->dst == NULL ? "dst" : "src");
    if (request->width > request->dpitch || (request->height > 1 && request->width > request->spitch))
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%zu bytes do not fit into %zu", request->width, request->dpitch);
    int status = emu_current_context(&context);
    if (status == 0) status = check_direction(request->dst, request->kind, true);
    if (status == 0) status = check_direction(request->src, request->kind, false);
    return status;
}

/* A task for a copy, with its device memory pinned; NULL with *status set when something is wrong. */
static copy_task *make_copy(const copy_request *request, size_t staged, int *status) {
    copy_task *copy = calloc(1, sizeof *copy + staged);
    if (copy == NULL) {
        *status = emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
        return NULL;
    }
    emu_device *dst = emu_memory_device(request->dst), *src = emu_memory_device(request->src);
    copy->dst = request->dst;
    copy->src = request->src;
    copy->dpitch = request->dpitch;
    copy->spitch = request->spitch;
    copy->width = request->width;
    copy->height = request->height;
    copy->task.run = run_copy;
    copy->task.finish = finish_copy;
    copy->task.routine = emu_routine();
    *status = check_peers(dst, src);
    if (*status == 0 && dst != NULL) {
        *status = emu_memory_pin(dst, copy->dst, extent(copy->dpitch, copy->width, copy->height), "dst");
        if (*status == 0) copy->dst_device = dst;
    }
    if (*status == 0 && src != NULL) {
        *status = emu_memory_pin(src, copy->src, extent(copy->spitch, copy->width, copy->height), "src");
        if (*status == 0) copy->src_device = src;
    }
    if (*status == 0) return copy;
    finish_copy(&copy->task);
    return NULL;
}

static int copy_sync(const copy_request *request) {
    int status = check_copy(request);
    if (status != 0 || request->width == 0 || request->height == 0) return status;
    copy_task *copy = make_copy(request, 0, &status);
    if (copy == NULL) return status;
    copy_now(copy);
    finish_copy(&copy->task);
    return 0;
}

static int copy_async(const copy_request *request, aclrtStream handle) {
    emu_stream *stream;
    int status = check_copy(request);
    if (status == 0) status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    if (request->width == 0 || request->height == 0) {
        emu_stream_release(stream);
        return 0;
    }
    bool dst_host = emu_memory_device(request->dst) == NULL, src_host = emu_memory_device(request->src) == NULL;
    if (dst_host && src_host) {
        emu_stream_release(stream);
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "host to host copies cannot be asynchronous");
    }
    /* A pageable source is read before this returns, and so is one that the caller says it will free (kind 5). */
    bool src_pinned = src_host && request->kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE && host_pin(request->src, 1);
    bool stage = src_host && !src_pinned;
    copy_task *copy = make_copy(request, stage ? request->width * request->height : 0, &status);
    if (copy == NULL) {
        if (src_pinned) host_unpin(request->src);
        emu_stream_release(stream);
        return status;
    }
    copy->src_host_pinned = src_pinned;
    copy->dst_host_pinned = dst_host && host_pin(request->dst, 1);
    bool wait = dst_host && !copy->dst_host_pinned; /* a pageable destination is written before this returns */
    if (stage) {
        for (size_t row = 0; row < copy->height; row++)
            memcpy(copy->staged + row * copy->width, copy->src + row * copy->spitch, copy->width);
        copy->src = copy->staged;
        copy->spitch = copy->width;
    }
    status = emu_stream_enqueue(stream, &copy->task);
    if (status == 0 && wait) status = emu_stream_wait(stream, -1, 0);
    emu_stream_release(stream);
    return status;
}

API aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind) {
    ENTER("aclrtMemcpy");
    return copy_sync(&(copy_request){dst, src, destMax, count, count, 1, kind});
}

API aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                              aclrtStream stream) {
    ENTER("aclrtMemcpyAsync");
    return copy_async(&(copy_request){dst, src, destMax, count, count, 1, kind}, stream);
}

API aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                                           aclrtStream stream) {
    ENTER("aclrtMemcpyAsyncWithCondition");
    return copy_async(&(copy_request){dst, src, destMax, count, count, 1, kind}, stream);
}

static int check_2d(aclrtMemcpyKind kind) {
    if (kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEFAULT) return 0;
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "kind %d; two-dimensional copies go between host and device",
                    (int)kind);
}

API aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                           aclrtMemcpyKind kind) {
    ENTER("aclrtMemcpy2d");
    int status = check_2d(kind);
    return status != 0 ? status : copy_sync(&(copy_request){dst, src, dpitch, spitch, width, height, kind});
}

API aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                                aclrtMemcpyKind kind, aclrtStream stream) {
    ENTER("aclrtMemcpy2dAsync");
    int status = check_2d(kind);
    return status != 0 ? status : copy_async(&(copy_request){dst, src, dpitch, spitch, width, height, kind}, stream);
}

static copy_task *make_set(void *address, size_t room, int value, size_t count, int *status) {
    emu_context *context;
    *status = emu_current_context(&context);
    if (*status != 0) return NULL;
    if (address == NULL || count > room) {
        *status = address == NULL ? emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "devPtr is a null pointer")
                                  : emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%zu bytes do not fit into %zu", count, room);
        return NULL;
    }
    emu_device *device = emu_memory_device(address);
    bool pinned = device == NULL && host_pin(address, 1);
    if (device == NULL && !pinned) {
        *status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS",
                           "devPtr (%p) is neither device memory nor pinned host memory", address);
        return NULL;
    }
    if (device != NULL) *status = emu_memory_pin(device, address, count, "devPtr");
    copy_task *set = *status == 0 ? calloc(1, sizeof *set) : NULL;
    if (set == NULL) {
        if (*status == 0 && device != NULL) emu_memory_unpin(device, address);
        if (pinned) host_unpin(address);
        if (*status == 0) *status = emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
        return NULL;
    }
    set->task = (emu_task){.run = run_copy, .finish = finish_copy, .routine = emu_routine()};
    set->dst = address;
    set->dst_device = device;
    set->dst_host_pinned = pinned;
    set->value = value;
    set->width = count;
    set->height = 1;
    return set;
}

API aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
    ENTER("aclrtMemset");
    int status;
    copy_task *set = make_set(devPtr, maxCount, value, count, &status);
    if (set == NULL) return status;
    copy_now(set);
    finish_copy(&set->task);
    return 0;
}

API aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    ENTER("aclrtMemsetAsync");
    emu_stream *target;
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    copy_task *set = make_set(devPtr, maxCount, value, count, &status);
    if (set != NULL) status = emu_stream_enqueue(target, &set->task);
    emu_stream_release(target);
    return status;
}

/* Device memory is coherent here: nothing to do. */
API aclError aclrtMemFlush(void *devPtr, size_t size) {
    ENTER("aclrtMemFlush");
    emu_device *device = emu_memory_device(devPtr);
    if (device == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not device memory", devPtr);
    return pin(device, devPtr, size, "devPtr", 0);
}

API aclError aclrtMemInvalidate(void *devPtr, size_t size) {
    ENTER("aclrtMemInvalidate");
    emu_device *device = emu_memory_device(devPtr);
    if (device == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not device memory", devPtr);
    return pin(device, devPtr, size, "devPtr", 0);
}
