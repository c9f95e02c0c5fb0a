/* Memory of other files at addresses of a device: shared by other processes, or physical memory that is mapped. */
#ifndef EMU_ALIASES_H
#define EMU_ALIASES_H

#include "ascendcl/core/device.h"

/* Maps whole pages of a file at an address of the device, here and in the device process. */
int emu_alias_map(emu_device *device, void *address, uint64_t size, int fd, uint64_t offset);
/* Maps the device's own memory there again. */
void emu_alias_unmap(emu_device *device, void *address, uint64_t size);
/* The same for all of a device's mappings. */
void emu_alias_clear(emu_device *device);

#endif
