/* libnnopbase's cache of executors, which belongs to a thread. */
#ifndef EMU_EXECUTOR_CACHE_H
#define EMU_EXECUTOR_CACHE_H

#include "ascendcl/core/api.h"

typedef struct emu_thread emu_thread;

/* This thread's cache, with a reference that the caller releases. */
emu_thread *emu_thread_hold(void);
void emu_thread_release(emu_thread *thread);
bool emu_thread_is_this(const emu_thread *thread);
/* Executors of an ended thread point into its cache, which is gone. */
bool emu_thread_ended(const emu_thread *thread);

/* Whether phase one is answered from this thread's cache: a launch with the same arguments is stored there. */
bool emu_cache_answers(uint64_t plan);
/* Whether phase one on this thread has a key; without one CANN records no launch. */
bool emu_cache_has_key(void);
/* Stores a launch that was prepared on this thread. */
void emu_cache_keep(uint64_t plan);

#endif
