/* The options of the operator compiler, which clients set and read; nothing is compiled. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/operator/single_operator.h"

#include "acl/acl_op_compiler.h"

#include <pthread.h>
#include <string.h>

#define OPTIONS (ACL_OP_DEBUG_OPTION + 1)
#define LONGEST 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char values[OPTIONS][LONGEST];
static bool is_set[OPTIONS];

/* The options' initial values. There is no compiler, so operators are never compiled just in time. */
static const char *value_of(aclCompileOpt opt) {
    if (is_set[opt]) return values[opt];
    return opt == ACL_OP_JIT_COMPILE ? "disable" : "";
}

static int check_option(aclCompileOpt opt) {
    if ((unsigned)opt < OPTIONS) return 0;
    return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "option is %d; allowed: 0 to %d", (int)opt, OPTIONS - 1);
}

API aclError aclSetCompileopt(aclCompileOpt opt, const char *value) {
    ENTER("aclSetCompileopt");
    int status = check_option(opt);
    if (status != 0) return status;
    if (value == NULL || strlen(value) >= LONGEST)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, value == NULL ? "value is a null pointer" : "value is too long");
    pthread_mutex_lock(&lock);
    strcpy(values[opt], value);
    is_set[opt] = true;
    pthread_mutex_unlock(&lock);
    return 0;
}

API size_t aclGetCompileoptSize(aclCompileOpt opt) {
    if (emu_enter("aclGetCompileoptSize") != 0 || check_option(opt) != 0) return 0;
    pthread_mutex_lock(&lock);
    size_t size = strlen(value_of(opt)) + 1;
    pthread_mutex_unlock(&lock);
    return size;
}

API aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length) {
    ENTER("aclGetCompileopt");
    int status = check_option(opt);
    if (status != 0) return status;
    if (value == NULL) return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "value is a null pointer");
    pthread_mutex_lock(&lock);
    size_t size = strlen(value_of(opt)) + 1;
    if (size <= length) memcpy(value, value_of(opt), size);
    pthread_mutex_unlock(&lock);
    if (size > length) status = emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "length is %zu; %zu bytes are needed", length, size);
    return status;
}

/* Shapes are never fixed here, so both flags have the same effect. */
API aclError aclopSetCompileFlag(aclOpCompileFlag flag) {
    ENTER("aclopSetCompileFlag");
    if ((unsigned)flag > ACL_OP_COMPILE_FUZZ)
        return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "flag is %d; allowed: 0, 1", (int)flag);
    return 0;
}

API aclError aclopCompileAndExecute(const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
                                    const aclDataBuffer *const inputs[], int numOutputs,
                                    const aclTensorDesc *const outputDesc[], aclDataBuffer *const outputs[],
                                    const aclopAttr *attr, aclopEngineType engineType, aclopCompileType compileFlag,
                                    const char *opPath, aclrtStream stream) {
    (void)engineType, (void)compileFlag, (void)opPath;
    emu_single single = {opType, numInputs, numOutputs, inputDesc, outputDesc, inputs, (const aclDataBuffer *const *)outputs, attr, false};
    return emu_run_single("aclopCompileAndExecute", &single, stream);
}

API aclError aclopCompileAndExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
                                      int numOutputs, aclTensorDesc *outputDesc[], aclDataBuffer *outputs[], aclopAttr *attr,
                                      aclopEngineType engineType, aclopCompileType compileFlag, const char *opPath,
                                      aclrtStream stream) {
    (void)engineType, (void)compileFlag, (void)opPath;
    emu_single single = {opType, numInputs, numOutputs, (const aclTensorDesc *const *)inputDesc, (const aclTensorDesc *const *)outputDesc,
                         (const aclDataBuffer *const *)inputs, (const aclDataBuffer *const *)outputs, attr, true};
    return emu_run_single("aclopCompileAndExecuteV2", &single, stream);
}
