/* Live objects and leaks. */
#ifndef EMU_INSPECT_H
#define EMU_INSPECT_H

#include "ascendcl/core/api.h"

/* Reports live objects on standard error: at aclFinalize or at exit, once after each aclInit. */
void emu_report_leaks(void);
void emu_report_again(void);

#endif
