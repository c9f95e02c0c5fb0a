/* Pinned and registered host memory. */
#ifndef EMU_HOST_MEMORY_H
#define EMU_HOST_MEMORY_H

#include "ascendcl/core/api.h"

/* Enters a range; false when there is no memory for that. */
bool emu_host_add(const void *address, uint64_t size, bool registered);
/* Forgets a block that starts at the address: 0, or a status with a message. */
int emu_host_remove(const void *address, bool registered);
/* Whether an address lies in a known block, which queued work then uses this many times more. */
bool emu_host_pin(const void *address, uint32_t pins);
/* Whether a range lies in one known block; in one of aclrtMallocHost. */
bool emu_host_has(const void *address, uint64_t size);
bool emu_host_allocated(const void *address, uint64_t size);
void emu_host_unpin(const void *address);
/* How many uses by queued work the block of an address has. */
uint32_t emu_host_pins(const void *address);
/* Allocations that are alive; all of them as the members of a JSON array. */
uint64_t emu_host_live(void);
size_t emu_host_describe(char *buffer, size_t size);

#endif
