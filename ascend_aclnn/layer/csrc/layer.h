/* What the shims (generated, one for each of CANN's libraries) ask of the recorder. */
#ifndef LAYER_H
#define LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYER __attribute__((visibility("default")))

/* The value of a parameter, by the letter of its kind (emulator/protocol.py). */
typedef union {
    int64_t integer;
    double number;
    const void *pointer;
} layer_value;

/* An operator. `id` is its number in the recording plus one. */
typedef struct {
    const char *name, *kinds, *directions;
    const char *const *parameters;
    uint32_t count, id;
} layer_operator;

/* Another function. Kinds: i an integer, p an address or a handle, s a string, o and u what 64 or 32 bits the function gives. */
typedef struct {
    const char *name, *kinds;
    const char *const *parameters;
} layer_function;

/* A call that is under way. */
typedef struct {
    uint64_t begin; /* ns, where it is recorded */
    bool outer; /* the client's own, not one that a library makes inside another; and something is recorded */
} layer_frame;

/* Finds a function of the library behind a shim, and keeps it in `slot`. */
LAYER void *layer_find(void *library, const char *name, void **slot);
/* Opens the library behind a shim, which is loaded already; its functions serve the recorder, too. */
LAYER void *layer_open(const char *path);

/* How many of the layer's functions this thread is in. */
extern LAYER _Thread_local int layer_depth __attribute__((tls_model("initial-exec")));
extern LAYER bool layer_records;
LAYER uint64_t layer_now(void);

static inline void layer_leave(const layer_frame *frame) {
    (void)frame;
    layer_depth--;
}
/* LAYER_ENTER begins a function that is recorded, LAYER_PASS one from which only something follows. */
#define LAYER_ENTER                                                                                                \
    __attribute__((cleanup(layer_leave))) layer_frame frame_ = {0, layer_depth++ == 0 && layer_records};            \
    if (frame_.outer) frame_.begin = layer_now()
#define LAYER_PASS __attribute__((cleanup(layer_leave))) layer_frame frame_ = {0, layer_depth++ == 0 && layer_records}

LAYER void layer_phase_one(const layer_frame *frame, layer_operator *operator, const layer_value *values, int status,
                           const uint64_t *workspace, void *const *executor);
typedef struct layer_launch layer_launch;
LAYER layer_launch *layer_before_phase_two(void *workspace, uint64_t size, void *executor, void *stream);
/* The same of an operator whose phase one was not seen: its arguments are not known. */
LAYER layer_launch *layer_before_unknown(const layer_frame *frame, layer_operator *operator, void *workspace, uint64_t size, void *stream);
LAYER void layer_after_phase_two(layer_launch *launch, int status);
LAYER void layer_call(const layer_frame *frame, const layer_function *function, const layer_value *values, int64_t status);

/* A buffer of a collective: `count` elements of a HcclDataType. Directions: i read, o written, x both, r written when another rank has sent
   (nobody waits for that), h an array of the host's. */
typedef struct {
    const char *name;
    const void *address;
    uint64_t count;
    int type;
    char direction;
    int at; /* its number behind the name; -1: none */
} layer_buffer;
/* Whether the buffers of the next call of a collective are recorded. */
LAYER bool layer_with_data(const char *name);
LAYER void layer_before_collective(const layer_frame *frame, const char *name, const layer_buffer *buffers, int count, const void *comm,
                                   const void *stream);
LAYER void layer_after_collective(const layer_buffer *buffers, int count, int result, const void *stream);
/* Copies what receives have got that are over. */
LAYER void layer_received(void);
/* HcclGroupStart (1) and HcclGroupEnd (-1) of this thread: its calls run at the end. */
LAYER void layer_group(int change);
#define LAYER_ITEMS 257
struct HcclSendRecvItemDef;
/* The buffers of HcclBatchSendRecv, at most LAYER_ITEMS: the array itself, then each item's; how many. */
LAYER int layer_items(const struct HcclSendRecvItemDef *items, uint32_t count, layer_buffer *buffers);
/* How many elements this rank sends and receives by a matrix of counts, [from][to]. */
LAYER uint64_t layer_row(const void *matrix, const void *comm);
LAYER uint64_t layer_column(const void *matrix, const void *comm);
LAYER uint64_t layer_ranks(const void *comm);
LAYER bool layer_is_rank(const void *comm, uint32_t rank);
/* How many elements counts and offsets of all ranks span. */
LAYER uint64_t layer_reach(const void *counts, const void *offsets, const void *comm);

/* Records a single operator, before it is called; layer_after_phase_two follows. */
LAYER layer_launch *layer_before_single(const layer_frame *frame, const char *type, int inputs, const void *const *input_descs,
                                        const void *const *input_buffers, int outputs, const void *const *output_descs,
                                        const void *const *output_buffers, const void *stream);

/* A kind of ATB's operations. `operator`: NULL where the structure of its parameters is not known; then only its tensors are recorded. */
typedef struct {
    const char *name;
    layer_operator *operator;
    uint32_t ins, values, outs;
    uint64_t on_host; /* a bit for each input that is read on the host */
    uint64_t (*present)(const void *structure); /* a bit for each input, then each output, that there is */
    void (*read)(const void *structure, layer_value *values);
} layer_operation;
LAYER void layer_made_operation(const layer_frame *frame, const layer_operation *kind, const void *structure, void *operation);
LAYER void layer_changed_operation(const void *structure, void *operation);
LAYER void layer_forget_operation(void *operation);
/* Phase one of a C function that makes an operation and sets it up; the client's aclTensors in the order of the kind's inputs and outputs. */
LAYER void layer_prepared(const layer_frame *frame, const layer_operation *kind, const void *structure, const void *const *ins,
                          const void *const *outs, int status, const uint64_t *workspace, void *const *operation);
/* The stream of an atb::Context. */
LAYER const void *layer_stream_of(const void *context);

/* What follows from single functions. */
LAYER void layer_made_tensor(const void *tensor, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                             int64_t offset, int format, const int64_t *storage, uint64_t storage_rank, const void *data);
LAYER void layer_changed_tensor(const void *tensor, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                                int64_t offset, int format, const int64_t *storage, uint64_t storage_rank, const void *data);
LAYER void layer_moved_tensor(const void *tensor, const void *data);
LAYER void layer_moved_member(const void *list, uint64_t member, const void *data);
LAYER void layer_made_scalar(const void *scalar, const void *value, int dtype);
LAYER void layer_made_array(const void *array, char kind, const void *values, uint64_t count);
LAYER void layer_made_list(const void *list, const void *const *members, uint64_t count);
/* A tensor or scalar is being destroyed, and another handle may soon have its address. */
LAYER void layer_destroyed(const void *handle);
/* A list is being destroyed, by a function that may destroy its members as the client would; it has returned. */
LAYER void layer_forget_list(const void *list);
LAYER void layer_forgot_list(void);
LAYER void layer_forget(const void *handle);
LAYER void layer_repeatable(const void *executor);
/* Handles that stand for values of an executor's launch: they are forgotten and freed with it. */
LAYER void layer_owns(const void *executor, char *handles, uint32_t count);
LAYER void layer_forget_executor(const void *executor);
LAYER void layer_device_changed(void);
LAYER void layer_capturing(int change);
LAYER int layer_late_status(const void *stream, int status);
LAYER const char *layer_message(const char *message);

#endif
