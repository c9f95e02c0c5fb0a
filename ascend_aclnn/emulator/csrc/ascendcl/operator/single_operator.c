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
#include "ascendcl/stream/stream.h"

#include "acl/acl_op.h"

#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 25

typedef struct {
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
    void *data;
    size_t size;
} data_buffer;

API aclDataBuffer *aclCreateDataBuffer(void *data, size_t size) {
    ENTER_OR_NULL("aclCreateDataBuffer");
    data_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return NULL;
    *buffer = (data_buffer){data, size};
    void *handle = emu_handle_new(KIND_DATA_BUFFER, buffer);
    if (handle == NULL) free(buffer);
    return handle;
}

API aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer) {
    ENTER_RELEASE("aclDestroyDataBuffer");
    void *object = NULL;
    int status = emu_handle_drop(dataBuffer, KIND_DATA_BUFFER, &object);
    if (status == 0) free(object);
    LEAVE(status);
}

API aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size) {
    ENTER("aclUpdateDataBuffer");
    void *object;
    int status = emu_handle_find(dataBuffer, KIND_DATA_BUFFER, &object);
    if (status == 0) *(data_buffer *)object = (data_buffer){data, size};
    return status;
}

API void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer) {
    ENTER_OR_NULL("aclGetDataBufferAddr");
    void *object;
    return emu_handle_find(dataBuffer, KIND_DATA_BUFFER, &object) == 0 ? ((data_buffer *)object)->data : NULL;
}

static size_t data_buffer_size(const aclDataBuffer *dataBuffer, const char *routine) {
    void *object;
    if (emu_enter(routine) != 0 || emu_handle_find(dataBuffer, KIND_DATA_BUFFER, &object) != 0) return 0;
    return ((data_buffer *)object)->size;
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

API aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format) {
    ENTER_OR_NULL("aclCreateTensorDesc");
    if (check_dims(numDims, dims) != 0) return NULL;
    description *tensor = calloc(1, sizeof *tensor);
    if (tensor == NULL) return NULL;
    tensor->dtype = dataType;
    tensor->format = tensor->storage_format = format;
    tensor->rank = numDims;
    if (numDims > 0) memcpy(tensor->dims, dims, (size_t)numDims * sizeof *dims);
    void *handle = emu_handle_new(KIND_TENSOR_DESC, tensor);
    if (handle == NULL) free(tensor);
    return handle;
}

API void aclDestroyTensorDesc(const aclTensorDesc *desc) {
    void *object = NULL;
    emu_enter("aclDestroyTensorDesc");
    if (desc == NULL || emu_handle_drop(desc, KIND_TENSOR_DESC, &object) != 0) return;
    free(((description *)object)->name);
    free(((description *)object)->constant);
    free(object);
}

/* The description behind a handle; NULL with a message for anything else. */
static description *find(const aclTensorDesc *desc, const char *routine, int *status) {
    void *object = NULL;
    *status = emu_enter(routine);
    if (*status == 0) *status = emu_handle_find(desc, KIND_TENSOR_DESC, &object);
    return *status == 0 ? object : NULL;
}

#define FIND(desc, routine)                                \
    int status_;                                           \
    description *tensor = find(desc, routine, &status_);   \
    if (tensor == NULL) return status_
#define FIND_OR(desc, routine, otherwise)                  \
    int status_;                                           \
    description *tensor = find(desc, routine, &status_);   \
    if (tensor == NULL) return otherwise

API aclDataType aclGetTensorDescType(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescType", ACL_DT_UNDEFINED);
    return tensor->dtype;
}

API aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescFormat", ACL_FORMAT_UNDEFINED);
    return tensor->format;
}

static size_t element_count(const description *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= tensor->dims[i] > 0 ? (size_t)tensor->dims[i] : 0;
    return count;
}

API size_t aclGetTensorDescElementCount(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescElementCount", 0);
    return element_count(tensor);
}

API size_t aclGetTensorDescSize(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescSize", 0);
    return element_count(tensor) * aclDataTypeSize(tensor->dtype);
}

API size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescNumDims", 0);
    return (size_t)tensor->rank;
}

static int check_index(const description *tensor, size_t index) {
    if (index < (size_t)tensor->rank) return 0;
    return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "index is %zu; the description has %d dims", index, tensor->rank);
}

API int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index) {
    FIND_OR(desc, "aclGetTensorDescDim", -1);
    return check_index(tensor, index) == 0 ? tensor->dims[index] : -1;
}

API aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize) {
    FIND(desc, "aclGetTensorDescDimV2");
    if (dimSize == NULL) return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "dimSize is a null pointer");
    int status = check_index(tensor, index);
    if (status == 0) *dimSize = tensor->dims[index];
    return status;
}

API void aclSetTensorDescName(aclTensorDesc *desc, const char *name) {
    int status;
    description *tensor = find(desc, "aclSetTensorDescName", &status);
    if (tensor == NULL) return;
    free(tensor->name);
    tensor->name = name != NULL ? strdup(name) : NULL;
}

API const char *aclGetTensorDescName(aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescName", NULL);
    return tensor->name != NULL ? tensor->name : "";
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
    FIND(desc, "aclSetTensorFormat");
    tensor->storage_format = format;
    return 0;
}

API aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format) {
    FIND(desc, "aclSetTensorStorageFormat");
    tensor->storage_format = format;
    return 0;
}

API aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    FIND(desc, "aclSetTensorShape");
    return set_shape(numDims, dims, &tensor->storage_rank, tensor->storage_dims);
}

API aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    FIND(desc, "aclSetTensorStorageShape");
    return set_shape(numDims, dims, &tensor->storage_rank, tensor->storage_dims);
}

API aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format) {
    FIND(desc, "aclSetTensorOriginFormat");
    tensor->format = format;
    return 0;
}

API aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    FIND(desc, "aclSetTensorOriginShape");
    return set_shape(numDims, dims, &tensor->rank, tensor->dims);
}

API aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType) {
    FIND(desc, "aclSetTensorPlaceMent");
    tensor->placement = memType;
    return 0;
}

API aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length) {
    FIND(desc, "aclSetTensorConst");
    if (dataBuffer == NULL && length > 0) return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "dataBuffer is a null pointer");
    void *copy = length > 0 ? malloc(length) : NULL;
    if (length > 0 && copy == NULL) return emu_fail(ACL_ERROR_BAD_ALLOC, "EMULATOR_OUT_OF_MEMORY", "%zu bytes", length);
    if (length > 0) memcpy(copy, dataBuffer, length);
    free(tensor->constant);
    tensor->constant = copy;
    tensor->constant_size = length;
    return 0;
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
    description **shaped; /* for callers that wait for shapes: by the numbers of the items in device memory; or NULL */
    uint32_t items, count;
    void *addresses[]; /* pinned */
} single_launch;

static void finish_single(emu_task *task) {
    single_launch *l = (single_launch *)task;
    for (uint32_t i = 0; i < l->count; i++) emu_memory_unpin(l->device, l->addresses[i]);
    emu_buffer_free(&l->task.request);
    free(l->shaped);
    free(l);
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
        set_shape((int)rank, words + at, &l->shaped[which]->rank, l->shaped[which]->dims);
        at += rank;
    }
    if (status != 0 && answer->size > 0) {
        emu_buffer_put(answer, "", 1);
        emu_fail_with(status, (const char *)answer->data);
    }
    return status;
}

/* Adds an input or output to the request of phase one, and to the launch if it lies in device memory. */
static int put_item(emu_buffer *request, single_launch *l, const aclTensorDesc *handle, const aclDataBuffer *buffer, const char *what) {
    void *object = NULL, *data_object = NULL;
    int status = emu_handle_find(handle, KIND_TENSOR_DESC, &object);
    if (status != 0) return status;
    const description *desc = object;
    if (desc->dtype == ACL_DT_UNDEFINED) { /* an optional input that is absent */
        put_word(request, WHERE_ABSENT);
        return 0;
    }
    status = emu_handle_find(buffer, KIND_DATA_BUFFER, &data_object);
    if (status != 0) return status;
    const data_buffer *data = data_object;
    const void *constant = desc->constant != NULL ? desc->constant : desc->placement != ACL_MEMTYPE_DEVICE ? data->data : NULL;
    put_word(request, constant != NULL ? WHERE_CONSTANT : WHERE_DEVICE);
    put_word(request, desc->dtype);
    put_word(request, desc->storage_format);
    put_words(request, desc->dims, desc->rank);
    put_words(request, desc->storage_rank > 0 ? desc->storage_dims : desc->dims, desc->storage_rank > 0 ? desc->storage_rank : desc->rank);
    if (constant != NULL) {
        put_bytes(request, constant, desc->constant != NULL ? desc->constant_size : data->size);
        return 0;
    }
    put_word(request, (int64_t)data->size);
    if (l->shaped != NULL) l->shaped[l->items] = object;
    l->items++;
    uint64_t offset = 0;
    if (data->size > 0) {
        status = emu_memory_pin(l->device, data->data, data->size, what);
        if (status != 0) return status;
        l->addresses[l->count++] = data->data;
        offset = emu_memory_offset(l->device, data->data);
    }
    emu_buffer_put(&l->task.request, &offset, sizeof offset);
    return 0;
}

static int prepare_single(const emu_single *single, emu_buffer *request, single_launch *l) {
    put_word(request, single->in_count);
    int status = 0;
    for (int i = 0; status == 0 && i < single->in_count; i++)
        status = put_item(request, l, single->in_descs[i], single->ins[i], "an input");
    put_word(request, single->out_count);
    for (int i = 0; status == 0 && i < single->out_count; i++)
        status = put_item(request, l, single->out_descs[i], single->outs[i], "an output");
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
    emu_stream *stream;
    bool arrays = (single->in_count == 0 || (single->in_descs != NULL && single->ins != NULL)) &&
                  (single->out_count == 0 || (single->out_descs != NULL && single->outs != NULL));
    if (single->type == NULL || single->in_count < 0 || single->out_count < 0 || !arrays ||
        (single->attributes != NULL && single->attributes->magic != ATTRIBUTES))
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "opType, an array or attr is not valid");
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    if (emu_config()->noop) {
        emu_stream_release(stream);
        return 0;
    }
    size_t most = (size_t)single->in_count + (size_t)single->out_count;
    single_launch *l = calloc(1, sizeof *l + most * sizeof l->addresses[0]);
    if (l == NULL) abort();
    l->device = emu_stream_device(stream);
    if (single->tell_shapes && (l->shaped = calloc(most + 1, sizeof *l->shaped)) == NULL) abort();
    l->task = (emu_task){.finish = finish_single, .answered = answer_single, .routine = emu_routine()};
    emu_buffer request = {0};
    uint64_t number = ++numbers | 1ull << 63; /* lower numbers belong to the plans of operators */
    emu_buffer_put(&l->task.request, &number, sizeof number);
    put_word(&request, (int64_t)number);
    put_text(&request, single->type);
    status = prepare_single(single, &request, l);
    emu_buffer_free(&request);
    if (status == 0) status = emu_stream_enqueue(stream, &l->task);
    else finish_single(&l->task);
    if (status == 0 && single->tell_shapes) status = emu_stream_wait(stream, -1);
    emu_stream_release(stream);
    return status;
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
