/* The opaque objects of the aclnn interface. */
#ifndef ASCEND_ACLNN_ACL_META_TYPES_H
#define ASCEND_ACLNN_ACL_META_TYPES_H

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t aclnnStatus;
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;

#ifdef __cplusplus
}
#endif

#endif
