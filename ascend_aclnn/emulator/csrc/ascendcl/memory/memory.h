/* Device memory: blocks, and their uses by queued work. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "ascendcl/core/device.h"

/* Makes a device's memory usable, and at aclFinalize no longer. It stays mapped, empty: an address of it is never the host's. */
int emu_memory_open(emu_device *device);
/* Opens the memory of a device that may not be set on any thread, and starts its process, which maps the memory. */
LINK int emu_memory_prepare(emu_device *device);
void emu_memory_close(emu_device *device);
/* Frees every allocation; the mapping stays. `kept`: other processes have mapped its memory and keep it, and the device gets
 * another file. */
void emu_memory_clear(emu_device *device, bool kept);
/* Addresses without memory (virtual_memory.c). Mapping and unmapping mark granules of a reserved block; memory is charged to
 * the device separately. A home is a block that holds the bytes of physical memory and is not an allocation. */
int emu_memory_find_home(emu_device *device, uint64_t size, void **address);
void emu_memory_release_home(emu_device *device, const void *address);
int emu_memory_reserve_addresses(emu_device *device, uint64_t size, void **address);
int emu_memory_reserved(emu_device *device, const void *address, uint64_t *size);
int emu_memory_release_addresses(emu_device *device, const void *address);
int emu_memory_map(emu_device *device, const void *address, uint64_t size, bool on);
int emu_memory_charge(emu_device *device, uint64_t size);
void emu_memory_discharge(emu_device *device, uint64_t size);

/* Reserves addresses for `size` bytes of other memory, which begin `lead` bytes into a page; `hidden`: not counted as an
 * allocation. And releases them. */
int emu_memory_reserve_foreign(emu_device *device, uint64_t size, uint64_t lead, bool hidden, void **address);
void emu_memory_release_foreign(emu_device *device, const void *address);
/* Whether an address lies in an allocation of the device's own memory; the second one also says which. */
bool emu_memory_own(emu_device *device, const void *address);
bool emu_memory_own_block(emu_device *device, const void *address, const uint8_t **start, uint64_t *size);
bool emu_memory_same_block(emu_device *device, const void *address, const void *other);
/* Maps a part of a file, or the device's own memory again (-1), at addresses of the device, in this process only. */
bool emu_memory_place(emu_device *device, const void *address, uint64_t size, int fd, uint64_t offset);

uint64_t emu_memory_live(const emu_device *device);
/* The device whose memory contains an address, NULL for a host address. */
LINK emu_device *emu_memory_device(const void *address);
/* Reserves a block of the size, with a tail behind it that must not be used. */
int emu_memory_reserve(emu_device *device, uint64_t size, uint64_t tail, void **address);
/* Frees the block that starts at an address of the device. */
int emu_memory_free(emu_device *device, const void *address);
/* Hooks of models, which lie above this file and register at load; the captures' lock is held. Called when memory has been freed or
 * unmapped; and whether a model that runs uses memory. */
extern void (*emu_when_freed)(emu_device *device, const void *address, uint64_t size);
extern bool (*emu_replay_uses)(const emu_device *device, const void *address, uint64_t size);
/* Whether queued work uses the block that an address lies in. */
bool emu_memory_pinned(emu_device *device, const void *address);
/* Checks that a range of the device's memory lies in one live allocation, and adds so many pins to it. */
int emu_memory_check(emu_device *device, const void *address, uint64_t size, const char *what, uint32_t pins);
/* Checks that a range lies in one live allocation of the device, and pins it: it cannot be freed until it is unpinned. */
LINK int emu_memory_pin(emu_device *device, const void *address, uint64_t size, const char *what);
LINK void emu_memory_unpin(emu_device *device, const void *address);
LINK uint64_t emu_memory_offset(const emu_device *device, const void *address);
/* The allocations, as the members of a JSON array. */
size_t emu_memory_describe(char *buffer, size_t size);

#endif
