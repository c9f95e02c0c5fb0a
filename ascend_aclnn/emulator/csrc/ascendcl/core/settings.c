/* The settings of the environment, read once. */
#include "ascendcl/core/settings.h"

#include "socs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (1ull << 46) /* more than any address space */

static emu_settings settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static emu_soc find_soc(const char *name) {
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        size_t length = strlen(socs[i].name);
        if (socs[i].prefix ? strncmp(name, socs[i].name, length) == 0 : strcmp(name, socs[i].name) == 0) {
            emu_soc soc = socs[i];
            soc.name = name;
            return soc;
        }
    }
    return (emu_soc){.name = name, .memory = 64ull << 30, .streams = 1984, .events = 65535, .processes = 63};
}

/* A size with an optional suffix K, M, G or T (of 1024). */
static bool parse_bytes(const char *text, uint64_t *bytes) {
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *text < '0' || *text > '9') return false;
    const char *suffixes = "kmgt", *suffix = *end != 0 ? strchr(suffixes, *end | 0x20) : NULL;
    int shift = suffix != NULL ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (suffix != NULL) end++;
    if (*end != 0 || value > MOST_BYTES >> shift) return false;
    *bytes = value << shift;
    return true;
}

static char settings_flaw[300]; /* why a variable leaves no device; empty otherwise */

static void refuse(const char *variable, const char *text, const char *allowed) {
    if (settings_flaw[0] == 0) snprintf(settings_flaw, sizeof settings_flaw, "%s is '%.100s'; it must be %s", variable, text, allowed);
}

static bool flag(const char *name, bool otherwise) {
    const char *text = getenv(name);
    if (text == NULL || *text == 0) return otherwise;
    return strcmp(text, "0") != 0;
}

static int logic_devices[EMU_MAX_DEVICES]; /* by the program's numbering */

static const char *visible_flaw; /* why ASCEND_RT_VISIBLE_DEVICES leaves no device; NULL otherwise */

/* How many devices ASCEND_RT_VISIBLE_DEVICES leaves. It lists numbers between commas and is read up to the first entry that is
 * not the number of a device. Numbers that repeat or descend make the whole list invalid. Devices are renumbered from 0; here
 * they do not differ. */
static int visible_devices(int devices) {
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");
    int count = 0;
    long last = -1;
    for (int i = 0; i < devices; i++) logic_devices[i] = i;
    if (text == NULL || devices == 0) return devices;
    while (*text >= '0' && *text <= '9' && count < devices) {
        char *end;
        long device = strtol(text, &end, 10);
        if (device >= devices || (*end != 0 && *end != ',')) break;
        if (device <= last) {
            visible_flaw = device == last ? "numbers must not repeat" : "numbers must ascend";
            return 0;
        }
        last = device;
        logic_devices[count++] = (int)device;
        text = *end == ',' ? end + 1 : end;
    }
    if (count == 0) visible_flaw = "it must begin with the number of a device";
    return count;
}

static char directory[4096]; /* where the libraries are */

static void find_directory(void) {
    Dl_info info;
    if (dladdr((void *)find_directory, &info) != 0 && info.dli_fname != NULL) {
        char *real = realpath(info.dli_fname, NULL);
        snprintf(directory, sizeof directory, "%s", real != NULL ? real : info.dli_fname);
        free(real);
        char *slash = strrchr(directory, '/');
        if (slash != NULL) *slash = 0;
    }
}

const char *emu_directory(void) { return directory; }

void emu_setting(const char *variable, const char *key, char *value, size_t size) {
    const char *text = getenv(variable);
    value[0] = 0;
    if (text != NULL && *text != 0) {
        snprintf(value, size, "%s", text);
        return;
    }
    char path[4200], line[8192];
    snprintf(path, sizeof path, "%s/emulator.conf", directory);
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    size_t length = strlen(key);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, key, length) == 0 && line[length] == '=') snprintf(value, size, "%s", line + length + 1);
    }
    fclose(file);
}

/* The release of one package: that of the whole CANN, or of a pair "toolkit=9.1.0,ops=9.1.1" the one of that name. */
static const char *part_of(const char *release, const char *name, const char *other) {
    const char *at = strstr(release, name);
    if (at == NULL || strstr(release, other) == NULL) return release;
    at += strlen(name);
    return strndup(at, strcspn(at, ","));
}

/* The VALIDATE_... of a list of words. */
static unsigned parse_validate(const char *text) {
    unsigned result = 0;
    if (text == NULL) return 0;
    for (const char *at = text; *at != 0; at += *at == ',') {
        size_t length = strcspn(at, ",");
        if (length == 4 && strncmp(at, "sync", length) == 0) result |= VALIDATE_SYNC;
        else if (length == 6 && strncmp(at, "memory", length) == 0) result |= VALIDATE_MEMORY;
        else if (length == 4 && strncmp(at, "host", length) == 0) result |= VALIDATE_HOST;
        else refuse("ASCEND_EMULATOR_VALIDATE", text, "a list of memory, sync and host, as memory,sync");
        at += length;
    }
    return result;
}

static void read_settings(void) {
    static char release[64];
    find_directory();
    const char *soc = getenv("ASCEND_ACLNN_SOC");
    settings.soc = find_soc(strdup(soc != NULL && *soc != 0 ? soc : "Ascend910B1"));
    const char *memory = getenv("ASCEND_EMULATOR_MEMORY");
    if (memory != NULL && *memory != 0 && !parse_bytes(memory, &settings.soc.memory))
        refuse("ASCEND_EMULATOR_MEMORY", memory, "a number of bytes up to 64T, as 512M or 16G");
    const char *streams = getenv("ASCEND_EMULATOR_STREAMS");
    if (streams != NULL && strcmp(streams, "eager") == 0) settings.streams = STREAMS_EAGER;
    if (streams != NULL && strcmp(streams, "deferred") == 0) settings.streams = STREAMS_DEFERRED;
    const char *alignment = getenv("ASCEND_EMULATOR_ALIGNMENT");
    if (alignment != NULL && strcmp(alignment, "allow") == 0) settings.alignment = ALIGNMENT_ALLOW;
    if (alignment != NULL && strcmp(alignment, "refuse") == 0) settings.alignment = ALIGNMENT_REFUSE;
    settings.noop = flag("ASCEND_EMULATOR_NOOP", false);
    settings.strict = flag("ASCEND_EMULATOR_STRICT", false);
    emu_setting("ASCEND_EMULATOR_CANN", "cann", release, sizeof release);
    settings.cann = part_of(release, "toolkit=", "ops=");
    settings.operators = part_of(release, "ops=", "toolkit=");
    settings.tell_leaks = flag("ASCEND_EMULATOR_LEAKS", true);
    const char *delay = getenv("ASCEND_EMULATOR_LAUNCH_DELAY");
    settings.launch_delay = delay != NULL ? atoi(delay) : 0;
    settings.repeatable = flag("ASCEND_EMULATOR_REPEATABLE", true);
    const char *fill = getenv("ASCEND_EMULATOR_FILL");
    settings.fill = fill != NULL && *fill != 0 ? (int)(strtol(fill, NULL, 0) & 0xff) : -1;
    settings.validate = parse_validate(getenv("ASCEND_EMULATOR_VALIDATE"));
    const char *workspace = getenv("ASCEND_EMULATOR_WORKSPACE");
    uint64_t bytes = 0;
    if (workspace != NULL && *workspace != 0 && !parse_bytes(workspace, &bytes))
        refuse("ASCEND_EMULATOR_WORKSPACE", workspace, "a number of bytes up to 64T, as 0 or 1M");
    settings.workspace = workspace != NULL && *workspace != 0 ? (int64_t)bytes : -1;
}

const emu_settings *emu_config(void) {
    pthread_once(&settings_once, read_settings);
    return &settings;
}

bool emu_claims(int major, int minor) {
    int claimed_major = 0, claimed_minor = 0;
    sscanf(emu_config()->cann, "%d.%d", &claimed_major, &claimed_minor);
    return claimed_major > major || (claimed_major == major && claimed_minor >= minor);
}

static int device_count;

static void count_devices(void) {
    const char *text = getenv("ASCEND_EMULATOR_DEVICES");
    char *end = NULL;
    long devices = text != NULL && *text != 0 ? strtol(text, &end, 10) : 2;
    if (devices < 0 || devices > EMU_MAX_DEVICES || (end != NULL && *end != 0)) {
        char allowed[40];
        snprintf(allowed, sizeof allowed, "a number from 0 to %d", EMU_MAX_DEVICES);
        refuse("ASCEND_EMULATOR_DEVICES", text, allowed);
    }
    emu_config();
    device_count = settings_flaw[0] != 0 ? 0 : visible_devices((int)devices);
}

int emu_device_count(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_devices);
    return device_count;
}

const char *emu_visible_flaw(void) { return visible_flaw; }

const char *emu_settings_flaw(void) { return settings_flaw[0] != 0 ? settings_flaw : NULL; }

int emu_logic_device(int device) { return device >= 0 && device < emu_device_count() ? logic_devices[device] : -1; }
