/* The device process's side of the ring: a library of its own, which process/device.py loads. */
#include "ring/ring.h"

#include <sys/prctl.h>

#define NAP 60000  /* nanoseconds */
#define EXPORT __attribute__((visibility("default")))

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* Whether more than `at` words have been written, or a call has come. */
static bool has_work(const emu_ring *ring, uint64_t at) {
    return atomic_load(&ring->sent) != at || atomic_load(&ring->calls) != ring->answered;
}

/* Spins for so many nanoseconds at most; whether there is something to do. */
static bool spin(const emu_ring *ring, emu_pace *pace, uint64_t at, uint64_t since, uint64_t most) {
    bool works = false;
    while (!works && now() - since < most) works = has_work(ring, at);
    ring_spun(pace, !works);
    return works;
}

static __thread emu_ring *mine; /* that this thread waits for: each connection has a thread of its own */

/* Waits until more than `at` words have been written, and returns their number; `at` when a call has come. */
EXPORT uint64_t emu_ring_wait(emu_ring *ring, uint64_t at) {
    static __thread bool prompt;
    mine = ring;
    if (!has_work(ring, at)) {
        emu_pace *pace = &ring->pace[ring->waited];
        uint64_t since = now(), most = ring_spin(pace);
        uint32_t state = RING_BUSY;
        if (!prompt) prompt = prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0) == 0;
        if (!ring->waited || !ring_spins(pace, most) || !spin(ring, pace, at, since, 2 * most)) {
            state = !ring->waited && pace->wait < 2u * NAP ? RING_NAPS : RING_SLEEPS;
            for (;; state = RING_SLEEPS) {
                atomic_store(&ring->state, state);
                if (has_work(ring, at)) break;
                ring_sleep(&ring->state, state, state == RING_NAPS ? NAP : -1);
                if (has_work(ring, at)) break;
            }
            atomic_store(&ring->state, RING_BUSY);
        }
        ring_learn(pace, since, atomic_load(&ring->sent_at), now(), state == RING_SLEEPS);
    }
    uint64_t sent = atomic_load(&ring->sent);
    if (sent == at) ring->answered++;
    return sent;
}

/* Another launch is done. It has an answer, which is sent on the socket, or none. */
static void done(emu_ring *ring, bool answers) {
    uint64_t done = atomic_load_explicit(&ring->done, memory_order_relaxed) + 1; /* nothing else writes it */
    if (atomic_load(&ring->sleeps) != 0) atomic_store(&ring->done_at, now());
    atomic_store(&ring->done, done);
    uint64_t wanted = atomic_load(&ring->wanted);
    ring->waited = wanted != 0 && wanted <= done;
    /* Answers must be taken as they come: the socket has room for some only. */
    if (wanted == 0 || !(ring->waited || answers) || !atomic_compare_exchange_strong(&ring->wanted, &wanted, 0)) return;
    if (atomic_exchange(&ring->sleeps, 0) != 0) ring_wake(&ring->sleeps);
}

/* For the ring that this thread has waited for: without arguments, because ctypes converts each of them at a price of 0.1 us. */
EXPORT void emu_ring_done(void) { done(mine, false); }

EXPORT void emu_ring_answered(void) { done(mine, true); }
