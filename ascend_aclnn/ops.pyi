# Made by scripts/generate.py from the catalog; do not edit.

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, SupportsFloat, SupportsIndex, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DTypeLike
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

_Tensor = Union[Tensor, npt.NDArray[Any], Sequence[Any]]
_Scalar = Union[Scalar, builtins.complex, np.number[Any], np.bool_]
_Ints = Union[SupportsIndex, Sequence[SupportsIndex], npt.NDArray[Any]]
_Floats = Union[SupportsFloat, Sequence[SupportsFloat], npt.NDArray[Any]]
_Bools = Union[bool, Sequence[bool], npt.NDArray[Any]]
_Bool = Union[bool, np.bool_]
_One = Union[Tensor, npt.NDArray[Any], Sequence[Union[Tensor, npt.NDArray[Any]]]]
_Out = Optional[Union[_One, tuple[Optional[_One], ...]]]

# Results are ndarrays when only ndarrays came in, else Tensors: Any here.

def abs(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def acos(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def acos_grad(y_grad: _Tensor, x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def acos_grad_v2(y: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def acos_v2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def acosh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def acosh_grad(y: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def ada_layer_norm(
    x: _Tensor,
    scale: _Tensor,
    shift: _Tensor,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-05,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class AdaLayerNormBackwardResult(NamedTuple):
    grad_input: Any
    grad_scale: Any
    grad_shift: Any
    grad_weight: Any
    grad_bias: Any

def ada_layer_norm_backward(
    grad_out: _Tensor,
    input: _Tensor,
    normalized_shape: _Ints,
    rstd: _Tensor,
    mean: _Tensor,
    scale: _Tensor,
    shift: _Tensor,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AdaLayerNormBackwardResult: ...

class AdaLayerNormQuantResult(NamedTuple):
    out: Any
    quant_scale: Any
    quant_offset: Any

def ada_layer_norm_quant(
    x: _Tensor,
    scale: _Tensor,
    shift: _Tensor,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    smooth_scales: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-05,
    quant_mode: str = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AdaLayerNormQuantResult: ...

class AdaLayerNormV2Result(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def ada_layer_norm_v2(
    x: _Tensor,
    scale: _Tensor,
    shift: _Tensor,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-05,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AdaLayerNormV2Result: ...
def adaptive_avg_pool2d(
    self: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def adaptive_avg_pool2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def adaptive_avg_pool3d(
    self: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def adaptive_avg_pool3d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class AdaptiveMaxPool2dResult(NamedTuple):
    output: Any
    indices: Any

def adaptive_max_pool2d(
    self: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AdaptiveMaxPool2dResult: ...
def adaptive_max_pool2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    indices: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class AdaptiveMaxPool3dResult(NamedTuple):
    output: Any
    indices: Any

def adaptive_max_pool3d(
    self: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AdaptiveMaxPool3dResult: ...
def adaptive_max_pool3d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    indices: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def add(self: _Tensor, other: _Tensor, alpha: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class AddLayerNormResult(NamedTuple):
    y: Any
    mean: Any
    rstd: Any
    x: Any

def add_layer_norm(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    bias: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-05,
    additional_output: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddLayerNormResult: ...

class AddLayerNormGradResult(NamedTuple):
    dx: Any
    dgamma: Any
    dbeta: Any

def add_layer_norm_grad(
    dy: _Tensor,
    x1: _Tensor,
    x2: _Tensor,
    rstd: _Tensor,
    mean: _Tensor,
    gamma: _Tensor,
    dsum: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddLayerNormGradResult: ...

class AddLayerNormQuantResult(NamedTuple):
    y1: Any
    y2: Any
    x: Any
    out_scales1: Any
    out_scales2: Any

def add_layer_norm_quant(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    bias: Optional[_Tensor] = None,
    scales1: Optional[_Tensor] = None,
    scales2: Optional[_Tensor] = None,
    zero_points1: Optional[_Tensor] = None,
    zero_points2: Optional[_Tensor] = None,
    quant_mode: str = "dynamic",
    epsilon: SupportsFloat = 1e-05,
    additional_output: _Bool = False,
    div_mode: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddLayerNormQuantResult: ...

class AddLayerNormQuantV2Result(NamedTuple):
    y1: Any
    y2: Any
    x: Any
    layernorm_res: Any
    out_scales1: Any
    out_scales2: Any

def add_layer_norm_quant_v2(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    bias: Optional[_Tensor] = None,
    scales1: Optional[_Tensor] = None,
    scales2: Optional[_Tensor] = None,
    zero_points1: Optional[_Tensor] = None,
    zero_points2: Optional[_Tensor] = None,
    quant_mode: str = "dynamic",
    epsilon: SupportsFloat = 1e-05,
    additional_output: _Bool = False,
    div_mode: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddLayerNormQuantV2Result: ...
def add_lora(
    y: _Tensor,
    x: _Tensor,
    weight_b: _Tensor,
    indices: _Tensor,
    weight_a: Optional[_Tensor] = None,
    layer_idx: SupportsIndex = 0,
    scale: SupportsFloat = 0.001,
    y_offset: SupportsIndex = 0,
    y_slice_size: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def add_mat_mat_elements(
    a: _Tensor,
    b: _Tensor,
    c: _Tensor,
    alpha: _Scalar,
    beta: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def add_mat_mat_elements_plus(
    c: _Tensor,
    a: _Tensor,
    b: _Tensor,
    beta: _Tensor,
    alpha: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def add_n(tensors: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def add_relu(
    self: _Tensor,
    other: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class AddRmsNormResult(NamedTuple):
    y: Any
    rstd: Any
    x: Any

def add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    epsilon: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddRmsNormResult: ...

class AddRmsNormCastResult(NamedTuple):
    y1: Any
    y2: Any
    rstd: Any
    x: Any

def add_rms_norm_cast(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    epsilon: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddRmsNormCastResult: ...

class AddRmsNormDynamicMxQuantResult(NamedTuple):
    y: Any
    x: Any
    mxscale: Any
    rstd: Any

def add_rms_norm_dynamic_mx_quant(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    beta: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-06,
    scale_alg: SupportsIndex = 0,
    round_mode: Optional[str] = "rint",
    dst_type: SupportsIndex = 40,
    output_rstd: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddRmsNormDynamicMxQuantResult: ...

class AddRmsNormDynamicQuantResult(NamedTuple):
    y1: Any
    y2: Any
    x: Any
    scale1: Any
    scale2: Any

def add_rms_norm_dynamic_quant(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    smooth_scale1: Optional[_Tensor] = None,
    smooth_scale2: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddRmsNormDynamicQuantResult: ...

class AddRmsNormDynamicQuantV2Result(NamedTuple):
    y1: Any
    y2: Any
    x: Any
    scale1: Any
    scale2: Any

def add_rms_norm_dynamic_quant_v2(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    smooth_scale1: Optional[_Tensor] = None,
    smooth_scale2: Optional[_Tensor] = None,
    beta: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-06,
    output_mask: Optional[_Bools] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddRmsNormDynamicQuantV2Result: ...

class AddRmsNormQuantResult(NamedTuple):
    y1: Any
    y2: Any
    x: Any

def add_rms_norm_quant(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    scales1: _Tensor,
    scales2: Optional[_Tensor] = None,
    zero_points1: Optional[_Tensor] = None,
    zero_points2: Optional[_Tensor] = None,
    axis: SupportsIndex = -1,
    epsilon: SupportsFloat = 1e-06,
    div_mode: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddRmsNormQuantResult: ...

class AddRmsNormQuantV2Result(NamedTuple):
    y1: Any
    y2: Any
    x: Any
    rms_norm: Any

def add_rms_norm_quant_v2(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    scales1: _Tensor,
    scales2: Optional[_Tensor] = None,
    zero_points1: Optional[_Tensor] = None,
    zero_points2: Optional[_Tensor] = None,
    beta: Optional[_Tensor] = None,
    axis: SupportsIndex = -1,
    epsilon: SupportsFloat = 1e-06,
    div_mode: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AddRmsNormQuantV2Result: ...
def add_v3(
    self: _Scalar,
    other: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addbmm(
    self: _Tensor,
    batch1: _Tensor,
    batch2: _Tensor,
    beta: _Scalar,
    alpha: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addcdiv(
    self: _Tensor,
    tensor1: _Tensor,
    tensor2: _Tensor,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addcmul(
    self: _Tensor,
    tensor1: _Tensor,
    tensor2: _Tensor,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addmm(
    self: _Tensor,
    mat1: _Tensor,
    mat2: _Tensor,
    beta: _Scalar,
    alpha: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addmm_weight_nz(
    self: _Tensor,
    mat1: _Tensor,
    mat2: _Tensor,
    beta: _Scalar,
    alpha: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addmv(
    self: _Tensor,
    mat: _Tensor,
    vec: _Tensor,
    alpha: _Scalar,
    beta: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addr(
    self: _Tensor,
    vec1: _Tensor,
    vec2: _Tensor,
    beta: Optional[_Scalar] = None,
    alpha: Optional[_Scalar] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def addr_v2(
    self: _Tensor,
    vec1: _Tensor,
    vec2: _Tensor,
    beta: Optional[_Scalar] = None,
    alpha: Optional[_Scalar] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def adds(
    self: _Tensor,
    other: _Scalar,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class AdvanceStepResult(NamedTuple):
    input_tokens: Any
    input_positions: Any
    seq_lens: Any
    slot_mapping: Any

def advance_step(
    input_tokens: _Tensor,
    sampled_token_ids: _Tensor,
    input_positions: _Tensor,
    seq_lens: _Tensor,
    slot_mapping: _Tensor,
    block_tables: _Tensor,
    num_seqs: SupportsIndex,
    num_queries: SupportsIndex,
    block_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AdvanceStepResult: ...

class AdvanceStepV2Result(NamedTuple):
    input_tokens: Any
    input_positions: Any
    seq_lens: Any
    slot_mapping: Any

def advance_step_v2(
    input_tokens: _Tensor,
    sampled_token_ids: _Tensor,
    input_positions: _Tensor,
    seq_lens: _Tensor,
    slot_mapping: _Tensor,
    block_tables: _Tensor,
    spec_token: Optional[_Tensor] = None,
    accepted_num: Optional[_Tensor] = None,
    num_seqs: SupportsIndex = ...,
    num_queries: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AdvanceStepV2Result: ...
def affine_grid(
    theta: _Tensor,
    size: _Ints,
    align_corners: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def all(self: _Tensor, dim: _Ints, keepdim: _Bool, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class AllGatherMatmulResult(NamedTuple):
    output: Any
    gather: Any

def all_gather_matmul(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    group: str = ...,
    gather_index: SupportsIndex = 0,
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AllGatherMatmulResult: ...

class AllGatherMatmulV2Result(NamedTuple):
    output: Any
    gather: Any
    amax: Any

def all_gather_matmul_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    block_size: SupportsIndex = 0,
    group: str = ...,
    gather_index: SupportsIndex = 0,
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    group_size: SupportsIndex = 0,
    comm_mode: str = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AllGatherMatmulV2Result: ...

class AlltoAllAllGatherBatchMatMulResult(NamedTuple):
    y1: Any
    y2: Any
    y3: Any

def allto_all_all_gather_batch_mat_mul(
    x: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    group_ep: str = ...,
    group_tp: str = ...,
    ep_world_size: SupportsIndex = ...,
    tp_world_size: SupportsIndex = ...,
    x_shard_type: SupportsIndex = 0,
    act_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllAllGatherBatchMatMulResult: ...

class AlltoAllMatmulResult(NamedTuple):
    output: Any
    allto_all: Any

def allto_all_matmul(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    allto_all_axes: Optional[_Ints] = None,
    group: str = ...,
    transpose_x1: _Bool = False,
    transpose_x2: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllMatmulResult: ...

class AlltoAllMatmulV2Result(NamedTuple):
    output: Any
    allto_all: Any

def allto_all_matmul_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    allto_all_axes: Optional[_Ints] = None,
    group: str = ...,
    comm_mode: str = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllMatmulV2Result: ...

class AlltoAllQuantMatmulResult(NamedTuple):
    output: Any
    allto_all: Any

def allto_all_quant_matmul(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    comm_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    group: str = ...,
    allto_all_axes: Optional[_Ints] = None,
    x1_quant_mode: SupportsIndex = ...,
    x2_quant_mode: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    comm_quant_dtype: SupportsIndex = ...,
    x1_quant_dtype: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllQuantMatmulResult: ...

class AlltoAllQuantMatmulV2Result(NamedTuple):
    output: Any
    allto_all: Any

def allto_all_quant_matmul_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    comm_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    group: str = ...,
    comm_mode: str = ...,
    allto_all_axes: Optional[_Ints] = None,
    x1_quant_mode: SupportsIndex = ...,
    x2_quant_mode: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    comm_quant_dtype: SupportsIndex = ...,
    x1_quant_dtype: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllQuantMatmulV2Result: ...

class AlltoAllvGroupedMatMulResult(NamedTuple):
    gmm_y: Any
    mm_y: Any
    permute: Any

def allto_allv_grouped_mat_mul(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    group: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = False,
    trans_mm_weight: _Bool = False,
    permute_out_flag: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllvGroupedMatMulResult: ...

class AlltoAllvGroupedMatMulV2Result(NamedTuple):
    gmm_y: Any
    mm_y: Any
    permute: Any

def allto_allv_grouped_mat_mul_v2(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    group: str = ...,
    comm_mode: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = ...,
    trans_mm_weight: _Bool = ...,
    permute_out_flag: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllvGroupedMatMulV2Result: ...

class AlltoAllvQuantGroupedMatMulResult(NamedTuple):
    gmm_y: Any
    mm_y: Any
    permute: Any

def allto_allv_quant_grouped_mat_mul(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    gmm_x_scale: _Tensor,
    gmm_weight_scale: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    mm_x_scale: Optional[_Tensor] = None,
    mm_weight_scale: Optional[_Tensor] = None,
    gmm_x_quant_mode: SupportsIndex = ...,
    gmm_weight_quant_mode: SupportsIndex = ...,
    mm_x_quant_mode: SupportsIndex = 0,
    mm_weight_quant_mode: SupportsIndex = 0,
    group: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = False,
    trans_mm_weight: _Bool = False,
    group_size: SupportsIndex = 0,
    permute_out_flag: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllvQuantGroupedMatMulResult: ...

class AlltoAllvQuantGroupedMatMulV2Result(NamedTuple):
    gmm_y: Any
    mm_y: Any
    permute: Any

def allto_allv_quant_grouped_mat_mul_v2(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    gmm_x_scale: _Tensor,
    gmm_weight_scale: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    mm_x_scale: Optional[_Tensor] = None,
    mm_weight_scale: Optional[_Tensor] = None,
    gmm_x_quant_mode: SupportsIndex = ...,
    gmm_weight_quant_mode: SupportsIndex = ...,
    mm_x_quant_mode: SupportsIndex = ...,
    mm_weight_quant_mode: SupportsIndex = ...,
    group: str = ...,
    comm_mode: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = ...,
    trans_mm_weight: _Bool = ...,
    group_size: SupportsIndex = ...,
    permute_out_flag: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AlltoAllvQuantGroupedMatMulV2Result: ...
def amax(self: _Tensor, dim: _Ints, keep_dim: _Bool, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def amin(self: _Tensor, dim: _Ints, keep_dim: _Bool, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class AminmaxResult(NamedTuple):
    min: Any
    max: Any

def aminmax(
    self: _Tensor,
    dim: _Ints,
    keep_dim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AminmaxResult: ...

class AminmaxAllResult(NamedTuple):
    min: Any
    max: Any

def aminmax_all(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> AminmaxAllResult: ...

class AminmaxDimResult(NamedTuple):
    min: Any
    max: Any

def aminmax_dim(
    self: _Tensor,
    dim: SupportsIndex,
    keep_dim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AminmaxDimResult: ...

class AmpUpdateScaleResult(NamedTuple):
    updated_scale: Any
    updated_growth_tracker: Any

def amp_update_scale(
    current_scale: _Tensor,
    growth_tracker: _Tensor,
    found_inf: _Tensor,
    growth_factor: SupportsFloat,
    backoff_factor: SupportsFloat,
    growth_interval: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AmpUpdateScaleResult: ...
def angle_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def anti_mx_quant(
    x: _Tensor,
    mxscale: _Tensor,
    axis: SupportsIndex = -1,
    dst_type: SupportsIndex = 27,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def any(self: _Tensor, dim: _Ints, keepdim: _Bool, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class ApplyAdadeltaResult(NamedTuple):
    var: Any
    accum: Any
    accum_update: Any

def apply_adadelta(
    var: _Tensor,
    accum: _Tensor,
    accum_update: _Tensor,
    lr: _Scalar,
    rho: _Scalar,
    epsilon: _Scalar,
    grad: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyAdadeltaResult: ...
def apply_adam(
    var: _Tensor,
    m: _Tensor,
    v: _Tensor,
    beta1_power: _Tensor,
    beta2_power: _Tensor,
    lr: _Tensor,
    beta1: _Tensor,
    beta2: _Tensor,
    epsilon: _Tensor,
    grad: _Tensor,
    use_locking: _Bool = False,
    use_nesterov: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ApplyAdamDResult(NamedTuple):
    var: Any
    m: Any
    v: Any

def apply_adam_d(
    var: _Tensor,
    m: _Tensor,
    v: _Tensor,
    beta1_power: _Tensor,
    beta2_power: _Tensor,
    lr: _Tensor,
    beta1: _Tensor,
    beta2: _Tensor,
    epsilon: _Tensor,
    grad: _Tensor,
    use_locking: _Bool = False,
    use_nesterov: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyAdamDResult: ...

class ApplyAdamWResult(NamedTuple):
    var: Any
    m: Any
    v: Any

def apply_adam_w(
    var: _Tensor,
    m: _Tensor,
    v: _Tensor,
    beta1_power: _Tensor,
    beta2_power: _Tensor,
    lr: _Tensor,
    weight_decay: _Tensor,
    beta1: _Tensor,
    beta2: _Tensor,
    eps: _Tensor,
    grad: _Tensor,
    max_grad_norm: Optional[_Tensor] = None,
    amsgrad: _Bool = False,
    maximize: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyAdamWResult: ...

class ApplyAdamWQuantResult(NamedTuple):
    var: Any
    m: Any
    v: Any
    absmax_m: Any
    absmax_v: Any

def apply_adam_w_quant(
    var: _Tensor,
    grad: _Tensor,
    m: _Tensor,
    v: _Tensor,
    qmap_m: _Tensor,
    qmap_v: _Tensor,
    absmax_m: _Tensor,
    absmax_v: _Tensor,
    step: _Tensor,
    lr: SupportsFloat = 0.001,
    beta1: SupportsFloat = 0.9,
    beta2: SupportsFloat = 0.999,
    weight_decay: SupportsFloat = 1.0,
    eps: SupportsFloat = 1e-08,
    gnorm_scale: SupportsFloat = 1.0,
    quant_mode: Optional[str] = "BLOCKWISE",
    block_size: SupportsIndex = 256,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyAdamWQuantResult: ...

class ApplyAdamWV2Result(NamedTuple):
    var: Any
    m: Any
    v: Any
    max_grad_norm: Any

def apply_adam_wv2(
    var: _Tensor,
    m: _Tensor,
    v: _Tensor,
    max_grad_norm: Optional[_Tensor] = None,
    grad: _Tensor = ...,
    step: _Tensor = ...,
    lr: SupportsFloat = ...,
    beta1: SupportsFloat = ...,
    beta2: SupportsFloat = ...,
    weight_decay: SupportsFloat = ...,
    eps: SupportsFloat = 1e-08,
    amsgrad: _Bool = False,
    maximize: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyAdamWV2Result: ...

class ApplyAdamaxResult(NamedTuple):
    var: Any
    m: Any
    v: Any

def apply_adamax(
    var: _Tensor,
    m: _Tensor,
    v: _Tensor,
    beta1_power: _Scalar,
    lr: _Scalar,
    beta1: _Scalar,
    beta2: _Scalar,
    epsilon: _Scalar,
    grad: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyAdamaxResult: ...

class ApplyFtrlResult(NamedTuple):
    var: Any
    accum: Any
    linear: Any

def apply_ftrl(
    var: _Tensor,
    accum: _Tensor,
    linear: _Tensor,
    grad: _Tensor,
    lr: _Tensor,
    l1: _Tensor,
    l2: _Tensor,
    lr_power: _Tensor,
    use_locking: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyFtrlResult: ...

class ApplyFusedEmaAdamResult(NamedTuple):
    var: Any
    m: Any
    v: Any
    s: Any

def apply_fused_ema_adam(
    grad: _Tensor,
    var: _Tensor,
    m: _Tensor,
    v: _Tensor,
    s: _Tensor,
    step: _Tensor,
    lr: SupportsFloat = 0.001,
    ema_decay: SupportsFloat = 0.9999,
    beta1: SupportsFloat = 0.9,
    beta2: SupportsFloat = 0.999,
    eps: SupportsFloat = 1e-08,
    mode: SupportsIndex = 1,
    bias_correction: _Bool = True,
    weight_decay: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyFusedEmaAdamResult: ...
def apply_gradient_descent(
    var: _Tensor,
    alpha: _Tensor,
    delta: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def apply_keras_momentum(
    var: _Tensor,
    accum: _Tensor,
    lr: _Tensor,
    grad: _Tensor,
    momentum: _Tensor,
    use_locking: _Bool = False,
    use_nesterov: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ApplyRmsPropResult(NamedTuple):
    var_out: Any
    ms_out: Any
    mom_out: Any

def apply_rms_prop(
    var: _Tensor,
    ms: _Tensor,
    mom: _Tensor,
    grad: _Tensor,
    lr: SupportsFloat,
    rho: SupportsFloat,
    momentum: SupportsFloat,
    epsilon: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyRmsPropResult: ...

class ApplyRotaryPosEmbResult(NamedTuple):
    query: Any
    key: Any

def apply_rotary_pos_emb(
    query: _Tensor,
    key: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    layout: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyRotaryPosEmbResult: ...

class ApplyRotaryPosEmbV2Result(NamedTuple):
    query: Any
    key: Any

def apply_rotary_pos_emb_v2(
    query: _Tensor,
    key: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    layout: SupportsIndex,
    rotary_mode: str,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ApplyRotaryPosEmbV2Result: ...
def apply_top_k_top_p(
    logits: _Tensor,
    p: Optional[_Tensor] = None,
    k: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def approximate_equal(
    x1: _Tensor,
    x2: _Tensor,
    tolerance: SupportsFloat = 1e-05,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def arange(
    start: _Scalar,
    end: _Scalar,
    step: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def arg_max(
    self: _Tensor,
    dim: SupportsIndex,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def arg_min(
    self: _Tensor,
    dim: SupportsIndex,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def argsort(
    self: _Tensor,
    dim: SupportsIndex,
    descending: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def as_strided(
    x: _Tensor,
    size: _Ints,
    stride: _Ints,
    storage_offset: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ascend_anti_quant(
    x: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    dst_type: SupportsIndex = ...,
    sqrt_mode: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ascend_quant(
    x: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    sqrt_mode: _Bool = False,
    round_mode: str = "Round",
    dst_type: SupportsIndex = 2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ascend_quant_v3(
    x: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    sqrt_mode: _Bool = ...,
    round_mode: str = ...,
    dst_type: SupportsIndex = ...,
    axis: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def asin(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def asin_grad(y: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def asin_with_agent(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def asinh(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def asinh_grad(y: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def asinh_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def asinh_with_agent(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def assign_sub(var: _Tensor, value: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def atan(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def atan2(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def atan_grad(x: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def atanh(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def attention_to_ffn(
    x: _Tensor,
    session_id: _Tensor,
    micro_batch_id: _Tensor,
    layer_id: _Tensor,
    expert_ids: _Tensor,
    expert_rank_table: _Tensor,
    scales: Optional[_Tensor] = None,
    active_mask: Optional[_Tensor] = None,
    group: str = ...,
    world_size: SupportsIndex = ...,
    ffn_token_info_table_shape: _Ints = ...,
    ffn_token_data_shape: _Ints = ...,
    attn_token_info_table_shape: _Ints = ...,
    moe_expert_num: SupportsIndex = ...,
    quant_mode: SupportsIndex = 0,
    sync_flag: SupportsIndex = 0,
    ffn_start_rank_id: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> None: ...

class AttentionUpdateResult(NamedTuple):
    out: Any
    lse: Any

def attention_update(
    lse: Sequence[_Tensor],
    local_out: Sequence[_Tensor],
    update_type: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AttentionUpdateResult: ...

class AttentionWorkerCombineResult(NamedTuple):
    y: Any
    next_layer_id: Any

def attention_worker_combine(
    schedule_context: _Tensor,
    expert_scales: _Tensor,
    layer_id: _Tensor,
    hidden_size: SupportsIndex,
    token_dtype: SupportsIndex = 0,
    need_schedule: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> AttentionWorkerCombineResult: ...
def average_pooling_grad(
    orig_input_shape: _Ints,
    grad_output: _Tensor,
    kernel_h: SupportsIndex = 2,
    kernel_w: SupportsIndex = 2,
    stride_h: SupportsIndex = 1,
    stride_w: SupportsIndex = 1,
    pad_top: SupportsIndex = 0,
    pad_bottom: SupportsIndex = 0,
    pad_left: SupportsIndex = 0,
    pad_right: SupportsIndex = 0,
    ceil_mode: _Bool = False,
    count_include_pad: _Bool = True,
    divisor_override: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def avg_pool2d(
    self: _Tensor,
    kernel_size: _Ints,
    strides: _Ints,
    paddings: _Ints,
    ceil_mode: _Bool,
    count_include_pad: _Bool,
    divisor_override: SupportsIndex,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def avg_pool2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    kernel_size: _Ints,
    stride: Optional[_Ints] = None,
    padding: _Ints = ...,
    ceil_mode: _Bool = ...,
    count_include_pad: _Bool = ...,
    divisor_override: SupportsIndex = ...,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def avg_pool3d(
    self: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    ceil_mode: _Bool,
    count_include_pad: _Bool,
    divisor_override: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def avg_pool3d_backward(
    grad_ouput: _Tensor,
    self: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    ceil_mode: _Bool,
    count_include_pad: _Bool,
    divisor_override: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def axpy_v2(
    self: _Tensor,
    other: _Tensor,
    alpha: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def axpy_v3(
    x: _Tensor,
    y: _Tensor,
    a: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def background_replace(
    bkg: _Tensor,
    src: _Tensor,
    mask: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def baddbmm(
    self: _Tensor,
    batch1: _Tensor,
    batch2: _Tensor,
    beta: _Scalar,
    alpha: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class BandwidthTestResult(NamedTuple):
    y: Any
    receive_cnt: Any

def bandwidth_test(
    x: _Tensor,
    dst_rank_id: _Tensor,
    group: str,
    world_size: SupportsIndex,
    max_bs: SupportsIndex,
    mode: SupportsIndex,
    comm_alg: str = "",
    aiv_num: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BandwidthTestResult: ...
def batch_mat_mul(
    self: _Tensor,
    mat2: _Tensor,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def batch_mat_mul_reduce_scatter_allto_all(
    x: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    group_ep: str = ...,
    group_tp: str = ...,
    ep_world_size: SupportsIndex = ...,
    tp_world_size: SupportsIndex = ...,
    y_shard_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def batch_mat_mul_weight_nz(
    self: _Tensor,
    mat2: _Tensor,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def batch_matmul_quant(
    x1: _Tensor,
    x2: _Tensor,
    quant_param: _Tensor,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class BatchNormResult(NamedTuple):
    running_mean: Any
    running_var: Any
    output: Any
    save_mean: Any
    save_invstd: Any

def batch_norm(
    input: _Tensor,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    running_mean: Optional[_Tensor] = None,
    running_var: Optional[_Tensor] = None,
    training: _Bool = ...,
    momentum: SupportsFloat = ...,
    eps: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BatchNormResult: ...

class BatchNormBackwardResult(NamedTuple):
    grad_input: Any
    grad_weight: Any
    grad_bias: Any

def batch_norm_backward(
    grad_out: _Tensor,
    input: _Tensor,
    weight: Optional[_Tensor] = None,
    running_mean: Optional[_Tensor] = None,
    running_var: Optional[_Tensor] = None,
    save_mean: Optional[_Tensor] = None,
    save_invstd: Optional[_Tensor] = None,
    training: _Bool = ...,
    eps: SupportsFloat = ...,
    output_mask: _Bools = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BatchNormBackwardResult: ...
def batch_norm_elemt(
    input: _Tensor,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    mean: _Tensor = ...,
    invstd: _Tensor = ...,
    eps: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def batch_norm_elemt_backward(
    grad_out: _Tensor,
    input: _Tensor,
    mean: _Tensor,
    invstd: _Tensor,
    weight: Optional[_Tensor] = None,
    sum_dy: _Tensor = ...,
    sum_dy_xmu: _Tensor = ...,
    counter: _Tensor = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class BatchNormGatherStatsWithCountsResult(NamedTuple):
    running_mean: Any
    running_var: Any
    mean_all: Any
    invstd_all: Any

def batch_norm_gather_stats_with_counts(
    input: _Tensor,
    mean: _Tensor,
    invstd: _Tensor,
    running_mean: Optional[_Tensor] = None,
    running_var: Optional[_Tensor] = None,
    momentum: SupportsFloat = ...,
    eps: SupportsFloat = ...,
    counts: _Tensor = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BatchNormGatherStatsWithCountsResult: ...

class BatchNormReduceResult(NamedTuple):
    sum: Any
    square_sum: Any

def batch_norm_reduce(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> BatchNormReduceResult: ...

class BatchNormReduceBackwardResult(NamedTuple):
    sum_dy: Any
    sum_dy_xmu: Any
    grad_weight: Any
    grad_bias: Any

def batch_norm_reduce_backward(
    grad_out: _Tensor,
    input: _Tensor,
    mean: _Tensor,
    invstd: _Tensor,
    weight: _Tensor,
    input_g: _Bool,
    weight_g: _Bool,
    bias_g: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BatchNormReduceBackwardResult: ...

class BatchNormStatsResult(NamedTuple):
    mean: Any
    invstd: Any

def batch_norm_stats(
    input: _Tensor,
    eps: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BatchNormStatsResult: ...

class BatchNormalizationGradResult(NamedTuple):
    grad_input: Any
    grad_weight: Any
    grad_bias: Any

def batch_normalization_grad(
    grad_output: _Tensor,
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor,
    save_mean: _Tensor,
    save_invstd: _Tensor,
    epsilon: SupportsFloat = 1e-05,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BatchNormalizationGradResult: ...
def bernoulli(
    self: _Tensor,
    prob: _Scalar,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def bernoulli_tensor(
    self: _Tensor,
    prob: _Tensor,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def bias_add(
    x: _Tensor,
    bias: _Tensor,
    data_format: Optional[str] = "NHWC",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class BidirectionLSTMResult(NamedTuple):
    y: Any
    output_h: Any
    output_c: Any

def bidirection_lstm(
    x: _Tensor,
    init_h: _Tensor,
    init_c: _Tensor,
    w_ih: _Tensor,
    w_hh: _Tensor,
    b_ih: Optional[_Tensor] = None,
    b_hh: Optional[_Tensor] = None,
    w_ih_reverse: Optional[_Tensor] = None,
    w_hh_reverse: Optional[_Tensor] = None,
    b_ih_reverse: Optional[_Tensor] = None,
    b_hh_reverse: Optional[_Tensor] = None,
    num_layers: SupportsIndex = 1,
    isbias: _Bool = False,
    batch_first: _Bool = False,
    bidirection: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BidirectionLSTMResult: ...

class BidirectionLSTMV2Result(NamedTuple):
    y: Any
    output_h: Any
    output_c: Any

def bidirection_lstmv2(
    x: _Tensor,
    init_h: _Tensor,
    init_c: _Tensor,
    w_ih: _Tensor,
    w_hh: _Tensor,
    b_ih: Optional[_Tensor] = None,
    b_hh: Optional[_Tensor] = None,
    w_ih_reverse: Optional[_Tensor] = None,
    w_hh_reverse: Optional[_Tensor] = None,
    b_ih_reverse: Optional[_Tensor] = None,
    b_hh_reverse: Optional[_Tensor] = None,
    batch_size: Optional[_Tensor] = None,
    num_layers: SupportsIndex = 1,
    isbias: _Bool = False,
    batch_first: _Bool = False,
    bidirection: _Bool = False,
    packed: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BidirectionLSTMV2Result: ...
def binary_cross_entropy(
    self: _Tensor,
    target: _Tensor,
    weight: Optional[_Tensor] = None,
    reduction: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def binary_cross_entropy_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    weight: Optional[_Tensor] = None,
    reduction: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def binary_cross_entropy_grad_v2(
    grad: _Tensor,
    logits: _Tensor,
    labels: _Tensor,
    weight: _Tensor,
    reduction: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def binary_cross_entropy_v2(x: _Tensor, y: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def binary_cross_entropy_with_logits(
    self: _Tensor,
    target: _Tensor,
    weight: Optional[_Tensor] = None,
    pos_weight: Optional[_Tensor] = None,
    reduction: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def binary_cross_entropy_with_logits_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    weight: Optional[_Tensor] = None,
    pos_weight: Optional[_Tensor] = None,
    reduction: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def binary_cross_entropy_with_logits_target_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    weight: Optional[_Tensor] = None,
    pos_weight: Optional[_Tensor] = None,
    reduction: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def bincount(
    self: _Tensor,
    weights: Optional[_Tensor] = None,
    minlength: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def bitwise_and_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def bitwise_and_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def bitwise_and_tensor_out(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def bitwise_not(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def bitwise_or_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def bitwise_or_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def bitwise_xor_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def bitwise_xor_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def blend_images_custom(
    rgb: _Tensor,
    alpha: _Tensor,
    frame: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class BlitzSparseAttentionResult(NamedTuple):
    attention: Any
    softmax_lse: Any

def blitz_sparse_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    sabi: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = 1.0,
    pre_tokens: SupportsIndex = 214748647,
    next_tokens: SupportsIndex = 0,
    input_layout: str = "BSH",
    num_key_value_heads: SupportsIndex = 0,
    sparse_mode: SupportsIndex = 0,
    inner_precise: SupportsIndex = 1,
    softmax_lse_flag: _Bool = False,
    block_shape: _Ints = (128, 128),
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BlitzSparseAttentionResult: ...

class BlockSparseAttentionResult(NamedTuple):
    attention: Any
    softmax_lse: Any

def block_sparse_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    block_sparse_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    block_shape: Optional[_Ints] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    block_table: Optional[_Tensor] = None,
    q_input_layout: str = "TND",
    kv_input_layout: str = "TND",
    num_key_value_heads: SupportsIndex = 1,
    mask_type: SupportsIndex = 0,
    scale_value: SupportsFloat = ...,
    inner_precise: SupportsIndex = 0,
    block_size: SupportsIndex = 0,
    pre_tokens: SupportsIndex = 2147483647,
    next_tokens: SupportsIndex = 2147483647,
    softmax_lse_flag: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BlockSparseAttentionResult: ...

class BlockSparseAttentionGradResult(NamedTuple):
    dq: Any
    dk: Any
    dv: Any

def block_sparse_attention_grad(
    dout: _Tensor,
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    attention_out: _Tensor,
    softmax_lse: _Tensor,
    block_sparse_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    block_shape: Optional[_Ints] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    q_input_layout: str = ...,
    kv_input_layout: str = ...,
    num_key_value_heads: SupportsIndex = 1,
    mask_type: SupportsIndex = 0,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = 2147483647,
    next_tokens: SupportsIndex = 2147483647,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BlockSparseAttentionGradResult: ...

class BlockSparseAttentionV2Result(NamedTuple):
    attention: Any
    softmax_lse: Any

def block_sparse_attention_v2(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    block_sparse_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    block_shape: Optional[_Ints] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    block_table: Optional[_Tensor] = None,
    q_dequant_scale: Optional[_Tensor] = None,
    k_dequant_scale: Optional[_Tensor] = None,
    v_dequant_scale: Optional[_Tensor] = None,
    q_input_layout: str = ...,
    kv_input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    mask_type: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    inner_precise: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    softmax_lse_flag: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BlockSparseAttentionV2Result: ...

class BlockSparseAttentionV3Result(NamedTuple):
    attention: Any
    softmax_lse: Any

def block_sparse_attention_v3(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    block_sparse_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    block_shape: Optional[_Ints] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    block_table: Optional[_Tensor] = None,
    q_dequant_scale: Optional[_Tensor] = None,
    k_dequant_scale: Optional[_Tensor] = None,
    v_dequant_scale: Optional[_Tensor] = None,
    p_quant_scale: Optional[_Tensor] = None,
    q_input_layout: str = ...,
    kv_input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    mask_type: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    inner_precise: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    softmax_lse_flag: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> BlockSparseAttentionV3Result: ...
def bn_infer_grad(
    grads: _Tensor,
    scale: _Tensor,
    batch_variance: _Tensor,
    epsilon: SupportsFloat = 0.0001,
    format_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def broadcast_v2(
    x: _Tensor,
    buffer_mode: SupportsIndex,
    dim: SupportsIndex,
    is_reuse_source: SupportsIndex,
    axis: SupportsIndex,
    num: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def bsa_select_block_mask(
    query: _Tensor,
    key: _Tensor,
    block_shape: Optional[_Ints] = None,
    post_block_shape: Optional[_Ints] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    actual_block_len_query: Optional[_Ints] = None,
    actual_block_len_key: Optional[_Ints] = None,
    q_input_layout: Optional[str] = "BNSD",
    kv_input_layout: Optional[str] = "BNSD",
    num_key_value_heads: SupportsIndex = 1,
    scale_value: SupportsFloat = 0.08838834764831845,
    sparsity: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def bucketize(
    self: _Tensor,
    boundaries: _Tensor,
    out_int32: _Bool,
    right: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class CIoUResult(NamedTuple):
    overlap: Any
    atan_sub: Any

def c_io_u(
    b_boxes: _Tensor,
    gt_boxes: _Tensor,
    trans: _Bool = False,
    is_cross: _Bool = False,
    mode: str = "iou",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CIoUResult: ...
def cast(self: _Tensor, dtype: DTypeLike, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def cast_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def cast_v3(x: _Tensor, dst_type: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def cat(
    tensors: Sequence[_Tensor],
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class CausalConv1dFnResult(NamedTuple):
    conv_states: Any
    y: Any

def causal_conv1d_fn(
    x: _Tensor,
    weight: _Tensor,
    conv_states: _Tensor,
    bias: Optional[_Tensor] = None,
    query_start_loc: Optional[_Tensor] = None,
    cache_indices: Optional[_Tensor] = None,
    initial_state_mode: Optional[_Tensor] = None,
    block_idx_first_scheduled_token: Optional[_Tensor] = None,
    block_idx_last_scheduled_token: Optional[_Tensor] = None,
    initial_state_idx: Optional[_Tensor] = None,
    num_computed_tokens: Optional[_Tensor] = None,
    activation: str = ...,
    null_block_id: SupportsIndex = ...,
    block_size_to_align: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CausalConv1dFnResult: ...

class CausalConv1dUpdateResult(NamedTuple):
    conv_states: Any
    y: Any

def causal_conv1d_update(
    x: _Tensor,
    weight: _Tensor,
    conv_states: _Tensor,
    bias: Optional[_Tensor] = None,
    query_start_loc: Optional[_Tensor] = None,
    cache_indices: Optional[_Tensor] = None,
    num_accepted_tokens: Optional[_Tensor] = None,
    block_idx_last_scheduled_token: Optional[_Tensor] = None,
    initial_state_idx: Optional[_Tensor] = None,
    activation: str = ...,
    null_block_id: SupportsIndex = ...,
    max_query_len: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CausalConv1dUpdateResult: ...
def cdist(
    x1: _Tensor,
    x2: _Tensor,
    p: SupportsFloat = 2.0,
    compute_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def cdist_backward(
    grad: _Tensor,
    x1: _Tensor,
    x2: _Tensor,
    cdist: _Tensor,
    p: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ceil(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def ceil_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def celu(self: _Tensor, alpha: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def celu_v3(self: _Tensor, alpha: SupportsFloat, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class ChamferDistanceBackwardResult(NamedTuple):
    grad_xyz1: Any
    grad_xyz2: Any

def chamfer_distance_backward(
    xyz1: _Tensor,
    xyz2: _Tensor,
    idx1: _Tensor,
    idx2: _Tensor,
    grad_dist1: _Tensor,
    grad_dist2: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ChamferDistanceBackwardResult: ...
def channel_shuffle(
    self: _Tensor,
    groups: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def chunk_cat(
    tensors: Sequence[_Tensor],
    dim: SupportsIndex,
    num_chunks: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ChunkGatedDeltaRuleResult(NamedTuple):
    out: Any
    final_state: Any

def chunk_gated_delta_rule(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    beta: _Tensor,
    initial_state: _Tensor,
    actual_seq_lengths: _Tensor,
    g: Optional[_Tensor] = None,
    scale_value: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ChunkGatedDeltaRuleResult: ...

class ChunkKdaFwdResult(NamedTuple):
    attn: Any
    final_state: Any
    gk: Any
    aqk: Any
    akk: Any
    w: Any
    u: Any
    qg: Any
    kg: Any
    v_new: Any
    h: Any

def chunk_kda_fwd(
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    g: _Tensor,
    beta: _Tensor,
    a_log: Optional[_Tensor] = None,
    dt_bias: Optional[_Tensor] = None,
    initial_state: Optional[_Tensor] = None,
    cu_seqlens: Optional[_Ints] = None,
    chunk_indices: Optional[_Ints] = None,
    layout: str = "BSND",
    scale: SupportsFloat = ...,
    chunk_size: SupportsIndex = ...,
    safe_gate: _Bool = ...,
    lower_bound: SupportsFloat = -5.0,
    use_gate_in_kernel: _Bool = ...,
    state_v_first: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ChunkKdaFwdResult: ...
def circular_pad2d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def circular_pad2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def circular_pad3d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def circular_pad3d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def clamp(
    self: _Tensor,
    clip_value_min: _Scalar,
    clip_value_max: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def clamp_max(self: _Tensor, clip_value_max: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def clamp_max_tensor(self: _Tensor, max: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def clamp_min(self: _Tensor, clip_value_min: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def clamp_min_tensor(
    self: _Tensor,
    clip_value_min: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def clamp_tensor(
    self: _Tensor,
    clip_value_min: _Tensor,
    clip_value_max: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def clipped_swiglu(
    x: _Tensor,
    group_index: Optional[_Tensor] = None,
    dim: SupportsIndex = -1,
    alpha: SupportsFloat = 1.702,
    limit: SupportsFloat = 7.0,
    bias: SupportsFloat = 1.0,
    interleaved: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def clipped_swiglu_grad(
    grad_y: _Tensor,
    x: _Tensor,
    group_index: Optional[_Tensor] = None,
    dim: SupportsIndex = -1,
    alpha: SupportsFloat = 1.702,
    limit: SupportsFloat = 7.0,
    bias: SupportsFloat = 1.0,
    interleaved: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def clipped_swiglu_v2(
    x: _Tensor,
    group_index: Optional[_Tensor] = None,
    dim: SupportsIndex = ...,
    alpha: SupportsFloat = ...,
    limit: SupportsFloat = ...,
    bias: SupportsFloat = ...,
    interleaved: _Bool = ...,
    clamp_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class CoalesceSparseResult(NamedTuple):
    new_indices: Any
    new_values: Any

def coalesce_sparse(
    unique_len: _Tensor,
    unique_indices: _Tensor,
    indices: _Tensor,
    values: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CoalesceSparseResult: ...
def col2_im(
    col: _Tensor,
    output_h: SupportsIndex = 4,
    output_w: SupportsIndex = 4,
    kernel_h: SupportsIndex = 2,
    kernel_w: SupportsIndex = 2,
    stride_val: SupportsIndex = 1,
    padding_val: SupportsIndex = 0,
    dilation_val: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def complex(real: _Tensor, imag: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def complex_v2(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def complex_v3(real: _Tensor, imag: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class CompressorResult(NamedTuple):
    state_cache: Any
    cmp_kv: Any
    softmax_score: Any
    kv: Any

def compressor(
    x: _Tensor,
    wkv: _Tensor,
    wgate: _Tensor,
    state_cache: _Tensor,
    ape: _Tensor,
    state_block_table: Optional[_Tensor] = None,
    cu_seqlens: Optional[_Tensor] = None,
    seqused: Optional[_Tensor] = None,
    start_pos: Optional[_Tensor] = None,
    cmp_ratio: SupportsIndex = ...,
    coff: SupportsIndex = 1,
    cache_mode: SupportsIndex = 1,
    state_cache_stride_dim0: SupportsIndex = 0,
    grad_enabled: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CompressorResult: ...

class CompressorGradResult(NamedTuple):
    d_x: Any
    d_wkv: Any
    d_wgate: Any
    d_ape: Any

def compressor_grad(
    x: _Tensor,
    wkv: _Tensor,
    wgate: _Tensor,
    d_cmp_kv: _Tensor,
    softmax_score: _Tensor,
    kv: _Tensor,
    cu_seqlens: Optional[_Tensor] = None,
    seqused: Optional[_Tensor] = None,
    start_pos: Optional[_Tensor] = None,
    cmp_ratio: SupportsIndex = ...,
    coff: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CompressorGradResult: ...
def confusion_transpose(
    x: _Tensor,
    perm: _Ints,
    shape: _Ints,
    transpose_first: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def constant_pad_nd(
    self: _Tensor,
    pad: _Ints,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def conv_depthwise2d(
    self: _Tensor,
    weight: _Tensor,
    kernel_size: _Ints,
    bias: Optional[_Tensor] = None,
    stride: _Ints = ...,
    padding: _Ints = ...,
    dilation: _Ints = ...,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def conv_tbc(
    self: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    pad: SupportsIndex = ...,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ConvTbcBackwardResult(NamedTuple):
    grad_input: Any
    grad_weight: Any
    grad_bias: Any

def conv_tbc_backward(
    self: _Tensor,
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor,
    pad: SupportsIndex,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ConvTbcBackwardResult: ...
def convert_weight_to_int4_pack(weight: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def convolution(
    input: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    stride: _Ints = ...,
    padding: _Ints = ...,
    dilation: _Ints = ...,
    transposed: _Bool = ...,
    output_padding: _Ints = ...,
    groups: SupportsIndex = ...,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ConvolutionBackwardResult(NamedTuple):
    grad_input: Any
    grad_weight: Any
    grad_bias: Any

def convolution_backward(
    grad_output: _Tensor,
    input: _Tensor,
    weight: _Tensor,
    bias_sizes: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    transposed: _Bool,
    output_padding: _Ints,
    groups: SupportsIndex,
    output_mask: _Bools,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ConvolutionBackwardResult: ...
def cos(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def cosh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def cosh_v2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def cross_entropy_grad(
    logits: _Tensor,
    target: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class CrossEntropyLossResult(NamedTuple):
    loss: Any
    log_prob: Any
    zloss: Any
    lse_for_zloss: Any

def cross_entropy_loss(
    input: _Tensor,
    target: _Tensor,
    weight: Optional[_Tensor] = None,
    reduction: Optional[str] = "mean",
    ignore_index: SupportsIndex = -100,
    label_smoothing: SupportsFloat = 0.0,
    lse_square_scale_for_zloss: SupportsFloat = 0.0,
    return_zloss: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CrossEntropyLossResult: ...
def cross_entropy_loss_grad(
    grad_loss: _Tensor,
    log_prob: _Tensor,
    target: _Tensor,
    weight: Optional[_Tensor] = None,
    grad_zloss: Optional[_Tensor] = None,
    lse_for_zloss: Optional[_Tensor] = None,
    reduction: Optional[str] = "mean",
    ignore_index: SupportsIndex = -100,
    label_smoothing: SupportsFloat = 0.0,
    lse_square_scale_for_zloss: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class CrossEntropySumExpAndIndexLogitResult(NamedTuple):
    predicted_logits: Any
    sum_exp_logits: Any
    exp_logits: Any
    target_offset: Any
    target_mask: Any

def cross_entropy_sum_exp_and_index_logit(
    vocab_parallel_logits: _Tensor,
    target: _Tensor,
    global_logits_max: _Tensor,
    vocab_start_index: SupportsIndex,
    vocab_end_index: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CrossEntropySumExpAndIndexLogitResult: ...

class CtcLossResult(NamedTuple):
    neg_log_likelihood: Any
    log_alpha: Any

def ctc_loss(
    log_probs: _Tensor,
    targets: _Tensor,
    input_lengths: _Ints,
    targetlengths: _Ints,
    blank: SupportsIndex,
    zero_infinity: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> CtcLossResult: ...
def ctc_loss_backward(
    grad_out: _Tensor,
    log_probs: _Tensor,
    targets: _Tensor,
    input_lengths: _Ints,
    target_lengths: _Ints,
    neg_log_likelihood: _Tensor,
    log_alpha: _Tensor,
    blank: SupportsIndex,
    zero_infinity: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class CummaxResult(NamedTuple):
    values: Any
    indices: Any

def cummax(self: _Tensor, dim: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> CummaxResult: ...

class CumminResult(NamedTuple):
    values: Any
    indices: Any

def cummin(self: _Tensor, dim: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> CumminResult: ...
def cumprod(
    input: _Tensor,
    dim: _Scalar,
    dtype: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def cumsum(
    self: _Tensor,
    dim: SupportsIndex,
    dtype: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def cumsum_v2(
    self: _Tensor,
    dim: SupportsIndex,
    exclusive: _Bool,
    reverse: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def data_format_dim_map(
    x: _Tensor,
    src_format: str = "NHWC",
    dst_format: str = "NCHW",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class DeepNormResult(NamedTuple):
    mean: Any
    rstd: Any
    y: Any

def deep_norm(
    x: _Tensor,
    gx: _Tensor,
    beta: _Tensor,
    gamma: _Tensor,
    alpha: SupportsFloat = 0.3,
    epsilon: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DeepNormResult: ...

class DeepNormGradResult(NamedTuple):
    dx: Any
    dgx: Any
    dbeta: Any
    dgamma: Any

def deep_norm_grad(
    dy: _Tensor,
    x: _Tensor,
    gx: _Tensor,
    gamma: _Tensor,
    mean: _Tensor,
    rstd: _Tensor,
    alpha: SupportsFloat = 0.3,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DeepNormGradResult: ...

class DeformableConv2dResult(NamedTuple):
    out: Any
    deform: Any

def deformable_conv2d(
    x: _Tensor,
    weight: _Tensor,
    offset: _Tensor,
    bias: Optional[_Tensor] = None,
    kernel_size: _Ints = ...,
    stride: _Ints = ...,
    padding: _Ints = ...,
    dilation: _Ints = (1, 1, 1, 1),
    groups: SupportsIndex = 1,
    deformable_groups: SupportsIndex = 1,
    modulated: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DeformableConv2dResult: ...

class DeformableConv2dBackwardResult(NamedTuple):
    grad_input: Any
    grad_weight: Any
    grad_offset: Any
    grad_bias: Any

def deformable_conv2d_backward(
    input: _Tensor,
    grad_output: _Tensor,
    offset_out: _Tensor,
    weight: _Tensor,
    offset: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: SupportsIndex,
    deformable_groups: SupportsIndex,
    modulated: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DeformableConv2dBackwardResult: ...

class DenseLightningIndexerGradKLLossResult(NamedTuple):
    d_query_index: Any
    d_key_index: Any
    d_weights: Any
    loss: Any

def dense_lightning_indexer_grad_kl_loss(
    query: _Tensor,
    key: _Tensor,
    query_index: _Tensor,
    key_index: _Tensor,
    weights: _Tensor,
    softmax_max: _Tensor,
    softmax_sum: _Tensor,
    softmax_max_index: _Tensor,
    softmax_sum_index: _Tensor,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    actual_seq_lengths_query: Optional[_Ints] = None,
    actual_seq_lengths_key: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    layout: Optional[str] = "TND",
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DenseLightningIndexerGradKLLossResult: ...

class DenseLightningIndexerKLLossGradResult(NamedTuple):
    dq: Any
    dk: Any
    dw: Any
    softmax: Any

def dense_lightning_indexer_kl_loss_grad(
    q: _Tensor,
    k: _Tensor,
    w: _Tensor,
    attn_softmax_l1_norm: _Tensor,
    softmax_lse: _Tensor,
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_k: Optional[_Tensor] = None,
    seq_used_q: Optional[_Tensor] = None,
    seq_used_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    layout_q: Optional[str] = "BSND",
    layout_k: Optional[str] = "BSND",
    mask_mode: SupportsIndex = 0,
    cmp_ratio: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DenseLightningIndexerKLLossGradResult: ...
def dense_lightning_indexer_kl_loss_grad_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_k: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_k: SupportsIndex = ...,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_k: Optional[str] = None,
    mask_mode: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class DenseLightningIndexerSoftmaxLseResult(NamedTuple):
    softmax_max: Any
    softmax_sum: Any

def dense_lightning_indexer_softmax_lse(
    query_index: _Tensor,
    key_index: _Tensor,
    weight: _Tensor,
    actual_seq_lengths_query: Optional[_Ints] = None,
    actual_seq_lengths_key: Optional[_Ints] = None,
    layout: Optional[str] = "TND",
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DenseLightningIndexerSoftmaxLseResult: ...
def dense_lightning_indexer_softmax_lse_v2(
    query_index: _Tensor,
    key_index: _Tensor,
    weight: _Tensor,
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_k: Optional[_Tensor] = None,
    seq_used_q: Optional[_Tensor] = None,
    seq_used_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    layout_q: Optional[str] = "BSND",
    layout_k: Optional[str] = "BSND",
    mask_mode: SupportsIndex = 0,
    cmp_ratio: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def dense_lightning_indexer_softmax_lse_v2_metadata(
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_k: Optional[_Tensor] = None,
    seq_used_q: Optional[_Tensor] = None,
    seq_used_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    max_seq_len_q: SupportsIndex = ...,
    max_seq_len_k: SupportsIndex = ...,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_k: Optional[str] = None,
    mask_mode: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def dequant_bias(
    x: _Tensor,
    weight_scale: _Tensor,
    activate_scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    output_dtype: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class DequantRopeQuantKvcacheResult(NamedTuple):
    k_cache: Any
    v_cache: Any
    q: Any
    k: Any
    v: Any

def dequant_rope_quant_kvcache(
    x: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    k_cache: _Tensor,
    v_cache: _Tensor,
    indices: _Tensor,
    scale_k: _Tensor,
    scale_v: _Tensor,
    offset_k: Optional[_Tensor] = None,
    offset_v: Optional[_Tensor] = None,
    weight_scale: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    size_splits: _Ints = ...,
    quant_mode: Optional[str] = "static",
    layout: Optional[str] = "BSND",
    kv_output: _Bool = False,
    cache_mode: Optional[str] = "contiguous",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DequantRopeQuantKvcacheResult: ...

class DequantSituQuantResult(NamedTuple):
    y: Any
    y_scale: Any

def dequant_situ_quant(
    x: _Tensor,
    weight_scale: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    quant_offset: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    beta: SupportsFloat = 4.0,
    linear_beta: SupportsFloat = 25.0,
    activate_left: _Bool = True,
    quant_type: Optional[str] = "dynamic",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DequantSituQuantResult: ...

class DequantSwigluQuantResult(NamedTuple):
    y: Any
    scale: Any

def dequant_swiglu_quant(
    x: _Tensor,
    weight_scale: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    quant_offset: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    activate_left: _Bool = False,
    quant_mode: Optional[str] = "static",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DequantSwigluQuantResult: ...

class DequantSwigluQuantV2Result(NamedTuple):
    y: Any
    scale: Any

def dequant_swiglu_quant_v2(
    x: _Tensor,
    weight_scale: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    quant_offset: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    activate_left: _Bool = ...,
    quant_mode: Optional[str] = "static",
    dst_type: SupportsIndex = ...,
    round_mode: Optional[str] = "rint",
    activate_dim: SupportsIndex = ...,
    swiglu_mode: SupportsIndex = 0,
    clamp_limit: SupportsFloat = 7.0,
    glu_alpha: SupportsFloat = 1.702,
    glu_bias: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DequantSwigluQuantV2Result: ...
def diag(self: _Tensor, diagonal: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def diag_flat(
    self: _Tensor,
    diagonal: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def diag_part(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def digamma(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def distribute_barrier(
    x: _Tensor,
    group: str,
    world_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def distribute_barrier_v2(
    x: _Tensor,
    time_out: Optional[_Tensor] = None,
    elastic_info: Optional[_Tensor] = None,
    group: str = ...,
    world_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def div(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def div_mod(
    self: _Tensor,
    other: _Tensor,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def div_mods(
    self: _Tensor,
    other: _Scalar,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def div_v2(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def div_v3(
    self: _Tensor,
    other: _Tensor,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def divs(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def dot(self: _Tensor, tensor: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def dot_v2(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class DropoutResult(NamedTuple):
    out: Any
    mask: Any

def dropout(
    input: _Tensor,
    p: SupportsFloat,
    train: _Bool,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DropoutResult: ...
def dropout_backward(
    grad_output: _Tensor,
    mask: _Tensor,
    scale: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def dropout_do_mask(
    self: _Tensor,
    mask: _Tensor,
    prob: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def dropout_gen_mask(
    shape: _Ints,
    prob: SupportsFloat,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def dropout_gen_mask_v2(
    shape: _Ints,
    prob: SupportsFloat,
    seed: SupportsIndex,
    offset: SupportsIndex,
    prob_data_type: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def dropout_gen_mask_v2_tensor(
    shape: _Ints,
    prob: SupportsFloat,
    seed_tensor: _Tensor,
    offset_tensor: _Tensor,
    offset: SupportsIndex,
    prob_data_type: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class DropoutV3Result(NamedTuple):
    out: Any
    mask: Any

def dropout_v3(
    input: _Tensor,
    optional_noise_shape: Optional[_Tensor] = None,
    p: SupportsFloat = ...,
    seed: SupportsIndex = ...,
    offset: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DropoutV3Result: ...
def dropout_v3_grad(
    grad_y: _Tensor,
    mask: _Tensor,
    scale: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def dual_level_quant_matmul_weight_nz(
    x1: _Tensor,
    x2: _Tensor,
    x1_level0_scale: _Tensor,
    x2_level0_scale: _Tensor,
    x1_level1_scale: _Tensor,
    x2_level1_scale: _Tensor,
    optional_bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    level0_group_size: SupportsIndex = ...,
    level1_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class DynamicBlockMxQuantResult(NamedTuple):
    y: Any
    scale1: Any
    scale2: Any

def dynamic_block_mx_quant(
    x: _Tensor,
    round_mode: Optional[str] = "rint",
    dst_type: SupportsIndex = 40,
    scale_alg: SupportsIndex = 0,
    dst_type_max: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicBlockMxQuantResult: ...

class DynamicBlockQuantResult(NamedTuple):
    y: Any
    scale: Any

def dynamic_block_quant(
    x: _Tensor,
    min_scale: SupportsFloat = 0.0,
    round_mode: Optional[str] = "rint",
    dst_type: SupportsIndex = 35,
    row_block_size: SupportsIndex = 1,
    col_block_size: SupportsIndex = 128,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicBlockQuantResult: ...

class DynamicBlockQuantV2Result(NamedTuple):
    y: Any
    scale: Any

def dynamic_block_quant_v2(
    x: _Tensor,
    min_scale: SupportsFloat,
    round_mode: Optional[str] = None,
    dst_type: SupportsIndex = ...,
    row_block_size: SupportsIndex = ...,
    col_block_size: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicBlockQuantV2Result: ...

class DynamicDualLevelMxQuantResult(NamedTuple):
    y: Any
    level0_scale: Any
    level1_scale: Any

def dynamic_dual_level_mx_quant(
    x: _Tensor,
    smooth_scale: Optional[_Tensor] = None,
    round_mode: Optional[str] = "rint",
    level0_block_size: SupportsIndex = 512,
    level1_block_size: SupportsIndex = 32,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicDualLevelMxQuantResult: ...

class DynamicMxQuantResult(NamedTuple):
    y: Any
    mxscale: Any

def dynamic_mx_quant(
    x: _Tensor,
    axis: SupportsIndex = -1,
    round_mode: Optional[str] = "rint",
    dst_type: SupportsIndex = 40,
    blocksize: SupportsIndex = 32,
    scale_alg: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicMxQuantResult: ...

class DynamicMxQuantV2Result(NamedTuple):
    y: Any
    mxscale: Any

def dynamic_mx_quant_v2(
    x: _Tensor,
    axis: SupportsIndex,
    round_mode: Optional[str] = None,
    dst_type: SupportsIndex = ...,
    blocksize: SupportsIndex = ...,
    scale_alg: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicMxQuantV2Result: ...

class DynamicMxQuantV3Result(NamedTuple):
    y: Any
    mxscale: Any

def dynamic_mx_quant_v3(
    x: _Tensor,
    axis: SupportsIndex,
    round_mode: Optional[str] = None,
    dst_type: SupportsIndex = ...,
    blocksize: SupportsIndex = ...,
    scale_alg: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    max_low_bound: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicMxQuantV3Result: ...

class DynamicMxQuantWithDualAxisResult(NamedTuple):
    y1: Any
    mxscale1: Any
    y2: Any
    mxscale2: Any

def dynamic_mx_quant_with_dual_axis(
    x: _Tensor,
    round_mode: Optional[str] = "rint",
    dst_type: SupportsIndex = 40,
    scale_alg: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicMxQuantWithDualAxisResult: ...

class DynamicMxQuantWithDualAxisV2Result(NamedTuple):
    y1: Any
    mxscale1: Any
    y2: Any
    mxscale2: Any

def dynamic_mx_quant_with_dual_axis_v2(
    x: _Tensor,
    round_mode: Optional[str] = None,
    dst_type: SupportsIndex = ...,
    scale_alg: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicMxQuantWithDualAxisV2Result: ...

class DynamicQuantResult(NamedTuple):
    y: Any
    scale: Any

def dynamic_quant(
    x: _Tensor,
    smooth_scales: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicQuantResult: ...

class DynamicQuantV2Result(NamedTuple):
    y: Any
    scale: Any
    offset: Any

def dynamic_quant_v2(
    x: _Tensor,
    smooth_scales: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    dst_type: SupportsIndex = 2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicQuantV2Result: ...

class DynamicQuantV3Result(NamedTuple):
    y: Any
    scale: Any
    offset: Any

def dynamic_quant_v3(
    x: _Tensor,
    smooth_scales: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    dst_type: SupportsIndex = ...,
    is_symmetrical: _Bool = ...,
    quant_mode: str = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicQuantV3Result: ...

class DynamicQuantV4Result(NamedTuple):
    y: Any
    scale: Any
    offset: Any

def dynamic_quant_v4(
    x: _Tensor,
    smooth_scales: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    dst_type: SupportsIndex = ...,
    is_symmetrical: _Bool = ...,
    quant_mode: str = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> DynamicQuantV4Result: ...
def einsum(tensors: Sequence[_Tensor], equation: str, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def elastic_receivable_info_collect(
    group: str,
    world_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def elastic_receivable_test(
    dst_rank: _Tensor,
    group: str,
    world_size: SupportsIndex,
    rank_num: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> None: ...
def elu(
    self: _Tensor,
    alpha: _Scalar = 1.0,
    scale: _Scalar = 1.0,
    input_scale: _Scalar = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def elu_backward(
    grad_output: _Tensor,
    alpha: _Scalar,
    scale: _Scalar,
    input_scale: _Scalar,
    is_result: _Bool,
    self_or_result: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def elu_v2(
    self: _Tensor,
    alpha: _Scalar = 1.0,
    scale: _Scalar = 1.0,
    input_scale: _Scalar = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def embedding(weight: _Tensor, indices: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class EmbeddingBagResult(NamedTuple):
    output: Any
    offset2bag: Any
    bag_size: Any
    max_indices: Any

def embedding_bag(
    weight: _Tensor,
    indices: _Tensor,
    offsets: _Tensor,
    scale_grad_by_freq: _Bool = False,
    mode: SupportsIndex = ...,
    sparse: _Bool = False,
    per_sample_weights: Optional[_Tensor] = None,
    include_last_offset: _Bool = False,
    padding_idx: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> EmbeddingBagResult: ...
def embedding_dense_backward(
    grad: _Tensor,
    indices: _Tensor,
    num_weights: SupportsIndex,
    padding_idx: SupportsIndex,
    scale_grad_by_freq: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def embedding_dense_grad(
    grad: _Tensor,
    indices: _Tensor,
    num_weights: SupportsIndex,
    padding_idx: SupportsIndex = -1,
    scale_grad_by_freq: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def embedding_renorm(
    self: _Tensor,
    indices: _Tensor,
    max_norm: SupportsFloat,
    norm_type: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class EngramFetchResult(NamedTuple):
    fetched: Any
    perm_out: Any
    send_counts_out: Any
    recv_counts_out: Any
    recv_local_entry_out: Any
    num_recv_out: Any

def engram_fetch(
    comm_context: _Tensor,
    indices: _Tensor,
    local_storage_addr: Optional[_Tensor] = None,
    hidden_size: SupportsIndex = ...,
    num_entries_per_rank: SupportsIndex = ...,
    num_max_tokens_per_rank: SupportsIndex = 0,
    comm_buffer_size: SupportsIndex = 0,
    with_grad: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> EngramFetchResult: ...

class EngramFetchGradResult(NamedTuple):
    grad_unique_out: Any
    unique_local_entry_out: Any
    num_unique_out: Any

def engram_fetch_grad(
    comm_context: _Tensor,
    grad_fetched: _Tensor,
    perm: _Tensor,
    send_counts: _Tensor,
    recv_counts: _Tensor,
    recv_local_entry: _Tensor,
    num_recv: _Tensor,
    num_entries_per_rank: SupportsIndex,
    comm_buffer_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> EngramFetchGradResult: ...
def engram_fetch_wait(
    comm_context: _Tensor,
    fetched: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def eq_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def eq_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def equal(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def erf(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def erf_inv(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def erfc(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def erfinv(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def exp(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def exp2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def exp_segsum(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def exp_segsum_backward(
    grad_output: _Tensor,
    grad_self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def expand(self: _Tensor, size: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def expand_into_jagged_permute(
    permute: _Tensor,
    input_offset: _Tensor,
    output_offset: _Tensor,
    output_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def expandv(self: _Tensor, shape: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def expm1(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def eye(n: SupportsIndex, m: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def eye_v2(
    x: Optional[_Tensor] = None,
    rows: SupportsIndex = ...,
    cols: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class FakeQuantPerChannelAffineCachemaskResult(NamedTuple):
    out: Any
    mask: Any

def fake_quant_per_channel_affine_cachemask(
    self: _Tensor,
    scale: _Tensor,
    zero_point: _Tensor,
    axis: SupportsIndex,
    quant_min: SupportsIndex,
    quant_max: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FakeQuantPerChannelAffineCachemaskResult: ...

class FakeQuantPerTensorAffineCachemaskResult(NamedTuple):
    out: Any
    mask: Any

def fake_quant_per_tensor_affine_cachemask(
    self: _Tensor,
    scale: _Tensor,
    zero_point: _Tensor,
    fake_quant_enbled: SupportsFloat,
    quant_min: SupportsIndex,
    quant_max: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FakeQuantPerTensorAffineCachemaskResult: ...

class FastBatchNormBackwardResult(NamedTuple):
    grad_input: Any
    grad_weight: Any
    grad_bias: Any

def fast_batch_norm_backward(
    grad_out: _Tensor,
    input: _Tensor,
    weight: Optional[_Tensor] = None,
    running_mean: Optional[_Tensor] = None,
    running_var: Optional[_Tensor] = None,
    save_mean: Optional[_Tensor] = None,
    save_invstd: Optional[_Tensor] = None,
    training: _Bool = ...,
    eps: SupportsFloat = ...,
    output_mask: _Bools = ...,
    version: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FastBatchNormBackwardResult: ...
def fast_gelu(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def fast_gelu_backward(
    grad_output: _Tensor,
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def fast_gelu_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class FastLayerNormResult(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def fast_layer_norm(
    input: _Tensor,
    normalized_shape: _Ints,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    eps: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FastLayerNormResult: ...
def fatrelu_mul(input: _Tensor, threshold: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def ffn(
    x: Optional[_Tensor] = None,
    weight1: Optional[_Tensor] = None,
    weight2: Optional[_Tensor] = None,
    expert_tokens: Optional[_Ints] = None,
    bias1: Optional[_Tensor] = None,
    bias2: Optional[_Tensor] = None,
    scale: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    deq_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    antiquant_scale1: Optional[_Tensor] = None,
    antiquant_scale2: Optional[_Tensor] = None,
    antiquant_offset1: Optional[_Tensor] = None,
    antiquant_offset2: Optional[_Tensor] = None,
    activation: Optional[str] = None,
    inner_precise: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ffn_to_attention(
    x: _Tensor,
    session_ids: _Tensor,
    micro_batch_ids: _Tensor,
    token_ids: _Tensor,
    expert_offsets: _Tensor,
    actual_token_num: _Tensor,
    attn_rank_table: Optional[_Tensor] = None,
    group: str = ...,
    world_size: SupportsIndex = ...,
    token_info_table_shape: _Ints = ...,
    token_data_shape: _Ints = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> None: ...

class FfnWorkerBatchingResult(NamedTuple):
    y: Any
    group_list: Any
    session_ids: Any
    micro_batch_ids: Any
    token_ids: Any
    expert_offsets: Any
    dynamic_scale: Any
    actual_token_num: Any

def ffn_worker_batching(
    schedule_context: _Tensor,
    expert_num: SupportsIndex,
    max_out_shape: _Ints,
    token_dtype: SupportsIndex = 0,
    need_schedule: SupportsIndex = 0,
    layer_num: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FfnWorkerBatchingResult: ...
def ffnv2(
    x: _Tensor,
    weight1: _Tensor,
    weight2: _Tensor,
    expert_tokens: Optional[_Ints] = None,
    bias1: Optional[_Tensor] = None,
    bias2: Optional[_Tensor] = None,
    scale: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    deq_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    antiquant_scale1: Optional[_Tensor] = None,
    antiquant_scale2: Optional[_Tensor] = None,
    antiquant_offset1: Optional[_Tensor] = None,
    antiquant_offset2: Optional[_Tensor] = None,
    activation: str = ...,
    inner_precise: SupportsIndex = ...,
    tokens_index_flag: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ffnv3(
    x: _Tensor,
    weight1: _Tensor,
    weight2: _Tensor,
    expert_tokens: Optional[_Tensor] = None,
    bias1: Optional[_Tensor] = None,
    bias2: Optional[_Tensor] = None,
    scale: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    deq_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    antiquant_scale1: Optional[_Tensor] = None,
    antiquant_scale2: Optional[_Tensor] = None,
    antiquant_offset1: Optional[_Tensor] = None,
    antiquant_offset2: Optional[_Tensor] = None,
    activation: str = ...,
    inner_precise: SupportsIndex = ...,
    tokens_index_flag: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def fill_v2(x: _Tensor, fill_value: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class FlashAttentionScoreResult(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_score(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    scale_value: SupportsFloat = 1.0,
    keep_prob: SupportsFloat = 1.0,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreResult: ...

class FlashAttentionScoreGradResult(NamedTuple):
    dq: Any
    dk: Any
    dv: Any
    dpse: Any

def flash_attention_score_grad(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    scale_value: SupportsFloat = 1.0,
    keep_prob: SupportsFloat = 1.0,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreGradResult: ...

class FlashAttentionScoreGradV2Result(NamedTuple):
    dq: Any
    dk: Any
    dv: Any
    dpse: Any

def flash_attention_score_grad_v2(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreGradV2Result: ...

class FlashAttentionScoreGradV3Result(NamedTuple):
    dq: Any
    dk: Any
    dv: Any
    dpse: Any
    dsink: Any

def flash_attention_score_grad_v3(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    sink_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreGradV3Result: ...

class FlashAttentionScoreGradV4Result(NamedTuple):
    dq: Any
    dk: Any
    dv: Any
    dq_rope: Any
    dk_rope: Any
    dpse: Any
    dsink: Any

def flash_attention_score_grad_v4(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    sink_in: Optional[_Tensor] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    d_scale_q: Optional[_Tensor] = None,
    d_scale_k: Optional[_Tensor] = None,
    d_scale_v: Optional[_Tensor] = None,
    d_scale_dy: Optional[_Tensor] = None,
    d_scale_o: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    softmax_in_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    seed: SupportsIndex = ...,
    offset: SupportsIndex = ...,
    out_dtype: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreGradV4Result: ...

class FlashAttentionScoreV2Result(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_score_v2(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreV2Result: ...

class FlashAttentionScoreV3Result(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_score_v3(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    sink: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreV3Result: ...

class FlashAttentionScoreV4Result(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_score_v4(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    d_scale_q: Optional[_Tensor] = None,
    d_scale_k: Optional[_Tensor] = None,
    d_scale_v: Optional[_Tensor] = None,
    sink: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    out_dtype: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    softmax_out_layout: str = ...,
    seed: SupportsIndex = 0,
    offset: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionScoreV4Result: ...

class FlashAttentionUnpaddingScoreGradResult(NamedTuple):
    dq: Any
    dk: Any
    dv: Any
    dpse: Any

def flash_attention_unpadding_score_grad(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionUnpaddingScoreGradResult: ...

class FlashAttentionUnpaddingScoreGradV2Result(NamedTuple):
    dq: Any
    dk: Any
    dv: Any
    dpse: Any

def flash_attention_unpadding_score_grad_v2(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionUnpaddingScoreGradV2Result: ...

class FlashAttentionUnpaddingScoreGradV3Result(NamedTuple):
    dq: Any
    dq_rope: Any
    dk: Any
    dk_rope: Any
    dv: Any
    dpse: Any

def flash_attention_unpadding_score_grad_v3(
    query: _Tensor,
    query_rope: Optional[_Tensor] = None,
    key_in: _Tensor = ...,
    key_in_rope: Optional[_Tensor] = None,
    value: _Tensor = ...,
    dy: _Tensor = ...,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionUnpaddingScoreGradV3Result: ...

class FlashAttentionUnpaddingScoreGradV4Result(NamedTuple):
    dq: Any
    dk: Any
    dv: Any
    dpse: Any

def flash_attention_unpadding_score_grad_v4(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    softmax_in_layout: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionUnpaddingScoreGradV4Result: ...

class FlashAttentionUnpaddingScoreGradV5Result(NamedTuple):
    dq: Any
    dq_rope: Any
    dk: Any
    dk_rope: Any
    dv: Any
    dpse: Any
    dsink: Any

def flash_attention_unpadding_score_grad_v5(
    query: _Tensor,
    query_rope: Optional[_Tensor] = None,
    key_in: _Tensor = ...,
    key_in_rope: Optional[_Tensor] = None,
    value: _Tensor = ...,
    dy: _Tensor = ...,
    pse_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    softmax_in: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    sink_in: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    softmax_in_layout: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionUnpaddingScoreGradV5Result: ...

class FlashAttentionVarLenScoreResult(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_var_len_score(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionVarLenScoreResult: ...

class FlashAttentionVarLenScoreV2Result(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_var_len_score_v2(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionVarLenScoreV2Result: ...

class FlashAttentionVarLenScoreV3Result(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_var_len_score_v3(
    query: _Tensor,
    query_rope: Optional[_Tensor] = None,
    key: _Tensor = ...,
    key_rope: Optional[_Tensor] = None,
    value: _Tensor = ...,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionVarLenScoreV3Result: ...

class FlashAttentionVarLenScoreV4Result(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_var_len_score_v4(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = ...,
    softmax_out_layout: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionVarLenScoreV4Result: ...

class FlashAttentionVarLenScoreV5Result(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_out: Any
    attention_out: Any

def flash_attention_var_len_score_v5(
    query: _Tensor,
    query_rope: Optional[_Tensor] = None,
    key: _Tensor = ...,
    key_rope: Optional[_Tensor] = None,
    value: _Tensor = ...,
    real_shift: Optional[_Tensor] = None,
    drop_mask: Optional[_Tensor] = None,
    padding_mask: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    sink: Optional[_Tensor] = None,
    prefix: Optional[_Ints] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    keep_prob: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    inner_precise: SupportsIndex = 0,
    sparse_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    softmax_out_layout: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttentionVarLenScoreV5Result: ...

class FlashAttnResult(NamedTuple):
    attn: Any
    softmax_lse: Any

def flash_attn(
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    block_table: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    attn_mask: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    softmax_scale: SupportsFloat = ...,
    mask_mode: SupportsIndex = 0,
    win_left: SupportsIndex = -1,
    win_right: SupportsIndex = -1,
    max_seqlen_q: SupportsIndex = -1,
    max_seqlen_kv: SupportsIndex = -1,
    layout_q: str = "BSND",
    layout_kv: str = "BSND",
    layout_out: str = "BSND",
    return_softmax_lse: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlashAttnResult: ...
def flash_attn_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_kv: SupportsIndex = ...,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    mask_mode: SupportsIndex = ...,
    win_left: SupportsIndex = ...,
    win_right: SupportsIndex = ...,
    layout_q: str = ...,
    layout_kv: str = ...,
    layout_out: str = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class FlatQuantResult(NamedTuple):
    out: Any
    quant_scale: Any

def flat_quant(
    x: _Tensor,
    kronecker_p1: _Tensor,
    kronecker_p2: _Tensor,
    clip_ratio: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlatQuantResult: ...

class FlatQuantV2Result(NamedTuple):
    out: Any
    quant_scale: Any

def flat_quant_v2(
    x: _Tensor,
    kronecker_p1: _Tensor,
    kronecker_p2: _Tensor,
    clip_ratio: SupportsFloat,
    dst_type_max: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlatQuantV2Result: ...

class FlatQuantV3Result(NamedTuple):
    out: Any
    quant_scale: Any

def flat_quant_v3(
    x: _Tensor,
    kronecker_p1: _Tensor,
    kronecker_p2: _Tensor,
    group_list: Optional[_Tensor] = None,
    clip_ratio: SupportsFloat = ...,
    dst_type_max: SupportsFloat = ...,
    group_list_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FlatQuantV3Result: ...
def flatten(self: _Tensor, axis: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def flip(self: _Tensor, dims: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def floor(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def floor_div(self_x: _Tensor, self_y: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def floor_divide(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def floor_divides(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def fmod_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def fmod_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_a_cos_inplace(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_abs(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_acos(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_add_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    alpha: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_add_list_inplace(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    alpha: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_add_list_v2(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_add_scalar(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_add_scalar_list(
    x: Sequence[_Tensor],
    scalars: Sequence[_Scalar],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_add_scalar_v2(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcdiv_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalars: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcdiv_scalar(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcdiv_scalar_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalars: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcdiv_scalar_v2(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcmul_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalars: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcmul_scalar(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcmul_scalar_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalars: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_addcmul_scalar_v2(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    x3: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_asin(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_atan(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_binary_op(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    op_code: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_copy(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_cos(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_cosh(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_div_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_div_list_inplace(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_div_scalar(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_div_scalar_list(
    x: Sequence[_Tensor],
    scalars: Sequence[_Scalar],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_div_scalar_v2(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_erf(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_erfc(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_exp(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_expm1(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_lerp_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_lerp_scalar(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    weight: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_log(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_log10(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_log1p(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_log2(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_log_inplace(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_maximum_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_maximum_scalar(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_maximum_scalar_list(
    x: Sequence[_Tensor],
    scalars: Sequence[_Scalar],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_maximum_scalar_v2(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_minimum_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_minimum_scalar(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_minimum_scalar_list(
    x: Sequence[_Tensor],
    scalars: Sequence[_Scalar],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_minimum_scalar_v2(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_mul_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_mul_list_inplace(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_mul_scalar(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_mul_scalar_inplace(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_mul_scalar_list(
    x: Sequence[_Tensor],
    scalars: Sequence[_Scalar],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_mul_scalar_v2(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_neg(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class ForeachNonFiniteCheckAndUnscaleResult(NamedTuple):
    scaled_grads: Any
    found_inf: Any

def foreach_non_finite_check_and_unscale(
    scaled_grads: Sequence[_Tensor],
    found_inf: _Tensor,
    inv_scale: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ForeachNonFiniteCheckAndUnscaleResult: ...
def foreach_norm(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_pow_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_pow_scalar(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_pow_scalar_and_tensor(
    scalar: _Scalar,
    x: Sequence[_Tensor],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_pow_scalar_list(
    x: Sequence[_Tensor],
    scalars: Sequence[_Scalar],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_pow_scalar_v2(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_reciprocal(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_round_off_number(
    x: Sequence[_Tensor],
    round_mode: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_round_off_number_v2(
    x: Sequence[_Tensor],
    round_mode: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_sigmoid(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_sign(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_sin(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_sinh(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_sqrt(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_sub_list(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    alpha: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_sub_list_inplace(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    alpha: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_sub_list_v2(
    x1: Sequence[_Tensor],
    x2: Sequence[_Tensor],
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_sub_scalar(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_sub_scalar_inplace(
    x: Sequence[_Tensor],
    scalar: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_sub_scalar_list(
    x: Sequence[_Tensor],
    scalars: Sequence[_Scalar],
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_sub_scalar_v2(
    x: Sequence[_Tensor],
    scalar: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def foreach_tan(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_tanh(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def foreach_zero_inplace(x: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def frac(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def fresnel_cos(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def fresnel_sin(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class FusedAdamwResult(NamedTuple):
    params: Any
    exp_avgs: Any
    exp_avg_sqs: Any
    max_exp_avg_sqs: Any

def fused_adamw(
    params: Sequence[_Tensor],
    grads: Sequence[_Tensor],
    exp_avgs: Sequence[_Tensor],
    exp_avg_sqs: Sequence[_Tensor],
    max_exp_avg_sqs: Optional[Sequence[_Tensor]] = None,
    state_steps: Sequence[_Tensor] = ...,
    grad_scale: Optional[_Tensor] = None,
    found_inf: Optional[_Tensor] = None,
    lr: SupportsFloat = 0.001,
    beta1: SupportsFloat = 0.9,
    beta2: SupportsFloat = 0.999,
    weight_decay: SupportsFloat = 0.0,
    eps: SupportsFloat = 1e-08,
    amsgrad: _Bool = False,
    maximize: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedAdamwResult: ...

class FusedAddRmsNormResult(NamedTuple):
    y: Any
    rstd: Any
    x: Any

def fused_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    epsilon: SupportsFloat,
    scale: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedAddRmsNormResult: ...
def fused_bias_leaky_relu(
    x: _Tensor,
    bias: _Tensor,
    negative_slope: SupportsFloat = 0.2,
    scale: SupportsFloat = 1.414213562373,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class FusedCausalConv1dResult(NamedTuple):
    conv_states: Any
    y: Any

def fused_causal_conv1d(
    x: _Tensor,
    weight: _Tensor,
    conv_states: _Tensor,
    query_start_loc: Optional[_Tensor] = None,
    cache_indices: Optional[_Tensor] = None,
    initial_state_mode: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    num_accepted_tokens: Optional[_Tensor] = None,
    num_computed_tokens: Optional[_Tensor] = None,
    block_idx_first_scheduled_token: Optional[_Tensor] = None,
    block_idx_last_scheduled_token: Optional[_Tensor] = None,
    initial_state_idx: Optional[_Tensor] = None,
    activation_mode: SupportsIndex = ...,
    pad_slot_id: SupportsIndex = ...,
    run_mode: SupportsIndex = ...,
    max_query_len: SupportsIndex = ...,
    residual_connection: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    conv_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedCausalConv1dResult: ...

class FusedCrossEntropyLossWithMaxSumResult(NamedTuple):
    vocab_parallel_logits: Any
    loss: Any
    soft_max: Any

def fused_cross_entropy_loss_with_max_sum(
    logits_max: _Tensor,
    sum_exp_logits: _Tensor,
    predicted_logits: _Tensor,
    label_smoothing: SupportsFloat = 0.0,
    input: Optional[_Tensor] = None,
    weight: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedCrossEntropyLossWithMaxSumResult: ...

class FusedFloydAttentionResult(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    attention_out: Any

def fused_floyd_attention(
    query: _Tensor,
    key1: _Tensor,
    value1: _Tensor,
    key2: _Tensor,
    value2: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    scale_value: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedFloydAttentionResult: ...

class FusedFloydAttentionGradResult(NamedTuple):
    dq: Any
    dk1: Any
    dv1: Any
    dk2: Any
    dv2: Any

def fused_floyd_attention_grad(
    query: _Tensor,
    key1: _Tensor,
    value1: _Tensor,
    key2: _Tensor,
    value2: _Tensor,
    dy: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: Optional[_Tensor] = None,
    softmax_sum: Optional[_Tensor] = None,
    attention_in: Optional[_Tensor] = None,
    scale_value: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedFloydAttentionGradResult: ...

class FusedInferAttentionScoreResult(NamedTuple):
    attention: Any
    softmax_lse: Any

def fused_infer_attention_score(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    query_padding_size: Optional[_Tensor] = None,
    kv_padding_size: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = 2147483647,
    next_tokens: SupportsIndex = 2147483647,
    input_layout: str = "BSH",
    num_key_value_heads: SupportsIndex = 0,
    sparse_mode: SupportsIndex = 0,
    inner_precise: SupportsIndex = 1,
    block_size: SupportsIndex = 0,
    antiquant_mode: SupportsIndex = 0,
    softmax_lse_flag: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedInferAttentionScoreResult: ...

class FusedInferAttentionScoreV2Result(NamedTuple):
    attention: Any
    softmax_lse: Any

def fused_infer_attention_score_v2(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    query_padding_size: Optional[_Tensor] = None,
    kv_padding_size: Optional[_Tensor] = None,
    key_antiquant_scale: Optional[_Tensor] = None,
    key_antiquant_offset: Optional[_Tensor] = None,
    value_antiquant_scale: Optional[_Tensor] = None,
    value_antiquant_offset: Optional[_Tensor] = None,
    key_shared_prefix: Optional[_Tensor] = None,
    value_shared_prefix: Optional[_Tensor] = None,
    actual_shared_prefix_len: Optional[_Ints] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    antiquant_mode: SupportsIndex = ...,
    softmax_lse_flag: _Bool = ...,
    key_antiquant_mode: SupportsIndex = ...,
    value_antiquant_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedInferAttentionScoreV2Result: ...

class FusedInferAttentionScoreV3Result(NamedTuple):
    attention: Any
    softmax_lse: Any

def fused_infer_attention_score_v3(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    query_padding_size: Optional[_Tensor] = None,
    kv_padding_size: Optional[_Tensor] = None,
    key_antiquant_scale: Optional[_Tensor] = None,
    key_antiquant_offset: Optional[_Tensor] = None,
    value_antiquant_scale: Optional[_Tensor] = None,
    value_antiquant_offset: Optional[_Tensor] = None,
    key_shared_prefix: Optional[_Tensor] = None,
    value_shared_prefix: Optional[_Tensor] = None,
    actual_shared_prefix_len: Optional[_Ints] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    key_rope_antiquant_scale: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    antiquant_mode: SupportsIndex = ...,
    softmax_lse_flag: _Bool = ...,
    key_antiquant_mode: SupportsIndex = ...,
    value_antiquant_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedInferAttentionScoreV3Result: ...

class FusedInferAttentionScoreV4Result(NamedTuple):
    attention: Any
    softmax_lse: Any

def fused_infer_attention_score_v4(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    query_padding_size: Optional[_Tensor] = None,
    kv_padding_size: Optional[_Tensor] = None,
    key_antiquant_scale: Optional[_Tensor] = None,
    key_antiquant_offset: Optional[_Tensor] = None,
    value_antiquant_scale: Optional[_Tensor] = None,
    value_antiquant_offset: Optional[_Tensor] = None,
    key_shared_prefix: Optional[_Tensor] = None,
    value_shared_prefix: Optional[_Tensor] = None,
    actual_shared_prefix_len: Optional[_Ints] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    key_rope_antiquant_scale: Optional[_Tensor] = None,
    dequant_scale_query: Optional[_Tensor] = None,
    learnable_sink: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    input_layout: Optional[str] = None,
    num_key_value_heads: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    antiquant_mode: SupportsIndex = ...,
    softmax_lse_flag: _Bool = ...,
    key_antiquant_mode: SupportsIndex = ...,
    value_antiquant_mode: SupportsIndex = ...,
    query_quant_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedInferAttentionScoreV4Result: ...

class FusedInferAttentionScoreV5Result(NamedTuple):
    attention: Any
    softmax_lse: Any

def fused_infer_attention_score_v5(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    query_padding_size: Optional[_Tensor] = None,
    kv_padding_size: Optional[_Tensor] = None,
    key_antiquant_scale: Optional[_Tensor] = None,
    key_antiquant_offset: Optional[_Tensor] = None,
    value_antiquant_scale: Optional[_Tensor] = None,
    value_antiquant_offset: Optional[_Tensor] = None,
    key_shared_prefix: Optional[_Tensor] = None,
    value_shared_prefix: Optional[_Tensor] = None,
    actual_shared_prefix_len: Optional[_Ints] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    key_rope_antiquant_scale: Optional[_Tensor] = None,
    dequant_scale_query: Optional[_Tensor] = None,
    learnable_sink: Optional[_Tensor] = None,
    q_start_idx: Optional[_Ints] = None,
    kv_start_idx: Optional[_Ints] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    antiquant_mode: SupportsIndex = ...,
    softmax_lse_flag: _Bool = ...,
    key_antiquant_mode: SupportsIndex = ...,
    value_antiquant_mode: SupportsIndex = ...,
    query_quant_mode: SupportsIndex = ...,
    pse_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedInferAttentionScoreV5Result: ...

class FusedLinearCrossEntropyLossGradResult(NamedTuple):
    input_grad: Any
    weight_grad: Any

def fused_linear_cross_entropy_loss_grad(
    grad: _Tensor,
    input: _Tensor,
    weight: _Tensor,
    target_mask: _Tensor,
    masked_target: _Tensor,
    label_smoothing: SupportsFloat = 0.0,
    logits_max: Optional[_Tensor] = None,
    sum_exp_logits: Optional[_Tensor] = None,
    softmax: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedLinearCrossEntropyLossGradResult: ...

class FusedLinearOnlineMaxSumResult(NamedTuple):
    logits_max_local: Any
    sum_exp_logits_local: Any
    predicted_logits_local: Any
    target_mask: Any
    masked_target: Any
    vocab_parallel_logits: Any

def fused_linear_online_max_sum(
    input: _Tensor,
    weight: _Tensor,
    target: _Tensor,
    vocab_start_index: SupportsIndex,
    vocab_end_index: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedLinearOnlineMaxSumResult: ...
def fused_matmul(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x3: _Tensor = ...,
    fused_op_type: str = ...,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def fused_matmul_gelu(
    x: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    approximate: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def fused_mul_add_n(
    x1: _Tensor,
    x2: _Tensor,
    x3: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def fused_patch_mlp(
    x: _Tensor,
    weights: _Tensor,
    biases: _Tensor,
    num_layers: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def fused_quant_matmul(
    x1: _Tensor,
    x2: _Tensor,
    x1_scale: _Tensor,
    x2_scale: _Tensor,
    y_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    y_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    fused_op_type: str = ...,
    group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def fused_quant_matmul_weight_nz(
    x1: _Tensor,
    x2: _Tensor,
    x1_scale: _Tensor,
    x2_scale: _Tensor,
    y_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    y_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    fused_op_type: str = ...,
    group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class FusedSgdResult(NamedTuple):
    params: Any
    grads: Any
    momentum_buffer_list: Any

def fused_sgd(
    params: Sequence[_Tensor],
    grads: Sequence[_Tensor],
    momentum_buffer_list: Optional[Sequence[_Tensor]] = None,
    grad_scale: Optional[_Tensor] = None,
    weight_decay: SupportsFloat = 0.0,
    momentum: SupportsFloat = 0.0,
    lr: SupportsFloat = 0.001,
    dampening: SupportsFloat = 0.0,
    nesterov: _Bool = False,
    maximize: _Bool = False,
    is_first_step: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> FusedSgdResult: ...
def gather(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def gather_elements_v3(
    x: _Tensor,
    index: _Tensor,
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def gather_nd(
    self: _Tensor,
    indices: _Tensor,
    negative_index_support: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GatherPaKvCacheResult(NamedTuple):
    key: Any
    value: Any

def gather_pa_kv_cache(
    key_cache: _Tensor,
    value_cache: _Tensor,
    block_tables: _Tensor,
    seq_lens: _Tensor,
    key: _Tensor,
    value: _Tensor,
    seq_offset: Optional[_Tensor] = None,
    cache_mode: str = "Norm",
    is_seq_lens_cumsum: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GatherPaKvCacheResult: ...
def gather_v2(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def gather_v3(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    batch_dims: SupportsIndex,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def gaussian_blur(
    src: _Tensor,
    ksize: _Ints,
    sigma_x: SupportsFloat,
    sigma_y: SupportsFloat,
    border_type: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def gaussian_nll_loss(
    input: _Tensor,
    target: _Tensor,
    var: _Tensor,
    full: _Bool = False,
    eps: SupportsFloat = 1e-06,
    reduction: Optional[str] = "mean",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GaussianNllLossGradResult(NamedTuple):
    grad_input: Any
    grad_var: Any

def gaussian_nll_loss_grad(
    grad_output: _Tensor,
    input: _Tensor,
    target: _Tensor,
    var: _Tensor,
    full: _Bool = False,
    eps: SupportsFloat = 1e-06,
    reduction: Optional[str] = "mean",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GaussianNllLossGradResult: ...
def gcd(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class GeGluResult(NamedTuple):
    out: Any
    out_gelu: Any

def ge_glu(
    self: _Tensor,
    dim: SupportsIndex,
    approximate: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GeGluResult: ...
def ge_glu_backward(
    grad_output: _Tensor,
    self: _Tensor,
    gelu: _Tensor,
    dim: SupportsIndex,
    approximate: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GeGluV3Result(NamedTuple):
    out: Any
    out_gelu: Any

def ge_glu_v3(
    self: _Tensor,
    dim: SupportsIndex,
    approximate: SupportsIndex,
    activate_left: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GeGluV3Result: ...
def ge_glu_v3_backward(
    grad_output: _Tensor,
    self: _Tensor,
    gelu: _Tensor,
    dim: SupportsIndex,
    approximate: SupportsIndex,
    activate_left: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ge_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def ge_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def gelu(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def gelu_backward(grad_output: _Tensor, self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def gelu_backward_v2(
    grad_output: _Tensor,
    self: _Tensor,
    approximate: str,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def gelu_mul(
    input: _Tensor,
    approximate: Optional[str] = "none",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GeluQuantResult(NamedTuple):
    y: Any
    out_scale: Any

def gelu_quant(
    self: _Tensor,
    input_scale: Optional[_Tensor] = None,
    input_offset: Optional[_Tensor] = None,
    approximate: str = "none",
    quant_mode: str = "dynamic",
    round_mode: str = "rint",
    dst_type: SupportsIndex = 2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GeluQuantResult: ...
def gelu_v2(
    x: _Tensor,
    approximate: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def gemm(
    a: _Tensor,
    b: _Tensor,
    c: _Tensor,
    alpha: SupportsFloat,
    beta: SupportsFloat,
    trans_a: SupportsIndex,
    trans_b: SupportsIndex,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GemmaRmsNormResult(NamedTuple):
    y: Any
    rstd: Any

def gemma_rms_norm(
    x: _Tensor,
    gamma: _Tensor,
    epsilon: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GemmaRmsNormResult: ...
def ger(self: _Tensor, vec2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def ger_v2(
    x: _Tensor,
    y: _Tensor,
    a: _Tensor,
    alpha: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def global_average_pool(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def global_max_pool(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def glu(self: _Tensor, dim: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def glu_backward(
    grad_out: _Tensor,
    self: _Tensor,
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grid_sampler2_d(
    input: _Tensor,
    grid: _Tensor,
    interpolation_mode: SupportsIndex,
    padding_mode: SupportsIndex,
    align_corners: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GridSampler2DBackwardResult(NamedTuple):
    input_grad: Any
    grid_grad: Any

def grid_sampler2_d_backward(
    grad_output: _Tensor,
    input: _Tensor,
    grid: _Tensor,
    interpolation_mode: SupportsIndex,
    padding_mode: SupportsIndex,
    align_corners: _Bool,
    output_mask: _Bools,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GridSampler2DBackwardResult: ...
def grid_sampler3_d(
    input: _Tensor,
    grid: _Tensor,
    interpolation_mode: SupportsIndex,
    padding_mode: SupportsIndex,
    align_corners: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GridSampler3DBackwardResult(NamedTuple):
    input_grad: Any
    grid_grad: Any

def grid_sampler3_d_backward(
    grad_output: _Tensor,
    input: _Tensor,
    grid: _Tensor,
    interpolation_mode: SupportsIndex,
    padding_mode: SupportsIndex,
    align_corners: _Bool,
    output_mask: _Bools,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GridSampler3DBackwardResult: ...

class GroupNormResult(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def group_norm(
    self: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    n: SupportsIndex,
    c: SupportsIndex,
    hx_w: SupportsIndex,
    group: SupportsIndex,
    eps: SupportsFloat = 0.0001,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupNormResult: ...

class GroupNormBackwardResult(NamedTuple):
    grad_input: Any
    grad_gamma: Any
    grad_beta: Any

def group_norm_backward(
    grad_out: _Tensor,
    input: _Tensor,
    mean: _Tensor,
    rstd: _Tensor,
    gamma: Optional[_Tensor] = None,
    n: SupportsIndex = ...,
    c: SupportsIndex = ...,
    hx_w: SupportsIndex = ...,
    group: SupportsIndex = ...,
    output_mask: _Bools = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupNormBackwardResult: ...

class GroupNormSiluResult(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def group_norm_silu(
    self: _Tensor,
    gamma: Optional[_Tensor] = None,
    beta: Optional[_Tensor] = None,
    group: SupportsIndex = ...,
    eps: SupportsFloat = 1e-05,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupNormSiluResult: ...

class GroupNormSiluQuantResult(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def group_norm_silu_quant(
    self: _Tensor,
    gamma: Optional[_Tensor] = None,
    beta: Optional[_Tensor] = None,
    quant_scale: _Tensor = ...,
    group: SupportsIndex = ...,
    eps: SupportsFloat = 1e-05,
    activate_silu: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupNormSiluQuantResult: ...

class GroupNormSiluV2Result(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def group_norm_silu_v2(
    self: _Tensor,
    gamma: Optional[_Tensor] = None,
    beta: Optional[_Tensor] = None,
    group: SupportsIndex = ...,
    eps: SupportsFloat = ...,
    activate_silu: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupNormSiluV2Result: ...

class GroupNormSwishResult(NamedTuple):
    y: Any
    mean: Any
    rstd: Any

def group_norm_swish(
    x: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    num_groups: SupportsIndex,
    data_format: Optional[str] = "NCHW",
    eps: SupportsFloat = 1e-05,
    activate_swish: _Bool = True,
    swish_scale: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupNormSwishResult: ...

class GroupNormSwishGradResult(NamedTuple):
    dx: Any
    dgamma: Any
    dbeta: Any

def group_norm_swish_grad(
    dy: _Tensor,
    mean: _Tensor,
    rstd: _Tensor,
    x: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    num_groups: SupportsIndex,
    data_format: Optional[str] = "NCHW",
    swish_scale: SupportsFloat = 1.0,
    dgamma_is_require: _Bool = True,
    dbeta_is_require: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupNormSwishGradResult: ...
def group_normalization_grad(
    x: _Tensor,
    dy: _Tensor,
    gamma: _Tensor,
    mean: _Tensor,
    rstd: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def group_quant(
    x: _Tensor,
    scale: _Tensor,
    group_index: _Tensor,
    offset: Optional[_Tensor] = None,
    dst_type: SupportsIndex = 2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_bias_add_grad(
    grad_y: _Tensor,
    group_idx: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_bias_add_grad_v2(
    grad_y: _Tensor,
    group_idx: Optional[_Tensor] = None,
    group_idx_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GroupedDynamicBlockQuantResult(NamedTuple):
    y: Any
    scale: Any

def grouped_dynamic_block_quant(
    x: _Tensor,
    group_list: _Tensor,
    min_scale: SupportsFloat = 0.0,
    round_mode: Optional[str] = "rint",
    dst_type: SupportsIndex = 35,
    row_block_size: SupportsIndex = 1,
    col_block_size: SupportsIndex = 128,
    group_list_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedDynamicBlockQuantResult: ...

class GroupedDynamicBlockQuantV2Result(NamedTuple):
    y: Any
    scale: Any

def grouped_dynamic_block_quant_v2(
    x: _Tensor,
    group_list: _Tensor,
    min_scale: SupportsFloat,
    round_mode: Optional[str] = None,
    dst_type: SupportsIndex = ...,
    row_block_size: SupportsIndex = ...,
    col_block_size: SupportsIndex = ...,
    group_list_type: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedDynamicBlockQuantV2Result: ...

class GroupedDynamicMxQuantResult(NamedTuple):
    y: Any
    mxscale: Any

def grouped_dynamic_mx_quant(
    x: _Tensor,
    group_index: _Tensor,
    round_mode: str = "rint",
    dst_type: SupportsIndex = 35,
    blocksize: SupportsIndex = 32,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedDynamicMxQuantResult: ...

class GroupedDynamicMxQuantV2Result(NamedTuple):
    y: Any
    mxscale: Any

def grouped_dynamic_mx_quant_v2(
    x: _Tensor,
    group_index: _Tensor,
    round_mode: str,
    dst_type: SupportsIndex,
    blocksize: SupportsIndex,
    scale_alg: SupportsIndex,
    dst_type_max: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedDynamicMxQuantV2Result: ...

class GroupedDynamicMxQuantWithDualAxisResult(NamedTuple):
    y1: Any
    y1_scale: Any
    y2: Any
    y2_scale: Any

def grouped_dynamic_mx_quant_with_dual_axis(
    x: _Tensor,
    group_index: _Tensor,
    round_mode: Optional[str] = "rint",
    scale_alg: SupportsIndex = 1,
    dst_dtype: SupportsIndex = 36,
    max_dtype_value: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedDynamicMxQuantWithDualAxisResult: ...
def grouped_mat_mul_all_reduce(
    x: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    group_list: Optional[_Ints] = None,
    split_item: SupportsIndex = 0,
    group: Optional[str] = None,
    reduce_op: Optional[str] = "sum",
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GroupedMatMulAlltoAllvResult(NamedTuple):
    y: Any
    mm_y: Any

def grouped_mat_mul_allto_allv(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    group: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = False,
    trans_mm_weight: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatMulAlltoAllvResult: ...

class GroupedMatMulAlltoAllvV2Result(NamedTuple):
    y: Any
    mm_y: Any

def grouped_mat_mul_allto_allv_v2(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    group: str = ...,
    comm_mode: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = ...,
    trans_mm_weight: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatMulAlltoAllvV2Result: ...
def grouped_matmul(
    x: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    scale: Optional[Sequence[_Tensor]] = None,
    offset: Optional[Sequence[_Tensor]] = None,
    antiquant_scale: Optional[Sequence[_Tensor]] = None,
    antiquant_offset: Optional[Sequence[_Tensor]] = None,
    group_list: Optional[_Ints] = None,
    split_item: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GroupedMatmulActivationQuantWeightNzResult(NamedTuple):
    y: Any
    y_scale: Any

def grouped_matmul_activation_quant_weight_nz(
    x: _Tensor,
    group_list: _Tensor,
    weight: Sequence[_Tensor],
    weight_scale: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    x_scale: Optional[_Tensor] = None,
    activation_type: str = ...,
    group_list_type: SupportsIndex = ...,
    tuning_config: Optional[_Ints] = None,
    quant_mode: Optional[str] = None,
    round_mode: Optional[str] = None,
    scale_alg: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulActivationQuantWeightNzResult: ...
def grouped_matmul_add(
    x: _Tensor,
    weight: _Tensor,
    group_list: _Tensor,
    y: _Tensor,
    transpose_x: _Bool = True,
    transpose_weight: _Bool = False,
    group_type: SupportsIndex = 2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_matmul_add_v2(
    x: _Tensor,
    weight: _Tensor,
    group_list: _Tensor,
    y: _Tensor,
    transpose_x: _Bool,
    transpose_weight: _Bool,
    group_type: SupportsIndex,
    group_list_type: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_matmul_finalize_routing(
    x: _Tensor,
    w: _Tensor,
    scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    pertoken_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    shared_input: Optional[_Tensor] = None,
    logit: Optional[_Tensor] = None,
    row_index: Optional[_Tensor] = None,
    dtype: SupportsIndex = 0,
    shared_input_weight: SupportsFloat = 1.0,
    shared_input_offset: SupportsIndex = 0,
    transpose_x: _Bool = False,
    transpose_w: _Bool = False,
    group_list_type: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_matmul_finalize_routing_v2(
    x1: _Tensor,
    x2: _Tensor,
    scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    pertoken_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    shared_input: Optional[_Tensor] = None,
    logit: Optional[_Tensor] = None,
    row_index: Optional[_Tensor] = None,
    dtype: SupportsIndex = ...,
    shared_input_weight: SupportsFloat = ...,
    shared_input_offset: SupportsIndex = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    group_list_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_matmul_finalize_routing_v3(
    x1: _Tensor,
    x2: _Tensor,
    scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    pertoken_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    shared_input: Optional[_Tensor] = None,
    logit: Optional[_Tensor] = None,
    row_index: Optional[_Tensor] = None,
    dtype: SupportsIndex = ...,
    shared_input_weight: SupportsFloat = ...,
    shared_input_offset: SupportsIndex = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    group_list_type: SupportsIndex = ...,
    tuning_config: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_matmul_finalize_routing_weight_nz(
    x: _Tensor,
    w: _Tensor,
    scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    pertoken_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    shared_input: Optional[_Tensor] = None,
    logit: Optional[_Tensor] = None,
    row_index: Optional[_Tensor] = None,
    dtype: SupportsIndex = ...,
    shared_input_weight: SupportsFloat = ...,
    shared_input_offset: SupportsIndex = ...,
    transpose_x: _Bool = ...,
    transpose_w: _Bool = ...,
    group_list_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_matmul_finalize_routing_weight_nz_v2(
    x1: _Tensor,
    x2: _Tensor,
    scale: _Tensor,
    bias: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    pertoken_scale: Optional[_Tensor] = None,
    group_list: _Tensor = ...,
    shared_input: _Tensor = ...,
    logit: _Tensor = ...,
    row_index: _Tensor = ...,
    dtype: SupportsIndex = ...,
    shared_input_weight: SupportsFloat = ...,
    shared_input_offset: SupportsIndex = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    group_list_type: SupportsIndex = ...,
    tuning_config: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GroupedMatmulSwigluQuantResult(NamedTuple):
    output: Any
    output_scale: Any
    output_offset: Any

def grouped_matmul_swiglu_quant(
    x: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    weight_scale: _Tensor = ...,
    x_scale: _Tensor = ...,
    group_list: _Tensor = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulSwigluQuantResult: ...

class GroupedMatmulSwigluQuantV2Result(NamedTuple):
    output: Any
    output_scale: Any

def grouped_matmul_swiglu_quant_v2(
    x: _Tensor,
    weight: Sequence[_Tensor],
    weight_scale: Sequence[_Tensor],
    weight_assist_matrix: Optional[Sequence[_Tensor]] = None,
    bias: Optional[_Tensor] = None,
    x_scale: _Tensor = ...,
    smooth_scale: Optional[_Tensor] = None,
    group_list: _Tensor = ...,
    dequant_mode: SupportsIndex = 0,
    dequant_dtype: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    group_list_type: SupportsIndex = 0,
    tuning_config: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulSwigluQuantV2Result: ...

class GroupedMatmulSwigluQuantWeightNZResult(NamedTuple):
    output: Any
    output_scale: Any
    output_offset: Any

def grouped_matmul_swiglu_quant_weight_nz(
    x: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    weight_scale: _Tensor = ...,
    x_scale: _Tensor = ...,
    group_list: _Tensor = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulSwigluQuantWeightNZResult: ...

class GroupedMatmulSwigluQuantWeightNzV2Result(NamedTuple):
    output: Any
    output_scale: Any

def grouped_matmul_swiglu_quant_weight_nz_v2(
    x: _Tensor,
    weight: Sequence[_Tensor],
    weight_scale: Sequence[_Tensor],
    weight_assist_matrix: Optional[Sequence[_Tensor]] = None,
    bias: Optional[_Tensor] = None,
    x_scale: _Tensor = ...,
    smooth_scale: Optional[_Tensor] = None,
    group_list: _Tensor = ...,
    dequant_mode: SupportsIndex = ...,
    dequant_dtype: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    group_list_type: SupportsIndex = ...,
    tuning_config: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulSwigluQuantWeightNzV2Result: ...
def grouped_matmul_v2(
    x: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    scale: Optional[Sequence[_Tensor]] = None,
    offset: Optional[Sequence[_Tensor]] = None,
    antiquant_scale: Optional[Sequence[_Tensor]] = None,
    antiquant_offset: Optional[Sequence[_Tensor]] = None,
    group_list: Optional[_Ints] = None,
    split_item: SupportsIndex = ...,
    group_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def grouped_matmul_v3(
    x: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    scale: Optional[Sequence[_Tensor]] = None,
    offset: Optional[Sequence[_Tensor]] = None,
    antiquant_scale: Optional[Sequence[_Tensor]] = None,
    antiquant_offset: Optional[Sequence[_Tensor]] = None,
    group_list: Optional[_Tensor] = None,
    split_item: SupportsIndex = ...,
    group_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class GroupedMatmulV4Result(NamedTuple):
    out: Any
    activation_feature: Any
    dyn_quant_scale: Any

def grouped_matmul_v4(
    x: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    scale: Optional[Sequence[_Tensor]] = None,
    offset: Optional[Sequence[_Tensor]] = None,
    antiquant_scale: Optional[Sequence[_Tensor]] = None,
    antiquant_offset: Optional[Sequence[_Tensor]] = None,
    per_token_scale: Optional[Sequence[_Tensor]] = None,
    group_list: Optional[_Tensor] = None,
    activation_input: Optional[Sequence[_Tensor]] = None,
    activation_quant_scale: Optional[Sequence[_Tensor]] = None,
    activation_quant_offset: Optional[Sequence[_Tensor]] = None,
    split_item: SupportsIndex = ...,
    group_type: SupportsIndex = ...,
    group_list_type: SupportsIndex = ...,
    act_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulV4Result: ...

class GroupedMatmulV5Result(NamedTuple):
    out: Any
    activation_feature: Any
    dyn_quant_scale: Any

def grouped_matmul_v5(
    x: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    scale: Optional[Sequence[_Tensor]] = None,
    offset: Optional[Sequence[_Tensor]] = None,
    antiquant_scale: Optional[Sequence[_Tensor]] = None,
    antiquant_offset: Optional[Sequence[_Tensor]] = None,
    per_token_scale: Optional[Sequence[_Tensor]] = None,
    group_list: Optional[_Tensor] = None,
    activation_input: Optional[Sequence[_Tensor]] = None,
    activation_quant_scale: Optional[Sequence[_Tensor]] = None,
    activation_quant_offset: Optional[Sequence[_Tensor]] = None,
    split_item: SupportsIndex = ...,
    group_type: SupportsIndex = ...,
    group_list_type: SupportsIndex = ...,
    act_type: SupportsIndex = ...,
    tuning_config: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulV5Result: ...

class GroupedMatmulWeightNzResult(NamedTuple):
    out: Any
    activation_feature: Any
    dyn_quant_scale: Any

def grouped_matmul_weight_nz(
    x: Sequence[_Tensor],
    weight: Sequence[_Tensor],
    bias: Optional[Sequence[_Tensor]] = None,
    scale: Optional[Sequence[_Tensor]] = None,
    offset: Optional[Sequence[_Tensor]] = None,
    antiquant_scale: Optional[Sequence[_Tensor]] = None,
    antiquant_offset: Optional[Sequence[_Tensor]] = None,
    per_token_scale: Optional[Sequence[_Tensor]] = None,
    group_list: Optional[_Tensor] = None,
    activation_input: Optional[Sequence[_Tensor]] = None,
    activation_quant_scale: Optional[Sequence[_Tensor]] = None,
    activation_quant_offset: Optional[Sequence[_Tensor]] = None,
    split_item: SupportsIndex = ...,
    group_type: SupportsIndex = ...,
    group_list_type: SupportsIndex = ...,
    act_type: SupportsIndex = ...,
    tuning_config: Optional[_Ints] = None,
    quant_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedMatmulWeightNzResult: ...

class GroupedQuantMaxResult(NamedTuple):
    y: Any
    amax: Any

def grouped_quant_max(
    x: _Tensor,
    scale: _Tensor,
    group_list: _Tensor,
    round_mode: str = "rint",
    dst_type: SupportsIndex = 35,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GroupedQuantMaxResult: ...

class GRUResult(NamedTuple):
    output: Any
    hy: Any
    r: Any
    z: Any
    n: Any
    hn: Any
    h: Any

def gru(
    input: _Tensor,
    params: Sequence[_Tensor],
    hx: Optional[_Tensor] = None,
    batch_sizes: Optional[_Tensor] = None,
    has_bias: _Bool = ...,
    num_layers: SupportsIndex = ...,
    dropout: SupportsFloat = ...,
    train: _Bool = ...,
    bidirection: _Bool = ...,
    batch_first: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GRUResult: ...

class GRUBackwardResult(NamedTuple):
    dx: Any
    dh_prev: Any
    dparams: Any

def gru_backward(
    input: _Tensor,
    params: Sequence[_Tensor],
    hx: _Tensor,
    dy: _Tensor,
    dh: _Tensor,
    r: Sequence[_Tensor],
    z: Sequence[_Tensor],
    n: Sequence[_Tensor],
    hn: Sequence[_Tensor],
    h: Sequence[_Tensor],
    batch_sizes: Optional[_Tensor] = None,
    has_bias: _Bool = ...,
    num_layers: SupportsIndex = ...,
    bidirection: _Bool = ...,
    batch_first: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> GRUBackwardResult: ...
def gt_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def gt_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hans_decode(
    mantissa: _Tensor,
    fixed: _Tensor,
    var: _Tensor,
    pdf: _Tensor,
    reshuff: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class HansEncodeResult(NamedTuple):
    pdf: Any
    mantissa: Any
    fixed: Any
    var: Any

def hans_encode(
    input_tensor: _Tensor,
    pdf: _Tensor,
    statistic: _Bool = False,
    reshuff: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> HansEncodeResult: ...
def hard_shrink(self: _Tensor, lambd: _Scalar = 0.5, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hard_sigmoid(
    input_x: _Tensor,
    alpha: SupportsFloat = 0.16666666666666666,
    beta: SupportsFloat = 0.5,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hard_sigmoid_grad_v2(
    grad_output: _Tensor,
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hard_swish(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hard_swish_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hardshrink(self: _Tensor, lambd: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hardshrink_backward(
    grad_output: _Tensor,
    self: _Tensor,
    lambd: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hardsigmoid(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hardsigmoid_backward(
    grad_output: _Tensor,
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hardsigmoid_v2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hardswish(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hardswish_backward(
    grad_output: _Tensor,
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hardswish_backward_v2(
    grad_output: _Tensor,
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hardtanh(
    self: _Tensor,
    clip_value_min: _Scalar,
    clip_value_max: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hardtanh_backward(
    grad_output: _Tensor,
    self: _Tensor,
    min: _Scalar,
    max: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def heaviside(input: _Tensor, values: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hinge_embedding_loss(
    input: _Tensor,
    target: _Tensor,
    margin: SupportsFloat = 1.0,
    reduction: Optional[str] = "mean",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def hinge_loss(predict: _Tensor, target: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def hinge_loss_grad(
    predict: _Tensor,
    target: _Tensor,
    grad_output: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def histc(
    self: _Tensor,
    bins: SupportsIndex,
    min: _Scalar,
    max: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def huber_loss(
    predictions: _Tensor,
    targets: _Tensor,
    delta: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def huber_loss_grad(
    predictions: _Tensor,
    targets: _Tensor,
    delta: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def im2_col(
    x: _Tensor,
    kernel_h: SupportsIndex = 2,
    kernel_w: SupportsIndex = 2,
    stride_h: SupportsIndex = 1,
    stride_w: SupportsIndex = 1,
    pad_h: SupportsIndex = 0,
    pad_w: SupportsIndex = 0,
    dilation_h: SupportsIndex = 1,
    dilation_w: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def im2col(
    self: _Tensor,
    kernel_size: _Ints,
    dilation: _Ints,
    padding: _Ints,
    stride: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def im2col_backward(
    grad_output: _Tensor,
    input_size: _Ints,
    kernel_size: _Ints,
    dilation: _Ints,
    padding: _Ints,
    stride: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def incre_flash_attention(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: _Tensor = ...,
    actual_seq_lengths: _Ints = ...,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def incre_flash_attention_v2(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: _Tensor = ...,
    actual_seq_lengths: _Ints = ...,
    dequant_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    dequant_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def incre_flash_attention_v3(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: _Tensor = ...,
    actual_seq_lengths: _Ints = ...,
    dequant_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    dequant_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    blocktable: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def incre_flash_attention_v4(
    query: _Tensor,
    key: Sequence[_Tensor],
    value: Sequence[_Tensor],
    pse_shift: Optional[_Tensor] = None,
    atten_mask: _Tensor = ...,
    actual_seq_lengths: _Ints = ...,
    dequant_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    dequant_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    antiquant_scale: Optional[_Tensor] = None,
    antiquant_offset: Optional[_Tensor] = None,
    blocktable: Optional[_Tensor] = None,
    kv_padding_size: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def index(self: _Tensor, indices: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def index_add(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    source: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def index_add_v2(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    source: _Tensor,
    alpha: _Scalar,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class IndexCopyResult(NamedTuple):
    self: Any
    out_: Any

def index_copy(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    source: _Tensor,
    out_: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> IndexCopyResult: ...
def index_fill(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def index_fill_tensor(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Ints,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def index_put_impl(
    self: _Tensor,
    indices: Sequence[_Tensor],
    values: _Tensor,
    accumulate: _Bool,
    unsafe: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def index_select(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class IndexerQuantCacheResult(NamedTuple):
    cache: Any
    cache_scale: Any

def indexer_quant_cache(
    cache: _Tensor,
    cache_scale: _Tensor,
    x: _Tensor,
    slot_mapping: _Tensor,
    quant_mode: SupportsIndex = 1,
    round_scale: _Bool = True,
    x_scale: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> IndexerQuantCacheResult: ...
def inplace_acos(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_acosh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_add(
    self: _Tensor,
    other: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_add_relu(
    self: _Tensor,
    other: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class InplaceAddRmsNormResult(NamedTuple):
    x1: Any
    x2: Any
    rstd: Any

def inplace_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    gamma: _Tensor,
    epsilon: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> InplaceAddRmsNormResult: ...
def inplace_add_v3(
    self: _Scalar,
    other: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_addbmm(
    self: _Tensor,
    batch1: _Tensor,
    batch2: _Tensor,
    beta: _Scalar,
    alpha: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_addcdiv(
    self: _Tensor,
    tensor1: _Tensor,
    tensor2: _Tensor,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_addcmul(
    self: _Tensor,
    tensor1: _Tensor,
    tensor2: _Tensor,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_addmm(
    self: _Tensor,
    mat1: _Tensor,
    mat2: _Tensor,
    beta: _Scalar,
    alpha: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_addr(
    self: _Tensor,
    vec1: _Tensor,
    vec2: _Tensor,
    beta: Optional[_Scalar] = None,
    alpha: Optional[_Scalar] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_addr_v2(
    self: _Tensor,
    vec1: _Tensor,
    vec2: _Tensor,
    beta: Optional[_Scalar] = None,
    alpha: Optional[_Scalar] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_adds(
    self: _Tensor,
    other: _Scalar,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_asin(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_asinh(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_atan(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_atan2(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_atanh(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_attention_worker_scheduler(
    schedule_context: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_baddbmm(
    self: _Tensor,
    batch1: _Tensor,
    batch2: _Tensor,
    beta: _Scalar,
    alpha: _Scalar,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bernoulli(
    self: _Tensor,
    prob: _Scalar,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bernoulli_tensor(
    self: _Tensor,
    prob: _Tensor,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bitwise_and_scalar(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bitwise_and_tensor(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bitwise_and_tensor_out(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bitwise_or_scalar(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bitwise_or_tensor(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bitwise_xor_scalar(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_bitwise_xor_tensor(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_ceil(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_celu(self: _Tensor, alpha: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_clamp_max(
    self: _Tensor,
    clip_value_max: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_clamp_max_tensor(
    self: _Tensor,
    max: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_clamp_min_tensor(
    self: _Tensor,
    clip_value_min: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_copy(self: _Tensor, src: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_cos(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_cosh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_cumprod(input: _Tensor, dim: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_div(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_div_mod(
    self: _Tensor,
    other: _Tensor,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_div_mods(
    self: _Tensor,
    other: _Scalar,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_divs(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_elu(
    self: _Tensor,
    alpha: _Scalar,
    scale: _Scalar,
    input_scale: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_eq_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_eq_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_erf(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_erfc(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_erfinv(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_exp(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_exp2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_expm1(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_ffn_worker_scheduler(
    schedule_context: _Tensor,
    sync_group_size: SupportsIndex,
    execute_mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_fill_diagonal(
    self: _Tensor,
    fill_value: _Scalar,
    wrap: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_fill_scalar(self: _Tensor, value: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_fill_tensor(self: _Tensor, value: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_floor(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_floor_divide(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_floor_divides(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_fmod_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_fmod_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_frac(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class InplaceFusedCausalConv1dResult(NamedTuple):
    x: Any
    conv_states: Any

def inplace_fused_causal_conv1d(
    x: _Tensor,
    weight: _Tensor,
    conv_states: _Tensor,
    query_start_loc: Optional[_Tensor] = None,
    cache_indices: Optional[_Tensor] = None,
    initial_state_mode: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    num_accepted_tokens: Optional[_Tensor] = None,
    num_computed_tokens: Optional[_Tensor] = None,
    block_idx_first_scheduled_token: Optional[_Tensor] = None,
    block_idx_last_scheduled_token: Optional[_Tensor] = None,
    initial_state_idx: Optional[_Tensor] = None,
    activation_mode: SupportsIndex = ...,
    pad_slot_id: SupportsIndex = ...,
    run_mode: SupportsIndex = ...,
    max_query_len: SupportsIndex = ...,
    residual_connection: SupportsIndex = ...,
    block_size: SupportsIndex = ...,
    conv_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> InplaceFusedCausalConv1dResult: ...
def inplace_ge_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_ge_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_gt_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_gt_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_hardsigmoid(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_hardsigmoid_v2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_hardswish(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_hardtanh(
    self: _Tensor,
    clip_value_min: _Scalar,
    clip_value_max: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_index_copy(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    source: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_index_fill(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_index_fill_tensor(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Ints,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_le_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_le_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_leaky_relu(
    self: _Tensor,
    negative_slope: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_lerp(
    self: _Tensor,
    end: _Tensor,
    weight: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_lerps(
    self: _Tensor,
    end: _Tensor,
    weight: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_log(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_log10(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_log1p(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_log2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_logical_and(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_logical_not(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_logical_or(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_lt_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_lt_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_masked_fill_scalar(
    self: _Tensor,
    mask: _Tensor,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_masked_fill_tensor(
    self: _Tensor,
    mask: _Tensor,
    value: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_masked_scatter(
    self: _Tensor,
    mask: _Tensor,
    source: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_matmul_all_reduce_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    residual: _Tensor = ...,
    gamma: _Tensor = ...,
    epsilon: SupportsFloat = 1e-06,
    group: str = ...,
    reduce_op: str = "sum",
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_mish(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_mul(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_muls(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_nan_to_num(
    self: _Tensor,
    nan: SupportsFloat,
    posinf: SupportsFloat,
    neginf: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_ne_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_ne_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_neg(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_normal(
    self: _Tensor,
    mean: SupportsFloat,
    std: SupportsFloat,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_normal_tensor(
    self: _Tensor,
    mean: SupportsFloat,
    std: SupportsFloat,
    seed_tensor: _Tensor,
    offset_tensor: _Tensor,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_one(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_partial_rotary_mul(
    x: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    rotary_mode: SupportsIndex = 0,
    partial_slice: _Ints = (0, 0),
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_partial_rotary_mul_grad(
    dy: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    rotary_mode: SupportsIndex = 0,
    partial_slice: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_pow_tensor_scalar(
    self: _Tensor,
    exponent: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_pow_tensor_tensor(
    self: _Tensor,
    exponent: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_put(
    self: _Tensor,
    index: _Tensor,
    source: _Tensor,
    accumulate: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_quant_matmul_all_reduce_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    dequant_scale: _Tensor = ...,
    residual: _Tensor = ...,
    gamma: _Tensor = ...,
    epsilon: SupportsFloat = ...,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_quant_scatter(
    self: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    quant_scales: _Tensor,
    quant_zero_points: Optional[_Tensor] = None,
    axis: SupportsIndex = ...,
    quant_axis: SupportsIndex = ...,
    reduction: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_quant_scatter_v2(
    self: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    quant_scales: _Tensor,
    quant_zero_points: Optional[_Tensor] = None,
    axis: SupportsIndex = ...,
    quant_axis: SupportsIndex = ...,
    reduction: SupportsIndex = ...,
    round_mode: str = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_r_relu_with_noise(
    self: _Tensor,
    noise: _Tensor,
    lower: _Scalar,
    upper: _Scalar,
    training: _Bool,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_random(
    self: _Tensor,
    from_: SupportsIndex,
    to: SupportsIndex,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_random_tensor(
    self: _Tensor,
    from_: SupportsIndex,
    to: SupportsIndex,
    seed_tensor: _Tensor,
    offset_tensor: _Tensor,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_random_without_from_to(
    self: _Tensor,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_random_without_from_to_tensor(
    self: _Tensor,
    seed_tensor: _Tensor,
    offset_tensor: _Tensor,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_reciprocal(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_relu(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_remainder_tensor_scalar(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_remainder_tensor_tensor(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_renorm(
    self: _Tensor,
    p: _Scalar,
    dim: SupportsIndex,
    max_norm: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_round(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_round_decimals(
    self: _Tensor,
    decimals: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_rsqrt(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_scatter(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    src: _Tensor,
    reduce: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_scatter_reduce(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    src: _Tensor,
    reduce: SupportsIndex,
    include_self: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_scatter_update(
    data: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    axis: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_scatter_value(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    value: _Scalar,
    reduce: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_selu(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_sigmoid(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_sin(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_sinc(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_sinh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_sqrt(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_sub(
    self: _Tensor,
    other: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_subs(
    self: _Tensor,
    other: _Scalar,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_tan(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_tanh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_threshold(
    self: _Tensor,
    threshold: _Scalar,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_tril(
    self: _Tensor,
    diagonal: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_triu(
    self: _Tensor,
    diagonal: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_trunc(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def inplace_uniform(
    self: _Tensor,
    from_: SupportsFloat,
    to: SupportsFloat,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_uniform_tensor(
    self: _Tensor,
    from_: SupportsFloat,
    to: SupportsFloat,
    seed_tensor: _Tensor,
    offset_tensor: _Tensor,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class InplaceWeightQuantMatmulAllReduceAddRmsNormResult(NamedTuple):
    x1: Any
    norm: Any

def inplace_weight_quant_matmul_all_reduce_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    antiquant_scale: _Tensor = ...,
    antiquant_offset: Optional[_Tensor] = None,
    residual: _Tensor = ...,
    gamma: _Tensor = ...,
    epsilon: SupportsFloat = ...,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    antiquant_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> InplaceWeightQuantMatmulAllReduceAddRmsNormResult: ...
def inplace_x_log_y_scalar_other(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_x_log_y_tensor(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inplace_zero(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class InstanceNormResult(NamedTuple):
    y: Any
    mean: Any
    variance: Any

def instance_norm(
    x: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    data_format: str = "NDHWC",
    eps: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> InstanceNormResult: ...
def interleave_rope(
    x: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def inverse(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def invert_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def iou(
    b_boxes: _Tensor,
    gt_boxes: _Tensor,
    mode: str,
    eps: SupportsFloat,
    aligned: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def is_close(
    self: _Tensor,
    other: _Tensor,
    rtol: SupportsFloat = 1e-05,
    atol: SupportsFloat = 1e-08,
    equal_nan: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def is_finite(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def is_in_scalar_tensor(
    element: _Scalar,
    test_elements: _Tensor,
    assume_unique: _Bool,
    invert: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def is_in_tensor_scalar(
    element: _Tensor,
    test_element: _Scalar,
    assume_unique: _Bool,
    invert: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def is_inf(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def is_neg_inf(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def is_pos_inf(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def isin_part_v1(
    value: _Tensor,
    index: _Tensor,
    elements_num: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class JacobiResult(NamedTuple):
    u: Any
    s: Any
    v: Any

def jacobi(
    a: _Tensor,
    num_iterations: SupportsIndex = 10,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> JacobiResult: ...
def kl_div(
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    log_target: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def kl_div_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    log_target: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def kl_div_target_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    log_target: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class KthvalueResult(NamedTuple):
    values: Any
    indices: Any

def kthvalue(
    self: _Tensor,
    k: SupportsIndex,
    dim: SupportsIndex,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> KthvalueResult: ...
def kv_compress_epilog(
    cache: _Tensor,
    x: _Tensor,
    slot_mapping: _Tensor,
    quant_group_size: SupportsIndex = 64,
    quant_mode: SupportsIndex = 1,
    round_scale: _Bool = True,
    x_scale: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class KvQuantSparseAttnSharedkvResult(NamedTuple):
    attn_out: Any
    softmax_lse: Any

def kv_quant_sparse_attn_sharedkv(
    q: _Tensor,
    ori_kv: Optional[_Tensor] = None,
    cmp_kv: Optional[_Tensor] = None,
    ori_sparse_indices: Optional[_Tensor] = None,
    cmp_sparse_indices: Optional[_Tensor] = None,
    ori_block_table: Optional[_Tensor] = None,
    cmp_block_table: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    kv_quant_mode: SupportsIndex = ...,
    tile_size: SupportsIndex = 64,
    rope_head_dim: SupportsIndex = 64,
    softmax_scale: SupportsFloat = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_win_left: SupportsIndex = 127,
    ori_win_right: SupportsIndex = 0,
    layout_q: Optional[str] = "BSND",
    layout_kv: Optional[str] = "PA_ND",
    ori_kv_stride0: SupportsIndex = 0,
    cmp_kv_stride0: SupportsIndex = 0,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> KvQuantSparseAttnSharedkvResult: ...
def kv_quant_sparse_attn_sharedkv_metadata(
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_ori_kv: Optional[_Tensor] = None,
    cu_seq_lens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_kv: SupportsIndex = ...,
    ori_top_k: SupportsIndex = ...,
    cmp_top_k: SupportsIndex = ...,
    kv_quant_mode: SupportsIndex = ...,
    tile_size: SupportsIndex = ...,
    rope_head_dim: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_win_left: SupportsIndex = ...,
    ori_win_right: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_kv: Optional[str] = None,
    has_ori_kv: _Bool = ...,
    has_cmp_kv: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def kv_quant_sparse_flash_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    sparse_indices: _Tensor,
    key_dequant_scale: Optional[_Tensor] = None,
    value_dequant_scale: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_kv: Optional[_Tensor] = None,
    scale_value: SupportsFloat = ...,
    key_quant_mode: SupportsIndex = ...,
    value_quant_mode: SupportsIndex = ...,
    sparse_block_size: SupportsIndex = 1,
    layout_query: Optional[str] = "BSND",
    layout_kv: Optional[str] = "BSND",
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    attention_mode: SupportsIndex = 0,
    quant_scale_repo_mode: SupportsIndex = 1,
    tile_size: SupportsIndex = 128,
    rope_head_dim: SupportsIndex = 64,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def kv_quant_sparse_flash_attention_metadata(
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_kv: Optional[_Tensor] = None,
    sparse_seq_lengths_kv: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    query_seq_size: SupportsIndex = ...,
    query_head_num: SupportsIndex = ...,
    kv_seq_size: SupportsIndex = ...,
    kv_head_num: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    topk_size: SupportsIndex = ...,
    sparse_block_size: SupportsIndex = ...,
    layout_query: Optional[str] = None,
    layout_kv: Optional[str] = None,
    sparse_mode: SupportsIndex = ...,
    attention_mode: SupportsIndex = ...,
    rope_head_dim: SupportsIndex = ...,
    sparse_shard_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def kv_quant_sparse_flash_attention_v2(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    sparse_indices: _Tensor,
    key_dequant_scale: Optional[_Tensor] = None,
    value_dequant_scale: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_kv: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    scale_value: SupportsFloat = ...,
    key_quant_mode: SupportsIndex = ...,
    value_quant_mode: SupportsIndex = ...,
    sparse_block_size: SupportsIndex = ...,
    layout_query: Optional[str] = None,
    layout_kv: Optional[str] = None,
    sparse_mode: SupportsIndex = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    attention_mode: SupportsIndex = ...,
    quant_scale_repo_mode: SupportsIndex = ...,
    tile_size: SupportsIndex = ...,
    rope_head_dim: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class KvRmsNormRopeCacheResult(NamedTuple):
    k_cache: Any
    ckv_cache: Any
    k_rope: Any
    c_kv: Any

def kv_rms_norm_rope_cache(
    kv: _Tensor,
    gamma: _Tensor,
    cos: _Tensor,
    sin: Optional[_Tensor] = None,
    index: _Tensor = ...,
    k_cache: _Tensor = ...,
    ckv_cache: _Tensor = ...,
    k_rope_scale: Optional[_Tensor] = None,
    c_kv_scale: Optional[_Tensor] = None,
    k_rope_offset: Optional[_Tensor] = None,
    c_kv_offset: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-05,
    cache_mode: Optional[str] = "Norm",
    is_output_kv: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> KvRmsNormRopeCacheResult: ...

class KvRmsNormRopeCacheV2Result(NamedTuple):
    k_cache: Any
    ckv_cache: Any
    k_rope: Any
    c_kv: Any

def kv_rms_norm_rope_cache_v2(
    kv: _Tensor,
    gamma: _Tensor,
    cos: _Tensor,
    sin: Optional[_Tensor] = None,
    index: _Tensor = ...,
    k_cache: _Tensor = ...,
    ckv_cache: _Tensor = ...,
    k_rope_scale: Optional[_Tensor] = None,
    c_kv_scale: Optional[_Tensor] = None,
    k_rope_offset: Optional[_Tensor] = None,
    c_kv_offset: Optional[_Tensor] = None,
    v: Optional[_Tensor] = None,
    epsilon: SupportsFloat = ...,
    cache_mode: Optional[str] = None,
    is_output_kv: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> KvRmsNormRopeCacheV2Result: ...
def l1_loss(
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def l1_loss_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class LayerNormResult(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def layer_norm(
    input: _Tensor,
    normalized_shape: _Ints,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    eps: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LayerNormResult: ...

class LayerNormBackwardResult(NamedTuple):
    grad_input: Any
    grad_weight: Any
    grad_bias: Any

def layer_norm_backward(
    grad_out: _Tensor,
    input: _Tensor,
    normalized_shape: _Ints,
    mean: _Tensor,
    rstd: _Tensor,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    output_mask: _Bools = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LayerNormBackwardResult: ...

class LayerNormQuantResult(NamedTuple):
    res: Any
    scale: Any

def layer_norm_quant(
    x: _Tensor,
    gammma: _Tensor,
    beta: _Tensor,
    scale: _Tensor,
    zero_points: Optional[_Tensor] = None,
    quant_mode: SupportsIndex = 0,
    epsilon: SupportsFloat = 1e-05,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LayerNormQuantResult: ...

class LayerNormWithImplModeResult(NamedTuple):
    out: Any
    mean: Any
    rstd: Any

def layer_norm_with_impl_mode(
    input: _Tensor,
    normalized_shape: _Ints,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    eps: SupportsFloat = ...,
    impl_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LayerNormWithImplModeResult: ...

class LayerNormalizationGradResult(NamedTuple):
    dx: Any
    dgamma: Any
    dbeta: Any

def layer_normalization_grad(
    dy: _Tensor,
    x: _Tensor,
    gamma: _Tensor,
    mean: _Tensor,
    rstd: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LayerNormalizationGradResult: ...
def le_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def le_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def leaky_relu(self: _Tensor, negative_slope: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def leaky_relu_backward(
    grad_output: _Tensor,
    self: _Tensor,
    negative_slope: _Scalar,
    self_is_result: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def leaky_relu_grad_v2(
    dy: _Tensor,
    x: _Tensor,
    negative_slope: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def leakyrelu_v2(
    x: _Tensor,
    negative_slope: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def left_shift(self: _Tensor, shift_bits: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def left_shifts(self: _Tensor, shift_bits: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def lerp(self: _Tensor, end: _Tensor, weight: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def lerps(
    self: _Tensor,
    end: _Tensor,
    weight: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def lgamma(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class LightningIndexerResult(NamedTuple):
    sparse_indices: Any
    sparse_values: Any

def lightning_indexer(
    query: _Tensor,
    key: _Tensor,
    weights: _Tensor,
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_key: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    layout_query: Optional[str] = "BSND",
    layout_key: Optional[str] = "BSND",
    sparse_count: SupportsIndex = 2048,
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    return_values: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LightningIndexerResult: ...

class LightningIndexerGradResult(NamedTuple):
    dq: Any
    dk: Any
    dweights: Any

def lightning_indexer_grad(
    query: _Tensor,
    key: _Tensor,
    dy: _Tensor,
    sparse_indices: _Tensor,
    weights: _Tensor,
    actual_seq_q_len: Optional[_Tensor] = None,
    actual_seq_kv_len: Optional[_Tensor] = None,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 65536,
    next_tokens: SupportsIndex = 65536,
    deterministic: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LightningIndexerGradResult: ...
def lightning_indexer_kl_loss(
    target_score: _Tensor,
    index_probs: _Tensor,
    eps: SupportsFloat = 1e-09,
    weight_type: str = "logits",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class LightningIndexerV2Result(NamedTuple):
    sparse_indices: Any
    sparse_values: Any

def lightning_indexer_v2(
    q: _Tensor,
    k: _Tensor,
    w: _Tensor,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_k: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    output_idx_offset: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    topk: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = -1,
    layout_q: Optional[str] = "BSND",
    layout_k: Optional[str] = "BSND",
    mask_mode: SupportsIndex = 0,
    cmp_ratio: SupportsIndex = 1,
    return_value: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LightningIndexerV2Result: ...
def lightning_indexer_v2_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_k: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    topk: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_k: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_k: Optional[str] = None,
    mask_mode: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def lin_space_d(
    start: _Tensor,
    end: _Tensor,
    num: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def linalg_cholesky(self: _Tensor, upper: _Bool, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def linalg_cross(
    self: _Tensor,
    other: _Tensor,
    dim: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class LinalgQrResult(NamedTuple):
    q: Any
    r: Any

def linalg_qr(
    self: _Tensor,
    mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LinalgQrResult: ...
def linalg_vector_norm(
    self: _Tensor,
    ord: _Scalar,
    dims: _Ints,
    keep_dims: _Bool,
    dtype: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def linspace(
    start: _Scalar,
    end: _Scalar,
    steps: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def log(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log10(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log1p(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log1p_v2(x1: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log_add_exp(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log_add_exp2(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log_sigmoid(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log_sigmoid_backward(
    grad_output: _Tensor,
    self: _Tensor,
    buffer: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class LogSigmoidForwardResult(NamedTuple):
    out: Any
    buffer: Any

def log_sigmoid_forward(
    self: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LogSigmoidForwardResult: ...
def log_softmax(self: _Tensor, dim: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log_softmax_backward(
    grad_output: _Tensor,
    output: _Tensor,
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def log_softmax_v2(self: _Tensor, dim: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def log_space(
    start: _Scalar,
    end: _Scalar,
    steps: SupportsIndex,
    base: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def log_sum_exp(
    self: _Tensor,
    dim: _Ints,
    keep_dim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def logdet(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def logical_and(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def logical_not(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def logical_or(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def logical_xor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def logit(input: _Tensor, eps: SupportsFloat = -1.0, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def logit_grad(
    x: _Tensor,
    dy: _Tensor,
    eps: SupportsFloat = -1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def logsigmoid_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def lp_loss(
    predict: _Tensor,
    label: _Tensor,
    p: SupportsIndex,
    reduction: str = "mean",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def lp_norm_v3(
    x: _Tensor,
    p: SupportsFloat = 2.0,
    axis: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class LSTMResult(NamedTuple):
    output: Any
    hy: Any
    cy: Any
    i: Any
    j: Any
    f: Any
    o: Any
    h: Any
    c: Any
    tanh_c: Any

def lstm(
    input: _Tensor,
    params: Sequence[_Tensor],
    hx: Optional[Sequence[_Tensor]] = None,
    batch_sizes: Optional[_Tensor] = None,
    has_bias: _Bool = ...,
    num_layers: SupportsIndex = ...,
    dropout: SupportsFloat = ...,
    train: _Bool = ...,
    bidirectional: _Bool = ...,
    batch_first: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LSTMResult: ...

class LstmBackwardResult(NamedTuple):
    dx: Any
    dh_prev: Any
    dc_prev: Any
    dparams: Any

def lstm_backward(
    input: _Tensor,
    hx: Sequence[_Tensor],
    params: Sequence[_Tensor],
    dy: Optional[_Tensor] = None,
    dh: Optional[_Tensor] = None,
    dc: Optional[_Tensor] = None,
    i: Sequence[_Tensor] = ...,
    g: Sequence[_Tensor] = ...,
    f: Sequence[_Tensor] = ...,
    o: Sequence[_Tensor] = ...,
    h: Sequence[_Tensor] = ...,
    c: Sequence[_Tensor] = ...,
    tanhc: Sequence[_Tensor] = ...,
    batch_sizes: Optional[_Tensor] = None,
    has_bias: _Bool = ...,
    num_layers: SupportsIndex = ...,
    dropout: SupportsFloat = ...,
    train: _Bool = ...,
    bidirectional: _Bool = ...,
    batch_first: _Bool = ...,
    output_mask: Optional[_Bools] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> LstmBackwardResult: ...
def lt_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def lt_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def masked_causal_conv1d(
    x: _Tensor,
    weight: _Tensor,
    mask: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MaskedCausalConv1dBackwardResult(NamedTuple):
    grad_x: Any
    grad_weight: Any

def masked_causal_conv1d_backward(
    grad_y: _Tensor,
    x: _Tensor,
    weight: _Tensor,
    mask: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MaskedCausalConv1dBackwardResult: ...
def masked_scale(
    self: _Tensor,
    mask: _Tensor,
    scale: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def masked_select(self: _Tensor, mask: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def masked_softmax_with_rel_pos_bias(
    x: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    relative_pos_bias: _Tensor = ...,
    scale_value: SupportsFloat = 1.0,
    inner_precision_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul(
    self: _Tensor,
    mat2: _Tensor,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_all_reduce(
    x1: _Tensor,
    x2: _Tensor,
    bias: _Tensor,
    group: str,
    reduce_op: str = "sum",
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MatmulAllReduceAddRmsNormResult(NamedTuple):
    y: Any
    norm: Any

def matmul_all_reduce_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    bias: _Tensor,
    residual: _Tensor,
    gamma: _Tensor,
    epsilon: SupportsFloat = 1e-06,
    group: str = ...,
    reduce_op: str = "sum",
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MatmulAllReduceAddRmsNormResult: ...
def matmul_all_reduce_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: _Tensor,
    x3: _Tensor,
    group: str,
    reduce_op: str,
    comm_turn: SupportsIndex,
    stream_mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_all_reduce_v3(
    x1: _Tensor,
    x2: _Tensor,
    bias: _Tensor,
    x3: _Tensor,
    group: str,
    reduce_op: str,
    comm_mode: str,
    comm_turn: SupportsIndex,
    stream_mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_allto_all(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    allto_all_axes: Optional[_Ints] = None,
    group: str = ...,
    transpose_x1: _Bool = False,
    transpose_x2: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_allto_all_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    allto_all_axes: Optional[_Ints] = None,
    group: str = ...,
    comm_mode: str = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_compress(
    x: _Tensor,
    weight: _Tensor,
    bias: _Tensor,
    compress_index: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_compress_dequant(
    x1: _Tensor,
    x2: _Tensor,
    compress_index: _Tensor,
    bias: _Tensor,
    deq_scale: _Tensor,
    offset_w: Optional[_Tensor] = None,
    offset_x: SupportsIndex = ...,
    compress_info: _Ints = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_emu_split_weight(
    x: _Tensor,
    w_high: _Tensor,
    w_low: _Tensor,
    w_low_scale: SupportsFloat,
    y_dtype: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_fp32(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = False,
    transpose_x2: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_reduce_scatter(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    group: str = ...,
    reduce_op: str = "sum",
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MatmulReduceScatterV2Result(NamedTuple):
    output: Any
    amax: Any

def matmul_reduce_scatter_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    block_size: SupportsIndex = 0,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = 0,
    stream_mode: SupportsIndex = ...,
    group_size: SupportsIndex = 0,
    comm_mode: str = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MatmulReduceScatterV2Result: ...
def matmul_swiglu(
    x: _Tensor,
    weight: _Tensor,
    bias: Optional[_Tensor] = None,
    transpose_weight: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def matmul_weight_nz(
    self: _Tensor,
    mat2: _Tensor,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class MaxDimResult(NamedTuple):
    out: Any
    indices: Any

def max_dim(
    self: _Tensor,
    dim: SupportsIndex,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MaxDimResult: ...
def max_n(tensors: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def max_pool(
    self: _Tensor,
    kernel_shape: _Ints,
    strides: _Ints,
    auto_pad: SupportsIndex,
    pads: _Ints,
    dilations: _Ints,
    ceil_mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MaxPool2dWithIndicesResult(NamedTuple):
    out: Any
    indices: Any

def max_pool2d_with_indices(
    self: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    ceil_mode: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MaxPool2dWithIndicesResult: ...
def max_pool2d_with_indices_backward(
    grad_output: _Tensor,
    self: _Tensor,
    indices: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    ceil_mode: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MaxPool2dWithMaskResult(NamedTuple):
    out: Any
    indices: Any

def max_pool2d_with_mask(
    self: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    ceil_mode: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MaxPool2dWithMaskResult: ...
def max_pool2d_with_mask_backward(
    grad_output: _Tensor,
    self: _Tensor,
    indices: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    ceil_mode: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_pool3_d(
    x: _Tensor,
    ksize: _Ints,
    strides: _Ints,
    padding: str,
    pads: Optional[_Ints] = None,
    dilation: Optional[_Ints] = None,
    ceil_mode: SupportsIndex = 0,
    data_format: Optional[str] = "NDHWC",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MaxPool3dWithArgmaxResult(NamedTuple):
    out: Any
    indices: Any

def max_pool3d_with_argmax(
    self: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    ceil_mode: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MaxPool3dWithArgmaxResult: ...
def max_pool3d_with_argmax_backward(
    grad_output: _Tensor,
    self: _Tensor,
    indices: _Tensor,
    kernel_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    ceil_mode: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_pool_v3(
    x: _Tensor,
    ksize: _Ints,
    strides: _Ints,
    pads: _Ints = (0, 0, 0, 0),
    ceil_mode: Optional[_Scalar] = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_pooling_grad(
    dy: _Tensor,
    x: _Tensor,
    y: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_unpool2d(
    self: _Tensor,
    indices: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_unpool2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    indices: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_unpool3d(
    self: _Tensor,
    indices: _Tensor,
    output_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    out_: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_unpool3d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    indices: _Tensor,
    output_size: _Ints,
    stride: _Ints,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def max_v2(
    self: _Tensor,
    dims: _Ints,
    keep_dims: _Bool,
    noop_with_empty_dims: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def maximum(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def maximum_v2(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def mean(
    self: _Tensor,
    dim: _Ints,
    keep_dim: _Bool,
    dtype: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def mean_v2(
    self: _Tensor,
    dim: _Ints,
    keep_dim: _Bool,
    noop_with_empty_axes: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def median(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class MedianDimResult(NamedTuple):
    values: Any
    indices: Any

def median_dim(
    self: _Tensor,
    dim: SupportsIndex,
    keep_dim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MedianDimResult: ...
def mhc_post(
    x: _Tensor,
    h_res: Optional[_Tensor] = None,
    h_out: _Tensor = ...,
    h_post: _Tensor = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MhcPostBackwardResult(NamedTuple):
    grad_x: Any
    grad_h_res: Any
    grad_h: Any
    grad_h_post: Any

def mhc_post_backward(
    grad_output: _Tensor,
    x: _Tensor,
    h_res: Optional[_Tensor] = None,
    h_out: _Tensor = ...,
    h_post: _Tensor = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MhcPostBackwardResult: ...

class MhcPreResult(NamedTuple):
    h_in: Any
    h_post: Any
    h_res: Any
    inv_rms: Any
    h_mix: Any
    h_pre: Any

def mhc_pre(
    x: _Tensor,
    phi: _Tensor,
    alpha: _Tensor,
    bias: _Tensor,
    gamma: Optional[_Tensor] = None,
    norm_eps: SupportsFloat = 1e-06,
    hc_eps: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MhcPreResult: ...

class MhcPreBackwardResult(NamedTuple):
    grad_x: Any
    grad_phi: Any
    grad_alpha: Any
    grad_bias: Any
    grad_gamma: Any

def mhc_pre_backward(
    x: _Tensor,
    phi: _Tensor,
    alpha: _Tensor,
    grad_h_in: _Tensor,
    grad_h_post: _Tensor,
    grad_h_res: _Tensor,
    inv_rms: _Tensor,
    h_mix: _Tensor,
    h_pre: _Tensor,
    h_post: _Tensor,
    gamma: Optional[_Tensor] = None,
    grad_x_post: Optional[_Tensor] = None,
    hc_eps: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MhcPreBackwardResult: ...

class MhcPreSinkhornResult(NamedTuple):
    hin: Any
    h_post: Any
    h_res: Any
    h_pre: Any
    hc_before_norm: Any
    inv_rms: Any
    sum: Any
    norm: Any

def mhc_pre_sinkhorn(
    x: _Tensor,
    phi: _Tensor,
    alpha: _Tensor,
    bias: _Tensor,
    hc_mult: SupportsIndex = 4,
    num_iters: SupportsIndex = 20,
    hc_eps: SupportsFloat = 1e-06,
    norm_eps: SupportsFloat = 1e-06,
    need_backward: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MhcPreSinkhornResult: ...

class MhcPreSinkhornBackwardResult(NamedTuple):
    grad_x: Any
    grad_phi: Any
    grad_alpha: Any
    grad_bias: Any

def mhc_pre_sinkhorn_backward(
    grad_hin: _Tensor,
    grad_h_post: _Tensor,
    grad_h_res: _Tensor,
    x: _Tensor,
    phi: _Tensor,
    alpha: _Tensor,
    bias: _Tensor,
    h_pre: _Tensor,
    hc_before_norm: _Tensor,
    inv_rms: _Tensor,
    sum_out: _Tensor,
    norm_out: _Tensor,
    hc_eps: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MhcPreSinkhornBackwardResult: ...

class MhcPreV2Result(NamedTuple):
    h_in: Any
    h_post: Any
    h_res: Any
    inv_rms: Any
    h_mix: Any
    h_pre: Any

def mhc_pre_v2(
    x: _Tensor,
    phi: _Tensor,
    alpha: _Tensor,
    bias: _Tensor,
    gamma: Optional[_Tensor] = None,
    norm_eps: SupportsFloat = ...,
    hc_eps: SupportsFloat = ...,
    op_impl_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MhcPreV2Result: ...

class MhcSinkhornResult(NamedTuple):
    output: Any
    norm: Any
    sum: Any

def mhc_sinkhorn(
    x: _Tensor,
    eps: SupportsFloat = 1e-06,
    num_iters: SupportsIndex = 20,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MhcSinkhornResult: ...
def mhc_sinkhorn_backward(
    grad_output: _Tensor,
    norm_out: _Tensor,
    sum_out: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def min(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class MinDimResult(NamedTuple):
    out: Any
    indices: Any

def min_dim(
    self: _Tensor,
    dim: SupportsIndex,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MinDimResult: ...
def min_n(tensors: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def minimax_sparse_attention_split_kv(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    block_table: _Tensor,
    k2q_row_ptr: _Tensor,
    k2q_q_indices: _Tensor,
    k2q_slot_indices: _Tensor,
    actual_seq_lengths: _Tensor,
    actual_seq_lengths_kv: _Tensor,
    num_key_value_heads: SupportsIndex = 1,
    scale_value: SupportsFloat = ...,
    block_size: SupportsIndex = 128,
    top_k: SupportsIndex = 8,
    inner_precise: SupportsIndex = 4,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def minimum(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def mish(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def mish_backward(grad_output: _Tensor, self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class MixedQuantSparseFlashMlaResult(NamedTuple):
    attn_out: Any
    softmax_lse: Any

def mixed_quant_sparse_flash_mla(
    q: _Tensor,
    ori_kv: Optional[_Tensor] = None,
    cmp_kv: Optional[_Tensor] = None,
    ori_sparse_indices: Optional[_Tensor] = None,
    cmp_sparse_indices: Optional[_Tensor] = None,
    ori_block_table: Optional[_Tensor] = None,
    cmp_block_table: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    quant_mode: SupportsIndex = 0,
    rope_head_dim: SupportsIndex = 0,
    softmax_scale: SupportsFloat = ...,
    cmp_ratio: SupportsIndex = 1,
    ori_mask_mode: SupportsIndex = 0,
    cmp_mask_mode: SupportsIndex = 0,
    ori_win_left: SupportsIndex = -1,
    ori_win_right: SupportsIndex = -1,
    layout_q: Optional[str] = "BSND",
    layout_kv: Optional[str] = "BSND",
    topk_value_mode: SupportsIndex = 1,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MixedQuantSparseFlashMlaResult: ...
def mixed_quant_sparse_flash_mla_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_ori_kv: SupportsIndex = ...,
    max_seqlen_cmp_kv: SupportsIndex = ...,
    ori_topk: SupportsIndex = ...,
    cmp_topk: SupportsIndex = ...,
    rope_head_dim: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_win_left: SupportsIndex = ...,
    ori_win_right: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_kv: Optional[str] = None,
    has_ori_kv: _Bool = ...,
    has_cmp_kv: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MlaPreprocessResult(NamedTuple):
    q_out: Any
    kv_cache_out: Any
    q_rope_out: Any
    kr_cache_out: Any

def mla_preprocess(
    input: _Tensor,
    gamma0: _Tensor,
    beta0: _Tensor,
    quant_scale0: _Tensor,
    quant_offset0: _Tensor,
    wdqkv: _Tensor,
    descale0: _Tensor,
    bias0: _Tensor,
    gamma1: _Tensor,
    beta1: _Tensor,
    quant_scale1: _Tensor,
    quant_offset1: _Tensor,
    wuq: _Tensor,
    descale1: _Tensor,
    bias1: _Tensor,
    gamma2: _Tensor,
    cos: Optional[_Tensor] = None,
    sin: Optional[_Tensor] = None,
    wuk: _Tensor = ...,
    kv_cache: _Tensor = ...,
    kv_cache_rope: Optional[_Tensor] = None,
    slot_mapping: _Tensor = ...,
    ctkv_scale: _Tensor = ...,
    q_nope_scale: _Tensor = ...,
    wdq_dim: SupportsIndex = 128,
    q_rope_dim: SupportsIndex = 64,
    k_rope_dim: SupportsIndex = 64,
    epsilon: SupportsFloat = 1e-05,
    q_rotary_coeff: SupportsIndex = 2,
    k_rotary_coeff: SupportsIndex = 2,
    transepose_wdq: _Bool = True,
    transepose_wuq: _Bool = True,
    transepose_wuk: _Bool = True,
    cache_mode: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    do_rms_norm: _Bool = True,
    wdkv_split_count: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPreprocessResult: ...

class MlaPreprocessV2Result(NamedTuple):
    q_out: Any
    kv_cache_out: Any
    q_rope_out: Any
    kr_cache_out: Any
    q_down_out: Any

def mla_preprocess_v2(
    input: _Tensor,
    gamma0: _Tensor,
    beta0: _Tensor,
    quant_scale0: _Tensor,
    quant_offset0: _Tensor,
    wdqkv: _Tensor,
    descale0: _Tensor,
    bias0: _Tensor,
    gamma1: _Tensor,
    beta1: _Tensor,
    quant_scale1: _Tensor,
    quant_offset1: _Tensor,
    wuq: _Tensor,
    descale1: _Tensor,
    bias1: _Tensor,
    gamma2: _Tensor,
    cos: Optional[_Tensor] = None,
    sin: Optional[_Tensor] = None,
    wuk: _Tensor = ...,
    kv_cache: _Tensor = ...,
    kv_cache_rope: Optional[_Tensor] = None,
    slot_mapping: _Tensor = ...,
    ctkv_scale: _Tensor = ...,
    q_nope_scale: _Tensor = ...,
    wdq_dim: SupportsIndex = 128,
    q_rope_dim: SupportsIndex = 64,
    k_rope_dim: SupportsIndex = 64,
    epsilon: SupportsFloat = 1e-05,
    q_rotary_coeff: SupportsIndex = 2,
    k_rotary_coeff: SupportsIndex = 2,
    transepose_wdq: _Bool = True,
    transepose_wuq: _Bool = True,
    transepose_wuk: _Bool = True,
    cache_mode: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    do_rms_norm: _Bool = True,
    wdkv_split_count: SupportsIndex = 1,
    q_down_out_flag: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPreprocessV2Result: ...

class MlaPrologResult(NamedTuple):
    kv_cache: Any
    kr_cache: Any
    query: Any
    query_rope: Any

def mla_prolog(
    token_x: _Tensor,
    weight_dq: _Tensor,
    weight_uq_qr: _Tensor,
    weight_uk: _Tensor,
    weight_dkv_kr: _Tensor,
    rmsnorm_gamma_cq: _Tensor,
    rmsnorm_gamma_ckv: _Tensor,
    rope_sin: _Tensor,
    rope_cos: _Tensor,
    cache_index: _Tensor,
    kv_cache: _Tensor,
    kr_cache: _Tensor,
    dequant_scale_x: Optional[_Tensor] = None,
    dequant_scale_w_dq: Optional[_Tensor] = None,
    dequant_scale_w_uq_qr: Optional[_Tensor] = None,
    dequant_scale_w_dkv_kr: Optional[_Tensor] = None,
    quant_scale_ckv: Optional[_Tensor] = None,
    quant_scale_ckr: Optional[_Tensor] = None,
    smooth_scales_cq: Optional[_Tensor] = None,
    rmsnorm_epsilon_cq: SupportsFloat = 1e-05,
    rmsnorm_epsilon_ckv: SupportsFloat = 1e-05,
    cache_mode: Optional[str] = "BNSD",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPrologResult: ...

class MlaPrologV2Result(NamedTuple):
    kv_cache: Any
    kr_cache: Any
    query: Any
    query_rope: Any
    dequant_scale_q_nope: Any

def mla_prolog_v2(
    token_x: _Tensor,
    weight_dq: _Tensor,
    weight_uq_qr: _Tensor,
    weight_uk: _Tensor,
    weight_dkv_kr: _Tensor,
    rmsnorm_gamma_cq: _Tensor,
    rmsnorm_gamma_ckv: _Tensor,
    rope_sin: _Tensor,
    rope_cos: _Tensor,
    cache_index: _Tensor,
    kv_cache: _Tensor,
    kr_cache: _Tensor,
    dequant_scale_x: Optional[_Tensor] = None,
    dequant_scale_w_dq: Optional[_Tensor] = None,
    dequant_scale_w_uq_qr: Optional[_Tensor] = None,
    dequant_scale_w_dkv_kr: Optional[_Tensor] = None,
    quant_scale_ckv: Optional[_Tensor] = None,
    quant_scale_ckr: Optional[_Tensor] = None,
    smooth_scales_cq: Optional[_Tensor] = None,
    rmsnorm_epsilon_cq: SupportsFloat = 1e-05,
    rmsnorm_epsilon_ckv: SupportsFloat = 1e-05,
    cache_mode: Optional[str] = "BNSD",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPrologV2Result: ...

class MlaPrologV2WeightNzResult(NamedTuple):
    kv_cache: Any
    kr_cache: Any
    query: Any
    query_rope: Any
    dequant_scale_q_nope: Any

def mla_prolog_v2_weight_nz(
    token_x: _Tensor,
    weight_dq: _Tensor,
    weight_uq_qr: _Tensor,
    weight_uk: _Tensor,
    weight_dkv_kr: _Tensor,
    rmsnorm_gamma_cq: _Tensor,
    rmsnorm_gamma_ckv: _Tensor,
    rope_sin: _Tensor,
    rope_cos: _Tensor,
    cache_index: _Tensor,
    kv_cache: _Tensor,
    kr_cache: _Tensor,
    dequant_scale_x: Optional[_Tensor] = None,
    dequant_scale_w_dq: Optional[_Tensor] = None,
    dequant_scale_w_uq_qr: Optional[_Tensor] = None,
    dequant_scale_w_dkv_kr: Optional[_Tensor] = None,
    quant_scale_ckv: Optional[_Tensor] = None,
    quant_scale_ckr: Optional[_Tensor] = None,
    smooth_scales_cq: Optional[_Tensor] = None,
    rmsnorm_epsilon_cq: SupportsFloat = ...,
    rmsnorm_epsilon_ckv: SupportsFloat = ...,
    cache_mode: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPrologV2WeightNzResult: ...

class MlaPrologV3Result(NamedTuple):
    kv_cache: Any
    kr_cache: Any
    query: Any
    query_rope: Any
    dequant_scale_q_nope: Any
    query_norm: Any
    dequant_scale_q_norm: Any

def mla_prolog_v3(
    token_x: _Tensor,
    weight_dq: _Tensor,
    weight_uq_qr: _Tensor,
    weight_uk: _Tensor,
    weight_dkv_kr: _Tensor,
    rmsnorm_gamma_cq: _Tensor,
    rmsnorm_gamma_ckv: _Tensor,
    rope_sin: _Tensor,
    rope_cos: _Tensor,
    kv_cache: _Tensor,
    kr_cache: _Tensor,
    cache_index: Optional[_Tensor] = None,
    dequant_scale_x: Optional[_Tensor] = None,
    dequant_scale_w_dq: Optional[_Tensor] = None,
    dequant_scale_w_uq_qr: Optional[_Tensor] = None,
    dequant_scale_w_dkv_kr: Optional[_Tensor] = None,
    quant_scale_ckv: Optional[_Tensor] = None,
    quant_scale_ckr: Optional[_Tensor] = None,
    smooth_scales_cq: Optional[_Tensor] = None,
    actual_seq_len: Optional[_Tensor] = None,
    rmsnorm_epsilon_cq: SupportsFloat = 1e-05,
    rmsnorm_epsilon_ckv: SupportsFloat = 1e-05,
    cache_mode: Optional[str] = None,
    query_norm_flag: _Bool = False,
    weight_quant_mode: SupportsIndex = 0,
    kv_cache_quant_mode: SupportsIndex = 0,
    query_quant_mode: SupportsIndex = 0,
    ckvkr_repo_mode: SupportsIndex = 0,
    quant_scale_repo_mode: SupportsIndex = 0,
    tile_size: SupportsIndex = 128,
    k_nope_clip_alpha: SupportsFloat = 1.0,
    qc_qr_scale: SupportsFloat = 1.0,
    kc_scale: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPrologV3Result: ...

class MlaPrologV3WeightNzResult(NamedTuple):
    kv_cache: Any
    kr_cache: Any
    query: Any
    query_rope: Any
    dequant_scale_q_nope: Any
    query_norm: Any
    dequant_scale_q_norm: Any

def mla_prolog_v3_weight_nz(
    token_x: _Tensor,
    weight_dq: _Tensor,
    weight_uq_qr: _Tensor,
    weight_uk: _Tensor,
    weight_dkv_kr: _Tensor,
    rmsnorm_gamma_cq: _Tensor,
    rmsnorm_gamma_ckv: _Tensor,
    rope_sin: _Tensor,
    rope_cos: _Tensor,
    kv_cache: _Tensor,
    kr_cache: _Tensor,
    cache_index: Optional[_Tensor] = None,
    dequant_scale_x: Optional[_Tensor] = None,
    dequant_scale_w_dq: Optional[_Tensor] = None,
    dequant_scale_w_uq_qr: Optional[_Tensor] = None,
    dequant_scale_w_dkv_kr: Optional[_Tensor] = None,
    quant_scale_ckv: Optional[_Tensor] = None,
    quant_scale_ckr: Optional[_Tensor] = None,
    smooth_scales_cq: Optional[_Tensor] = None,
    actual_seq_len: Optional[_Tensor] = None,
    k_nope_clip_alpha: Optional[_Tensor] = None,
    rmsnorm_epsilon_cq: SupportsFloat = ...,
    rmsnorm_epsilon_ckv: SupportsFloat = ...,
    cache_mode: Optional[str] = None,
    weight_quant_mode: SupportsIndex = 0,
    kv_cache_quant_mode: SupportsIndex = 0,
    query_quant_mode: SupportsIndex = 0,
    ckvkr_repo_mode: SupportsIndex = 0,
    quant_scale_repo_mode: SupportsIndex = 0,
    tile_size: SupportsIndex = 128,
    qc_qr_scale: SupportsFloat = ...,
    kc_scale: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPrologV3WeightNzResult: ...

class MlaPrologV4WeightNzResult(NamedTuple):
    kv_cache: Any
    kr_cache: Any
    query: Any
    query_rope: Any
    dequant_scale_q_nope: Any
    query_norm: Any
    dequant_scale_q_norm: Any

def mla_prolog_v4_weight_nz(
    token_x: _Tensor,
    weight_dq: _Tensor,
    weight_uq_qr: _Tensor,
    weight_uk: _Tensor,
    weight_dkv_kr: _Tensor,
    rmsnorm_gamma_cq: _Tensor,
    rmsnorm_gamma_ckv: _Tensor,
    rope_sin: _Tensor,
    rope_cos: _Tensor,
    kv_cache: _Tensor,
    kr_cache: _Tensor,
    cache_index: Optional[_Tensor] = None,
    dequant_scale_x: Optional[_Tensor] = None,
    dequant_scale_w_dq: Optional[_Tensor] = None,
    dequant_scale_w_uq_qr: Optional[_Tensor] = None,
    dequant_scale_w_dkv_kr: Optional[_Tensor] = None,
    quant_scale_ckv: Optional[_Tensor] = None,
    quant_scale_ckr: Optional[_Tensor] = None,
    smooth_scales_cq: Optional[_Tensor] = None,
    actual_seq_len: Optional[_Tensor] = None,
    k_nope_clip_alpha: Optional[_Tensor] = None,
    rmsnorm_epsilon_cq: SupportsFloat = ...,
    rmsnorm_epsilon_ckv: SupportsFloat = ...,
    cache_mode: Optional[str] = None,
    weight_quant_mode: SupportsIndex = 0,
    kv_cache_quant_mode: SupportsIndex = 0,
    query_quant_mode: SupportsIndex = 0,
    ckvkr_repo_mode: SupportsIndex = 0,
    quant_scale_repo_mode: SupportsIndex = 0,
    tile_size: SupportsIndex = 128,
    qc_qr_scale: SupportsFloat = ...,
    kc_scale: SupportsFloat = ...,
    do_rope: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MlaPrologV4WeightNzResult: ...
def mm(
    self: _Tensor,
    mat2: _Tensor,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def modulate(
    self: _Tensor,
    scale: Optional[_Tensor] = None,
    shift: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ModulateBackwardResult(NamedTuple):
    grad_input: Any
    grad_scale: Any
    grad_shift: Any

def modulate_backward(
    grad_output: _Tensor,
    input: _Tensor,
    scale: Optional[_Tensor] = None,
    shift: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ModulateBackwardResult: ...
def moe_compute_expert_tokens(
    sorted_experts: _Tensor,
    num_experts: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def moe_distribute_buffer_reset(
    elastic_info: _Tensor,
    group_ep: str,
    ep_world_size: SupportsIndex,
    need_sync: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> None: ...
def moe_distribute_combine(
    expand_x: _Tensor,
    expert_ids: _Tensor,
    expand_idx: _Tensor,
    ep_send_counts: _Tensor,
    expert_scales: _Tensor,
    tp_send_counts: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    weight_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    expand_scales: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = "",
    tp_world_size: SupportsIndex = 0,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    out_dtype: SupportsIndex = 0,
    comm_quant_mode: SupportsIndex = 0,
    group_list_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeDistributeCombineAddRmsNormResult(NamedTuple):
    y: Any
    rstd: Any
    x: Any

def moe_distribute_combine_add_rms_norm(
    expand_x: _Tensor,
    expert_ids: _Tensor,
    assist_info_for_combine: _Tensor,
    ep_send_counts: _Tensor,
    expert_scales: _Tensor,
    residual_x: _Tensor,
    gamma: _Tensor,
    tp_send_counts: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    weight_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    expand_scales: Optional[_Tensor] = None,
    shared_expert_x: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = "",
    tp_world_size: SupportsIndex = 0,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 0,
    shared_expert_rank_num: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    out_dtype: SupportsIndex = 0,
    comm_quant_mode: SupportsIndex = 0,
    group_list_type: SupportsIndex = 0,
    comm_alg: Optional[str] = "",
    norm_eps: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeCombineAddRmsNormResult: ...

class MoeDistributeCombineAddRmsNormV2Result(NamedTuple):
    y: Any
    rstd: Any
    x: Any

def moe_distribute_combine_add_rms_norm_v2(
    expand_x: _Tensor,
    expert_ids: _Tensor,
    assist_info_for_combine: _Tensor,
    ep_send_counts: _Tensor,
    expert_scales: _Tensor,
    residual_x: _Tensor,
    gamma: _Tensor,
    tp_send_counts: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    weight_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    expand_scales: Optional[_Tensor] = None,
    shared_expert_x: Optional[_Tensor] = None,
    elastic_info: Optional[_Tensor] = None,
    ori_x: Optional[_Tensor] = None,
    const_expert_alpha1: Optional[_Tensor] = None,
    const_expert_alpha2: Optional[_Tensor] = None,
    const_expert_v: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = None,
    tp_world_size: SupportsIndex = ...,
    tp_rank_id: SupportsIndex = ...,
    expert_shard_type: SupportsIndex = ...,
    shared_expert_num: SupportsIndex = ...,
    shared_expert_rank_num: SupportsIndex = ...,
    global_bs: SupportsIndex = ...,
    out_dtype: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    group_list_type: SupportsIndex = ...,
    comm_alg: Optional[str] = None,
    norm_eps: SupportsFloat = ...,
    zero_expert_num: SupportsIndex = ...,
    copy_expert_num: SupportsIndex = ...,
    const_expert_num: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeCombineAddRmsNormV2Result: ...

class MoeDistributeCombineSetupResult(NamedTuple):
    quant_expand_x: Any
    comm_cmd_info: Any

def moe_distribute_combine_setup(
    expand_x: _Tensor,
    expert_ids: _Tensor,
    assist_info_for_combine: _Tensor,
    group_ep: str,
    ep_world_size: SupportsIndex,
    ep_rank_id: SupportsIndex,
    moe_expert_num: SupportsIndex,
    expert_shared_type: SupportsIndex,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    comm_quant_mode: SupportsIndex = 0,
    comm_type: SupportsIndex = 0,
    comm_alg: Optional[str] = "",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeCombineSetupResult: ...
def moe_distribute_combine_teardown(
    expand_x: _Tensor,
    quant_expand_x: _Tensor,
    expert_ids: _Tensor,
    expand_idx: _Tensor,
    expert_scales: _Tensor,
    comm_cmd_info: _Tensor,
    x_active_mask: Optional[_Tensor] = None,
    shared_expert_x: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    comm_quant_mode: SupportsIndex = 0,
    comm_type: SupportsIndex = 0,
    comm_alg: Optional[str] = "",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def moe_distribute_combine_v2(
    expand_x: _Tensor,
    expert_ids: _Tensor,
    assist_info_for_combine: _Tensor,
    ep_send_counts: _Tensor,
    expert_scales: _Tensor,
    tp_send_counts: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    weight_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    expand_scales: Optional[_Tensor] = None,
    shared_expert_x: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = "",
    tp_world_size: SupportsIndex = 0,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    out_dtype: SupportsIndex = 0,
    comm_quant_mode: SupportsIndex = 0,
    group_list_type: SupportsIndex = 0,
    comm_alg: Optional[str] = "",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def moe_distribute_combine_v3(
    expand_x: _Tensor,
    expert_ids: _Tensor,
    assist_info_for_combine: _Tensor,
    ep_send_counts: _Tensor,
    expert_scales: _Tensor,
    tp_send_counts: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    weight_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    expand_scales: Optional[_Tensor] = None,
    shared_expert_x: Optional[_Tensor] = None,
    elastic_info: Optional[_Tensor] = None,
    ori_x: Optional[_Tensor] = None,
    const_expert_alpha1: Optional[_Tensor] = None,
    const_expert_alpha2: Optional[_Tensor] = None,
    const_expert_v: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = None,
    tp_world_size: SupportsIndex = 0,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    out_dtype: SupportsIndex = 0,
    comm_quant_mode: SupportsIndex = 0,
    group_list_type: SupportsIndex = 0,
    comm_alg: Optional[str] = "",
    zero_expert_num: SupportsIndex = 0,
    copy_expert_num: SupportsIndex = 0,
    const_expert_num: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def moe_distribute_combine_v4(
    expand_x: _Tensor,
    expert_ids: _Tensor,
    assist_info_for_combine: _Tensor,
    ep_send_counts: _Tensor,
    expert_scales: _Tensor,
    tp_send_counts: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    activation_scale: Optional[_Tensor] = None,
    weight_scale: Optional[_Tensor] = None,
    group_list: Optional[_Tensor] = None,
    expand_scales: Optional[_Tensor] = None,
    shared_expert_x: Optional[_Tensor] = None,
    elastic_info: Optional[_Tensor] = None,
    ori_x: Optional[_Tensor] = None,
    const_expert_alpha1: Optional[_Tensor] = None,
    const_expert_alpha2: Optional[_Tensor] = None,
    const_expert_v: Optional[_Tensor] = None,
    performance_info: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = None,
    tp_world_size: SupportsIndex = ...,
    tp_rank_id: SupportsIndex = ...,
    expert_shard_type: SupportsIndex = ...,
    shared_expert_num: SupportsIndex = ...,
    shared_expert_rank_num: SupportsIndex = ...,
    global_bs: SupportsIndex = ...,
    out_dtype: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    group_list_type: SupportsIndex = ...,
    comm_alg: Optional[str] = None,
    zero_expert_num: SupportsIndex = ...,
    copy_expert_num: SupportsIndex = ...,
    const_expert_num: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeDistributeDispatchResult(NamedTuple):
    expand_x: Any
    dynamic_scales: Any
    expand_idx: Any
    expert_token_nums: Any
    ep_recv_counts: Any
    tp_recv_counts: Any
    expand_scales: Any

def moe_distribute_dispatch(
    x: _Tensor,
    expert_ids: _Tensor,
    scales: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    expert_scales: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = "",
    tp_world_size: SupportsIndex = 0,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    expert_token_nums_type: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeDispatchResult: ...

class MoeDistributeDispatchSetupResult(NamedTuple):
    y: Any
    expand_idx: Any
    comm_cmd_info: Any

def moe_distribute_dispatch_setup(
    x: _Tensor,
    expert_ids: _Tensor,
    scales: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    comm_type: SupportsIndex = 0,
    comm_alg: Optional[str] = "",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeDispatchSetupResult: ...

class MoeDistributeDispatchTeardownResult(NamedTuple):
    expand_x: Any
    dynamic_scales: Any
    assist_info_for_combine: Any
    expert_token_nums: Any

def moe_distribute_dispatch_teardown(
    x: _Tensor,
    y: _Tensor,
    expert_ids: _Tensor,
    comm_cmd_info: _Tensor,
    group_ep: str,
    ep_world_size: SupportsIndex,
    ep_rank_id: SupportsIndex,
    moe_expert_num: SupportsIndex,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    expert_token_nums_type: SupportsIndex = 1,
    comm_type: SupportsIndex = 0,
    comm_alg: Optional[str] = "",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeDispatchTeardownResult: ...

class MoeDistributeDispatchV2Result(NamedTuple):
    expand_x: Any
    dynamic_scales: Any
    assist_info_for_combine: Any
    expert_token_nums: Any
    ep_recv_counts: Any
    tp_recv_counts: Any
    expand_scales: Any

def moe_distribute_dispatch_v2(
    x: _Tensor,
    expert_ids: _Tensor,
    scales: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    expert_scales: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = "",
    tp_world_size: SupportsIndex = 0,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    expert_token_nums_type: SupportsIndex = 1,
    comm_alg: Optional[str] = "",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeDispatchV2Result: ...

class MoeDistributeDispatchV3Result(NamedTuple):
    expand_x: Any
    dynamic_scales: Any
    assist_info_for_combine: Any
    expert_token_nums: Any
    ep_recv_counts: Any
    tp_recv_counts: Any
    expand_scales: Any

def moe_distribute_dispatch_v3(
    x: _Tensor,
    expert_ids: _Tensor,
    scales: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    expert_scales: Optional[_Tensor] = None,
    elastic_info: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = "",
    tp_world_size: SupportsIndex = 0,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = 0,
    shared_expert_num: SupportsIndex = 1,
    shared_expert_rank_num: SupportsIndex = 0,
    quant_mode: SupportsIndex = 0,
    global_bs: SupportsIndex = 0,
    expert_token_nums_type: SupportsIndex = 1,
    comm_alg: Optional[str] = "",
    zero_expert_num: SupportsIndex = 0,
    copy_expert_num: SupportsIndex = 0,
    const_expert_num: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeDispatchV3Result: ...

class MoeDistributeDispatchV4Result(NamedTuple):
    expand_x: Any
    dynamic_scales: Any
    assist_info_for_combine: Any
    expert_token_nums: Any
    ep_recv_counts: Any
    tp_recv_counts: Any
    expand_scales: Any

def moe_distribute_dispatch_v4(
    x: _Tensor,
    expert_ids: _Tensor,
    scales: Optional[_Tensor] = None,
    x_active_mask: Optional[_Tensor] = None,
    expert_scales: Optional[_Tensor] = None,
    elastic_info: Optional[_Tensor] = None,
    performance_info: Optional[_Tensor] = None,
    group_ep: str = ...,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    moe_expert_num: SupportsIndex = ...,
    group_tp: Optional[str] = None,
    tp_world_size: SupportsIndex = ...,
    tp_rank_id: SupportsIndex = 0,
    expert_shard_type: SupportsIndex = ...,
    shared_expert_num: SupportsIndex = ...,
    shared_expert_rank_num: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    global_bs: SupportsIndex = ...,
    expert_token_nums_type: SupportsIndex = ...,
    comm_alg: Optional[str] = None,
    zero_expert_num: SupportsIndex = ...,
    copy_expert_num: SupportsIndex = ...,
    const_expert_num: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeDistributeDispatchV4Result: ...

class MoeEpCombineResult(NamedTuple):
    combined_x: Any
    combined_topk_weights: Any

def moe_ep_combine(
    context: _Tensor,
    x: _Tensor,
    topk_idx: _Tensor,
    recv_src_metadata: _Tensor,
    num_recv_tokens_per_expert: _Tensor,
    topk_weights: Optional[_Tensor] = None,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    num_experts: SupportsIndex = ...,
    num_max_tokens_per_rank: SupportsIndex = ...,
    ccl_buffer_size: SupportsIndex = ...,
    topo_type: SupportsIndex = 0,
    rank_num_per_server: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeEpCombineResult: ...

class MoeEpDispatchEpilogueResult(NamedTuple):
    recv_x: Any
    recv_src_metadata: Any
    recv_topk_weights: Any
    recv_scales: Any

def moe_ep_dispatch_epilogue(
    context: _Tensor,
    dst_buffer_slot_idx: _Tensor,
    num_recv_tokens_per_rank: _Tensor,
    num_recv_tokens_per_expert: _Tensor,
    cached_recv_src_metadata: Optional[_Tensor] = None,
    ep_world_size: SupportsIndex = ...,
    ep_rank_id: SupportsIndex = ...,
    num_experts: SupportsIndex = ...,
    num_max_tokens_per_rank: SupportsIndex = ...,
    ccl_buffer_size: SupportsIndex = ...,
    has_topk_weights: _Bool = True,
    topo_type: SupportsIndex = 0,
    rank_num_per_server: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeEpDispatchEpilogueResult: ...
def moe_ffn(
    x: _Tensor,
    quantized_weight13: _Tensor,
    weight_scale13: _Tensor,
    quantized_weight2: _Tensor,
    weight_scale2: _Tensor,
    expanded_expert_idx: Optional[_Tensor] = None,
    sorted_row_idx: Optional[_Tensor] = None,
    expanded_row_idx: Optional[_Tensor] = None,
    topk_weights: Optional[_Tensor] = None,
    weight_offset13: Optional[_Tensor] = None,
    weight_offset2: Optional[_Tensor] = None,
    scale_group_size: SupportsIndex = 0,
    topk: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def moe_finalize_routing(
    expanded_x: _Tensor,
    x1: _Tensor,
    x2: Optional[_Tensor] = None,
    bias: _Tensor = ...,
    scales: _Tensor = ...,
    expanded_row_idx: _Tensor = ...,
    expanded_expert_idx: _Tensor = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def moe_finalize_routing_v2(
    expanded_x: _Tensor,
    expanded_row_idx: _Tensor,
    x1: Optional[_Tensor] = None,
    x2: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    scales: Optional[_Tensor] = None,
    expert_idx: Optional[_Tensor] = None,
    drop_pad_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeFinalizeRoutingV2GradResult(NamedTuple):
    grad_expanded_x: Any
    grad_scales: Any

def moe_finalize_routing_v2_grad(
    grad_y: _Tensor,
    expanded_row_idx: _Tensor,
    expanded_x: Optional[_Tensor] = None,
    scales: Optional[_Tensor] = None,
    expert_idx: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    drop_pad_mode: SupportsIndex = 0,
    active_num: SupportsIndex = 0,
    expert_num: SupportsIndex = 0,
    expert_capacity: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeFinalizeRoutingV2GradResult: ...
def moe_finalize_routing_v3(
    expanded_x: _Tensor,
    expanded_row_idx: _Tensor,
    x1: Optional[_Tensor] = None,
    x2: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    scales: Optional[_Tensor] = None,
    expert_idx: Optional[_Tensor] = None,
    x: Optional[_Tensor] = None,
    a1: Optional[_Tensor] = None,
    a2: Optional[_Tensor] = None,
    v: Optional[_Tensor] = None,
    drop_pad_mode: SupportsIndex = 0,
    zero_expert_range: Optional[_Ints] = None,
    copy_expert_range: Optional[_Ints] = None,
    constant_expert_range: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def moe_finalize_routing_v4(
    expanded_x: _Tensor,
    expanded_row_idx: _Tensor,
    x1: Optional[_Tensor] = None,
    x2: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    scales: Optional[_Tensor] = None,
    expert_idx: Optional[_Tensor] = None,
    x: Optional[_Tensor] = None,
    a1: Optional[_Tensor] = None,
    a2: Optional[_Tensor] = None,
    v: Optional[_Tensor] = None,
    drop_pad_mode: SupportsIndex = 0,
    zero_expert_range: Optional[_Ints] = None,
    copy_expert_range: Optional[_Ints] = None,
    constant_expert_range: Optional[_Ints] = None,
    k: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeFusedTopkResult(NamedTuple):
    y: Any
    indices: Any

def moe_fused_topk(
    x: _Tensor,
    add_num: _Tensor,
    mapping_num: _Tensor,
    mapping_table: _Tensor,
    group_num: SupportsIndex,
    group_topk: SupportsIndex,
    top_n: SupportsIndex,
    top_k: SupportsIndex,
    activate_type: SupportsIndex,
    is_norm: _Bool,
    scale: SupportsFloat,
    enable_expert_mapping: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeFusedTopkResult: ...

class MoeGatingTopKResult(NamedTuple):
    y: Any
    expert_idx: Any
    out: Any

def moe_gating_top_k(
    x: _Tensor,
    bias: Optional[_Tensor] = None,
    k: SupportsIndex = ...,
    k_group: SupportsIndex = 1,
    group_count: SupportsIndex = 1,
    group_select_mode: SupportsIndex = 0,
    renorm: SupportsIndex = 0,
    norm_type: SupportsIndex = 0,
    out_flag: _Bool = False,
    routed_scaling_factor: SupportsFloat = 1.0,
    eps: SupportsFloat = 1e-20,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeGatingTopKResult: ...
def moe_gating_top_k_backward(
    x_norm: _Tensor,
    grad_y: _Tensor,
    expert_idx: _Tensor,
    renorm: SupportsIndex = 0,
    norm_type: SupportsIndex = 0,
    routed_scaling_factor: SupportsFloat = 1.0,
    eps: SupportsFloat = 1e-20,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeGatingTopKSoftmaxResult(NamedTuple):
    y: Any
    expert_idx: Any
    row_idx: Any

def moe_gating_top_k_softmax(
    x: _Tensor,
    finished: Optional[_Tensor] = None,
    k: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeGatingTopKSoftmaxResult: ...

class MoeGatingTopKSoftmaxV2Result(NamedTuple):
    y: Any
    expert_idx: Any
    softmax_result: Any

def moe_gating_top_k_softmax_v2(
    x: _Tensor,
    finished: Optional[_Tensor] = None,
    k: SupportsIndex = ...,
    renorm: SupportsIndex = 0,
    output_softmax_result_flag: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeGatingTopKSoftmaxV2Result: ...

class MoeGatingTopKV2Result(NamedTuple):
    y: Any
    expert_idx: Any
    out: Any

def moe_gating_top_kv2(
    x: _Tensor,
    bias: Optional[_Tensor] = None,
    input_ids: Optional[_Tensor] = None,
    tid2eid: Optional[_Tensor] = None,
    k: SupportsIndex = ...,
    k_group: SupportsIndex = ...,
    group_count: SupportsIndex = ...,
    group_select_mode: SupportsIndex = ...,
    renorm: SupportsIndex = ...,
    norm_type: SupportsIndex = ...,
    out_flag: _Bool = ...,
    routed_scaling_factor: SupportsFloat = ...,
    eps: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeGatingTopKV2Result: ...

class MoeInitRoutingResult(NamedTuple):
    expanded_x: Any
    expanded_row_idx: Any
    expanded_expert_idx: Any

def moe_init_routing(
    x: _Tensor,
    row_idx: _Tensor,
    expert_idx: _Tensor,
    active_num: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeInitRoutingResult: ...

class MoeInitRoutingQuantResult(NamedTuple):
    expanded_x: Any
    expanded_row_idx: Any
    expanded_expert_idx: Any

def moe_init_routing_quant(
    x: _Tensor,
    row_idx: _Tensor,
    expert_idx: _Tensor,
    active_num: SupportsIndex,
    scale: SupportsFloat,
    offset: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeInitRoutingQuantResult: ...

class MoeInitRoutingQuantV2Result(NamedTuple):
    expanded_x: Any
    expanded_row_idx: Any
    expert_tokens_count_or_cumsum: Any
    expert_tokens_before_capacity: Any
    dynamic_quant_scale: Any

def moe_init_routing_quant_v2(
    x: _Tensor,
    expert_idx: _Tensor,
    scale: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    active_num: SupportsIndex = 0,
    expert_capacity: SupportsIndex = 0,
    expert_num: SupportsIndex = 0,
    drop_pad_mode: SupportsIndex = 0,
    expert_tokens_count_or_cumsum_flag: SupportsIndex = 0,
    expert_tokens_before_capacity_flag: _Bool = False,
    quant_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeInitRoutingQuantV2Result: ...

class MoeInitRoutingV2Result(NamedTuple):
    expanded_x: Any
    expanded_row_idx: Any
    expert_tokens_count_or_cumsum: Any
    expert_tokens_before_capacity: Any

def moe_init_routing_v2(
    x: _Tensor,
    expert_idx: _Tensor,
    active_num: SupportsIndex = 0,
    expert_capacity: SupportsIndex = 0,
    expert_num: SupportsIndex = 0,
    drop_pad_mode: SupportsIndex = 0,
    expert_tokens_count_or_cumsum_flag: SupportsIndex = 0,
    expert_tokens_before_capacity_flag: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeInitRoutingV2Result: ...
def moe_init_routing_v2_grad(
    grad_expanded_x: _Tensor,
    expanded_row_idx: _Tensor,
    top_k: SupportsIndex,
    drop_pad_mode: SupportsIndex = 0,
    active_num: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeInitRoutingV3Result(NamedTuple):
    expanded_x: Any
    expanded_row_idx: Any
    expert_tokens_count_or_cumsum: Any
    expanded_scale: Any

def moe_init_routing_v3(
    x: _Tensor,
    expert_idx: _Tensor,
    scale: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    active_num: SupportsIndex = -1,
    expert_capacity: SupportsIndex = -1,
    expert_num: SupportsIndex = -1,
    drop_pad_mode: SupportsIndex = 0,
    expert_tokens_num_type: SupportsIndex = 0,
    expert_tokens_num_flag: _Bool = False,
    quant_mode: SupportsIndex = -1,
    active_expert_range: Optional[_Ints] = None,
    row_idx_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeInitRoutingV3Result: ...

class MoeInitRoutingV4Result(NamedTuple):
    expanded_x: Any
    expanded_row_idx: Any
    expert_tokens_count_or_cumsum: Any
    expanded_scale: Any
    expanded_topk_weight: Any

def moe_init_routing_v4(
    x: _Tensor,
    expert_idx: _Tensor,
    scale: Optional[_Tensor] = None,
    offset: Optional[_Tensor] = None,
    active_num: Optional[_Tensor] = None,
    topk_weight: Optional[_Tensor] = None,
    expert_capacity: SupportsIndex = -1,
    expert_num: SupportsIndex = -1,
    drop_pad_mode: SupportsIndex = 0,
    expert_tokens_num_type: SupportsIndex = 0,
    expert_tokens_num_flag: _Bool = False,
    quant_mode: SupportsIndex = -1,
    active_expert_range: Optional[_Ints] = None,
    row_idx_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeInitRoutingV4Result: ...

class MoeReRoutingResult(NamedTuple):
    permute_tokens: Any
    permute_per_token_scales: Any
    permute_token_idx: Any
    expert_token_num: Any

def moe_re_routing(
    tokens: _Tensor,
    expert_token_num_per_rank: _Tensor,
    per_token_scales: Optional[_Tensor] = None,
    expert_token_num_type: SupportsIndex = 1,
    idx_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeReRoutingResult: ...

class MoeReRoutingV2Result(NamedTuple):
    permute_tokens: Any
    permute_per_token_scales: Any
    permute_token_idx: Any
    expert_token_num: Any
    permute_topk_weight: Any

def moe_re_routing_v2(
    tokens: _Tensor,
    expert_token_num_per_rank: _Tensor,
    per_token_scales: Optional[_Tensor] = None,
    expert_topk_weight: Optional[_Tensor] = None,
    expert_token_num_type: SupportsIndex = 1,
    idx_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeReRoutingV2Result: ...

class MoeTokenPermuteResult(NamedTuple):
    permute_tokens: Any
    sorted_indices: Any

def moe_token_permute(
    tokens: _Tensor,
    indices: _Tensor,
    num_out_tokens: SupportsIndex = 0,
    padded_mode: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenPermuteResult: ...
def moe_token_permute_grad(
    permuted_output_grad: _Tensor,
    sorted_indices: _Tensor,
    num_topk: SupportsIndex,
    padded_mode: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeTokenPermuteV2Result(NamedTuple):
    permute_tokens: Any
    sorted_indices: Any
    expanded_scale: Any

def moe_token_permute_v2(
    tokens: _Tensor,
    indices: _Tensor,
    num_out_tokens: SupportsIndex,
    padded_mode: _Bool,
    quant_mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenPermuteV2Result: ...

class MoeTokenPermuteWithEpResult(NamedTuple):
    permute_tokens: Any
    sorted_indices: Any
    permute_probs: Any

def moe_token_permute_with_ep(
    tokens: _Tensor,
    indices: _Tensor,
    probs: Optional[_Tensor] = None,
    range: Optional[_Ints] = None,
    num_out_tokens: SupportsIndex = 0,
    padded_mode: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenPermuteWithEpResult: ...

class MoeTokenPermuteWithEpGradResult(NamedTuple):
    token_grad: Any
    probs_grad: Any

def moe_token_permute_with_ep_grad(
    permuted_tokens_output_grad: _Tensor,
    sorted_indices: _Tensor,
    permuted_probs_output_grad: Optional[_Tensor] = None,
    num_topk: SupportsIndex = ...,
    range: Optional[_Ints] = None,
    padded_mode: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenPermuteWithEpGradResult: ...

class MoeTokenPermuteWithRoutingMapResult(NamedTuple):
    permute_tokens: Any
    permute_probs: Any
    sorted_indices: Any

def moe_token_permute_with_routing_map(
    tokens: _Tensor,
    routing_map: _Tensor,
    probs: Optional[_Tensor] = None,
    num_out_tokens: SupportsIndex = ...,
    drop_and_pad: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenPermuteWithRoutingMapResult: ...

class MoeTokenPermuteWithRoutingMapGradResult(NamedTuple):
    tokens_grad: Any
    probs_grad: Any

def moe_token_permute_with_routing_map_grad(
    permuted_token_output_grad: _Tensor,
    permuted_probs_output_grad: Optional[_Tensor] = None,
    sorted_indices: _Tensor = ...,
    routing_map: Optional[_Tensor] = None,
    num_experts: SupportsIndex = ...,
    tokens_num: SupportsIndex = ...,
    drop_and_pad: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenPermuteWithRoutingMapGradResult: ...
def moe_token_unpermute(
    permuted_tokens: _Tensor,
    sorted_indices: _Tensor,
    probs: Optional[_Tensor] = None,
    padded_mode: _Bool = False,
    restore_shape: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeTokenUnpermuteGradResult(NamedTuple):
    permuted_tokens_grad: Any
    probs_grad: Any

def moe_token_unpermute_grad(
    permuted_tokens: _Tensor,
    unpermuted_tokens_grad: _Tensor,
    sorted_indices: _Tensor,
    probs: Optional[_Tensor] = None,
    padded_mode: _Bool = False,
    restore_shape: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenUnpermuteGradResult: ...
def moe_token_unpermute_with_ep(
    permuted_tokens: _Tensor,
    sorted_indices: _Tensor,
    probs: Optional[_Tensor] = None,
    num_topk: SupportsIndex = 1,
    range: Optional[_Ints] = None,
    padded_mode: _Bool = False,
    restore_shape: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MoeTokenUnpermuteWithEpGradResult(NamedTuple):
    permuted_tokens_grad: Any
    probs_grad: Any

def moe_token_unpermute_with_ep_grad(
    unpermuted_tokens_grad: _Tensor,
    sorted_indices: _Tensor,
    permuted_tokens: Optional[_Tensor] = None,
    probs: Optional[_Tensor] = None,
    padded_mode: _Bool = False,
    restore_shape: Optional[_Ints] = None,
    range: Optional[_Ints] = None,
    topk_num: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenUnpermuteWithEpGradResult: ...

class MoeTokenUnpermuteWithRoutingMapResult(NamedTuple):
    unpermuted_tokens: Any
    out_index: Any
    permute_token_id: Any
    permute_probs: Any

def moe_token_unpermute_with_routing_map(
    permuted_tokens: _Tensor,
    sorted_indices: _Tensor,
    routing_map: Optional[_Tensor] = None,
    probs: Optional[_Tensor] = None,
    padded_mode: _Bool = ...,
    restore_shape: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenUnpermuteWithRoutingMapResult: ...

class MoeTokenUnpermuteWithRoutingMapGradResult(NamedTuple):
    permuted_tokens_grad: Any
    probs_grad: Any

def moe_token_unpermute_with_routing_map_grad(
    unpermuted_tokens_grad: _Tensor,
    out_index: _Tensor,
    permute_token_id: _Tensor,
    routing_map: Optional[_Tensor] = None,
    permuted_tokens: Optional[_Tensor] = None,
    probs: Optional[_Tensor] = None,
    drop_and_pad: _Bool = False,
    restore_shape: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeTokenUnpermuteWithRoutingMapGradResult: ...

class MoeUpdateExpertResult(NamedTuple):
    balanced_expert_ids: Any
    balanced_active_mask: Any

def moe_update_expert(
    expert_ids: _Tensor,
    eplb_table: _Tensor,
    expert_scales: Optional[_Tensor] = None,
    pruning_threshold: Optional[_Tensor] = None,
    active_mask: Optional[_Tensor] = None,
    local_rank_id: SupportsIndex = -1,
    world_size: SupportsIndex = -1,
    balance_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MoeUpdateExpertResult: ...
def mrgba_custom(rgb: _Tensor, alpha: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def msa_index_score(
    query: _Tensor,
    key: _Tensor,
    block_table: Optional[_Tensor] = None,
    scale: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_qlen: Optional[_Tensor] = None,
    actual_seq_klen: Optional[_Tensor] = None,
    start_loc: _Tensor = ...,
    layout_key: Optional[str] = "BBND",
    sparse_mode: SupportsIndex = 3,
    init_blocks: SupportsIndex = 0,
    local_blocks: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def mse_loss(
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def mse_loss_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def mse_loss_grad(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    reduction: Optional[str] = "mean",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def mse_loss_out(
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def mul(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def mul_no_nan(x: _Tensor, y: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def mul_v2(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def muls(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class MultiScaleDeformableAttentionGradResult(NamedTuple):
    grad_value: Any
    grad_location: Any
    grad_attn_weight: Any

def multi_scale_deformable_attention_grad(
    value: _Tensor,
    spatial_shape: _Tensor,
    level_start_index: _Tensor,
    location: _Tensor,
    attn_weight: _Tensor,
    grad_output: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MultiScaleDeformableAttentionGradResult: ...
def multi_scale_deformable_attn_function(
    value: _Tensor,
    spatial_shape: _Tensor,
    level_start_index: _Tensor,
    location: _Tensor,
    attn_weight: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MultilabelMarginLossResult(NamedTuple):
    out: Any
    is_target: Any

def multilabel_margin_loss(
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MultilabelMarginLossResult: ...
def multinomial(
    self: _Tensor,
    numsamples: SupportsIndex,
    replacement: _Bool,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def multinomial_tensor(
    self: _Tensor,
    numsamples: SupportsIndex,
    replacement: _Bool,
    seed_tensor: _Tensor,
    offset_tensor: _Tensor,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def mv(
    self: _Tensor,
    vec: _Tensor,
    cube_math_type: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class MxToBlockMxQuantResult(NamedTuple):
    y: Any
    scale1: Any
    scale2: Any

def mx_to_block_mx_quant(
    x: _Tensor,
    mxscale: _Tensor,
    dst_type: SupportsIndex = 36,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> MxToBlockMxQuantResult: ...
def nan_median(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class NanMedianDimResult(NamedTuple):
    values: Any
    indices: Any

def nan_median_dim(
    self: _Tensor,
    dim: SupportsIndex,
    keep_dim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NanMedianDimResult: ...
def nan_to_num(
    self: _Tensor,
    nan: SupportsFloat,
    posinf: SupportsFloat,
    neginf: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def ndtri(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def ne_scalar(self: _Tensor, other: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def ne_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def neg(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class NLLLossResult(NamedTuple):
    out: Any
    total_weight: Any

def nll_loss(
    self: _Tensor,
    target: _Tensor,
    weight: _Tensor,
    reduction: SupportsIndex,
    ignore_index: SupportsIndex = -100,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NLLLossResult: ...

class NLLLoss2dResult(NamedTuple):
    out: Any
    total_weight: Any

def nll_loss2d(
    self: _Tensor,
    target: _Tensor,
    weight: _Tensor,
    reduction: SupportsIndex,
    ignore_index: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NLLLoss2dResult: ...
def nll_loss2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    weight: _Tensor,
    reduction: SupportsIndex,
    ignore_index: SupportsIndex,
    total_weight: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def nll_loss_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    weight: _Tensor,
    reduction: SupportsIndex,
    ignore_index: SupportsIndex,
    total_weight: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def non_max_suppression(
    boxes: _Tensor,
    scores: _Tensor,
    max_output_boxes_per_class: _Ints,
    iou_threshold: _Floats,
    score_threshold: _Floats,
    center_point_box: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def nonzero(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def nonzero_v2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def norm(
    self: _Tensor,
    p_scalar: _Scalar,
    dim: _Ints,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class NormRopeConcatResult(NamedTuple):
    query_output: Any
    key_output: Any
    value_output: Any
    norm_query_mean: Any
    norm_query_rstd: Any
    norm_key_mean: Any
    norm_key_rstd: Any
    norm_added_query_mean: Any
    norm_added_query_rstd: Any
    norm_added_key_mean: Any
    norm_added_key_rstd: Any

def norm_rope_concat(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    encoder_query: _Tensor,
    encoder_key: _Tensor,
    encoder_value: _Tensor,
    norm_query_weight: _Tensor,
    norm_query_bias: _Tensor,
    norm_key_weight: _Tensor,
    norm_key_bias: _Tensor,
    norm_added_query_weight: _Tensor,
    norm_added_query_bias: _Tensor,
    norm_added_key_weight: _Tensor,
    norm_added_key_bias: _Tensor,
    rope_sin: _Tensor,
    rope_cos: _Tensor,
    norm_type: SupportsIndex = 0,
    norm_added_type: SupportsIndex = 0,
    rope_type: SupportsIndex = 0,
    concat_order: SupportsIndex = 0,
    eps: SupportsFloat = 1e-05,
    is_training: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NormRopeConcatResult: ...

class NormRopeConcatBackwardResult(NamedTuple):
    grad_query: Any
    grad_key: Any
    grad_value: Any
    grad_encoder_query: Any
    grad_encoder_key: Any
    grad_encoder_value: Any
    grad_norm_query_weight: Any
    grad_norm_query_bias: Any
    grad_norm_key_weight: Any
    grad_norm_key_bias: Any
    grad_norm_added_query_weight: Any
    grad_norm_added_query_bias: Any
    grad_norm_added_key_weight: Any
    grad_norm_added_key_bias: Any

def norm_rope_concat_backward(
    grad_query_output: _Tensor,
    grad_key_output: _Tensor,
    grad_value_output: _Tensor,
    query: _Tensor,
    key: _Tensor,
    encoder_query: Optional[_Tensor] = None,
    encoder_key: Optional[_Tensor] = None,
    norm_query_weight: Optional[_Tensor] = None,
    norm_query_mean: Optional[_Tensor] = None,
    norm_query_rstd: Optional[_Tensor] = None,
    norm_key_weight: Optional[_Tensor] = None,
    norm_key_mean: Optional[_Tensor] = None,
    norm_key_rstd: Optional[_Tensor] = None,
    norm_added_query_weight: Optional[_Tensor] = None,
    norm_added_query_mean: Optional[_Tensor] = None,
    norm_added_query_rstd: Optional[_Tensor] = None,
    norm_added_key_weight: Optional[_Tensor] = None,
    norm_added_key_mean: Optional[_Tensor] = None,
    norm_added_key_rstd: Optional[_Tensor] = None,
    rope_sin: Optional[_Tensor] = None,
    rope_cos: Optional[_Tensor] = None,
    norm_type: SupportsIndex = ...,
    norm_added_type: SupportsIndex = ...,
    rope_type: SupportsIndex = ...,
    concat_order: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NormRopeConcatBackwardResult: ...
def normal_float_float(
    mean: SupportsFloat,
    std: SupportsFloat,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def normal_float_tensor(
    mean: SupportsFloat,
    std: _Tensor,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def normal_tensor_float(
    mean: _Tensor,
    std: SupportsFloat,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def normal_tensor_tensor(
    mean: _Tensor,
    std: _Tensor,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def npu_format_cast(src_tensor: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def nsa_compress(
    input: _Tensor,
    weight: _Tensor,
    act_seq_len: Optional[_Ints] = None,
    layout: Optional[str] = "TND",
    compress_block_size: SupportsIndex = ...,
    compress_stride: SupportsIndex = ...,
    act_seq_len_type: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class NsaCompressAttentionResult(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    attention_out: Any
    topk_indices: Any

def nsa_compress_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    topk_mask: Optional[_Tensor] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_cmp_seq_kv_len: Optional[_Ints] = None,
    actual_sel_seq_kv_len: Optional[_Ints] = None,
    scale_value: SupportsFloat = 1.0,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    sparse_mode: SupportsIndex = 0,
    compress_block_size: SupportsIndex = ...,
    compress_stride: SupportsIndex = ...,
    select_block_size: SupportsIndex = ...,
    select_block_count: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NsaCompressAttentionResult: ...

class NsaCompressAttentionInferResult(NamedTuple):
    output: Any
    top_k_output: Any

def nsa_compress_attention_infer(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    attention_mask: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    actual_q_seq_len: Optional[_Ints] = None,
    actual_cmp_kv_seq_len: Optional[_Ints] = None,
    actual_sel_kv_seq_len: Optional[_Ints] = None,
    top_k_mask: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    num_key_value_heads: SupportsIndex = 0,
    select_block_size: SupportsIndex = ...,
    select_block_count: SupportsIndex = ...,
    compress_block_size: SupportsIndex = ...,
    compress_block_stride: SupportsIndex = ...,
    scale_value: SupportsFloat = 1.0,
    layout: Optional[str] = "",
    page_block_size: SupportsIndex = ...,
    sparse_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NsaCompressAttentionInferResult: ...

class NsaCompressGradResult(NamedTuple):
    input_grad: Any
    weight_grad: Any

def nsa_compress_grad(
    output_grad: _Tensor,
    input: _Tensor,
    weight: _Tensor,
    act_seq_len: Optional[_Ints] = None,
    compress_block_size: SupportsIndex = ...,
    compress_stride: SupportsIndex = ...,
    act_seq_len_type: SupportsIndex = ...,
    layout: Optional[str] = "TND",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NsaCompressGradResult: ...
def nsa_compress_with_cache(
    input: _Tensor,
    weight: _Tensor,
    slot_mapping: _Tensor,
    act_seq_len: Optional[_Ints] = None,
    block_table: Optional[_Tensor] = None,
    layout: Optional[str] = "TND",
    compress_block_size: SupportsIndex = ...,
    compress_stride: SupportsIndex = ...,
    act_seq_len_type: SupportsIndex = ...,
    page_block_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class NsaSelectedAttentionResult(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    attention: Any

def nsa_selected_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    topk_indices: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    scale_value: SupportsFloat = 1.0,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    sparse_mode: SupportsIndex = 0,
    selected_block_size: SupportsIndex = ...,
    selected_block_count: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NsaSelectedAttentionResult: ...

class NsaSelectedAttentionGradResult(NamedTuple):
    dq: Any
    dk: Any
    dv: Any

def nsa_selected_attention_grad(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    attention_out: _Tensor,
    attention_out_grad: _Tensor,
    softmax_max: _Tensor,
    softmax_sum: _Tensor,
    topk_indices: _Tensor,
    actual_seq_q_len: Optional[_Ints] = None,
    actual_seq_kv_len: Optional[_Ints] = None,
    atten_mask: Optional[_Tensor] = None,
    scale_value: SupportsFloat = ...,
    selected_block_size: SupportsIndex = ...,
    selected_block_count: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    sparse_mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> NsaSelectedAttentionGradResult: ...
def nsa_selected_attention_infer(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    topk_indices: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    actual_q_seq_len: Optional[_Ints] = None,
    actual_kv_seq_len: Optional[_Ints] = None,
    layout: Optional[str] = "BSND",
    num_heads: SupportsIndex = ...,
    num_key_value_heads: SupportsIndex = ...,
    select_block_size: SupportsIndex = ...,
    select_block_count: SupportsIndex = ...,
    page_block_size: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    sparse_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def one_hot(
    self: _Tensor,
    num_classes: SupportsIndex,
    on_value: _Tensor,
    off_value: _Tensor,
    axis: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def onehot(x: _Tensor, depth: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class OptimizedTransducerResult(NamedTuple):
    loss: Any
    grad: Any

def optimized_transducer(
    logits: _Tensor,
    targets: _Tensor,
    logit_lengths: _Tensor,
    target_lengths: _Tensor,
    blank: SupportsIndex = -1,
    clamp: SupportsFloat = -1.0,
    fused_log_softmax: _Bool = True,
    requires_grad: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> OptimizedTransducerResult: ...
def pack_v2(
    x: _Tensor,
    y: _Tensor,
    d: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def pdist(self: _Tensor, p: SupportsFloat = 2.0, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def pdist_forward(self: _Tensor, p_scalar: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def permute(self: _Tensor, dims: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def polar(input: _Tensor, angle: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def pow2(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def pow_scalar_tensor(
    self: _Scalar,
    exponent: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def pow_tensor_scalar(
    self: _Tensor,
    exponent: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def pow_tensor_tensor(
    self: _Tensor,
    exponent: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def precision_compare(
    golden: _Tensor,
    realdata: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def prelu(self: _Tensor, weight: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class PreluBackwardResult(NamedTuple):
    grad_input: Any
    grad_weight: Any

def prelu_backward(
    grad_output: _Tensor,
    self: _Tensor,
    weight: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> PreluBackwardResult: ...
def prod(self: _Tensor, dtype: DTypeLike, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def prod_dim(
    self: _Tensor,
    dim: SupportsIndex,
    keep_dim: _Bool,
    dtype: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def prompt_flash_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = 1.0,
    pre_tokens: SupportsIndex = 214748647,
    next_tokens: SupportsIndex = 0,
    input_layout: str = "BSH",
    num_key_value_heads: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def prompt_flash_attention_v2(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def prompt_flash_attention_v3(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    pse_shift: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    deq_scale1: Optional[_Tensor] = None,
    quant_scale1: Optional[_Tensor] = None,
    deq_scale2: Optional[_Tensor] = None,
    quant_scale2: Optional[_Tensor] = None,
    quant_offset2: Optional[_Tensor] = None,
    num_heads: SupportsIndex = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    input_layout: str = ...,
    num_key_value_heads: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QkvRmsNormRopeCacheResult(NamedTuple):
    q_out: Any
    k_cache: Any
    v_cache: Any
    q_out_before_quant: Any
    k_out_before_quant: Any
    v_out_before_quant: Any

def qkv_rms_norm_rope_cache(
    qkv: _Tensor,
    q_gamma: _Tensor,
    k_gamma: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    index: _Tensor,
    q_out: _Tensor,
    k_cache: _Tensor,
    v_cache: _Tensor,
    k_scale: Optional[_Tensor] = None,
    v_scale: Optional[_Tensor] = None,
    k_offset: Optional[_Tensor] = None,
    v_offset: Optional[_Tensor] = None,
    qkv_size: _Ints = ...,
    head_nums: _Ints = ...,
    epsilon: SupportsFloat = 1e-06,
    cache_mode: Optional[str] = "PA_NZ",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QkvRmsNormRopeCacheResult: ...

class QkvRmsNormRopeCacheWithKScaleResult(NamedTuple):
    k_cache: Any
    v_cache: Any
    k_scale_cache: Any
    q: Any
    q_scale: Any

def qkv_rms_norm_rope_cache_with_k_scale(
    qkv: _Tensor,
    q_gamma: _Tensor,
    k_gamma: _Tensor,
    cos_sin: _Tensor,
    slot_mapping: _Tensor,
    k_cache: _Tensor,
    v_cache: _Tensor,
    k_scale_cache: _Tensor,
    query_start_loc: Optional[_Tensor] = None,
    seq_lens: Optional[_Tensor] = None,
    rotation: Optional[_Tensor] = None,
    v_scale: Optional[_Tensor] = None,
    mrope_position: Optional[_Tensor] = None,
    head_nums: _Ints = ...,
    layout_qkv: str = "TND",
    layout_q_out: str = "NTD",
    epsilon: SupportsFloat = 1e-06,
    mrope_section: Optional[_Ints] = None,
    q_quant_mode: str = "PerTokenPerHead",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QkvRmsNormRopeCacheWithKScaleResult: ...

class QrResult(NamedTuple):
    q: Any
    r: Any

def qr(self: _Tensor, some: _Bool, *, out: _Out = None, stream: Optional[Stream] = None) -> QrResult: ...
def quant_all_reduce(
    x: _Tensor,
    scales: _Tensor,
    group: str,
    reduce_op: Optional[str] = "sum",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_batch_matmul_inplace_add(
    x1: _Tensor,
    x2: _Tensor,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    y: _Tensor = ...,
    transpose_x1: _Bool = False,
    transpose_x2: _Bool = False,
    group_size: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantBlockSparseAttnResult(NamedTuple):
    attention_out: Any
    softmax_lse: Any

def quant_block_sparse_attn(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    q_descale: _Tensor,
    k_descale: _Tensor,
    v_descale: _Tensor,
    p_scale: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    sparse_indices: _Tensor = ...,
    sparse_seq_len: _Tensor = ...,
    block_table: Optional[_Tensor] = None,
    atten_mask: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    softmax_scale: SupportsFloat = ...,
    sparse_q_block_size: SupportsIndex = ...,
    sparse_kv_block_size: SupportsIndex = ...,
    layout_kv: str = ...,
    layout_q: str = ...,
    layout_sparse_indices: str = ...,
    layout_out: str = ...,
    quant_mode: SupportsIndex = 1,
    mask_mode: SupportsIndex = 3,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantBlockSparseAttnResult: ...
def quant_block_sparse_attn_metadata(
    sparse_seq_len: _Tensor,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    sparse_block_size_q: SupportsIndex = ...,
    sparse_block_size_k: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    mask_mode: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_kv: Optional[str] = None,
    layout_sparse_indices: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantCompressorResult(NamedTuple):
    state_cache: Any
    cmp_kv: Any

def quant_compressor(
    x: _Tensor,
    wkv: _Tensor,
    wgate: _Tensor,
    state_cache: _Tensor,
    ape: _Tensor,
    x_descale: Optional[_Tensor] = None,
    wkv_descale: Optional[_Tensor] = None,
    wgate_descale: Optional[_Tensor] = None,
    state_block_table: Optional[_Tensor] = None,
    cu_seqlens: Optional[_Tensor] = None,
    seqused: Optional[_Tensor] = None,
    start_pos: Optional[_Tensor] = None,
    quant_mode: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    coff: SupportsIndex = 1,
    cache_mode: SupportsIndex = 1,
    state_cache_stride_dim0: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantCompressorResult: ...
def quant_convolution(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    stride: _Ints = ...,
    padding: _Ints = ...,
    dilation: _Ints = ...,
    transposed: _Bool = ...,
    output_padding: Optional[_Ints] = None,
    groups: SupportsIndex = ...,
    offsetx: SupportsIndex = ...,
    round_mode: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_convolution_weight_nz(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    stride: _Ints = ...,
    padding: _Ints = ...,
    dilation: _Ints = ...,
    transposed: _Bool = ...,
    output_padding: Optional[_Ints] = None,
    groups: SupportsIndex = ...,
    offsetx: SupportsIndex = ...,
    round_mode: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantFlashAttentionScoreResult(NamedTuple):
    softmax_max: Any
    softmax_sum: Any
    softmax_outout: Any
    attention_out: Any

def quant_flash_attention_score(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    d_scale_q: _Tensor = ...,
    d_scale_k: _Tensor = ...,
    d_scale_v: _Tensor = ...,
    p_scale: _Tensor = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    sparse_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantFlashAttentionScoreResult: ...

class QuantFlashAttentionScoreGradResult(NamedTuple):
    dq: Any
    dk: Any
    dv: Any

def quant_flash_attention_score_grad(
    query: _Tensor,
    key_in: _Tensor,
    value: _Tensor,
    dy: _Tensor,
    atten_mask: Optional[_Tensor] = None,
    softmax_max: _Tensor = ...,
    softmax_sum: _Tensor = ...,
    attention_in: _Tensor = ...,
    d_scale_q: _Tensor = ...,
    d_scale_k: _Tensor = ...,
    d_scale_v: _Tensor = ...,
    d_scale_dy: _Tensor = ...,
    ds_scale: _Tensor = ...,
    p_scale: _Tensor = ...,
    scale_value: SupportsFloat = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    head_num: SupportsIndex = ...,
    input_layout: str = ...,
    sparse_mode: SupportsIndex = ...,
    out_dtype: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantFlashAttentionScoreGradResult: ...

class QuantFlashAttnResult(NamedTuple):
    attn: Any
    softmax_lse: Any

def quant_flash_attn(
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    q_descale: _Tensor,
    k_descale: _Tensor,
    v_descale: _Tensor,
    block_table: Optional[_Tensor] = None,
    p_scale: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    attn_mask: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    quant_mode: SupportsIndex = ...,
    softmax_scale: SupportsFloat = ...,
    mask_mode: SupportsIndex = 0,
    win_left: SupportsIndex = -1,
    win_right: SupportsIndex = -1,
    max_seqlen_q: SupportsIndex = -1,
    max_seqlen_kv: SupportsIndex = -1,
    layout_q: str = "BSND",
    layout_q_descale: str = "BSND",
    layout_kv: str = "BSND",
    layout_out: str = "BSND",
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantFlashAttnResult: ...
def quant_flash_attn_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    v_descale: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_kv: SupportsIndex = ...,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    mask_mode: SupportsIndex = ...,
    win_left: SupportsIndex = ...,
    win_right: SupportsIndex = ...,
    layout_q: str = ...,
    layout_q_descale: str = ...,
    layout_kv: str = ...,
    layout_out: str = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantGroupedMatMulAlltoAllvResult(NamedTuple):
    y: Any
    mm_y: Any

def quant_grouped_mat_mul_allto_allv(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    gmm_x_scale: _Tensor,
    gmm_weight_scale: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    mm_x_scale: Optional[_Tensor] = None,
    mm_weight_scale: Optional[_Tensor] = None,
    comm_quant_scale: Optional[_Tensor] = None,
    gmm_x_quant_mode: SupportsIndex = ...,
    gmm_weight_quant_mode: SupportsIndex = ...,
    mm_x_quant_mode: SupportsIndex = 0,
    mm_weight_quant_mode: SupportsIndex = 0,
    comm_quant_mode: SupportsIndex = 0,
    comm_quant_dtype: SupportsIndex = 0,
    group_size: SupportsIndex = 0,
    group: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = ...,
    trans_mm_weight: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantGroupedMatMulAlltoAllvResult: ...

class QuantGroupedMatMulAlltoAllvV2Result(NamedTuple):
    y: Any
    mm_y: Any

def quant_grouped_mat_mul_allto_allv_v2(
    gmm_x: _Tensor,
    gmm_weight: _Tensor,
    gmm_x_scale: _Tensor,
    gmm_weight_scale: _Tensor,
    send_counts_tensor: Optional[_Tensor] = None,
    recv_counts_tensor: Optional[_Tensor] = None,
    mm_x: Optional[_Tensor] = None,
    mm_weight: Optional[_Tensor] = None,
    mm_x_scale: Optional[_Tensor] = None,
    mm_weight_scale: Optional[_Tensor] = None,
    comm_quant_scale: Optional[_Tensor] = None,
    gmm_x_quant_mode: SupportsIndex = ...,
    gmm_weight_quant_mode: SupportsIndex = ...,
    mm_x_quant_mode: SupportsIndex = ...,
    mm_weight_quant_mode: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    comm_quant_dtype: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    group: str = ...,
    comm_mode: str = ...,
    ep_world_size: SupportsIndex = ...,
    send_counts: _Ints = ...,
    recv_counts: _Ints = ...,
    trans_gmm_weight: _Bool = ...,
    trans_mm_weight: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantGroupedMatMulAlltoAllvV2Result: ...
def quant_grouped_matmul_dequant(
    x: _Tensor,
    weight: _Tensor,
    weight_scale: _Tensor,
    group_list: _Tensor,
    bias: Optional[_Tensor] = None,
    x_scale: Optional[_Tensor] = None,
    x_offset: Optional[_Tensor] = None,
    smooth_scale: Optional[_Tensor] = None,
    x_quant_mode: str = "pertoken",
    transpose_weight: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_grouped_matmul_dequant_weight_nz(
    x: _Tensor,
    weight: _Tensor,
    weight_scale: _Tensor,
    group_list: _Tensor,
    bias: Optional[_Tensor] = None,
    x_scale: Optional[_Tensor] = None,
    x_offset: Optional[_Tensor] = None,
    smooth_scale: Optional[_Tensor] = None,
    x_quant_mode: str = ...,
    transpose_weight: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_grouped_matmul_inplace_add(
    x1: _Tensor,
    x2: _Tensor,
    scale1: Optional[_Tensor] = None,
    scale2: _Tensor = ...,
    group_list: _Tensor = ...,
    y: _Tensor = ...,
    group_list_type: SupportsIndex = 0,
    group_size: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_lightning_indexer(
    query: _Tensor,
    key: _Tensor,
    weights: _Tensor,
    query_dequant_scale: _Tensor,
    key_dequant_scale: _Tensor,
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_key: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    query_quant_mode: SupportsIndex = ...,
    key_quant_mode: SupportsIndex = ...,
    layout_query: Optional[str] = "BSND",
    layout_key: Optional[str] = "BSND",
    sparse_count: SupportsIndex = 2048,
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_lightning_indexer_metadata(
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_key: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    query_quant_mode: SupportsIndex = ...,
    key_quant_mode: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_k: SupportsIndex = ...,
    layout_query: Optional[str] = None,
    layout_key: Optional[str] = None,
    sparse_count: SupportsIndex = ...,
    sparse_mode: SupportsIndex = ...,
    pre_tokens: SupportsIndex = ...,
    next_tokens: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantLightningIndexerV2Result(NamedTuple):
    sparse_indices: Any
    sparse_values: Any

def quant_lightning_indexer_v2(
    query: _Tensor,
    key: _Tensor,
    weights: _Tensor,
    query_dequant_scale: _Tensor,
    key_dequant_scale: _Tensor,
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_k: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    block_table: Optional[_Tensor] = None,
    output_idx_offset: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    topk: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = -1,
    layout_q: Optional[str] = "BSND",
    layout_k: Optional[str] = "BSND",
    mask_mode: SupportsIndex = 0,
    cmp_ratio: SupportsIndex = 1,
    return_value: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantLightningIndexerV2Result: ...
def quant_lightning_indexer_v2_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_k: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    topk: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_k: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_k: Optional[str] = None,
    mask_mode: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    deq_scale: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantMatmulActivationQuantWeightNzResult(NamedTuple):
    y: Any
    y_scale: Any

def quant_matmul_activation_quant_weight_nz(
    x1: _Tensor,
    x2: _Tensor,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    group_size: SupportsIndex = ...,
    activation_type: str = ...,
    quant_mode: str = ...,
    round_mode: Optional[str] = None,
    scale_alg: SupportsIndex = ...,
    dst_type_max: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantMatmulActivationQuantWeightNzResult: ...
def quant_matmul_all_reduce(
    x1: _Tensor,
    x2: _Tensor,
    bias: _Tensor,
    x3: _Tensor,
    dequant_scale: _Tensor,
    group: str,
    reduce_op: str,
    comm_turn: SupportsIndex,
    stream_mode: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantMatmulAllReduceAddRmsNormResult(NamedTuple):
    y: Any
    norm: Any

def quant_matmul_all_reduce_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    dequant_scale: _Tensor = ...,
    residual: _Tensor = ...,
    gamma: _Tensor = ...,
    epsilon: SupportsFloat = ...,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantMatmulAllReduceAddRmsNormResult: ...
def quant_matmul_all_reduce_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    dequant_scale: _Tensor = ...,
    pertoken_scale: Optional[_Tensor] = None,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_all_reduce_v3(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    dequant_scale: _Tensor = ...,
    pertoken_scale: Optional[_Tensor] = None,
    comm_quant_scale1: Optional[_Tensor] = None,
    comm_quant_scale2: Optional[_Tensor] = None,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_all_reduce_v4(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    comm_quant_scale1: Optional[_Tensor] = None,
    comm_quant_scale2: Optional[_Tensor] = None,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_all_reduce_v5(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    comm_quant_scale1: Optional[_Tensor] = None,
    comm_quant_scale2: Optional[_Tensor] = None,
    group: str = ...,
    reduce_op: str = ...,
    comm_mode: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_allto_all(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: _Tensor = ...,
    x2_scale: _Tensor = ...,
    comm_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    allto_all_axes: Optional[_Ints] = None,
    group: str = ...,
    x1_quant_mode: SupportsIndex = ...,
    x2_quant_mode: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    comm_quant_dtype: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_allto_all_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: _Tensor = ...,
    x2_scale: _Tensor = ...,
    comm_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    allto_all_axes: Optional[_Ints] = None,
    group: str = ...,
    comm_mode: str = ...,
    x1_quant_mode: SupportsIndex = ...,
    x2_quant_mode: SupportsIndex = ...,
    comm_quant_mode: SupportsIndex = ...,
    comm_quant_dtype: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_dequant(
    x: _Tensor,
    weight: _Tensor,
    weight_scale: _Tensor,
    bias: Optional[_Tensor] = None,
    x_scale: Optional[_Tensor] = None,
    x_offset: Optional[_Tensor] = None,
    smooth_scale: Optional[_Tensor] = None,
    x_quant_mode: str = ...,
    transpose_weight: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_reduce_sum_weight_nz(
    x1: _Tensor,
    x2: _Tensor,
    x1_scale: _Tensor,
    x2_scale: _Tensor,
    y_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    y_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    group_size: SupportsIndex = ...,
    dims: _Ints = ...,
    keep_dims: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    deq_scale: _Tensor = ...,
    adj_x1: _Bool = ...,
    adj_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_v3(
    x1: _Tensor,
    x2: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_v4(
    x1: _Tensor,
    x2: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    pertoken_scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_v5(
    x1: _Tensor,
    x2: _Tensor,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    y_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    y_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_matmul_weight_nz(
    x1: _Tensor,
    x2: _Tensor,
    x1_scale: Optional[_Tensor] = None,
    x2_scale: _Tensor = ...,
    y_scale: Optional[_Tensor] = None,
    x1_offset: Optional[_Tensor] = None,
    x2_offset: Optional[_Tensor] = None,
    y_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantMaxResult(NamedTuple):
    y: Any
    amax: Any

def quant_max(
    x: _Tensor,
    scale: _Tensor,
    round_mode: str = "rint",
    dst_type: SupportsIndex = 35,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantMaxResult: ...
def quant_reduce_scatter(
    x: _Tensor,
    scales: _Tensor,
    group: str,
    reduce_op: str = "sum",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quant_sals_indexer_metadata(
    actual_seq_lengths_kv: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    key_seq_size: SupportsIndex = ...,
    key_head_num: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    sparse_block_size: SupportsIndex = ...,
    sparse_ratio: SupportsFloat = ...,
    fixed_tail_count: SupportsIndex = ...,
    layout_key: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class QuantSparseFlashMlaResult(NamedTuple):
    attn_out: Any
    softmax_lse: Any

def quant_sparse_flash_mla(
    q: _Tensor,
    ori_kv: Optional[_Tensor] = None,
    cmp_kv: Optional[_Tensor] = None,
    q_descale: Optional[_Tensor] = None,
    ori_kv_descale: Optional[_Tensor] = None,
    cmp_kv_descale: Optional[_Tensor] = None,
    ori_sparse_indices: Optional[_Tensor] = None,
    cmp_sparse_indices: Optional[_Tensor] = None,
    ori_block_table: Optional[_Tensor] = None,
    cmp_block_table: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    quant_mode: SupportsIndex = ...,
    softmax_scale: SupportsFloat = ...,
    cmp_ratio: SupportsIndex = 1,
    ori_mask_mode: SupportsIndex = 0,
    cmp_mask_mode: SupportsIndex = 0,
    ori_win_left: SupportsIndex = -1,
    ori_win_right: SupportsIndex = -1,
    layout_q: Optional[str] = "BSND",
    layout_kv: Optional[str] = "BSND",
    topk_value_mode: SupportsIndex = 1,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> QuantSparseFlashMlaResult: ...
def quant_sparse_flash_mla_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    quant_mode: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_ori_kv: SupportsIndex = ...,
    max_seqlen_cmp_kv: SupportsIndex = ...,
    ori_topk: SupportsIndex = ...,
    cmp_topk: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_win_left: SupportsIndex = ...,
    ori_win_right: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_kv: Optional[str] = None,
    has_ori_kv: _Bool = ...,
    has_cmp_kv: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quantize(
    x: _Tensor,
    scales: _Tensor,
    zero_points: Optional[_Tensor] = None,
    dtype: DTypeLike = ...,
    axis: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def quantized_batch_norm(
    input: _Tensor,
    mean: _Tensor,
    var: _Tensor,
    input_scale: _Scalar,
    input_zero_point: _Scalar,
    output_scale: _Scalar,
    output_zero_point: _Scalar,
    weight: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    epsilon: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def r_relu_with_noise(
    self: _Tensor,
    noise: _Tensor,
    lower: _Scalar,
    upper: _Scalar,
    training: _Bool,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class RainFusionAttentionResult(NamedTuple):
    attention: Any
    softmax_lse: Any

def rain_fusion_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    select_idx: _Tensor,
    select_num_idx: _Tensor,
    block_shape: _Ints,
    atten_mask: Optional[_Tensor] = None,
    actual_seq_lengths: Optional[_Ints] = None,
    actual_seq_lengths_kv: Optional[_Ints] = None,
    block_table: Optional[_Tensor] = None,
    q_input_layout: str = "TND",
    kv_input_layout: str = "TND",
    num_key_value_heads: SupportsIndex = 1,
    mask_type: SupportsIndex = 0,
    scale_value: SupportsFloat = ...,
    inner_precise: SupportsIndex = 1,
    block_size: SupportsIndex = 128,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RainFusionAttentionResult: ...
def randperm(
    n: SupportsIndex,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def range(start: _Scalar, end: _Scalar, step: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class RasterizerResult(NamedTuple):
    findices: Any
    barycentric: Any

def rasterizer(
    v: _Tensor,
    f: _Tensor,
    d: Optional[_Tensor] = None,
    width: SupportsIndex = ...,
    height: SupportsIndex = ...,
    occlusion_truncation: SupportsFloat = ...,
    use_depth_prior: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RasterizerResult: ...
def real(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def real_div(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def real_v2(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def reciprocal(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class RecurrentGatedDeltaRuleResult(NamedTuple):
    state: Any
    out: Any

def recurrent_gated_delta_rule(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    beta: _Tensor,
    state: _Tensor,
    actual_seq_lengths: _Tensor,
    ssm_state_indices: _Tensor,
    g: Optional[_Tensor] = None,
    gk: Optional[_Tensor] = None,
    num_accepted_tokens: Optional[_Tensor] = None,
    scale_value: SupportsFloat = 1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RecurrentGatedDeltaRuleResult: ...
def reduce_log_sum(
    data: _Tensor,
    axes: _Ints,
    keep_dims: _Bool = False,
    noop_with_empty_axes: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reduce_max_v2(
    x: _Tensor,
    axes: SupportsIndex = 0,
    keepdims: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reduce_mean_v2(
    x: _Tensor,
    axes: SupportsIndex = 0,
    keepdims: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reduce_min_v2(
    x: _Tensor,
    axes: SupportsIndex = 0,
    keepdims: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reduce_nansum(
    self: _Tensor,
    dim: _Ints,
    keep_dim: _Bool,
    dtype: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reduce_prod_v2(
    x: _Tensor,
    axes: SupportsIndex = 0,
    keepdims: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reduce_sum(
    self: _Tensor,
    dims: _Ints,
    keep_dims: _Bool = False,
    dtype: DTypeLike = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reduce_sum_v2(
    x: _Tensor,
    axes: SupportsIndex = 0,
    keepdims: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reflection_pad1d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def reflection_pad1d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reflection_pad1d_v2(x: _Tensor, paddings: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def reflection_pad2d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def reflection_pad2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def reflection_pad3d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def reflection_pad3d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def relu(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def relu_grad_v3(x: _Tensor, y: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def relu_grad_v4(
    grad_output: _Tensor,
    self: _Tensor,
    threshold: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ReluV3Result(NamedTuple):
    y: Any
    mask: Any

def relu_v3(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> ReluV3Result: ...
def remainder_scalar_tensor(
    self: _Scalar,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def remainder_tensor_scalar(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def remainder_tensor_tensor(
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def renorm(
    self: _Tensor,
    p: _Scalar,
    dim: SupportsIndex,
    max_norm: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def renorm_v2(
    x: _Tensor,
    p: SupportsFloat = 1.0,
    dim: SupportsIndex = 0,
    max_norm: SupportsFloat = 5.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def repeat(self: _Tensor, repeats: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def repeat_interleave(
    self: _Tensor,
    repeats: _Tensor,
    output_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def repeat_interleave_grad(
    y_grad: _Tensor,
    repeats: _Tensor,
    axis: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def repeat_interleave_int(
    self: _Tensor,
    repeats: SupportsIndex,
    output_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def repeat_interleave_int_with_dim(
    self: _Tensor,
    repeats: SupportsIndex,
    dim: SupportsIndex,
    output_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def repeat_interleave_tensor(
    repeats: _Tensor,
    output_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def repeat_interleave_with_dim(
    self: _Tensor,
    repeats: _Tensor,
    dim: SupportsIndex,
    output_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def replication_pad1d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def replication_pad1d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def replication_pad2d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def replication_pad2d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def replication_pad3d(self: _Tensor, padding: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def replication_pad3d_backward(
    grad_output: _Tensor,
    self: _Tensor,
    padding: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def resize(self: _Tensor, scales: _Floats, mode: str, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def rfft1_d(
    self: _Tensor,
    n: SupportsIndex = 0,
    dim: SupportsIndex = ...,
    norm: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def rgb2yuv422(
    x: _Tensor,
    data_format: Optional[str] = "NHWC",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def right_shift(input: _Tensor, shift_bits: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class RingAttentionUpdateResult(NamedTuple):
    attn_out: Any
    softmax_max: Any
    softmax_sum: Any

def ring_attention_update(
    prev_attn_out: _Tensor,
    prev_softmax_max: _Tensor,
    prev_softmax_sum: _Tensor,
    cur_attn_out: _Tensor,
    cur_softmax_max: _Tensor,
    cur_softmax_sum: _Tensor,
    actual_seq_qlen: Optional[_Tensor] = None,
    input_layout: Optional[str] = "SBH",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RingAttentionUpdateResult: ...

class RingAttentionUpdateV2Result(NamedTuple):
    attn_out: Any
    softmax_max: Any
    softmax_sum: Any

def ring_attention_update_v2(
    prev_attn_out: _Tensor,
    prev_softmax_max: _Tensor,
    prev_softmax_sum: _Tensor,
    cur_attn_out: _Tensor,
    cur_softmax_max: _Tensor,
    cur_softmax_sum: _Tensor,
    actual_seq_qlen: Optional[_Tensor] = None,
    input_layout: Optional[str] = None,
    input_softmax_layout: Optional[str] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RingAttentionUpdateV2Result: ...

class RmsNormResult(NamedTuple):
    y: Any
    rstd: Any

def rms_norm(
    x: _Tensor,
    gamma: _Tensor,
    epsilon: SupportsFloat = 1e-06,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RmsNormResult: ...

class RmsNormDynamicMxQuantResult(NamedTuple):
    y: Any
    mxscale: Any
    rstd: Any

def rms_norm_dynamic_mx_quant(
    x: _Tensor,
    gamma: _Tensor,
    beta: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-06,
    scale_alg: SupportsIndex = 0,
    round_mode: Optional[str] = "rint",
    dst_type: SupportsIndex = 40,
    output_rstd: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RmsNormDynamicMxQuantResult: ...

class RmsNormDynamicQuantResult(NamedTuple):
    y: Any
    scale: Any

def rms_norm_dynamic_quant(
    x: _Tensor,
    gamma: _Tensor,
    smooth_scales: Optional[_Tensor] = None,
    beta: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-06,
    dst_type: SupportsIndex = 2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RmsNormDynamicQuantResult: ...

class RmsNormGradResult(NamedTuple):
    dx: Any
    dgamma: Any

def rms_norm_grad(
    dy: _Tensor,
    x: _Tensor,
    rstd: _Tensor,
    gamma: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RmsNormGradResult: ...

class RmsNormGradQuantResult(NamedTuple):
    dx: Any
    dgamma: Any

def rms_norm_grad_quant(
    dy: _Tensor,
    x: _Tensor,
    rstd: _Tensor,
    gamma: _Tensor,
    scales_x: _Tensor,
    offset_x: Optional[_Tensor] = None,
    quant_mode: str = ...,
    div_mode: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RmsNormGradQuantResult: ...
def rms_norm_quant(
    x: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    scale: _Tensor,
    offset: _Tensor,
    epsilon: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class RmsNormQuantV3Result(NamedTuple):
    y: Any
    rstd: Any

def rms_norm_quant_v3(
    x: _Tensor,
    gamma: _Tensor,
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    beta: Optional[_Tensor] = None,
    epsilon: SupportsFloat = 1e-06,
    div_mode: _Bool = True,
    output_rstd: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RmsNormQuantV3Result: ...
def roi_align(
    self: _Tensor,
    rois: _Tensor,
    batch_indices: _Tensor,
    mode: str,
    output_height: SupportsIndex,
    output_width: SupportsIndex,
    sampling_ratio: SupportsIndex,
    spatial_scale: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def roi_align_grad(
    ydiff: _Tensor,
    rois: _Tensor,
    rois_n: Optional[_Tensor] = None,
    xdiff_shape: _Ints = ...,
    pooled_width: SupportsIndex = ...,
    pooled_height: SupportsIndex = ...,
    spatial_scale: SupportsFloat = ...,
    sample_num: SupportsIndex = 2,
    roi_end_mode: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def roi_align_v2(
    self: _Tensor,
    boxes: _Tensor,
    pooled_height: SupportsIndex,
    pooled_width: SupportsIndex,
    spatial_scale: SupportsFloat,
    sampling_ratio: SupportsIndex = 0,
    aligned: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def roi_align_v2_backward(
    grad_output: _Tensor,
    boxes: _Tensor,
    input_shape: _Ints,
    pooled_height: SupportsIndex,
    pooled_width: SupportsIndex,
    spatial_scale: SupportsFloat,
    sampling_ratio: SupportsIndex,
    aligned: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def roi_pooling_grad_with_arg_max(
    grad_output: _Tensor,
    grad_input: _Tensor,
    rois: _Tensor,
    argmax: _Tensor,
    pooled_h: SupportsIndex,
    pooled_w: SupportsIndex,
    spatial_scale: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class RoiPoolingWithArgMaxResult(NamedTuple):
    y: Any
    argmax: Any

def roi_pooling_with_arg_max(
    x: _Tensor,
    rois: _Tensor,
    pooled_h: SupportsIndex,
    pooled_w: SupportsIndex,
    spatial_scale_h: SupportsFloat,
    spatial_scale_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RoiPoolingWithArgMaxResult: ...
def roll(x: _Tensor, shifts: _Ints, dims: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class RopeWithSinCosCacheResult(NamedTuple):
    query: Any
    key: Any

def rope_with_sin_cos_cache(
    positions: _Tensor,
    query_in: _Tensor,
    key_in: _Tensor,
    cos_sin_cache: _Tensor,
    mrope_section: Optional[_Ints] = None,
    head_size: SupportsIndex = ...,
    is_neox_style: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RopeWithSinCosCacheResult: ...

class RopeWithSinCosCacheV2Result(NamedTuple):
    query: Any
    key: Any

def rope_with_sin_cos_cache_v2(
    positions: _Tensor,
    query_in: _Tensor,
    key_in: _Tensor,
    cos_sin_cache: _Tensor,
    mrope_section: Optional[_Ints] = None,
    head_size: SupportsIndex = ...,
    is_neox_style: _Bool = ...,
    cache_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RopeWithSinCosCacheV2Result: ...
def rotary_position_embedding(
    x: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class RotaryPositionEmbeddingGradResult(NamedTuple):
    dx: Any
    dcos: Any
    dsin: Any

def rotary_position_embedding_grad(
    dy: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    x: Optional[_Tensor] = None,
    mode: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RotaryPositionEmbeddingGradResult: ...
def rotary_position_embedding_v2(
    x: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    mode: SupportsIndex,
    rotate: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class RotateQuantResult(NamedTuple):
    y: Any
    scale: Any

def rotate_quant(
    x: _Tensor,
    rotation: _Tensor,
    alpha: Optional[_Tensor] = None,
    axis: SupportsIndex = -1,
    round_mode: Optional[str] = "rint",
    scale_alg: SupportsIndex = 0,
    dst_type_max: SupportsFloat = 0.0,
    trans: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> RotateQuantResult: ...
def round(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def round_decimals(
    self: _Tensor,
    decimals: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def rsqrt(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def rsub(
    self: _Tensor,
    other: _Tensor,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def rsubs(
    self: _Tensor,
    other: _Scalar,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def s_where(
    condition: _Tensor,
    self: _Tensor,
    other: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scale(
    x: _Tensor,
    scale: _Tensor,
    bias: Optional[_Tensor] = None,
    axis: SupportsIndex = ...,
    num_axes: SupportsIndex = ...,
    scale_from_blob: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scaled_masked_softmax(
    x: _Tensor,
    mask: _Tensor,
    scale: SupportsFloat,
    fixed_triu_mask: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scaled_masked_softmax_backward(
    grad_output: _Tensor,
    y: _Tensor,
    mask: _Tensor,
    scale: SupportsFloat,
    fix_triu_mask: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    src: _Tensor,
    reduce: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_add(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    src: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_div(
    var: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    use_locking: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_list(
    var: Sequence[_Tensor],
    indice: _Tensor,
    updates: _Tensor,
    mask: Optional[_Tensor] = None,
    reduce: Optional[str] = "update",
    axis: SupportsIndex = -2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_max(
    var: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    use_locking: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_min(
    var: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    use_locking: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_mul(
    var: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    use_locking: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_nd(
    data: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_nd_update(
    var: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_pa_cache(
    key: _Tensor,
    key_cache: _Tensor,
    slot_mapping: _Tensor,
    compress_lens: Optional[_Tensor] = None,
    compress_seq_offset: Optional[_Tensor] = None,
    seq_lens: Optional[_Tensor] = None,
    cache_mode: Optional[str] = "Norm",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ScatterPaKvCacheResult(NamedTuple):
    key_cache: Any
    value_cache: Any

def scatter_pa_kv_cache(
    key: _Tensor,
    key_cache: _Tensor,
    slot_mapping: _Tensor,
    value: Optional[_Tensor] = None,
    value_cache: _Tensor = ...,
    compress_lens: Optional[_Tensor] = None,
    compress_seq_offset: Optional[_Tensor] = None,
    seq_lens: Optional[_Tensor] = None,
    cache_mode: Optional[str] = "Norm",
    scatter_mode: Optional[str] = "None",
    strides: Optional[_Ints] = None,
    offsets: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ScatterPaKvCacheResult: ...

class ScatterPaKvCacheWithKScaleResult(NamedTuple):
    key_cache: Any
    value_cache: Any
    key_scale_cache: Any

def scatter_pa_kv_cache_with_k_scale(
    key: _Tensor,
    value: _Tensor,
    key_cache: _Tensor,
    value_cache: _Tensor,
    slot_mapping: _Tensor,
    key_scale: _Tensor,
    key_scale_cache: _Tensor,
    cache_layout: Optional[str] = "BNBD",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ScatterPaKvCacheWithKScaleResult: ...
def scatter_reduce(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    src: _Tensor,
    reduce: SupportsIndex,
    include_self: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatter_value(
    self: _Tensor,
    dim: SupportsIndex,
    index: _Tensor,
    value: _Scalar,
    reduce: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def scatterupdate_v2(
    input: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def search_sorted(
    sorted_sequence: _Tensor,
    self: _Tensor,
    out_int32: _Bool,
    right: _Bool,
    sorter: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def search_sorteds(
    sorted_sequence: _Tensor,
    self: _Scalar,
    out_int32: _Bool,
    right: _Bool,
    sorter: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def select_v3(x: _Tensor, y: _Tensor, b: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def selu(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def selu_backward(
    grad_output: _Tensor,
    result: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def shrink(
    self: _Tensor,
    lambd: _Scalar,
    bias: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sigmoid(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sigmoid_backward(
    grad_output: _Tensor,
    output: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sign(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sign_bits_pack(self: _Tensor, size: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sign_bits_unpack(
    self: _Tensor,
    size: SupportsIndex,
    dtype: DTypeLike,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def signbit(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class SilentCheckResult(NamedTuple):
    input_grad: Any
    sfda: Any
    step: Any
    result: Any

def silent_check(
    val: _Tensor,
    input_grad: _Tensor,
    sfda: _Tensor,
    step: _Tensor,
    c_min_steps: SupportsIndex,
    c_thresh_l1: SupportsFloat,
    c_coeff_l1: SupportsFloat,
    c_thresh_l2: SupportsFloat,
    c_coeff_l2: SupportsFloat,
    npu_asd_detect: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SilentCheckResult: ...

class SilentCheckV2Result(NamedTuple):
    avg: Any
    input_grad: Any
    step: Any
    result: Any

def silent_check_v2(
    val: _Tensor,
    max: _Tensor,
    avg: _Tensor,
    input_grad: _Tensor,
    step: _Tensor,
    dst_size: _Ints,
    dst_stride: _Ints,
    dst_offset: _Ints,
    c_thresh_l1: SupportsFloat,
    c_thresh_l2: SupportsFloat,
    beta1: SupportsFloat,
    npu_asd_detect: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SilentCheckV2Result: ...
def silu(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def silu_backward(grad_output: _Tensor, self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def silu_mul(x: _Tensor, y: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sim_thread_exponential(
    self: _Tensor,
    count: SupportsIndex,
    lambda_: SupportsFloat,
    seed: SupportsIndex,
    offset: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sin(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sinc(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sinh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sinh_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sinkhorn(cost: _Tensor, tol: _Scalar = 0.0001, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def situ_glu(
    x: _Tensor,
    dim: SupportsIndex = -1,
    beta: SupportsFloat = 1.0,
    linear_beta: SupportsFloat = 0.0,
    activate_left: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def situ_glu_grad(
    grad_y: _Tensor,
    x: _Tensor,
    dim: SupportsIndex = -1,
    beta: SupportsFloat = 1.0,
    linear_beta: SupportsFloat = 0.0,
    activate_left: _Bool = True,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SituMxQuantResult(NamedTuple):
    y: Any
    y_scale: Any

def situ_mx_quant(
    x: _Tensor,
    beta: SupportsFloat = 1.0,
    linear_beta: SupportsFloat = 0.0,
    activate_left: _Bool = False,
    axis: SupportsIndex = -1,
    dst_type: SupportsIndex = 36,
    round_mode: Optional[str] = "rint",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SituMxQuantResult: ...
def sleep(cycles: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> None: ...
def slice(
    self: _Tensor,
    dim: SupportsIndex,
    start: SupportsIndex,
    end: SupportsIndex,
    step: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def slice_v2(
    self: _Tensor,
    starts: _Ints,
    ends: _Ints,
    axes: _Ints,
    steps: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def slice_v3(x: _Tensor, begin: _Ints, size: _Ints, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class SlogdetResult(NamedTuple):
    sign: Any
    log: Any

def slogdet(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> SlogdetResult: ...
def smooth_l1_loss(
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    beta: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def smooth_l1_loss_backward(
    grad_out: _Tensor,
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    beta: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def soft_margin_loss(
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def soft_margin_loss_backward(
    grad_output: _Tensor,
    self: _Tensor,
    target: _Tensor,
    reduction: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def soft_plus_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def softmax(self: _Tensor, dim: SupportsIndex, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def softmax_backward(
    grad_output: _Tensor,
    output: _Tensor,
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SoftmaxCrossEntropyWithLogitsResult(NamedTuple):
    loss: Any
    backprop: Any

def softmax_cross_entropy_with_logits(
    features: _Tensor,
    labels: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SoftmaxCrossEntropyWithLogitsResult: ...
def softmax_grad(y: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def softplus(
    self: _Tensor,
    beta: _Scalar,
    threshold: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def softplus_backward(
    grad_output: _Tensor,
    self: _Tensor,
    beta: _Scalar,
    threshold: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def softshrink(self: _Tensor, lambd: _Scalar = 0.5, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def softshrink_backward(
    grad_output: _Tensor,
    self: _Tensor,
    lambda_: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def softsign(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def softsign_backward(
    gradients: _Tensor,
    features: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SortResult(NamedTuple):
    values: Any
    indices: Any

def sort(
    self: _Tensor,
    stable: _Bool = False,
    dim: SupportsIndex = ...,
    descending: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SortResult: ...
def sort_v2(
    x: _Tensor,
    index: _Tensor,
    dst_index: _Tensor,
    axis: SupportsIndex = 0,
    descending: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SortWithIndexResult(NamedTuple):
    values: Any
    indices: Any

def sort_with_index(
    x: _Tensor,
    index: _Tensor,
    axis: SupportsIndex = -1,
    descending: _Bool = False,
    stable: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SortWithIndexResult: ...
def sparse4to2_quant_matmul_weight_nz(
    x: _Tensor,
    sparse_weight: _Tensor,
    index: _Tensor,
    x_scale: _Tensor,
    sparse_weight_scale: _Tensor,
    bias: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SparseAttnSharedkvResult(NamedTuple):
    attn_out: Any
    softmax_lse: Any

def sparse_attn_sharedkv(
    q: _Tensor,
    ori_kv: Optional[_Tensor] = None,
    cmp_kv: Optional[_Tensor] = None,
    ori_sparse_indices: Optional[_Tensor] = None,
    cmp_sparse_indices: Optional[_Tensor] = None,
    ori_block_table: Optional[_Tensor] = None,
    cmp_block_table: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    softmax_scale: SupportsFloat = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_kv_stride: SupportsIndex = ...,
    cmp_kv_stride: SupportsIndex = ...,
    ori_win_left: SupportsIndex = 127,
    ori_win_right: SupportsIndex = 0,
    layout_q: Optional[str] = "BSND",
    layout_kv: Optional[str] = "PA_ND",
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseAttnSharedkvResult: ...
def sparse_attn_sharedkv_metadata(
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_ori_kv: Optional[_Tensor] = None,
    cu_seq_lens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_kv: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_kv: SupportsIndex = ...,
    ori_top_k: SupportsIndex = ...,
    cmp_top_k: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_win_left: SupportsIndex = ...,
    ori_win_right: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_kv: Optional[str] = None,
    has_ori_kv: _Bool = ...,
    has_cmp_kv: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SparseFlashAttentionResult(NamedTuple):
    attention: Any
    softmax_max: Any
    softmax_sum: Any

def sparse_flash_attention(
    query: _Tensor,
    key: _Tensor,
    value: Optional[_Tensor] = None,
    sparse_indices: _Tensor = ...,
    block_table: Optional[_Tensor] = None,
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_kv: Optional[_Tensor] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    scale_value: SupportsFloat = ...,
    sparse_block_size: SupportsIndex = 1,
    layout_query: Optional[str] = "BSND",
    layout_kv: Optional[str] = "BSND",
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    attention_mode: SupportsIndex = 0,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseFlashAttentionResult: ...

class SparseFlashAttentionGradResult(NamedTuple):
    d_query: Any
    d_key: Any
    d_value: Any
    d_query_rope: Any
    d_key_rope: Any

def sparse_flash_attention_grad(
    query: _Tensor,
    key: _Tensor,
    value: Optional[_Tensor] = None,
    sparse_indices: _Tensor = ...,
    d_out: _Tensor = ...,
    out_: _Tensor = ...,
    softmax_max: _Tensor = ...,
    softmax_sum: _Tensor = ...,
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_kv: Optional[_Tensor] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    scale_value: SupportsFloat = ...,
    sparse_block_size: SupportsIndex = 1,
    layout: Optional[str] = "BSND",
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 2147483647,
    next_tokens: SupportsIndex = 2147483647,
    deterministic: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseFlashAttentionGradResult: ...

class SparseFlashAttentionV2Result(NamedTuple):
    attention: Any
    softmax_max: Any
    softmax_sum: Any

def sparse_flash_attention_v2(
    query: _Tensor,
    key: _Tensor,
    value: Optional[_Tensor] = None,
    sparse_indices: _Tensor = ...,
    block_table: Optional[_Tensor] = None,
    actual_seq_lengths_query: Optional[_Tensor] = None,
    actual_seq_lengths_kv: Optional[_Tensor] = None,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    scale_value: SupportsFloat = ...,
    sparse_block_size: SupportsIndex = ...,
    layout_query: Optional[str] = "BSND",
    layout_kv: Optional[str] = "BSND",
    sparse_mode: SupportsIndex = ...,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    attention_mode: SupportsIndex = ...,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseFlashAttentionV2Result: ...

class SparseFlashMlaResult(NamedTuple):
    attn_out: Any
    softmax_lse: Any

def sparse_flash_mla(
    q: _Tensor,
    ori_kv: Optional[_Tensor] = None,
    cmp_kv: Optional[_Tensor] = None,
    ori_sparse_indices: Optional[_Tensor] = None,
    cmp_sparse_indices: Optional[_Tensor] = None,
    ori_block_table: Optional[_Tensor] = None,
    cmp_block_table: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    softmax_scale: SupportsFloat = 1.0,
    cmp_ratio: SupportsIndex = 1,
    ori_mask_mode: SupportsIndex = 0,
    cmp_mask_mode: SupportsIndex = 0,
    ori_win_left: SupportsIndex = -1,
    ori_win_right: SupportsIndex = -1,
    layout_q: Optional[str] = "BSND",
    layout_kv: Optional[str] = "BSND",
    topk_value_mode: SupportsIndex = 1,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseFlashMlaResult: ...

class SparseFlashMlaGradResult(NamedTuple):
    d_query: Any
    d_ori_kv: Any
    d_cmp_kv: Any
    d_sinks: Any
    ori_softmax_l1_norm: Any
    cmp_softmax_l1_norm: Any

def sparse_flash_mla_grad(
    query: _Tensor,
    d_out: _Tensor,
    out_: _Tensor,
    lse: _Tensor,
    ori_kv: Optional[_Tensor] = None,
    cmp_kv: Optional[_Tensor] = None,
    ori_sparse_indices: Optional[_Tensor] = None,
    cmp_sparse_indices: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    sinks: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    scale_value: SupportsFloat = 1.0,
    cmp_ratio: SupportsIndex = 1,
    ori_mask_mode: SupportsIndex = 0,
    cmp_mask_mode: SupportsIndex = 0,
    ori_win_left: SupportsIndex = -1,
    ori_win_right: SupportsIndex = -1,
    layout_q: Optional[str] = "BSND",
    layout_kv: Optional[str] = "BSND",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseFlashMlaGradResult: ...
def sparse_flash_mla_grad_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_ori_kv: SupportsIndex = ...,
    max_seqlen_cmp_kv: SupportsIndex = ...,
    ori_topk: SupportsIndex = ...,
    cmp_topk: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_win_left: SupportsIndex = ...,
    ori_win_right: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_kv: Optional[str] = None,
    has_ori_kv: _Bool = ...,
    has_cmp_kv: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sparse_flash_mla_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_ori_kv: Optional[_Tensor] = None,
    cu_seqlens_cmp_kv: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_ori_kv: Optional[_Tensor] = None,
    seqused_cmp_kv: Optional[_Tensor] = None,
    cmp_residual_kv: Optional[_Tensor] = None,
    ori_topk_length: Optional[_Tensor] = None,
    cmp_topk_length: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_kv: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_ori_kv: SupportsIndex = ...,
    max_seqlen_cmp_kv: SupportsIndex = ...,
    ori_topk: SupportsIndex = ...,
    cmp_topk: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    ori_mask_mode: SupportsIndex = ...,
    cmp_mask_mode: SupportsIndex = ...,
    ori_win_left: SupportsIndex = ...,
    ori_win_right: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_kv: Optional[str] = None,
    has_ori_kv: _Bool = ...,
    has_cmp_kv: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sparse_flash_mla_softmax_l1_norm(
    q: _Tensor,
    k: _Tensor,
    softmax_lse: _Tensor,
    sparse_indices: Optional[_Tensor] = None,
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_k: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    topk_length: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    softmax_scale: SupportsFloat = 1.0,
    max_seqlen_k: SupportsIndex = 0,
    cmp_ratio: SupportsIndex = 1,
    mask_mode: SupportsIndex = 0,
    layout_q: Optional[str] = "BSND",
    layout_k: Optional[str] = "BSND",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sparse_flash_mla_softmax_l1_norm_metadata(
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_k: Optional[_Tensor] = None,
    seq_used_q: Optional[_Tensor] = None,
    seq_used_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    topk_length: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    max_seq_len_q: SupportsIndex = ...,
    max_seq_len_k: SupportsIndex = ...,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    topk: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    mask_mode: SupportsIndex = ...,
    layout_q: str = "BSND",
    layout_k: str = "BSND",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SparseLightningIndexerGradKLLossResult(NamedTuple):
    d_query_index: Any
    d_key_index: Any
    d_weights: Any
    loss: Any

def sparse_lightning_indexer_grad_kl_loss(
    query: _Tensor,
    key: _Tensor,
    query_index: _Tensor,
    key_index: _Tensor,
    weights: _Tensor,
    sparse_indices: _Tensor,
    softmax_max: _Tensor,
    softmax_sum: _Tensor,
    query_rope: Optional[_Tensor] = None,
    key_rope: Optional[_Tensor] = None,
    actual_seq_lengths_query: Optional[_Ints] = None,
    actual_seq_lengths_key: Optional[_Ints] = None,
    scale_value: SupportsFloat = ...,
    layout: Optional[str] = "BSND",
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 2147483647,
    next_tokens: SupportsIndex = 2147483647,
    deterministic: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseLightningIndexerGradKLLossResult: ...

class SparseLightningIndexerKLLossGradResult(NamedTuple):
    dq: Any
    dk: Any
    dw: Any
    softmax: Any

def sparse_lightning_indexer_kl_loss_grad(
    q: _Tensor,
    k: _Tensor,
    w: _Tensor,
    sparse_indices: _Tensor,
    attn_softmax_l1_norm: _Tensor,
    cu_seq_lens_q: Optional[_Tensor] = None,
    cu_seq_lens_k: Optional[_Tensor] = None,
    seq_used_q: Optional[_Tensor] = None,
    seq_used_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    layout_q: Optional[str] = "TND",
    layout_k: Optional[str] = "TND",
    mask_mode: SupportsIndex = 3,
    cmp_ratio: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SparseLightningIndexerKLLossGradResult: ...
def sparse_lightning_indexer_kl_loss_grad_metadata(
    cu_seqlens_q: Optional[_Tensor] = None,
    cu_seqlens_k: Optional[_Tensor] = None,
    seqused_q: Optional[_Tensor] = None,
    seqused_k: Optional[_Tensor] = None,
    cmp_residual_k: Optional[_Tensor] = None,
    batch_size: SupportsIndex = ...,
    max_seqlen_q: SupportsIndex = ...,
    max_seqlen_k: SupportsIndex = ...,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    head_dim: SupportsIndex = ...,
    topk: SupportsIndex = ...,
    layout_q: Optional[str] = None,
    layout_k: Optional[str] = None,
    mask_mode: SupportsIndex = ...,
    cmp_ratio: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def split_tensor(
    self: _Tensor,
    split_sections: SupportsIndex,
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def split_with_size(
    self: _Tensor,
    split_size: _Ints,
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sqrt(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sqrt_backward(y: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def square(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def square_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def squared_relu(input: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def stack(
    tensors: Sequence[_Tensor],
    dim: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def stateless_bernoulli(
    shape: _Ints,
    prob: _Tensor,
    seed: _Ints,
    offset: Optional[_Ints] = None,
    dtype: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def std(
    self: _Tensor,
    dim: _Ints,
    correction: SupportsIndex,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class StdMeanCorrectionResult(NamedTuple):
    std: Any
    mean: Any

def std_mean_correction(
    self: _Tensor,
    dim: _Ints,
    correction: SupportsIndex,
    keepdim: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> StdMeanCorrectionResult: ...

class StemIndexerResult(NamedTuple):
    sparse_indices: Any
    sparse_seq_len: Any

def stem_indexer(
    qflat: _Tensor,
    kflat: _Tensor,
    vbias: _Tensor,
    q_seq_lens: _Tensor,
    kv_seq_lens: _Tensor,
    num_prompt_tokens: Optional[_Tensor] = None,
    metadata: Optional[_Tensor] = None,
    causal: _Bool = True,
    stem_block_size: SupportsIndex = 128,
    stem_stride: SupportsIndex = 16,
    alpha: SupportsFloat = 1.0,
    initial_blocks: SupportsIndex = 4,
    window_size: SupportsIndex = 4,
    k_block_num_rate_medium: SupportsFloat = 0.2,
    k_block_num_bias_medium: SupportsIndex = 30,
    k_block_num_rate_large: SupportsFloat = 0.1,
    k_block_num_bias_large: SupportsIndex = 30,
    topk_score_precision: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> StemIndexerResult: ...
def stem_indexer_metadata(
    q_seq_lens: _Tensor,
    kv_seq_lens: _Tensor,
    q_heads: SupportsIndex,
    kv_heads: SupportsIndex,
    causal: _Bool,
    stem_block_size: SupportsIndex,
    dim_qkflat: SupportsIndex,
    window_size: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class StemOamPrepPagedKvResult(NamedTuple):
    k_flat: Any
    v_bias: Any

def stem_oam_prep_paged_kv(
    k_cache: _Tensor,
    v_cache: _Tensor,
    kv_indices: _Tensor,
    kv_seq_lens: _Ints,
    k_scale_cache: Optional[_Tensor] = None,
    v_scale: Optional[_Tensor] = None,
    lambda_mag: SupportsFloat = 0.3,
    kv_layout: str = "BNBD",
    stem_block_size: SupportsIndex = 128,
    stem_stride: SupportsIndex = 16,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> StemOamPrepPagedKvResult: ...
def stem_oam_prep_varlen_q(
    q: _Tensor,
    q_seq_lens: _Ints,
    cu_seq_lens_q: _Ints,
    q_scale: Optional[_Tensor] = None,
    stem_block_size: SupportsIndex = 128,
    stem_stride: SupportsIndex = 16,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def stft(
    self: _Tensor,
    window: Optional[_Tensor] = None,
    n_fft: SupportsIndex = ...,
    hop_length: SupportsIndex = ...,
    win_length: SupportsIndex = ...,
    normalized: _Bool = ...,
    onesided: _Bool = ...,
    return_complex: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def strided_slice(
    self: _Tensor,
    begin: _Ints,
    end: _Ints,
    strides: _Ints,
    begin_mask: SupportsIndex = 0,
    end_mask: SupportsIndex = 0,
    ellipsis_mask: SupportsIndex = 0,
    new_axis_mask: SupportsIndex = 0,
    shrink_axis_mask: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def strided_slice_assign_v2(
    var: _Tensor,
    input_value: _Tensor,
    begin: _Ints,
    end: _Ints,
    strides: _Ints,
    axes: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sub(self: _Tensor, other: _Tensor, alpha: _Scalar, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sub_v2(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def subs(
    self: _Tensor,
    other: _Scalar,
    alpha: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def sum(tensors: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def sum_v2(tensors: Sequence[_Tensor], *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class SvdResult(NamedTuple):
    sigma: Any
    u: Any
    v: Any

def svd(
    input: _Tensor,
    full_matrices: _Bool,
    compute_uv: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SvdResult: ...
def swi_glu(x: _Tensor, dim: SupportsIndex = -1, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def swi_glu_grad(
    y_grad: _Tensor,
    x: _Tensor,
    dim: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SwiGluQuantResult(NamedTuple):
    y: Any
    scale: Any

def swi_glu_quant(
    x: _Tensor,
    smooth_scales: Optional[_Tensor] = None,
    offsets: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    activate_left: _Bool = False,
    quant_mode: Optional[str] = "dynamic",
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwiGluQuantResult: ...

class SwiGluQuantV2Result(NamedTuple):
    y: Any
    scale: Any

def swi_glu_quant_v2(
    x: _Tensor,
    smooth_scales: Optional[_Tensor] = None,
    offsets: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    activate_left: _Bool = ...,
    quant_mode: Optional[str] = None,
    group_list_type: SupportsIndex = ...,
    dst_type: SupportsIndex = 2,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwiGluQuantV2Result: ...

class SwigluBackwardMxQuantWithDualAxisResult(NamedTuple):
    y1: Any
    mxscale1: Any
    y2: Any
    mxscale2: Any

def swiglu_backward_mx_quant_with_dual_axis(
    x: _Tensor,
    y_grad: _Tensor,
    group_index: Optional[_Tensor] = None,
    activate_left: _Bool = True,
    round_mode: Optional[str] = "rint",
    scale_alg: SupportsIndex = 0,
    dst_dtype: SupportsIndex = 35,
    max_dtype_value: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwigluBackwardMxQuantWithDualAxisResult: ...
def swiglu_clamp(
    x: _Tensor,
    limit: SupportsFloat = 7.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def swiglu_gated_mlp(
    x: _Tensor,
    gate_up_weight: _Tensor,
    down_weight: _Tensor,
    cube_math_type: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def swiglu_group(
    x: _Tensor,
    weight: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    clamp_limit: SupportsFloat = -1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SwigluGroupGradResult(NamedTuple):
    grad_x: Any
    grad_weight: Any

def swiglu_group_grad(
    grad_y: _Tensor,
    x: _Tensor,
    weight: Optional[_Tensor] = None,
    y_origin: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    clamp_limit: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwigluGroupGradResult: ...

class SwigluGroupQuantResult(NamedTuple):
    y: Any
    y_scale: Any
    y_origin: Any

def swiglu_group_quant(
    x: _Tensor,
    weight: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    scale: Optional[_Tensor] = None,
    dst_type: SupportsIndex = 36,
    quant_mode: SupportsIndex = 0,
    block_size: SupportsIndex = 0,
    round_scale: _Bool = False,
    clamp_limit: SupportsFloat = -1.0,
    dst_type_max: SupportsFloat = 15.0,
    output_origin: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwigluGroupQuantResult: ...

class SwigluGroupQuantGradResult(NamedTuple):
    grad_x: Any
    grad_weight: Any

def swiglu_group_quant_grad(
    grad_y: _Tensor,
    x: _Tensor,
    weight: Optional[_Tensor] = None,
    y_origin: Optional[_Tensor] = None,
    group_index: Optional[_Tensor] = None,
    clamp_limit: SupportsFloat = -1.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwigluGroupQuantGradResult: ...

class SwigluMxQuantResult(NamedTuple):
    y: Any
    mxscale: Any

def swiglu_mx_quant(
    x: _Tensor,
    group_index: Optional[_Tensor] = None,
    activate_dim: SupportsIndex = -1,
    activate_left: _Bool = False,
    swiglu_mode: SupportsIndex = 0,
    clamp_limit: SupportsFloat = 7.0,
    glu_alpha: SupportsFloat = 1.702,
    glu_bias: SupportsFloat = 1.0,
    group_mode: SupportsIndex = 0,
    axis: SupportsIndex = -1,
    dst_type: SupportsIndex = 40,
    round_mode: Optional[str] = "rint",
    scale_alg: SupportsIndex = 0,
    max_dtype_value: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwigluMxQuantResult: ...

class SwigluMxQuantWithDualAxisResult(NamedTuple):
    y1: Any
    mxscale1: Any
    y2: Any
    mxscale2: Any

def swiglu_mx_quant_with_dual_axis(
    x: _Tensor,
    group_index: Optional[_Tensor] = None,
    activate_left: _Bool = True,
    round_mode: Optional[str] = "rint",
    scale_alg: SupportsIndex = 0,
    dst_type: SupportsIndex = 35,
    max_dtype_value: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwigluMxQuantWithDualAxisResult: ...
def swin_attention_score_quant(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    scale_quant: _Tensor,
    scale_dequant1: _Tensor,
    scale_dequant2: _Tensor,
    bias_quant: Optional[_Tensor] = None,
    bias_dequant1: Optional[_Tensor] = None,
    bias_dequant2: Optional[_Tensor] = None,
    padding_mask1: Optional[_Tensor] = None,
    padding_mask2: Optional[_Tensor] = None,
    query_transpose: _Bool = False,
    key_transpose: _Bool = False,
    value_transpose: _Bool = False,
    softmax_axes: SupportsIndex = -1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SwinTransformerLnQkvQuantResult(NamedTuple):
    query_output: Any
    key_output: Any
    value_output: Any

def swin_transformer_ln_qkv_quant(
    x: _Tensor,
    gamma: _Tensor,
    beta: _Tensor,
    weight: _Tensor,
    bias: _Tensor,
    quant_scale: _Tensor,
    quant_offset: _Tensor,
    dequant_scale: _Tensor,
    head_num: SupportsIndex,
    seq_length: SupportsIndex,
    epsilon: SupportsFloat,
    ori_height: SupportsIndex,
    ori_weight: SupportsIndex,
    h_win_size: SupportsIndex,
    w_win_size: SupportsIndex,
    weight_transpose: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SwinTransformerLnQkvQuantResult: ...
def swish(
    self: _Tensor,
    beta: Optional[_Scalar] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def swish_backward(
    grad_output: _Tensor,
    self: _Tensor,
    beta: Optional[_Scalar] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class SyncBatchNormGatherStatsResult(NamedTuple):
    mean: Any
    variance: Any
    batch_mean: Any
    batch_invstd: Any

def sync_batch_norm_gather_stats(
    total_sum: _Tensor,
    total_square_sum: _Tensor,
    sample_count: _Tensor,
    mean: _Tensor,
    variance: _Tensor,
    momentum: SupportsFloat,
    eps: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SyncBatchNormGatherStatsResult: ...

class SyncBnTrainingUpdateV2Result(NamedTuple):
    y1: Any
    y2: Any
    y3: Any

def sync_bn_training_update_v2(
    x1: _Tensor,
    x2: _Tensor,
    x3: _Tensor,
    momentum: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> SyncBnTrainingUpdateV2Result: ...
def take(self: _Tensor, index: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def tan(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def tan_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def tan_v3(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def tanh(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def tanh_backward(
    grad_output: _Tensor,
    output: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def tanh_grad(y: _Tensor, dy: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def tensor_move(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def tf_scatter_add(
    var: _Tensor,
    indices: _Tensor,
    updates: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class ThnnFusedLstmCellResult(NamedTuple):
    hy: Any
    cy: Any
    storage: Any

def thnn_fused_lstm_cell(
    input_gates: _Tensor,
    hidden_gates: _Tensor,
    cx: _Tensor,
    input_bias: Optional[_Tensor] = None,
    hidden_bias: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ThnnFusedLstmCellResult: ...

class ThnnFusedLstmCellBackwardResult(NamedTuple):
    grad_gates: Any
    grad_cx: Any
    grad_bias: Any

def thnn_fused_lstm_cell_backward(
    grad_hy: Optional[_Tensor] = None,
    grad_c: Optional[_Tensor] = None,
    cx: _Tensor = ...,
    cy: _Tensor = ...,
    storage: _Tensor = ...,
    has_bias: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ThnnFusedLstmCellBackwardResult: ...
def three_interpolate_backward(
    grad_x: _Tensor,
    idx: _Tensor,
    weight: _Tensor,
    m: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def threshold(
    self: _Tensor,
    threshold: _Scalar,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def threshold_backward(
    grad_output: _Tensor,
    self: _Tensor,
    threshold: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def threshold_v2(
    self: _Tensor,
    threshold: _Scalar,
    value: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class TopKTopPSampleResult(NamedTuple):
    logits_select_idx: Any
    logits_top_kp_select: Any

def top_k_top_p_sample(
    logits: _Tensor,
    top_k: _Tensor,
    top_p: _Tensor,
    q: Optional[_Tensor] = None,
    eps: SupportsFloat = 1e-08,
    is_need_logits: _Bool = False,
    top_k_guess: SupportsIndex = 32,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> TopKTopPSampleResult: ...

class TopKTopPSampleV2Result(NamedTuple):
    logits_select_idx: Any
    logits_top_kp_select: Any
    logits_idx: Any
    logits_sort_masked: Any

def top_k_top_p_sample_v2(
    logits: _Tensor,
    top_k: _Tensor,
    top_p: _Tensor,
    q: Optional[_Tensor] = None,
    min_ps: Optional[_Tensor] = None,
    eps: SupportsFloat = 1e-08,
    is_need_logits: _Bool = False,
    top_k_guess: SupportsIndex = 32,
    ks_max: SupportsIndex = 1024,
    input_is_logits: _Bool = True,
    is_need_sample_result: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> TopKTopPSampleV2Result: ...

class TopkResult(NamedTuple):
    values: Any
    indices: Any

def topk(
    self: _Tensor,
    k: SupportsIndex,
    dim: SupportsIndex,
    largest: _Bool,
    sorted: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> TopkResult: ...
def trace(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def trace_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def trans_convolution_weight(
    weight_in: _Tensor,
    transposed: _Bool,
    groups: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def trans_matmul_weight(mm_weight: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def trans_quant_param_v2(
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def trans_quant_param_v3(
    scale: _Tensor,
    offset: Optional[_Tensor] = None,
    round_mode: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class TransformBiasRescaleQkvResult(NamedTuple):
    q: Any
    k: Any
    v: Any

def transform_bias_rescale_qkv(
    qkv: _Tensor,
    qkv_bias: _Tensor,
    num_heads: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> TransformBiasRescaleQkvResult: ...
def transpose_batch_mat_mul(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    scale: Optional[_Tensor] = None,
    perm_x1: _Ints = ...,
    perm_x2: _Ints = ...,
    perm_y: _Ints = ...,
    cube_math_type: SupportsIndex = 0,
    batch_split_factor: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def transpose_batch_mat_mul_weight_nz(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    scale: Optional[_Tensor] = None,
    perm_x1: _Ints = ...,
    perm_x2: _Ints = ...,
    perm_y: _Ints = ...,
    cube_math_type: SupportsIndex = 0,
    batch_split_factor: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def transpose_quant_batch_mat_mul(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: _Tensor = ...,
    x2_scale: _Tensor = ...,
    dtype: SupportsIndex = ...,
    group_size: SupportsIndex = 0,
    perm_x1: _Ints = ...,
    perm_x2: _Ints = ...,
    perm_y: _Ints = ...,
    batch_split_factor: SupportsIndex = 1,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def transpose_quant_batch_mat_mul_weight_nz(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    x1_scale: _Tensor = ...,
    x2_scale: _Tensor = ...,
    dtype: SupportsIndex = ...,
    group_size: SupportsIndex = ...,
    perm_x1: _Ints = ...,
    perm_x2: _Ints = ...,
    perm_y: _Ints = ...,
    batch_split_factor: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def transposev(x: _Tensor, perm: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class TriangularSolveResult(NamedTuple):
    x: Any
    m: Any

def triangular_solve(
    self: _Tensor,
    a: _Tensor,
    upper: _Bool = True,
    transpose: _Bool = False,
    unitriangular: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> TriangularSolveResult: ...
def tril(self: _Tensor, diagonal: SupportsIndex = 0, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def triu(self: _Tensor, diagonal: SupportsIndex = 0, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def trunc(self: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def trunc_v2(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def truncate_div(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def truncate_mod(x1: _Tensor, x2: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...

class TsqrResult(NamedTuple):
    q: Any
    r: Any

def tsqr(
    a: _Tensor,
    block_size: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> TsqrResult: ...
def turbo_quant_compress_latent(
    latent: _Tensor,
    centroids: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class TurboQuantSparseFlashAttentionResult(NamedTuple):
    attention_out: Any
    softmax_max: Any
    softmax_sum: Any

def turbo_quant_sparse_flash_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    sparse_indices: _Tensor,
    key_dequant_scale: Optional[_Tensor] = None,
    value_dequant_scale: Optional[_Tensor] = None,
    block_table: _Tensor = ...,
    actual_seq_lengths_query: _Tensor = ...,
    actual_seq_lengths_kv: _Tensor = ...,
    scale_value: SupportsFloat = ...,
    key_quant_mode: SupportsIndex = ...,
    value_quant_mode: SupportsIndex = ...,
    sparse_block_size: SupportsIndex = 1,
    layout_query: Optional[str] = "TND",
    layout_kv: Optional[str] = "PA_BSND",
    sparse_mode: SupportsIndex = 3,
    pre_tokens: SupportsIndex = 9223372036854775807,
    next_tokens: SupportsIndex = 9223372036854775807,
    attention_mode: SupportsIndex = 2,
    quant_scale_repo_mode: SupportsIndex = 1,
    tile_size: SupportsIndex = 128,
    rope_head_dim: SupportsIndex = 64,
    return_softmax_lse: _Bool = False,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> TurboQuantSparseFlashAttentionResult: ...

class UndGenQkvRmsNormRopeCacheResult(NamedTuple):
    k_cache: Any
    v_cache: Any
    q: Any

def und_gen_qkv_rms_norm_rope_cache(
    und_qkv: _Tensor,
    und_weights_q: _Tensor,
    und_weights_k: _Tensor,
    cos_sin_cache: _Tensor,
    k_cache: _Tensor,
    v_cache: _Tensor,
    slot_mapping: _Tensor,
    positions: _Tensor,
    gen_qkv: Optional[_Tensor] = None,
    gen_weights_q: Optional[_Tensor] = None,
    gen_weights_k: Optional[_Tensor] = None,
    cat_indices: Optional[_Tensor] = None,
    num_heads_q: SupportsIndex = ...,
    num_heads_k: SupportsIndex = ...,
    num_heads_v: SupportsIndex = ...,
    norm_eps: SupportsFloat = 1e-06,
    mrope_section: Optional[_Ints] = None,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> UndGenQkvRmsNormRopeCacheResult: ...
def unfold_grad(
    grad_out: _Tensor,
    input_sizes: _Ints,
    dim: SupportsIndex,
    size: SupportsIndex,
    step: SupportsIndex,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class UniqueResult(NamedTuple):
    value: Any
    inverse: Any

def unique(
    self: _Tensor,
    sorted: _Bool,
    return_inverse: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> UniqueResult: ...

class Unique2Result(NamedTuple):
    value: Any
    inverse: Any
    counts: Any

def unique2(
    self: _Tensor,
    sorted: _Bool,
    return_inverse: _Bool,
    return_counts: _Bool,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Unique2Result: ...

class UniqueConsecutiveResult(NamedTuple):
    value: Any
    inverse: Any
    counts: Any

def unique_consecutive(
    self: _Tensor,
    return_inverse: _Bool,
    return_counts: _Bool = False,
    dim: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> UniqueConsecutiveResult: ...

class UniqueDimResult(NamedTuple):
    value: Any
    inverse: Any
    counts: Any

def unique_dim(
    self: _Tensor,
    sorted: _Bool = True,
    return_inverse: _Bool = False,
    dim: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> UniqueDimResult: ...
def upsample_bicubic2d(
    self: _Tensor,
    output_size: _Ints,
    align_corners: _Bool = False,
    scales_h: SupportsFloat = 0.0,
    scales_w: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bicubic2d_aa(
    x: _Tensor,
    output_size: _Ints,
    align_corners: _Bool = False,
    scales_h: SupportsFloat = 0.0,
    scales_w: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bicubic2d_aa_grad(
    grad_output: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    align_corners: _Bool = False,
    scales_h: SupportsFloat = 0.0,
    scales_w: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bicubic2d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    align_corners: _Bool,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bilinear2d(
    self: _Tensor,
    output_size: _Ints,
    align_corners: _Bool = False,
    scales_h: SupportsFloat = ...,
    scales_w: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bilinear2d_aa(
    input: _Tensor,
    output_size: _Ints,
    align_corners: _Bool = False,
    scales_h: SupportsFloat = 0.0,
    scales_w: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bilinear2d_aa_backward(
    grad_output: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    align_corners: _Bool = False,
    scales_h: SupportsFloat = 0.0,
    scales_w: SupportsFloat = 0.0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bilinear2d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    align_corners: _Bool,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_bilinear2d_backward_v2(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    align_corners: _Bool,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_linear1d(
    self: _Tensor,
    output_size: _Ints,
    align_corners: _Bool = False,
    scales: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_linear1d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    align_corners: _Bool,
    scales: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest1d(
    self: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest1d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    scales: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest1d_v2(
    self: _Tensor,
    output_size: _Ints,
    scale_l: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest2d(
    self: _Tensor,
    output_size: _Ints,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest2d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest2d_v2(
    self: _Tensor,
    output_size: _Ints,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest3d(
    self: _Tensor,
    output_size: _Ints,
    scales_d: SupportsFloat,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest3d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    scales_d: SupportsFloat,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest_exact1d(
    self: _Tensor,
    output_size: _Ints,
    scales: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest_exact1d_backward(
    grad_output: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    scales: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest_exact2d(
    self: _Tensor,
    output_size: _Ints,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest_exact2d_backward(
    grad_output: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest_exact3d(
    self: _Tensor,
    output_size: _Ints,
    scales_d: SupportsFloat,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_nearest_exact3d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    scales_d: SupportsFloat,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_trilinear3d(
    self: _Tensor,
    output_size: _Ints,
    align_corners: _Bool,
    scales_d: SupportsFloat,
    scales_h: SupportsFloat,
    scales_w: SupportsFloat,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def upsample_trilinear3d_backward(
    grad_out: _Tensor,
    output_size: _Ints,
    input_size: _Ints,
    align_corners: _Bool = False,
    scales_d: SupportsFloat = ...,
    scales_h: SupportsFloat = ...,
    scales_w: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def var(
    self: _Tensor,
    dim: Optional[_Ints] = None,
    unbiased: _Bool = ...,
    keepdim: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def var_correction(
    self: _Tensor,
    dim: Optional[_Ints] = None,
    correction: SupportsIndex = ...,
    keepdim: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class VarMeanResult(NamedTuple):
    var: Any
    mean: Any

def var_mean(
    self: _Tensor,
    dim: Optional[_Ints] = None,
    correction: SupportsIndex = ...,
    keepdim: _Bool = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> VarMeanResult: ...

class ViewCopyResult(NamedTuple):
    dst: Any
    dst_out: Any

def view_copy(
    dst_size: _Tensor,
    dst_stride: _Tensor,
    dst_storage_offset: _Tensor,
    src: _Tensor,
    src_size: _Tensor,
    src_stride: _Tensor,
    src_storage_offset: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> ViewCopyResult: ...
def weight_quant_batch_matmul(
    x1: _Tensor,
    x2: _Tensor,
    diagonal_matrix: Optional[_Tensor] = None,
    deq_offset: Optional[_Tensor] = None,
    deq_scale: Optional[_Tensor] = None,
    add_offset: Optional[_Tensor] = None,
    mul_scale: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    transpose_x1: _Bool = ...,
    transpose_x2: _Bool = ...,
    antiquant_scale: SupportsFloat = ...,
    antiquant_offset: SupportsFloat = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def weight_quant_batch_matmul_experiment(
    x: _Tensor,
    weight: _Tensor,
    antiquant_scale: _Tensor,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def weight_quant_batch_matmul_nz(
    x: _Tensor,
    weight: _Tensor,
    antiquant_scale: _Tensor,
    antiquant_offset: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    quant_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    antiquant_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def weight_quant_batch_matmul_v2(
    x: _Tensor,
    weight: _Tensor,
    antiquant_scale: _Tensor,
    antiquant_offset: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    quant_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    antiquant_group_size: SupportsIndex = 0,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def weight_quant_batch_matmul_v3(
    x: _Tensor,
    weight: _Tensor,
    antiquant_scale: _Tensor,
    antiquant_offset: Optional[_Tensor] = None,
    quant_scale: Optional[_Tensor] = None,
    quant_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    antiquant_group_size: SupportsIndex = ...,
    inner_precise: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def weight_quant_matmul_all_reduce(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    antiquant_scale: _Tensor = ...,
    antiquant_offset: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    antiquant_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class WeightQuantMatmulAllReduceAddRmsNormResult(NamedTuple):
    y: Any
    norm: Any

def weight_quant_matmul_all_reduce_add_rms_norm(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    antiquant_scale: _Tensor = ...,
    antiquant_offset: Optional[_Tensor] = None,
    residual: _Tensor = ...,
    gamma: _Tensor = ...,
    epsilon: SupportsFloat = ...,
    group: str = ...,
    reduce_op: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    antiquant_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> WeightQuantMatmulAllReduceAddRmsNormResult: ...
def weight_quant_matmul_all_reduce_v2(
    x1: _Tensor,
    x2: _Tensor,
    bias: Optional[_Tensor] = None,
    antiquant_scale: _Tensor = ...,
    antiquant_offset: Optional[_Tensor] = None,
    x3: Optional[_Tensor] = None,
    group: str = ...,
    reduce_op: str = ...,
    comm_mode: str = ...,
    comm_turn: SupportsIndex = ...,
    stream_mode: SupportsIndex = ...,
    antiquant_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...

class WeightQuantPreprocessResult(NamedTuple):
    out_weight: Any
    out_weight_scale: Any
    out_weight_offset: Any
    out_bias: Any

def weight_quant_preprocess(
    weight: _Tensor,
    weight_scale: _Tensor,
    weight_offset: Optional[_Tensor] = None,
    bias: Optional[_Tensor] = None,
    x_dtype: DTypeLike = ...,
    x_scale_dtype: DTypeLike = ...,
    k_group_size: SupportsIndex = ...,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> WeightQuantPreprocessResult: ...
def x_log_y_scalar_other(
    self: _Tensor,
    other: _Scalar,
    *,
    out: _Out = None,
    stream: Optional[Stream] = None,
) -> Any: ...
def x_log_y_scalar_self(self: _Scalar, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def x_log_y_tensor(self: _Tensor, other: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def xlog1py(x: _Tensor, y: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
def yuv444_to_yuv422(x: _Tensor, *, out: _Out = None, stream: Optional[Stream] = None) -> Any: ...
