/* The report of a failed task. */
#ifndef EMU_EXCEPTION_H
#define EMU_EXCEPTION_H

#include "ascendcl/core/api.h"

struct rtExceptionInfo {
    uint32_t task, stream, thread, device, status;
};

/* Calls the function that aclrtSetExceptionInfoCallback has set, if there is one. */
void emu_report_exception(const aclrtExceptionInfo *info);

#endif
