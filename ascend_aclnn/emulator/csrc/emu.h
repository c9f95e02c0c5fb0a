/*
 * What the emulator's own sources share. The client's side is plain C and never touches an interpreter: operators run in
 * a device process (ascend_aclnn/emulator/device.py) that shares the device memory.
 *
 *   core.c     settings, messages, call counting and fault injection, the handle table, the leak report
 *   memory.c   device and host memory: blocks, checks, copies
 *   link.c     the device process and the connections to it
 *   stream.c   streams: queues with a worker thread each
 *   event.c    events and host callbacks
 *   runtime.c  initialisation, devices, contexts, options, queries
 *   op.c       descriptions and attributes of single operators; internal.c: what CANN's inner layers export
 *   objects.c  aclTensor, aclScalar, arrays and lists        (libnnopbase)
 *   executor.c both phases, plans, repeatable executors       (libnnopbase)
 *
 * Locks are leaves: none of them is held while another one is taken, except that a device's lock may be taken while
 * `emu_world` is held.
 */
#ifndef EMU_H
#define EMU_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "acl/acl.h"
#include "acl/acl_rt_allocator.h"
#include "aclemu.h"
#include "aclnn/aclnn_base.h"

/* API marks CANN's functions: the build makes a refusing stub for every function of the catalog that has none.
 * LINK marks what the emulator's libraries use of each other. */
#define API __attribute__((visibility("default")))
#define LINK __attribute__((visibility("default")))

/* ------------------------------------------------------------------------------------------------ core.c: settings */

typedef enum { STREAMS_BACKGROUND, STREAMS_EAGER, STREAMS_DEFERRED } emu_stream_mode;

typedef struct {
    const char *name;      /* aclrtGetSocName */
    bool known;            /* false: aclInit refuses it */
    uint64_t memory;       /* bytes of device memory */
    int cube_cores, vector_cores;
    uint64_t l2_bytes;
    int streams, events;   /* limits */
    bool inf_nan, bf16;
    bool page_1g;
} emu_chip;

typedef struct {
    emu_chip chip;
    const char *cann;      /* the release that is claimed */
    int devices;
    emu_stream_mode streams;
    bool noop;             /* operators succeed without doing anything */
    bool strict;           /* leaks make the exit status non-zero */
    bool tell_leaks;
    bool repeatable;       /* aclSetAclOpExecutorRepeatable is not always refused */
    int fill;              /* byte that new device memory is filled with, -1: what it happens to hold */
    int64_t workspace;     /* bytes that phase one asks for; -1: by the device process's rule */
    char directory[4096];  /* where the libraries are */
} emu_settings;

LINK const emu_settings *emu_config(void);

/* ------------------------------------------------------------------------------------ core.c: messages, call counting */

#define EMU_CHECK_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* Sets this thread's message to "error: routine: text" (error may be NULL) and returns the status. */
LINK int emu_fail(int status, const char *error, const char *format, ...) EMU_CHECK_FORMAT(3, 4);
/* Sets the message to a text as it is, and returns the status. */
LINK int emu_fail_with(int status, const char *text);
/* Takes this thread's message away; the caller frees it. NULL when there is none. */
LINK char *emu_take_message(void);
/* Says for which function the following messages are. */
LINK void emu_set_routine(const char *routine);
LINK const char *emu_routine(void);

/* Every API function begins with one of these: counts the call, refuses it in a forked child, injects a failure. */
LINK int emu_enter(const char *routine);
#define ENTER(routine) do { int entered_ = emu_enter(routine); if (entered_ != 0) return entered_; } while (0)
#define ENTER_OR_NULL(routine) do { if (emu_enter(routine) != 0) return NULL; } while (0)
/* For functions that release something or wait: they do so, and then return this if it is not 0. */
#define ENTER_RELEASE(routine) int entered_ = emu_enter(routine)
/* The message of an injected failure must survive the release. */
LINK int emu_leave(int entered, int status);
#define LEAVE(status) return emu_leave(entered_, status)

/* ------------------------------------------------------------------------------------------- core.c: the handle table */

typedef enum {
    KIND_NONE,
    KIND_TENSOR, KIND_SCALAR, KIND_INT_ARRAY, KIND_FLOAT_ARRAY, KIND_BOOL_ARRAY, KIND_TENSOR_LIST, KIND_SCALAR_LIST,
    KIND_EXECUTOR,
    KIND_CONTEXT, KIND_STREAM, KIND_EVENT, KIND_DATA_BUFFER, KIND_TENSOR_DESC, KIND_STREAM_CONFIG,
    KIND_COUNT
} emu_kind;

/* A handle is an address in a region that nothing can read: it looks like a pointer and never is one. */
LINK void *emu_handle_new(emu_kind kind, void *object);
/* The object behind a handle. Otherwise a status with a message: 161001 / 161002 for aclnn objects, 107000 / 107017 for
 * objects of the runtime. */
LINK int emu_handle_find(const void *handle, emu_kind kind, void **object);
/* Like find, and the handle is destroyed. */
LINK int emu_handle_drop(const void *handle, emu_kind kind, void **object);
/* Objects that the device reclaims by itself (streams and events of a reset device). */
LINK void emu_handle_reclaim(const void *handle);
/* Ownership by a list: fails when the handle is owned already. */
LINK int emu_handle_own(const void *handle, emu_kind kind, const void *owner);
LINK void emu_handle_disown(const void *handle);
/* A number that no other handle has had, 0 for a dead handle; tells whether a handle still means the same object. */
LINK uint64_t emu_handle_serial(const void *handle);
/* The table's lock, for reading several objects at one moment. find and serial may be called while it is held. */
LINK void emu_table_lock(void);
LINK void emu_table_unlock(void);
/* Tells on standard error what is alive: at aclFinalize or at exit, once after each aclInit. */
void emu_report_leaks(void);
void emu_report_again(void);
/* Does not count in the leak report (default streams and primary contexts). */
void emu_handle_hide(const void *handle);

/* ----------------------------------------------------------------------------------------------------- devices */

#define EMU_MAX_DEVICES 16

typedef struct emu_context emu_context;
typedef struct emu_stream emu_stream;
typedef struct emu_device emu_device;

typedef struct {
    uint64_t start;  /* offset from the device's base */
    uint64_t size;   /* as asked for */
    uint64_t span;   /* as reserved */
    uint32_t pins;   /* queued work that uses it */
} emu_block;

typedef struct {
    uint64_t start, size;
} emu_range;

#define EMU_FREED 1024

struct emu_context {
    emu_device *device;
    emu_context *next;    /* of the device's contexts, under emu_world */
    void *handle;
    bool primary;
    emu_stream *default_stream;
    emu_stream *streams;  /* all of them, the default one too; under emu_world */
    int64_t options[4];
    uint8_t option_set[4];
};

struct emu_device {
    int id;
    /* under emu_world */
    uint32_t set_count;         /* aclrtSetDevice less aclrtResetDevice */
    emu_context *primary, *contexts;
    uint32_t streams, events;
    aclrtFloatOverflowMode saturation;
    uint32_t peers;             /* devices that this one may read: one bit each */
    /* memory, under lock */
    pthread_mutex_t lock;
    int memory_fd;
    uint8_t *base;
    uint64_t window, capacity, used, cursor, dirty;
    emu_block *blocks;
    size_t count, room;
    emu_range freed[EMU_FREED];
    size_t freed_at;
    /* the device process, under link_lock */
    pthread_mutex_t link_lock;
    pid_t pid;
    int control;
    int *idle;
    size_t idle_count, idle_room;
    int *sockets;
    size_t socket_count, socket_room;
    bool lost;
    char lost_reason[160];
    _Atomic uint64_t incarnation;  /* changes whenever another process is started */
};

extern pthread_mutex_t emu_world;
extern emu_device emu_devices[EMU_MAX_DEVICES];

/* The context of this thread, or 107002 with a message. */
LINK int emu_current_context(emu_context **context);
LINK emu_device *emu_context_device(emu_context *context);
/* What the generated stubs of everything else return. */
LINK int emu_not_emulated(const char *routine, int refusal);
/* Refuses to run a single operator by its type name. */
LINK int emu_refuse_operator(const char *routine, const char *type);
/* The process-wide or context's value of an option, 0 when it was never set. */
LINK int64_t emu_option(emu_context *context, int option);

/* ----------------------------------------------------------------------------------------------------- memory.c */

int emu_memory_open(emu_device *device);
void emu_memory_close(emu_device *device);
/* Frees every allocation; the mapping stays. */
void emu_memory_clear(emu_device *device);
uint64_t emu_memory_live(const emu_device *device);
uint64_t emu_host_live(void);
/* The device in whose memory an address lies, NULL for a host address. */
LINK emu_device *emu_memory_device(const void *address);
/* A range must lie in one live allocation of the device; it then cannot be freed until it is unpinned. */
LINK int emu_memory_pin(emu_device *device, const void *address, uint64_t size, const char *what);
LINK void emu_memory_unpin(emu_device *device, const void *address);
LINK uint64_t emu_memory_offset(const emu_device *device, const void *address);
size_t emu_memory_describe(char *buffer, size_t size);

/* ------------------------------------------------------------------------------------------------------- link.c */

/* Starts the device process unless it runs; does not wait for it. */
LINK int emu_link_start(emu_device *device);
void emu_link_stop(emu_device *device);
/* Moves a descriptor above those that the device process is given (0 to 4); it is not inherited. */
int emu_move_up(int fd);
/* In a forked child: lets the parent's connections go. */
void emu_link_forked(void);

typedef struct {
    uint8_t *data;
    size_t size, room;
} emu_buffer;

LINK void emu_buffer_put(emu_buffer *buffer, const void *data, size_t size);
LINK void emu_buffer_free(emu_buffer *buffer);

enum { CALL_PREPARE = 1, CALL_LAUNCH = 2, CALL_DROP = 3 };

/* A connection to the device process, used by one stream or for one call. */
typedef struct {
    emu_device *device;
    int fd; /* -1: closed */
    uint64_t incarnation;
} emu_connection;

typedef enum { LINK_SENT, LINK_FULL, LINK_LOST } emu_sent;

int emu_link_open(emu_device *device, emu_connection *connection);
void emu_link_close(emu_connection *connection);
/* False when the process it leads to has ended or been replaced. */
bool emu_link_current(const emu_connection *connection);
/* wait false: LINK_FULL rather than waiting; for requests of at most 16 KiB. */
emu_sent emu_link_send(emu_connection *connection, uint32_t call, const emu_buffer *request, bool wait);
/* Whether an answer comes in within some milliseconds (negative: for ever). */
bool emu_link_answered(const emu_connection *connection, int32_t timeout);
/* The status of the next answer, and what came with it. */
int emu_link_receive(emu_connection *connection, emu_buffer *answer);
/* Sends a request and waits for the answer: its status, and what came with it. A lost device is 507899. */
LINK int emu_link_call(emu_device *device, uint32_t call, const emu_buffer *request, emu_buffer *answer);

/* ----------------------------------------------------------------------------------------------------- stream.c */

typedef struct emu_task emu_task;

/* A task is either a request to the device process (`answered` is set) or runs here (`run` is set). Statuses are the
 * task's; its message is left with the thread. */
struct emu_task {
    emu_task *next;
    uint64_t sequence;
    uint64_t *number;                                   /* where its number is wanted, or NULL */
    const char *routine;                                /* the function that queued it */
    int (*run)(emu_task *task, emu_stream *stream);
    bool slow;                                          /* run may wait for other threads: only a worker runs it */
    emu_buffer request;                                 /* of a launch */
    int (*answered)(emu_task *task, int status, emu_buffer *answer);
    void (*finish)(emu_task *task);                     /* once, whether it ran or not; frees the task */
};

/* The stream behind a handle (NULL: the default stream) of this thread's context; 107003 for another context's.
 * Release it after use. */
LINK int emu_stream_acquire(aclrtStream handle, emu_stream **stream);
LINK void emu_stream_release(emu_stream *stream);
LINK emu_device *emu_stream_device(const emu_stream *stream);
/* Queues a task; it belongs to the stream from now on. */
LINK int emu_stream_enqueue(emu_stream *stream, emu_task *task);
/* Takes in the answers that have come, so that what finished launches used is free. */
void emu_streams_poll(emu_device *device);
/* Waits for what has been queued so far (timeout in ms, negative: for ever), and hands out the stream's error. */
int emu_stream_wait(emu_stream *stream, int32_t timeout, int timeout_status);
int emu_stream_new(emu_context *context, uint32_t priority, uint32_t flags, emu_stream **stream);
/* Ends a stream whose handle is gone. force: what has not begun is dropped. */
int emu_stream_end(emu_stream *stream, bool force);
/* Adds a stream to its context's list; the caller holds emu_world. */
void emu_stream_adopt(emu_stream *stream);
void *emu_stream_handle(const emu_stream *stream);
/* Ends all streams of a context; the handles of those still alive die without counting as leaks. */
int emu_streams_reclaim(emu_context *context);

#endif
