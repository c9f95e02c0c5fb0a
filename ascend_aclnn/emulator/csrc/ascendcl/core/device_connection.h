/* The device process and the connections to it. */
#ifndef EMU_DEVICE_CONNECTION_H
#define EMU_DEVICE_CONNECTION_H

#include "ascendcl/core/device.h"
#include "ring/ring.h"

/* Starts the device process unless it runs. Does not wait for it; the first request reports a failure. */
LINK void emu_link_start(emu_device *device);
/* Whether the device process has ended by itself. A process that has not been started is not lost. */
LINK bool emu_link_lost(emu_device *device);
/* 507899 when it has. */
LINK int emu_link_check(emu_device *device);
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
    /* One thread may take results while another one launches. */
    uint64_t launched;         /* launches put into the ring, */
    _Atomic uint64_t taken;    /* and those whose result has been taken */
    uint64_t end;              /* in words of the ring: behind the last launch, */
    _Atomic uint64_t start;    /* and at the next launch to be taken */
    emu_pace pace;             /* how to wait for launches */
} emu_connection;

int emu_link_open(emu_device *device, emu_connection *connection);
void emu_link_close(emu_connection *connection);
/* False when the process at the other end has ended or been replaced. */
bool emu_link_current(const emu_connection *connection);

/* The room of a launch in the ring. A longer launch is sent as a call. */
#define EMU_LAUNCH_BYTES (RING_RECORDS / 4)

/* Puts a launch into the ring; false when there is no room. `after`: it is skipped if the launch before it failed or was
 * skipped. `correlation`: the device process notes when it ran, unless this is 0. */
bool emu_link_launch(emu_connection *connection, const emu_buffer *request, bool after, uint64_t correlation);
/* Cancels the launches in the ring that the device process has not begun. No other thread may launch meanwhile. */
void emu_link_drop(emu_connection *connection);
/* Waits until so many launches are done (timeout in ms, negative: for ever). True when the device is lost, too. */
bool emu_link_await(emu_connection *connection, uint64_t launches, int32_t timeout);
/* Whether the next launch is done. */
bool emu_link_done(const emu_connection *connection);
/* The status of the next launch, which is done, and its answer; 507899 when the device is lost. */
int emu_link_take(emu_connection *connection, emu_buffer *answer);
/* Sends a request and waits for the answer: its status and its payload. 507899 when the device is lost. */
LINK int emu_link_call(emu_device *device, uint32_t call, const emu_buffer *request, emu_buffer *answer);
/* A text that came with a failure becomes this thread's message. Returns the status. */
LINK int emu_link_message(int status, emu_buffer *answer);

#endif
