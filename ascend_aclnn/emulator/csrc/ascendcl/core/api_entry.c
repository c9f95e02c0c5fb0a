/* Counting calls, forked children. */
#include "ascendcl/core/api_entry.h"

#include "ascendcl/core/faults.h"

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

/* -------------------------------------------------------------------------------------------------------- call counting */

static _Atomic uint64_t calls, fast_runs;

void (*emu_when_entered)(const char *routine);

int emu_enter(const char *routine) {
    emu_set_routine(routine);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (__builtin_expect(forked, 0))
        return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_FORKED",
                        "this process was forked after its parent had used a device; start it with spawn instead");
    if (__builtin_expect(emu_when_entered != NULL, 0)) emu_when_entered(routine);
    return __builtin_expect(emu_faults_armed, 0) ? emu_inject_fault(routine) : 0;
}

int emu_leave(int entered, int status) {
    if (entered == 0) return status;
    if (status == 0 && !emu_has_message()) emu_fail_on_purpose(entered);
    return entered;
}

API uint64_t aclemuCallCount(void) { return calls; }

void emu_count_fast_run(void) { fast_runs++; }

API uint64_t aclemuFastRuns(void) { return fast_runs; }

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
    emu_at_fork(FORK_FAULTS, &emu_fault_lock, NULL);
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
