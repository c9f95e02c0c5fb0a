/* The monotonic clock, and waiting by it. */
#ifndef EMU_CLOCK_H
#define EMU_CLOCK_H

#include "ascendcl/core/api.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds. */
LINK uint64_t emu_now(void);
/* The time in so many milliseconds, for a condition made by emu_make_condition. */
struct timespec emu_deadline(int32_t milliseconds);
/* Milliseconds until a time of emu_now, rounded up; 0 when it has passed. */
LINK int32_t emu_left(uint64_t until);
void emu_make_condition(pthread_cond_t *condition);

#endif
