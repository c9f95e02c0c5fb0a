/* All of ATB that the emulated device has. */
#ifndef ASCEND_ACLNN_ATB_ATB_INFER_H
#define ASCEND_ACLNN_ATB_ATB_INFER_H

#include "atb/context.h"
#include "atb/infer_op_params.h"
#include "atb/operation.h"
#include "atb/svector.h"
#include "atb/types.h"
#include "atb/utils.h"

#endif
