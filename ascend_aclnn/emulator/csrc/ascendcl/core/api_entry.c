/* Counting calls, forked children, injected failures. */
#include "ascendcl/core/api_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------- fork */

static pthread_mutex_t *fork_locks[FORK_COUNT];
static void (*fork_children[FORK_COUNT])(void);
static bool forked;

/* The forking thread holds all locks across the fork, so that the child sees no half-finished change. */
static void before_fork(void) {
    for (int i = 0; i < FORK_COUNT; i++) {
        if (fork_locks[i] != NULL) pthread_mutex_lock(fork_locks[i]);
    }
}

static void after_fork(void) {
    for (int i = FORK_COUNT; i-- > 0;) {
        if (fork_locks[i] != NULL) pthread_mutex_unlock(fork_locks[i]);
    }
}

static void after_fork_in_child(void) {
    after_fork();
    for (int i = 0; i < FORK_COUNT; i++) {
        if (fork_children[i] != NULL) fork_children[i]();
    }
}

void emu_at_fork(emu_fork_order order, pthread_mutex_t *lock, void (*child)(void)) {
    fork_locks[order] = lock;
    fork_children[order] = child;
}

bool emu_is_forked(void) { return forked; }

void emu_set_forked(void) { forked = true; }

/* ----------------------------------------------------------------------------------- call counting, fault injection */

static _Atomic uint64_t calls, fast_runs;
static _Atomic bool armed;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[128];
    uint64_t left;
    int status;
    char failed[128];
} fault;

static int inject(const char *routine) {
    int status = 0;
    pthread_mutex_lock(&fault_lock);
    if (fault.left > 0 && (fault.name[0] == 0 || strcmp(fault.name, routine) == 0) && --fault.left == 0) {
        status = fault.status;
        snprintf(fault.failed, sizeof fault.failed, "%s", routine);
        armed = false;
    }
    pthread_mutex_unlock(&fault_lock);
    if (status != 0) emu_fail(status, "EMULATOR_INJECTED", "made to fail with %d by aclemuFailAt", status);
    return status;
}

int emu_enter(const char *routine) {
    emu_set_routine(routine);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (__builtin_expect(forked, 0))
        return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_FORKED",
                        "this process was forked after its parent had used a device; start it with spawn instead");
    if (__builtin_expect(armed, 0)) return inject(routine);
    return 0;
}

int emu_leave(int entered, int status) {
    if (entered == 0) return status;
    if (status == 0 && !emu_has_message())
        emu_fail(entered, "EMULATOR_INJECTED", "made to fail with %d by aclemuFailAt", entered);
    return entered;
}

API uint64_t aclemuCallCount(void) { return calls; }

void emu_count_fast_run(void) { fast_runs++; }

API uint64_t aclemuFastRuns(void) { return fast_runs; }

API void aclemuFailAt(const char *name, uint64_t nth, int32_t status) {
    pthread_mutex_lock(&fault_lock);
    memset(&fault, 0, sizeof fault);
    if (name != NULL) snprintf(fault.name, sizeof fault.name, "%s", name);
    fault.left = nth;
    fault.status = status;
    armed = nth > 0;
    pthread_mutex_unlock(&fault_lock);
}

API const char *aclemuFailedCall(void) { return fault.failed[0] != 0 ? fault.failed : NULL; }

API void aclemuReset(void) {
    aclemuFailAt(NULL, 0, 0);
    calls = fast_runs = 0;
}

API aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
    ENTER("aclrtPeekAtLastError");
    (void)level;
    return emu_last_status();
}

API aclError aclrtGetLastError(aclrtLastErrLevel level) {
    ENTER("aclrtGetLastError");
    (void)level;
    aclError last = emu_last_status();
    emu_forget_status();
    return last;
}

/* -------------------------------------------------------------------------------------- functions that are not emulated */

/* Every function of CANN's headers that no source implements calls this one: see build/generated.py. */
int emu_not_emulated(const char *routine, int refusal) {
    int status = emu_enter(routine);
    return status != 0 ? status : emu_fail(refusal, "EMULATOR_NOT_SUPPORTED", "the emulator lacks this function");
}

__attribute__((constructor)) static void at_start(void) {
    emu_at_fork(FORK_FAULTS, &fault_lock, NULL);
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
