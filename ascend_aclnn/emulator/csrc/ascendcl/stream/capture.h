/* Captures: what streams record instead of running it, between aclmdlRICaptureBegin and aclmdlRICaptureEnd. */
#ifndef EMU_CAPTURE_H
#define EMU_CAPTURE_H

#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/messages.h"
#include "ascendcl/validate/validate.h"

typedef struct emu_task emu_task;
typedef struct emu_capture emu_capture;

/* Memory that a captured task uses. */
typedef struct {
    emu_device *device;
    const void *address;
    uint64_t size;
    char name[48];           /* of the argument */
    uint32_t node;
} emu_use;

/* How a task is run again and again. */
typedef struct emu_captured emu_captured;

struct emu_captured {
    emu_buffer step;         /* for the device process: a STEP_ word and its operands. Empty: the task's own `run` does it */
    emu_use *uses;
    uint32_t use_count, use_room;
    bool waits;              /* for other ranks: tasks of other streams must not have to wait for it */
    aclmdlRITaskType type;
    void *event;             /* its handle, */
    uint32_t event_flags;    /* and the flags that it was created with */
    /* of --validate: what it accesses, and where it was called; NULL: it is not known */
    emu_access *accesses;
    const char *kernel;      /* whose accesses they are; NULL: the function's that was called */
    size_t access_count;
    emu_exchange *exchanges; /* with other ranks */
    size_t exchange_count;
    uint32_t site;
    uint64_t call;           /* the number of the captured call among those that wait, or 0 */
    bool calls_host;         /* a function of the host, which comes after what its stream had before */
    /* What it does to the order of the timeline that runs it, beside its accesses; or NULL. */
    void (*order)(const emu_task *task, const emu_captured *captured, uint32_t timeline);
};

LINK void emu_captured_use(emu_captured *captured, emu_device *device, const void *address, uint64_t size, const char *name);
LINK void emu_captured_step(emu_captured *captured, const uint64_t *words, size_t count);
/* The task is a launch with this request. */
LINK void emu_captured_launch(emu_captured *captured, const emu_buffer *request);

typedef enum { NODE_TASK, NODE_RECORD, NODE_WAIT } emu_node_kind;

/* What one call has recorded. */
typedef struct {
    emu_node_kind kind;
    const char *routine;
    emu_task *task;          /* of NODE_TASK; the capture's */
    uint32_t lane;
    uint32_t event;          /* of the others: the number of the event, */
    uint32_t recorded;       /* and the node that a wait waits for */
    uint32_t waits;          /* of a record: waits of other streams for it, */
    bool returned;           /* and whether one of them is of the stream where the capture began */
    uint32_t group;          /* the task group, from 1 on; 0: none */
    bool disabled;           /* does nothing (aclmdlRITaskDisable) */
    emu_captured captured;
} emu_node;

/* A stream of a capture. */
typedef struct {
    emu_stream *stream;      /* a reference; NULL: it was bound, and is so no more */
    void *handle;
    int id;
    int64_t last;            /* node, -1: none */
    uint32_t group;          /* the open task group, 0: none */
} emu_lane;

struct emu_capture {
    emu_capture *next;       /* of those that go on */
    uint64_t id;
    void *owner;             /* the aclmdlRI, */
    uint32_t model;          /* and its number, for messages */
    emu_context *context;
    aclmdlRICaptureMode mode;
    uint32_t thread;
    bool invalid;
    int status;              /* that made it invalid, */
    char reason[200];        /* and why; "" while it is valid */
    emu_node *nodes;
    uint32_t count, room;
    emu_lane *lanes;         /* the first is the stream where it began */
    uint32_t lane_count;
    uint32_t groups, open_groups;
    bool by_hand;            /* streams are bound to the model (aclmdlRIBindStream): no stream is captured */
    bool ended;              /* by hand: aclmdlRIEndTask was called */
};

/* The lock of all captures. */
void emu_captures_lock(void);
void emu_captures_unlock(void);

/* Begins a capture, without streams. The lock is held, as for everything from here on. */
emu_capture *emu_capture_begin(emu_context *context, void *owner, uint32_t model, aclmdlRICaptureMode mode);
/* Ends it for threads and contexts; what it recorded stays. */
void emu_capture_end(emu_capture *capture);
/* Adds a stream; the number of its lane. */
uint32_t emu_capture_join(emu_capture *capture, emu_stream *stream, void *handle, int id);
/* The capture with a number, NULL when it has ended. */
emu_capture *emu_capture_find(uint64_t id);
/* Adds a node; its number. */
uint32_t emu_capture_add(emu_capture *capture, emu_node node);
void emu_capture_invalidate(emu_capture *capture, int status, const char *reason);
/* Frees a node's description, not its task. */
void emu_node_clear(emu_node *node);
/* "model 1; captured last: aclnnAdd, node 3", for messages. */
const char *emu_capture_describe(const emu_capture *capture, char *buffer, size_t size);

/* This thread's number, and its mode (aclmdlRICaptureThreadExchangeMode). */
uint32_t emu_thread_number(void);
aclmdlRICaptureMode emu_exchange_thread_mode(aclmdlRICaptureMode mode);
/* Takes the lock. 0, or a status with a message: this thread may not make synchronous copies now. */
int emu_check_uncaptured(const emu_context *context, int status);

#endif
