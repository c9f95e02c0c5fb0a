/*
 * atb::Utils, under its mangled names, and how ATB's functions report failures.
 */
#include "atb/atb_types.h"

#include "ascendcl/core/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

atb_string atb_new_string(const char *text) {
    size_t length = strlen(text);
    char *copy = malloc(length + 1);
    if (copy == NULL) abort();
    memcpy(copy, text, length + 1);
    return (atb_string){copy, length, length, 0};
}

uint64_t atb_count(const atb_desc *desc) {
    uint64_t count = desc->shape.count > 0 && desc->shape.count <= ATB_MOST_DIMS ? 1 : 0;
    for (uint64_t i = 0; count > 0 && i < desc->shape.count; i++)
        count *= desc->shape.dims[i] > 0 ? (uint64_t)desc->shape.dims[i] : 0;
    return count;
}

atb_status atb_refuse(atb_status status, const char *error, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    emu_fail(status, error, "%s", text);
    fprintf(stderr, "[ERROR] %s%s%s: %s\n", error != NULL ? error : "", error != NULL ? ": " : "", emu_routine(), text);
    return status;
}

/* The statuses of the emulator's functions; those of the device process about operations are ATB's already. */
static atb_status translated(int status) {
    if (status <= ATB_LAST_ERROR) return status;
    if (status == ACLNN_ERR_PARAM_NULLPTR) return ATB_ERROR_INVALID_TENSOR_ADDR;
    if (status == ACLNN_ERR_PARAM_INVALID) return ATB_ERROR_INVALID_PARAM;
    if (status == ACLNN_ERR_INNER_FIND_KERNEL_ERROR) return ATB_ERROR_INTERNAL_ERROR; /* what the emulated device lacks */
    bool of_runtime = status >= ACL_ERROR_RT_PARAM_INVALID && status < ACLNN_ERR_PARAM_NULLPTR;
    return of_runtime || status == ACLNN_ERR_RUNTIME_ERROR ? ATB_ERROR_RT_FAIL : ATB_ERROR_CANN_ERROR;
}

atb_status atb_failed(int status) {
    char *text = emu_take_message();
    if (text != NULL) {
        fprintf(stderr, "[ERROR] %s\n", text);
        emu_fail_with(translated(status), text);
        free(text);
    }
    return translated(status);
}

static uint64_t size_of(const atb_desc *desc) { return atb_count(desc) * aclDataTypeSize((aclDataType)desc->dtype); }

/* Utils::GetTensorSize(const Tensor &), (const TensorDesc &), GetTensorNumel */
API uint64_t _ZN3atb5Utils13GetTensorSizeERKNS_6TensorE(const atb_tensor *tensor) { return size_of(&tensor->desc); }
API uint64_t _ZN3atb5Utils13GetTensorSizeERKNS_10TensorDescE(const atb_desc *desc) { return size_of(desc); }
API uint64_t _ZN3atb5Utils14GetTensorNumelERKNS_6TensorE(const atb_tensor *tensor) { return atb_count(&tensor->desc); }
API uint64_t _ZN3atb5Utils14GetTensorNumelERKNS_10TensorDescE(const atb_desc *desc) { return atb_count(desc); }

/* Utils::QuantParamConvert(const float *, uint64_t *, uint64_t): the bits of each number in the low half. */
API void _ZN3atb5Utils17QuantParamConvertEPKfPmm(const float *numbers, uint64_t *words, uint64_t count) {
    for (uint64_t i = 0; numbers != NULL && words != NULL && i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        words[i] = bits;
    }
}

/* Utils::GetAtbVersion() */
API atb_string _ZN3atb5Utils13GetAtbVersionB5cxx11Ev(void) { return atb_new_string("emulated"); }
