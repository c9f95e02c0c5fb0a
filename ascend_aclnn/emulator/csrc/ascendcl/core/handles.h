/*
 * The table of handles, and the objects behind them.
 *
 * A handle is an address in a region without access: it looks like a pointer but cannot be dereferenced. The object behind it
 * begins with an emu_object, which counts references. The table holds one, and each look-up adds one, so that no
 * object ends while a thread, a queued task or another object uses it. Destroying a handle ends look-ups at once
 * (EMULATOR_USE_AFTER_DESTROY); the object is freed with its last reference.
 *
 *     typedef struct {
 *         emu_object base;
 *         ...
 *     } event;
 *
 *     int status;
 *     EMU_HELD event *event = emu_object_acquire(handle, KIND_EVENT, &status);    released where the scope ends
 *     if (event == NULL) return status;
 *
 * A task or object that goes on using it calls emu_object_hold, and emu_object_release when it ends. A function that only reads
 * or changes an object for a moment may lock the table instead and borrow it. Nothing is released while the table is locked: what
 * frees an object may take other locks.
 */
#ifndef EMU_HANDLES_H
#define EMU_HANDLES_H

#include "ascendcl/core/api.h"

#include <string.h>

typedef enum {
    KIND_NONE,
    KIND_TENSOR, KIND_SCALAR, KIND_INT_ARRAY, KIND_FLOAT_ARRAY, KIND_BOOL_ARRAY, KIND_TENSOR_LIST, KIND_SCALAR_LIST,
    KIND_EXECUTOR,
    KIND_CONTEXT, KIND_STREAM, KIND_EVENT, KIND_DATA_BUFFER, KIND_TENSOR_DESC, KIND_STREAM_CONFIG, KIND_PHYSICAL,
    KIND_PROFILE_CONFIG, KIND_PROFILE_STEP, KIND_COMMUNICATOR, KIND_ALLOCATOR,
    KIND_MODEL, KIND_TASK_GROUP, KIND_MODEL_TASK, KIND_CONDITION, KIND_NOTIFY,
    KIND_COUNT
} emu_kind;

/* The first member of every object behind a handle; zero until emu_object_new. */
typedef struct {
    _Atomic uint32_t references;
    void *handle;
    void (*end)(void *object); /* called with the last reference: frees the object */
} emu_object;

/* A handle for an object, to which the table gets a reference. NULL with a message when the object is NULL (no memory) or the
 * table is full. An object without references belongs to the table from now on, and a failure ends it. A caller that goes on
 * using it makes `references` 1 first, and releases it. */
LINK void *emu_object_new(emu_kind kind, void *object, void (*end)(void *object));
/* The object behind a handle, with a reference for the caller; otherwise NULL, and a status with a message: 161001 / 161002 for
 * aclnn objects, 107000 / 107017 for objects of the runtime. */
LINK void *emu_object_acquire(const void *handle, emu_kind kind, int *status);
/* The same without a reference, while this thread has locked the table: the object is there until the table is unlocked. */
LINK void *emu_object_borrow(const void *handle, emu_kind kind, int *status);
LINK void emu_object_hold(void *object);
/* NULL is no object. */
LINK void emu_object_release(void *object);
/* Destroys the handle. The caller gets the table's reference. */
LINK void *emu_object_destroy(const void *handle, emu_kind kind, int *status);
/* Destroys the handle of an object that the device reclaims (contexts and streams of a reset device), unless that has been done. */
LINK void emu_object_reclaim(void *object);

/* A local variable that releases its object where its scope ends. It must have a value from the start, which may be NULL. */
#define EMU_HELD __attribute__((cleanup(emu_release_held)))
static inline void emu_release_held(void *variable) {
    void *object;
    memcpy(&object, variable, sizeof object);
    emu_object_release(object);
}

/* Gives a handle to a list as its owner; fails when it has an owner. */
LINK int emu_handle_own(const void *handle, emu_kind kind, const void *owner);
LINK void emu_handle_disown(const void *handle);
/* A number that no other handle has or had, 0 for a dead handle: tells whether a handle still denotes the same object. */
LINK uint64_t emu_handle_serial(const void *handle);
/* The table's lock. Functions of this file may be called while it is held, except those that may end an object. */
LINK void emu_table_lock(void);
LINK void emu_table_unlock(void);
/* The number of live handles of a kind, without hidden ones; the kind's name. */
uint64_t emu_handles_live(emu_kind kind);
const char *emu_kind_name(emu_kind kind);
/* The kind with a name of aclemuLiveCount, KIND_NONE when there is none. */
emu_kind emu_kind_of(const char *key);
/* All live handles, as the members of a JSON array. */
size_t emu_handles_describe(char *buffer, size_t size);
/* Leaves a handle out of the leak report (default streams and primary contexts). */
LINK void emu_handle_hide(const void *handle);

/* Hooks of --validate, set at load or NULL: the call site of this thread's call, and what the next error is about. */
extern uint32_t (*emu_call_site_hook)(void);
extern void (*emu_blame_hook)(const char *what, const char *routine, uint32_t site);
/* Calls a function for each handle that is alive and was to be destroyed, with the call that made it. The table is locked. */
void emu_handles_leaked(void (*found)(const char *kind, const char *routine, uint32_t site));

#endif
