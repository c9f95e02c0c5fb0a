/*
 * The ring of a connection: launches on their way to the device process, in memory that both sides have mapped.
 *
 * While the device process is busy, a launch costs no system call on either side. An idle side sleeps on a word of the ring, by
 * futex(2), and the other side wakes it: the client when it writes a launch, the device process when it finishes the launch
 * that the client waits for. Calls, errors and new shapes travel on the socket; the ring counts the calls.
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

/* What the device process does. When launches come one after the other it naps after the last one and looks again, so that the
 * next one need not wake it. A client that waits for a launch wakes it from a nap or from sleep. */
enum { RING_BUSY, RING_NAPS, RING_SLEEPS };

/* A side spins before it sleeps when the expected wait is shorter than a wake-up. A wake-up takes 2 microseconds on a busy
 * processor and 30 on an idle one, in a virtual machine too; spinning while other threads need the processor is worse than
 * either. Both times are estimated from the latest waits: how long until the other side was done, and how long after that a
 * sleeping side ran. The first excludes the second: otherwise a side that slept once would go on sleeping, and make the other
 * side sleep. Where other threads want the processors, the other side is often late: a side that has spun in vain sleeps at
 * once for some waits, the more of them the more often that happens. */
typedef struct emu_pace {
    uint32_t wait, waking; /* nanoseconds */
    uint16_t vain;         /* how much more often than not spinning was in vain of late, */
    uint16_t skipped;      /* and the waits that it is left out for */
} emu_pace;

#define RING_LEAST_SPIN 8000u
#define RING_MOST_SPIN 24000u

static inline uint64_t ring_spin(const emu_pace *pace) {
    return pace->waking < RING_LEAST_SPIN ? RING_LEAST_SPIN : pace->waking > RING_MOST_SPIN ? RING_MOST_SPIN : pace->waking;
}

#define RING_MOST_VAIN 6u

/* Whether to spin before a wait, of which `most` is ring_spin. */
static inline bool ring_spins(emu_pace *pace, uint64_t most) {
    if (pace->wait >= most) return false;
    if (pace->skipped == 0) return true;
    pace->skipped--;
    return false;
}

static inline void ring_spun(emu_pace *pace, bool in_vain) {
    if (in_vain) pace->vain += pace->vain < RING_MOST_VAIN;
    else pace->vain -= pace->vain > 0;
    pace->skipped = in_vain ? (uint16_t)(1u << pace->vain) : 0;
}

static inline uint32_t ring_guess(uint32_t guess, uint64_t took) {
    return (guess * 3 + (uint32_t)(took < 1000000u ? took : 1000000u)) / 4;
}

/* Updates the estimates after a wait from `since` to `now`. came: when the other side was done, if this side was asleep; else
 * an earlier time. */
static inline void ring_learn(emu_pace *pace, uint64_t since, uint64_t came, uint64_t now, bool woken) {
    bool known = came > since && came <= now;
    if (woken && known) pace->waking = ring_guess(pace->waking, now - came);
    pace->wait = ring_guess(pace->wait, (known ? came : now) - since);
}

typedef struct emu_ring {
    /* written by the client */
    _Alignas(64) _Atomic uint64_t sent; /* words written so far */
    _Atomic uint64_t wanted;            /* the client waits for so many launches; 0: it does not wait */
    _Atomic uint32_t calls;             /* on the socket, so far; its end counts as one */
    _Atomic uint32_t sleeps;            /* 1 while it sleeps; a wake-up makes it 0 */
    _Atomic uint64_t sent_at;           /* when the latest launch was written while the other side slept */
    /* written by the device process */
    _Alignas(64) _Atomic uint64_t done; /* launches done so far */
    _Atomic uint32_t state;
    uint32_t answered;                  /* calls */
    uint32_t waited;                    /* whether the client waited for the last launch */
    _Atomic uint64_t done_at;           /* when the latest launch was done while the client slept */
    emu_pace pace[2];                   /* estimates for the next launch: after a launch, after one that was waited for */
    /* Records: their length in words, a RECORD, a plan, an offset in device memory for each tensor. No record is split. */
    _Alignas(64) uint64_t words[RING_WORDS];
} emu_ring;

_Static_assert(offsetof(emu_ring, words) == RING_HEAD, "protocol.py knows where the records are");

/* Sleeps while a word is `value`, at most so many nanoseconds (negative: for ever); a signal ends the sleep early. False on
 * timeout. */
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
