/* Memory of other files at addresses of a device: what other processes share, and physical memory that is mapped. */
#ifndef EMU_ALIASES_H
#define EMU_ALIASES_H

#include "ascendcl/core/device.h"

/* Maps a part of a file at an address of the device, here and in the device process: whole pages. */
int emu_alias_map(emu_device *device, void *address, uint64_t size, int fd, uint64_t offset);
/* The device's own memory is there again. */
void emu_alias_unmap(emu_device *device, void *address, uint64_t size);
/* The same for all of the device's. */
void emu_alias_clear(emu_device *device);

#endif
