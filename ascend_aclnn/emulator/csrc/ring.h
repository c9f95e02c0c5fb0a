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

/* To look for something all the time is less work than to sleep and to be woken when it takes no longer than this. What it
 * will take is guessed from the last times. */
#define RING_SPIN 8000u /* nanoseconds */

static inline uint64_t ring_guess(uint64_t guess, uint64_t took) {
    return (guess * 3 + (took < 1000000u ? took : 1000000u)) / 4;
}

typedef struct emu_ring {
    /* written by the client */
    _Alignas(64) _Atomic uint64_t sent; /* words that it has put in, ever */
    _Atomic uint64_t wanted;            /* it waits until so many launches are done; 0: it does not wait */
    _Atomic uint32_t calls;             /* on the socket, ever; its end is one */
    _Atomic uint32_t sleeps;            /* 1 while it sleeps; whoever wakes it makes that 0 */
    /* written by the device process */
    _Alignas(64) _Atomic uint64_t done; /* launches, ever */
    _Atomic uint32_t state;
    uint32_t answered;                  /* calls */
    uint32_t waited;                    /* whether the client waited for the last launch */
    uint64_t gap[2];                    /* nanoseconds until the next launch came, of late: after a launch, after one waited for */
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
