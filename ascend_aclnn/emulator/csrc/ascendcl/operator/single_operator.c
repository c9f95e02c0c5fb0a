/*
 * Single operators, run by their type names: descriptions of tensors, attributes, and a launch of the aclnn operator that the
 * device process finds to stand for the type (single_operators.py). Clients that find no aclnn function come here.
 */
#include "ascendcl/operator/single_operator.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/memory/peers.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/call_site.h"
#include "ascendcl/validate/findings.h"
#include "ascendcl/validate/validate.h"

#include "acl/acl_op.h"

#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 25

/* The table is locked while a description is read or changed. */
typedef struct {
    emu_object base;
    aclDataType dtype;
    aclFormat format, storage_format;
    int rank, storage_rank;
    int64_t dims[MOST_DIMS], storage_dims[MOST_DIMS];
    aclMemType placement;
    char *name;
    void *constant;         /* values known at the call, from aclSetTensorConst */
    size_t constant_size;
} description;

/* -------------------------------------------------------------------------------------------------------- data buffers */

typedef struct {
    emu_object base;
    void *data;
    size_t size;
} data_buffer;

API aclDataBuffer *aclCreateDataBuffer(void *data, size_t size) {
    ENTER_OR_NULL("aclCreateDataBuffer");
    data_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return NULL;
    buffer->data = data;
    buffer->size = size;
    return emu_object_new(KIND_DATA_BUFFER, buffer, free);
}

API aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer) {
    ENTER_RELEASE("aclDestroyDataBuffer");
    int status;
    emu_object_release(emu_object_destroy(dataBuffer, KIND_DATA_BUFFER, &status));
    LEAVE(status);
}

API aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size) {
    ENTER("aclUpdateDataBuffer");
    int status;
    emu_table_lock();
    data_buffer *buffer = emu_object_borrow(dataBuffer, KIND_DATA_BUFFER, &status);
    if (buffer != NULL) {
        buffer->data = data;
        buffer->size = size;
    }
    emu_table_unlock();
    return status;
}

/* The memory of a data buffer; zeros with a status on failure. */
static int read_buffer(const aclDataBuffer *handle, void **data, size_t *size) {
    int status;
    emu_table_lock();
    const data_buffer *buffer = emu_object_borrow(handle, KIND_DATA_BUFFER, &status);
    *data = buffer != NULL ? buffer->data : NULL;
    *size = buffer != NULL ? buffer->size : 0;
    emu_table_unlock();
    return status;
}

API void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer) {
    ENTER_OR_NULL("aclGetDataBufferAddr");
    void *data;
    size_t size;
    (void)read_buffer(dataBuffer, &data, &size);
    return data;
}

static size_t data_buffer_size(const aclDataBuffer *dataBuffer, const char *routine) {
    void *data;
    size_t size = 0;
    if (emu_enter(routine) == 0) (void)read_buffer(dataBuffer, &data, &size);
    return size;
}

API uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer) {
    return (uint32_t)data_buffer_size(dataBuffer, "aclGetDataBufferSize");
}

API size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer) {
    return data_buffer_size(dataBuffer, "aclGetDataBufferSizeV2");
}

/* ------------------------------------------------------------------------------------------------ tensor descriptions */

static int check_dims(int numDims, const int64_t *dims) {
    if (numDims < 0 || numDims > MOST_DIMS || (numDims > 0 && dims == NULL))
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "numDims is %d; allowed: 0 to %d, with dims", numDims, MOST_DIMS);
    return 0;
}

static void free_description(void *object) {
    description *tensor = object;
    free(tensor->name);
    free(tensor->constant);
    free(tensor);
}

API aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format) {
    ENTER_OR_NULL("aclCreateTensorDesc");
    if (check_dims(numDims, dims) != 0) return NULL;
    description *tensor = calloc(1, sizeof *tensor);
    if (tensor == NULL) return NULL;
    tensor->dtype = dataType;
    tensor->format = tensor->storage_format = format;
    tensor->rank = numDims;
    if (numDims > 0) memcpy(tensor->dims, dims, (size_t)numDims * sizeof *dims);
    return emu_object_new(KIND_TENSOR_DESC, tensor, free_description);
}

API void aclDestroyTensorDesc(const aclTensorDesc *desc) {
    int status;
    emu_enter("aclDestroyTensorDesc");
    if (desc != NULL) emu_object_release(emu_object_destroy(desc, KIND_TENSOR_DESC, &status));
}

/* The description behind a handle, with the table locked; NULL with a status, and the table not locked. */
static description *lock_description(const aclTensorDesc *desc, const char *routine, int *status) {
    *status = emu_enter(routine);
    if (*status != 0) return NULL;
    emu_table_lock();
    description *tensor = emu_object_borrow(desc, KIND_TENSOR_DESC, status);
    if (tensor == NULL) emu_table_unlock();
    return tensor;
}

/* The body of a function that returns a value of a description. */
#define GET(desc, routine, type, value, otherwise)                     \
    int status_;                                                       \
    description *tensor = lock_description(desc, routine, &status_);   \
    if (tensor == NULL) return otherwise;                              \
    type result_ = (value);                                            \
    emu_table_unlock();                                                \
    return result_

/* The body of a function that changes a description and returns a status. */
#define CHANGE(desc, routine, change)                                  \
    int status_;                                                       \
    description *tensor = lock_description(desc, routine, &status_);   \
    if (tensor == NULL) return status_;                                \
    status_ = (change);                                                \
    emu_table_unlock();                                                \
    return status_

API aclDataType aclGetTensorDescType(const aclTensorDesc *desc) {
    GET(desc, "aclGetTensorDescType", aclDataType, tensor->dtype, ACL_DT_UNDEFINED);
}

API aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) {
    GET(desc, "aclGetTensorDescFormat", aclFormat, tensor->format, ACL_FORMAT_UNDEFINED);
}

static size_t element_count(const description *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= tensor->dims[i] > 0 ? (size_t)tensor->dims[i] : 0;
    return count;
}

API size_t aclGetTensorDescElementCount(const aclTensorDesc *desc) {
    GET(desc, "aclGetTensorDescElementCount", size_t, element_count(tensor), 0);
}

API size_t aclGetTensorDescSize(const aclTensorDesc *desc) {
    GET(desc, "aclGetTensorDescSize", size_t, element_count(tensor) * aclDataTypeSize(tensor->dtype), 0);
}

API size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) {
    GET(desc, "aclGetTensorDescNumDims", size_t, (size_t)tensor->rank, 0);
}

static int get_dim(const description *tensor, size_t index, int64_t *size) {
    if (index >= (size_t)tensor->rank)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "index is %zu; the description has %d dims", index, tensor->rank);
    *size = tensor->dims[index];
    return 0;
}

API int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index) {
    int64_t size = -1;
    GET(desc, "aclGetTensorDescDim", int64_t, get_dim(tensor, index, &size) == 0 ? size : -1, -1);
}

API aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize) {
    CHANGE(desc, "aclGetTensorDescDimV2",
           dimSize == NULL ? emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "dimSize is a null pointer") : get_dim(tensor, index, dimSize));
}

API void aclSetTensorDescName(aclTensorDesc *desc, const char *name) {
    int status;
    description *tensor = lock_description(desc, "aclSetTensorDescName", &status);
    if (tensor == NULL) return;
    free(tensor->name);
    tensor->name = name != NULL ? strdup(name) : NULL;
    emu_table_unlock();
}

/* The text is the description's, until it is destroyed or gets another name. */
API const char *aclGetTensorDescName(aclTensorDesc *desc) {
    GET(desc, "aclGetTensorDescName", const char *, tensor->name != NULL ? tensor->name : "", NULL);
}

static int set_shape(int numDims, const int64_t *dims, int *rank, int64_t *to) {
    int status = check_dims(numDims, dims);
    if (status != 0) return status;
    *rank = numDims;
    if (numDims > 0) memcpy(to, dims, (size_t)numDims * sizeof *dims);
    return 0;
}

/* Format and shape in storage. The older names do the same. */
API aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format) {
    CHANGE(desc, "aclSetTensorFormat", (tensor->storage_format = format, 0));
}

API aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format) {
    CHANGE(desc, "aclSetTensorStorageFormat", (tensor->storage_format = format, 0));
}

API aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    CHANGE(desc, "aclSetTensorShape", set_shape(numDims, dims, &tensor->storage_rank, tensor->storage_dims));
}

API aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    CHANGE(desc, "aclSetTensorStorageShape", set_shape(numDims, dims, &tensor->storage_rank, tensor->storage_dims));
}

API aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format) {
    CHANGE(desc, "aclSetTensorOriginFormat", (tensor->format = format, 0));
}

API aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    CHANGE(desc, "aclSetTensorOriginShape", set_shape(numDims, dims, &tensor->rank, tensor->dims));
}

API aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType) {
    CHANGE(desc, "aclSetTensorPlaceMent", (tensor->placement = memType, 0));
}

static int set_constant(description *tensor, const void *data, size_t size) {
    if (data == NULL && size > 0) return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "dataBuffer is a null pointer");
    void *copy = size > 0 ? malloc(size) : NULL;
    if (size > 0 && copy == NULL) return emu_fail(ACL_ERROR_BAD_ALLOC, "EMULATOR_OUT_OF_MEMORY", "%zu bytes", size);
    if (size > 0) memcpy(copy, data, size);
    free(tensor->constant);
    tensor->constant = copy;
    tensor->constant_size = size;
    return 0;
}

API aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length) {
    CHANGE(desc, "aclSetTensorConst", set_constant(tensor, dataBuffer, length));
}

/* ---------------------------------------------------------------------------------------------------- writing requests */

static void put_word(emu_buffer *buffer, int64_t word) { emu_buffer_put(buffer, &word, sizeof word); }

/* Bytes: their number, and the bytes padded to a word. */
static void put_bytes(emu_buffer *buffer, const void *bytes, size_t size) {
    static const uint8_t zeros[8];
    put_word(buffer, (int64_t)size);
    emu_buffer_put(buffer, bytes, size);
    emu_buffer_put(buffer, zeros, (8 - size % 8) % 8);
}

static void put_text(emu_buffer *buffer, const char *text) { put_bytes(buffer, text, strlen(text)); }

static void put_words(emu_buffer *buffer, const int64_t *words, int count) {
    put_word(buffer, count);
    emu_buffer_put(buffer, words, (size_t)count * sizeof *words);
}

/* ---------------------------------------------------------------------------------------------------------- attributes */

struct aclopAttr {
    uint64_t magic;
    int64_t count;
    emu_buffer words; /* of each: its name, the letter of its kind (single_operators.py) and its value */
};

#define ATTRIBUTES 0x61636c6f70417474ull

API aclopAttr *aclopCreateAttr(void) {
    ENTER_OR_NULL("aclopCreateAttr");
    aclopAttr *attributes = calloc(1, sizeof *attributes);
    if (attributes != NULL) attributes->magic = ATTRIBUTES;
    return attributes;
}

API void aclopDestroyAttr(const aclopAttr *attr) {
    emu_enter("aclopDestroyAttr");
    if (attr == NULL || attr->magic != ATTRIBUTES) return;
    aclopAttr *old = (aclopAttr *)attr;
    old->magic = 0;
    emu_buffer_free(&old->words);
    free(old);
}

/* Begins an attribute: the words of its value follow. */
static int set_attribute(const char *routine, aclopAttr *attr, const char *name, bool has_value, char kind) {
    ENTER(routine);
    if (attr == NULL || attr->magic != ATTRIBUTES || name == NULL || !has_value)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "%s is a null pointer", attr == NULL ? "attr" : name == NULL ? "attrName" : "the value");
    attr->count++;
    put_text(&attr->words, name);
    put_word(&attr->words, kind);
    return 0;
}

API aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue) {
    int status = set_attribute("aclopSetAttrBool", attr, attrName, true, 'b');
    if (status == 0) put_word(&attr->words, attrValue);
    return status;
}

API aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue) {
    int status = set_attribute("aclopSetAttrInt", attr, attrName, true, 'i');
    if (status == 0) put_word(&attr->words, attrValue);
    return status;
}

static void put_number(emu_buffer *buffer, float value) {
    double wide = (double)value;
    emu_buffer_put(buffer, &wide, sizeof wide);
}

API aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue) {
    int status = set_attribute("aclopSetAttrFloat", attr, attrName, true, 'f');
    if (status == 0) put_number(&attr->words, attrValue);
    return status;
}

API aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue) {
    int status = set_attribute("aclopSetAttrString", attr, attrName, attrValue != NULL, 's');
    if (status == 0) put_text(&attr->words, attrValue);
    return status;
}

API aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue) {
    int status = set_attribute("aclopSetAttrDataType", attr, attrName, true, 'i');
    if (status == 0) put_word(&attr->words, attrValue);
    return status;
}

#define SET_LIST(routine, kind, put)                                                                 \
    int status = set_attribute(routine, attr, attrName, numValues == 0 || values != NULL, kind);     \
    if (status == 0) put_word(&attr->words, numValues);                                              \
    for (int i = 0; status == 0 && i < numValues; i++) put;                                          \
    return status

API aclError aclopSetAttrListDataType(aclopAttr *attr, const char *attrName, int numValues, const aclDataType values[]) {
    SET_LIST("aclopSetAttrListDataType", 'I', put_word(&attr->words, values[i]));
}

API aclError aclopSetAttrListBool(aclopAttr *attr, const char *attrName, int numValues, const uint8_t *values) {
    SET_LIST("aclopSetAttrListBool", 'B', put_word(&attr->words, values[i]));
}

API aclError aclopSetAttrListInt(aclopAttr *attr, const char *attrName, int numValues, const int64_t *values) {
    SET_LIST("aclopSetAttrListInt", 'I', put_word(&attr->words, values[i]));
}

API aclError aclopSetAttrListFloat(aclopAttr *attr, const char *attrName, int numValues, const float *values) {
    SET_LIST("aclopSetAttrListFloat", 'F', put_number(&attr->words, values[i]));
}

API aclError aclopSetAttrListString(aclopAttr *attr, const char *attrName, int numValues, const char **values) {
    SET_LIST("aclopSetAttrListString", 'S', put_text(&attr->words, values[i] != NULL ? values[i] : ""));
}

API aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists, const int *numValues,
                                     const int64_t *const values[]) {
    bool has_value = numLists == 0 || (numValues != NULL && values != NULL);
    int status = set_attribute("aclopSetAttrListListInt", attr, attrName, has_value, 'L');
    if (status == 0) put_word(&attr->words, numLists);
    for (int i = 0; status == 0 && i < numLists; i++) put_words(&attr->words, values[i], numValues[i]);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------- running */

typedef struct {
    emu_task task;
    emu_device *device;
    description **shaped; /* for callers that wait for shapes: by the numbers of the items in device memory, each with a reference;
                             or NULL */
    const char *type;      /* of --validate, with what it accesses: one for each address */
    emu_access *accesses;
    uint32_t items, count;
    void *addresses[]; /* pinned */
} single_launch;

static void finish_single(emu_task *task) {
    single_launch *l = (single_launch *)task;
    for (uint32_t i = 0; i < l->count; i++) emu_memory_unpin(emu_memory_device(l->addresses[i]), l->addresses[i]);
    emu_buffer_free(&l->task.request);
    for (uint32_t i = 0; l->shaped != NULL && i < l->items; i++) emu_object_release(l->shaped[i]);
    free(l->shaped);
    free(l->accesses);
    free(l);
}

/* A captured launch lets go of its memory. */
static void describe_single(emu_task *task, emu_captured *captured) {
    single_launch *l = (single_launch *)task;
    emu_captured_launch(captured, &task->request);
    for (uint32_t i = 0; i < l->count; i++) {
        emu_device *home = emu_memory_device(l->addresses[i]);
        emu_captured_use(captured, home, l->addresses[i], 1, "an input or output"); /* stands for its allocation */
        emu_memory_unpin(home, l->addresses[i]);
    }
    captured->kernel = l->type;
    captured->accesses = l->accesses;
    captured->access_count = l->count;
    captured->site = emu_validates() ? emu_call_site() : 0;
    l->accesses = NULL;
    l->count = 0;
}

/* A message, or new shapes of outputs: number of the item, rank, dims, and so on. */
static int answer_single(emu_task *task, int status, emu_buffer *answer) {
    single_launch *l = (single_launch *)task;
    const int64_t *words = (const int64_t *)answer->data;
    size_t count = status == 0 && l->shaped != NULL ? answer->size / sizeof *words : 0;
    for (size_t at = 0; at + 2 <= count;) {
        uint64_t which = (uint64_t)words[at], rank = (uint64_t)words[at + 1];
        at += 2;
        if (which >= l->items || rank > MOST_DIMS || at + rank > count) break;
        emu_table_lock();
        set_shape((int)rank, words + at, &l->shaped[which]->rank, l->shaped[which]->dims);
        emu_table_unlock();
        at += rank;
    }
    return emu_link_message(status, answer);
}

/* Adds an input or output to the request of phase one. Whether it lies in device memory: then it is an item of the launch. The
 * table is locked. */
static bool describe_item(emu_buffer *request, single_launch *l, description *tensor, const void *data, size_t size) {
    const void *constant = tensor->constant != NULL ? tensor->constant : tensor->placement != ACL_MEMTYPE_DEVICE ? data : NULL;
    put_word(request, constant != NULL ? WHERE_CONSTANT : WHERE_DEVICE);
    put_word(request, tensor->dtype);
    put_word(request, tensor->storage_format);
    put_words(request, tensor->dims, tensor->rank);
    put_words(request, tensor->storage_rank > 0 ? tensor->storage_dims : tensor->dims, tensor->storage_rank > 0 ? tensor->storage_rank : tensor->rank);
    if (constant != NULL) {
        put_bytes(request, constant, tensor->constant != NULL ? tensor->constant_size : size);
        return false;
    }
    put_word(request, (int64_t)size);
    if (l->shaped != NULL) {
        emu_object_hold(tensor);
        l->shaped[l->items] = tensor;
    }
    l->items++;
    return true;
}

/* Adds an input or output to the request and, if it lies in device memory, to the launch. */
static int put_item(emu_buffer *request, single_launch *l, const aclTensorDesc *handle, const aclDataBuffer *buffer, bool writes, int index) {
    int status;
    void *data = NULL;
    size_t size = 0;
    bool item = false;
    emu_table_lock();
    description *tensor = emu_object_borrow(handle, KIND_TENSOR_DESC, &status);
    if (tensor != NULL && tensor->dtype == ACL_DT_UNDEFINED) { /* an optional input that is absent */
        put_word(request, WHERE_ABSENT);
    } else if (tensor != NULL) {
        const data_buffer *memory = emu_object_borrow(buffer, KIND_DATA_BUFFER, &status);
        if (memory != NULL) {
            data = memory->data;
            size = memory->size;
            item = describe_item(request, l, tensor, data, size);
        }
    }
    emu_table_unlock();
    if (status != 0 || !item) return status;
    uint64_t offset = 0;
    if (size > 0) {
        emu_device *home;
        status = emu_operand_pin(l->device, data, size, writes ? "an output" : "an input", &home, &offset);
        if (status != 0) return status;
        /* Buffers may be larger than what is in use of them: that some of it was never written is no finding. */
        if (l->accesses != NULL)
            l->accesses[l->count] = (emu_access){writes ? ACCESS_WRITE : ACCESS_READ, data, size, 1, 0, writes ? "outputs" : "inputs", index, MOVES_SOME, false, false};
        l->addresses[l->count++] = data;
    }
    emu_buffer_put(&l->task.request, &offset, sizeof offset);
    return 0;
}

static int prepare_single(const emu_single *single, emu_buffer *request, single_launch *l) {
    put_word(request, single->in_count);
    int status = 0;
    for (int i = 0; status == 0 && i < single->in_count; i++)
        status = put_item(request, l, single->in_descs[i], single->ins[i], false, i);
    put_word(request, single->out_count);
    for (int i = 0; status == 0 && i < single->out_count; i++)
        status = put_item(request, l, single->out_descs[i], single->outs[i], true, i);
    if (status != 0) return status;
    const aclopAttr *attributes = single->attributes;
    put_word(request, attributes != NULL ? attributes->count : 0);
    if (attributes != NULL) emu_buffer_put(request, attributes->words.data, attributes->words.size);
    emu_buffer answer = {0};
    status = emu_link_call(l->device, CALL_SINGLE, request, &answer);
    if (status != 0) answer_single(&l->task, status, &answer);
    emu_buffer_free(&answer);
    /* As every function that is not emulated. */
    return status == ACLNN_ERR_INNER_FIND_KERNEL_ERROR ? ACL_ERROR_FEATURE_UNSUPPORTED : status;
}

int emu_run_single(const char *routine, const emu_single *single, aclrtStream handle) {
    ENTER(routine);
    static _Atomic uint64_t numbers;
    EMU_HELD emu_stream *stream = NULL;
    bool arrays = (single->in_count == 0 || (single->in_descs != NULL && single->ins != NULL)) &&
                  (single->out_count == 0 || (single->out_descs != NULL && single->outs != NULL));
    if (single->type == NULL || single->in_count < 0 || single->out_count < 0 || !arrays ||
        (single->attributes != NULL && single->attributes->magic != ATTRIBUTES))
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "opType, an array or attr is not valid");
    int status = emu_stream_acquire(handle, &stream);
    if (status == 0 && single->tell_shapes) status = emu_refuse_captured(stream); /* it waits */
    if (status != 0 || emu_config()->noop) return status;
    size_t most = (size_t)single->in_count + (size_t)single->out_count;
    single_launch *l = calloc(1, sizeof *l + most * sizeof l->addresses[0]);
    if (l == NULL) abort();
    l->device = emu_stream_device(stream);
    if (single->tell_shapes && (l->shaped = calloc(most + 1, sizeof *l->shaped)) == NULL) abort();
    l->task = (emu_task){.finish = finish_single, .answered = answer_single, .describe = describe_single, .routine = emu_routine()};
    if (emu_validates()) {
        l->type = emu_lasting(single->type, strlen(single->type));
        l->accesses = calloc(most + 1, sizeof *l->accesses);
        if (l->accesses == NULL) abort();
    }
    emu_buffer request = {0};
    uint64_t number = ++numbers | 1ull << 63; /* lower numbers belong to the plans of operators */
    emu_buffer_put(&l->task.request, &number, sizeof number);
    put_word(&request, (int64_t)number);
    put_text(&request, single->type);
    status = prepare_single(single, &request, l);
    emu_buffer_free(&request);
    if (status == 0 && l->accesses != NULL && emu_stream_runs(stream))
        emu_validate_task(stream->timeline, l->type, emu_call_site(), l->accesses, l->count);
    if (status == 0) status = emu_stream_enqueue(stream, &l->task);
    else finish_single(&l->task);
    return status == 0 && single->tell_shapes ? emu_stream_wait(stream, -1) : status;
}

API aclError aclopExecute(const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
                          const aclDataBuffer *const inputs[], int numOutputs, const aclTensorDesc *const outputDesc[],
                          aclDataBuffer *const outputs[], const aclopAttr *attr, aclrtStream stream) {
    emu_single single = {opType, numInputs, numOutputs, inputDesc, outputDesc, inputs, (const aclDataBuffer *const *)outputs, attr, false};
    return emu_run_single("aclopExecute", &single, stream);
}

API aclError aclopExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
                            int numOutputs, aclTensorDesc *outputDesc[], aclDataBuffer *outputs[], aclopAttr *attr,
                            aclrtStream stream) {
    emu_single single = {opType, numInputs, numOutputs, (const aclTensorDesc *const *)inputDesc, (const aclTensorDesc *const *)outputDesc,
                         (const aclDataBuffer *const *)inputs, (const aclDataBuffer *const *)outputs, attr, true};
    return emu_run_single("aclopExecuteV2", &single, stream);
}
