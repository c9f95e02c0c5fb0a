/* How every function of the interface begins and ends: counting, forked children, injected failures. */
#ifndef EMU_API_ENTRY_H
#define EMU_API_ENTRY_H

#include "ascendcl/core/messages.h"

#include <pthread.h>

/* Locks that fork holds, in the order in which one thread may take them: the outer ones first. It does not depend on the
 * order in which constructors run. */
typedef enum {
    FORK_VIRTUAL_MEMORY,
    FORK_IPC,
    FORK_HOST_MAPPING,
    FORK_PROFILING,
    FORK_DEVICES,
    FORK_MEMORY,
    FORK_PROCESSES,
    FORK_CONNECTIONS,
    FORK_ALIASES,
    FORK_SHARING,
    FORK_HOST_MEMORY,
    FORK_HANDLES,
    FORK_LOG,
    FORK_FAULTS,
    FORK_COUNT
} emu_fork_order;

/* What a source does at a fork: a lock that no other thread may hold at that moment, and what the child runs first (either
 * may be NULL). Called by constructors. */
void emu_at_fork(emu_fork_order order, pthread_mutex_t *lock, void (*child)(void));
/* The child of a process that used a device: it has no device, and no call has an effect. */
LINK bool emu_is_forked(void);
/* Says, in a forked child, that it is one: what the parent used is not this process's. */
void emu_set_forked(void);

/* Every API function begins with one of these: counts the call, refuses it in a forked child, injects a failure. */
LINK int emu_enter(const char *routine);
#define ENTER(routine) do { int entered_ = emu_enter(routine); if (entered_ != 0) return entered_; } while (0)
#define ENTER_OR_NULL(routine) do { if (emu_enter(routine) != 0) return NULL; } while (0)
/* For functions that release something or wait: they do so, and then return this if it is not 0. In a forked child there
 * is nothing of its own to release or to wait for. */
#define ENTER_RELEASE(routine)             \
    int entered_ = emu_enter(routine);     \
    if (emu_is_forked()) return entered_
/* The message of an injected failure must survive the release. */
LINK int emu_leave(int entered, int status);
#define LEAVE(status) return emu_leave(entered_, status)

/* A run of a repeatable executor that CANN replays from its record of the first one. */
LINK void emu_count_fast_run(void);

/* What the generated stubs of everything that is not emulated return. */
LINK int emu_not_emulated(const char *routine, int refusal);

#endif
