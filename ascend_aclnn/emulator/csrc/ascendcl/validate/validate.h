/* --validate: accesses to memory that nothing orders (sync), and reads of device memory that was never written (memory). */
#ifndef EMU_VALIDATE_H
#define EMU_VALIDATE_H

#include "ascendcl/core/settings.h"

/* Everything that is in order with itself has a timeline: each stream, and the host (0), all of whose threads count as one. A task
 * is a launch, copy or fill; the tasks of a timeline are numbered from 1 on. */
#define EMU_HOST_TIMELINE 0u

typedef enum { ACCESS_READ, ACCESS_UPDATE, ACCESS_WRITE } emu_access_kind; /* an update reads and writes */

/* Whether what is read goes to what the task writes, and no result depends on it: then bytes that were never written may be read. */
typedef enum {
    MOVES_NOTHING,
    MOVES_SOME,              /* of it; what the task writes counts as written, but for what emu_validate_moved says */
    MOVES_ALL,               /* where all of it was never written, neither was what the task writes */
    MOVES_IN_ORDER,          /* the bytes of the one read are those of the one write */
} emu_moves;

/* Rows of `size` bytes, `pitch` apart, that a task accesses. */
typedef struct {
    emu_access_kind kind;
    const void *address;
    uint64_t size, rows, pitch;
    const char *argument;    /* ends at a space or at its end; lives as long as the process */
    int member;              /* of a list, from 0 on; -1: the argument is not a list */
    emu_moves moves;
    bool done;               /* the task has come to its end already */
    bool vague;              /* a part of these bytes, not known which: writes count as memory that is written, and nothing else */
} emu_access;

/* What is known to have passed: the number of the last task of each timeline. */
typedef struct emu_clock emu_clock;

/* Whether something is validated. The other functions may only be called then. */
static inline bool emu_validates(void) { return __builtin_expect(emu_config()->validate != 0, 0); }

/* A timeline for a new stream, which begins after what the host has waited for. And its end, when all its tasks have ended. */
uint32_t emu_timeline_new(int stream);
void emu_timeline_end(uint32_t timeline);
/* A stream or the host meets other processes: they may wait for all that it had before (publishes), or it for them (receives). Both
 * sides have the same key. Calls by one key are counted on each device, and the first of one side meets the first of the other. */
typedef struct {
    char key[160];
    uint32_t communicator;   /* how much of the key is the communicator's name */
    int device;
    bool counts_apart;       /* those that publish and those that receive are counted by themselves: sends and receives */
    bool publishes, receives;
} emu_exchange;

/* A task is queued; its accesses are compared with those of earlier tasks. Its number. */
LINK uint64_t emu_validate_task(uint32_t timeline, const char *name, uint32_t site, const emu_access *accesses, size_t count);
/* The parts of an access that were never written: pairs of address and size, which the caller frees; 0: none. */
LINK size_t emu_validate_never_written(const emu_access *access, uint64_t **pairs);
/* A task has moved bytes here that were never written. */
LINK void emu_validate_moved(uint32_t timeline, uint64_t task, const void *address, uint64_t size);
/* A task that meets other processes: it begins when what they had before has come to an end. Its number. */
LINK uint64_t emu_validate_communication(uint32_t timeline, const char *name, uint32_t site, const emu_access *accesses, size_t count,
                                         const emu_exchange *exchanges, size_t exchange_count);
/* An event that processes share is recorded in a stream, or waited for by a stream or the host. */
void emu_validate_recorded(uint32_t timeline, uint64_t event, uint64_t recording);
void emu_validate_waited(uint32_t timeline, uint64_t event, uint64_t recording);
/* Memory that other processes may use from now on, or the memory of another one: bytes of a file. */
void emu_validate_shared(const void *address, uint64_t size, int file, uint64_t offset, bool own);
/* A task has left some of its outputs unwritten. */
LINK void emu_validate_unwritten(uint32_t timeline, uint64_t task, const void *address, uint64_t size);
/* The latest task of a timeline reads pinned host memory, which the host may not change before it has waited for it. */
void emu_validate_source(uint32_t timeline, const char *name, uint32_t site, const emu_access *access);
/* It writes such memory, which the host may not use before; the pages from `first` to `last` hold nothing else. */
void emu_validate_target(uint32_t timeline, const char *name, uint32_t site, const emu_access *access, uint64_t first, uint64_t last);
/* A function of the host is queued in a stream; it has come to an end. */
void emu_validate_host_function(bool queued);
/* A stream writes a value, or waits for one. */
void emu_value_written(uint32_t timeline, const void *address, uint64_t value);
void emu_value_waited(uint32_t timeline, const void *address, bool (*fits)(uint64_t found, uint64_t value, uint32_t flag), uint64_t value, uint32_t flag);
/* What has passed when the tasks that a timeline has so far have; the caller frees it with free. */
emu_clock *emu_clock_of(uint32_t timeline);
/* Later tasks wait for what a clock says. NULL: for something that is not known, so nothing is compared until the host waits. */
void emu_timeline_waits(uint32_t timeline, const emu_clock *clock);
/* The host has waited for all tasks of a timeline; for what a clock says (NULL: it is not known, and may be everything). */
LINK void emu_host_waited(uint32_t timeline);
void emu_host_passed(const emu_clock *clock);

/* Device memory is new, and unwritten; pinned host memory is new. Leaks are found by it. */
void emu_validate_new(const void *address, uint64_t size);
void emu_validate_host_new(const void *address, uint64_t size);
/* Memory is freed by the client, which should have waited for all that uses it; memory goes by itself. */
void emu_validate_free(const void *address, uint64_t size);
void emu_validate_forget(const void *address, uint64_t size);
/* The next error of this thread is about an address: findings name the call that allocated or freed it. */
void emu_validate_blame(const void *address);
/* Reports memory that was never freed, and handles that were never destroyed. */
void emu_validate_leaks(void);
/* Memory lies at an address from now on that lies at another one, too, until the address is forgotten. */
void emu_validate_alias(const void *address, uint64_t size, const void *other);
/* Memory is written by something that is not seen; it is read or written by it from now on. */
LINK void emu_validate_written(const void *address, uint64_t size);
void emu_validate_used(const void *address, uint64_t size);
/* Something that is no access gets these bytes now: what a launch would get. */
void emu_validate_poison(const void *address, uint64_t size);

/* Prints how much was compared and found. */
void emu_validate_summary(void);

#endif
