/* aclTensor, aclScalar, arrays and lists: copies of the arguments they are created from. */
#include "nnopbase/objects.h"

#include "ascendcl/core/api_entry.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------------- tensors */

#define MOST_DIMS 64

static uint64_t bits_of(aclDataType dtype) {
    switch (dtype) {
        case ACL_UINT1: return 1;
        case ACL_INT4: case ACL_FLOAT4_E2M1: case ACL_FLOAT4_E1M2: return 4;
        case ACL_FLOAT6_E3M2: case ACL_FLOAT6_E2M3: return 6;
        default: return 8 * aclDataTypeSize(dtype);
    }
}

static bool private_format(aclFormat format) {
    switch (format) {
        case ACL_FORMAT_UNDEFINED: case ACL_FORMAT_NCHW: case ACL_FORMAT_NHWC: case ACL_FORMAT_ND: case ACL_FORMAT_HWCN:
        case ACL_FORMAT_NDHWC: case ACL_FORMAT_NCDHW: case ACL_FORMAT_NC: case ACL_FORMAT_NCL: return false;
        default: return true;
    }
}

#define WIDEST 16 /* bytes of an element of COMPLEX128 */

/* Elements from the start of the storage to the last one that a view reaches. False when it reaches before the start or beyond
 * any memory, or has more elements than any memory, even at one place (stride 0). */
static bool reach(const emu_tensor *tensor, int64_t *elements) {
    const int64_t *dims = tensor->numbers, *strides = dims + tensor->rank;
    int64_t low = tensor->offset, high = tensor->offset, step, bytes = WIDEST;
    for (uint64_t i = 0; i < tensor->rank; i++) {
        if (__builtin_mul_overflow(bytes, dims[i], &bytes)) return false;
        if (__builtin_mul_overflow(dims[i] - 1, strides[i], &step)) return false;
        if (__builtin_add_overflow(step < 0 ? low : high, step, step < 0 ? &low : &high)) return false;
    }
    return low >= 0 && !__builtin_add_overflow(high, 1, elements);
}

static bool product(const int64_t *dims, uint64_t rank, int64_t *elements) {
    *elements = 1;
    for (uint64_t i = 0; i < rank; i++) {
        if (dims[i] <= 0) {
            *elements = 0;
            return true;
        }
        if (__builtin_mul_overflow(*elements, dims[i], elements)) return false;
    }
    return true;
}

/* Bits of an element of the storage shape. torch_npu describes INT8 blocks that are viewed as INT32 by the blocks of INT8:
 * 16 rows of 32 bytes. */
static uint64_t stored_bits(const emu_tensor *tensor) {
    const int64_t *end = tensor->numbers + 2 * tensor->rank + tensor->storage_rank;
    uint64_t bits = bits_of(tensor->dtype);
    bool bytes = tensor->format == ACL_FORMAT_FRACTAL_NZ && bits > 8 && tensor->storage_rank >= 4 && end[-2] == 16 && end[-1] == 32;
    return bytes ? 8 : bits;
}

uint64_t emu_tensor_extent(const emu_tensor *tensor) {
    const int64_t *storage = tensor->numbers + 2 * tensor->rank;
    int64_t elements;
    uint64_t bits, size = stored_bits(tensor);
    bool negative = false;
    for (uint64_t i = 0; i < tensor->rank; i++) {
        if (tensor->numbers[i] == 0) return 0;
        negative |= tensor->numbers[i] < 0;
    }
    if (negative) return EMU_NO_EXTENT; /* phase one of some operators accepts it */
    bool possible = private_format(tensor->format) ? product(storage, tensor->storage_rank, &elements) : reach(tensor, &elements);
    if (elements == 0) elements = 1;
    if (!possible || __builtin_mul_overflow((uint64_t)elements, size, &bits)) return EMU_NO_EXTENT;
    return bits / 8 + (bits % 8 != 0);
}

#define MOST_ROWS 1024

void emu_access_add(emu_accesses *list, emu_access access, const void *address, uint64_t size, uint64_t rows, uint64_t pitch) {
    if (list->count == list->room) {
        list->room = list->room * 2 + 16;
        list->items = realloc(list->items, list->room * sizeof *list->items);
        if (list->items == NULL) abort();
    }
    access.address = address;
    access.size = size;
    access.rows = rows;
    access.pitch = pitch;
    list->items[list->count++] = access;
}

void emu_tensor_access(const emu_tensor *tensor, const void *address, uint64_t extent, emu_access access, emu_accesses *list) {
    struct { uint64_t dim, stride; } outer[MOST_DIMS], swap;
    uint64_t count = 0, run = 1, rows = 1, inner = 0, bits = bits_of(tensor->dtype);
    int64_t low = tensor->offset;
    const uint8_t *start = address;
    if (private_format(tensor->format) || tensor->rank > MOST_DIMS) {
        emu_access_add(list, access, address, extent, 1, 0);
        return;
    }
    for (uint64_t i = 0; i < tensor->rank; i++) {
        int64_t dim = tensor->numbers[i], stride = tensor->numbers[tensor->rank + i];
        if (dim <= 1 || stride == 0) continue;
        if (stride < 0) low += (dim - 1) * stride;
        outer[count].dim = (uint64_t)dim;
        outer[count].stride = (uint64_t)(stride < 0 ? -stride : stride);
        for (uint64_t j = count++; j > 0 && outer[j].stride < outer[j - 1].stride; j--) swap = outer[j], outer[j] = outer[j - 1], outer[j - 1] = swap;
    }
    while (inner < count && outer[inner].stride == run) run *= outer[inner++].dim; /* the elements that lie side by side */
    for (uint64_t i = inner; i < count && rows <= MOST_ROWS; i++) rows *= outer[i].dim;
    start += (uint64_t)low * bits / 8;
    if (rows > MOST_ROWS || (rows > 1 && bits % 8 != 0)) {
        access.vague = true;
        emu_access_add(list, access, start, extent - (uint64_t)low * bits / 8, 1, 0);
        return;
    }
    uint64_t pitched = inner < count ? outer[inner].dim : 1, pitch = inner < count ? outer[inner].stride * bits / 8 : 0;
    for (uint64_t block = 0; block < rows / pitched; block++) {
        uint64_t rest = block, at = 0;
        for (uint64_t i = inner + 1; i < count; i++) {
            at += rest % outer[i].dim * outer[i].stride;
            rest /= outer[i].dim;
        }
        emu_access_add(list, access, start + at * bits / 8, (run * bits + 7) / 8, pitched, pitch);
    }
}

static void contiguous(int64_t *strides, const int64_t *dims, uint64_t rank) {
    int64_t step = 1;
    for (uint64_t i = rank; i-- > 0;) {
        strides[i] = step;
        if (__builtin_mul_overflow(step, dims[i], &step)) step = 0; /* no memory can hold such a tensor */
    }
}

void emu_tensor_reshape(emu_tensor *tensor, uint64_t rank, const int64_t *dims) {
    int64_t *numbers = calloc(2 * rank + tensor->storage_rank + 1, sizeof *numbers);
    if (numbers == NULL) abort();
    memcpy(numbers, dims, rank * sizeof *dims);
    contiguous(numbers + rank, dims, rank);
    memcpy(numbers + 2 * rank, tensor->numbers + 2 * tensor->rank, tensor->storage_rank * sizeof *numbers);
    free(tensor->numbers);
    tensor->numbers = numbers;
    tensor->rank = rank;
}

void emu_tensor_block(emu_tensor *tensor) {
    uint64_t rank = tensor->rank, bits = bits_of(tensor->dtype);
    int64_t columns = (int64_t)(256 / bits), *numbers = calloc(3 * rank + 2, sizeof *numbers), *storage = numbers + 2 * rank;
    if (numbers == NULL) abort();
    memcpy(numbers, tensor->numbers, 2 * rank * sizeof *numbers);
    memcpy(storage, numbers, (rank - 2) * sizeof *numbers);
    storage[rank - 2] = (numbers[rank - 1] + columns - 1) / columns;
    storage[rank - 1] = (numbers[rank - 2] + 15) / 16;
    storage[rank] = 16;
    storage[rank + 1] = columns;
    free(tensor->numbers);
    tensor->numbers = numbers;
    tensor->storage_rank = rank + 2;
    tensor->format = ACL_FORMAT_FRACTAL_NZ;
}

/* Initialises a tensor; false, with a message, for invalid arguments. */
static bool describe(emu_tensor *tensor, const int64_t *dims, uint64_t rank, aclDataType dtype, const int64_t *strides,
                     int64_t offset, aclFormat format, const int64_t *storage, uint64_t storage_rank, void *data) {
    if ((dims == NULL && rank > 0) || (storage == NULL && storage_rank > 0)) {
        emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "%s is a null pointer", dims == NULL && rank > 0 ? "viewDims" : "storageDims");
        return false;
    }
    if (rank > MOST_DIMS || storage_rank > MOST_DIMS) {
        emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "the tensor has %llu dimensions; it may have at most %d", (unsigned long long)(rank > storage_rank ? rank : storage_rank), MOST_DIMS);
        return false;
    }
    int64_t *numbers = calloc(2 * rank + storage_rank + 1, sizeof *numbers);
    if (numbers == NULL) abort();
    if (rank > 0) memcpy(numbers, dims, rank * sizeof *dims);
    if (strides != NULL) memcpy(numbers + rank, strides, rank * sizeof *strides);
    else contiguous(numbers + rank, numbers, rank);
    if (storage_rank > 0) memcpy(numbers + 2 * rank, storage, storage_rank * sizeof *storage);
    free(tensor->numbers);
    tensor->dtype = dtype;
    tensor->format = format;
    tensor->offset = offset;
    tensor->rank = rank;
    tensor->storage_rank = storage_rank;
    tensor->numbers = numbers;
    tensor->data = data;
    return true;
}

static void free_tensor(void *object) {
    emu_tensor *tensor = object;
    free(tensor->numbers);
    free(tensor);
}

API aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                               int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                               void *tensorData) {
    ENTER_OR_NULL("aclCreateTensor");
    emu_tensor *tensor = calloc(1, sizeof *tensor);
    if (tensor == NULL) return NULL;
    if (describe(tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData))
        return emu_object_new(KIND_TENSOR, tensor, free_tensor);
    free_tensor(tensor);
    return NULL;
}

API aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                              const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                              uint64_t storageDimsNum, void *tensorDataAddr) {
    ENTER("aclInitTensor");
    int status;
    emu_table_lock();
    emu_tensor *old = emu_object_borrow(tensor, KIND_TENSOR, &status);
    if (old != NULL) {
        /* Null and empty values stay unchanged. */
        const int64_t *dims = viewDims, *steps = stride, *storage = storageDims;
        uint64_t rank = viewDimsNum, storage_rank = storageDimsNum;
        if (viewDims == NULL || viewDimsNum == 0) dims = old->numbers, rank = old->rank;
        if (stride == NULL && dims == old->numbers) steps = old->numbers + old->rank;
        if (storageDims == NULL || storageDimsNum == 0) storage = old->numbers + 2 * old->rank, storage_rank = old->storage_rank;
        void *data = tensorDataAddr != NULL ? tensorDataAddr : old->data;
        if (!describe(old, dims, rank, dataType, steps, offset, format, storage, storage_rank, data)) status = ACLNN_ERR_PARAM_INVALID;
    }
    emu_table_unlock();
    return status;
}

extern void *_Znam(size_t size) __attribute__((weak));

int emu_give_numbers(const int64_t *numbers, uint64_t count, int64_t **result, uint64_t *result_count) {
    if (result == NULL || result_count == NULL) return emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "an output is a null pointer");
    size_t size = (count > 0 ? count : 1) * sizeof *numbers;
    *result = _Znam != NULL ? _Znam(size) : malloc(size);
    if (*result == NULL) abort();
    memcpy(*result, numbers, count * sizeof *numbers);
    *result_count = count;
    return 0;
}

typedef enum { VIEW_DIMS, STRIDES, STORAGE_DIMS } part;

static int give_part(const aclTensor *handle, part which, int64_t **numbers, uint64_t *count) {
    int status;
    emu_table_lock();
    const emu_tensor *tensor = emu_object_borrow(handle, KIND_TENSOR, &status);
    if (tensor != NULL)
        status = emu_give_numbers(tensor->numbers + which * tensor->rank, which == STORAGE_DIMS ? tensor->storage_rank : tensor->rank,
                                  numbers, count);
    emu_table_unlock();
    return status;
}

API aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum) {
    ENTER("aclGetViewShape");
    return give_part(tensor, VIEW_DIMS, viewDims, viewDimsNum);
}

API aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum) {
    ENTER("aclGetViewStrides");
    return give_part(tensor, STRIDES, stridesValue, stridesNum);
}

API aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum) {
    ENTER("aclGetStorageShape");
    return give_part(tensor, STORAGE_DIMS, storageDims, storageDimsNum);
}

/* Reads `member` of the object behind a handle. */
#define GET(result, handle, kind, type, member)                                                        \
    int status;                                                                                        \
    emu_table_lock();                                                                                  \
    const type *object_ = emu_object_borrow(handle, kind, &status);                                    \
    if (object_ != NULL && (result) == NULL)                                                           \
        status = emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "%s is a null pointer", #result);             \
    if (status == 0) *(result) = object_->member;                                                      \
    emu_table_unlock();                                                                                \
    return status

API aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset) {
    ENTER("aclGetViewOffset");
    GET(offset, tensor, KIND_TENSOR, emu_tensor, offset);
}

API aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format) {
    ENTER("aclGetFormat");
    GET(format, tensor, KIND_TENSOR, emu_tensor, format);
}

API aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType) {
    ENTER("aclGetDataType");
    GET(dataType, tensor, KIND_TENSOR, emu_tensor, dtype);
}

API aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr) {
    ENTER("aclGetRawTensorAddr");
    GET(addr, tensor, KIND_TENSOR, emu_tensor, data);
}

API aclnnStatus aclSetRawTensorAddr(aclTensor *handle, void *addr) {
    ENTER("aclSetRawTensorAddr");
    int status;
    emu_table_lock();
    emu_tensor *tensor = emu_object_borrow(handle, KIND_TENSOR, &status);
    if (tensor != NULL) tensor->data = addr;
    emu_table_unlock();
    return status;
}

/* Destroying a null pointer has no effect. */
static int destroy(const void *handle, emu_kind kind) {
    int status = 0;
    if (handle != NULL) emu_object_release(emu_object_destroy(handle, kind, &status));
    return status;
}

API aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
    ENTER_RELEASE("aclDestroyTensor");
    LEAVE(destroy(tensor, KIND_TENSOR));
}

/* -------------------------------------------------------------------------------------------------------------- scalars */

API aclScalar *aclCreateScalar(void *value, aclDataType dataType) {
    ENTER_OR_NULL("aclCreateScalar");
    uint64_t bits = bits_of(dataType), size = bits / 8;
    if (bits == 6 || dataType == ACL_FLOAT4_E2M1 || dataType == ACL_FLOAT4_E1M2) size = 1;
    if (value == NULL || size == 0 || dataType == ACL_COMPLEX32) {
        emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, value == NULL ? "value is a null pointer" : "no scalar of data type %d", (int)dataType);
        return NULL;
    }
    emu_scalar *scalar = calloc(1, sizeof *scalar);
    if (scalar == NULL) return NULL;
    scalar->dtype = dataType;
    scalar->size = size;
    memcpy(scalar->bytes, value, size);
    return emu_object_new(KIND_SCALAR, scalar, free);
}

API aclnnStatus aclDestroyScalar(const aclScalar *scalar) {
    ENTER_RELEASE("aclDestroyScalar");
    LEAVE(destroy(scalar, KIND_SCALAR));
}

/* --------------------------------------------------------------------------------------------------------------- arrays */

static emu_array *new_array(uint64_t count) {
    if (count > (1ull << 32)) {
        emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "the array has %llu elements; it may have at most 2^32", (unsigned long long)count);
        return NULL;
    }
    emu_array *array = malloc(sizeof *array + count * sizeof array->words[0]);
    if (array == NULL) return NULL;
    *array = (emu_array){.count = count};
    return array;
}

#define CREATE_ARRAY(routine, kind, store)                                  \
    ENTER_OR_NULL(routine);                                                 \
    uint64_t count = value != NULL ? size : 0;                              \
    emu_array *array = new_array(count);                                    \
    if (array == NULL) return NULL;                                         \
    for (uint64_t i = 0; i < count; i++) { store; }                         \
    return emu_object_new(kind, array, free)

API aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size) {
    CREATE_ARRAY("aclCreateIntArray", KIND_INT_ARRAY, array->words[i] = value[i]);
}

API aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size) {
    CREATE_ARRAY("aclCreateFloatArray", KIND_FLOAT_ARRAY, double wide = (double)value[i]; memcpy(&array->words[i], &wide, 8));
}

API aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size) {
    CREATE_ARRAY("aclCreateBoolArray", KIND_BOOL_ARRAY, array->words[i] = ((const uint8_t *)value)[i] != 0);
}

API aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size) {
    ENTER("aclGetIntArraySize");
    GET(size, array, KIND_INT_ARRAY, emu_array, count);
}

API aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size) {
    ENTER("aclGetFloatArraySize");
    GET(size, array, KIND_FLOAT_ARRAY, emu_array, count);
}

API aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size) {
    ENTER("aclGetBoolArraySize");
    GET(size, array, KIND_BOOL_ARRAY, emu_array, count);
}

API aclnnStatus aclDestroyIntArray(const aclIntArray *array) {
    ENTER_RELEASE("aclDestroyIntArray");
    LEAVE(destroy(array, KIND_INT_ARRAY));
}

API aclnnStatus aclDestroyFloatArray(const aclFloatArray *array) {
    ENTER_RELEASE("aclDestroyFloatArray");
    LEAVE(destroy(array, KIND_FLOAT_ARRAY));
}

API aclnnStatus aclDestroyBoolArray(const aclBoolArray *array) {
    ENTER_RELEASE("aclDestroyBoolArray");
    LEAVE(destroy(array, KIND_BOOL_ARRAY));
}

/* ---------------------------------------------------------------------------------------------------------------- lists */

/* A list owns its members: they are destroyed with it and never alone. */
static void *new_list(emu_kind kind, emu_kind member_kind, const void *const *members, uint64_t count) {
    if (members == NULL) count = 0;
    EMU_HELD emu_list *list = count <= (1u << 20) ? malloc(sizeof *list + count * sizeof *members) : NULL;
    if (list == NULL) {
        emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "the list has %llu members, for which there is no memory", (unsigned long long)count);
        return NULL;
    }
    *list = (emu_list){.base.references = 1, .count = count};
    for (uint64_t i = 0; i < count; i++) list->members[i] = members[i];
    void *handle = emu_object_new(kind, list, free);
    uint64_t owned = 0;
    for (; handle != NULL && owned < count; owned++) {
        if (members[owned] != NULL && emu_handle_own(members[owned], member_kind, handle) != 0) break;
    }
    if (handle != NULL && owned < count) {
        for (uint64_t i = 0; i < owned; i++) {
            if (members[i] != NULL) emu_handle_disown(members[i]);
        }
        emu_object_reclaim(list);
        handle = NULL;
    }
    return handle;
}

static int destroy_list(const void *handle, emu_kind kind, emu_kind member_kind) {
    int status = 0;
    if (handle == NULL) return 0;
    EMU_HELD emu_list *list = emu_object_destroy(handle, kind, &status);
    for (uint64_t i = 0; list != NULL && i < list->count; i++) {
        int failed = 0;
        if (list->members[i] == NULL) continue;
        emu_table_lock(); /* between the two no other thread may destroy it */
        emu_handle_disown(list->members[i]);
        void *member = emu_object_destroy(list->members[i], member_kind, &failed);
        emu_table_unlock();
        emu_object_release(member);
        if (status == 0) status = failed;
    }
    return status;
}

API aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size) {
    ENTER_OR_NULL("aclCreateTensorList");
    return new_list(KIND_TENSOR_LIST, KIND_TENSOR, (const void *const *)value, size);
}

API aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size) {
    ENTER_OR_NULL("aclCreateScalarList");
    return new_list(KIND_SCALAR_LIST, KIND_SCALAR, (const void *const *)value, size);
}

API aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size) {
    ENTER("aclGetTensorListSize");
    GET(size, tensorList, KIND_TENSOR_LIST, emu_list, count);
}

API aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size) {
    ENTER("aclGetScalarListSize");
    GET(size, scalarList, KIND_SCALAR_LIST, emu_list, count);
}

API aclnnStatus aclDestroyTensorList(const aclTensorList *array) {
    ENTER_RELEASE("aclDestroyTensorList");
    LEAVE(destroy_list(array, KIND_TENSOR_LIST, KIND_TENSOR));
}

API aclnnStatus aclDestroyScalarList(const aclScalarList *array) {
    ENTER_RELEASE("aclDestroyScalarList");
    LEAVE(destroy_list(array, KIND_SCALAR_LIST, KIND_SCALAR));
}

API aclnnStatus aclnnInit(const char *configPath) {
    ENTER("aclnnInit");
    (void)configPath;
    return 0;
}

API aclnnStatus aclnnFinalize(void) {
    ENTER_RELEASE("aclnnFinalize");
    LEAVE(0);
}
