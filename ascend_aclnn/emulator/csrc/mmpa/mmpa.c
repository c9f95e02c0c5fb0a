/* CANN's layer over the operating system, as far as clients link against it. */
#include "ascendcl/core/api.h"

#include <sys/syscall.h>
#include <unistd.h>

API int32_t mmGetTid(void) { return (int32_t)syscall(SYS_gettid); }
