/* Device memory that processes share by a key. */
#ifndef EMU_IPC_H
#define EMU_IPC_H

#include "ascendcl/core/device.h"

/* What begins at an address is going to be freed: nothing of it is shared any more. Refused while other processes use it. */
int emu_ipc_freeing(emu_device *device, const void *address);
/* The device forgets what it shares, and what it has of others. Whether other processes use its memory. */
bool emu_ipc_clear(emu_device *device);

#endif
