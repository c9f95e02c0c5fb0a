/*
 * How an engine of adxl reaches the memory of another one: over a socket of this host that has the engine's name. Only processes
 * of the same user are answered.
 */
#ifndef EMU_ADXL_LINK_H
#define EMU_ADXL_LINK_H

#include "datadist/adxl_memory.h"

typedef enum { ADXL_READ, ADXL_WRITE } adxl_operation; /* adxl::TransferOp: from the other engine's memory, or to it */

/* adxl::TransferOpDesc */
typedef struct {
    uint64_t local, remote, size;
} adxl_part;

/* What listens under an engine's name and answers from its memory, in threads of its own. */
typedef struct adxl_server adxl_server;

int adxl_server_new(const char *name, adxl_memory *memory, adxl_server **server);
/* Ends its connections and its threads. */
void adxl_server_free(adxl_server *server);

/* Connects to the engine of a name, which may come up within so many milliseconds. */
int adxl_connect(const char *name, int32_t milliseconds, int *socket);
/* Transfers parts between this engine's memory and that of the other end. *broken: the connection is of no use afterwards. */
int adxl_transfer(int socket, adxl_memory *memory, adxl_operation operation, const adxl_part *parts, uint32_t count, int32_t milliseconds,
                  bool *broken);

#endif
