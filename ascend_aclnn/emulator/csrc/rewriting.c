/*
 * Some operators change the aclTensors that their caller made, and leave them changed. A caller that uses such an aclTensor
 * again passes another description than it made. Which operators, arguments and changes: the sources named in
 * catalog/traits.json under rewrites_arguments, for tensors in a plain format.
 */
#include "rewriting.h"

#include <string.h>

typedef enum {
    SCALE_OF_CHANNELS, /* (t) ND -> (1, 1, 1, t) NHWC, stored as (1, t / 16, 1, 1, 16) NC1HWC0 */
    UNSIGNED,          /* INT64 -> UINT64 */
    BECOMES_UNSIGNED,  /* any dtype -> UINT64 */
    UNPACKED,          /* INT32 -> INT4, the last axis eight times as long */
    ONE_ELEMENT,       /* () -> (1) */
} change;

static const struct {
    const char *operator, *parameter;
    change change;
} changes[] = {
    {"aclnnQuantMatmulV2", "deqScale", SCALE_OF_CHANNELS},
    {"aclnnTransQuantParamV2", "out", BECOMES_UNSIGNED},
    {"aclnnTransQuantParamV3", "out", BECOMES_UNSIGNED},
    {"aclnnSearchSorteds", "out", ONE_ELEMENT},
    {"aclnnFFN", "deqScale1", UNSIGNED},
    {"aclnnFFN", "deqScale2", UNSIGNED},
    {"aclnnFFNV2", "deqScale1", UNSIGNED},
    {"aclnnFFNV2", "deqScale2", UNSIGNED},
    {"aclnnQuantMatmulV5", "x2Scale", UNSIGNED},
    {"aclnnQuantMatmulAllReduce", "dequantScale", UNSIGNED},
    {"aclnnQuantMatmulAllReduceV2", "dequantScale", UNSIGNED},
    {"aclnnQuantMatmulAllReduceV3", "dequantScale", UNSIGNED},
    {"aclnnQuantMatmulAllReduceV4", "x2Scale", UNSIGNED},
    {"aclnnGroupedMatmulSwigluQuant", "weight", UNPACKED},
    {"aclnnGroupedMatmulSwigluQuant", "weightScale", UNSIGNED},
    {"aclnnFusedInferAttentionScoreV2", "keySharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV2", "valueSharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV3", "keySharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV3", "valueSharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV4", "keySharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV4", "valueSharedPrefixOptional", UNPACKED},
};

static void apply(emu_tensor *tensor, change change) {
    int64_t dims[32];
    switch (change) {
        case SCALE_OF_CHANNELS:
            if (tensor->rank != 1) return;
            memcpy(dims, (int64_t[]){1, 1, 1, tensor->numbers[0]}, 4 * sizeof dims[0]);
            emu_tensor_reshape(tensor, 4, dims);
            tensor->format = ACL_FORMAT_NC1HWC0;
            return;
        case UNSIGNED:
            if (tensor->dtype == ACL_INT64) tensor->dtype = ACL_UINT64;
            return;
        case BECOMES_UNSIGNED: tensor->dtype = ACL_UINT64; return;
        case UNPACKED:
            if (tensor->dtype != ACL_INT32 || tensor->rank == 0 || tensor->rank > 32) return;
            memcpy(dims, tensor->numbers, tensor->rank * sizeof dims[0]);
            dims[tensor->rank - 1] *= 8;
            emu_tensor_reshape(tensor, tensor->rank, dims);
            tensor->dtype = ACL_INT4;
            return;
        case ONE_ELEMENT:
            if (tensor->rank == 0) emu_tensor_reshape(tensor, 1, (int64_t[]){1});
            return;
    }
}

bool emu_rewrites(const char *operator) {
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (strcmp(operator, changes[i].operator) == 0) return true;
    return false;
}

void emu_rewrite(const char *operator, const char *parameter, emu_tensor *tensor) {
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (strcmp(operator, changes[i].operator) == 0 && strcmp(parameter, changes[i].parameter) == 0)
            apply(tensor, changes[i].change);
}
