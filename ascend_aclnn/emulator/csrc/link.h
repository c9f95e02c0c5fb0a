/* The device process and the connections to it. */
#ifndef EMU_LINK_H
#define EMU_LINK_H

#include "device.h"
#include "protocol.h"

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
    int fd; /* -1: closed */
    uint64_t incarnation;
} emu_connection;

typedef enum { LINK_SENT, LINK_FULL, LINK_LOST } emu_sent;

int emu_link_open(emu_device *device, emu_connection *connection);
void emu_link_close(emu_connection *connection);
/* False when the process it leads to has ended or been replaced. */
bool emu_link_current(const emu_connection *connection);
/* wait false: LINK_FULL rather than waiting; for requests of at most 16 KiB. */
emu_sent emu_link_send(emu_connection *connection, uint32_t call, const emu_buffer *request, bool wait);
/* Whether an answer comes in within some milliseconds (negative: for ever). */
bool emu_link_answered(const emu_connection *connection, int32_t timeout);
/* The status of the next answer, and what came with it. */
int emu_link_receive(emu_connection *connection, emu_buffer *answer);
/* Sends a request and waits for the answer: its status, and what came with it. A lost device is 507899. */
LINK int emu_link_call(emu_device *device, uint32_t call, const emu_buffer *request, emu_buffer *answer);

#endif
