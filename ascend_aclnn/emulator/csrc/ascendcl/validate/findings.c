/* Findings: told once, counted, suppressed, and appended to the launcher's report. */
#include "ascendcl/validate/findings.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/validate/call_site.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Errors of the emulated device that are findings, too. */
static const struct {
    const char *error, *rule;
} rules_of_errors[] = {
    {"EMULATOR_USE_AFTER_FREE", "memory/use-after-free"},
    {"EMULATOR_DOUBLE_FREE", "memory/double-free"},
    {"EMULATOR_FREE_IN_USE", "memory/free-in-use"},
    {"EMULATOR_OUT_OF_BOUNDS", "memory/out-of-bounds"},
    {"EMULATOR_INVALID_ADDRESS", "memory/invalid-address"},
    {"EMULATOR_COPY_DIRECTION", "memory/copy-direction"},
    {"EMULATOR_WORKSPACE_TOO_SMALL", "memory/workspace-too-small"},
    {"EMULATOR_USE_AFTER_DESTROY", "handle/use-after-destroy"},
    {"EMULATOR_DOUBLE_DESTROY", "handle/double-destroy"},
    {"EMULATOR_NOT_A_HANDLE", "handle/not-a-handle"},
    {"EMULATOR_WRONG_KIND", "handle/wrong-kind"},
    {"EMULATOR_LIST_MEMBER", "handle/list-member"},
    {"EMULATOR_WRONG_CONTEXT", "handle/wrong-context"},
    {"EMULATOR_WRONG_EXECUTOR", "handle/wrong-executor"},
    {"EMULATOR_THREAD_ENDED", "handle/thread-ended"},
};

/* A warning does not count for the exit status. */
static const char *severity_of(const char *rule) { return strcmp(rule, "memory/leak") == 0 ? "warning" : "error"; }

typedef struct finding finding;

struct finding {
    finding *next;
    const char *rule;
    emu_record earlier, later;
    uint64_t number, times;
    bool suppressed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything here; only that of call sites is taken under it */
static finding *findings;
static uint64_t finding_count, finding_times, suppressed_count;

const char *emu_lasting(const char *text, size_t length) {
    typedef struct kept kept;
    struct kept {
        kept *next;
        char text[];
    };
    static kept *all;
    pthread_mutex_lock(&lock);
    kept *k = all;
    while (k != NULL && !(strlen(k->text) == length && memcmp(k->text, text, length) == 0)) k = k->next;
    if (k == NULL) {
        k = calloc(1, sizeof *k + length + 1);
        if (k == NULL) abort();
        memcpy(k->text, text, length);
        k->next = all;
        all = k;
    }
    pthread_mutex_unlock(&lock);
    return k->text;
}

static int argument_length(const emu_record *a) { return (int)strcspn(a->argument, " "); }

static bool alike(const emu_record *a, const emu_record *b) {
    if (a->task == NULL || b->task == NULL) return a->task == b->task;
    return a->stream == b->stream && a->member == b->member && strcmp(a->task, b->task) == 0 && argument_length(a) == argument_length(b) &&
           strncmp(a->argument, b->argument, (size_t)argument_length(a)) == 0 &&
           (a->site == b->site || (!emu_site_is_python(a->site) && strcmp(emu_site_place(a->site), emu_site_place(b->site)) == 0));
}

static const char *kind_of(const emu_record *a) {
    if (a->number == 0) return "call";
    return strstr(a->task, "Memcpy") != NULL ? "copy" : strstr(a->task, "Memset") != NULL ? "fill" : "launch";
}

/* "aclnnAdd other (launch 3 of stream 5, train.py:12 in step)". */
static void describe(const emu_record *a, char *buffer, size_t size) {
    char member[16] = "", where[80] = "";
    const char *place = emu_site_place(a->site);
    if (a->member >= 0) snprintf(member, sizeof member, "[%d]", a->member);
    if (a->number > 0 && a->stream >= 0) snprintf(where, sizeof where, "%s %llu of stream %d", kind_of(a), (unsigned long long)a->shown, a->stream);
    else if (a->number > 0) snprintf(where, sizeof where, "%s %llu of the host", kind_of(a), (unsigned long long)a->shown);
    snprintf(buffer, size, "%s%s%.*s%s%s%s%s%s%s", a->task, *a->argument != 0 ? " " : "", argument_length(a), a->argument, member,
             *where != 0 || *place != 0 ? " (" : "", where, *where != 0 && *place != 0 ? ", " : "", place, *where != 0 || *place != 0 ? ")" : "");
}

static bool is_set(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL && *text != 0;
}

/* Whether findings are only reported, and nothing is printed. */
static bool is_quiet(void) { return is_set("ASCEND_EMULATOR_VALIDATE_QUIET"); }

bool emu_reports(void) { return is_set("ASCEND_EMULATOR_VALIDATE_REPORT"); }

void emu_report_line(const char *line, size_t length) {
    const char *path = getenv("ASCEND_EMULATOR_VALIDATE_REPORT");
    int file = path != NULL && *path != 0 ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (file < 0) return;
    if (write(file, line, length) < 0) fprintf(stderr, "EMULATOR_VALIDATE: cannot write to %s\n", path);
    close(file);
}

size_t emu_side_json(char *buffer, size_t size, const char *name, const emu_record *a) {
    char task[200], argument[100], shown[100];
    if (a->task == NULL) return (size_t)snprintf(buffer, size, ",\"%s\":null", name);
    emu_json_text(task, sizeof task, a->task);
    snprintf(shown, sizeof shown, "%.*s", argument_length(a), a->argument);
    emu_json_text(argument, sizeof argument, shown);
    return (size_t)snprintf(buffer, size,
                            ",\"%s\":{\"operator\":%s,\"kind\":\"%s\",\"argument\":%s,\"member\":%d,\"stream\":%d,\"number\":%llu,\"frames\":%s}", name, task,
                            kind_of(a), argument, a->member, a->number > 0 ? a->stream : -1, (unsigned long long)a->shown, emu_site_frames(a->site));
}

static void report(const finding *f, const char *text) {
    static char line[24000]; /* under the lock */
    char quoted[4200];
    emu_json_text(quoted, sizeof quoted, text);
    size_t at = (size_t)snprintf(line, sizeof line, "{\"process\":%d,\"finding\":%llu,\"identifier\":\"%s\",\"severity\":\"%s\",\"text\":%s", (int)getpid(),
                                 (unsigned long long)f->number, f->rule, severity_of(f->rule), quoted);
    at += emu_side_json(line + at, sizeof line - at, "later", &f->later);
    at += emu_side_json(line + at, sizeof line - at, "earlier", &f->earlier);
    at += (size_t)snprintf(line + at, sizeof line - at, "}\n");
    emu_report_line(line, at);
}

/* Whether a line of the suppression file, "IDENTIFIER TEXT" with the patterns of fnmatch(3), fits. */
static bool is_suppressed(const char *rule, const char *text) {
    const char *path = getenv("ASCEND_EMULATOR_VALIDATE_SUPPRESS");
    char line[1000], pattern[1002];
    bool fits = false;
    FILE *file = path != NULL && *path != 0 ? fopen(path, "re") : NULL;
    while (file != NULL && !fits && fgets(line, sizeof line, file) != NULL) {
        char *rest = NULL, *wanted = strtok_r(line, " \t\n", &rest);
        if (wanted == NULL || *wanted == '#' || fnmatch(wanted, rule, 0) != 0) continue;
        rest[strcspn(rest, "\n")] = 0;
        snprintf(pattern, sizeof pattern, "*%s*", rest + strspn(rest, " \t"));
        fits = fnmatch(pattern, text, 0) == 0;
    }
    if (file != NULL) fclose(file);
    return fits;
}

/* Replaces {later} and {earlier}. */
static void fill_in(char *text, size_t size, const char *format, const char *later, const char *earlier) {
    size_t at = 0;
    while (*format != 0 && at + 1 < size) {
        const char *side = strncmp(format, "{later}", 7) == 0 ? later : strncmp(format, "{earlier}", 9) == 0 ? earlier : NULL;
        if (side == NULL) {
            text[at++] = *format++;
            continue;
        }
        at += (size_t)snprintf(text + at, size - at, "%s", side);
        if (at >= size) at = size - 1;
        format += side == later ? 7 : 9;
    }
    text[at] = 0;
}

void emu_find(const char *rule, const emu_record *earlier, const emu_record *later, const char *format, ...) {
    const emu_record none = {.argument = ""};
    if (earlier == NULL) earlier = &none;
    pthread_mutex_lock(&lock);
    finding *f = findings;
    while (f != NULL && !(strcmp(f->rule, rule) == 0 && alike(&f->later, later) && alike(&f->earlier, earlier))) f = f->next;
    if (f != NULL) {
        f->times++;
        if (!f->suppressed) finding_times++;
        pthread_mutex_unlock(&lock);
        return;
    }
    char first[600] = "", second[600], own[1600], text[4000];
    f = calloc(1, sizeof *f);
    if (f == NULL) abort();
    *f = (finding){findings, rule, *earlier, *later, finding_count + suppressed_count + 1, 1, false};
    findings = f;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(own, sizeof own, format, arguments);
    va_end(arguments);
    describe(later, second, sizeof second);
    if (earlier->task != NULL) describe(earlier, first, sizeof first);
    fill_in(text, sizeof text, own, second, first);
    f->suppressed = is_suppressed(rule, text);
    if (f->suppressed) {
        suppressed_count++;
    } else {
        finding_count++;
        finding_times++;
        if (!is_quiet()) fprintf(stderr, "EMULATOR_VALIDATE: %s%s: %s\n", strcmp(severity_of(rule), "error") == 0 ? "" : "warning: ", rule, text);
        report(f, text);
        if (strcmp(severity_of(rule), "error") == 0 && is_set("ASCEND_EMULATOR_VALIDATE_STOP")) raise(SIGABRT); /* a debugger stops here */
    }
    pthread_mutex_unlock(&lock);
}

void emu_findings_summary(uint64_t tasks, uint32_t timelines) {
    pthread_mutex_lock(&lock);
    char suppressed[48] = "";
    if (suppressed_count > 0) snprintf(suppressed, sizeof suppressed, ", %llu suppressed", (unsigned long long)suppressed_count);
    if (!is_quiet() && (tasks > 0 || finding_count > 0))
        fprintf(stderr, "EMULATOR_VALIDATE: %llu launches, copies and fills on %u timelines: %llu findings, seen %llu times%s\n", (unsigned long long)tasks,
                timelines, (unsigned long long)finding_count, (unsigned long long)finding_times, suppressed);
    for (const finding *f = findings; f != NULL; f = f->next) {
        char first[600] = "", second[600], line[160];
        if (f->times == 1 || f->suppressed) continue;
        describe(&f->later, second, sizeof second);
        if (f->earlier.task != NULL) describe(&f->earlier, first, sizeof first);
        if (!is_quiet()) fprintf(stderr, "EMULATOR_VALIDATE: %llu times: %s: %s%s%s\n", (unsigned long long)f->times, f->rule, second, *first != 0 ? ", " : "", first);
        emu_report_line(line, (size_t)snprintf(line, sizeof line, "{\"process\":%d,\"finding\":%llu,\"times\":%llu}\n", (int)getpid(), (unsigned long long)f->number,
                                      (unsigned long long)f->times));
    }
    pthread_mutex_unlock(&lock);
}

API void aclemuForgetFindings(void) {
    pthread_mutex_lock(&lock);
    while (findings != NULL) {
        finding *next = findings->next;
        free(findings);
        findings = next;
    }
    pthread_mutex_unlock(&lock);
}

/* --------------------------------------------------------------------------------------------------------------- errors */

static __thread struct {
    const char *what, *routine;
    uint32_t site;
} blamed;

void emu_blame(const char *what, const char *routine, uint32_t site) {
    blamed.what = what;
    blamed.routine = routine;
    blamed.site = site;
}

/* An error with a name was made. */
static void failed(const char *error, const char *text) {
    if ((emu_config()->validate & VALIDATE_MEMORY) == 0) return;
    for (size_t i = 0; i < sizeof rules_of_errors / sizeof *rules_of_errors; i++) {
        if (strcmp(error, rules_of_errors[i].error) != 0) continue;
        const char *routine = emu_routine();
        emu_record later = {.task = routine != NULL ? routine : "?", .argument = "", .site = emu_call_site(), .stream = -1, .member = -1};
        emu_record earlier = {.task = blamed.routine, .argument = "", .site = blamed.site, .stream = -1, .member = -1};
        if (blamed.routine != NULL) emu_find(rules_of_errors[i].rule, &earlier, &later, "{later}: %s; %s by {earlier}", text, blamed.what);
        else emu_find(rules_of_errors[i].rule, NULL, &later, "{later}: %s", text);
        break;
    }
    emu_blame(NULL, NULL, 0);
}

__attribute__((constructor)) static void at_start(void) {
    const char *wanted = getenv("ASCEND_EMULATOR_VALIDATE");
    emu_at_fork(FORK_FINDINGS, &lock, NULL);
    if (wanted == NULL || *wanted == 0) return;
    char line[40];
    emu_report_line(line, (size_t)snprintf(line, sizeof line, "{\"process\":%d}\n", (int)getpid())); /* it is validated */
    emu_when_failed = failed;
    emu_blame_hook = emu_blame;
    emu_call_site_hook = emu_call_site;
}
