/* Vector clocks over streams and the host, and what is known of each range of bytes: the last write, and the reads since then. */
#include "ascendcl/validate/validate.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/validate/call_site.h"
#include "ascendcl/validate/extents.h"
#include "ascendcl/validate/findings.h"
#include "ascendcl/validate/host_watch.h"
#include "ascendcl/validate/journal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything here; no other lock is taken under it */

static void *grown(void *array, size_t bytes) {
    array = realloc(array, bytes);
    if (array == NULL) abort();
    return array;
}

/* ----------------------------------------------------------------------------------------------------------- timelines */

struct emu_clock {
    uint64_t id;             /* in the trace */
    bool lost;               /* more has passed, but not known what */
    uint32_t count;
    uint64_t passed[];       /* by timeline */
};

/* What was queued and what was waited for, a line each behind the process, for scripts/race_table.py; several processes may share the
 * file. NULL: it is not asked for. The lock is held. */
static FILE *trace(void) {
    static FILE *file;
    static bool tried;
    if (!tried) {
        const char *path = getenv("ASCEND_EMULATOR_VALIDATE_TRACE");
        file = path != NULL && *path != 0 ? fopen(path, "ae") : NULL;
        if (file != NULL) setvbuf(file, NULL, _IOLBF, 0);
        tried = true;
    }
    return file;
}

EMU_CHECK_FORMAT(2, 3) static void trace_line(FILE *file, const char *format, ...) {
    va_list arguments;
    fprintf(file, "%d ", (int)getpid());
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
}

#define TRACE(...) do { FILE *file_ = trace(); if (__builtin_expect(file_ != NULL, 0)) trace_line(file_, __VA_ARGS__); } while (0)

static unsigned long long call_number(void) { return (unsigned long long)emu_waiting_call(); }

static unsigned long long id_of(const emu_clock *clock) { return clock != NULL && !clock->lost ? (unsigned long long)clock->id : 0; }

typedef struct {
    int stream;
    bool ended, lost;        /* lost: it has waited for something that is not known */
    uint64_t host;           /* the version of the host's clock that it has joined */
    uint64_t before;         /* its tasks of earlier streams */
    uint64_t *passed;        /* by timeline; its own number is that of its last task */
    uint32_t room;
    uint64_t received;       /* its number when it first waited for another process; 0: it never has */
    uint64_t journaled, announced; /* its last number in the journal; up to which the journal says that the host has waited */
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
    TRACE("new %u\n", i);
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
    static uint64_t ids;
    clock->id = ++ids;
    TRACE("clock %llu %u\n", (unsigned long long)clock->id, number);
    clock->lost = t->lost;
    clock->count = t->room;
    if (t->room > 0) memcpy(clock->passed, t->passed, t->room * sizeof clock->passed[0]);
    pthread_mutex_unlock(&lock);
    return clock;
}

void emu_timeline_waits(uint32_t number, const emu_clock *clock) {
    if (emu_waiting_is_deleted()) return;
    pthread_mutex_lock(&lock);
    timeline *t = &timelines[number];
    TRACE("wait %u %llu %llu\n", number, id_of(clock), call_number());
    if (clock != NULL) join(t, clock->passed, clock->count);
    t->lost = t->lost || clock == NULL || clock->lost;
    pthread_mutex_unlock(&lock);
}

static void check_sources(void);
static void check_targets(void);

/* Whether other processes are compared with this one. */
static bool is_journaled(void) {
    static int reports = -1;
    if (reports < 0) reports = emu_reports() && (emu_config()->validate & VALIDATE_SYNC) != 0;
    return reports > 0;
}

static emu_passed clock_for_journal(const timeline *t) { return (emu_passed){t->passed, t->room}; }

/* What the host of one process has waited for comes before all that any process queues later: processes talk in ways that are not
 * seen. */
static void announce_passed(void) {
    for (uint32_t i = 1; i < timeline_count; i++) {
        timeline *t = &timelines[i];
        uint64_t passed = passed_of(timelines, i);
        if (t->journaled <= t->announced || passed <= t->announced) continue;
        t->announced = passed;
        emu_journal_passed(i, passed);
    }
}

/* The lock is held. */
static void host_joins(const uint64_t *passed, uint32_t count, bool lost) {
    join(timelines, passed, count);
    check_sources();
    check_targets();
    for (uint32_t i = 1; lost && i < timeline_count; i++) advance(timelines, i, passed_of(&timelines[i], i));
    host_version++;
    announce_passed();
}

/* ----------------------------------------------------------------------------------------------------- other processes */

static timeline published;   /* what other processes may have waited for */

/* Under a key other processes may wait for all that a timeline has. The lock is held. */
static void publish(timeline *t) {
    follow_host(t);
    join(&published, t->passed, t->room);
}

/* What a timeline gets from now on comes after something of another process: such waits have numbers like tasks. The lock is held. */
static uint64_t receive(uint32_t number) {
    timeline *t = &timelines[number];
    follow_host(t);
    uint64_t now = passed_of(t, number) + 1;
    advance(t, number, now);
    t->before++;
    if (number == EMU_HOST_TIMELINE) host_joins(published.passed, published.room, false); /* no more can have come back */
    if (t->received == 0) t->received = now;
    t->journaled = now;
    return now;
}

static const char *event_key(char *buffer, size_t size, uint64_t event, uint64_t recording) {
    snprintf(buffer, size, "event %llx %llu", (unsigned long long)event, (unsigned long long)recording);
    return buffer;
}

void emu_validate_recorded(uint32_t number, uint64_t event, uint64_t recording) {
    char key[80];
    if (!is_journaled()) return;
    pthread_mutex_lock(&lock);
    timeline *t = &timelines[number];
    publish(t);
    emu_journal_publish(event_key(key, sizeof key, event, recording), clock_for_journal(t));
    TRACE("publish %u %s\n", number, event_key(key, sizeof key, event, recording));
    pthread_mutex_unlock(&lock);
}

void emu_validate_waited(uint32_t number, uint64_t event, uint64_t recording) {
    char key[80];
    if (!is_journaled()) {
        if (number != EMU_HOST_TIMELINE) emu_timeline_waits(number, NULL);
        else emu_host_passed(NULL);
        return;
    }
    if (emu_waiting_is_deleted()) return;
    pthread_mutex_lock(&lock);
    make_host();
    emu_journal_receive(event_key(key, sizeof key, event, recording), number, receive(number));
    TRACE("receive %u %llu %s\n", number, call_number(), event_key(key, sizeof key, event, recording));
    pthread_mutex_unlock(&lock);
}

typedef struct turn turn;

/* How often a key was used on a device. */
struct turn {
    turn *next;
    emu_exchange exchange;
    uint64_t count;
};

static uint64_t next_turn(const emu_exchange *exchange) {
    static turn *turns;
    turn *t = turns;
    while (t != NULL && !(t->exchange.device == exchange->device && strcmp(t->exchange.key, exchange->key) == 0 &&
                          (!exchange->counts_apart || t->exchange.publishes == exchange->publishes)))
        t = t->next;
    if (t == NULL) {
        t = calloc(1, sizeof *t);
        if (t == NULL) abort();
        t->exchange = *exchange;
        t->next = turns;
        turns = t;
    }
    return ++t->count;
}

static bool comes_after(const timeline *now, const emu_record *earlier);
static bool is_doubtful(const emu_record *earlier);

/* The tasks of one communicator use the same memory and notifies of HCCL: the program has to put them into an order. The lock is held. */
static void check_communicator(const emu_record *task, const emu_exchange *exchange) {
    typedef struct communicator communicator;
    struct communicator {
        communicator *next;
        emu_exchange exchange;
        emu_record last;
    };
    static const char rule[] = "sync/communicator";
    static communicator *communicators;
    const timeline *now = &timelines[task->timeline];
    uint32_t length = exchange->communicator;
    communicator *c = communicators;
    while (c != NULL && !(c->exchange.device == exchange->device && c->exchange.communicator == length && memcmp(c->exchange.key, exchange->key, length) == 0))
        c = c->next;
    if (c == NULL) {
        c = calloc(1, sizeof *c);
        if (c == NULL) abort();
        c->exchange = *exchange;
        c->next = communicators;
        communicators = c;
    } else if (!now->lost && !comes_after(now, &c->last)) {
        if (is_doubtful(&c->last)) emu_journal_doubt(rule, &c->last, task, 0, 0, clock_for_journal(now));
        else emu_find(rule, &c->last, task, "{later} is not ordered after {earlier}, of the same communicator");
    }
    c->last = *task;
}

uint64_t emu_validate_communication(uint32_t number, const char *name, uint32_t site, const emu_access *accesses, size_t count, const emu_exchange *exchanges,
                                    size_t exchange_count) {
    if (!is_journaled() || exchange_count == 0) return emu_validate_task(number, name, site, accesses, count);
    char (*keys)[200] = malloc(exchange_count * sizeof *keys);
    if (keys == NULL) abort();
    pthread_mutex_lock(&lock);
    timeline *t = &timelines[number];
    for (size_t i = 0; i < exchange_count; i++) {
        snprintf(keys[i], sizeof keys[i], "%s %llu", exchanges[i].key, (unsigned long long)next_turn(&exchanges[i]));
        if (!exchanges[i].publishes) continue;
        publish(t);
        emu_journal_publish(keys[i], clock_for_journal(t));
        TRACE("publish %u %s\n", number, keys[i]);
    }
    pthread_mutex_unlock(&lock);
    uint64_t task = emu_validate_task(number, name, site, accesses, count);
    pthread_mutex_lock(&lock);
    t = &timelines[number];
    const emu_record record = {name, "", number, site, t->stream, -1, false, task, task - t->before, tasks};
    for (size_t i = 0; i < exchange_count; i++) check_communicator(&record, &exchanges[i]);
    for (size_t i = 0; i < exchange_count; i++) {
        if (!exchanges[i].receives) continue;
        emu_journal_receive(keys[i], number, receive(number));
        TRACE("receive %u 0 %s\n", number, keys[i]);
    }
    pthread_mutex_unlock(&lock);
    free(keys);
    return task;
}

/* Memory that processes share, by address. */
typedef struct {
    uint64_t start, end, file, offset;
    bool own;
} shared_range;

static shared_range *shared;
static size_t shared_count;

/* The part of some bytes that is in a range of shared memory; false: none. */
static bool place_in(const shared_range *range, uint64_t start, uint64_t end, emu_place *place) {
    uint64_t first = start > range->start ? start : range->start, last = end < range->end ? end : range->end;
    if (first >= last) return false;
    *place = (emu_place){range->file, range->offset + (first - range->start), last - first, 1, 0, first};
    return true;
}

/* Writes an access to the journal, as far as it is to shared memory. */
static void journal_access(const emu_record *record, const emu_access *a, emu_passed clock) {
    for (size_t i = 0; i < shared_count && !a->vague; i++) {
        emu_place place;
        uint64_t start = (uint64_t)(uintptr_t)a->address, end = start + (a->rows - 1) * a->pitch + a->size;
        if (a->rows == 0 || !place_in(&shared[i], start, end, &place)) continue;
        if (start < shared[i].start || end > shared[i].end) { /* it begins or ends outside, which rows need not: each row then */
            for (uint64_t row = 0; row < a->rows; row++) {
                if (place_in(&shared[i], start + row * a->pitch, start + row * a->pitch + a->size, &place)) emu_journal_access(record, a->kind, &place, clock);
            }
        } else {
            place.size = a->size;
            place.rows = a->rows;
            place.pitch = a->pitch;
            emu_journal_access(record, a->kind, &place, clock);
        }
        timelines[record->timeline].journaled = record->number;
    }
}

static void forget_shared(uint64_t start, uint64_t end) {
    size_t kept = 0;
    for (size_t i = 0; i < shared_count; i++) {
        const shared_range *range = &shared[i];
        emu_place place;
        if (!place_in(range, start, end, &place)) {
            shared[kept++] = *range;
        } else if (range->own) {
            emu_journal_freed(&place);
        }
    }
    shared_count = kept;
}

void emu_host_waited(uint32_t number) {
    if (emu_waiting_is_deleted()) return;
    pthread_mutex_lock(&lock);
    TRACE("host %u %llu\n", number, call_number());
    timeline *t = &timelines[number];
    host_joins(t->passed, t->room, t->lost);
    t->lost = false;
    pthread_mutex_unlock(&lock);
}

void emu_host_passed(const emu_clock *clock) {
    if (emu_waiting_is_deleted()) return;
    pthread_mutex_lock(&lock);
    TRACE("passed %llu %llu\n", id_of(clock), call_number());
    make_host();
    host_joins(clock != NULL ? clock->passed : NULL, clock != NULL ? clock->count : 0, clock == NULL || clock->lost);
    pthread_mutex_unlock(&lock);
}

/* -------------------------------------------------------------------------------------------------------------- memory */

/* Bytes of which the same is known. */
typedef struct segment segment;

struct segment {
    emu_extent bytes;
    bool unwritten, moved; /* moved: by the last write, from memory that was never written */
    bool poisoned;
    emu_record write;     /* the last one; number 0: none */
    emu_record *reads;    /* since then, without those that come before another one */
    uint32_t read_count, read_room;
    segment *next;        /* of those that are unused */
};

static emu_extents segments;
static segment *unused;      /* with the room for their reads: a training step makes and removes thousands */

/* The segment at a position that begins before an address; NULL: none. */
static segment *before(emu_position at, uint64_t end) {
    segment *s = (segment *)emu_extent_at(&segments, at);
    return s != NULL && s->bytes.start < end ? s : NULL;
}

/* Puts a new segment at a position, which is where it is afterwards. */
static segment *insert(emu_position *at, uint64_t start, uint64_t end) {
    segment *s = unused;
    if (s != NULL) {
        unused = s->next;
        *s = (segment){.bytes = {start, end}, .reads = s->reads, .read_room = s->read_room};
    } else {
        s = grown(NULL, sizeof *s);
        *s = (segment){.bytes = {start, end}};
    }
    *at = emu_extents_insert(&segments, *at, &s->bytes);
    return s;
}

static void make_room_for_reads(segment *s, uint32_t count) {
    if (count <= s->read_room) return;
    s->read_room = count + s->read_room;
    s->reads = grown(s->reads, s->read_room * sizeof *s->reads);
}

/* Divides the segment at a position, which ends after an address, where it begins before it. */
static bool divide(emu_position at, uint64_t address) {
    segment *old = before(at, address);
    if (old == NULL) return false;
    emu_position behind = emu_extent_next(&segments, at);
    uint64_t end = old->bytes.end;
    emu_extent_set_end(&segments, at, address);
    segment *s = insert(&behind, address, end);
    s->unwritten = old->unwritten;
    s->moved = old->moved;
    s->poisoned = old->poisoned;
    s->write = old->write;
    make_room_for_reads(s, old->read_count);
    if (old->read_count > 0) memcpy(s->reads, old->reads, old->read_count * sizeof *s->reads);
    s->read_count = old->read_count;
    return true;
}

/* Makes boundaries around some bytes; where their segments begin. */
static emu_position part(uint64_t start, uint64_t end) {
    emu_position first = emu_extents_after(&segments, start);
    const segment *s = before(first, end);
    if (s == NULL) return first;
    bool divided = s->bytes.end != end && divide(emu_extents_after(&segments, end), end);
    if (s->bytes.start < start) divided = divide(divided ? emu_extents_after(&segments, start) : first, start);
    return divided ? emu_extents_after(&segments, start) : first;
}

/* Takes out the segments from a position on that begin before an address; where they were. */
static emu_position erase(emu_position first, uint64_t end) {
    size_t count = 0;
    segment *s;
    for (emu_position i = first; (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        s->next = unused;
        unused = s;
        count++;
    }
    return emu_extents_erase(&segments, first, count);
}

/* Removes what is known of some bytes; where a segment for them belongs. */
static emu_position clear(uint64_t start, uint64_t end) { return erase(part(start, end), end); }

/* Addresses at which the same memory lies as at others. */
typedef struct {
    uint64_t start, end, other;
} alias;

static alias *aliases;
static size_t alias_count;

/* Where what is known of some bytes is kept. *end: up to which that is in one piece, at most where it was. */
static uint64_t kept_at(uint64_t start, uint64_t *end) {
    for (size_t i = 0; i < alias_count; i++) {
        const alias *a = &aliases[i];
        if (a->start > start && a->start < *end) *end = a->start;
        if (a->start > start || a->end <= start) continue;
        if (a->end < *end) *end = a->end;
        return a->other + (start - a->start);
    }
    return start;
}

/* An address at which the client knows what is kept there. */
static uint64_t shown_at(uint64_t address) {
    for (size_t i = 0; i < alias_count; i++) {
        const alias *a = &aliases[i];
        if (address >= a->other && address < a->other + (a->end - a->start)) return a->start + (address - a->other);
    }
    return address;
}

/* What is known of some bytes is kept elsewhere from now on. */
static void move_known(uint64_t start, uint64_t end, uint64_t to) {
    emu_position at;
    for (segment *s; (s = before(at = part(start, end), end)) != NULL;) {
        emu_extents_erase(&segments, at, 1);
        s->bytes.start += to - start;
        s->bytes.end += to - start;
        emu_extents_insert(&segments, emu_extents_after(&segments, s->bytes.start), &s->bytes);
    }
}

void emu_validate_alias(const void *address, uint64_t size, const void *other) {
    uint64_t start = (uint64_t)(uintptr_t)address, to = (uint64_t)(uintptr_t)other;
    pthread_mutex_lock(&lock);
    bool again = false;
    for (size_t i = 0; i < alias_count; i++) again = again || aliases[i].start == start;
    if (!again) {
        move_known(start, start + size, to);
        aliases = grown(aliases, (alias_count + 1) * sizeof *aliases);
        aliases[alias_count++] = (alias){start, start + size, to};
    }
    pthread_mutex_unlock(&lock);
}

static void forget_aliases(uint64_t start, uint64_t end) {
    size_t kept = 0;
    for (size_t i = 0; i < alias_count; i++) {
        if (aliases[i].start < start || aliases[i].start >= end) aliases[kept++] = aliases[i];
    }
    alias_count = kept;
}

static bool comes_after(const timeline *now, const emu_record *earlier) { return passed_of(now, earlier->timeline) >= earlier->number; }

static void note_read(segment *s, const timeline *now, const emu_record *read) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->read_count; i++) {
        if (comes_after(now, &s->reads[i])) continue;
        if (kept != i) s->reads[kept] = s->reads[i];
        kept++;
    }
    make_room_for_reads(s, kept + 1);
    s->reads[kept] = *read;
    s->read_count = kept + 1;
}

/* Whether two tasks that nothing here orders may have an order through other processes. */
static bool is_doubtful(const emu_record *earlier) {
    uint64_t received = timelines[earlier->timeline].received;
    return passed_of(&published, earlier->timeline) >= earlier->number || (received > 0 && received <= earlier->number);
}

/* The lock is held. `earlier` is NULL where memory was never written. */
static void find(const char *rule, const emu_record *earlier, const emu_record *later, uint64_t start, uint64_t end) {
    unsigned long long bytes = end - start;
    start = shown_at(start);
    if (*rule == 's' && (emu_config()->validate & VALIDATE_SYNC) == 0) return;
    if (*rule == 's' && is_doubtful(earlier)) {
        emu_journal_doubt(rule, earlier, later, start, bytes, clock_for_journal(&timelines[later->timeline]));
        return;
    }
    if (earlier == NULL) emu_find(rule, NULL, later, "{later} reads device memory that was never written: %llu bytes at %#llx", bytes, (unsigned long long)start);
    else emu_find(rule, earlier, later, "{later} is not ordered after {earlier}: %llu bytes at %#llx", bytes, (unsigned long long)start);
}

static void find_unwritten_output(const emu_record *write, const emu_record *read, uint64_t start, uint64_t end) {
    emu_find("memory/unwritten-output", write, read, "{later} reads what {earlier} has left unwritten: %llu bytes at %#llx", (unsigned long long)(end - start),
             (unsigned long long)start);
}

static void find_moved(const segment *s, const emu_record *read) {
    emu_find("memory/unwritten-read", &s->write, read, "{later} reads what was never written, and what {earlier} has moved here: %llu bytes at %#llx",
             (unsigned long long)(s->bytes.end - s->bytes.start), (unsigned long long)s->bytes.start);
}

/* Bytes that the task moves without a use of them, and that were never written; and where they are, as offsets in all that it moves. */
static uint64_t moved, moved_unwritten;
static struct {
    uint64_t start, end;
} *moved_parts;
static size_t moved_count, moved_room;

static void note_moved(uint64_t start, uint64_t end) {
    moved_unwritten += end - start;
    if (moved_count == moved_room) {
        moved_room = moved_room * 2 + 16;
        moved_parts = grown(moved_parts, moved_room * sizeof *moved_parts);
    }
    moved_parts[moved_count].start = start;
    moved_parts[moved_count++].end = end;
}

#define POISON 0xa5               /* what memory holds that was never written */
#define MOST_POISON (64ull << 20) /* at the start of a range: who reads all of a large cache by index would fill the host's memory */

/* Something may read these bytes, which nothing that is queued has written. Before that they need not hold anything. */
static void poison(segment *s) {
    uint64_t size = s->bytes.end - s->bytes.start;
    if (s->poisoned || s->write.number > 0 || emu_config()->fill >= 0) return;
    memset((void *)(uintptr_t)s->bytes.start, POISON, size < MOST_POISON ? size : MOST_POISON);
    s->poisoned = true;
}

static void poison_all(uint64_t start, uint64_t end) {
    segment *s;
    for (emu_position i = part(start, end); (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        if (s->unwritten) poison(s);
    }
}

static void read_bytes(const timeline *now, const emu_record *read, bool moves, bool checks_memory, bool checks_order, uint64_t start, uint64_t end) {
    uint64_t at = start;
    for (emu_position i = part(start, end); at < end; i = emu_extent_next(&segments, i)) {
        segment *s = before(i, end);
        uint64_t next = s != NULL ? s->bytes.start : end;
        if (next > at && checks_order) { /* bytes of which nothing is known */
            note_read(insert(&i, at, next), now, read);
            at = next;
            continue;
        }
        if (s == NULL) break;
        uint64_t first = s->bytes.start, last = s->bytes.end;
        if (s->unwritten && checks_memory) poison(s);
        if (s->unwritten && checks_memory && moves) {
            note_moved(moved + first - start, moved + last - start);
        } else if (s->unwritten && checks_memory) {
            if (s->moved) find_moved(s, read);
            else if (s->write.number > 0) find_unwritten_output(&s->write, read, first, last);
            else find("memory/unwritten-read", NULL, read, first, last);
            s->unwritten = false;
        }
        if (checks_order) {
            if (s->write.number > 0 && !comes_after(now, &s->write)) find("sync/read-after-write", &s->write, read, first, last);
            note_read(s, now, read);
        }
        at = last;
    }
}

static void write_bytes(const timeline *now, const emu_record *write, bool poisons, bool checks_order, uint64_t start, uint64_t end) {
    if (poisons) poison_all(start, end);
    const char *rule = write->updates ? "sync/read-after-write" : "sync/write-after-write";
    emu_position first = part(start, end);
    segment *s;
    for (emu_position i = first; checks_order && (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        bool found = s->write.number > 0 && !comes_after(now, &s->write);
        if (found) find(rule, &s->write, write, s->bytes.start, s->bytes.end);
        for (uint32_t r = 0; !found && r < s->read_count; r++) {
            if (!comes_after(now, &s->reads[r])) find("sync/write-after-read", &s->reads[r], write, s->bytes.start, s->bytes.end);
        }
    }
    s = before(first, end);
    if (!checks_order || s == NULL) {
        first = erase(first, end);
        if (!checks_order) return;
        s = insert(&first, start, end);
    } else if (s->bytes.end < end || s->bytes.start > start) { /* the first of several, or of a part of the bytes, is that of all */
        erase(emu_extent_next(&segments, first), end);
        s->bytes.start = start;
        emu_extent_set_end(&segments, first, end);
    }
    s->unwritten = s->moved = false;
    s->read_count = 0;
    s->write = *write;
}

/* What a task has moved here was never written. */
static void leave_unwritten(const emu_record *write, uint64_t start, uint64_t end) {
    emu_position at = part(start, end);
    segment *s = before(at, end);
    if (s == NULL) {
        s = insert(&at, start, end);
        s->write = *write;
    }
    s->unwritten = s->moved = true;
}

/* Some bytes in the order of an access get what was read in the same order. */
static void leave_moved(const emu_record *write, uint64_t start, uint64_t size, uint64_t row) {
    for (size_t i = 0; i < moved_count; i++) {
        uint64_t first = moved_parts[i].start > row * size ? moved_parts[i].start - row * size : 0, last = moved_parts[i].end;
        last = last > row * size ? last - row * size : 0;
        if (last > size) last = size;
        if (first < last) leave_unwritten(write, start + first, start + last);
    }
}

static size_t value_count;

static void forget_values(uint64_t start, uint64_t end);

uint64_t emu_validate_task(uint32_t number, const char *name, uint32_t site, const emu_access *accesses, size_t count) {
    unsigned what = emu_config()->validate;
    pthread_mutex_lock(&lock);
    make_host();
    timeline *now = &timelines[number];
    follow_host(now);
    advance(now, number, passed_of(now, number) + 1);
    if (number == EMU_HOST_TIMELINE) host_version++;
    tasks++;
    moved = moved_unwritten = moved_count = 0;
    bool order = !now->lost, memory = (what & VALIDATE_MEMORY) != 0;
    for (size_t i = 0; i < 2 * count; i++) { /* reads first */
        const emu_access *a = &accesses[i < count ? i : i - count];
        bool writes = a->kind != ACCESS_READ;
        if (writes != (i >= count) || a->size == 0) continue;
        for (uint64_t row = 0; a->vague && !writes && memory && row < a->rows; row++) {
            uint64_t start = (uint64_t)(uintptr_t)a->address + row * a->pitch;
            poison_all(start, start + a->size);
        }
        if (a->vague && !writes) continue;
        const emu_record record = {name, a->argument, number, site, now->stream, a->member, a->kind == ACCESS_UPDATE, now->passed[number],
                                   now->passed[number] - now->before, tasks};
        if (shared_count > 0) journal_access(&record, a, clock_for_journal(now));
        for (uint64_t row = 0; row < a->rows; row++) {
            uint64_t start = (uint64_t)(uintptr_t)a->address + row * a->pitch, end = start + a->size, next;
            if (writes && value_count > 0) forget_values(start, end);
            if (a->vague && memory) clear(start, end);
            for (uint64_t at = start; at < end && !a->vague; at = next) { /* one piece, but for addresses of the same memory as others */
                next = end;
                uint64_t first = alias_count > 0 ? kept_at(at, &next) : at, last = first + (next - at);
                if (!writes) {
                    read_bytes(now, &record, a->moves != MOVES_NOTHING, memory, order, first, last);
                    if (a->moves != MOVES_NOTHING) moved += next - at;
                    continue;
                }
                write_bytes(now, &record, memory && a->kind == ACCESS_UPDATE && !a->done, order, first, last);
                if (moved_unwritten > 0 && a->moves == MOVES_ALL && moved_unwritten == moved) leave_unwritten(&record, first, last);
                else if (moved_unwritten > 0 && a->moves == MOVES_IN_ORDER && next - at == a->size) leave_moved(&record, first, a->size, row);
            }
        }
    }
    TRACE("task %u %llu %d %s\n", number, (unsigned long long)(now->passed[number] - now->before), now->stream, name);
    for (size_t i = 0; i < count && trace() != NULL; i++) {
        const emu_access *a = &accesses[i];
        TRACE("access %d %llu %llu %llu %llu %d %d %.*s\n", (int)a->kind, (unsigned long long)(uintptr_t)a->address, (unsigned long long)a->size,
              (unsigned long long)a->rows, (unsigned long long)a->pitch, a->vague, a->member, (int)strcspn(a->argument, " "), a->argument);
    }
    uint64_t result = now->passed[number];
    pthread_mutex_unlock(&lock);
    return result;
}

size_t emu_validate_never_written(const emu_access *a, uint64_t **pairs) {
    size_t count = 0;
    *pairs = NULL;
    pthread_mutex_lock(&lock);
    for (uint64_t row = 0; row < a->rows && a->size > 0; row++) {
        uint64_t start = (uint64_t)(uintptr_t)a->address + row * a->pitch, end = start + a->size;
        const segment *s;
        for (emu_position i = emu_extents_after(&segments, start); (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
            if (!s->unwritten || (s->write.number > 0 && !s->moved)) continue; /* what a kernel left unwritten keeps its own name */
            uint64_t first = s->bytes.start > start ? s->bytes.start : start, last = s->bytes.end < end ? s->bytes.end : end;
            *pairs = grown(*pairs, (count + 1) * 2 * sizeof **pairs);
            (*pairs)[2 * count] = first;
            (*pairs)[2 * count++ + 1] = last - first;
        }
    }
    pthread_mutex_unlock(&lock);
    return count;
}

void emu_validate_moved(uint32_t number, uint64_t task, const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address, end = start + size;
    if (size == 0) return;
    pthread_mutex_lock(&lock);
    segment *s;
    for (emu_position i = part(start, end); (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        if (s->write.timeline == number && s->write.number == task) s->unwritten = s->moved = true;
    }
    pthread_mutex_unlock(&lock);
}

void emu_validate_unwritten(uint32_t number, uint64_t task, const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address, end = start + size;
    if (size == 0 || (emu_config()->validate & VALIDATE_MEMORY) == 0) return;
    pthread_mutex_lock(&lock);
    segment *s;
    for (emu_position i = part(start, end); (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        if (s->write.timeline != number || s->write.number != task) continue; /* written again since */
        s->unwritten = s->read_count == 0;
        for (uint32_t r = 0; r < s->read_count; r++) find_unwritten_output(&s->write, &s->reads[r], s->bytes.start, s->bytes.end);
    }
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------------------------------------- host memory */

/* Pinned memory that a queued copy reads. The host may write it again once it has waited for the copy. */
typedef struct {
    emu_record copy;
    uint64_t start, size, rows, pitch, hash, functions;
} source;

static source *sources;
static size_t source_count, source_room;
static uint64_t functions_queued, functions_done;

static uint64_t hash_rows(const source *s) {
    uint64_t hash = s->size;
    for (uint64_t row = 0; row < s->rows; row++) {
        static uint8_t bytes[1 << 16]; /* the lock is held */
        uint64_t word, i;
        for (uint64_t at = 0; at < s->size; at += sizeof bytes) {
            uint64_t count = s->size - at < sizeof bytes ? s->size - at : sizeof bytes;
            emu_watch_read(bytes, (const uint8_t *)(uintptr_t)(s->start + row * s->pitch + at), count);
            for (i = 0; i + sizeof word <= count; i += sizeof word) {
                memcpy(&word, bytes + i, sizeof word);
                hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
                hash ^= hash >> 29;
            }
            word = 0;
            memcpy(&word, bytes + i, count - i);
            hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        }
    }
    return hash;
}

static uint64_t source_end(const source *s) { return s->start + (s->rows - 1) * s->pitch + s->size; }

/* Whether a task has written some bytes since a number in the order of tasks, or may still do so. */
static bool tasks_write(uint64_t start, uint64_t end, uint64_t order) {
    const segment *s;
    for (emu_position i = emu_extents_after(&segments, start); (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        if (s->write.number > 0 && (s->write.order > order || !comes_after(timelines, &s->write))) return true;
    }
    return false;
}

void emu_validate_source(uint32_t number, const char *name, uint32_t site, const emu_access *a) {
    if ((emu_config()->validate & VALIDATE_MEMORY) == 0 || a->size == 0 || a->rows == 0) return;
    pthread_mutex_lock(&lock);
    const timeline *now = &timelines[number];
    source s = {.copy = {name, a->argument, number, site, now->stream, -1, false, now->passed[number], now->passed[number] - now->before, tasks},
                .start = (uint64_t)(uintptr_t)a->address, .size = a->size, .rows = a->rows, .pitch = a->pitch, .functions = functions_queued};
    if (functions_queued == functions_done && !tasks_write(s.start, source_end(&s), tasks)) {
        if (source_count == source_room) {
            source_room = source_room * 2 + 64;
            sources = grown(sources, source_room * sizeof *sources);
        }
        s.hash = hash_rows(&s);
        sources[source_count++] = s;
    }
    pthread_mutex_unlock(&lock);
}

/* The host has waited for something: compares what queued copies have read by then with what it was when they were queued. */
static void check_sources(void) {
    size_t kept = 0;
    for (size_t i = 0; i < source_count; i++) {
        const source *s = &sources[i];
        if (!comes_after(timelines, &s->copy)) {
            sources[kept++] = *s;
            continue;
        }
        if (s->functions != functions_queued || tasks_write(s->start, source_end(s), s->copy.order) || hash_rows(s) == s->hash) continue;
        emu_find("memory/host-changed", NULL, &s->copy,
                 "the host has changed the source of {later} before it has waited for the copy: %llu bytes from %#llx on", (unsigned long long)(s->size * s->rows),
                 (unsigned long long)s->start);
    }
    source_count = kept;
}

/* Host memory goes. */
static void forget_sources(uint64_t start, uint64_t end) {
    size_t kept = 0;
    for (size_t i = 0; i < source_count; i++) {
        if (sources[i].start >= end || source_end(&sources[i]) <= start) sources[kept++] = sources[i];
    }
    source_count = kept;
}

/* Pinned memory that a queued copy writes, in pages that are closed until the host has waited for the copy. */
typedef struct {
    emu_record copy;
    uint64_t start, size, rows, pitch;
    uint64_t first, last;    /* of the pages */
} target;

#define OPENED 64u

static target *targets;
static size_t target_count, target_room;
static struct {
    uint64_t first, last;
} opened[OPENED];            /* lately: a thread that has met a closed page may come to touched() when it is open */
static size_t opened_at;

static void open_pages(uint64_t first, uint64_t last) {
    emu_watch_open(first, last);
    opened[opened_at].first = first;
    opened[opened_at].last = last;
    opened_at = (opened_at + 1) % OPENED;
}

static bool close_pages(uint64_t first, uint64_t last) {
    for (size_t i = 0; i < OPENED; i++) {
        if (opened[i].first < last && opened[i].last > first) opened[i].first = opened[i].last = 0;
    }
    return emu_watch_close(first, last);
}

/* Takes out a target. Its pages are open then, but for those of others. */
static void drop_target(size_t number) {
    const target old = targets[number];
    targets[number] = targets[--target_count];
    open_pages(old.first, old.last);
    for (size_t i = 0; i < target_count; i++) {
        uint64_t first = targets[i].first > old.first ? targets[i].first : old.first, last = targets[i].last < old.last ? targets[i].last : old.last;
        if (first < last) (void)close_pages(first, last);
    }
}

static bool is_in(const target *t, uint64_t address) {
    uint64_t offset = address - t->start;
    return address >= t->start && offset < (t->rows - 1) * t->pitch + t->size && (t->rows == 1 || offset % t->pitch < t->size);
}

/* The host uses a closed page: a finding, unless it is beside what the copy writes. Then the page stays open. */
static bool touched(uint64_t address) {
    uint64_t page = address & ~(emu_page_size() - 1), behind = page + emu_page_size();
    bool known = false;
    emu_call_site_note("the host");
    emu_record later = {.task = "the host", .argument = "", .site = emu_call_site(), .stream = -1, .member = -1};
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < OPENED; i++) known = known || (opened[i].first <= page && opened[i].last >= behind);
    for (size_t i = target_count; i-- > 0;) {
        target *t = &targets[i];
        if (t->first > page || t->last < behind) continue;
        known = true;
        if (is_in(t, address)) {
            emu_find("sync/host-access", &t->copy, &later, "{later} uses what {earlier} writes, and has not waited for it: at %#llx", (unsigned long long)address);
            drop_target(i);
        } else if (t->first == page) {
            t->first = behind;
        } else if (t->last == behind) {
            t->last = page;
        } else {
            drop_target(i);
        }
    }
    if (known) open_pages(page, behind);
    pthread_mutex_unlock(&lock);
    return known;
}

void emu_validate_target(uint32_t number, const char *name, uint32_t site, const emu_access *a, uint64_t first, uint64_t last) {
    if (a->size == 0 || a->rows == 0 || !emu_watch_begin(touched)) return;
    pthread_mutex_lock(&lock);
    const timeline *now = &timelines[number];
    target t = {.copy = {name, a->argument, number, site, now->stream, -1, false, now->passed[number], now->passed[number] - now->before, tasks},
                .start = (uint64_t)(uintptr_t)a->address, .size = a->size, .rows = a->rows, .pitch = a->pitch};
    uint64_t page = emu_page_size(), end = t.start + (t.rows - 1) * t.pitch + t.size;
    t.first = t.start / page * page > first ? t.start / page * page : first;
    t.last = (end + page - 1) / page * page < last ? (end + page - 1) / page * page : last;
    if (t.first < t.last && close_pages(t.first, t.last)) {
        if (target_count == target_room) {
            target_room = target_room * 2 + 64;
            targets = grown(targets, target_room * sizeof *targets);
        }
        targets[target_count++] = t;
    }
    pthread_mutex_unlock(&lock);
}

/* The host has waited for something. */
static void check_targets(void) {
    for (size_t i = target_count; i-- > 0;) {
        if (comes_after(timelines, &targets[i].copy)) drop_target(i);
    }
}

/* Host memory goes. */
static void forget_targets(uint64_t start, uint64_t end) {
    for (size_t i = target_count; i-- > 0;) {
        if (targets[i].first < end && targets[i].last > start) drop_target(i);
    }
}

/* In a forked child, whose memory no copy writes. */
static void forked_child(void) {
    while (target_count > 0) drop_target(target_count - 1);
    emu_journal_forked();
}

void emu_validate_host_function(bool queued) {
    pthread_mutex_lock(&lock);
    if (queued) functions_queued++;
    else functions_done++;
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------------------------------------ values in memory */

typedef struct {
    const void *address;
    uint64_t value;
    emu_clock *clock;        /* of the stream that writes it */
} value_write;

#define VALUES 1024

static value_write values[VALUES]; /* the latest ones that nothing else has overwritten, oldest first */

/* Where a value is in shared memory; false: it is not. The lock is held. */
static bool shared_value(const void *address, emu_place *place) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    for (size_t i = 0; i < shared_count; i++) {
        if (place_in(&shared[i], start, start + sizeof(uint64_t), place)) return true;
    }
    return false;
}

void emu_value_written(uint32_t number, const void *address, uint64_t value) {
    emu_clock *clock = emu_clock_of(number);
    emu_place place;
    pthread_mutex_lock(&lock);
    if (shared_value(address, &place)) {
        publish(&timelines[number]);
        emu_journal_value_written(&place, value, clock_for_journal(&timelines[number]));
    }
    if (value_count == VALUES) {
        free(values[0].clock);
        memmove(values, values + 1, (VALUES - 1) * sizeof *values);
        value_count--;
    }
    values[value_count++] = (value_write){address, value, clock};
    pthread_mutex_unlock(&lock);
}

/* The wait ends with one of the latest writes that fit, of which the first is certain to have come. */
void emu_value_waited(uint32_t number, const void *address, bool (*fits)(uint64_t found, uint64_t value, uint32_t flag), uint64_t value, uint32_t flag) {
    if (emu_waiting_is_deleted()) return;
    const value_write *first = NULL;
    emu_place place;
    pthread_mutex_lock(&lock);
    if (shared_value(address, &place)) { /* any process may write it */
        emu_journal_value_waited(&place, value, flag, number, receive(number));
        pthread_mutex_unlock(&lock);
        return;
    }
    for (size_t i = value_count; i-- > 0;) {
        if (values[i].address != address) continue;
        if (!fits(values[i].value, value, flag)) break;
        first = &values[i];
    }
    timeline *t = &timelines[number];
    TRACE("wait %u %llu %llu\n", number, first != NULL ? id_of(first->clock) : 0, call_number());
    if (first != NULL) join(t, first->clock->passed, first->clock->count);
    t->lost = t->lost || first == NULL || first->clock->lost;
    pthread_mutex_unlock(&lock);
}

static void forget_values(uint64_t start, uint64_t end) {
    size_t kept = 0;
    for (size_t i = 0; i < value_count; i++) {
        if ((uint64_t)(uintptr_t)values[i].address < start || (uint64_t)(uintptr_t)values[i].address >= end) values[kept++] = values[i];
        else free(values[i].clock);
    }
    value_count = kept;
}

/* ------------------------------------------------------------------------------------------------------- life of memory */

/* Memory that is allocated, or was lately. */
typedef struct {
    emu_extent bytes;
    const char *routine;
    uint32_t site;
} life;

#define ENDED 1024

static emu_extents lives;
static life ended[ENDED];    /* freed, the latest ones */
static size_t ended_at;

/* The life that an address is in; NULL: none. */
static const life *life_at(uint64_t address) {
    const life *found = (const life *)emu_extent_at(&lives, emu_extents_after(&lives, address));
    return found != NULL && found->bytes.start <= address ? found : NULL;
}

void emu_validate_new(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if ((emu_config()->validate & VALIDATE_MEMORY) == 0 || size == 0) return;
    pthread_mutex_lock(&lock);
    emu_position at = clear(start, start + size);
    insert(&at, start, start + size)->unwritten = true;
    TRACE("forget %llu %llu\n", (unsigned long long)start, (unsigned long long)size);
    pthread_mutex_unlock(&lock);
    emu_validate_host_new(address, size);
}

void emu_validate_host_new(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if ((emu_config()->validate & VALIDATE_MEMORY) == 0 || size == 0) return;
    pthread_mutex_lock(&lock);
    life *new = grown(NULL, sizeof *new);
    *new = (life){{start, start + size}, emu_routine(), emu_call_site()};
    emu_extents_insert(&lives, emu_extents_after(&lives, start), &new->bytes);
    pthread_mutex_unlock(&lock);
}

static void end_life(uint64_t start) {
    emu_position at = emu_extents_after(&lives, start);
    life *old = (life *)emu_extent_at(&lives, at);
    if (old == NULL || old->bytes.start != start) return;
    ended[ended_at++ % ENDED] = (life){old->bytes, emu_routine(), emu_call_site()};
    emu_extents_erase(&lives, at, 1);
    free(old);
}

void emu_validate_blame(const void *address) {
    uint64_t at = (uint64_t)(uintptr_t)address;
    pthread_mutex_lock(&lock);
    const life *found = life_at(at);
    if (found == NULL && at > 0) found = life_at(at - 1); /* just behind its end */
    const char *what = "it was allocated";
    for (size_t i = 0; found == NULL && i < ENDED && i < ended_at; i++) {
        const life *old = &ended[(ended_at - 1 - i) % ENDED];
        if (at < old->bytes.start || at >= old->bytes.end) continue;
        found = old;
        what = "it was freed";
    }
    if (found != NULL) emu_blame(what, found->routine, found->site);
    pthread_mutex_unlock(&lock);
}

static void leaked_handle(const char *kind, const char *routine, uint32_t site) {
    emu_record made = {.task = routine != NULL ? routine : "?", .argument = "", .site = site, .stream = -1, .member = -1};
    emu_find("memory/leak", NULL, &made, "the %s of {later} was never destroyed", kind);
}

void emu_validate_leaks(void) {
    if ((emu_config()->validate & VALIDATE_MEMORY) == 0) return;
    emu_handles_leaked(leaked_handle);
    pthread_mutex_lock(&lock);
    const life *left;
    for (emu_position i = {0, 0}; (left = (const life *)emu_extent_at(&lives, i)) != NULL; i = emu_extent_next(&lives, i)) {
        emu_record made = {.task = left->routine, .argument = "", .site = left->site, .stream = -1, .member = -1};
        emu_find("memory/leak", NULL, &made, "%llu bytes of {later} were never freed", (unsigned long long)(left->bytes.end - left->bytes.start));
    }
    pthread_mutex_unlock(&lock);
}

void emu_validate_shared(const void *address, uint64_t size, int file, uint64_t offset, bool own) {
    struct stat status;
    uint64_t start = (uint64_t)(uintptr_t)address, end = start + size;
    if (!is_journaled() || fstat(file, &status) != 0) return;
    pthread_mutex_lock(&lock);
    make_host();
    bool again = false;
    for (size_t i = 0; i < shared_count; i++) again = again || (shared[i].start == start && shared[i].end == end);
    if (!again) {
        shared = grown(shared, (shared_count + 1) * sizeof *shared);
        shared[shared_count++] = (shared_range){start, end, status.st_ino, offset, own};
        TRACE("shared %llu %llu %llu %llu\n", (unsigned long long)start, (unsigned long long)size, (unsigned long long)status.st_ino,
              (unsigned long long)offset);
    }
    /* What was done before: others can only come later. */
    const segment *s;
    for (emu_position i = emu_extents_after(&segments, start); !again && (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        emu_place place;
        if (!place_in(&shared[shared_count - 1], s->bytes.start, s->bytes.end, &place)) continue;
        for (uint32_t r = 0; r <= s->read_count; r++) {
            const emu_record *record = r < s->read_count ? &s->reads[r] : &s->write;
            if (record->number == 0 || comes_after(timelines, record)) continue;
            emu_journal_access(record, r < s->read_count ? ACCESS_READ : ACCESS_WRITE, &place, (emu_passed){0});
            if (timelines[record->timeline].journaled < record->number) timelines[record->timeline].journaled = record->number;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* Accesses that may not have come to an end when memory is freed. The lock is held. */
static void check_free(uint64_t start, uint64_t end) {
    make_host();
    const timeline *host = timelines;
    const char *routine = emu_routine();
    emu_record later = {.task = routine != NULL ? routine : "?", .argument = "", .site = emu_call_site(), .stream = -1, .member = -1};
    const segment *s;
    for (emu_position i = emu_extents_after(&segments, start); (s = before(i, end)) != NULL; i = emu_extent_next(&segments, i)) {
        const emu_record *open = s->write.number > 0 && !comes_after(host, &s->write) ? &s->write : NULL;
        for (uint32_t r = 0; open == NULL && r < s->read_count; r++) {
            if (!comes_after(host, &s->reads[r])) open = &s->reads[r];
        }
        if (open == NULL) continue;
        emu_find("memory/free-in-use", open, &later, "{later} frees memory before the host has waited for {earlier}");
        return;
    }
}

static void forget(uint64_t start, uint64_t end) {
    TRACE("forget %llu %llu\n", (unsigned long long)start, (unsigned long long)(end - start));
    end_life(start);
    forget_sources(start, end);
    forget_targets(start, end);
    forget_values(start, end);
    if (shared_count > 0) forget_shared(start, end);
    if (alias_count > 0) forget_aliases(start, end);
    clear(start, end);
}

void emu_validate_free(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (size == 0) return;
    pthread_mutex_lock(&lock);
    if ((emu_config()->validate & VALIDATE_MEMORY) != 0) check_free(start, start + size);
    forget(start, start + size);
    pthread_mutex_unlock(&lock);
}

void emu_validate_forget(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (size == 0) return;
    pthread_mutex_lock(&lock);
    forget(start, start + size);
    pthread_mutex_unlock(&lock);
}

void emu_validate_written(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (size == 0) return;
    pthread_mutex_lock(&lock);
    segment *s;
    for (emu_position i = part(start, start + size); (s = before(i, start + size)) != NULL; i = emu_extent_next(&segments, i)) s->unwritten = false;
    pthread_mutex_unlock(&lock);
}

void emu_validate_poison(const void *address, uint64_t size) {
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (size == 0 || (emu_config()->validate & VALIDATE_MEMORY) == 0) return;
    pthread_mutex_lock(&lock);
    poison_all(start, start + size);
    pthread_mutex_unlock(&lock);
}

void emu_validate_used(const void *address, uint64_t size) {
    emu_validate_poison(address, size);
    emu_validate_written(address, size);
}

void emu_validate_summary(void) {
    pthread_mutex_lock(&lock);
    emu_findings_summary(tasks, timeline_count);
    tasks = 0;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_VALIDATE, &lock, forked_child); }
