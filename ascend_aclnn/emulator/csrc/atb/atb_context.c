/*
 * atb::Context, an object with C++'s table of virtual functions, made and destroyed by functions under their mangled names.
 */
#include "atb/atb_context.h"

#include "ascendcl/core/api_entry.h"

#include <stdlib.h>

struct atb_context {
    const void *const *functions;
    aclrtStream *streams; /* the first one is the one that executes */
    size_t count;
    int32_t type, mode;
    bool asynchronous;
};

/* std::vector<aclrtStream>: first, behind the last, end of the room. */
typedef struct { aclrtStream *first, *last, *end; } stream_vector;

aclrtStream atb_stream(const atb_context *context) { return context->count > 0 ? context->streams[0] : NULL; }

static atb_status set_streams(atb_context *self, const stream_vector *streams) {
    size_t count = (size_t)(streams->last - streams->first);
    if (count == 0) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "streams is empty");
    aclrtStream *copy = malloc(count * sizeof *copy);
    if (copy == NULL) return ATB_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; i++) copy[i] = streams->first[i];
    free(self->streams);
    self->streams = copy;
    self->count = count;
    return ATB_NO_ERROR;
}

static atb_status set_stream(atb_context *self, aclrtStream stream) {
    return set_streams(self, &(stream_vector){&stream, &stream + 1, &stream + 1});
}

static stream_vector get_streams(atb_context *self) {
    aclrtStream *copy = malloc((self->count + 1) * sizeof *copy);
    if (copy == NULL) abort();
    for (size_t i = 0; i < self->count; i++) copy[i] = self->streams[i];
    return (stream_vector){copy, copy + self->count, copy + self->count};
}

static aclrtStream get_stream(const atb_context *self) { return atb_stream(self); }
static atb_status set_asynchronous(atb_context *self, bool enable) { return self->asynchronous = enable, ATB_NO_ERROR; }
static bool get_asynchronous(const atb_context *self) { return self->asynchronous; }
static atb_status set_type(atb_context *self, int32_t type) { return self->type = type, ATB_NO_ERROR; }
static int32_t get_type(atb_context *self) { return self->type; }
static atb_status set_mode(atb_context *self, int32_t mode) { return self->mode = mode, ATB_NO_ERROR; }
static int32_t get_mode(atb_context *self) { return self->mode; }

static void end_context(atb_context *self) {
    free(self->streams);
    self->streams = NULL;
    self->count = 0;
}

static void delete_context(atb_context *self) {
    end_context(self);
    free(self);
}

/* Offset, type information, both destructors, and the functions in the order of the class. */
static const void *const context_functions[] = {
    NULL, NULL, (void *)end_context, (void *)delete_context, (void *)set_stream, (void *)get_stream, (void *)set_asynchronous,
    (void *)get_asynchronous, (void *)set_streams, (void *)get_streams, (void *)set_type, (void *)get_type, (void *)set_mode,
    (void *)get_mode,
};

static atb_status create(atb_context **context) {
    if (emu_enter("atb::CreateContext") != 0) return ATB_ERROR_RT_FAIL;
    if (context == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "context is a null pointer");
    atb_context *made = calloc(1, sizeof *made);
    if (made == NULL) return ATB_ERROR_OUT_OF_HOST_MEMORY;
    made->functions = context_functions + 2;
    *context = made;
    return ATB_NO_ERROR;
}

/* CreateContext(Context **), (Context **, uint32_t, uint32_t): blocks for tilings, of which there are none here. */
API atb_status _ZN3atb13CreateContextEPPNS_7ContextE(atb_context **context) { return create(context); }
API atb_status _ZN3atb13CreateContextEPPNS_7ContextEjj(atb_context **context, uint32_t host, uint32_t device) {
    return (void)host, (void)device, create(context);
}

/* CreateContext(Context **, const std::function<void *(size_t)> &, const std::function<void(void *)> &): memory for tilings. */
API atb_status _ZN3atb13CreateContextEPPNS_7ContextERKSt8functionIFPvmEERKS3_IFvS4_EE(
    atb_context **context, const void *allocate, const void *release) {
    return (void)allocate, (void)release, create(context);
}

/* DestroyContext(Context *) */
API atb_status _ZN3atb14DestroyContextEPNS_7ContextE(atb_context *context) {
    emu_set_routine("atb::DestroyContext");
    if (context == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "context is a null pointer");
    delete_context(context);
    return ATB_NO_ERROR;
}
