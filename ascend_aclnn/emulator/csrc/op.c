/*
 * What is left of running single operators by type name: descriptions of tensors and attributes are objects that can be
 * made and read, and running anything is refused with the operator's name. Clients that find no aclnn function come here.
 */
#include "op.h"

#include "calls.h"
#include "handles.h"

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
} description;

/* ------------------------------------------------------------------------------------------------ tensor descriptions */

static int check_dims(int numDims, const int64_t *dims) {
    if (numDims < 0 || numDims > MOST_DIMS || (numDims > 0 && dims == NULL))
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "numDims is %d; allowed: 0 to %d, with dims", numDims, MOST_DIMS);
    return 0;
}

API aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format) {
    ENTER_OR_NULL("aclCreateTensorDesc");
    if (check_dims(numDims, dims) != 0) return NULL;
    description *made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    made->dtype = dataType;
    made->format = made->storage_format = format;
    made->rank = numDims;
    if (numDims > 0) memcpy(made->dims, dims, (size_t)numDims * sizeof *dims);
    void *handle = emu_handle_new(KIND_TENSOR_DESC, made);
    if (handle == NULL) free(made);
    return handle;
}

API void aclDestroyTensorDesc(const aclTensorDesc *desc) {
    void *object = NULL;
    emu_enter("aclDestroyTensorDesc");
    if (desc == NULL || emu_handle_drop(desc, KIND_TENSOR_DESC, &object) != 0) return;
    free(((description *)object)->name);
    free(object);
}

/* The description behind a handle, NULL with a message when there is none. */
static description *find(const aclTensorDesc *desc, const char *routine, int *status) {
    void *object = NULL;
    *status = emu_enter(routine);
    if (*status == 0) *status = emu_handle_find(desc, KIND_TENSOR_DESC, &object);
    return *status == 0 ? object : NULL;
}

#define FIND(desc, routine)                                \
    int status_;                                           \
    description *found = find(desc, routine, &status_);    \
    if (found == NULL) return status_
#define FIND_OR(desc, routine, otherwise)                  \
    int status_;                                           \
    description *found = find(desc, routine, &status_);    \
    if (found == NULL) return otherwise

API aclDataType aclGetTensorDescType(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescType", ACL_DT_UNDEFINED);
    return found->dtype;
}

API aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescFormat", ACL_FORMAT_UNDEFINED);
    return found->format;
}

static size_t element_count(const description *found) {
    size_t count = 1;
    for (int i = 0; i < found->rank; i++) count *= found->dims[i] > 0 ? (size_t)found->dims[i] : 0;
    return count;
}

API size_t aclGetTensorDescElementCount(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescElementCount", 0);
    return element_count(found);
}

API size_t aclGetTensorDescSize(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescSize", 0);
    return element_count(found) * aclDataTypeSize(found->dtype);
}

API size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescNumDims", 0);
    return (size_t)found->rank;
}

static int check_index(const description *found, size_t index) {
    if (index < (size_t)found->rank) return 0;
    return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "index is %zu; the description has %d dims", index, found->rank);
}

API int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index) {
    FIND_OR(desc, "aclGetTensorDescDim", -1);
    return check_index(found, index) == 0 ? found->dims[index] : -1;
}

API aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize) {
    FIND(desc, "aclGetTensorDescDimV2");
    if (dimSize == NULL) return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "dimSize is a null pointer");
    int status = check_index(found, index);
    if (status == 0) *dimSize = found->dims[index];
    return status;
}

API void aclSetTensorDescName(aclTensorDesc *desc, const char *name) {
    int status;
    description *found = find(desc, "aclSetTensorDescName", &status);
    if (found == NULL) return;
    free(found->name);
    found->name = name != NULL ? strdup(name) : NULL;
}

API const char *aclGetTensorDescName(aclTensorDesc *desc) {
    FIND_OR(desc, "aclGetTensorDescName", NULL);
    return found->name != NULL ? found->name : "";
}

static int set_shape(int numDims, const int64_t *dims, int *rank, int64_t *to) {
    int status = check_dims(numDims, dims);
    if (status != 0) return status;
    *rank = numDims;
    if (numDims > 0) memcpy(to, dims, (size_t)numDims * sizeof *dims);
    return 0;
}

/* Format and shape in storage; the older names mean the same. */
API aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format) {
    FIND(desc, "aclSetTensorFormat");
    found->storage_format = format;
    return 0;
}

API aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format) {
    FIND(desc, "aclSetTensorStorageFormat");
    found->storage_format = format;
    return 0;
}

API aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    FIND(desc, "aclSetTensorShape");
    return set_shape(numDims, dims, &found->storage_rank, found->storage_dims);
}

API aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    FIND(desc, "aclSetTensorStorageShape");
    return set_shape(numDims, dims, &found->storage_rank, found->storage_dims);
}

API aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format) {
    FIND(desc, "aclSetTensorOriginFormat");
    found->format = format;
    return 0;
}

API aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    FIND(desc, "aclSetTensorOriginShape");
    return set_shape(numDims, dims, &found->rank, found->dims);
}

API aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType) {
    FIND(desc, "aclSetTensorPlaceMent");
    found->placement = memType;
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- attributes */

/* Their values would only be read by what runs operators; so they are checked and not kept. */
struct aclopAttr {
    uint64_t magic;
};

#define ATTRIBUTES 0x61636c6f70417474ull

API aclopAttr *aclopCreateAttr(void) {
    ENTER_OR_NULL("aclopCreateAttr");
    aclopAttr *made = calloc(1, sizeof *made);
    if (made != NULL) made->magic = ATTRIBUTES;
    return made;
}

API void aclopDestroyAttr(const aclopAttr *attr) {
    emu_enter("aclopDestroyAttr");
    if (attr == NULL || attr->magic != ATTRIBUTES) return;
    ((aclopAttr *)attr)->magic = 0;
    free((void *)attr);
}

static int set_attribute(const char *routine, const aclopAttr *attr, const char *name, bool given) {
    ENTER(routine);
    if (attr == NULL || attr->magic != ATTRIBUTES || name == NULL || !given)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "%s is a null pointer", attr == NULL ? "attr" : name == NULL ? "attrName" : "the value");
    return 0;
}

API aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue) {
    (void)attrValue;
    return set_attribute("aclopSetAttrBool", attr, attrName, true);
}

API aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue) {
    (void)attrValue;
    return set_attribute("aclopSetAttrInt", attr, attrName, true);
}

API aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue) {
    (void)attrValue;
    return set_attribute("aclopSetAttrFloat", attr, attrName, true);
}

API aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue) {
    return set_attribute("aclopSetAttrString", attr, attrName, attrValue != NULL);
}

API aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue) {
    (void)attrValue;
    return set_attribute("aclopSetAttrDataType", attr, attrName, true);
}

API aclError aclopSetAttrListDataType(aclopAttr *attr, const char *attrName, int numValues, const aclDataType values[]) {
    return set_attribute("aclopSetAttrListDataType", attr, attrName, numValues == 0 || values != NULL);
}

API aclError aclopSetAttrListBool(aclopAttr *attr, const char *attrName, int numValues, const uint8_t *values) {
    return set_attribute("aclopSetAttrListBool", attr, attrName, numValues == 0 || values != NULL);
}

API aclError aclopSetAttrListInt(aclopAttr *attr, const char *attrName, int numValues, const int64_t *values) {
    return set_attribute("aclopSetAttrListInt", attr, attrName, numValues == 0 || values != NULL);
}

API aclError aclopSetAttrListFloat(aclopAttr *attr, const char *attrName, int numValues, const float *values) {
    return set_attribute("aclopSetAttrListFloat", attr, attrName, numValues == 0 || values != NULL);
}

API aclError aclopSetAttrListString(aclopAttr *attr, const char *attrName, int numValues, const char **values) {
    return set_attribute("aclopSetAttrListString", attr, attrName, numValues == 0 || values != NULL);
}

API aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists, const int *numValues,
                                     const int64_t *const values[]) {
    return set_attribute("aclopSetAttrListListInt", attr, attrName, numLists == 0 || (numValues != NULL && values != NULL));
}

/* ------------------------------------------------------------------------------------------------------------- running */

/* Also for the operator compiler's library. */
LINK int emu_refuse_operator(const char *routine, const char *type) {
    ENTER(routine);
    return emu_fail(ACL_ERROR_FEATURE_UNSUPPORTED, "EMULATOR_NOT_SUPPORTED",
                    "the emulator runs aclnn operators only, and %s was to be run as a single operator", type != NULL ? type : "(null)");
}

API aclError aclopExecute(const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
                          const aclDataBuffer *const inputs[], int numOutputs, const aclTensorDesc *const outputDesc[],
                          aclDataBuffer *const outputs[], const aclopAttr *attr, aclrtStream stream) {
    (void)numInputs, (void)inputDesc, (void)inputs, (void)numOutputs, (void)outputDesc, (void)outputs, (void)attr, (void)stream;
    return emu_refuse_operator("aclopExecute", opType);
}

API aclError aclopExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
                            int numOutputs, aclTensorDesc *outputDesc[], aclDataBuffer *outputs[], aclopAttr *attr,
                            aclrtStream stream) {
    (void)numInputs, (void)inputDesc, (void)inputs, (void)numOutputs, (void)outputDesc, (void)outputs, (void)attr, (void)stream;
    return emu_refuse_operator("aclopExecuteV2", opType);
}
