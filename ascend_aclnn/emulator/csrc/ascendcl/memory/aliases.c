/*
 * Memory of other files at addresses of a device.
 *
 * Both sides map it at the same address, so that operators read it like the device's own memory. The device process opens the
 * file through this process's descriptors in /proc, and keeps none.
 */
#include "ascendcl/memory/aliases.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/memory/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct alias alias;

struct alias {
    alias *next;
    emu_device *device;
    uint8_t *address;
    uint64_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static alias *aliases;

/* Maps a file, or the device's own memory (-1), in the device process. */
static int tell_process(emu_device *device, const void *address, uint64_t size, int fd, uint64_t offset) {
    int64_t words[] = {(int64_t)emu_memory_offset(device, address), (int64_t)size, getpid(), fd, (int64_t)offset};
    emu_buffer request = {0}, answer = {0};
    emu_buffer_put(&request, words, sizeof words);
    int status = emu_link_call(device, CALL_MAP, &request, &answer);
    if (status != 0 && answer.size > 0) {
        emu_buffer_put(&answer, "", 1);
        emu_fail(status, "EMULATOR_NOT_SHARED", "%s", (const char *)answer.data);
    }
    emu_buffer_free(&request);
    emu_buffer_free(&answer);
    return status;
}

static int place(emu_device *device, void *address, uint64_t size, int fd, uint64_t offset) {
    if (!emu_memory_place(device, address, size, fd, offset))
        return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "%llu bytes cannot be mapped at %p",
                        (unsigned long long)size, address);
    return emu_config()->noop ? 0 : tell_process(device, address, size, fd, offset);
}

int emu_alias_map(emu_device *device, void *address, uint64_t size, int fd, uint64_t offset) {
    alias *added = malloc(sizeof *added);
    if (added == NULL) abort();
    int status = place(device, address, size, fd, offset);
    if (status != 0) {
        (void)emu_memory_place(device, address, size, -1, 0);
        free(added);
        return status;
    }
    pthread_mutex_lock(&lock);
    *added = (alias){aliases, device, address, size};
    aliases = added;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* A lost or ended device process has nothing mapped. */
static void put_back(emu_device *device, uint8_t *address, uint64_t size) {
    if (place(device, address, size, -1, 0) != 0) free(emu_take_message());
}

void emu_alias_unmap(emu_device *device, void *address, uint64_t size) {
    alias *found = NULL;
    pthread_mutex_lock(&lock);
    for (alias **link = &aliases; *link != NULL; link = &(*link)->next) {
        if ((*link)->address == address && (*link)->device == device) {
            found = *link;
            *link = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (found != NULL) put_back(device, address, size);
    free(found);
}

void emu_alias_clear(emu_device *device) {
    for (;;) {
        pthread_mutex_lock(&lock);
        const alias *found = aliases;
        while (found != NULL && found->device != device) found = found->next;
        uint8_t *address = found != NULL ? found->address : NULL;
        uint64_t size = found != NULL ? found->size : 0;
        pthread_mutex_unlock(&lock);
        if (address == NULL) return;
        emu_alias_unmap(device, address, size);
    }
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_ALIASES, &lock, NULL); }
