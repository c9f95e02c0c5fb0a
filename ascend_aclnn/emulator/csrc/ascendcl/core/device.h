/* Devices and contexts. */
#ifndef EMU_DEVICE_H
#define EMU_DEVICE_H

#include "ascendcl/core/address_tree.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#define EMU_OPTIONS 4

typedef struct emu_context emu_context;
typedef struct emu_stream emu_stream;
typedef struct emu_device emu_device;

typedef struct {
    uint64_t start, size;
} emu_range;

#define EMU_FREED 1024
#define EMU_DIRTY 8192
#define EMU_IDLE 16

/* The socket and the ring of a connection to the device process. */
typedef struct {
    int socket;
    struct emu_ring *ring;
} emu_channel;

struct emu_context {
    emu_object base;
    emu_device *device;
    bool primary;
    _Atomic bool ended;
    void *default_stream; /* its handle */
    /* under emu_world */
    emu_context *next;    /* of the device's contexts, each with a reference */
    emu_stream *streams;  /* all of them, the default one too, each with a reference */
    int64_t options[EMU_OPTIONS];
    bool option_set[EMU_OPTIONS];
};

struct emu_device {
    int id;
    /* under emu_world */
    uint32_t set_count;         /* calls of aclrtSetDevice minus calls of aclrtResetDevice */
    emu_context *primary, *contexts;
    uint32_t streams, events;
    _Atomic uint32_t communicators; /* communicators of HCCL that are not destroyed */
    int place;                  /* the socket of this process's place on the device, -1: none */
    uint32_t peers;             /* devices whose memory this one may read, one bit each */
    /* memory, under lock */
    pthread_mutex_t lock;
    _Atomic bool open;          /* between the first aclrtSetDevice and aclFinalize */
    int memory_fd;
    uint8_t *_Atomic base;      /* mapped from the first use on until the process ends: other threads may be using it */
    uint64_t window, capacity, used, peak, cursor;
    emu_blocks blocks;
    uint64_t hidden;                /* blocks that are not allocations */
    _Atomic uint64_t cleared;       /* how often all memory has been reclaimed */
    emu_range freed[EMU_FREED];     /* the latest ones, for messages */
    size_t freed_at;
    emu_range dirty[EMU_DIRTY];     /* freed, but not yet returned to the system */
    size_t dirty_count;
    uint64_t dirty_bytes;
    /* the device process, under link_lock */
    pthread_mutex_t link_lock;
    _Atomic pid_t pid;
    int process;                    /* a pidfd, -1 where the kernel has none */
    int control;
    emu_channel idle[EMU_IDLE];     /* those not in use, */
    size_t idle_count;
    emu_channel *channels;          /* and all */
    size_t channel_count, channel_room;
    _Atomic bool lost;
    char lost_reason[160];
    _Atomic uint64_t incarnation;  /* changes whenever the process is started again */
};

extern pthread_mutex_t emu_world;
LINK extern emu_device emu_devices[EMU_MAX_DEVICES];

/* This thread's context as a handle, NULL when it has none. */
void *emu_current_handle(void);
/* Makes a context (or none, NULL) this thread's, which keeps a reference to it. */
void emu_set_current(emu_context *context);
/* 107001 for a number that no device has. */
LINK int emu_check_device(int32_t id);
/* The current context of this thread, whose reference lasts until the thread gets another context; 107002 with a message without
 * one. */
LINK int emu_current_context(emu_context **context);
LINK emu_device *emu_context_device(emu_context *context);
/* The device that threads without a context use, -1 for none. CANN 8.3's acl.json sets it. */
extern int emu_default_device;
/* Makes that device current, as aclrtSetDevice does. A hook: aclrtSetDevice lies above this file, which registers it at
 * load. */
extern int (*emu_set_default_device)(int32_t id);
/* Moves a descriptor above those that the device process gets (0 to 4), with close-on-exec. */
int emu_move_up(int fd);
/* The context's value of an option, else the process's; 0 when it was never set. */
LINK int64_t emu_option(const emu_context *context, int option);
extern int64_t emu_process_options[EMU_OPTIONS];

/* In bytes. Kernels for Kunpeng often have pages of 64 KB. */
static inline uint64_t emu_page_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static inline uint64_t emu_whole_pages(uint64_t size) { return (size + emu_page_size() - 1) / emu_page_size() * emu_page_size(); }

#endif
