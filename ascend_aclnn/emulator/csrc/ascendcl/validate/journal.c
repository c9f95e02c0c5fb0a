#include "ascendcl/validate/journal.h"

#include "ascendcl/validate/call_site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 1024

/* A side that has been described, so that lines only name it. */
typedef struct side side;

struct side {
    side *next;
    const char *task, *argument;
    uint32_t site;
    int stream, member;
    unsigned number;
};

static side *sides[BUCKETS];
static unsigned side_count;

typedef struct {
    FILE *file;
    char *text;
    size_t size;
} line;

static void begin(line *l, const char *kind) {
    l->file = open_memstream(&l->text, &l->size); /* which keeps these addresses */
    if (l->file == NULL) abort();
    fprintf(l->file, "{\"process\":%d,\"journal\":\"%s\"", (int)getpid(), kind);
}

static void end(line *l) {
    fputs("}\n", l->file);
    fclose(l->file);
    emu_report_line(l->text, l->size);
    free(l->text);
}

static void put_number(line *l, const char *name, uint64_t number) { fprintf(l->file, ",\"%s\":%llu", name, (unsigned long long)number); }

static void put_text(line *l, const char *name, const char *text) {
    char quoted[700];
    emu_json_text(quoted, sizeof quoted, text);
    fprintf(l->file, ",\"%s\":%s", name, quoted);
}

static void put_clock(line *l, emu_passed clock) {
    const char *comma = "";
    fputs(",\"clock\":{", l->file);
    for (uint32_t i = 0; i < clock.count; i++) {
        if (clock.passed[i] == 0) continue;
        fprintf(l->file, "%s\"%u\":%llu", comma, i, (unsigned long long)clock.passed[i]);
        comma = ",";
    }
    fputs("}", l->file);
}

static void put_place(line *l, const emu_place *place) {
    put_number(l, "file", place->file);
    put_number(l, "offset", place->offset);
    put_number(l, "size", place->size);
    put_number(l, "rows", place->rows);
    put_number(l, "pitch", place->pitch);
    put_number(l, "address", place->address);
}

static unsigned side_of(const emu_record *a) {
    uint64_t hash = ((uint64_t)(uintptr_t)a->task ^ (uint64_t)(uintptr_t)a->argument * 31u ^ a->site * 1009u) + (uint64_t)(a->stream * 131 + a->member);
    side **bucket = &sides[hash * 0x9e3779b97f4a7c15ull >> 54], *s = *bucket;
    while (s != NULL && !(s->task == a->task && s->argument == a->argument && s->site == a->site && s->stream == a->stream && s->member == a->member)) s = s->next;
    if (s != NULL) return s->number;
    s = malloc(sizeof *s);
    if (s == NULL) abort();
    *s = (side){*bucket, a->task, a->argument, a->site, a->stream, a->member, ++side_count};
    *bucket = s;
    static char description[12000];
    emu_side_json(description, sizeof description, "is", a);
    line l;
    begin(&l, "side");
    put_number(&l, "side", s->number);
    put_text(&l, "place", emu_site_place(a->site));
    fputs(description, l.file);
    end(&l);
    return s->number;
}

/* A side: what it is, and which of its kind. */
static void put_side(line *l, const char *name, unsigned side, const emu_record *a) {
    fprintf(l->file, ",\"%s\":[%u,%u,%llu,%llu]", name, side, a->timeline, (unsigned long long)a->number, (unsigned long long)a->shown);
}

void emu_journal_access(const emu_record *access, unsigned kind, const emu_place *place, emu_passed clock) {
    unsigned of = side_of(access);
    line l;
    begin(&l, "access");
    put_side(&l, "side", of, access);
    put_number(&l, "kind", kind);
    put_place(&l, place);
    put_clock(&l, clock);
    end(&l);
}

void emu_journal_doubt(const char *rule, const emu_record *earlier, const emu_record *later, uint64_t start, uint64_t bytes, emu_passed clock) {
    unsigned of_earlier = side_of(earlier), of_later = side_of(later);
    line l;
    begin(&l, "doubt");
    put_text(&l, "identifier", rule);
    put_side(&l, "earlier", of_earlier, earlier);
    put_side(&l, "later", of_later, later);
    put_number(&l, "start", start);
    put_number(&l, "bytes", bytes);
    put_clock(&l, clock);
    end(&l);
}

void emu_journal_publish(const char *key, emu_passed clock) {
    line l;
    begin(&l, "publish");
    put_text(&l, "key", key);
    put_clock(&l, clock);
    end(&l);
}

void emu_journal_receive(const char *key, uint32_t timeline, uint64_t number) {
    line l;
    begin(&l, "receive");
    put_text(&l, "key", key);
    put_number(&l, "timeline", timeline);
    put_number(&l, "number", number);
    end(&l);
}

void emu_journal_value_written(const emu_place *place, uint64_t value, emu_passed clock) {
    line l;
    begin(&l, "write");
    put_place(&l, place);
    put_number(&l, "value", value);
    put_clock(&l, clock);
    end(&l);
}

void emu_journal_value_waited(const emu_place *place, uint64_t value, uint32_t flag, uint32_t timeline, uint64_t number) {
    line l;
    begin(&l, "wait");
    put_place(&l, place);
    put_number(&l, "value", value);
    put_number(&l, "flag", flag);
    put_number(&l, "timeline", timeline);
    put_number(&l, "number", number);
    end(&l);
}

void emu_journal_passed(uint32_t timeline, uint64_t number) {
    line l;
    begin(&l, "passed");
    put_number(&l, "timeline", timeline);
    put_number(&l, "number", number);
    end(&l);
}

void emu_journal_freed(const emu_place *place) {
    line l;
    begin(&l, "freed");
    put_place(&l, place);
    end(&l);
}

void emu_journal_forked(void) {
    memset(sides, 0, sizeof sides);
    side_count = 0;
}
