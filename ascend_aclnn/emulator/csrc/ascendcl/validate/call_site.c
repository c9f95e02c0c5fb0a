/* Call sites are taken as a function of the interface begins, when the emulator holds no lock, and kept once each. */
#include "ascendcl/validate/call_site.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/frames.h"
#include "ascendcl/core/settings.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#define MOST_FRAMES 16
#define OWN_FRAMES 6     /* of the emulator, at most, before the client's */
#define PLACE_FRAMES 3u  /* of the client, in a line of text */
#define BUCKETS 4096u

typedef struct site site;

struct site {
    site *next;          /* of the same bucket */
    uint32_t number, count;
    bool is_python;
    bool from_python;    /* a native one: Python's foreign function library is the caller */
    char *place, *frames;
    emu_frame keys[];
};

static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;
static site *buckets[BUCKETS];
static site **sites;     /* by number, less one */
static uint32_t site_count, site_room;

size_t emu_json_text(char *buffer, size_t size, const char *string) {
    size_t at = 0;
#define PUT(character) do { if (at + 1 < size) buffer[at++] = (character); } while (0)
    PUT('"');
    for (const unsigned char *c = (const unsigned char *)string; *c != 0 && at + 8 < size; c++) {
        if (*c == '"' || *c == '\\') PUT('\\');
        if (*c >= ' ') PUT((char)*c);
        else at += (size_t)snprintf(buffer + at, size - at, "\\u%04x", *c);
    }
    PUT('"');
    if (at < size) buffer[at] = 0;
    return at;
}

/* ---------------------------------------------------------------------------------------------------------------- texts */

/* What is installed is less telling than the client's own code. */
static bool is_installed(const char *file) {
    return strstr(file, "/site-packages/") != NULL || strstr(file, "/dist-packages/") != NULL || strstr(file, "/ascend_aclnn/") != NULL ||
           strstr(file, "/lib/python3") != NULL || strncmp(file, "ascend_aclnn.ops/", 17) == 0 || strncmp(file, "<frozen", 7) == 0 ||
           strncmp(file, "/lib", 4) == 0 || strncmp(file, "/usr/lib", 8) == 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

typedef struct {
    char frames[8192];
    size_t at;
    char place[300];
    unsigned own;        /* how many frames in `place` are not of installed packages */
    const char *first;   /* the file of the first frame */
    bool named;          /* `place` is a function that calls this file */
    bool from_python;
} writing;

static void write_frame(void *context, const char *file, long line, const char *function) {
    writing *w = context;
    char name[1024];
    if (w->at == 1) w->from_python = strstr(file, "libffi") != NULL || strstr(file, "_ctypes") != NULL; /* of native frames */
    if (w->at + 2400 > sizeof w->frames) return;
    if (w->at > 1) w->frames[w->at++] = ',';
    w->frames[w->at++] = '[';
    emu_json_text(name, sizeof name, file);
    w->at += (size_t)snprintf(w->frames + w->at, sizeof w->frames - w->at, "%s,%ld,", name, line);
    emu_json_text(name, sizeof name, function);
    w->at += (size_t)snprintf(w->frames + w->at, sizeof w->frames - w->at, "%s]", name);
    bool own = !is_installed(file);
    bool names = line < 0 && !w->named && *function != '?' && w->own == 0 && w->first != NULL && strcmp(w->first, file) != 0;
    if (w->first == NULL) w->first = file;
    if (own ? w->own == PLACE_FRAMES : w->place[0] != 0 && !names) return;
    w->named = names;
    size_t at = w->own > 0 ? strlen(w->place) : 0, room = sizeof w->place - at;
    const char *mark = w->own > 0 ? " < " : "";
    w->own += own;
    if (line >= 0) snprintf(w->place + at, room, "%s%s:%ld in %s", mark, base_name(file), line, function);
    else if (*function != '?') snprintf(w->place + at, room, "%s%s in %s", mark, base_name(file), function);
    else snprintf(w->place + at, room, "%s%s+%#lx", mark, base_name(file), (unsigned long)-line);
}

static site **bucket_of(const emu_frame *keys, uint32_t count, bool is_python) {
    uint64_t hash = is_python;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ (uintptr_t)keys[i].code ^ (uint64_t)(uint32_t)keys[i].at << 44) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return &buckets[hash & (BUCKETS - 1)];
}

static site *known_site(const emu_frame *keys, uint32_t count, bool is_python) {
    pthread_mutex_lock(&sites_lock);
    site *s = *bucket_of(keys, count, is_python);
    while (s != NULL && !(s->count == count && s->is_python == is_python && memcmp(s->keys, keys, count * sizeof *keys) == 0)) s = s->next;
    pthread_mutex_unlock(&sites_lock);
    return s;
}

static site *new_site(const emu_frame *keys, uint32_t count, bool is_python, writing *w) {
    w->frames[w->at++] = ']';
    site *s = calloc(1, sizeof *s + count * sizeof *keys);
    if (s == NULL) abort();
    s->count = count;
    s->is_python = is_python;
    s->from_python = w->from_python;
    s->place = strdup(w->place);
    s->frames = strndup(w->frames, w->at);
    memcpy(s->keys, keys, count * sizeof *keys);
    site **bucket = bucket_of(keys, count, is_python);
    pthread_mutex_lock(&sites_lock);
    if (site_count == site_room) {
        site_room = site_room * 2 + 256;
        sites = realloc(sites, site_room * sizeof(site *));
        if (sites == NULL) abort();
    }
    sites[site_count++] = s;
    s->number = site_count;
    s->next = *bucket;
    *bucket = s;
    pthread_mutex_unlock(&sites_lock);
    return s;
}

static const site *find_site(uint32_t number) {
    pthread_mutex_lock(&sites_lock);
    const site *s = number > 0 && number <= site_count ? sites[number - 1] : NULL;
    pthread_mutex_unlock(&sites_lock);
    return s;
}

const char *emu_site_place(uint32_t number) {
    const site *s = find_site(number);
    return s != NULL ? s->place : "";
}

const char *emu_site_frames(uint32_t number) {
    const site *s = find_site(number);
    return s != NULL ? s->frames : "[]";
}

bool emu_site_is_python(uint32_t number) {
    const site *s = find_site(number);
    return s != NULL && s->is_python;
}

/* --------------------------------------------------------------------------------------------------------------- frames */

/* Python's frames. The interpreter's lock is taken where the thread has released it around the call. */
static uint32_t python_site(void) {
    emu_frame keys[MOST_FRAMES];
    uint32_t number = 0;
    int state = emu_python_begin();
    uint32_t count = emu_python_frames(MOST_FRAMES, keys, NULL, NULL, false);
    const site *s = count > 0 ? known_site(keys, count, true) : NULL;
    if (s == NULL && count > 0) { /* once more, for the lines */
        writing w = {.frames = "[", .at = 1};
        emu_python_frames(count, NULL, write_frame, &w, true);
        s = new_site(keys, count, true, &w);
    }
    if (s != NULL) number = s->number;
    emu_python_end(state);
    return number;
}

/* Of libgcc_s, which is loaded when it is needed, as backtrace does: clients that never walk need not have it. */
static struct {
    pthread_once_t once;
    _Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn, void *);
    uintptr_t (*address)(struct _Unwind_Context *), (*frame)(struct _Unwind_Context *);
} unwinder = {.once = PTHREAD_ONCE_INIT};

static void find_unwinder(void) {
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    *(void **)&unwinder.address = dlsym(library, "_Unwind_GetIP");
    *(void **)&unwinder.frame = dlsym(library, "_Unwind_GetCFA");
    *(void **)&unwinder.walk = dlsym(library, "_Unwind_Backtrace");
}

/* A walk along the native stack, which takes longer than all else about a launch. One that begins at the same place of the same stack,
 * where each return address still lies where it lay, would go the same way. */
typedef struct {
    const char *routine;
    const void *stack;
    pthread_t thread;
    int most, count;
    bool repeatable;         /* all return addresses lie where they are looked for; on aarch64 they need not */
    const site *site;
    void *addresses[OWN_FRAMES + MOST_FRAMES];
    void *const *places[OWN_FRAMES + MOST_FRAMES];
} walk;

#define WALKS 1024u
#define ALIKE 8u             /* how many that begin alike are kept */

static walk walks[WALKS / ALIKE][ALIKE]; /* under the lock of the sites */

static const site *repeated(const walk *known, const walk *now) {
    if (known->site == NULL || known->routine != now->routine || known->stack != now->stack || known->most != now->most ||
        !pthread_equal(known->thread, now->thread))
        return NULL;
    for (int i = 0; i < known->count; i++) {
        if (*known->places[i] != known->addresses[i]) return NULL;
    }
    return known->site;
}

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *argument) {
    walk *w = argument;
    int i = w->count++ - 1;  /* the first frame is native_site's, whose own calls overwrite its return address */
    if (i < 0) return _URC_NO_REASON;
    w->addresses[i] = (void *)unwinder.address(context);
    w->places[i] = (void *const *)unwinder.frame(context) - 1;
    w->repeatable = w->repeatable && *w->places[i] == w->addresses[i];
    return i + 1 < w->most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static const site *site_of(void *const *addresses, int count) {
    emu_frame keys[OWN_FRAMES + MOST_FRAMES];
    memset(keys, 0, sizeof keys);
    for (int i = 0; i < count; i++) keys[i].code = addresses[i];
    const site *s = known_site(keys, (uint32_t)count, false);
    if (s != NULL) return s;
    writing w = {.frames = "[", .at = 1};
    emu_native_frames(addresses, count, (void *)site_of, write_frame, &w);
    return new_site(keys, (uint32_t)count, false, &w);
}

static __attribute__((noinline)) const site *native_site(const char *routine, int most) {
    walk now = {.routine = routine, .stack = __builtin_frame_address(0), .thread = pthread_self(), .most = most, .repeatable = true};
    uint64_t hash = ((uintptr_t)now.stack ^ (uintptr_t)routine) * 0x9e3779b97f4a7c15ull >> 32;
    walk *known = walks[hash % (WALKS / ALIKE)];
    const site *s = NULL;
    pthread_mutex_lock(&sites_lock);
    for (uint32_t i = 0; s == NULL && i < ALIKE; i++) s = repeated(&known[i], &now);
    pthread_mutex_unlock(&sites_lock);
    if (s != NULL) return s;
    pthread_once(&unwinder.once, find_unwinder);
    if (unwinder.walk != NULL) unwinder.walk(note_frame, &now);
    now.count -= now.count > 0;
    now.site = site_of(now.addresses, now.count);
    if (now.repeatable) {
        static uint32_t oldest;
        pthread_mutex_lock(&sites_lock);
        known[oldest++ % ALIKE] = now;
        pthread_mutex_unlock(&sites_lock);
    }
    return now.site;
}

/* ----------------------------------------------------------------------------------------------------------- this call */

static __thread uint32_t noted;

/* Functions whose callers hold no lock of their own that a thread with Python's lock may wait for: launches and copies. */
static bool is_launch(const char *routine) {
    return strncmp(routine, "aclnn", 5) == 0 || strncmp(routine, "aclrtMem", 8) == 0 || strncmp(routine, "Hccl", 4) == 0 ||
           strncmp(routine, "aclop", 5) == 0 || strncmp(routine, "aclmdlRIExecute", 15) == 0 || strncmp(routine, "aclrtLaunch", 11) == 0 ||
           strncmp(routine, "rtKernelLaunch", 14) == 0 || strcmp(routine, "rtVectorCoreKernelLaunchWithHandle") == 0;
}

/* It has the call site of phase one, where that is telling: a queue of launches may run it. */
static bool is_phase_two(const char *routine) {
    size_t length = strlen(routine);
    return strncmp(routine, "aclnn", 5) == 0 && (length < 16 || strcmp(routine + length - 16, "GetWorkspaceSize") != 0);
}

/* Those that are called often and about which there is nothing to find. */
static bool is_quiet(const char *routine) {
    return strstr(routine, "Query") != NULL || strstr(routine, "EventStatus") != NULL || strcmp(routine, "aclrtSetDevice") == 0 ||
           strncmp(routine, "aclrtGet", 8) == 0 || strncmp(routine, "aclGet", 6) == 0 || strcmp(routine, "aclrtSetCurrentContext") == 0;
}

/* Calls that order something. */
static bool is_wait(const char *routine) {
    static const char *const beginnings[] = {"aclrtSynchronize", "aclrtStreamWaitEvent", "aclrtQueryEvent", "aclrtStreamQuery", "aclrtWaitAndResetNotify",
                                             "aclrtValueWait"};
    if (routine[0] != 'a' || routine[4] != 't') return false;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        if (strncmp(routine, beginnings[i], strlen(beginnings[i])) == 0) return true;
    }
    return false;
}

static _Atomic uint64_t waits;
static __thread bool waits_now;
static __thread uint64_t waiting;

/* Only a call that orders something is counted: how often a program asks before it hears "complete" is chance. */
uint64_t emu_waiting_call(void) {
    if (waits_now && waiting == 0) waiting = ++waits;
    return waiting;
}

void emu_waiting_as(uint64_t call) {
    waits_now = false;
    waiting = call;
}

static __thread uint32_t uncounted; /* how many callers have said so */

API void aclemuCountWaits(int32_t counts) {
    if (counts == 0) uncounted++;
    else if (uncounted > 0) uncounted--;
}

bool emu_is_uncounted(void) { return uncounted > 0; }

bool emu_waiting_is_deleted(void) {
    if (emu_is_uncounted()) return true;
    static _Atomic int64_t deleted = -1;
    if (deleted < 0) {
        const char *text = getenv("ASCEND_EMULATOR_VALIDATE_DELETE");
        deleted = text != NULL ? atoll(text) : 0;
    }
    return deleted > 0 && (int64_t)emu_waiting_call() == deleted;
}

/* The call site of this thread now, in a function. `launch`: see is_launch. */
static uint32_t take(const char *routine, bool launch) {
    bool runs_python = emu_runs_python();
    if (runs_python && (launch || emu_holds_python())) {
        uint32_t number = python_site();
        if (number != 0) return number;
    }
    if (emu_has_python() && !runs_python && !launch) return 0; /* a thread of a library in a Python program */
    const site *s = native_site(routine, runs_python && !launch ? OWN_FRAMES : OWN_FRAMES + MOST_FRAMES);
    /* ctypes lets go of the lock, and its callers hold none of C's. */
    return runs_python && s->from_python ? python_site() : s->number;
}

/* A function begins. */
static void note(const char *routine) {
    unsigned what = emu_config()->validate;
    noted = 0;
    waiting = 0;
    waits_now = is_wait(routine);
    if (what == 0 || is_phase_two(routine)) return;
    bool launch = is_launch(routine);
    if (launch || ((what & VALIDATE_MEMORY) != 0 && !is_quiet(routine))) noted = take(routine, launch);
}

void emu_call_site_of_executor(uint32_t site, bool repeatable) { noted = emu_site_is_python(site) && !repeatable ? site : take(emu_routine(), true); }

void emu_call_site_note(const char *routine) { noted = take(routine, true); }

uint32_t emu_call_site(void) { return noted; }

__attribute__((constructor)) static void at_start(void) {
    const char *wanted = getenv("ASCEND_EMULATOR_VALIDATE");
    emu_at_fork(FORK_CALL_SITES, &sites_lock, NULL);
    if (wanted != NULL && *wanted != 0) emu_when_entered = note;
}
