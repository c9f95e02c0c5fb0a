/* What phase one of some operators does to the descriptions of its arguments. */
#ifndef EMU_REWRITING_H
#define EMU_REWRITING_H

#include "nnopbase/objects.h"

/* Whether an operator changes one of its arguments. */
bool emu_rewrites(const char *operator);
/* Changes the caller's aclTensors as CANN's phase one does. ``first`` and ``last`` are the call's first and last tensors,
 * ``last`` an output. The table's lock is held. */
void emu_rewrite(const char *operator, const char *parameter, emu_tensor *tensor, const emu_tensor *first, const emu_tensor *last);

#endif
