/*
 * The ring of a connection: launches on their way to the device process, in memory that both sides have mapped.
 *
 * As long as the device process is busy, a launch costs no system call on either side. It sleeps on the connection's
 * socket when it has nothing to do, and the client wakes it with CALL_WAKE; the client sleeps there, too, when it waits,
 * and gets CALL_WAKE once the launch that it waits for is done. Errors and new shapes are answers on the socket.
 */
#ifndef EMU_RING_H
#define EMU_RING_H

#include "protocol.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

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
    _Atomic uint64_t wanted;            /* it sleeps until so many launches are done; 0: it does not sleep */
    /* written by the device process */
    _Alignas(64) _Atomic uint64_t done; /* launches, ever */
    _Atomic uint32_t state;
    uint32_t woken;                     /* whether the client waited for the last launch */
    uint64_t gap[2];                    /* nanoseconds until the next launch came, of late: after a launch, after one waited for */
    /* Records: their length in words, a RECORD, a plan, an offset in device memory for each tensor. None is split. */
    _Alignas(64) uint64_t words[RING_WORDS];
} emu_ring;

_Static_assert(offsetof(emu_ring, words) == RING_HEAD, "protocol.py knows where the records are");

/* A message on the socket: u32 bytes that follow, u32 call or i32 status, payload. */
typedef struct {
    uint32_t bytes;
    int32_t word;
} emu_frame;

#endif
