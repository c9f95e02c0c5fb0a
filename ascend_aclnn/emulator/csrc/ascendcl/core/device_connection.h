/* The device process and the connections to it. */
#ifndef EMU_DEVICE_CONNECTION_H
#define EMU_DEVICE_CONNECTION_H

#include "ascendcl/core/device.h"
#include "ring/ring.h"

/* Starts the device process unless it runs; does not wait for it, and leaves failures to whoever needs it. */
LINK void emu_link_start(emu_device *device);
/* 507899 when the device process has been lost. */
int emu_link_check(emu_device *device);
void emu_link_stop(emu_device *device);

typedef struct {
    uint8_t *data;
    size_t size, room;
} emu_buffer;

LINK void emu_buffer_put(emu_buffer *buffer, const void *data, size_t size);
LINK void emu_buffer_free(emu_buffer *buffer);

/* A connection to the device process, used by one stream or for one call. */
typedef struct {
    emu_device *device;
    emu_channel channel;       /* socket -1: closed */
    uint64_t incarnation;
    /* One thread may take outcomes while another one launches. */
    uint64_t launched;         /* launches put into the ring, */
    _Atomic uint64_t taken;    /* and those whose outcome has been taken */
    uint64_t end;              /* of the ring's words: after the last launch, */
    _Atomic uint64_t start;    /* and the next one to be taken */
    emu_pace pace;             /* of waiting for launches */
} emu_connection;

int emu_link_open(emu_device *device, emu_connection *connection);
void emu_link_close(emu_connection *connection);
/* False when the process it leads to has ended or been replaced. */
bool emu_link_current(const emu_connection *connection);

/* What a launch may need in the ring; a longer one is a call of its own. */
#define EMU_LAUNCH_BYTES (RING_RECORDS / 4)

/* Puts a launch into the ring; false when there is no room. `after`: it is skipped where the one before failed, or was. */
bool emu_link_launch(emu_connection *connection, const emu_buffer *request, bool after);
/* Launches in the ring that the device process has not begun will not run; no other thread launches meanwhile. */
void emu_link_drop(emu_connection *connection);
/* Waits until so many launches are done (timeout in ms, negative: for ever). True, too, when the device is lost. */
bool emu_link_await(emu_connection *connection, uint64_t launches, int32_t timeout);
/* Whether the next launch is done. */
bool emu_link_done(const emu_connection *connection);
/* The status of the next launch, which is done, and what it answered; 507899 for one that never will be. */
int emu_link_take(emu_connection *connection, emu_buffer *answer);
/* Sends a request and waits for the answer: its status, and what came with it. A lost device is 507899. */
LINK int emu_link_call(emu_device *device, uint32_t call, const emu_buffer *request, emu_buffer *answer);

#endif
