/* What is alive, and what was never released. */
#ifndef EMU_INSPECT_H
#define EMU_INSPECT_H

#include "ascendcl/core/api.h"

/* Tells on standard error what is alive: at aclFinalize or at exit, once after each aclInit. */
void emu_report_leaks(void);
void emu_report_again(void);

#endif
