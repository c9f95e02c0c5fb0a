/* Pinned and registered host memory. */
#ifndef EMU_HOST_MEMORY_H
#define EMU_HOST_MEMORY_H

#include "ascendcl/core/api.h"

/* Adds a range; false without memory for it. */
bool emu_host_add(const void *address, uint64_t size, bool registered);
/* Removes the block that starts at the address: 0, or a status with a message. */
int emu_host_remove(const void *address, bool registered);
/* Adds uses by queued work to the block that an address lies in; false when there is none. */
bool emu_host_pin(const void *address, uint32_t pins);
/* Whether an address lies in an allocation of aclrtMallocHost; its bytes. */
bool emu_host_allocation(const void *address, uint64_t *start, uint64_t *size);
/* Whether a range lies in one known block; in one allocated by aclrtMallocHost. */
bool emu_host_has(const void *address, uint64_t size);
bool emu_host_allocated(const void *address, uint64_t size);
void emu_host_unpin(const void *address);
/* How many uses by queued work the block of an address has. */
uint32_t emu_host_pins(const void *address);
/* The number of live allocations; all of them as the members of a JSON array. */
uint64_t emu_host_live(void);
size_t emu_host_describe(char *buffer, size_t size);

#endif
