/*
 * Registered host memory at addresses of a device.
 *
 * The pages of the range are replaced by pages of a file with the same bytes, at the same addresses, and the file is mapped at
 * addresses of the device. Program and operators see each other's writes at once. Unregistering brings private pages back.
 * Memory that is backed by a file, or shared already, is not changed.
 */
#include "ascendcl/memory/host_mapping.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/memory/aliases.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>


typedef struct mapping mapping;

struct mapping {
    mapping *next;
    emu_device *device;
    uint8_t *host, *address;
    uint64_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mapping *mappings;

/* Whether a range is private, anonymous memory outside the stack that the process may read and write. */
static bool is_private(const uint8_t *start, uint64_t size) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    uintptr_t at = (uintptr_t)start, end = at + size;
    while (maps != NULL && at < end && getline(&line, &room, maps) > 0) {
        unsigned long from, to, inode;
        char mode[5];
        if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu", &from, &to, mode, &inode) != 4 || to <= at) continue;
        if (from > at || inode != 0 || strcmp(mode, "rw-p") != 0 || strstr(line, "[stack") != NULL) break;
        at = to;
    }
    free(line);
    if (maps != NULL) fclose(maps);
    return at >= end;
}

/* Replaces the pages of a range by pages with the same bytes: of a file, or private ones (-1). */
static bool replace_pages(uint8_t *start, uint64_t size, int fd) {
    uint8_t *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (copy == MAP_FAILED) return false;
    memcpy(copy, start, size);
    bool done = mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, start) == start;
    if (!done) munmap(copy, size);
    return done;
}

static void end_mapping(mapping *which) {
    if (emu_memory_pinned(which->device, which->address)) emu_streams_drain(which->device); /* queued work uses it */
    emu_alias_unmap(which->device, which->address, which->size);
    emu_memory_release_foreign(which->device, which->address);
    (void)replace_pages(which->host, which->size, -1); /* shared pages serve as well */
    free(which);
}

int emu_host_map(emu_device *device, void *host, uint64_t size, void **address) {
    *address = host;
    if ((uintptr_t)host % emu_page_size() != 0 || size % emu_page_size() != 0 || !is_private(host, size)) return 0;
    mapping *added = malloc(sizeof *added);
    if (added == NULL) abort();
    int low = memfd_create("ascend-host-memory", MFD_CLOEXEC), fd = low < 0 ? -1 : emu_move_up(low);
    void *place = NULL;
    int status = fd >= 0 && ftruncate(fd, (off_t)size) == 0
                     ? emu_memory_reserve_foreign(device, size, 0, true, &place)
                     : emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "EMULATOR_OUT_OF_MEMORY", "%llu bytes cannot be shared with the device", (unsigned long long)size);
    if (status == 0 && (status = emu_alias_map(device, place, size, fd, 0)) == 0 && !replace_pages(host, size, fd)) {
        emu_alias_unmap(device, place, size);
        status = emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "EMULATOR_OUT_OF_MEMORY", "%llu bytes cannot be mapped", (unsigned long long)size);
    }
    if (fd >= 0) close(fd);
    if (status != 0) {
        if (place != NULL) emu_memory_release_foreign(device, place);
        free(added);
        return status;
    }
    *address = place;
    if (emu_validates()) emu_validate_alias(place, size, host);
    pthread_mutex_lock(&lock);
    *added = (mapping){mappings, device, host, place, size};
    mappings = added;
    pthread_mutex_unlock(&lock);
    return 0;
}

void *emu_host_mapped(const void *host) {
    void *found = NULL;
    pthread_mutex_lock(&lock);
    for (const mapping *m = mappings; m != NULL && found == NULL; m = m->next) {
        uint64_t inside = (uint64_t)((uintptr_t)host - (uintptr_t)m->host);
        if (inside < m->size) found = m->address + inside;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Takes out the mapping of a range, or, without one, any mapping of a device. */
static mapping *take(const void *host, const emu_device *device) {
    pthread_mutex_lock(&lock);
    mapping **link = &mappings;
    while (*link != NULL && (host != NULL ? (*link)->host != host : (*link)->device != device)) link = &(*link)->next;
    mapping *found = *link;
    if (found != NULL) *link = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

void emu_host_unmap(void *host) {
    mapping *found = take(host, NULL);
    if (found != NULL) end_mapping(found);
}

void emu_host_unmap_all(emu_device *device) {
    for (mapping *found; (found = take(NULL, device)) != NULL;) end_mapping(found);
}

/* The child gets private pages, so that its writes do not reach the parent. */
static void forked_child(void) {
    for (; mappings != NULL; mappings = mappings->next) (void)replace_pages(mappings->host, mappings->size, -1);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_HOST_MAPPING, &lock, forked_child); }
