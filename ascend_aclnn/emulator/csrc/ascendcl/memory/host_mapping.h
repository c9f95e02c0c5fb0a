/* Registered host memory at addresses of a device. */
#ifndef EMU_HOST_MAPPING_H
#define EMU_HOST_MAPPING_H

#include "ascendcl/core/device.h"

/* Maps a range of host memory at addresses of a device, if it can be shared with the device process: whole private pages of
 * this process. Otherwise *address is the host's, which operators refuse. */
int emu_host_map(emu_device *device, void *host, uint64_t size, void **address);
/* The device's address of a host address in a mapped range, otherwise NULL. */
void *emu_host_mapped(const void *host);
/* Ends the mapping of the range that begins there, if there is one. */
void emu_host_unmap(void *host);
/* Ends all mappings of a device. */
void emu_host_unmap_all(emu_device *device);

#endif
