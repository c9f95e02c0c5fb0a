/* What is recorded between aclprofStart and aclprofStop. */
#ifndef EMU_PROFILING_H
#define EMU_PROFILING_H

#include "ascendcl/core/api.h"

/* When something on the host begins that is recorded: the time, or 0 when nothing is. */
LINK uint64_t emu_profile_begin(void);
/* It has ended. */
LINK void emu_profile_end(const char *name, uint64_t begin);

#endif
