/* Live objects, the leak report, and the end of the program. */
#include "ascendcl/runtime/inspect.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/host_memory.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/validate/validate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t live_device_memory(void) {
    uint64_t total = 0;
    for (int i = 0; i < EMU_MAX_DEVICES; i++) total += emu_memory_live(&emu_devices[i]);
    return total;
}

API int64_t aclemuLiveCount(const char *kind) {
    if (emu_is_forked()) return 0;
    if (kind != NULL && strcmp(kind, "allocation") == 0) return (int64_t)live_device_memory();
    if (kind != NULL && strcmp(kind, "host_allocation") == 0) return (int64_t)emu_host_live();
    if (kind != NULL) {
        emu_kind found = emu_kind_of(kind);
        return found == KIND_NONE ? -1 : (int64_t)emu_handles_live(found);
    }
    uint64_t total = live_device_memory() + emu_host_live();
    for (int i = 1; i < KIND_COUNT; i++) total += emu_handles_live(i);
    return (int64_t)total;
}

typedef size_t (*describing)(char *buffer, size_t size);

static size_t put_text(char *buffer, size_t size, size_t at, const char *text) {
    return at + (size_t)snprintf(at < size ? buffer + at : NULL, at < size ? size - at : 0, "%s", text);
}

API size_t aclemuDump(char *buffer, size_t size) {
    static const struct {
        const char *before;
        describing describe;
    } parts[] = {
        {"{\"handles\": [", emu_handles_describe},
        {"], \"allocations\": [", emu_memory_describe},
        {"], \"host_allocations\": [", emu_host_describe},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        at = put_text(buffer, size, at, parts[i].before);
        if (!emu_is_forked()) at += parts[i].describe(at < size ? buffer + at : NULL, at < size ? size - at : 0);
    }
    return put_text(buffer, size, at, "]}");
}

static bool reported;
static _Atomic bool leaked;

void emu_report_again(void) { reported = false; }

void emu_report_leaks(void) {
    if (reported || emu_is_forked()) return;
    reported = true;
    char text[1024];
    size_t at = 0;
    for (int i = 1; i < KIND_COUNT; i++) {
        uint64_t live = emu_handles_live(i);
        if (live > 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu %s", at > 0 ? ", " : "", (unsigned long long)live,
                                   emu_kind_name(i));
    }
    uint64_t device = live_device_memory(), host = emu_host_live();
    if (device > 0)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu blocks of device memory", at > 0 ? ", " : "",
                               (unsigned long long)device);
    if (host > 0)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu blocks of host memory", at > 0 ? ", " : "",
                               (unsigned long long)host);
    if (at == 0) return;
    leaked = true;
    if (emu_validates()) emu_validate_leaks();
    if (emu_config()->tell_leaks || emu_config()->strict) fprintf(stderr, "EMULATOR_LEAK: never released: %s\n", text);
}

__attribute__((destructor)) static void at_exit(void) {
    if (emu_is_forked()) return;
    emu_report_leaks();
    if (emu_validates()) emu_validate_summary();
    for (int i = 0; i < EMU_MAX_DEVICES; i++) emu_link_stop(&emu_devices[i]);
    if (leaked && emu_config()->strict) {
        fflush(NULL);
        _exit(86);
    }
}
