/* The log of the process, where CANN's runtime writes it: debug/plog/plog-PID_TIME.log. Without ASCEND_PROCESS_LOG_PATH CANN
 * writes it below ~/ascend/log; the emulated device does not write to home directories and then has no log. */
#include "ascendcl/core/plog.h"

#include "ascendcl/core/api_entry.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char path[4096]; /* of the file; "" until there is one */

static bool make_directories(const char *directory) {
    char part[sizeof path];
    snprintf(part, sizeof part, "%s", directory);
    for (char *at = part + 1;; at++) {
        char end = *at;
        if (end != '/' && end != 0) continue;
        *at = 0;
        if (mkdir(part, 0750) != 0 && errno != EEXIST) return false;
        if (end == 0) return true;
        *at = end;
    }
}

/* The lock is held. */
static FILE *open_log(const struct tm *date, long micros) {
    const char *root = getenv("ASCEND_PROCESS_LOG_PATH");
    if (root == NULL || *root == 0) return NULL;
    if (path[0] == 0) {
        char directory[2048], stamp[32];
        strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", date);
        snprintf(directory, sizeof directory, "%s/debug/plog", root);
        if (!make_directories(directory)) return NULL;
        snprintf(path, sizeof path, "%s/plog-%d_%s%03ld.log", directory, (int)getpid(), stamp, micros / 1000);
    }
    return fopen(path, "ae");
}

/* A line in the runtime's form: level, module, process, time, source, thread, function. */
static void log_error(const char *text) {
    struct timespec now;
    struct tm local;
    char date[40];
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(date, sizeof date, "%Y-%m-%d-%H:%M:%S", &local);
    long micros = now.tv_nsec / 1000;
    pthread_mutex_lock(&log_lock);
    FILE *file = open_log(&local, micros);
    if (file != NULL) {
        fprintf(file, "[ERROR] RUNTIME(%d,%s):%s.%03ld.%03ld [emulator]%ld %s:%s\n", (int)getpid(), program_invocation_short_name, date,
                micros / 1000, micros % 1000, (long)syscall(SYS_gettid), emu_routine(), text);
        fclose(file);
    }
    pthread_mutex_unlock(&log_lock);
}

static _Atomic uint64_t timed_out;

int emu_timed_out(int status, const char *code, const char *what, int32_t timeout) {
    char text[160];
    snprintf(text, sizeof text, "%s after %d ms", what, (int)timeout);
    timed_out++;
    log_error(text);
    return emu_fail(status, code, "%s", text);
}

API uint64_t aclemuTimedOutWaits(void) { return timed_out; }

/* The child has a log file of its own. */
static void forked_child(void) { path[0] = 0; }

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_LOG, &log_lock, forked_child); }
