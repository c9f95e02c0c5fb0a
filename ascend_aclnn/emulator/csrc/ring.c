/* The device process's side of the ring: a library of its own, which device.py loads. */
#include "ring.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#define NAP 60000  /* nanoseconds */
#define EXPORT __attribute__((visibility("default")))

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* Takes a CALL_WAKE off the socket; false when something else is next, or the end. */
static bool take_wake(int socket) {
    emu_frame frame;
    ssize_t got = recv(socket, &frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0) return true; /* nothing is there after all */
    if (got != sizeof frame || frame.word != CALL_WAKE || frame.bytes != sizeof frame.word) return false;
    return recv(socket, &frame, sizeof frame, 0) == sizeof frame;
}

/* Waits for something on the socket: 1, or 0 after `nanoseconds` (negative: for ever). */
static int doze(int socket, int64_t nanoseconds) {
    struct pollfd poller = {socket, POLLIN, 0};
    struct timespec limit = {0, nanoseconds};
    int ready;
    do ready = ppoll(&poller, 1, nanoseconds < 0 ? NULL : &limit, NULL);
    while (ready < 0 && errno == EINTR);
    return ready;
}

/* Whether more than `at` words come within a short while. */
static bool spin(const emu_ring *ring, uint64_t at, uint64_t since) {
    while (now() - since < 2 * RING_SPIN) {
        if (atomic_load_explicit(&ring->sent, memory_order_acquire) != at) return true;
    }
    return false;
}

/* Waits until more than `at` words have been put in, and gives how many; `at` when something else is on the socket. */
EXPORT uint64_t emu_ring_wait(emu_ring *ring, uint64_t at, int socket) {
    static __thread bool prompt;
    uint64_t sent = atomic_load_explicit(&ring->sent, memory_order_acquire), since = now();
    uint64_t *gap = &ring->gap[ring->woken];
    if (sent != at) return sent;
    if (!prompt) prompt = prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0) == 0;
    if (!ring->woken || *gap >= RING_SPIN || !spin(ring, at, since)) {
        for (uint32_t state = *gap < 2u * NAP ? RING_NAPS : RING_SLEEPS;; state = RING_SLEEPS) {
            atomic_store(&ring->state, state);
            sent = atomic_load(&ring->sent);
            bool other = sent == at && doze(socket, state == RING_NAPS ? NAP : -1) > 0 && !take_wake(socket);
            atomic_store(&ring->state, RING_BUSY);
            sent = atomic_load(&ring->sent);
            if (other && sent == at) return at;
            if (sent != at) break;
        }
    }
    *gap = ring_guess(*gap, now() - since);
    return atomic_load_explicit(&ring->sent, memory_order_acquire);
}

/* So many launches are done. */
EXPORT void emu_ring_done(emu_ring *ring, uint64_t done, int socket) {
    static const emu_frame wake = {sizeof wake.word, CALL_WAKE};
    atomic_store(&ring->done, done);
    uint64_t wanted = atomic_load(&ring->wanted);
    ring->woken = wanted != 0 && wanted <= done;
    if (!ring->woken || !atomic_compare_exchange_strong(&ring->wanted, &wanted, 0)) return;
    while (send(socket, &wake, sizeof wake, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}
