/* How every function of the interface begins and ends: counting, forked children, injected failures. */
#ifndef EMU_API_ENTRY_H
#define EMU_API_ENTRY_H

#include "ascendcl/core/messages.h"

#include <pthread.h>

/* The locks that are held across a fork, in the order in which one thread may nest them, outermost first. The order does not
 * depend on that of the constructors. */
typedef enum {
    FORK_KERNELS,
    FORK_VIRTUAL_MEMORY,
    FORK_IPC,
    FORK_HOST_MAPPING,
    FORK_PEERS,
    FORK_PROFILING,
    FORK_DEVICES,
    FORK_CAPTURES,
    FORK_MEMORY,
    FORK_PROCESSES,
    FORK_CONNECTIONS,
    FORK_ALIASES,
    FORK_SHARING,
    FORK_HOST_MEMORY,
    FORK_HANDLES,
    FORK_LOG,
    FORK_FAULTS,
    FORK_VALIDATE,
    FORK_FINDINGS,
    FORK_CALL_SITES,
    FORK_RANGES,
    FORK_ACTIVITY,
    FORK_MSPTI,
    FORK_ADXL,
    FORK_COUNT
} emu_fork_order;

/* Registers a lock that is held across a fork, and a function that the child runs first (either may be NULL). For
 * constructors. */
LINK void emu_at_fork(emu_fork_order order, pthread_mutex_t *lock, void (*child)(void));
/* True in the child of a process that used a device. The child has no device, and its calls have no effect. */
LINK bool emu_is_forked(void);
/* Marks this process as such a child: handles and memory belong to its parent. */
void emu_set_forked(void);

/* A hook of --validate: a function of the interface begins. Set at load, or NULL. */
extern void (*emu_when_entered)(const char *routine);

/* Every API function begins with one of these. They count the call, refuse it in a forked child and inject failures. */
LINK int emu_enter(const char *routine);
#define ENTER(routine) do { int entered_ = emu_enter(routine); if (entered_ != 0) return entered_; } while (0)
#define ENTER_OR_NULL(routine) do { if (emu_enter(routine) != 0) return NULL; } while (0)
/* For functions that release something or wait: they do their work, and return this status if it is not 0. A forked child has
 * nothing to release or to wait for. */
#define ENTER_RELEASE(routine)             \
    int entered_ = emu_enter(routine);     \
    if (emu_is_forked()) return entered_
/* The message of an injected failure survives the release. */
LINK int emu_leave(int entered, int status);
#define LEAVE(status) return emu_leave(entered_, status)

/* Counts a run of a repeatable executor that CANN replays from the record of its first run. */
LINK void emu_count_fast_run(void);

/* Called by the generated stubs of all functions that are not emulated. */
LINK int emu_not_emulated(const char *routine, int refusal);

#endif
