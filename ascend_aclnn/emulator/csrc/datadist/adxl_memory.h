/* The memory that an engine of adxl has registered. */
#ifndef EMU_ADXL_MEMORY_H
#define EMU_ADXL_MEMORY_H

#include "ascendcl/core/api.h"

/* adxl::Status */
enum {
    ADXL_SUCCESS = 0,
    ADXL_PARAM_INVALID = 103900,
    ADXL_TIMEOUT = 103901,
    ADXL_NOT_CONNECTED = 103902,
    ADXL_ALREADY_CONNECTED = 103903,
    ADXL_FAILED = 503900,
};

typedef struct {
    uint64_t address, size;
} adxl_range;

typedef struct adxl_memory adxl_memory;

adxl_memory *adxl_memory_new(void);
void adxl_memory_free(adxl_memory *memory);
/* Registers a range; *handle, never NULL, ends it. */
int adxl_memory_add(adxl_memory *memory, adxl_range range, bool on_device, void **handle);
int adxl_memory_remove(adxl_memory *memory, const void *handle);
/* How often something has been registered. */
uint64_t adxl_memory_count(adxl_memory *memory);
/* Checks that a range lies in one of the first `count` that were registered, and holds it: it is not freed until it is let go.
 * `what` is how messages call it. */
int adxl_memory_hold(adxl_memory *memory, uint64_t count, adxl_range range, const char *what);
void adxl_memory_let_go(adxl_range range);

#endif
