/*
 * The ring of a connection: launches on their way to the device process, in memory that both sides have mapped.
 *
 * As long as the device process is busy, a launch costs no system call on either side. Who has nothing to do sleeps on a
 * word of the ring, by futex(2), and the other side wakes it: the client with what it puts in, the device process with the
 * launch that is waited for. Calls, errors and new shapes travel on the socket; the ring counts the calls.
 */
#ifndef EMU_RING_H
#define EMU_RING_H

#include "protocol.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_WORDS (RING_RECORDS / 8u)

/* What the device process does. Where launches come one after the other it naps when it has done them all, and looks again;
 * they need not wake it then. Who waits for a launch wakes it from either. */
enum { RING_BUSY, RING_NAPS, RING_SLEEPS };

/* To look for something all the time is less work than to sleep and to be woken when it takes no longer than to be woken does.
 * That is 2 microseconds where the processor is busy and 30 where it sleeps, too, in a virtual machine; looking where others
 * want the processor is worse than either. So both are guessed from the last times: how long it took until something came,
 * and how long after that whoever slept was awake. The first does not count the second: a side that sleeps would go on to
 * sleep because of it, and make the other one sleep. */
typedef struct emu_pace {
    uint64_t wait, waking; /* nanoseconds */
} emu_pace;

#define RING_LEAST_SPIN 8000u
#define RING_MOST_SPIN 24000u

static inline uint64_t ring_spin(const emu_pace *pace) {
    return pace->waking < RING_LEAST_SPIN ? RING_LEAST_SPIN : pace->waking > RING_MOST_SPIN ? RING_MOST_SPIN : pace->waking;
}

static inline uint64_t ring_guess(uint64_t guess, uint64_t took) {
    return (guess * 3 + (took < 1000000u ? took : 1000000u)) / 4;
}

/* What a wait from `since` to `now` tells. came: when the other side was done, if it found this one asleep; else an earlier time. */
static inline void ring_learn(emu_pace *pace, uint64_t since, uint64_t came, uint64_t now, bool woken) {
    bool known = came > since && came <= now;
    if (woken && known) pace->waking = ring_guess(pace->waking, now - came);
    pace->wait = ring_guess(pace->wait, (known ? came : now) - since);
}

typedef struct emu_ring {
    /* written by the client */
    _Alignas(64) _Atomic uint64_t sent; /* words that it has put in, ever */
    _Atomic uint64_t wanted;            /* it waits until so many launches are done; 0: it does not wait */
    _Atomic uint32_t calls;             /* on the socket, ever; its end is one */
    _Atomic uint32_t sleeps;            /* 1 while it sleeps; whoever wakes it makes that 0 */
    _Atomic uint64_t sent_at;           /* when the latest launch came that found the other side asleep */
    /* written by the device process */
    _Alignas(64) _Atomic uint64_t done; /* launches, ever */
    _Atomic uint32_t state;
    uint32_t answered;                  /* calls */
    uint32_t waited;                    /* whether the client waited for the last launch */
    _Atomic uint64_t done_at;           /* when the latest launch was done that found the other side asleep */
    emu_pace pace[2];                   /* of waiting for the next launch: after a launch, after one that was waited for */
    /* Records: their length in words, a RECORD, a plan, an offset in device memory for each tensor. None is split. */
    _Alignas(64) uint64_t words[RING_WORDS];
} emu_ring;

_Static_assert(offsetof(emu_ring, words) == RING_HEAD, "protocol.py knows where the records are");

/* Sleeps while a word is `value`, for so many nanoseconds at most (negative: for ever), or a little: a signal ends it, too.
 * False when the time is over. */
static inline bool ring_sleep(_Atomic uint32_t *word, uint32_t value, int64_t nanoseconds) {
    struct timespec limit = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    return syscall(SYS_futex, word, FUTEX_WAIT, value, nanoseconds < 0 ? NULL : &limit, NULL, 0) == 0 || errno != ETIMEDOUT;
}

static inline void ring_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }

/* A message on the socket: u32 bytes that follow, u32 call or i32 status, payload. */
typedef struct {
    uint32_t bytes;
    int32_t word;
} emu_frame;

#endif
