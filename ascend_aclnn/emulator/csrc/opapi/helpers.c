/* The operators' host-only helpers: sizes, formats and parameters computed without a device. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "nnopbase/objects.h"

#include "aclnnop/aclnn_npu_format_cast.h"
#include "aclnnop/aclnn_sparse4to2quant_matmul_weight_nz.h"
#include "aclnnop/aclnn_trans_convolution_weight.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "aclnnop/aclnn_trans_quant_param.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool product_is(const char *name) {
    return emu_config()->soc.product != NULL && strcmp(emu_config()->soc.product, name) == 0;
}

static bool is_a2_or_a3(void) { return product_is("A2") || product_is("A3"); }

static int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/* ---------------------------------------------------------------------------------------------- sizes of matmul weights */

/* Elements of a weight in blocks: its last two axes are multiples of 16, of 32 for the last one of bytes. */
static int weight_size(const aclIntArray *shape, uint64_t most_dims, bool no_zeros, bool bytes, uint64_t *size) {
    int status;
    EMU_HELD emu_array *dims = emu_object_acquire(shape, KIND_INT_ARRAY, &status);
    if (dims == NULL) return status;
    if (size == NULL) return emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "weightTensorSize is a null pointer");
    if (dims->count < 2 || dims->count > most_dims)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "tensorShape has %llu dimensions; allowed: 2 to %llu",
                        (unsigned long long)dims->count, (unsigned long long)most_dims);
    int64_t elements = 1;
    for (uint64_t i = 0; i < dims->count; i++) {
        int64_t n = dims->words[i];
        if (no_zeros && n == 0) return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "tensorShape has an axis of size 0");
        if (i + 2 >= dims->count) n = round_up(n, bytes && i + 1 == dims->count ? 32 : 16);
        elements *= n;
    }
    *size = (uint64_t)elements;
    return 0;
}

API aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize) {
    ENTER("aclnnCalculateMatmulWeightSize");
    return weight_size(tensorShape, is_a2_or_a3() ? 6 : 2, false, false, weightTensorSize);
}

API aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType,
                                                 uint64_t *weightTensorSize) {
    ENTER("aclnnCalculateMatmulWeightSizeV2");
    if (!is_a2_or_a3() && !product_is("310P") && !product_is("950"))
        return emu_fail(ACLNN_ERR_RUNTIME_ERROR, NULL, "the function is not for %s", emu_config()->soc.name);
    return weight_size(tensorShape, 6, true, dataType != ACL_FLOAT16 && dataType != ACL_BF16, weightTensorSize);
}

/* Elements of a weight (O, C / groups, H, W) in FRACTAL_Z, where as many groups share a block as fill it. */
API aclnnStatus aclnnCalculateConvolutionWeightSize(const aclIntArray *tensorShape, bool transposed, int64_t groups,
                                                    aclDataType dataType, uint64_t *weightTensorSize) {
    ENTER("aclnnCalculateConvolutionWeightSize");
    int status;
    EMU_HELD emu_array *dims = emu_object_acquire(tensorShape, KIND_INT_ARRAY, &status);
    if (dims == NULL) return status;
    if (weightTensorSize == NULL) return emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "weightTensorSize is a null pointer");
    if (dims->count != 4 || transposed || groups <= 0 || !product_is("310P") || dataType != ACL_FLOAT16)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL,
                        "%llu dimensions, transposed %d, groups %lld, data type %d on %s; it takes 4, false, 1 and more, FLOAT16, on Atlas inference products",
                        (unsigned long long)dims->count, transposed, (long long)groups, (int)dataType, emu_config()->soc.name);
    for (int i = 0; i < 4; i++) {
        if (dims->words[i] < 0)
            return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "tensorShape has the size %lld", (long long)dims->words[i]);
        if (dims->words[i] == 0) return *weightTensorSize = 0, 0;
    }
    int64_t kernels = dims->words[0] / groups > 0 ? dims->words[0] / groups : 1, channels = dims->words[1], together = 1;
    while (together < groups && (together * kernels % 16 != 0 || together * channels % 16 != 0)) together++;
    int64_t blocks = round_up(together * channels, 16) * round_up(together * kernels, 16);
    *weightTensorSize = (uint64_t)((groups + together - 1) / together * blocks * dims->words[2] * dims->words[3]);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- two of four */

/* Which two of four weights are kept, and four bits of the index, by which are not zero; -1: more than two. */
static const struct { int8_t first, second, bits; } kept_of[16] = {
    {0, 0, 0}, {0, 3, 8}, {2, 3, 2}, {2, 3, 10}, {1, 2, 1}, {1, 3, 9}, {1, 2, 5}, {0, 0, -1},
    {0, 1, 0}, {0, 3, 8}, {0, 2, 4}, {0, 0, -1}, {0, 1, 0}, {0, 0, -1}, {0, 0, -1}, {0, 0, -1},
};

/* The weight (n, k) with two of each four kept in blocks of 16 rows by 32, and where they were, a byte for each eight. */
static bool keep_two_of_four(const int8_t *weight, int64_t rows, int64_t columns, int64_t blocked_rows, int8_t *kept, uint8_t *index) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t four = 0; four * 4 < columns; four++) {
            int8_t part[4] = {0};
            unsigned pattern = 0;
            for (int64_t i = 0; i < 4 && four * 4 + i < columns; i++) {
                part[i] = weight[row * columns + four * 4 + i];
                pattern |= part[i] != 0 ? 8u >> i : 0;
            }
            if (kept_of[pattern].bits < 0) return false;
            int64_t line = four / 16 * blocked_rows + row, place = four % 16; /* 16 fours make a row of a block */
            kept[line * 32 + place * 2] = part[kept_of[pattern].first];
            kept[line * 32 + place * 2 + 1] = part[kept_of[pattern].second];
            index[line * 8 + place / 2] |= (uint8_t)(kept_of[pattern].bits << (place % 2 * 4));
        }
    return true;
}

/* The caller frees the four arrays, with free(). */
API aclnnStatus aclnnTransSparse4to2Para(const int8_t *weight, aclIntArray *shape, int8_t **sparseWeight,
                                         int64_t **sparseWeightDims, uint64_t *sparseWeightDimsNum, uint8_t **index,
                                         int64_t **indexDims, uint64_t *indexDimsNum) {
    ENTER("aclnnTransSparse4to2Para");
    if (weight == NULL || shape == NULL || sparseWeight == NULL || sparseWeightDims == NULL || sparseWeightDimsNum == NULL ||
        index == NULL || indexDims == NULL || indexDimsNum == NULL)
        return emu_fail(ACLNN_ERR_INNER_NULLPTR, NULL, "an argument is a null pointer");
    int status;
    EMU_HELD emu_array *dims = emu_object_acquire(shape, KIND_INT_ARRAY, &status);
    if (dims == NULL) return status;
    if (dims->count != 2 || dims->words[0] < 0 || dims->words[1] < 0)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "shape has %llu dimensions; it must be (n, k)", (unsigned long long)dims->count);
    int64_t rows = dims->words[0], columns = dims->words[1], blocks = round_up(rows, 16) / 16;
    int64_t weight_dims[4] = {round_up(columns, 64) / 64, blocks, 16, 32}, index_dims[4] = {weight_dims[0], blocks, 16, 8};
    size_t size = (size_t)(weight_dims[0] * blocks * 128);
    int8_t *kept = calloc(size * 4 + 1, 1); /* never of no bytes, so that null is a failure */
    uint8_t *places = calloc(size + 1, 1);
    int64_t *both[2] = {calloc(4, sizeof(int64_t)), calloc(4, sizeof(int64_t))};
    bool there = kept != NULL && places != NULL && both[0] != NULL && both[1] != NULL;
    if (!there || !keep_two_of_four(weight, rows, columns, blocks * 16, kept, places)) {
        free(kept);
        free(places);
        free(both[0]);
        free(both[1]);
        if (!there) return emu_fail(ACLNN_ERR_INNER_NULLPTR, "EMULATOR_OUT_OF_MEMORY", "%lld weights", (long long)(rows * columns));
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "more than two of four weights are not 0");
    }
    memcpy(both[0], weight_dims, sizeof weight_dims);
    memcpy(both[1], index_dims, sizeof index_dims);
    *sparseWeight = kept, *index = places, *sparseWeightDims = both[0], *indexDims = both[1];
    *sparseWeightDimsNum = *indexDimsNum = 4;
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- quantisation */

API aclnnStatus aclnnTransQuantParam(const float *scaleArray, uint64_t scaleSize, const float *offsetArray,
                                     uint64_t offsetSize, uint64_t **quantParam, uint64_t *quantParamSize) {
    ENTER("aclnnTransQuantParam");
    if (scaleArray == NULL || scaleSize == 0 || (offsetArray == NULL) != (offsetSize == 0))
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "there are %llu scales at %p and %llu offsets at %p; scales are required, offsets come with their number", (unsigned long long)scaleSize,
                        (const void *)scaleArray, (unsigned long long)offsetSize, (const void *)offsetArray);
    if (quantParam == NULL || quantParamSize == NULL)
        return emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "%s is a null pointer", quantParam == NULL ? "quantParam" : "quantParamSize");
    uint64_t count = scaleSize > offsetSize ? scaleSize : offsetSize;
    if (count != 1) count = (uint64_t)round_up((int64_t)count, 16);
    uint64_t *packed = calloc(count, sizeof *packed); /* the caller frees it */
    if (packed == NULL) return emu_fail(ACLNN_ERR_INNER_NULLPTR, "EMULATOR_OUT_OF_MEMORY", "%llu parameters", (unsigned long long)count);
    for (uint64_t i = 0; i < scaleSize; i++) {
        uint32_t bits;
        memcpy(&bits, &scaleArray[i], sizeof bits);
        packed[i] = bits | 1ull << 46;
    }
    for (uint64_t i = 0; i < offsetSize; i++) { /* nine bits, from bit 37 on */
        float offset = roundf(offsetArray[i]);
        int64_t whole = offset < -256 ? -256 : offset > 255 ? 255 : (int64_t)offset;
        packed[i] = (packed[i] & 0x4000ffffffffull) | ((uint64_t)whole & 0x1ff) << 37;
    }
    *quantParam = packed;
    *quantParamSize = count;
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ private formats */

static bool plain_format(aclFormat format) {
    return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCL || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCDHW;
}

/* To FRACTAL_NZ and back. Other pairs are refused, as CANN refuses pairs that it does not know. */
static int cast_format(const emu_tensor *source, int to, int dtype, int64_t **dims, uint64_t *dims_size, int *format) {
    if (dtype == -1) dtype = (int)source->dtype;
    uint64_t rank = source->rank, bytes = aclDataTypeSize((aclDataType)dtype);
    bool empty = false;
    for (uint64_t i = 0; i < rank; i++) empty |= source->numbers[i] == 0;
    if (source->format == ACL_FORMAT_FRACTAL_NZ && to == ACL_FORMAT_ND && !empty) {
        *format = ACL_FORMAT_ND;
        return emu_give_numbers(source->numbers, rank, dims, dims_size);
    }
    bool known = to == ACL_FORMAT_FRACTAL_NZ && plain_format(source->format) && rank >= 2 && rank <= 23 && bytes > 0;
    if (!known || empty || (dtype != (int)source->dtype && (source->format == ACL_FORMAT_NCHW || product_is("950"))))
        return emu_fail(ACLNN_ERR_RUNTIME_ERROR, "EMULATOR_NOT_SUPPORTED",
                        "from format %d to %d with data type %d and %llu dimensions", (int)source->format, to, dtype,
                        (unsigned long long)rank);
    int64_t shape[25], block = 32 / (int64_t)bytes;
    memcpy(shape, source->numbers, rank * sizeof *shape);
    shape[rank - 2] = round_up(source->numbers[rank - 1], block) / block;
    shape[rank - 1] = round_up(source->numbers[rank - 2], 16) / 16;
    shape[rank] = 16;
    shape[rank + 1] = block;
    *format = ACL_FORMAT_FRACTAL_NZ;
    return emu_give_numbers(shape, rank + 2, dims, dims_size);
}

API aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *srcTensor, const int dstFormat, int additionalDtype,
                                                         int64_t **dstShape, uint64_t *dstShapeSize, int *actualFormat) {
    ENTER("aclnnNpuFormatCastCalculateSizeAndFormat");
    int status;
    if (!is_a2_or_a3() && !product_is("950"))
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "the function is not for %s", emu_config()->soc.name);
    emu_table_lock();
    const emu_tensor *source = emu_object_borrow(srcTensor, KIND_TENSOR, &status);
    if (source != NULL && actualFormat == NULL) status = emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "actualFormat is a null pointer");
    if (status == 0) status = cast_format(source, dstFormat, additionalDtype, dstShape, dstShapeSize, actualFormat);
    emu_table_unlock();
    return status;
}
