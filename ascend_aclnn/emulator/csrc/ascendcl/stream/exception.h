/* What a task that fails is reported with. */
#ifndef EMU_EXCEPTION_H
#define EMU_EXCEPTION_H

#include "ascendcl/core/api.h"

struct rtExceptionInfo {
    uint32_t task, stream, thread, device, status;
};

/* Calls the function of aclrtSetExceptionInfoCallback, if the program has set one. */
void emu_report_exception(const aclrtExceptionInfo *info);

#endif
