/* How many processes use a device. */
#ifndef EMU_PROCESSES_H
#define EMU_PROCESSES_H

#include "ascendcl/core/device.h"

/* Takes one of the device's places for processes, unless this process has one; 507033 when none is free. The caller holds
 * emu_world. */
int emu_process_join(emu_device *device);
void emu_process_leave(emu_device *device);

#endif
