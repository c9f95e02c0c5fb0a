/* A lock that costs one atomic operation where nobody waits for it. */
#ifndef LAYER_SPIN_H
#define LAYER_SPIN_H

#include <stdbool.h>

void spin_wait(bool *lock);

static inline void spin_lock(bool *lock) {
    if (__atomic_exchange_n(lock, true, __ATOMIC_ACQUIRE)) spin_wait(lock);
}

static inline void spin_unlock(bool *lock) { __atomic_store_n(lock, false, __ATOMIC_RELEASE); }

#endif
