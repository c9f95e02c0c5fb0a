/* The messages of each thread. */
#include "ascendcl/core/messages.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    const char *routine;
    char *message;   /* not read yet */
    char *returned;  /* what aclGetRecentErrMsg returned last */
    aclError last;
} thread_state;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static __thread thread_state *thread;

static void free_thread(void *state) {
    thread_state *old = state;
    free(old->message);
    free(old->returned);
    free(old);
    thread = NULL;
}

static void make_thread_key(void) { pthread_key_create(&thread_key, free_thread); }

static thread_state *self(void) {
    if (thread == NULL) {
        pthread_once(&thread_once, make_thread_key);
        thread = calloc(1, sizeof *thread);
        if (thread == NULL) abort();
        pthread_setspecific(thread_key, thread);
    }
    return thread;
}

static _Atomic bool kept; /* a device is lost: messages stay after they are read */

static _Atomic uint64_t failures;

uint64_t emu_failures(void) { return failures; }

static int set_message(int status, char *text) {
    thread_state *state = self();
    failures++;
    if (kept && state->message != NULL && text != NULL) { /* newest first */
        char *both = NULL;
        if (asprintf(&both, "%s\n%.4000s", text, state->message) >= 0) {
            free(text);
            text = both;
        }
    }
    free(state->message);
    state->message = text;
    state->last = status;
    return status;
}

void (*emu_when_failed)(const char *error, const char *text);

int emu_fail(int status, const char *error, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (error != NULL && emu_when_failed != NULL) emu_when_failed(error, text);
    const char *routine = self()->routine;
    char *message = NULL;
    int length = asprintf(&message, "%s%s%s%s%s", error != NULL ? error : "", error != NULL ? ": " : "",
                          routine != NULL ? routine : "", routine != NULL ? ": " : "", text);
    return set_message(status, length < 0 ? NULL : message);
}

int emu_null_argument(const char *name) { return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%s is a null pointer", name); }

int emu_fail_with(int status, const char *text) { return set_message(status, strdup(text)); }

int emu_refuse(int status, const char *text, size_t size) {
    size_t length = strlen(text) + 1;
    if (length >= size) return emu_fail_with(status, text);
    struct timespec now;
    struct tm local;
    char date[40], *message = NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(date, sizeof date, "%Y-%m-%d-%H:%M:%S", &local);
    long micros = now.tv_nsec / 1000;
    if (asprintf(&message, "%s\nEZ1001: [PID: %d] %s.%03ld.%03ld %s", text, (int)getpid(), date, micros / 1000, micros % 1000,
                 text + length) < 0)
        message = NULL;
    return set_message(status, message);
}

char *emu_take_message(void) {
    thread_state *state = self();
    char *text = state->message;
    state->message = NULL;
    return text;
}

void emu_restore_message(char *text) {
    free(self()->message);
    self()->message = text;
}

void emu_set_routine(const char *routine) { self()->routine = routine; }

const char *emu_routine(void) { return self()->routine; }

void emu_keep_messages(void) { kept = true; }

/* Reading clears the message unless a device is lost. */
API const char *aclGetRecentErrMsg(void) {
    thread_state *state = self();
    free(state->returned);
    state->returned = state->message;
    state->message = kept && state->returned != NULL ? strdup(state->returned) : NULL;
    return state->returned;
}

bool emu_has_message(void) { return self()->message != NULL; }

int emu_last_status(void) { return self()->last; }

void emu_forget_status(void) { self()->last = ACL_SUCCESS; }
