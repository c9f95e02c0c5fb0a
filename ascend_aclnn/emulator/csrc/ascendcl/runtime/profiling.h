/* Recording between aclprofStart and aclprofStop. */
#ifndef EMU_PROFILING_H
#define EMU_PROFILING_H

#include "ascendcl/core/api.h"

/* Begins a recorded host event: the time, or 0 when nothing is recorded. */
LINK uint64_t emu_profile_begin(void);
/* Ends it. */
LINK void emu_profile_end(const char *name, uint64_t begin);

#endif
