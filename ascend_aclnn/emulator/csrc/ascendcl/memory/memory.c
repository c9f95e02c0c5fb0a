/* Device memory: one sparse memfd per device, mapped here and in the device process, and sub-allocated here. */
#include "ascendcl/memory/memory.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/host_memory.h"
#include "ascendcl/stream/capture.h"
#include "ascendcl/validate/validate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT 512u
#define GRANULE (2u << 20)            /* of mapping */
#define ADDRESS_FACTOR 16u
#define PUNCH_AT_ONCE (1u << 20)      /* freed blocks of this size are returned to the system at once, */
#define PUNCH_TOGETHER (16u << 20)    /* smaller ones when their total reaches this */

static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/* ----------------------------------------------------------------------------------------------------- opening, closing */

/* Maps a file at an address aligned to a granule, so that addresses and file offsets are aligned alike. */
static void *map_aligned(int fd, uint64_t window) {
    uint8_t *room = mmap(NULL, window + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return MAP_FAILED;
    uint8_t *start = (uint8_t *)(uintptr_t)round_up((uintptr_t)room, GRANULE);
    void *base = mmap(start, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
    if (base == MAP_FAILED) {
        munmap(room, window + GRANULE);
        return MAP_FAILED;
    }
    if (start > room) munmap(room, (size_t)(start - room));
    if (start + window < room + window + GRANULE) munmap(start + window, (size_t)(room + GRANULE - start));
    return base;
}

static int new_file(void) {
    int low = memfd_create("ascend-device-memory", MFD_CLOEXEC);
    return low < 0 ? -1 : emu_move_up(low);
}

bool emu_memory_place(emu_device *device, const void *address, uint64_t size, int fd, uint64_t offset) {
    if (fd < 0) fd = device->memory_fd, offset = emu_memory_offset(device, address);
    void *at = device->base + emu_memory_offset(device, address);
    bool placed = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (off_t)offset) == at;
    if (placed) (void)madvise(at, size, MADV_DONTFORK); /* a forked child must not reach it */
    return placed;
}

/* Reserves the device's addresses and maps its file at them. The process keeps them until it ends. */
static int map_memory(emu_device *device) {
    uint64_t capacity = round_up(emu_config()->soc.memory, 2u << 20);
    /* There are more addresses than memory. Freed ranges are reused late, so that use after free is noticed; fragmentation does
     * not look like a full device; and clients can reserve addresses for more than the memory. */
    uint64_t window = capacity * ADDRESS_FACTOR;
    int fd = new_file();
    if (fd < 0) return emu_fail(ACL_ERROR_RT_DEV_SETUP_ERROR, NULL, "memfd_create failed: %s", strerror(errno));
    void *base = MAP_FAILED;
    for (;; window /= 2) {
        if (ftruncate(fd, (off_t)window) == 0) base = map_aligned(fd, window);
        if (base != MAP_FAILED || window == capacity) break;
    }
    if (base == MAP_FAILED) {
        int status = emu_fail(ACL_ERROR_RT_DEV_SETUP_ERROR, NULL, "cannot map %llu bytes of device memory: %s",
                              (unsigned long long)capacity, strerror(errno));
        close(fd);
        return status;
    }
    (void)madvise(base, window, MADV_DONTFORK); /* a forked child must not reach it */
    pthread_mutex_lock(&device->lock);
    device->memory_fd = fd;
    device->window = window;
    device->capacity = capacity;
    bool opened = emu_blocks_open(&device->blocks, ALIGNMENT, window); /* offset 0 is never handed out */
    device->base = base; /* from now on other threads find it */
    pthread_mutex_unlock(&device->lock);
    if (!opened) abort();
    return 0;
}

int emu_memory_open(emu_device *device) {
    if (device->open) return 0;
    int status = device->base == NULL ? map_memory(device) : 0;
    if (status != 0) return status;
    pthread_mutex_lock(&device->lock);
    device->used = device->peak = 0;
    device->cursor = ALIGNMENT;
    memset(device->freed, 0, sizeof device->freed);
    device->dirty_count = device->dirty_bytes = 0;
    device->open = true;
    pthread_mutex_unlock(&device->lock);
    return 0;
}

int emu_memory_prepare(emu_device *device) {
    pthread_mutex_lock(&emu_world);
    int status = emu_memory_open(device);
    pthread_mutex_unlock(&emu_world);
    if (status == 0) emu_link_start(device);
    return status;
}

void emu_memory_close(emu_device *device) { device->open = false; }

/* -------------------------------------------------------------------------------------------------------------- blocks */

/* Bytes of a reserved block before its first granule. */
static uint64_t granule_skew(const emu_block *block) { return round_up(block->start, GRANULE) - block->start; }

static void punch(emu_device *device, uint64_t start, uint64_t end) {
    uint64_t first = emu_whole_pages(start), last = end / emu_page_size() * emu_page_size();
    if (first < last)
        (void)fallocate(device->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(last - first));
}

static int by_start(const void *a, const void *b) {
    uint64_t left = ((const emu_range *)a)->start, right = ((const emu_range *)b)->start;
    return left < right ? -1 : left > right;
}

/* Returns to the system what has been freed since the last time and is still free. */
static void clean(emu_device *device) {
    uint64_t done = 0, start, end;
    qsort(device->dirty, device->dirty_count, sizeof device->dirty[0], by_start);
    for (size_t i = 0; i < device->dirty_count; i++) {
        if (device->dirty[i].start < done || !emu_blocks_gap(&device->blocks, device->dirty[i].start, &start, &end)) continue;
        punch(device, start, end);
        done = end;
    }
    device->dirty_count = device->dirty_bytes = 0;
}

static void now_free(emu_device *device, emu_range range) {
    device->freed[device->freed_at++ % EMU_FREED] = range;
    if (emu_validates()) emu_validate_free(device->base + range.start, range.size);
    if (range.size >= PUNCH_AT_ONCE) {
        punch(device, range.start, range.start + range.size);
        return;
    }
    device->dirty[device->dirty_count++] = range;
    device->dirty_bytes += range.size;
    if (device->dirty_bytes >= PUNCH_TOGETHER || device->dirty_count == EMU_DIRTY) clean(device);
}

static void remember_freed(const emu_block *block, void *argument) {
    emu_device *device = argument;
    device->freed[device->freed_at++ % EMU_FREED] = (emu_range){block->start, block->span};
    if (emu_validates()) emu_validate_forget(device->base + block->start, block->span);
}

/* Replaces the device's file by a new one, at the same addresses. */
static void replace_file(emu_device *device) {
    int fd = new_file();
    if (fd < 0 || ftruncate(fd, (off_t)device->window) != 0 || dup3(fd, device->memory_fd, O_CLOEXEC) < 0 ||
        !emu_memory_place(device, device->base, device->window, -1, 0))
        abort();
    close(fd);
}

void emu_memory_clear(emu_device *device, bool kept) {
    emu_captures_lock();
    if (emu_when_freed != NULL && device->base != NULL) emu_when_freed(device, device->base, device->window); /* models of other devices */
    emu_captures_unlock();
    pthread_mutex_lock(&device->lock);
    if (device->base != NULL) {
        emu_blocks_each(&device->blocks, remember_freed, device);
        emu_blocks_close(&device->blocks);
        if (!emu_blocks_open(&device->blocks, ALIGNMENT, device->window)) abort();
        device->cleared++;
        if (kept) replace_file(device);
        else punch(device, 0, device->window);
    }
    device->used = device->hidden = 0;
    device->dirty_count = device->dirty_bytes = 0;
    pthread_mutex_unlock(&device->lock);
}

static int full(const emu_device *device, uint64_t size, uint64_t left) {
    return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY",
                    "Failed to allocate memory: %llu bytes asked for, %llu of %llu are free on device %d", (unsigned long long)size,
                    (unsigned long long)left, (unsigned long long)device->capacity, device->id);
}

int emu_memory_reserve(emu_device *device, uint64_t size, uint64_t tail, void **address) {
    emu_block *block = NULL;
    pthread_mutex_lock(&device->lock);
    if (size <= device->capacity) {
        uint64_t span = round_up(size + tail, ALIGNMENT);
        if (span <= device->capacity - device->used) block = emu_blocks_reserve(&device->blocks, device->cursor, size, span);
    }
    if (block == NULL) {
        uint64_t left = device->capacity - device->used;
        pthread_mutex_unlock(&device->lock);
        return full(device, size, left);
    }
    device->used += block->span;
    if (device->used > device->peak) device->peak = device->used;
    device->cursor = block->start + block->span;
    *address = device->base + block->start;
    pthread_mutex_unlock(&device->lock);
    if (emu_config()->fill >= 0) memset(*address, emu_config()->fill, size);
    if (emu_validates()) emu_validate_new(*address, size);
    return 0;
}

/* Whether all granules of a part of a reserved block have memory, or all have none. */
static bool all_granules(const emu_block *block, uint64_t from, uint64_t size, bool on) {
    uint64_t skew = granule_skew(block), first = (from - skew) / GRANULE, last = (from - skew + (size > 0 ? size - 1 : 0)) / GRANULE;
    if (from < skew) return false;
    for (uint64_t i = first; i <= last; i++) {
        if ((block->mapped[i] != 0) != on) return false;
    }
    return true;
}

/* Reports what is wrong with a range: a status with a message. The caller does not hold the lock. */
static int bad_range(const emu_device *device, uint64_t offset, uint64_t size, const char *what, const emu_block *block,
                     bool was_freed) {
    const void *address = device->base + offset;
    if (emu_validates()) emu_validate_blame(address);
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
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        if (device->base != NULL && at >= device->base && at < device->base + device->window) return device;
    }
    return NULL;
}

uint64_t emu_memory_offset(const emu_device *device, const void *address) {
    return (uint64_t)((const uint8_t *)address - device->base);
}

int emu_memory_check(emu_device *device, const void *address, uint64_t size, const char *what, uint32_t pins) {
    uint64_t offset = emu_memory_offset(device, address);
    pthread_mutex_lock(&device->lock);
    emu_block *block = emu_blocks_at(&device->blocks, offset);
    uint64_t inside = block != NULL ? offset - block->start : 0;
    bool good = block != NULL && inside >= block->lead && inside <= block->size && size <= block->size - inside;
    if (good && block->mapped != NULL && !all_granules(block, inside, size, true)) {
        pthread_mutex_unlock(&device->lock);
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%s (%p, %llu bytes) is reserved, but no memory is mapped there",
                        what, address, (unsigned long long)size);
    }
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
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%s (%p) is not in device memory%s", what, address,
                        emu_host_pin(address, 0) ? "; registered host memory has an address there (aclrtHostGetDevicePointer)" : "");
    }
    return emu_memory_check(device, address, size, what, 1);
}

void emu_memory_unpin(emu_device *device, const void *address) {
    pthread_mutex_lock(&device->lock);
    emu_block *block = emu_blocks_at(&device->blocks, emu_memory_offset(device, address));
    if (block != NULL && block->pins > 0) block->pins--;
    pthread_mutex_unlock(&device->lock);
}

uint64_t emu_memory_live(const emu_device *device) { return device->blocks.count - device->hidden; }

bool emu_memory_same_block(emu_device *device, const void *address, const void *other) {
    pthread_mutex_lock(&device->lock);
    const emu_block *block = emu_blocks_at(&device->blocks, emu_memory_offset(device, address));
    bool same = block != NULL && block == emu_blocks_at(&device->blocks, emu_memory_offset(device, other));
    pthread_mutex_unlock(&device->lock);
    return same;
}

void (*emu_when_freed)(emu_device *device, const void *address, uint64_t size);
bool (*emu_replay_uses)(const emu_device *device, const void *address, uint64_t size);

/* Whether queued work, or a replay of a model, uses a block. The captures' lock and the device's are held. */
static bool is_used(const emu_device *device, const emu_block *block) {
    return block->pins > 0 || (emu_replay_uses != NULL && emu_replay_uses(device, device->base + block->start, block->size));
}

bool emu_memory_pinned(emu_device *device, const void *address) {
    uint64_t offset = emu_memory_offset(device, address);
    emu_captures_lock();
    pthread_mutex_lock(&device->lock);
    const emu_block *block = emu_blocks_at(&device->blocks, offset);
    bool result = block != NULL && is_used(device, block);
    pthread_mutex_unlock(&device->lock);
    emu_captures_unlock();
    return result;
}

int emu_memory_free(emu_device *device, const void *address) {
    uint64_t freed = 0;
    uint64_t offset = emu_memory_offset(device, address);
    emu_captures_lock(); /* no model is executed meanwhile */
    pthread_mutex_lock(&device->lock);
    emu_block *block = emu_blocks_at(&device->blocks, offset);
    bool inside = block != NULL && (block->start != offset || block->mapped != NULL || block->foreign);
    bool in_use = block != NULL && is_used(device, block);
    bool was_freed = block == NULL && freed_lately(device, offset);
    if (block != NULL && !inside && !in_use) {
        emu_range range = {block->start, block->span};
        device->used -= range.size;
        freed = block->size;
        emu_blocks_release(&device->blocks, block);
        now_free(device, range);
    }
    pthread_mutex_unlock(&device->lock);
    if (freed > 0 && emu_when_freed != NULL) emu_when_freed(device, address, freed);
    emu_captures_unlock();
    if (emu_validates() && (in_use || inside || block == NULL)) emu_validate_blame(address);
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

int emu_memory_reserve_foreign(emu_device *device, uint64_t size, uint64_t lead, bool hidden, void **address) {
    uint64_t first = 0, span = emu_whole_pages(lead + size) + emu_page_size(); /* so that the lead can be placed before a page */
    emu_block *block = NULL;
    pthread_mutex_lock(&device->lock);
    if (size <= device->window && span <= device->window) block = emu_blocks_reserve(&device->blocks, 0, span, span);
    if (block != NULL) {
        first = emu_whole_pages(block->start);
        block->foreign = true;
        block->hidden = hidden;
        device->hidden += hidden;
        block->lead = first - block->start + lead;
        block->size = block->lead + size;
        *address = device->base + first;
    }
    pthread_mutex_unlock(&device->lock);
    return block != NULL ? 0 : emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no %llu addresses in a row are free on device %d",
                                        (unsigned long long)size, device->id);
}

void emu_memory_release_foreign(emu_device *device, const void *address) {
    pthread_mutex_lock(&device->lock);
    emu_block *block = emu_blocks_at(&device->blocks, emu_memory_offset(device, address));
    if (block != NULL && block->foreign) {
        device->freed[device->freed_at++ % EMU_FREED] = (emu_range){block->start, block->span};
        if (emu_validates()) emu_validate_forget(device->base + block->start, block->span);
        device->hidden -= block->hidden;
        emu_blocks_release(&device->blocks, block);
    }
    pthread_mutex_unlock(&device->lock);
}

bool emu_memory_own_block(emu_device *device, const void *address, const uint8_t **start, uint64_t *size) {
    pthread_mutex_lock(&device->lock);
    const emu_block *block = emu_blocks_at(&device->blocks, emu_memory_offset(device, address));
    bool own = block != NULL && !block->foreign && block->mapped == NULL;
    if (own) {
        *start = device->base + block->start;
        *size = block->size;
    }
    pthread_mutex_unlock(&device->lock);
    return own;
}

bool emu_memory_own(emu_device *device, const void *address) {
    const uint8_t *start;
    uint64_t size;
    return emu_memory_own_block(device, address, &start, &size);
}

int emu_memory_reserve_addresses(emu_device *device, uint64_t size, void **address) {
    emu_block *block = NULL;
    pthread_mutex_lock(&device->lock);
    if (size <= device->window) {
        uint64_t span = round_up(size, GRANULE) + GRANULE; /* so that a granule can be aligned */
        block = emu_blocks_reserve(&device->blocks, 0, span, span);
    }
    if (block != NULL) {
        block->mapped = calloc(block->span / GRANULE, 1);
        if (block->mapped == NULL) abort();
        *address = device->base + block->start + granule_skew(block);
    }
    pthread_mutex_unlock(&device->lock);
    return block != NULL ? 0 : emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no %llu addresses in a row are free on device %d",
                                        (unsigned long long)size, device->id);
}

/* The reserved block that begins at an address. The lock is held. */
static emu_block *reserved_at(const emu_device *device, const void *address) {
    uint64_t offset = emu_memory_offset(device, address);
    emu_block *block = emu_blocks_at(&device->blocks, offset);
    return block != NULL && block->mapped != NULL && block->start + granule_skew(block) == offset ? block : NULL;
}

static int not_reserved(const void *address) {
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not what aclrtReserveMemAddress returned", address);
}

int emu_memory_reserved(emu_device *device, const void *address, uint64_t *size) {
    pthread_mutex_lock(&device->lock);
    const emu_block *block = reserved_at(device, address);
    if (block != NULL) *size = block->span - GRANULE;
    pthread_mutex_unlock(&device->lock);
    return block != NULL ? 0 : not_reserved(address);
}

/* `hidden`: of physical memory. */
static int release_addresses(emu_device *device, const void *address, bool hidden) {
    pthread_mutex_lock(&device->lock);
    emu_block *block = reserved_at(device, address);
    if (block != NULL && block->hidden != hidden) block = NULL;
    bool empty = block != NULL && all_granules(block, granule_skew(block), block->span - GRANULE, false);
    if (empty) {
        emu_range range = {block->start, block->span};
        emu_blocks_release(&device->blocks, block);
        now_free(device, range);
    }
    pthread_mutex_unlock(&device->lock);
    if (block == NULL) return not_reserved(address);
    return empty ? 0 : emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_FREE_IN_USE", "memory is still mapped at %p", address);
}

int emu_memory_release_addresses(emu_device *device, const void *address) { return release_addresses(device, address, false); }

int emu_memory_map(emu_device *device, const void *address, uint64_t size, bool on) {
    uint64_t offset = emu_memory_offset(device, address);
    pthread_mutex_lock(&device->lock);
    emu_block *block = emu_blocks_at(&device->blocks, offset);
    uint64_t from = block != NULL ? offset - block->start : 0, skew = block != NULL ? granule_skew(block) : 0;
    bool fits = block != NULL && block->mapped != NULL && !block->hidden && from >= skew && (from - skew) % GRANULE == 0 && size % GRANULE == 0 &&
                from - skew <= block->span - GRANULE && size <= block->span - GRANULE - (from - skew);
    bool good = fits && all_granules(block, from, size, !on);
    if (good) memset(block->mapped + (from - skew) / GRANULE, on, size / GRANULE);
    if (good && !on && emu_validates()) emu_validate_forget(address, size);
    pthread_mutex_unlock(&device->lock);
    if (good && !on && emu_when_freed != NULL) {
        emu_captures_lock();
        emu_when_freed(device, address, size);
        emu_captures_unlock();
    }
    if (!fits)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_OUT_OF_BOUNDS", "%llu bytes at %p are not in granules of reserved addresses",
                        (unsigned long long)size, address);
    return good ? 0 : emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", on ? "memory is mapped at %p already" : "nothing is mapped at %p", address);
}

int emu_memory_charge(emu_device *device, uint64_t size) {
    pthread_mutex_lock(&device->lock);
    uint64_t left = device->capacity - device->used;
    if (size <= left) device->used += size;
    if (device->used > device->peak) device->peak = device->used;
    pthread_mutex_unlock(&device->lock);
    return size <= left ? 0 : full(device, size, left);
}

void emu_memory_discharge(emu_device *device, uint64_t size) {
    pthread_mutex_lock(&device->lock);
    device->used -= size < device->used ? size : device->used; /* a reset may have reclaimed it */
    pthread_mutex_unlock(&device->lock);
}

int emu_memory_find_home(emu_device *device, uint64_t size, void **address) {
    int status = emu_memory_charge(device, size);
    if (status != 0) return status;
    status = emu_memory_reserve_addresses(device, size, address);
    if (status != 0) emu_memory_discharge(device, size);
    pthread_mutex_lock(&device->lock);
    emu_block *block = status == 0 ? reserved_at(device, *address) : NULL;
    if (block != NULL) block->hidden = true;
    if (block != NULL) device->hidden++;
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* A reset on another thread may have reclaimed the home. */
void emu_memory_release_home(emu_device *device, const void *address) {
    uint64_t size = 0;
    if (emu_memory_reserved(device, address, &size) != 0 || release_addresses(device, address, true) != 0) {
        free(emu_take_message());
        return;
    }
    pthread_mutex_lock(&device->lock);
    device->used -= size < device->used ? size : device->used;
    device->hidden -= device->hidden > 0;
    pthread_mutex_unlock(&device->lock);
}

typedef struct {
    const emu_device *device;
    char *buffer;
    size_t size, at;
} description;

static void describe_block(const emu_block *block, void *argument) {
    description *d = argument;
    d->at += (size_t)snprintf(d->at < d->size ? d->buffer + d->at : NULL, d->at < d->size ? d->size - d->at : 0,
                              "%s{\"device\": %d, \"address\": %llu, \"bytes\": %llu, \"in_use\": %u}", d->at > 0 ? ", " : "",
                              d->device->id, (unsigned long long)(uintptr_t)(d->device->base + block->start),
                              (unsigned long long)block->size, block->pins);
}

size_t emu_memory_describe(char *buffer, size_t size) {
    description d = {NULL, buffer, size, 0};
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        d.device = device;
        pthread_mutex_lock(&device->lock);
        emu_blocks_each(&device->blocks, describe_block, &d);
        pthread_mutex_unlock(&device->lock);
    }
    return d.at;
}

static void forked_child(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        if (device->memory_fd >= 0) close(device->memory_fd);
        device->memory_fd = -1;
        if (device->open || device->base == NULL) continue;
        emu_blocks_close(&device->blocks); /* the child may use the device, and maps memory of its own */
        device->base = NULL;
    }
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_MEMORY, NULL, forked_child); }
