/* Memory of another device as an operand, once aclrtDeviceEnablePeerAccess has been called. */
#ifndef EMU_PEERS_H
#define EMU_PEERS_H

#include "ascendcl/core/device.h"

/* Whether two devices reach each other's memory: after aclrtDeviceEnablePeerAccess, and always where they share a bus. */
bool emu_peers_reach(const emu_device *device, const emu_device *peer);
/* Checks and pins an operand of a device, as emu_memory_pin does; it may also lie in a peer's memory. *home: the device that it lies
 * in, where it must be unpinned; *offset: where operators of `device` find it in the device memory. */
LINK int emu_operand_pin(emu_device *device, const void *address, uint64_t size, const char *what, emu_device **home, uint64_t *offset);
/* Ends what devices see of the allocation that begins at an address, which is freed next. */
void emu_peers_freeing(emu_device *device, const void *address);
/* Ends what a device sees of others, and they of it. Waits for queued work that uses it. */
void emu_peers_clear(emu_device *device);

#endif
