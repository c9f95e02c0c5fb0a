"""Which aclnn operator stands for a single operator's type, as data: "operator argument argument ...", in C order.

    x0          an input; x3? one that may be absent; x* all inputs, as a list
    y0          an output
    x1:i x1:I   the values of an input that is known at the call: a number, numbers; x1:F an aclScalar of its data type
    scale:f=1   an attribute and what it is where it is not given: f a number, i an integer, b a truth value, s a text,
                I integers, L numbers, 1 the only one of several integers, F an aclScalar of FLOAT, r the text of a reduction
                as its number
    y0:dtype    the data type of an output, x1:shape the shape of an input
    =1          a number
    !name=value, !x7   no argument: refused where the attribute is given and is not this (1 for true), or where the input is given

The order of inputs, outputs and attributes is that of the types' definitions, as op-plugin and torch_npu use them.
"""

from __future__ import annotations

# Types that are called like the operator and have its arguments, inputs before outputs.
SAME_NAMES = (
    "Abs Acos Acosh Asin Asinh Atan Atan2 Atanh Ceil Cos Cosh Dot Erf Erfc Erfinv Exp Expm1 FastGelu Floor Gelu IsFinite Lerp "
    "Log Log1p LogAddExp LogSigmoid LogicalAnd LogicalNot LogicalOr Maximum Minimum Mish Mul Neg Reciprocal Relu RmsNormGrad "
    "Rsqrt Selu Sigmoid Sign Sin Sinh SoftmaxCrossEntropyWithLogits Sqrt Square Tan Tanh Trace Trunc"
)

# The same under another name.
SAME_ARGUMENTS = {
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
    "Add": "aclnnAdd x0 x1 one:F=1 y0",
    "AddRmsNorm": "aclnnAddRmsNorm x0 x1 x2 epsilon:f=1e-6 y0 y1 y2",
    "Addcdiv": "aclnnAddcdiv x0 x1 x2 x3:F y0",
    "Addcmul": "aclnnAddcmul x0 x1 x2 x3:F y0",
    "AnchorResponseFlags": "aclnnSingleAnchorResponseFlags x0 featmap_size:I= strides:I= num_base_anchors:i=1 y0",
    "ApplyAdam": "aclnnApplyAdam x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 use_locking:b=0 use_nesterov:b=0",
    "ApplyAdamD": "aclnnApplyAdamD x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 use_locking:b=0 use_nesterov:b=0 y0 y1 y2",
    "ApplyAdamW": "aclnnApplyAdamW x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11? amsgrad:b=0 maximize:b=0",
    "ArgMaxWithValue": "aclnnSingleArgWithValue x0 dimension:i=0 keep_dims:b=0 =1 y0 y1",
    "ArgMinWithValue": "aclnnSingleArgWithValue x0 dimension:i=0 keep_dims:b=0 =0 y0 y1",
    "AxpyV2": "aclnnAdd x0 x1 x2:F y0",
    "BatchMultiClassNonMaxSuppression": (
        "aclnnSingleBatchMultiClassNonMaxSuppression x0 x1 score_threshold:f=0 iou_threshold:f=0 "
        "max_size_per_class:i=0 max_total_size:i=0 y0 y1 y2 y3 !change_coordinate_frame=0 !transpose_box=0 "
        "!x2 !x3"
    ),
    "BinaryCrossEntropy": "aclnnBinaryCrossEntropy x0 x1 x2? reduction:r=mean y0",
    "BoundingBoxDecode": (
        "aclnnSingleBoundingBoxDecode x0 x1 means:L=0,0,0,0 stds:L=1,1,1,1 max_shape:I= wh_ratio_clip:f=0.016 y0"
    ),
    "BoundingBoxEncode": "aclnnSingleBoundingBoxEncode x0 x1 means:L=0,0,0,0 stds:L=1,1,1,1 y0",
    "CIoU": "aclnnSingleCIoU x0 x1 trans:b=0 mode:s=iou y0 y1 !is_cross=0",
    "CIoUGrad": "aclnnSingleCIoUGrad x0 x1 x2 x3 trans:b=0 y0 y1 !is_cross=0 !mode=iou",
    "Cast": "aclnnCast x0 y0:dtype y0",
    "Cdist": "aclnnSingleCdist x0 x1 p:f=2 y0",
    "CdistGrad": "aclnnSingleCdistGrad x0 x1 x2 x3 p:f=2 y0",
    "CeluV2": "aclnnCelu x0 alpha:F=1 y0",
    "ClipByValue": "aclnnClamp x0 x1:F x2:F y0",
    "ClipByValueV2": "aclnnClamp x0 x1:F x2:F y0",
    "ConcatD": "aclnnCat x* concat_dim:i=0 y0",
    "ConfusionTransposeD": "aclnnConfusionTranspose x0 perm:I= shape:I= transpose_first:b=1 y0",
    "Cross": "aclnnLinalgCross x0 x1 dim:i=-65530 y0",
    "Cumsum": "aclnnCumsum x0 x1:i y0:dtype y0",
    "DIoU": "aclnnSingleDIoU x0 x1 trans:b=0 mode:s=iou y0 !is_cross=0",
    "DIoUGrad": "aclnnSingleDIoUGrad x0 x1 x2 trans:b=0 y0 y1 !is_cross=0 !mode=iou",
    "DropOutDoMask": "aclnnDropoutDoMask x0 x1 x2:dropped y0",
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
    "GIoU": "aclnnSingleGIoU x0 x1 trans:b=0 mode:s=iou y0 !is_cross=0",
    "GIoUGrad": "aclnnSingleGIoUGrad x0 x1 x2 trans:b=0 y0 y1 !is_cross=0 !mode=iou",
    "GatherElements": "aclnnGather x0 dim:i=0 x1 y0",
    "GatherV2": "aclnnGatherV2 x0 x2:i x1 y0",
    "GridAssignPositive": (
        "aclnnSingleGridAssignPositive x0 x1 x2 x3 x4 x5 x6 x7 pos_iou_thr:f=0 min_pos_iou:f=0 gt_max_assign_all:b=0 y0"
    ),
    "HardShrink": "aclnnHardshrink x0 lambd:F=0.5 y0",
    "HardShrinkGrad": "aclnnHardshrinkBackward x0 x1 lambd:F=0.5 y0",
    "HardtanhGrad": "aclnnHardtanhBackward x1 x0 min_val:F=-1 max_val:F=1 y0",
    "Iou": "aclnnIou x0 x1 mode:s=iou eps:f=1 aligned:b=0 y0",
    "IsClose": "aclnnIsClose x0 x1 rtol:f=1e-5 atol:f=1e-8 equal_nan:b=0 y0",
    "KLDiv": "aclnnKlDiv x0 x1 reduction:r=mean log_target:b=0 y0",
    "LayerNormV3": "aclnnLayerNorm x0 x1:shape x1 x2 epsilon:f=1e-5 y0 y1 y2",
    "LeakyRelu": "aclnnLeakyRelu x0 negative_slope:F=0 y0",
    "LeakyReluGrad": "aclnnLeakyReluBackward x0 x1 negative_slope:F=0 =0 y0",
    "LogSoftmaxGrad": "aclnnLogSoftmaxBackward x0 x1 axis:1=-1 y0",
    "LogSoftmaxV2": "aclnnLogSoftmax x0 axes:1=-1 y0",
    "LpLoss": "aclnnL1Loss x0 x1 reduction:r=mean y0",
    "LpNormReduceV2": "aclnnSingleLpNormReduce x0 p:f=2 axes:I= keepdim:b=0 y0",
    "LpNormUpdateV2": "aclnnSingleLpNormUpdate x0 p:f=2 y0",
    "MseLoss": "aclnnMseLoss x0 x1 reduction:r=mean y0",
    "MseLossGrad": "aclnnMseLossBackward x2 x0 x1 reduction:r=mean y0",
    "NMSWithMask": "aclnnSingleNMSWithMask x0 iou_threshold:f=0.5 y0 y1 y2",
    "NonMaxSuppressionV4": "aclnnSingleNonMaxSuppressionV4 x0 x1 x2 x3 x4 y0 y1",
    "OnesLike": "aclnnInplaceOne y0",
    "Pack": "aclnnStack x* axis:i=0 y0",
    "ReduceAll": "aclnnAll x0 x1:I keep_dims:b=0 y0",
    "ReduceAny": "aclnnAny x0 x1:I keep_dims:b=0 y0",
    "ReduceMax": "aclnnAmax x0 x1:I keep_dims:b=0 y0",
    "ReduceMean": "aclnnMean x0 x1:I keep_dims:b=0 y0:dtype y0",
    "ReduceMin": "aclnnAmin x0 x1:I keep_dims:b=0 y0",
    "ReduceSum": "aclnnReduceSum x0 x1:I keep_dims:b=0 y0:dtype y0",
    "ReluGrad": "aclnnThresholdBackward x0 x1 zero:F=0 y0",
    "ReverseV2": "aclnnFlip x0 x1:I y0",
    "RmsNorm": "aclnnRmsNorm x0 x1 epsilon:f=1e-6 y0 y1",
    "Roll": "aclnnRoll x0 shifts:I= dims:I= y0",
    "RotatedBoxDecode": "aclnnSingleRotatedBoxDecode x0 x1 weight:L=1,1,1,1,1 y0",
    "RotatedBoxEncode": "aclnnSingleRotatedBoxEncode x0 x1 weight:L=1,1,1,1,1 y0",
    "RotatedIou": "aclnnSingleRotatedIou x0 x1 trans:b=0 mode:s=iou y0 !is_cross=1",
    "RotatedOverlaps": "aclnnSingleRotatedOverlaps x0 x1 trans:b=0 y0",
    "Round": "aclnnRoundDecimals x0 decimals:i=0 y0",
    "SigmoidGrad": "aclnnSigmoidBackward x1 x0 y0",
    "SignBitsPack": "aclnnSignBitsPack x0 size:i=1 y0",
    "SignBitsUnpack": "aclnnSignBitsUnpack x0 size:i=1 y0:dtype y0",
    "SmoothL1LossGradV2": "aclnnSmoothL1LossBackward x2 x0 x1 reduction:r=mean sigma:f=1 y0",
    "SmoothL1LossV2": "aclnnSmoothL1Loss x0 x1 reduction:r=mean sigma:f=1 y0",
    "SoftMarginLoss": "aclnnSoftMarginLoss x0 x1 reduction:r=mean y0",
    "SoftShrink": "aclnnSoftshrink x0 lambd:F=0.5 y0",
    "SoftShrinkGrad": "aclnnSoftshrinkBackward x0 x1 lambd:F=0.5 y0",
    "SoftmaxGrad": "aclnnSoftmaxBackward x1 x0 axes:1=-1 y0",
    "SoftmaxV2": "aclnnSoftmax x0 axes:1=-1 y0",
    "SoftplusV2": "aclnnSoftplus x0 beta:F=1 threshold:F=20 y0",
    "SoftplusV2Grad": "aclnnSoftplusBackward x0 x1 beta:F=1 threshold:F=20 y0",
    "SortV2": "aclnnSingleSort x0 axis:i=-1 descending:b=0 y0",
    "Sub": "aclnnSub x0 x1 one:F=1 y0",
    "Swish": "aclnnSwish x0 scale:F=1 y0",
    "SwishGrad": "aclnnSwishBackward x0 x1 scale:F=1 y0",
    "TanhGrad": "aclnnTanhBackward x1 x0 y0",
    "ThresholdGradV2D": "aclnnThresholdBackward x0 x1 threshold:F=0 y0",
    "ThresholdV2D": "aclnnThreshold x0 threshold:F=0 value:F=0 y0",
    "Tile": "aclnnRepeat x0 x1:I y0",
    "Tril": "aclnnTril x0 diagonal:i=0 y0",
    "Triu": "aclnnTriu x0 diagonal:i=0 y0",
    "YoloBoxesEncode": "aclnnSingleYoloBoxesEncode x0 x1 x2 y0",
    "ZerosLike": "aclnnInplaceZero y0",
}
