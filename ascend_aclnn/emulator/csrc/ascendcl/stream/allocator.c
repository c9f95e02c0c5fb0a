/* Allocators that a program registers for a stream, for the workspaces of single operators. Operators need no workspace here,
 * so the allocators' functions are never called; they are stored and returned. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/messages.h"
#include "ascendcl/stream/stream.h"

#include <stdlib.h>

struct emu_allocator {
    aclrtAllocator object;
    aclrtAllocatorAllocFunc allocate;
    aclrtAllocatorFreeFunc free;
    aclrtAllocatorAllocAdviseFunc allocate_at;
    aclrtAllocatorGetAddrFromBlockFunc address;
};

typedef struct {
    emu_object base;
    emu_allocator values;
} description;

API aclrtAllocatorDesc aclrtAllocatorCreateDesc(void) {
    ENTER_OR_NULL("aclrtAllocatorCreateDesc");
    return emu_object_new(KIND_ALLOCATOR, calloc(1, sizeof(description)), free);
}

API aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc) {
    ENTER_RELEASE("aclrtAllocatorDestroyDesc");
    int status;
    emu_object_release(emu_object_destroy(allocatorDesc, KIND_ALLOCATOR, &status));
    LEAVE(status);
}

/* Locked, as a stream may be taking a copy. */
#define SET(member, value)                                                                          \
    int status;                                                                                     \
    if ((value) == NULL) return emu_null_argument(#value);                                          \
    emu_table_lock();                                                                               \
    description *description_ = emu_object_borrow(allocatorDesc, KIND_ALLOCATOR, &status);          \
    if (description_ != NULL) description_->values.member = (value);                                \
    emu_table_unlock();                                                                             \
    return status

API aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator) {
    ENTER("aclrtAllocatorSetObjToDesc");
    SET(object, allocator);
}

API aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func) {
    ENTER("aclrtAllocatorSetAllocFuncToDesc");
    SET(allocate, func);
}

API aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func) {
    ENTER("aclrtAllocatorSetFreeFuncToDesc");
    SET(free, func);
}

API aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocAdviseFunc func) {
    ENTER("aclrtAllocatorSetAllocAdviseFuncToDesc");
    SET(allocate_at, func);
}

API aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorGetAddrFromBlockFunc func) {
    ENTER("aclrtAllocatorSetGetAddrFromBlockFuncToDesc");
    SET(address, func);
}

/* Sets a stream's allocator, or removes it; frees the one that it had. */
static void set_allocator(emu_stream *stream, emu_allocator *allocator) {
    pthread_mutex_lock(&stream->lock);
    emu_allocator *previous = stream->allocator;
    stream->allocator = allocator;
    pthread_mutex_unlock(&stream->lock);
    free(previous);
}

/* A copy of an allocator with all that a stream needs; NULL with a status. */
static emu_allocator *copy_allocator(aclrtAllocatorDesc handle, int *status) {
    emu_allocator *copy = malloc(sizeof *copy);
    if (copy == NULL) abort();
    emu_table_lock();
    const description *registered = emu_object_borrow(handle, KIND_ALLOCATOR, status);
    if (registered != NULL) *copy = registered->values;
    emu_table_unlock();
    if (*status == 0 && (copy->object == NULL || copy->allocate == NULL || copy->free == NULL || copy->address == NULL))
        *status = emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "allocatorDesc needs an allocator and its functions alloc, free and get address");
    if (*status == 0) return copy;
    free(copy);
    return NULL;
}

API aclError aclrtAllocatorRegister(aclrtStream handle, aclrtAllocatorDesc allocatorDesc) {
    ENTER("aclrtAllocatorRegister");
    EMU_HELD emu_stream *stream = NULL;
    int status;
    if (handle == NULL) return emu_null_argument("stream");
    emu_allocator *allocator = copy_allocator(allocatorDesc, &status);
    if (allocator == NULL) return status;
    status = emu_stream_acquire(handle, &stream);
    if (status == 0) set_allocator(stream, allocator);
    else free(allocator);
    return status;
}

API aclError aclrtAllocatorUnregister(aclrtStream handle) {
    ENTER_RELEASE("aclrtAllocatorUnregister");
    EMU_HELD emu_stream *stream = NULL;
    int status = handle == NULL ? emu_null_argument("stream") : emu_stream_acquire(handle, &stream);
    if (status == 0) set_allocator(stream, NULL);
    LEAVE(status);
}
