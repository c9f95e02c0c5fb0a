/* The log of the process, where CANN's runtime keeps it. */
#ifndef EMU_PLOG_H
#define EMU_PLOG_H

#include "ascendcl/core/messages.h"

/* A wait that has lasted for its whole time: counted and logged; sets the message and returns the status. `code` is CANN's
 * for the message. */
int emu_timed_out(int status, const char *code, const char *what, int32_t timeout);

#endif
