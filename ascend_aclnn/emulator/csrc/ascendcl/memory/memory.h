/* Device memory: blocks, and what queued work uses of them. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "ascendcl/core/device.h"

#include <unistd.h>

/* In bytes. Kernels for Kunpeng often have pages of 64 KB. */
static inline uint64_t emu_page_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static inline uint64_t emu_whole_pages(uint64_t size) { return (size + emu_page_size() - 1) / emu_page_size() * emu_page_size(); }

int emu_memory_open(emu_device *device);
/* Opens the memory of a device that no thread may have set yet, and starts the device process, which maps it. */
LINK int emu_memory_prepare(emu_device *device);
void emu_memory_close(emu_device *device);
/* Frees every allocation; the mapping stays. What was there stays with other processes that have mapped it (`kept`): the
 * device then has another file. */
void emu_memory_clear(emu_device *device, bool kept);
/* Addresses without memory, and back: virtual_memory.c. Mapping turns granules of a reserved block on and off; memory is
 * charged to the device by itself. A home is such a block, and nobody's allocation: physical memory has its bytes there. */
int emu_memory_find_home(emu_device *device, uint64_t size, void **address);
void emu_memory_release_home(emu_device *device, const void *address);
int emu_memory_reserve_addresses(emu_device *device, uint64_t size, void **address);
int emu_memory_reserved(emu_device *device, const void *address, uint64_t *size);
int emu_memory_release_addresses(emu_device *device, const void *address);
int emu_memory_map(emu_device *device, const void *address, uint64_t size, bool on);
int emu_memory_charge(emu_device *device, uint64_t size);
void emu_memory_discharge(emu_device *device, uint64_t size);

/* Addresses for `size` bytes of other memory, which begin `lead` bytes into a page, and whether they are hidden from the count of
 * allocations; and back. */
int emu_memory_reserve_foreign(emu_device *device, uint64_t size, uint64_t lead, bool hidden, void **address);
void emu_memory_release_foreign(emu_device *device, const void *address);
/* Whether an address lies in an allocation of the device's own memory. */
bool emu_memory_own(emu_device *device, const void *address);
bool emu_memory_same_block(emu_device *device, const void *address, const void *other);
/* Maps a part of a file, or the device's own memory again (-1), at addresses of the device: this process's side. */
bool emu_memory_place(emu_device *device, const void *address, uint64_t size, int fd, uint64_t offset);

uint64_t emu_memory_live(const emu_device *device);
/* The device in whose memory an address lies, NULL for a host address. */
LINK emu_device *emu_memory_device(const void *address);
/* A block of the size, with a tail behind it that nobody may use. */
int emu_memory_reserve(emu_device *device, uint64_t size, uint64_t tail, void **address);
/* Frees the block that starts at an address of the device. */
int emu_memory_free(emu_device *device, const void *address);
/* Whether queued work uses the block that an address lies in. */
bool emu_memory_pinned(emu_device *device, const void *address);
/* A range of the device's memory must lie in one live allocation, which gets this many pins. */
int emu_memory_check(emu_device *device, const void *address, uint64_t size, const char *what, uint32_t pins);
/* A range must lie in one live allocation of the device; it then cannot be freed until it is unpinned. */
LINK int emu_memory_pin(emu_device *device, const void *address, uint64_t size, const char *what);
LINK void emu_memory_unpin(emu_device *device, const void *address);
LINK uint64_t emu_memory_offset(const emu_device *device, const void *address);
/* The allocations, as the members of a JSON array. */
size_t emu_memory_describe(char *buffer, size_t size);

#endif
