/* Devices and contexts: the tables, and the current context of each thread. */
#include "ascendcl/core/device.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/settings.h"

#include <fcntl.h>
#include <unistd.h>

pthread_mutex_t emu_world = PTHREAD_MUTEX_INITIALIZER;
emu_device emu_devices[EMU_MAX_DEVICES];
int64_t emu_process_options[EMU_OPTIONS];

static __thread emu_context *current; /* with a reference */
static pthread_key_t current_key;     /* the same, for the end of the thread */

void *emu_current_handle(void) { return current != NULL ? current->base.handle : NULL; }

void emu_set_current(emu_context *context) {
    emu_context *previous = current;
    if (context != NULL) emu_object_hold(context);
    current = context;
    pthread_setspecific(current_key, context);
    emu_object_release(previous);
}

static void end_thread(void *context) {
    current = NULL;
    emu_object_release(context);
}

int emu_default_device = -1;
int (*emu_set_default_device)(int32_t id);

int emu_check_device(int32_t id) {
    int count = emu_device_count();
    if (id >= 0 && id < count) return 0;
    if (emu_settings_flaw() != NULL) return emu_fail(ACL_ERROR_RT_NO_DEVICE, NULL, "%s", emu_settings_flaw());
    return emu_fail(ACL_ERROR_RT_INVALID_DEVICEID, NULL, "device is %d; this host has %d (0 to %d)", id, count, count - 1);
}

int emu_current_context(emu_context **context) {
    if (current == NULL && emu_default_device >= 0) { /* most functions set the default device implicitly */
        int status = emu_set_default_device(emu_default_device);
        if (status != 0) return status;
    }
    if (current == NULL)
        return emu_fail(ACL_ERROR_RT_CONTEXT_NULL, "EMULATOR_NO_DEVICE",
                        "no device is set on this thread; aclrtSetDevice or aclrtSetCurrentContext must come first");
    if (current->ended)
        return emu_fail(ACL_ERROR_RT_CONTEXT_NULL, "EMULATOR_NO_DEVICE",
                        "the device or context that was set on this thread has been reset or destroyed");
    *context = current;
    return 0;
}

emu_device *emu_context_device(emu_context *context) { return context->device; }

int64_t emu_option(const emu_context *context, int option) {
    return context->option_set[option] ? context->options[option] : emu_process_options[option];
}

int emu_move_up(int fd) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    close(fd);
    return moved;
}

/* The child has no device: memory and device process belong to its parent. */
static void forked_child(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        if (emu_devices[i].open) emu_set_forked();
    }
}

__attribute__((constructor)) static void at_start(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        device->id = i;
        device->memory_fd = device->control = device->process = device->place = -1;
        pthread_mutex_init(&device->lock, NULL);
        pthread_mutex_init(&device->link_lock, NULL);
    }
    pthread_key_create(&current_key, end_thread);
    emu_at_fork(FORK_DEVICES, &emu_world, forked_child);
}
