/*
 * CANN's phase one answers from a cache of its thread when the same operator ran with the same descriptions before. The
 * executor is then a wrapper around the cached one: it runs once like any other, but refuses to be made repeatable. The cache
 * ends with its thread. After InitPTACacheThreadLocal the caller supplies the cache's key. Without a key (0) nothing is looked
 * up and nothing stored, and every run of a repeatable executor takes the long way.
 */
#include "nnopbase/executor_cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define KEPT 256u

struct emu_thread {
    _Atomic uint32_t holds;
    _Atomic bool ended;
    bool callers_key;
    uint64_t plans[KEPT]; /* the latest ones, in a ring; 0: none */
    uint32_t next;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread emu_thread *mine;

static void end_thread(void *object) {
    emu_thread *thread = object;
    mine = NULL;
    thread->ended = true;
    emu_thread_release(thread);
}

static void make_key(void) { pthread_key_create(&key, end_thread); }

static emu_thread *self(void) {
    if (mine == NULL) {
        pthread_once(&once, make_key);
        mine = calloc(1, sizeof *mine);
        if (mine == NULL) abort();
        mine->holds = 1;
        pthread_setspecific(key, mine);
    }
    return mine;
}

emu_thread *emu_thread_hold(void) {
    emu_thread *thread = self();
    thread->holds++;
    return thread;
}

void emu_thread_release(emu_thread *thread) {
    if (--thread->holds == 0) free(thread);
}

bool emu_thread_is_this(const emu_thread *thread) { return thread == mine; }

bool emu_thread_ended(const emu_thread *thread) { return thread->ended; }

bool emu_cache_answers(uint64_t plan) {
    const emu_thread *thread = self();
    if (thread->callers_key) return false;
    for (uint32_t i = 0; i < KEPT; i++)
        if (thread->plans[i] == plan) return true;
    return false;
}

bool emu_cache_has_key(void) { return !self()->callers_key; }

void emu_cache_keep(uint64_t plan) {
    emu_thread *thread = self();
    if (thread->callers_key || emu_cache_answers(plan)) return;
    thread->plans[thread->next++ % KEPT] = plan;
}

API void InitPTACacheThreadLocal(void) { self()->callers_key = true; }

API void UnInitPTACacheThreadLocal(void) { self()->callers_key = false; }

API void SetPTAHashKey(uint64_t hash) { (void)hash; }
