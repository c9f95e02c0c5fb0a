/*
 * How many processes use a device. A place is a socket with a name in the abstract namespace, which the system releases when
 * its process ends, in whatever way: nothing is left in the file system. The devices of a host are shared by one user's
 * processes with the same ASCEND_EMULATOR_HOST.
 */
#include "ascendcl/core/processes.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* FNV-1a: the abstract namespace allows only short names. */
static uint64_t hash(const char *text) {
    uint64_t value = 0xcbf29ce484222325ull;
    for (; *text != 0; text++) value = (value ^ (unsigned char)*text) * 0x100000001b3ull;
    return value;
}

/* Whether the place was free. */
static bool take(int fd, int device, int place) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *host = getenv("ASCEND_EMULATOR_HOST");
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "ascend-emulator-%u-%016llx-%d-%d", (unsigned)getuid(),
                          (unsigned long long)hash(host != NULL ? host : ""), device, place);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return bind(fd, (struct sockaddr *)&name, size) == 0;
}

int emu_process_join(emu_device *device) {
    if (device->place >= 0) return 0;
    int low = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd = low < 0 ? -1 : emu_move_up(low);
    if (fd < 0) return emu_fail(ACL_ERROR_RT_DEV_SETUP_ERROR, "EMULATOR_OUT_OF_DESCRIPTORS", "no place on device %d: %s", device->id, strerror(errno));
    int logic = emu_logic_device(device->id), places = emu_config()->soc.processes, place = 0;
    while (place < places && !take(fd, logic, place)) {
        if (errno != EADDRINUSE) {
            int failed = emu_fail(ACL_ERROR_RT_DEV_SETUP_ERROR, NULL, "no place on device %d: %s", device->id, strerror(errno));
            close(fd);
            return failed;
        }
        place++;
    }
    if (place == places) {
        close(fd);
        return emu_fail(ACL_ERROR_RT_DEV_SETUP_ERROR, "E30003", "%d processes use device %d, and it takes no more", places, device->id);
    }
    device->place = fd;
    return 0;
}

void emu_process_leave(emu_device *device) {
    if (device->place >= 0) close(device->place);
    device->place = -1;
}

/* The places belong to the parent. */
static void forked_child(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) emu_process_leave(&emu_devices[i]);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_PROCESSES, NULL, forked_child); }
