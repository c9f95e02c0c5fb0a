/* What one process does that orders or accesses memory of others, a line each in the launcher's file. The launcher compares processes
 * with each other (emulator/order.py), because the order that a collective makes is known only when all ranks have queued it.
 * All of it is called under the lock of validate.c. */
#ifndef EMU_JOURNAL_H
#define EMU_JOURNAL_H

#include "ascendcl/validate/findings.h"

/* What has passed: the number of the last task of each timeline. */
typedef struct {
    const uint64_t *passed;
    uint32_t count;
} emu_passed;

/* Rows of memory that processes share: the file, by its inode, and the offset in it. */
typedef struct {
    uint64_t file, offset, size, rows, pitch, address;
} emu_place;

/* `kind`: an emu_access_kind. */
void emu_journal_access(const emu_record *access, unsigned kind, const emu_place *place, emu_passed clock);
/* A finding of this process alone, unless other processes order its sides. */
void emu_journal_doubt(const char *rule, const emu_record *earlier, const emu_record *later, uint64_t start, uint64_t bytes, emu_passed clock);
/* What a timeline has done so far may be waited for under a key; from a number on a timeline comes after what has been published so. */
void emu_journal_publish(const char *key, emu_passed clock);
void emu_journal_receive(const char *key, uint32_t timeline, uint64_t number);
/* The same by a value in shared memory. `flag`: of aclrtValueWait. */
void emu_journal_value_written(const emu_place *place, uint64_t value, emu_passed clock);
void emu_journal_value_waited(const emu_place *place, uint64_t value, uint32_t flag, uint32_t timeline, uint64_t number);
/* The host has waited for a timeline up to a number. */
void emu_journal_passed(uint32_t timeline, uint64_t number);
/* Shared memory is freed. */
void emu_journal_freed(const emu_place *place);
/* In a forked child: nothing has been written in its name. */
void emu_journal_forked(void);

#endif
