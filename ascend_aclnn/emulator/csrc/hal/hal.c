/* Functions of the driver that clients call directly: registering host memory (driver/ascend_hal.h). Statuses are
 * drvError_t. */
#include "ascendcl/core/api.h"

#include "acl/acl_rt.h"

enum { DRV_ERROR_NONE = 0, DRV_ERROR_INVALID_DEVICE = 2, DRV_ERROR_INVALID_VALUE = 3, DRV_ERROR_INNER_ERR = 7, DRV_ERROR_NOT_SUPPORT = 0xfffe };

/* drvRegisterTpye: the low bits of `flag`; those that map host memory to a device. */
#define MAP_TYPE_MASK 0xffu
enum { HOST_MEM_MAP_DEV = 0, HOST_SVM_MAP_DEV = 1, HOST_MEM_MAP_DEV_PCIE_TH = 3 };

static int from_runtime(aclError status) {
    if (status == 0) return DRV_ERROR_NONE;
    return status == ACL_ERROR_RT_PARAM_INVALID ? DRV_ERROR_INVALID_VALUE : DRV_ERROR_INNER_ERR;
}

API int halHostRegister(void *srcPtr, unsigned long long size, unsigned int flag, unsigned int devid, void **dstPtr) {
    unsigned int map = flag & MAP_TYPE_MASK;
    int32_t device;
    if (srcPtr == NULL || dstPtr == NULL) return DRV_ERROR_INVALID_VALUE;
    if (map != HOST_MEM_MAP_DEV && map != HOST_SVM_MAP_DEV && map != HOST_MEM_MAP_DEV_PCIE_TH) return DRV_ERROR_NOT_SUPPORT;
    if (aclrtGetDevice(&device) != 0 || (unsigned)device != devid) return DRV_ERROR_INVALID_DEVICE;
    return from_runtime(aclrtHostRegister(srcPtr, size, ACL_HOST_REGISTER_MAPPED, dstPtr));
}

API int halHostUnregister(void *srcPtr, unsigned int devid) {
    (void)devid;
    return from_runtime(aclrtHostUnregister(srcPtr));
}

API int halHostUnregisterEx(void *srcPtr, unsigned int devid, unsigned int flag) {
    (void)flag;
    return halHostUnregister(srcPtr, devid);
}
