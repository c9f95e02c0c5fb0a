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

API aclrtAllocatorDesc aclrtAllocatorCreateDesc(void) {
    ENTER_OR_NULL("aclrtAllocatorCreateDesc");
    emu_allocator *made = calloc(1, sizeof *made);
    void *handle = made != NULL ? emu_handle_new(KIND_ALLOCATOR, made) : NULL;
    if (handle == NULL) free(made);
    return handle;
}

API aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc) {
    ENTER_RELEASE("aclrtAllocatorDestroyDesc");
    void *object = NULL;
    int status = emu_handle_drop(allocatorDesc, KIND_ALLOCATOR, &object);
    if (status == 0) free(object);
    LEAVE(status);
}

#define SET(member, value)                                                    \
    if ((value) == NULL) return emu_null_argument(#value);                    \
    void *object;                                                             \
    int status = emu_handle_find(allocatorDesc, KIND_ALLOCATOR, &object);     \
    if (status == 0) ((emu_allocator *)object)->member = (value);             \
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

/* Sets a stream's allocator, or removes it. */
static int give(aclrtStream handle, emu_allocator *allocator) {
    emu_stream *stream;
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    pthread_mutex_lock(&stream->lock);
    emu_allocator *before = stream->allocator;
    stream->allocator = allocator;
    pthread_mutex_unlock(&stream->lock);
    free(before);
    emu_stream_release(stream);
    return 0;
}

API aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc) {
    ENTER("aclrtAllocatorRegister");
    void *object;
    if (stream == NULL) return emu_null_argument("stream");
    int status = emu_handle_find(allocatorDesc, KIND_ALLOCATOR, &object);
    if (status != 0) return status;
    const emu_allocator *allocator = object;
    if (allocator->object == NULL || allocator->allocate == NULL || allocator->free == NULL || allocator->address == NULL)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "allocatorDesc needs an allocator and its functions alloc, free and get address");
    emu_allocator *copy = malloc(sizeof *copy);
    if (copy == NULL) abort();
    *copy = *allocator;
    status = give(stream, copy);
    if (status != 0) free(copy);
    return status;
}

API aclError aclrtAllocatorUnregister(aclrtStream stream) {
    ENTER_RELEASE("aclrtAllocatorUnregister");
    int status = stream == NULL ? emu_null_argument("stream") : give(stream, NULL);
    LEAVE(status);
}
