/* Device memory that processes share by a key. */
#ifndef EMU_IPC_H
#define EMU_IPC_H

#include "ascendcl/core/device.h"

/* The memory at an address is about to be freed: it is no longer shared. Refused while other processes use it. */
int emu_ipc_freeing(emu_device *device, const void *address);
/* Ends a device's exports and imports. Whether other processes use its memory. */
bool emu_ipc_clear(emu_device *device);

#endif
