/* The graph engine: called by its generated functions. */
#ifndef EMU_GRAPH_ENGINE_H
#define EMU_GRAPH_ENGINE_H

#include "ascendcl/core/api.h"

/* Throws std::runtime_error, or ends a process without C++. */
void emu_refuse_graph(const char *function) __attribute__((noreturn));

#endif
