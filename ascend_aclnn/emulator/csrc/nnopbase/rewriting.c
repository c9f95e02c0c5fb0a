/*
 * Some operators change the caller's aclTensors and leave them changed, so that a caller that uses such an aclTensor again
 * passes another description than it created. Operators, arguments and changes come from the sources named in
 * catalog/traits.json under rewrites_arguments, read by hand for tensors in a plain format. (The other operators of that trait
 * change views of their own, or only tensors in a private format.)
 */
#include "nnopbase/rewriting.h"

#include "ascendcl/core/settings.h"

#include <string.h>

typedef enum {
    SCALE_OF_CHANNELS, /* (t) ND -> (1, 1, 1, t) NHWC, stored as (1, t / 16, 1, 1, 16) NC1HWC0 */
    UNSIGNED,          /* INT64 -> UINT64 */
    BECOMES_UNSIGNED,  /* any dtype -> UINT64 */
    UNPACKED,          /* INT32 -> INT4, the last axis eight times as long */
    ONE_ELEMENT,       /* () -> (1) */
    DTYPE_OF_FIRST,    /* the dtype of the operator's first tensor */
    BLOCKED,           /* ND -> FRACTAL_NZ: the memory has the blocks after phase two */
    ND_IF_MEAN,        /* any format -> ND, when the result has one number for each plane; not on Ascend 950 */
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
    {"aclnnFusedInferAttentionScoreV2", "key", UNPACKED},
    {"aclnnFusedInferAttentionScoreV2", "value", UNPACKED},
    {"aclnnFusedInferAttentionScoreV2", "keySharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV2", "valueSharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV3", "key", UNPACKED},
    {"aclnnFusedInferAttentionScoreV3", "value", UNPACKED},
    {"aclnnFusedInferAttentionScoreV3", "keySharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV3", "valueSharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV4", "key", UNPACKED},
    {"aclnnFusedInferAttentionScoreV4", "value", UNPACKED},
    {"aclnnFusedInferAttentionScoreV4", "keySharedPrefixOptional", UNPACKED},
    {"aclnnFusedInferAttentionScoreV4", "valueSharedPrefixOptional", UNPACKED},
    {"aclnnGroupedMatmulV4", "x", UNPACKED},
    {"aclnnGroupedMatmulV4", "weight", UNPACKED},
    {"aclnnGroupedMatmulV5", "x", UNPACKED},
    {"aclnnGroupedMatmulV5", "weight", UNPACKED},
    {"aclnnGroupedMatmulWeightNz", "x", UNPACKED},
    {"aclnnGroupedMatmulWeightNz", "weight", UNPACKED},
    {"aclnnGroupedMatmulFinalizeRouting", "w", UNPACKED},
    {"aclnnGroupedMatmulFinalizeRoutingV2", "x2", UNPACKED},
    {"aclnnGroupedMatmulFinalizeRoutingV3", "x2", UNPACKED},
    {"aclnnQuantMatmulAllReduceAddRmsNorm", "dequantScale", UNSIGNED},
    {"aclnnTransposeQuantBatchMatMul", "x1Scale", UNSIGNED},
    {"aclnnTransposeQuantBatchMatMul", "x2Scale", UNSIGNED},
    {"aclnnTransposeQuantBatchMatMulWeightNz", "x1Scale", UNSIGNED},
    {"aclnnTransposeQuantBatchMatMulWeightNz", "x2Scale", UNSIGNED},
    {"aclnnScaledMaskedSoftmaxBackward", "out", DTYPE_OF_FIRST},
    {"aclnnAdaptiveAvgPool2d", "self", ND_IF_MEAN},
    {"aclnnTransMatmulWeight", "mmWeightRef", BLOCKED},
};

static void apply(emu_tensor *tensor, change change, const emu_tensor *first, const emu_tensor *last) {
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
        case DTYPE_OF_FIRST: tensor->dtype = first->dtype; return;
        case BLOCKED:
            if (emu_tensor_extent(tensor) > 0) emu_tensor_block(tensor);
            return;
        case ND_IF_MEAN:
            if (last->rank < 2 || last->numbers[last->rank - 1] != 1 || last->numbers[last->rank - 2] != 1) return;
            if (strcmp(emu_config()->soc.product, "950") != 0) tensor->format = ACL_FORMAT_ND;
            return;
    }
}

bool emu_rewrites(const char *operator) {
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (strcmp(operator, changes[i].operator) == 0) return true;
    return false;
}

void emu_rewrite(const char *operator, const char *parameter, emu_tensor *tensor, const emu_tensor *first, const emu_tensor *last) {
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (strcmp(operator, changes[i].operator) == 0 && strcmp(parameter, changes[i].parameter) == 0)
            apply(tensor, changes[i].change, first, last);
}
