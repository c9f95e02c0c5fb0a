/* Writes and waits for single values, as models change them. */
#ifndef EMU_STREAM_MEMORY_H
#define EMU_STREAM_MEMORY_H

#include "ascendcl/stream/stream.h"

typedef struct {
    void *address;
    uint64_t value;
    uint32_t flag; /* how a wait compares */
} emu_value_access;

/* 0, or a status with a message. */
int emu_value_check(const void *address, uint32_t flag);
/* What a captured task of aclrtValueWrite or aclrtValueWait does; and another thing to do. */
emu_value_access emu_value_read(const emu_task *task);
void emu_value_change(emu_task *task, const emu_value_access *what);

#endif
