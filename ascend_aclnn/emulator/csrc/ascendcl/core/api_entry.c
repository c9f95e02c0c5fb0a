/* Counting calls, forked children, injected failures. */
#include "ascendcl/core/api_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------- fork */

#define MOST_FORK_RULES 16

static pthread_mutex_t *fork_locks[MOST_FORK_RULES];
static void (*fork_children[MOST_FORK_RULES])(void);
static size_t fork_lock_count, fork_child_count;
static bool forked;

/* The thread that forks holds the locks meanwhile, so that the child finds nothing half done. */
static void before_fork(void) {
    for (size_t i = 0; i < fork_lock_count; i++) pthread_mutex_lock(fork_locks[i]);
}

static void after_fork(void) {
    for (size_t i = fork_lock_count; i-- > 0;) pthread_mutex_unlock(fork_locks[i]);
}

static void after_fork_in_child(void) {
    after_fork();
    for (size_t i = 0; i < fork_child_count; i++) fork_children[i]();
}

void emu_at_fork(pthread_mutex_t *lock, void (*child)(void)) {
    if (fork_lock_count + fork_child_count == 0) pthread_atfork(before_fork, after_fork, after_fork_in_child);
    if (fork_lock_count == MOST_FORK_RULES || fork_child_count == MOST_FORK_RULES) abort();
    if (lock != NULL) fork_locks[fork_lock_count++] = lock;
    if (child != NULL) fork_children[fork_child_count++] = child;
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

/* ------------------------------------------------------------------------------------------------------ what is lacking */

/* Every function of CANN's headers that none of these sources has ends here: see build.py. */
int emu_not_emulated(const char *routine, int refusal) {
    int status = emu_enter(routine);
    return status != 0 ? status : emu_fail(refusal, "EMULATOR_NOT_SUPPORTED", "the emulator lacks this function");
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(&fault_lock, NULL); }
