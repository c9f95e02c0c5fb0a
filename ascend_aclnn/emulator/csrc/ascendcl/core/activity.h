/* What calls put onto streams, and when it ran: for aclprof and MSPTI. Nothing is noted while no observer is set. */
#ifndef EMU_ACTIVITY_H
#define EMU_ACTIVITY_H

#include "ascendcl/core/api.h"

/* ACTIVITY_REPLAY: a graph is executed; what it runs is noted by emu_activity_replay. */
typedef enum { ACTIVITY_KERNEL, ACTIVITY_COLLECTIVE, ACTIVITY_COPY, ACTIVITY_SET, ACTIVITY_REPLAY } emu_activity_kind;

#define EMU_NOWHERE UINT32_MAX /* a device or stream that there is not */

/* A call. Times are those of emu_now. */
typedef struct {
    const char *name;        /* of the function, or of the operator; it stays */
    emu_activity_kind kind;
    uint32_t thread;         /* the system's number */
    uint32_t device, stream; /* EMU_NOWHERE: it ran in the call */
    uint64_t begin, end;
    uint64_t bytes, detail;  /* of a copy: bytes, aclrtMemcpyKind; of memory that is set: bytes, value; of a collective: elements,
                                HcclDataType */
    char group[128];         /* a collective's communicator */
    bool captured;           /* a graph has it, and it has not run */
    uint64_t replay;         /* the correlation of the call that executes the graph that it belongs to; 0: of none */
} emu_activity_call;

typedef enum { MARK_INSTANT, MARK_BEGIN, MARK_END } emu_mark_kind;

/* A mark of the program's (mstx): of a call, and again, `on_device`, when a stream has come to it. */
typedef struct {
    emu_mark_kind kind;
    bool with_device, on_device; /* it was given a stream; the stream has come to it */
    uint64_t time, number;       /* the begin and the end of a range have one number */
    const char *text, *domain;   /* NULL: none */
    uint32_t thread, device, stream;
} emu_activity_mark;

/* `called` gets each call when it returns, on its thread; `ran` gets later what the call put onto a stream. */
typedef struct {
    void (*called)(uint64_t correlation, const emu_activity_call *call);
    void (*ran)(uint64_t correlation, const emu_activity_call *call, uint64_t begin, uint64_t end);
    void (*marked)(const emu_activity_mark *mark); /* NULL: marks are not observed */
} emu_activity_observer;

#define EMU_OBSERVERS 2
LINK void emu_activity_observe(int which, const emu_activity_observer *observer); /* NULL: no more */
/* Fetches what device processes have run since the last time, and passes it to the observers. */
LINK void emu_activity_collect(void);

/* Begins a call: its correlation, or 0 where nothing is noted or the call is a part of another. */
LINK uint64_t emu_activity_begin(emu_activity_kind kind, const char *name, uint64_t bytes, uint64_t detail, const char *group);
/* Ends it; one that failed is forgotten. */
LINK void emu_activity_end(uint64_t correlation, int status);
LINK bool emu_activity_observed(void);
LINK void emu_activity_tell_mark(const emu_activity_mark *mark);
/* This thread's call executes a graph: notes what one task of it runs, in order. The task's correlation; 0: nothing is noted. */
uint64_t emu_activity_replay(const emu_activity_call *parts, uint32_t many, uint32_t device, uint32_t stream);
/* The correlation of this thread's call, for a task that it queues; 0: none. */
uint64_t emu_activity_queued(uint32_t device, uint32_t stream);
/* A task of this thread's call is captured instead. */
void emu_activity_captured(void);
/* A task of a call has run on this host, or on the device: the parts of a replay's task have the numbers that follow its correlation. */
void emu_activity_ran(uint64_t correlation, uint64_t begin, uint64_t end);

#endif
