/* The report of a failed task to the program's function (aclrtSetExceptionInfoCallback). */
#include "ascendcl/stream/exception.h"

#include "ascendcl/core/api_entry.h"

#define NO_INFO UINT32_MAX /* returned by CANN's getters without an info */

static _Atomic aclrtExceptionInfoCallback on_exception;

void emu_report_exception(const aclrtExceptionInfo *info) {
    aclrtExceptionInfoCallback function = on_exception;
    if (function != NULL) function((aclrtExceptionInfo *)info);
}

API aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
    ENTER("aclrtSetExceptionInfoCallback");
    on_exception = callback;
    return 0;
}

API uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info) { return info != NULL ? info->task : NO_INFO; }
API uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info) { return info != NULL ? info->stream : NO_INFO; }
API uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info) { return info != NULL ? info->thread : NO_INFO; }
API uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info) { return info != NULL ? info->device : NO_INFO; }
API uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info) { return info != NULL ? info->status : NO_INFO; }
