/* What a process shares with others of its user: parts of its memory, and events. */
#ifndef EMU_SHARING_H
#define EMU_SHARING_H

#include "ascendcl/core/api.h"

typedef enum { SHARED_MEMORY = 1, SHARED_PHYSICAL, SHARED_EVENT } emu_shared_kind;

/* Something that this process shares, or has opened of another one's. */
typedef struct emu_shared emu_shared;

/* Shares a part of a file, or an event (file -1): with every process of the user, or with those that are allowed. */
int emu_shared_new(emu_shared_kind kind, bool anybody, int file, uint64_t offset, uint64_t size, emu_shared **shared);
/* By which other processes find it. */
uint64_t emu_shared_name(const emu_shared *shared);
int emu_shared_allow(emu_shared *shared, const int32_t *processes, size_t count);
/* Whether another process that lives has it open. */
bool emu_shared_used(const emu_shared *shared);
/* Opens what a process, maybe this one, shares. */
int emu_shared_open(uint64_t name, emu_shared_kind kind, emu_shared **shared);
bool emu_shared_mine(const emu_shared *shared);
uint64_t emu_shared_size(const emu_shared *shared);
/* A descriptor of the file, which the caller closes, and where in it the part begins; -1 with a message. */
int emu_shared_file(const emu_shared *shared, uint64_t *offset);
void emu_shared_hold(emu_shared *shared);
void emu_shared_release(emu_shared *shared);
/* Nothing of a file is shared any more. Whether other processes use something of it. */
bool emu_shared_end_file(int file);

/* Recordings of an event have numbers; 0: none so far. */
uint64_t emu_shared_record(emu_shared *shared);
void emu_shared_recorded(emu_shared *shared, uint64_t number);
uint64_t emu_shared_latest(const emu_shared *shared);
/* Waits until a recording has passed, or for so many milliseconds (negative: for ever): 1 passed, 0 not yet, -1 it never
 * will, because the process that recorded the event has ended. */
int emu_shared_wait(const emu_shared *shared, uint64_t number, int32_t timeout);

#endif
