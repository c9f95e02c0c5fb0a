/* Where in the client a function was called: Python's frames where the thread runs Python, else native ones. */
#ifndef EMU_CALL_SITE_H
#define EMU_CALL_SITE_H

#include "ascendcl/core/api.h"

/* The call site of the function of the interface that this thread is in; 0: it is not known. Equal ones have equal numbers. */
LINK uint32_t emu_call_site(void);
/* A launch begins that is no function of the interface. */
void emu_call_site_note(const char *routine);
/* Phase two of an executor begins, with the call site of phase one. */
LINK void emu_call_site_of_executor(uint32_t site, bool repeatable);
/* "model.py:12 in forward < train.py:30 in step": the innermost frames that are neither of installed packages nor of Python, else the
 * innermost one; "" for 0. */
const char *emu_site_place(uint32_t site);
/* All frames as JSON, innermost first: [file, line, function]; a native frame has a negative line, its offset in the file. */
const char *emu_site_frames(uint32_t site);
/* Whether a call site is one of Python's. */
LINK bool emu_site_is_python(uint32_t site);

/* Where this thread is in a call that waits: its number among those of the process, in the order in which they began; else 0. */
uint64_t emu_waiting_call(void);
/* The thread goes on as in an earlier call that waited, by its number; 0: as in none. */
void emu_waiting_as(uint64_t call);
/* Whether that call waits and counts for nothing: it is the one that ASCEND_EMULATOR_VALIDATE_DELETE says, or the thread said so
 * (aclemuCountWaits). */
bool emu_waiting_is_deleted(void);

/* Whether this thread's waits, and its copies to the host, are no part of the program (aclemuCountWaits). */
LINK bool emu_is_uncounted(void);

/* JSON of a string, with its quotes, into a buffer: its length. What does not fit is cut off. */
size_t emu_json_text(char *buffer, size_t size, const char *string);

#endif
