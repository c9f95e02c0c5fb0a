/* ge::AscendString, which CANN's C++ interfaces take and return, as C sees it. */
#ifndef EMU_ASCEND_STRING_H
#define EMU_ASCEND_STRING_H

#include "ascendcl/core/api.h"

/* A std::shared_ptr<std::string> as libstdc++ lays it out. The string is private to this library, and is a C string here; the
 * counter is not, since its uses are counted by code that is inline in clients. */
typedef struct {
    const char *text;
    struct emu_counter *counter;
} emu_ascend_string;

/* Never a null pointer. */
LINK const char *emu_ascend_text(const emu_ascend_string *string);

#endif
