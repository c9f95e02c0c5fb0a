/*
 * The clock of a recording: CLOCK_MONOTONIC in ns.
 *
 * Four readings of a launch would be a quarter of what it costs to record one. Where the kernel itself keeps time by the processor's
 * counter, a thread reads that, and CLOCK_MONOTONIC only once in a millisecond.
 */
#include "recorder.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static uint64_t monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef __x86_64__
#include <x86intrin.h>

#define MEASURE 50000000u /* ns over which the counter's rate is measured */
#define CLOSE 4000u /* ticks: two readings that lie no further apart are of one moment */

typedef struct {
    uint64_t ticks, ns;
} moment;

static moment first;
static uint64_t rate; /* ns of 2^32 ticks; 0: not known yet, or the counter is not to be used */
static uint64_t millisecond; /* ticks of one */

/* Reads both clocks; false where the thread was interrupted between them, several times. */
static bool read_both(moment *now) {
    for (int i = 0; i < 8; i++) {
        now->ticks = __rdtsc();
        now->ns = monotonic();
        if (__rdtsc() - now->ticks < CLOSE) return true;
    }
    return false;
}

/* The kernel uses the counter only where it runs at one rate, and alike on all processors. */
static bool kernel_uses_counter(void) {
    char name[4] = "";
    int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t count = read(file, name, sizeof name);
    close(file);
    return count == sizeof name && memcmp(name, "tsc\n", sizeof name) == 0;
}

__attribute__((constructor)) static void begin_measuring(void) {
    moment now;
    if (kernel_uses_counter() && read_both(&now)) first = now;
}

static uint64_t measured(void) { /* a thread's time until the rate is known */
    moment now;
    bool both = read_both(&now);
    if (both && first.ns != 0 && now.ns - first.ns >= MEASURE && now.ticks > first.ticks) {
        uint64_t ticks = now.ticks - first.ticks;
        uint64_t ns_of_ticks = (uint64_t)((double)(now.ns - first.ns) / (double)ticks * 4294967296.0);
        __atomic_store_n(&millisecond, (uint64_t)((double)ticks / (double)(now.ns - first.ns) * 1e6), __ATOMIC_RELAXED);
        __atomic_store_n(&rate, ns_of_ticks, __ATOMIC_RELEASE);
    }
    return now.ns;
}

uint64_t layer_now(void) {
    static _Thread_local moment last; /* when this thread read both clocks */
    uint64_t ns_of_ticks = __atomic_load_n(&rate, __ATOMIC_ACQUIRE);
    if (ns_of_ticks == 0) return measured();
    uint64_t most = __atomic_load_n(&millisecond, __ATOMIC_RELAXED), passed = __rdtsc() - last.ticks;
    if (passed > most) {
        moment now;
        (void)read_both(&now);
        uint64_t latest = last.ns + (most * ns_of_ticks >> 32); /* that this may have returned before */
        last = (moment){now.ticks, now.ns > latest ? now.ns : latest};
        return last.ns;
    }
    return last.ns + (passed * ns_of_ticks >> 32);
}
#else
uint64_t layer_now(void) { return monotonic(); }
#endif
