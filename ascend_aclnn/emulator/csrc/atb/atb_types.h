/* What ATB's functions share: statuses, strings as libstdc++ lays them out since C++11, refusals. */
#ifndef EMU_ATB_TYPES_H
#define EMU_ATB_TYPES_H

#include "ascendcl/core/api.h"
#include "atb/atb_layout.h"

#include "atb_data.h"

typedef int32_t atb_status; /* ErrorType: ATB_NO_ERROR, ATB_ERROR_INVALID_PARAM, ... of atb_data.h */

/* std::string by value. The text comes from malloc, and the caller's delete gives it to free. */
typedef struct {
    char *text;
    size_t length, room, unused;
} atb_string;

atb_string atb_new_string(const char *text);

/* Elements, 0 for a tensor without axes. */
uint64_t atb_count(const atb_desc *desc);

/* Reports a refusal: as this thread's message, and on standard error, because clients drop ATB's messages. Returns the status. */
atb_status atb_refuse(atb_status status, const char *error, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a failure of a function of the emulator's, whose message is there. */
atb_status atb_failed(int status);

#endif
