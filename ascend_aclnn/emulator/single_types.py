"""Which aclnn operator stands for a single operator's type, as data: "operator argument argument ...", in C order.

    x0          an input; x3? one that may be absent; x* all inputs, as a list
    y0          an output
    x1:i x1:I   the values of an input that is known at the call: a number, numbers; x1:F an aclScalar of its data type,
                x1:last its last number, x1:dropped what it lacks to 1
    scale:f=1   an attribute and what it is where it is not given: f a number, i an integer, b a truth value, s a text,
                I integers, M those in the middle, 1 the only one of several integers, L numbers, F an aclScalar of FLOAT,
                N of INT64, none|mean|sum the place of a text among these
    y0:dtype    the data type of an output; x1:shape, x1:spatial the shape of an input or output, and that after the channels;
                y0:count its number of elements, y0:number it without axes; y1:raw, x2:raw its storage as
                words of 16 bits, and y1:words their number
    x0:first y0:first    an image, NHWC or not, in the order of NCHW; x0:nhwc, y0:nhwc: it must be NHWC
    =1 =1,1     a number, truth values
    !name=value, !x7   no argument: refused where the attribute is given and is not this (1 for true), or where the input is given

The order of inputs, outputs and attributes is that of the types' definitions, as op-plugin and torch_npu use them.
"""

from __future__ import annotations

# Types that are called like the operator and have its arguments, inputs before outputs.
SAME_NAMES = (
    "Abs Acos Acosh Asin Asinh Atan Atan2 Atanh Ceil Cos Cosh Dot Erf Erfc Erfinv Expm1 FastGelu Floor Gelu "
    "IsFinite LeftShift Lerp Log1p LogAddExp LogSigmoid LogicalAnd LogicalNot LogicalOr Maximum Minimum "
    "Mish Mul Neg Reciprocal Relu RightShift RmsNormGrad Rsqrt Selu Sigmoid Sign Sin Sinh "
    "SoftmaxCrossEntropyWithLogits Sqrt Tan Tanh Trace Trunc"
)

# The same under another name.
SAME_ARGUMENTS = {
    "BitwiseAnd": "aclnnBitwiseAndTensor",
    "BitwiseOr": "aclnnBitwiseOrTensor",
    "BitwiseXor": "aclnnBitwiseXorTensor",
    "Equal": "aclnnEqTensor",
    "FastGeluGrad": "aclnnFastGeluBackward",
    "FloorDiv": "aclnnFloorDivide",
    "FloorMod": "aclnnRemainderTensorTensor",
    "Greater": "aclnnGtTensor",
    "GreaterEqual": "aclnnGeTensor",
    "HardSigmoid": "aclnnHardsigmoid",
    "HardSigmoidGrad": "aclnnHardsigmoidBackward",
    "HardSwish": "aclnnHardswish",
    "HardSwishGrad": "aclnnHardswishBackward",
    "Invert": "aclnnBitwiseNot",
    "Less": "aclnnLtTensor",
    "LessEqual": "aclnnLeTensor",
    "MatrixInverse": "aclnnInverse",
    "MishGrad": "aclnnMishBackward",
    "Mod": "aclnnFmodTensor",
    "NotEqual": "aclnnNeTensor",
    "PRelu": "aclnnPrelu",
    "PReluGrad": "aclnnPreluBackward",
    "Pow": "aclnnPowTensorTensor",
    "RealDiv": "aclnnDiv",
    "Select": "aclnnSWhere",
    "SeluGrad": "aclnnSeluBackward",
    "SiluGrad": "aclnnSiluBackward",
    "Xlogy": "aclnnXLogYTensor",
}

# What recurrences are not run with.
_LSTM = "!use_peephole=0 !num_proj=0 !time_major=1 !activation=tanh"
_GRU = "!direction=UNIDIRECTIONAL !num_proj=0 !time_major=1 !activation=tanh !reset_after=1"

ARGUMENTS = {
    "AdaptiveAvgPool2d": "aclnnAdaptiveAvgPool2d x0 output_size:I= y0",
    "AdaptiveAvgPool2dGrad": "aclnnAdaptiveAvgPool2dBackward x0 y0 y0",
    "Add": "aclnnAdd x0 x1 one:N=1 y0",
    "AddLayerNorm": "aclnnAddLayerNorm x0 x1 x2 x3 x4? epsilon:f=1e-5 additional_output:b=0 y0 y1 y2 y3",
    "AddLayerNormGrad": "aclnnAddLayerNormGrad x0 x1 x2 x3 x4 x5 x6? y0 y1 y2",
    "AddRmsNorm": "aclnnAddRmsNorm x0 x1 x2 epsilon:f=1e-6 y0 y1 y2",
    "Addcdiv": "aclnnAddcdiv x0 x1 x2 x3:F y0",
    "Addcmul": "aclnnAddcmul x0 x1 x2 x3:F y0",
    "AffineGrid": "aclnnAffineGrid x0 x1:I align_corners:b=0 y0",
    "AnchorResponseFlags": "aclnnSingleAnchorResponseFlags x0 featmap_size:I= strides:I= num_base_anchors:i=1 y0",
    "ApplyAdam": "aclnnApplyAdamD x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 use_locking:b=0 use_nesterov:b=0 y0 y1 y2",
    "ApplyAdamD": "aclnnApplyAdamD x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 use_locking:b=0 use_nesterov:b=0 y0 y1 y2",
    "ApplyAdamV2": "aclnnSingleApplyAdamV2 x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11? adam_mode:s=adam y0 y1 y2",
    "ApplyAdamW": "aclnnSingleApplyAdamW x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11? amsgrad:b=0 maximize:b=0 y0 y1 y2",
    "ArgMaxGrad": "aclnnSingleArgMaxGrad x0 x1 x2 dimension:i=0 y0",
    "ArgMaxV2": "aclnnArgMax x0 x1:i keep_dims:b=0 y0",
    "ArgMaxWithValue": "aclnnSingleArgWithValue x0 dimension:i=0 keep_dims:b=0 =1 y0 y1",
    "ArgMin": "aclnnArgMin x0 x1:i keep_dims:b=0 y0",
    "ArgMinWithValue": "aclnnSingleArgWithValue x0 dimension:i=0 keep_dims:b=0 =0 y0 y1",
    "AscendQuantV2": "aclnnAscendQuant x0 x1 x2? sqrt_mode:b=0 round_mode:s=round dst_type:i=2 y0",
    "Assign": "aclnnInplaceCopy y0 x1",
    "AttentionLnQKV": (
        "aclnnSingleAttentionLnQKV x0 x1 x2 x3 x4 x5 x6? x7? x8? epsilon:f=1e-7 y1:shape y0 y1 y2 y3 y4 y5 "
        "!trans_a=0 !trans_b=0"
    ),
    "AttentionQKVGradW": "aclnnSingleAttentionQKVGradW x0 x1 x2 x3 y0 y1 y2 y3 y4 y5 !trans_a=1 !trans_b=0",
    "AttentionQKVGradX": "aclnnSingleAttentionQKVGradX x0 x1 x2 x3 x4 x5 x6 y0 !trans_a=0 !trans_b=1",
    "AttentionScore": (
        "aclnnSingleAttentionScore x0 x1 x2 x3 x4 x5? keep_prob:f=1 query_transpose:b=0 key_transpose:b=0 "
        "bmm_score_transpose_a:b=0 bmm_score_transpose_b:b=0 y0 y1"
    ),
    "AttentionScoreGrad": (
        "aclnnSingleAttentionScoreGrad x0 x1 x2 x3 x4 x5 x6? keep_prob:f=1 y0 y1 y2 !query_transpose=0 "
        "!key_transpose=0 !value_transpose=0 !dx_transpose=0"
    ),
    "AxpyV2": "aclnnAdd x0 x1 x2:F y0",
    "AxpyWithSoftmaxAndDropOutDoMask": (
        "aclnnSingleAxpyWithSoftmaxAndDropOutDoMask x0 x1 x2 alpha:f=1 input_keep_prob:f=1 axis:I=-1 y0 y1"
    ),
    "BN3DTrainingReduce": "aclnnSingleBNTrainingReduce x0 y0 y1",
    "BN3DTrainingReduceGrad": "aclnnSingleBNTrainingReduceGrad x0 x1 x2 x3 x4 x5 x6 epsilon:f=1e-4 y0",
    "BN3DTrainingUpdate": "aclnnSingleBNTrainingUpdate x0 x1 x2 x3 x4 x5 x6 factor:f=0.1 epsilon:f=1e-4 y0 y1 y2 y3 y4",
    "BN3DTrainingUpdateGrad": "aclnnSingleBNTrainingUpdateGrad x0 x1 x2 x3 epsilon:f=1e-4 y0 y1",
    "BNInfer": "aclnnSingleBNInfer x0 x1 x2 x3 x4 epsilon:f=1e-4 y0",
    "BNInferGrad": "aclnnSingleBNInferGrad x0 x1 x2 epsilon:f=1e-4 y0",
    "BNTrainingReduce": "aclnnSingleBNTrainingReduce x0 y0 y1",
    "BNTrainingReduceGrad": "aclnnSingleBNTrainingReduceGrad x0 x1 x2 x3 x4 x5 x6 epsilon:f=1e-4 y0",
    "BNTrainingUpdate": "aclnnSingleBNTrainingUpdate x0 x1 x2 x3 x4 x5 x6 factor:f=0.1 epsilon:f=1e-4 y0 y1 y2 y3 y4",
    "BNTrainingUpdateGrad": "aclnnSingleBNTrainingUpdateGrad x0 x1 x2 x3 epsilon:f=1e-4 y0 y1",
    "BatchMultiClassNonMaxSuppression": (
        "aclnnSingleBatchMultiClassNonMaxSuppression x0 x1 score_threshold:f=0 iou_threshold:f=0 "
        "max_size_per_class:i=0 max_total_size:i=0 y0 y1 y2 y3 !change_coordinate_frame=0 !transpose_box=0 "
        "!x2 !x3"
    ),
    "BiasAddGrad": "aclnnSingleBiasAddGrad x0 data_format:s=NHWC y0",
    "BinaryCrossEntropy": "aclnnBinaryCrossEntropy x0 x1 x2? reduction:none|mean|sum=mean y0",
    "BinaryCrossEntropyGrad": "aclnnBinaryCrossEntropyBackward x2 x0 x1 x3? reduction:none|mean|sum=mean y0",
    "Bincount": "aclnnBincount x0 x2 x1:i y0",
    "BoundingBoxDecode": (
        "aclnnSingleBoundingBoxDecode x0 x1 means:L=0,0,0,0 stds:L=1,1,1,1 max_shape:I= wh_ratio_clip:f=0.016 y0"
    ),
    "BoundingBoxEncode": "aclnnSingleBoundingBoxEncode x0 x1 means:L=0,0,0,0 stds:L=1,1,1,1 y0",
    "CIoU": "aclnnSingleCIoU x0 x1 trans:b=0 mode:s=iou y0 y1 !is_cross=0",
    "CIoUGrad": "aclnnSingleCIoUGrad x0 x1 x2 x3 trans:b=0 y0 y1 !is_cross=0 !mode=iou",
    "CTCLossV2Grad": "aclnnSingleCTCLossV2Grad x0 x1 x2 x3 x4 x5 x6 blank:i=0 zero_infinity:b=0 y0",
    "Cast": "aclnnCast x0 y0:dtype y0",
    "Cdist": "aclnnSingleCdist x0 x1 p:f=2 y0",
    "CdistGrad": "aclnnSingleCdistGrad x0 x1 x2 x3 p:f=2 y0",
    "CeluV2": "aclnnCelu x0 alpha:F=1 y0",
    "ClipByValue": "aclnnClampTensor x0 x1 x2 y0",
    "ClipByValueV2": "aclnnClampTensor x0 x1 x2 y0",
    "ConcatD": "aclnnCat x* concat_dim:i=0 y0",
    "ConfusionTransposeD": "aclnnSingleConfusionTranspose x0 perm:I= shape:I= transpose_first:b=1 y0",
    "CropAndResizeV2": (
        "aclnnSingleCropAndResize x0:first x1 x2 x3:I extrapolation_value:f=0 method:bilinear|nearest=bilinear y0:first"
    ),
    "Cross": "aclnnLinalgCross x0 x1 dim:i=-65530 y0",
    "Cummax": "aclnnCummax x0 dim:i=0 y0 y1",
    "Cummin": "aclnnCummin x0 axis:i=0 y0 y1",
    "Cumprod": "aclnnCumprod x0 x1:F y0:dtype y0 !exclusive=0 !reverse=0",
    "Cumsum": "aclnnCumsum x0 x1:i y0:dtype y0",
    "DIoU": "aclnnSingleDIoU x0 x1 trans:b=0 mode:s=iou y0 !is_cross=0",
    "DIoUGrad": "aclnnSingleDIoUGrad x0 x1 x2 trans:b=0 y0 y1 !is_cross=0 !mode=iou",
    "DeepNorm": "aclnnDeepNorm x0 x1 x2 x3 alpha:f=0.3 epsilon:f=1e-6 y0 y1 y2",
    "DeepNormGrad": "aclnnDeepNormGrad x0 x1 x2 x3 x4 x5 alpha:f=0.3 y0 y1 y2 y3",
    "DeformableOffsets": (
        "aclnnSingleDeformableOffsets x0:nhwc x1:nhwc ksize:I= strides:M= pads:I= dilations:M=1,1 deformable_groups:i=1 "
        "y0:nhwc !data_format=NHWC !modulated=1"
    ),
    "DeformableOffsetsGrad": (
        "aclnnSingleDeformableOffsetsGrad x0:nhwc x1:nhwc x2:nhwc ksize:I= strides:M= pads:I= dilations:M=1,1 "
        "deformable_groups:i=1 y0:nhwc y1:nhwc !data_format=NHWC !modulated=1"
    ),
    "Diag": "aclnnDiag x0 diagonal:i=0 y0",
    "DiagPart": "aclnnDiag x0 diagonal:i=0 y0",
    "DropOutDoMask": "aclnnDropoutDoMask x0 x1 x2:dropped y0",
    "DropOutDoMaskV3": "aclnnSingleDropOutDoMaskV3 x0 x1 x2:dropped y0",
    "DropOutGenMaskV3": "aclnnSingleDropOutGenMaskV3 x0:I x1:dropped seed:i=0 seed2:i=0 y0:count y0",
    "DropoutWithMulsAndSoftmaxGrad": (
        "aclnnSingleDropoutWithMulsAndSoftmaxGrad x0 x1 x2 alpha:f=1 input_keep_prob:f=1 axes:I=-1 y0"
    ),
    "DynamicGRUV2": f"aclnnSingleDynamicGRUV2 x0 x1 x2 x3? x4? x6? gate_order:s=zrh y0 y1 y2 y3 y4 y5 {_GRU} !x5",
    "DynamicGRUV2Grad": (
        f"aclnnSingleDynamicGRUV2Grad x0 x1 x2 x4 x5 x6 x7 x8 x9 x10 x11 gate_order:s=zrh y0 y1 y2 y3 y4 y5 {_GRU}"
    ),
    "DynamicRNN": (
        "aclnnSingleDynamicRNN x0 x1 x2? x3? x4? x5? gate_order:s=ijfo forget_bias:f=0 "
        f"direction:s=UNIDIRECTIONAL y0 y1 y2 y3 y4 y5 y6 y7 {_LSTM} !x6 !x7 !x8"
    ),
    "DynamicRNNGrad": (
        "aclnnSingleDynamicRNNGrad x0 x1 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16? gate_order:s=ijfo "
        f"direction:s=UNIDIRECTIONAL y0 y1 y2 y3 y4 {_LSTM}"
    ),
    "DynamicRNNV2": (
        "aclnnSingleDynamicRNNV2 x0 x1 x2 x3? x4? x5? x6? gate_order:s=ijfo forget_bias:f=0 "
        f"direction:s=UNIDIRECTIONAL y0 y1 y2 y3 y4 y5 y6 y7 {_LSTM} !x7 !x8 !x9"
    ),
    "DynamicRNNV2Grad": (
        "aclnnSingleDynamicRNNV2Grad x0 x1 x2 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16? "
        f"gate_order:s=ijfo direction:s=UNIDIRECTIONAL y0 y1 y2 y3 y4 y5 {_LSTM}"
    ),
    "Elu": "aclnnElu x0 alpha:F=1 scale:F=1 input_scale:F=1 y0",
    "EluGradV2": "aclnnEluBackward x0 alpha:F=1 scale:F=1 input_scale:F=1 is_result:b=0 x1 y0",
    "EmbeddingBag": (
        "aclnnEmbeddingBag x0 x1 x2 scale_grad_by_freq:b=0 mode:sum|mean|max=mean sparse:b=0 x3? "
        "include_last_offset:b=0 padding_idx:i=-1 y0 y1 y2 y3"
    ),
    "EmbeddingDenseGrad": (
        "aclnnEmbeddingDenseBackward x0 x1 num_weights:i=0 padding_idx:i=-1 scale_grad_by_freq:b=0 y0"
    ),
    "Exp": "aclnnSingleExp x0 base:f=-1 scale:f=1 shift:f=0 y0",
    "Eye": "aclnnEye num_rows:i=1 num_columns:i=1 y0",
    "FillDiagonal": "aclnnSingleFillDiagonal x0 fill_value:f=0 wrap:b=0 y0",
    "GIoU": "aclnnSingleGIoU x0 x1 trans:b=0 mode:s=iou y0 !is_cross=0",
    "GIoUGrad": "aclnnSingleGIoUGrad x0 x1 x2 trans:b=0 y0 y1 !is_cross=0 !mode=iou",
    "GLU": "aclnnGlu x0 dim:i=-1 y0",
    "GLUGrad": "aclnnGluBackward x0 x1 dim:i=-1 y0",
    "Gather": "aclnnGatherV2 x0 =0 x1 y0",
    "GatherElements": "aclnnGather x0 dim:i=0 x1 y0",
    "GatherV2": "aclnnGatherV2 x0 x2:i x1 y0",
    "GatherV2D": "aclnnGatherV2 x0 axis:i=0 x1 y0",
    "GeluGrad": "aclnnGeluBackward x0 x1 y0",
    "GridAssignPositive": (
        "aclnnSingleGridAssignPositive x0 x1 x2 x3 x4 x5 x6 x7 pos_iou_thr:f=0 min_pos_iou:f=0 gt_max_assign_all:b=0 y0"
    ),
    "GridSampler2D": (
        "aclnnGridSampler2D x0 x1 interpolation_mode:bilinear|nearest|bicubic=bilinear "
        "padding_mode:zeros|border|reflection=zeros align_corners:b=0 y0"
    ),
    "GridSampler2DGrad": (
        "aclnnGridSampler2DBackward x0 x1 x2 interpolation_mode:bilinear|nearest|bicubic=bilinear "
        "padding_mode:zeros|border|reflection=zeros align_corners:b=0 =1,1 y0 y1"
    ),
    "GridSampler3D": (
        "aclnnGridSampler3D x0 x1 interpolation_mode:bilinear|nearest|bicubic=bilinear "
        "padding_mode:zeros|border|reflection=zeros align_corners:b=0 y0"
    ),
    "GridSampler3DGrad": (
        "aclnnGridSampler3DBackward x0 x1 x2 interpolation_mode:bilinear|nearest|bicubic=bilinear "
        "padding_mode:zeros|border|reflection=zeros align_corners:b=0 =1,1 y0 y1"
    ),
    "GroupNorm": "aclnnSingleGroupNorm x0 x1 x2 num_groups:i=1 eps:f=1e-4 y0 y1 y2",
    "GroupNormSwish": (
        "aclnnGroupNormSwish x0 x1 x2 num_groups:i=1 data_format:s=NCHW eps:f=1e-5 activate_swish:b=1 "
        "swish_scale:f=1 y0 y1 y2"
    ),
    "HardShrink": "aclnnHardshrink x0 lambd:F=0.5 y0",
    "HardShrinkGrad": "aclnnHardshrinkBackward x0 x1 lambd:F=0.5 y0",
    "HardtanhGrad": "aclnnHardtanhBackward x1 x0 min_val:F=-1 max_val:F=1 y0",
    "Histogram": "aclnnHistc x0 bins:i=100 min:F=0 max:F=0 y0",
    "Im2col": "aclnnSingleIm2col x0 ksizes:I= strides:I=1,1 dilations:I=1,1 pads:I=0,0,0,0 y0 !padding_mode=CALCULATED",
    "IndexFillD": "aclnnSingleIndexFillD x0 x1 x2 y0",
    "ImgToTensor": "aclnnSingleImgToTensor x0:first y0",
    "InplaceIndexAdd": "aclnnIndexAdd x0 axis:i=0 x1 x2 x3:F y0",
    "Iou": "aclnnIou x0 x1 mode:s=iou eps:f=1 aligned:b=0 y0",
    "IsClose": "aclnnIsClose x0 x1 rtol:f=1e-5 atol:f=1e-8 equal_nan:b=0 y0",
    "KLDiv": "aclnnKlDiv x0 x1 reduction:none|mean|sum|batchmean=mean log_target:b=0 y0",
    "KlDivLossGrad": "aclnnKlDivBackward x0 x1 x2 reduction:none|mean|sum|batchmean=mean log_target:b=0 y0",
    "L1LossGrad": "aclnnL1LossBackward x0 x1 x2 reduction:none|mean|sum=mean y0",
    "LayerNorm": "aclnnSingleLayerNorm x0 x1 x2 begin_norm_axis:i=0 epsilon:f=1e-7 y0 y1 y2",
    "LayerNormGrad": "aclnnSingleLayerNormGrad x0 x1 x2 x3 x4 y0 y1 y2",
    "LayerNormV3": "aclnnLayerNorm x0 x1:shape x1 x2 epsilon:f=1e-5 y0 y1 y2",
    "LeakyRelu": "aclnnLeakyRelu x0 negative_slope:F=0 y0",
    "LeakyReluGrad": "aclnnLeakyReluBackward x0 x1 negative_slope:F=0 =0 y0",
    "LinSpace": "aclnnLinspace x0:F x1:F x2:i y0",
    "Log": "aclnnSingleLog x0 base:f=-1 scale:f=1 shift:f=0 y0",
    "LogMatrixDeterminant": "aclnnSingleSlogdet x0 y0 y1",
    "LogSigmoidGrad": "aclnnLogSigmoidBackward x0 x1 x1 y0",
    "LogSoftmaxGrad": "aclnnLogSoftmaxBackward x0 x1 axis:1=-1 y0",
    "LogSoftmaxV2": "aclnnLogSoftmax x0 axes:1=-1 y0",
    "LogSpaceD": "aclnnLogSpace start:F=0 end:F=1 steps:i=100 base:f=10 y0",
    "LpLoss": "aclnnL1Loss x0 x1 reduction:none|mean|sum=mean y0",
    "LpNormReduceV2": "aclnnSingleLpNormReduce x0 p:f=2 axes:I= keepdim:b=0 y0",
    "LpNormUpdateV2": "aclnnSingleLpNormUpdate x0 p:f=2 y0",
    "MaskedFill": "aclnnSingleMaskedFill x0 x1 x2 y0",
    "MaskedFillRange": "aclnnSingleMaskedFillRange x0 x1 x2 x3 axis:i=-1 y0",
    "MaskedScatter": "aclnnSingleMaskedScatter x0 x1 x2 y0",
    "MaskedSelect": "aclnnMaskedSelect x0 x1 y0",
    "MatrixTriangularSolve": "aclnnSingleMatrixTriangularSolve x0 x1 lower:b=1 adjoint:b=0 y0",
    "MaxPool3D": (
        "aclnnSingleMaxPool3D x0 ksize:I= strides:I= pads:I= dilation:I=1,1,1 y0:shape y0 !padding=CALCULATED "
        "!data_format=NCDHW"
    ),
    "MaxPool3DGrad": (
        "aclnnSingleMaxPool3DGrad x0 x2 ksize:I= strides:I= pads:I= y0 !padding=CALCULATED !data_format=NCDHW"
    ),
    "MaxPoolGradWithArgmaxV1": (
        "aclnnSingleMaxPoolGradWithArgmaxV1 x0 x1 x2:raw ksize:M= strides:M= pads:M= dilations:M= y0"
    ),
    "MaxPoolWithArgmaxV1": (
        "aclnnSingleMaxPoolWithArgmaxV1 x0 ksize:M= strides:M= pads:M= dilation:M= y0:shape y1:words y0 y1:raw"
    ),
    "MirrorPad": "aclnnSingleMirrorPad x0 x1:I mode:s=REFLECT y0",
    "MlaProlog": (
        "aclnnMlaProlog x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12? x13? x14? x15? x16? x17? x18? "
        "rmsnorm_epsilon_cq:f=1e-5 rmsnorm_epsilon_ckv:f=1e-5 cache_mode:s=PA_BSND y0 y1"
    ),
    "MseLoss": "aclnnMseLoss x0 x1 reduction:none|mean|sum=mean y0",
    "MseLossGrad": "aclnnMseLossBackward x2 x0 x1 reduction:none|mean|sum=mean y0",
    "MultilabelMarginLoss": "aclnnMultilabelMarginLoss x0 x1 reduction:none|mean|sum=mean y0 y1",
    "MultinomialWithReplacement": "aclnnMultinomial x0 numsamples:i=1 replacement:b=0 x1:i x2:i y0",
    "NLLLoss": "aclnnNLLLoss x0 x1 x2 reduction:none|mean|sum=mean ignore_index:i=-100 y0 y1",
    "NLLLossGrad": "aclnnNLLLossBackward x1 x0 x2 x3 reduction:none|mean|sum=mean ignore_index:i=-100 x4 y0",
    "NMSWithMask": "aclnnSingleNMSWithMask x0 iou_threshold:f=0.5 y0 y1 y2",
    "NPUAllocFloatStatus": "aclnnInplaceZero y0",
    "NPUClearFloatStatus": "aclnnInplaceZero y0",
    "NPUGetFloatDebugStatus": "aclnnInplaceZero y0",
    "NPUGetFloatStatus": "aclnnInplaceZero y0",
    "NPUGetFloatStatusV2": "aclnnInplaceZero y0",
    "NanToNum": "aclnnNanToNum x0 nan:f=0 posinf:f=3.4028234663852886e38 neginf:f=-3.4028234663852886e38 y0",
    "NonMaxSuppressionV4": "aclnnSingleNonMaxSuppressionV4 x0 x1 x2 x3 x4 y0 y1",
    "NormalizeV2": "aclnnSingleNormalizeV2 x0:first x1 x2 y0:first",
    "NormalizeBatch": "aclnnSingleNormalizeBatch x0 x1 normalize_type:s=per_feature epsilon:f=1e-5 y0",
    "OneHot": "aclnnOneHot x0 x1:i x2 x3 axis:i=-1 y0",
    "OneHotD": "aclnnOneHot x0 depth:i=0 x1 x2 axis:i=-1 y0",
    "OnesLike": "aclnnInplaceOne y0",
    "Pack": "aclnnStack x* axis:i=0 y0",
    "PadV3": "aclnnSinglePadV3 x0 x1:I x2 mode:s=constant y0 !paddings_contiguous=1",
    "PadV3Grad": "aclnnSinglePadV3Grad x0 x1:I mode:s=reflect y0 !paddings_contiguous=1",
    "Pdist": "aclnnPdist x0 p:f=2 y0",
    "Qr": "aclnnSingleQr x0 full_matrices:b=0 y0 y1",
    "Quantize": "aclnnQuantize x0 x1 x2? y0:dtype axis:i=1 y0",
    "ROIAlign": (
        "aclnnSingleROIAlign x0 x1 spatial_scale:f=1 pooled_height:i=1 pooled_width:i=1 sample_num:i=2 "
        "roi_end_mode:i=1 y0 !x2"
    ),
    "ROIAlignGrad": (
        "aclnnROIAlignGrad x0 x1 x2? xdiff_shape:I= pooled_width:i=1 pooled_height:i=1 spatial_scale:f=1 "
        "sample_num:i=2 roi_end_mode:i=1 y0"
    ),
    "RandomChoiceWithMask": "aclnnSingleRandomChoiceWithMask x0 count:i=0 seed:i=0 seed2:i=0 y0 y1",
    "Range": "aclnnArange x0:F x1:F x2:F y0",
    "RangeD": "aclnnSingleRangeD x0 start:f=0 delta:f=1 y0",
    "ReduceAll": "aclnnAll x0 x1:I keep_dims:b=0 y0",
    "ReduceAny": "aclnnAny x0 x1:I keep_dims:b=0 y0",
    "ReduceLogSumExp": "aclnnLogSumExp x0 x1:I keep_dims:b=0 y0",
    "ReduceMax": "aclnnAmax x0 x1:I keep_dims:b=0 y0",
    "ReduceMean": "aclnnMean x0 x1:I keep_dims:b=0 y0:dtype y0",
    "ReduceMeanD": "aclnnMean x0 axes:I= keep_dims:b=0 y0:dtype y0",
    "ReduceMeanWithCount": "aclnnSingleReduceMeanWithCount x0 x1 x2 axes:I= keep_dims:b=0 y0",
    "ReduceMin": "aclnnAmin x0 x1:I keep_dims:b=0 y0",
    "ReduceProd": "aclnnSingleReduceProd x0 x1:I keep_dims:b=0 y0",
    "ReduceStdV2Update": (
        "aclnnSingleReduceStdV2Update x0 x1 dim:I= if_std:b=0 unbiased:b=1 keepdim:b=0 correction:i=1 y0"
    ),
    "ReduceStdWithMean": (
        "aclnnSingleReduceStdWithMean x0 x1 dim:I= unbiased:b=1 keepdim:b=0 invert:b=0 epsilon:f=1e-3 correction:i=1 y0"
    ),
    "ReduceSum": "aclnnReduceSum x0 x1:I keep_dims:b=0 y0:dtype y0",
    "ReluGrad": "aclnnThresholdBackward x0 x1 zero:F=0 y0",
    "Renorm": "aclnnSingleRenorm x0 p:f=2 dim:i=0 maxnorm:f=1 y0",
    "RepeatInterleave": "aclnnSingleRepeatInterleave x0 x1 axis:i=0 y0",
    "ResizeBilinearV2": "aclnnUpsampleBilinear2d x0 x1:I align_corners:b=0 =0 =0 y0",
    "ResizeBilinearV2Grad": "aclnnUpsampleBilinear2dBackward x0 x0:spatial x1:shape align_corners:b=0 =0 =0 y0",
    "ResizeNearestNeighborV2": "aclnnUpsampleNearest2d x0 x1:I y0 !align_corners=0 !half_pixel_centers=0",
    "ResizeNearestNeighborV2Grad": (
        "aclnnUpsampleNearest2dBackward x0 x0:spatial y0:shape =0 =0 y0 !align_corners=0 !half_pixel_centers=0"
    ),
    "ReverseV2": "aclnnFlip x0 x1:I y0",
    "RmsNorm": "aclnnRmsNorm x0 x1 epsilon:f=1e-6 y0 y1",
    "Roll": "aclnnRoll x0 shifts:I= dims:I= y0",
    "RotaryMul": "aclnnRotaryPositionEmbedding x0 x1 x2 =0 y0",
    "RotaryMulGrad": "aclnnRotaryPositionEmbeddingGrad x3 x1 x2 x0 =0 y0 y1 y2",
    "RotatedBoxDecode": "aclnnSingleRotatedBoxDecode x0 x1 weight:L=1,1,1,1,1 y0",
    "RotatedBoxEncode": "aclnnSingleRotatedBoxEncode x0 x1 weight:L=1,1,1,1,1 y0",
    "RotatedIou": "aclnnSingleRotatedIou x0 x1 trans:b=0 mode:s=iou y0 !is_cross=1",
    "RotatedOverlaps": "aclnnSingleRotatedOverlaps x0 x1 trans:b=0 y0",
    "Round": "aclnnRoundDecimals x0 decimals:i=0 y0",
    "ScaledMaskedSoftmax": "aclnnScaledMaskedSoftmax x0 x1 scale:f=1 fixed_triu_mask:b=0 y0",
    "ScaledMaskedSoftmaxGrad": "aclnnScaledMaskedSoftmaxBackward x0 x1 x2 scale:f=1 fixed_triu_mask:b=0 y0",
    "Scatter": "aclnnInplaceScatterUpdate y0 x1 x2 axis:i=0 !reduce=update",
    "ScatterElements": "aclnnScatter x0 axis:i=0 x1 x2 reduction:none|add|mul=none y0",
    "ScatterNdAdd": "aclnnSingleScatterNdAdd x0 x1 x2 y0",
    "ScatterNdUpdate": "aclnnScatterNdUpdate y0 x1 x2",
    "ScatterUpdate": "aclnnSingleScatterUpdate x0 x1 x2 y0",
    "SearchSorted": "aclnnSingleSearchSorted x0 x1 right:b=0 y0",
    "ShuffleChannel": "aclnnChannelShuffle x0 group:i=1 y0",
    "SigmoidCrossEntropyWithLogitsGradV2": (
        "aclnnBinaryCrossEntropyWithLogitsBackward x2 x0 x1 x3? x4? reduction:none|mean|sum=mean y0"
    ),
    "SigmoidCrossEntropyWithLogitsV2": (
        "aclnnBinaryCrossEntropyWithLogits x0 x1 x2? x3? reduction:none|mean|sum=mean y0"
    ),
    "SigmoidGrad": "aclnnSigmoidBackward x1 x0 y0",
    "SignBitsPack": "aclnnSignBitsPack x0 size:i=1 y0",
    "SignBitsUnpack": "aclnnSignBitsUnpack x0 size:i=1 y0:dtype y0",
    "SmoothL1LossGradV2": "aclnnSmoothL1LossBackward x2 x0 x1 reduction:none|mean|sum=mean sigma:f=1 y0",
    "SmoothL1LossV2": "aclnnSmoothL1Loss x0 x1 reduction:none|mean|sum=mean sigma:f=1 y0",
    "SoftMarginLoss": "aclnnSoftMarginLoss x0 x1 reduction:none|mean|sum=mean y0:number",
    "SoftMarginLossGrad": "aclnnSoftMarginLossBackward x2 x0 x1 reduction:none|mean|sum=mean y0",
    "SoftShrink": "aclnnSoftshrink x0 lambd:F=0.5 y0",
    "SoftShrinkGrad": "aclnnSoftshrinkBackward x0 x1 lambd:F=0.5 y0",
    "SoftmaxGrad": "aclnnSoftmaxBackward x1 x0 axes:1=-1 y0",
    "SoftmaxV2": "aclnnSoftmax x0 axes:1=-1 y0",
    "SoftplusV2": "aclnnSoftplus x0 beta:F=1 threshold:F=20 y0",
    "SoftplusV2Grad": "aclnnSoftplusBackward x0 x1 beta:F=1 threshold:F=20 y0",
    "Sort": "aclnnSingleSortWithIndices x0 axis:i=-1 descending:b=0 y0 y1",
    "SortV2": "aclnnSingleSort x0 axis:i=-1 descending:b=0 y0",
    "Square": "aclnnMul x0 x0 y0",
    "StatelessBernoulli": "aclnnInplaceBernoulliTensor y0 x1 x2:i x3:i",
    "StatelessDropOutGenMask": "aclnnDropoutGenMask x0:I x1:dropped x2:i x4:last y0",
    "StatelessRandomNormalV2": "aclnnInplaceNormal y0 =0 =1 x1:i x2:last",
    "StatelessRandomUniformV2": "aclnnInplaceUniform y0 =0 =1 x1:i x2:last",
    "StatelessRandperm": "aclnnRandperm x0:i x1:i x2:i y0",
    "StrideAdd": "aclnnSingleStrideAdd x0 x1 x1_c1_offset:i=0 x2_c1_offset:i=0 c1_len:i=0 y0",
    "Sub": "aclnnSub x0 x1 one:N=1 y0",
    "SubSample": "aclnnSingleSubSample x0 batch_size_per_images:i=0 positive_fraction:f=0 y0",
    "Svd": "aclnnSvd x0 full_matrices:b=0 compute_uv:b=1 y0 y1 y2",
    "Swish": "aclnnSwish x0 scale:F=1 y0",
    "SwishGrad": "aclnnSwishBackward x0 x1 scale:F=1 y0",
    "SyncBNTrainingUpdate": "aclnnSingleSyncBNTrainingUpdate x0 x1 momentum:f=0.1 y0",
    "SyncBatchNormBackwardElemt": "aclnnSingleSyncBatchNormBackwardElemt x0 x1 x2 x3 x4 x5 x6 y0",
    "SyncBatchNormBackwardReduce": "aclnnSingleSyncBatchNormBackwardReduce x0 x1 x2 x3 y0 y1",
    "SyncBatchNormGatherStats": (
        "aclnnSingleSyncBatchNormGatherStats x0 x1 x2 x3 x4 momentum:f=0.1 eps:f=1e-5 y0 y1 y2 y3"
    ),
    "SyncBatchNormGatherStatsWithCounts": (
        "aclnnSingleSyncBatchNormGatherStatsWithCounts x0 x1 x2 x3 x4 x5 momentum:f=0.1 epsilon:f=1e-3 y0 y1"
    ),
    "TanhGrad": "aclnnTanhBackward x1 x0 y0",
    "TensorEqual": "aclnnEqual x0 x1 y0",
    "ThresholdGradV2D": "aclnnThresholdBackward x0 x1 threshold:F=0 y0",
    "ThresholdV2D": "aclnnThreshold x0 threshold:F=0 value:F=0 y0",
    "Tile": "aclnnRepeat x0 x1:I y0",
    "TopKV2": "aclnnSingleTopK x0 x1:i dim:i=-1 largest:b=1 y0 y1",
    "Tril": "aclnnTril x0 diagonal:i=0 y0",
    "Triu": "aclnnTriu x0 diagonal:i=0 y0",
    "UniqueConsecutive": "aclnnUniqueConsecutive x0 return_idx:b=0 return_counts:b=0 axis:i=1000 y0 y1 y2",
    "UniqueWithCountsAndSorting": "aclnnUnique2 x0 sorted:b=1 return_inverse:b=0 return_counts:b=0 y0 y1 y2",
    "UniqueWithCountsExt2": "aclnnSingleUniqueWithCounts x0 x1:i y0 y1 y2 y3",
    "UpsampleNearest3d": "aclnnUpsampleNearest3d x0 output_size:I= =0 =0 =0 y0",
    "UpsampleNearest3dGrad": "aclnnUpsampleNearest3dBackward x0 output_size:I= input_size:I= =0 =0 =0 y0",
    "UpsampleTrilinear3d": "aclnnUpsampleTrilinear3d x0 output_size:I= align_corners:b=0 =0 =0 =0 y0",
    "UpsampleTrilinear3dGrad": (
        "aclnnUpsampleTrilinear3dBackward x0 output_size:I= input_size:I= align_corners:b=0 =0 =0 =0 y0"
    ),
    "YoloBoxesEncode": "aclnnSingleYoloBoxesEncode x0 x1 x2 y0",
    "ZerosLike": "aclnnInplaceZero y0",
}

# Forms of inputs and outputs that are images.
IMAGES = ("first", "nhwc")

_NOT_DEFINED = "its kernel is not public, and the definition in CANN's headers does not say "
_ATTENTION = "its definition is marked as experimental, and does not say in which layout the weights lie or how the mask is drawn"
_POOLING = _NOT_DEFINED + "in which order the channels of the groups lie or how the bounds of bins are rounded"
_RESIZE = (
    "op-plugin gives it sizes as scales, too, where the definition allows one of both, and asks for places (half pixels, "
    "rounded down) that are not those of torch's nearest neighbours; its kernel is not public"
)

# Types that op-plugin names and that are refused, and why.
REFUSED = {
    "DecodeJpeg": "it decodes JPEG files, for which neither NumPy nor this package has a decoder",
    "IFMR": _NOT_DEFINED + "how the candidates of the search are made and judged",
    "MultiHeadAttention": _ATTENTION,
    "MultiHeadAttentionGrad": _ATTENTION,
    "PSROIPoolingGradV2D": _POOLING,
    "PSROIPoolingV2": _POOLING,
    "QuantConv2D": "in which order scale and bias act is not settled: its document and its prototype differ",
    "Resize": _RESIZE,
    "ResizeGrad": _RESIZE,
    "RotatedNMS": "no public header or source defines it",
    "SilentCheck": _NOT_DEFINED + "what the result holds or how the statistics are updated",
}
