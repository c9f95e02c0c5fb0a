/* --validate=host: pages of pinned memory that are closed while a queued copy writes them, so that the host's own loads and stores are
 * seen. */
#ifndef EMU_HOST_WATCH_H
#define EMU_HOST_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether pages can be closed: it is asked for, and this process can reach its own closed pages through its memory file. `touched` is
 * told of each access to a closed page, and opens it; false: it is not one of them. */
bool emu_watch_begin(bool (*touched)(uint64_t address));
/* Whole pages. */
bool emu_watch_close(uint64_t start, uint64_t end);
void emu_watch_open(uint64_t start, uint64_t end);
/* Copies to or from host memory, of which some pages may be closed. */
void emu_watch_write(void *to, const void *from, size_t size);
void emu_watch_read(void *to, const void *from, size_t size);

#endif
