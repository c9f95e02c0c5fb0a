/* The monotonic clock, and waiting by it. */
#include "ascendcl/core/clock.h"

uint64_t emu_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

struct timespec emu_deadline(int32_t milliseconds) {
    uint64_t at = emu_now() + (uint64_t)milliseconds * 1000000ull;
    return (struct timespec){(time_t)(at / 1000000000ull), (long)(at % 1000000000ull)};
}

int32_t emu_left(uint64_t until) {
    uint64_t at = emu_now();
    return at < until ? (int32_t)((until - at + 999999) / 1000000ull) : 0;
}

void emu_make_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
