#include "datadist/adxl_memory.h"

#include "ascendcl/core/messages.h"
#include "ascendcl/memory/memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct registered registered;

struct registered {
    registered *next;
    uint64_t number; /* counted from 1 on */
    adxl_range range;
};

struct adxl_memory {
    pthread_mutex_t lock;
    registered *first;
    uint64_t count;
};

static const void *at(adxl_range range) { return (const void *)(uintptr_t)range.address; }

adxl_memory *adxl_memory_new(void) {
    adxl_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) abort();
    pthread_mutex_init(&memory->lock, NULL);
    return memory;
}

void adxl_memory_free(adxl_memory *memory) {
    while (memory->first != NULL) adxl_memory_remove(memory, memory->first);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

int adxl_memory_add(adxl_memory *memory, adxl_range range, bool on_device, void **handle) {
    if (range.address == 0 || range.size == 0)
        return emu_fail(ADXL_PARAM_INVALID, NULL, "mem.addr is %p and mem.len %" PRIu64 "; neither may be 0", at(range), range.size);
    emu_device *device = emu_memory_device(at(range));
    if ((device != NULL) != on_device)
        return emu_fail(ADXL_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "mem.addr (%p) is %s memory, and type is %s", at(range),
                        device != NULL ? "device" : "host", on_device ? "MEM_DEVICE" : "MEM_HOST");
    if (device != NULL && emu_memory_pin(device, at(range), range.size, "mem") != 0) return ADXL_PARAM_INVALID;
    adxl_memory_let_go(range);
    registered *item = calloc(1, sizeof *item);
    if (item == NULL) abort();
    item->range = range;
    pthread_mutex_lock(&memory->lock);
    item->number = ++memory->count;
    item->next = memory->first;
    memory->first = item;
    pthread_mutex_unlock(&memory->lock);
    *handle = item;
    return 0;
}

int adxl_memory_remove(adxl_memory *memory, const void *handle) {
    pthread_mutex_lock(&memory->lock);
    registered **link = &memory->first;
    while (*link != NULL && *link != handle) link = &(*link)->next;
    registered *item = *link;
    if (item != NULL) *link = item->next;
    pthread_mutex_unlock(&memory->lock);
    if (item == NULL)
        return emu_fail(ADXL_PARAM_INVALID, "EMULATOR_NOT_A_HANDLE", "mem_handle (%p) is not what RegisterMem returned, or has been deregistered", handle);
    free(item);
    return 0;
}

uint64_t adxl_memory_count(adxl_memory *memory) {
    pthread_mutex_lock(&memory->lock);
    uint64_t count = memory->count;
    pthread_mutex_unlock(&memory->lock);
    return count;
}

int adxl_memory_hold(adxl_memory *memory, uint64_t count, adxl_range range, const char *what) {
    bool inside = false, later = false;
    pthread_mutex_lock(&memory->lock);
    for (const registered *item = memory->first; item != NULL && !inside; item = item->next) {
        uint64_t offset = range.address - item->range.address;
        bool fits = offset < item->range.size && range.size <= item->range.size - offset;
        inside = fits && item->number <= count;
        later |= fits && item->number > count;
    }
    pthread_mutex_unlock(&memory->lock);
    if (!inside)
        return emu_fail(ADXL_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%s (%p, %" PRIu64 " bytes) is %s", what, at(range), range.size,
                        later ? "memory that was registered after Connect; only what was registered before can be reached"
                              : "not memory that its engine has registered");
    emu_device *device = emu_memory_device(at(range));
    return device != NULL && emu_memory_pin(device, at(range), range.size, what) != 0 ? ADXL_PARAM_INVALID : 0;
}

void adxl_memory_let_go(adxl_range range) {
    emu_device *device = emu_memory_device(at(range));
    if (device != NULL) emu_memory_unpin(device, at(range));
}
