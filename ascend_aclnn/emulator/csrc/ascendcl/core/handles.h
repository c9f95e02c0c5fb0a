/* The table of handles. */
#ifndef EMU_HANDLES_H
#define EMU_HANDLES_H

#include "ascendcl/core/api.h"

typedef enum {
    KIND_NONE,
    KIND_TENSOR, KIND_SCALAR, KIND_INT_ARRAY, KIND_FLOAT_ARRAY, KIND_BOOL_ARRAY, KIND_TENSOR_LIST, KIND_SCALAR_LIST,
    KIND_EXECUTOR,
    KIND_CONTEXT, KIND_STREAM, KIND_EVENT, KIND_DATA_BUFFER, KIND_TENSOR_DESC, KIND_STREAM_CONFIG, KIND_PHYSICAL,
    KIND_PROFILE_CONFIG, KIND_PROFILE_STEP, KIND_COMMUNICATOR, KIND_ALLOCATOR,
    KIND_COUNT
} emu_kind;

/* A handle is an address in a region without access: it looks like a pointer but cannot be dereferenced. */
LINK void *emu_handle_new(emu_kind kind, void *object);
/* The object behind a handle; otherwise a status with a message: 161001 / 161002 for aclnn objects, 107000 / 107017 for objects
 * of the runtime. */
LINK int emu_handle_find(const void *handle, emu_kind kind, void **object);
/* The same, and destroys the handle. */
LINK int emu_handle_drop(const void *handle, emu_kind kind, void **object);
/* Destroys the handle of an object that the device reclaims (streams and events of a reset device). */
LINK void emu_handle_reclaim(const void *handle);
/* Gives a handle to a list as its owner; fails when it has an owner. */
LINK int emu_handle_own(const void *handle, emu_kind kind, const void *owner);
LINK void emu_handle_disown(const void *handle);
/* A number that no other handle has or had, 0 for a dead handle: tells whether a handle still denotes the same object. */
LINK uint64_t emu_handle_serial(const void *handle);
/* The table's lock, to read several objects at one moment. find and serial may be called while it is held. */
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

#endif
