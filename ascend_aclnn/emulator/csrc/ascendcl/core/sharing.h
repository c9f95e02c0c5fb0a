/* What a process shares with other processes of its user: parts of its memory, and events. */
#ifndef EMU_SHARING_H
#define EMU_SHARING_H

#include "ascendcl/core/api.h"

typedef enum { SHARED_MEMORY = 1, SHARED_PHYSICAL, SHARED_EVENT } emu_shared_kind;

/* An object that this process shares, or has opened from another one. */
typedef struct emu_shared emu_shared;

/* Shares a part of a file, or an event (file -1), with every process of the user or with listed ones. */
int emu_shared_new(emu_shared_kind kind, bool any_process, int file, uint64_t offset, uint64_t size, emu_shared **shared);
/* The name by which other processes find it. */
uint64_t emu_shared_name(const emu_shared *shared);
int emu_shared_allow(emu_shared *shared, const int32_t *processes, size_t count);
/* Whether another live process has it open. */
bool emu_shared_used(const emu_shared *shared);
/* Opens an object that a process, possibly this one, shares. */
int emu_shared_open(uint64_t name, emu_shared_kind kind, emu_shared **shared);
bool emu_shared_mine(const emu_shared *shared);
uint64_t emu_shared_size(const emu_shared *shared);
/* A descriptor of the file, which the caller closes, and the offset of the shared part; -1 with a message. */
int emu_shared_file(const emu_shared *shared, uint64_t *offset);
void emu_shared_hold(emu_shared *shared);
void emu_shared_release(emu_shared *shared);
/* Ends the sharing of all parts of a file. Whether other processes use one of them. */
bool emu_shared_end_file(int file);

/* The recordings of an event are numbered; 0: none so far. */
uint64_t emu_shared_record(emu_shared *shared);
void emu_shared_recorded(emu_shared *shared, uint64_t number);
uint64_t emu_shared_latest(const emu_shared *shared);
/* Waits until a recording has passed, at most so many milliseconds (negative: for ever): 1 passed, 0 not yet, -1 never, because
 * the process that recorded the event has ended. */
int emu_shared_wait(const emu_shared *shared, uint64_t number, int32_t timeout);

#endif
