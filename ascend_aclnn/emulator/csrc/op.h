/* Running single operators by their type name. */
#ifndef EMU_OP_H
#define EMU_OP_H

#include "api.h"

/* Refuses to run a single operator by its type name. */
LINK int emu_refuse_operator(const char *routine, const char *type);

#endif
