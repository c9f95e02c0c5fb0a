/* Vector clocks over streams and the host, and what is known of each range of bytes: the last write, and the reads since then. */
#include "ascendcl/validate/validate.h"

#include "ascendcl/core/api_entry.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything here; no other lock is taken under it */

static void *grown(void *array, size_t bytes) {
    array = realloc(array, bytes);
    if (array == NULL) abort();
    return array;
}

/* ----------------------------------------------------------------------------------------------------------- timelines */

struct emu_clock {
    bool lost;               /* more has passed, but not known what */
    uint32_t count;
    uint64_t passed[];       /* by timeline */
};

typedef struct {
    int stream;
    bool ended, lost;        /* lost: it has waited for something that is not known */
    uint64_t host;           /* the version of the host's clock that it has joined */
    uint64_t before;         /* its tasks of earlier streams */
    uint64_t *passed;        /* by timeline; its own number is that of its last task */
    uint32_t room;
} timeline;

static timeline *timelines;  /* the first is the host's */
static uint32_t timeline_count;
static uint64_t host_version = 1;
static uint64_t tasks;

static uint64_t passed_of(const timeline *t, uint32_t other) { return other < t->room ? t->passed[other] : 0; }

static void advance(timeline *t, uint32_t other, uint64_t number) {
    if (other >= t->room) {
        uint32_t room = timeline_count > other ? timeline_count : other + 1;
        t->passed = grown(t->passed, room * sizeof *t->passed);
        memset(t->passed + t->room, 0, (room - t->room) * sizeof *t->passed);
        t->room = room;
    }
    if (t->passed[other] < number) t->passed[other] = number;
}

static void join(timeline *t, const uint64_t *passed, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (passed[i] > 0) advance(t, i, passed[i]);
    }
}

static void make_host(void) {
    if (timeline_count > 0) return;
    timelines = grown(NULL, sizeof *timelines);
    timelines[0] = (timeline){.stream = -1};
    timeline_count = 1;
}

uint32_t emu_timeline_new(int stream) {
    pthread_mutex_lock(&lock);
    make_host();
    uint32_t i = 1;
    while (i < timeline_count && !timelines[i].ended) i++;
    if (i == timeline_count) {
        timelines = grown(timelines, (timeline_count + 1) * sizeof *timelines);
        timelines[timeline_count++] = (timeline){0};
    }
    timelines[i].stream = stream;
    timelines[i].ended = timelines[i].lost = false;
    timelines[i].before = passed_of(&timelines[i], i);
    pthread_mutex_unlock(&lock);
    return i;
}

void emu_timeline_end(uint32_t number) {
    pthread_mutex_lock(&lock);
    timelines[number].ended = true;
    pthread_mutex_unlock(&lock);
}

/* The tasks that a timeline gets from now on come after what the host has waited for. */
static void follow_host(timeline *t) {
    if (t == timelines || t->host == host_version) return;
    join(t, timelines->passed, timelines->room);
    t->host = host_version;
}

emu_clock *emu_clock_of(uint32_t number) {
    pthread_mutex_lock(&lock);
    timeline *t = &timelines[number];
    follow_host(t);
    emu_clock *clock = malloc(sizeof *clock + t->room * sizeof clock->passed[0]);
    if (clock == NULL) abort();
    clock->lost = t->lost;
    clock->count = t->room;
    if (t->room > 0) memcpy(clock->passed, t->passed, t->room * sizeof clock->passed[0]);
    pthread_mutex_unlock(&lock);
    return clock;
}

void emu_timeline_waits(uint32_t number, const emu_clock *clock) {
    pthread_mutex_lock(&lock);
    timeline *t = &timelines[number];
    if (clock != NULL) join(t, clock->passed, clock->count);
    t->lost = t->lost || clock == NULL || clock->lost;
    pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void host_joins(const uint64_t *passed, uint32_t count, bool lost) {
    join(timelines, passed, count);
    for (uint32_t i = 1; lost && i < timeline_count; i++) advance(timelines, i, passed_of(&timelines[i], i));
    host_version++;
}

void emu_host_waited(uint32_t number) {
    pthread_mutex_lock(&lock);
    timeline *t = &timelines[number];
    host_joins(t->passed, t->room, t->lost);
    t->lost = false;
    pthread_mutex_unlock(&lock);
}

void emu_host_passed(const emu_clock *clock) {
    pthread_mutex_lock(&lock);
    make_host();
    host_joins(clock != NULL ? clock->passed : NULL, clock != NULL ? clock->count : 0, clock == NULL || clock->lost);
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------------------------------------------ findings */

/* One access of a task. */
typedef struct {
    const char *task, *argument;
    uint32_t timeline;
    int stream, member;
    bool updates;
    uint64_t number, shown;  /* in the timeline, and in the stream, which may not be the timeline's first */
} access_record;

typedef struct finding finding;

struct finding {
    finding *next;
    const char *rule;
    access_record earlier, later;
    uint64_t times;
};

static finding *findings;
static uint64_t finding_count, finding_times;

static int argument_length(const access_record *a) { return (int)strcspn(a->argument, " "); }

static bool alike(const access_record *a, const access_record *b) {
    if (a->task == NULL || b->task == NULL) return a->task == b->task;
    return strcmp(a->task, b->task) == 0 && argument_length(a) == argument_length(b) && a->stream == b->stream && a->member == b->member &&
           strncmp(a->argument, b->argument, (size_t)argument_length(a)) == 0;
}

/* "aclnnAdd other (launch 3 of stream 5)". */
static const char *describe(const access_record *a, char *buffer, size_t size) {
    char member[16] = "", where[48] = "of the host";
    if (a->member >= 0) snprintf(member, sizeof member, "[%d]", a->member);
    if (a->stream >= 0) snprintf(where, sizeof where, "of stream %d", a->stream);
    const char *word = strstr(a->task, "Memcpy") != NULL ? "copy" : strstr(a->task, "Memset") != NULL ? "fill" : "launch";
    snprintf(buffer, size, "%s %.*s%s (%s %llu %s)", a->task, argument_length(a), a->argument, member, word, (unsigned long long)a->shown, where);
    return buffer;
}

/* Appends a line to the file that the launcher reads. */
static void append(const char *line) {
    const char *path = getenv("ASCEND_EMULATOR_VALIDATE_REPORT");
    int file = path != NULL && *path != 0 ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (file < 0) return;
    if (write(file, line, strlen(line)) < 0) fprintf(stderr, "EMULATOR_VALIDATE: cannot write to %s\n", path);
    close(file);
}

/* The lock is held. `earlier` is NULL where memory was never written. */
static void find(const char *rule, const access_record *earlier, const access_record *later, uint64_t start, uint64_t end) {
    access_record none = {0};
    finding *f = findings;
    if (earlier == NULL) earlier = &none;
    while (f != NULL && !(strcmp(f->rule, rule) == 0 && alike(&f->earlier, earlier) && alike(&f->later, later))) f = f->next;
    finding_times++;
    if (f != NULL) {
        f->times++;
        return;
    }
    f = grown(NULL, sizeof *f);
    *f = (finding){findings, rule, *earlier, *later, 1};
    findings = f;
    finding_count++;
    char first[200], second[200], line[700];
    describe(later, second, sizeof second);
    if (earlier->task == NULL)
        snprintf(line, sizeof line, "EMULATOR_VALIDATE: %s: %s reads device memory that was never written: %llu bytes at %#llx\n", rule, second,
                 (unsigned long long)(end - start), (unsigned long long)start);
    else
        snprintf(line, sizeof line, "EMULATOR_VALIDATE: %s: %s is not ordered after %s: %llu bytes at %#llx\n", rule, second,
                 describe(earlier, first, sizeof first), (unsigned long long)(end - start), (unsigned long long)start);
    fputs(line, stderr);
    append(line);
}

void emu_validate_summary(void) {
    pthread_mutex_lock(&lock);
    if (tasks > 0) {
        fprintf(stderr, "EMULATOR_VALIDATE: %llu launches, copies and fills on %u timelines: %llu findings, seen %llu times\n", (unsigned long long)tasks,
                timeline_count, (unsigned long long)finding_count, (unsigned long long)finding_times);
        for (const finding *f = findings; f != NULL; f = f->next) {
            char first[200] = "", second[200];
            if (f->times == 1) continue;
            describe(&f->later, second, sizeof second);
            if (f->earlier.task != NULL) describe(&f->earlier, first, sizeof first);
            fprintf(stderr, "EMULATOR_VALIDATE: %llu times: %s: %s%s%s\n", (unsigned long long)f->times, f->rule, second, *first != 0 ? ", " : "", first);
        }
    }
    tasks = 0;
    pthread_mutex_unlock(&lock);
}

/* -------------------------------------------------------------------------------------------------------------- memory */

/* Bytes of which the same is known. */
typedef struct {
    uint64_t start, end;
    bool unwritten;
    access_record write;     /* the last one; number 0: none */
    access_record *reads;    /* since then, without those that come before another one */
    uint32_t read_count, read_room;
} segment;

static segment **segments;   /* by address; they do not overlap */
static size_t segment_count, segment_room;

/* The first segment that ends after an address. */
static size_t segment_after(uint64_t address) {
    size_t low = 0, high = segment_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (segments[middle]->end > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

static segment *insert(size_t at, uint64_t start, uint64_t end) {
    if (segment_count == segment_room) {
        segment_room = segment_room * 2 + 64;
        segments = grown(segments, segment_room * sizeof *segments);
    }
    memmove(segments + at + 1, segments + at, (segment_count - at) * sizeof *segments);
    segment_count++;
    segment *s = calloc(1, sizeof *s);
    if (s == NULL) abort();
    s->start = start;
    s->end = end;
    return segments[at] = s;
}

/* Makes a boundary at an address. */
static void split(uint64_t address) {
    size_t at = segment_after(address);
    if (at == segment_count || segments[at]->start >= address) return;
    segment *before = segments[at], *after = insert(at + 1, address, before->end);
    after->unwritten = before->unwritten;
    after->write = before->write;
    after->read_count = after->read_room = before->read_count;
    if (before->read_count > 0) {
        after->reads = grown(NULL, before->read_count * sizeof *after->reads);
        memcpy(after->reads, before->reads, before->read_count * sizeof *after->reads);
    }
    before->end = address;
}

/* Removes what is known of some bytes; where a segment for them belongs. */
static size_t clear(uint64_t start, uint64_t end) {
    split(start);
    split(end);
    size_t first = segment_after(start), last = first;
    for (; last < segment_count && segments[last]->start < end; last++) {
        free(segments[last]->reads);
        free(segments[last]);
    }
    memmove(segments + first, segments + last, (segment_count - last) * sizeof *segments);
    segment_count -= last - first;
    return first;
}

static bool comes_after(const timeline *now, const access_record *earlier) { return passed_of(now, earlier->timeline) >= earlier->number; }

static void note_read(segment *s, const timeline *now, const access_record *read) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->read_count; i++) {
        if (!comes_after(now, &s->reads[i])) s->reads[kept++] = s->reads[i];
    }
    if (kept == s->read_room) {
        s->read_room = s->read_room * 2 + 1;
        s->reads = grown(s->reads, s->read_room * sizeof *s->reads);
    }
    s->reads[kept] = *read;
    s->read_count = kept + 1;
}

static void read_bytes(const timeline *now, const access_record *read, bool checks_memory, bool checks_order, uint64_t start, uint64_t end) {
    split(start);
    split(end);
    uint64_t at = start;
    for (size_t i = segment_after(start); at < end; i++) {
        uint64_t next = i < segment_count && segments[i]->start < end ? segments[i]->start : end;
        if (next > at && checks_order) { /* bytes of which nothing is known */
            note_read(insert(i, at, next), now, read);
            at = next;
            continue;
        }
        if (i == segment_count || segments[i]->start >= end) break;
        segment *s = segments[i];
        if (s->unwritten && checks_memory) {
            find("memory/unwritten-read", NULL, read, s->start, s->end);
            s->unwritten = false;
        }
        if (checks_order) {
            if (s->write.number > 0 && !comes_after(now, &s->write)) find("sync/read-after-write", &s->write, read, s->start, s->end);
            note_read(s, now, read);
        }
        at = s->end;
    }
}

static void write_bytes(const timeline *now, const access_record *write, bool checks_order, uint64_t start, uint64_t end) {
    const char *rule = write->updates ? "sync/read-after-write" : "sync/write-after-write";
    split(start);
    split(end);
    for (size_t i = segment_after(start); checks_order && i < segment_count && segments[i]->start < end; i++) {
        const segment *s = segments[i];
        bool found = s->write.number > 0 && !comes_after(now, &s->write);
        if (found) find(rule, &s->write, write, s->start, s->end);
        for (uint32_t r = 0; !found && r < s->read_count; r++) {
            if (!comes_after(now, &s->reads[r])) find("sync/write-after-read", &s->reads[r], write, s->start, s->end);
        }
    }
    size_t at = clear(start, end);
    if (checks_order) insert(at, start, end)->write = *write;
}

void emu_validate_task(uint32_t number, const char *name, const emu_access *accesses, size_t count) {
    unsigned what = emu_config()->validate;
    pthread_mutex_lock(&lock);
    make_host();
    timeline *now = &timelines[number];
    follow_host(now);
    advance(now, number, passed_of(now, number) + 1);
    if (number == EMU_HOST_TIMELINE) host_version++;
    tasks++;
    bool order = (what & VALIDATE_SYNC) != 0 && !now->lost, memory = (what & VALIDATE_MEMORY) != 0;
    for (size_t i = 0; i < 2 * count; i++) { /* reads first */
        const emu_access *a = &accesses[i % count];
        access_record record = {name, a->argument, number, now->stream, a->member, a->kind == ACCESS_UPDATE, now->passed[number],
                                now->passed[number] - now->before};
        bool writes = a->kind != ACCESS_READ;
        if (writes != (i >= count) || a->size == 0 || (a->vague && !writes)) continue;
        for (uint64_t row = 0; row < a->rows; row++) {
            uint64_t start = (uint64_t)(uintptr_t)a->address + row * a->pitch;
            if (!writes) read_bytes(now, &record, memory, order, start, start + a->size);
            else if (!a->vague) write_bytes(now, &record, order, start, start + a->size);
            else if (memory) clear(start, start + a->size);
        }
    }
    pthread_mutex_unlock(&lock);
}

void emu_validate_new(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if ((emu_config()->validate & VALIDATE_MEMORY) == 0 || size == 0) return;
    pthread_mutex_lock(&lock);
    insert(clear(start, start + size), start, start + size)->unwritten = true;
    pthread_mutex_unlock(&lock);
}

void emu_validate_forget(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (size == 0) return;
    pthread_mutex_lock(&lock);
    clear(start, start + size);
    pthread_mutex_unlock(&lock);
}

void emu_validate_written(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (size == 0) return;
    pthread_mutex_lock(&lock);
    split(start);
    split(start + size);
    for (size_t i = segment_after(start); i < segment_count && segments[i]->start < start + size; i++) segments[i]->unwritten = false;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_VALIDATE, &lock, NULL); }
