/* Device memory: one sparse memfd per device, mapped here and in the device process, and sub-allocated here. */
#include "memory.h"

#include "calls.h"
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT 512u
#define PAGE 4096u
#define PUNCH_AT_ONCE (1u << 20)      /* freed blocks of this size go back to the system at once, */
#define PUNCH_TOGETHER (16u << 20)    /* smaller ones when they add up to this */

static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/* ----------------------------------------------------------------------------------------------------- opening, closing */

int emu_memory_open(emu_device *device) {
    if (device->base != NULL) return 0;
    uint64_t capacity = round_up(emu_config()->soc.memory, 2u << 20);
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
    (void)madvise(base, window, MADV_DONTFORK); /* a forked child must not reach it */
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

int emu_memory_reserve(emu_device *device, uint64_t size, uint64_t tail, void **address) {
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

int emu_memory_check(emu_device *device, const void *address, uint64_t size, const char *what, uint32_t pins) {
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
    return emu_memory_check(device, address, size, what, 1);
}

void emu_memory_unpin(emu_device *device, const void *address) {
    pthread_mutex_lock(&device->lock);
    emu_block *block = block_at(device, emu_memory_offset(device, address));
    if (block != NULL && block->pins > 0) block->pins--;
    pthread_mutex_unlock(&device->lock);
}

uint64_t emu_memory_live(const emu_device *device) { return device->count; }

bool emu_memory_pinned(emu_device *device, const void *address) {
    uint64_t offset = emu_memory_offset(device, address);
    pthread_mutex_lock(&device->lock);
    const emu_block *block = block_at(device, offset);
    bool result = block != NULL && block->pins > 0;
    pthread_mutex_unlock(&device->lock);
    return result;
}

int emu_memory_free(emu_device *device, const void *address) {
    uint64_t offset = emu_memory_offset(device, address);
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

size_t emu_memory_describe(char *buffer, size_t size) {
    size_t at = 0;
    const char *comma = "";
    for (int i = 0; i < emu_config()->devices; i++) {
        emu_device *device = &emu_devices[i];
        pthread_mutex_lock(&device->lock);
        for (size_t k = 0; k < device->count; k++) {
            at += (size_t)snprintf(at < size ? buffer + at : NULL, at < size ? size - at : 0,
                                   "%s{\"device\": %d, \"address\": %llu, \"bytes\": %llu, \"in_use\": %u}", comma, i,
                                   (unsigned long long)(uintptr_t)(device->base + device->blocks[k].start),
                                   (unsigned long long)device->blocks[k].size, device->blocks[k].pins);
            comma = ", ";
        }
        pthread_mutex_unlock(&device->lock);
    }
    return at;
}

static void forked_child(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        if (emu_devices[i].memory_fd >= 0) close(emu_devices[i].memory_fd);
        emu_devices[i].memory_fd = -1;
    }
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(NULL, forked_child); }
