#include "spin.h"

#include <time.h>

#define TRIES 200
#define PAUSE 20000 /* ns: the holder may be writing to the disk */

void spin_wait(bool *lock) {
    do {
        for (int i = 0; i < TRIES && __atomic_load_n(lock, __ATOMIC_RELAXED); i++) {
        }
        while (__atomic_load_n(lock, __ATOMIC_RELAXED)) nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
    } while (__atomic_exchange_n(lock, true, __ATOMIC_ACQUIRE));
}
