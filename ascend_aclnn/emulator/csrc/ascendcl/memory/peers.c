/*
 * Memory of another device as an operand.
 *
 * The pages of the peer's allocation are mapped at addresses of the device that reads it, when an operator first uses it there, and
 * until it is freed. A device process sees nothing of other devices otherwise.
 */
#include "ascendcl/memory/peers.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/memory/aliases.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/stream/stream.h"

#include <stdlib.h>
#include <string.h>

typedef struct sight sight;

/* What one device sees of an allocation of another one. */
struct sight {
    sight *next;
    emu_device *device, *peer;
    uint64_t start;          /* of its first page, in the peer's memory */
    uint64_t size;           /* of its pages */
    const uint8_t *block;    /* where the allocation begins */
    uint8_t *address;        /* where the device has the pages */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sight *sights;
static _Atomic uint32_t sight_count;

bool emu_peers_reach(const emu_device *device, const emu_device *peer) {
    const char *product = emu_config()->soc.product;
    if (product != NULL && strcmp(product, "A3") == 0) return true;
    return (device->peers >> peer->id & 1) != 0 || (peer->peers >> device->id & 1) != 0;
}

/* Maps an allocation of the peer. The lock is held. */
static int see(emu_device *device, emu_device *peer, const uint8_t *block, uint64_t size, sight **result) {
    uint64_t offset = emu_memory_offset(peer, block), lead = offset % emu_page_size();
    sight *item = calloc(1, sizeof *item);
    if (item == NULL) abort();
    void *address = NULL;
    int status = emu_memory_reserve_foreign(device, size, lead, true, &address);
    if (status == 0) {
        *item = (sight){sights, device, peer, offset - lead, emu_whole_pages(lead + size), block, address};
        status = emu_alias_map(device, address, item->size, peer->memory_fd, item->start);
        if (status != 0) emu_memory_release_foreign(device, item->address);
    }
    if (status != 0) {
        free(item);
        return status;
    }
    sights = item;
    sight_count++;
    *result = item;
    return 0;
}

/* Where a device finds memory that is pinned in the peer. */
static int find(emu_device *device, emu_device *peer, const void *address, const char *what, uint64_t *offset) {
    const uint8_t *block;
    uint64_t size, inside = emu_memory_offset(peer, address);
    if (!emu_memory_own_block(peer, address, &block, &size))
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_NOT_SUPPORTED",
                        "%s (%p) is on device %d in memory that is mapped (aclrtMapMem, aclrtIpcMemImportByKey); operators of device %d reach "
                        "only memory of aclrtMalloc there", what, address, peer->id, device->id);
    pthread_mutex_lock(&lock);
    sight *found = sights;
    while (found != NULL && (found->device != device || found->peer != peer || found->block != block)) found = found->next;
    int status = found != NULL ? 0 : see(device, peer, block, size, &found);
    if (status == 0) *offset = emu_memory_offset(device, found->address) + inside - found->start;
    pthread_mutex_unlock(&lock);
    return status;
}

int emu_operand_pin(emu_device *device, const void *address, uint64_t size, const char *what, emu_device **home, uint64_t *offset) {
    emu_device *peer = emu_memory_device(address);
    *home = device;
    *offset = 0;
    if (peer == NULL || peer == device) {
        int status = emu_memory_pin(device, address, size, what);
        if (status == 0) *offset = emu_memory_offset(device, address);
        return status;
    }
    if (!emu_peers_reach(device, peer))
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_WRONG_CONTEXT",
                        "%s (%p) is on device %d; operators of device %d reach it after aclrtDeviceEnablePeerAccess", what, address, peer->id,
                        device->id);
    int status = emu_memory_pin(peer, address, size, what);
    if (status != 0) return status;
    status = find(device, peer, address, what, offset);
    if (status != 0) emu_memory_unpin(peer, address);
    else *home = peer;
    return status;
}

/* Takes out what is seen of one allocation, or (NULL) all that a device sees or shows. */
static sight *take(const emu_device *device, const void *block) {
    pthread_mutex_lock(&lock);
    sight **link = &sights;
    while (*link != NULL && !((*link)->peer == device && (block == NULL || (*link)->block == block)) &&
           !(block == NULL && (*link)->device == device))
        link = &(*link)->next;
    sight *found = *link;
    if (found != NULL) {
        *link = found->next;
        sight_count--;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void end(sight *which) {
    if (emu_memory_pinned(which->peer, which->block)) emu_streams_drain(which->device); /* queued work uses it */
    emu_alias_unmap(which->device, which->address, which->size);
    emu_memory_release_foreign(which->device, which->address);
    free(which);
}

void emu_peers_freeing(emu_device *device, const void *address) {
    if (sight_count == 0 || emu_memory_pinned(device, address)) return; /* what is in use is not freed */
    for (sight *found; (found = take(device, address)) != NULL;) end(found);
}

void emu_peers_clear(emu_device *device) {
    for (sight *found; (found = take(device, NULL)) != NULL;) end(found);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_PEERS, &lock, NULL); }
