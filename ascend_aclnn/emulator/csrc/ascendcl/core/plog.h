/* The log of the process, where CANN's runtime writes it. */
#ifndef EMU_PLOG_H
#define EMU_PLOG_H

#include "ascendcl/core/messages.h"

/* Reports a timed-out wait: counts and logs it, sets the message and returns the status. `code` is CANN's code in the
 * message. */
int emu_timed_out(int status, const char *code, const char *what, int32_t timeout);

#endif
