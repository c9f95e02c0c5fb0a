/* Pinned host allocations and registered ranges. */
#include "ascendcl/memory/host_memory.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/validate/validate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return (uint64_t)(uintptr_t)address - block->start < block->size ? block : NULL;
}

bool emu_host_add(const void *address, uint64_t size, bool registered) {
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
        if (!registered && emu_validates()) emu_validate_host_new(address, size);
    }
    pthread_mutex_unlock(&host_lock);
    return good;
}

static host_block *host_start(const void *address, bool registered) {
    for (size_t at = host_behind((uint64_t)(uintptr_t)address); at-- > 0 && host_blocks[at].start == (uint64_t)(uintptr_t)address;) {
        if (host_blocks[at].registered == registered) return &host_blocks[at];
    }
    return NULL;
}

/* Whether a part of an allocation is registered. */
static bool registered_inside(const host_block *block) {
    for (const host_block *b = host_blocks; b < host_blocks + host_count; b++) {
        if (b->registered && b->start >= block->start && b->start - block->start < block->size) return true;
    }
    return false;
}

/* Removes a block that starts at the address: 0, or a status with a message. */
int emu_host_remove(const void *address, bool registered) {
    pthread_mutex_lock(&host_lock);
    host_block *block = host_start(address, registered);
    bool good = block != NULL, in_use = good && block->pins > 0, holds = good && !registered && registered_inside(block), freed = false;
    for (size_t i = 0; i < 64; i++) freed |= host_freed[i] == (uint64_t)(uintptr_t)address;
    if (good && !in_use && !holds) {
        size_t at = (size_t)(block - host_blocks), removed = block->size;
        memmove(block, block + 1, (host_count - at - 1) * sizeof(host_block));
        host_count--;
        if (emu_validates()) emu_validate_free(address, removed);
        if (!registered) {
            host_allocated--;
            host_freed[host_freed_at++ % 64] = (uint64_t)(uintptr_t)address;
        }
    }
    pthread_mutex_unlock(&host_lock);
    if (emu_validates() && (in_use || !good)) emu_validate_blame(address);
    if (in_use)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_FREE_IN_USE", "queued copies still use the host memory %p", address);
    if (holds)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_FREE_IN_USE", "%p is registered; aclrtHostUnregister must come first", address);
    if (good) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, freed ? "EMULATOR_DOUBLE_FREE" : "EMULATOR_INVALID_ADDRESS",
                    freed ? "%p has been freed" : "%p is not what %s returned", address,
                    registered ? "aclrtHostRegister" : "aclrtMallocHost");
}

bool emu_host_pin(const void *address, uint32_t pins) {
    pthread_mutex_lock(&host_lock);
    host_block *block = host_at(address);
    if (block != NULL) block->pins += pins;
    pthread_mutex_unlock(&host_lock);
    return block != NULL;
}

static bool has(const void *address, uint64_t size, bool registered) {
    pthread_mutex_lock(&host_lock);
    const host_block *block = host_at(address);
    bool found = block != NULL && size <= block->size - ((uint64_t)(uintptr_t)address - block->start) && (registered || !block->registered);
    pthread_mutex_unlock(&host_lock);
    return found;
}

bool emu_host_allocation(const void *address, uint64_t *start, uint64_t *size) {
    bool found = false;
    pthread_mutex_lock(&host_lock);
    for (size_t at = host_behind((uint64_t)(uintptr_t)address); at-- > 0 && !found;) {
        const host_block *block = &host_blocks[at];
        found = !block->registered && (uint64_t)(uintptr_t)address - block->start < block->size;
        *start = block->start;
        *size = block->size;
    }
    pthread_mutex_unlock(&host_lock);
    return found;
}

bool emu_host_has(const void *address, uint64_t size) { return has(address, size, true); }

bool emu_host_allocated(const void *address, uint64_t size) { return has(address, size, false); }

void emu_host_unpin(const void *address) {
    pthread_mutex_lock(&host_lock);
    host_block *block = host_at(address);
    if (block != NULL && block->pins > 0) block->pins--;
    pthread_mutex_unlock(&host_lock);
}

uint32_t emu_host_pins(const void *address) {
    pthread_mutex_lock(&host_lock);
    const host_block *block = host_at(address);
    uint32_t pins = block != NULL ? block->pins : 0;
    pthread_mutex_unlock(&host_lock);
    return pins;
}

uint64_t emu_host_live(void) { return host_allocated; }

size_t emu_host_describe(char *buffer, size_t size) {
    size_t at = 0;
    const char *comma = "";
    pthread_mutex_lock(&host_lock);
    for (size_t k = 0; k < host_count; k++) {
        if (host_blocks[k].registered) continue;
        at += (size_t)snprintf(at < size ? buffer + at : NULL, at < size ? size - at : 0, "%s{\"address\": %llu, \"bytes\": %llu}",
                               comma, (unsigned long long)host_blocks[k].start, (unsigned long long)host_blocks[k].size);
        comma = ", ";
    }
    pthread_mutex_unlock(&host_lock);
    return at;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_HOST_MEMORY, &host_lock, NULL); }
