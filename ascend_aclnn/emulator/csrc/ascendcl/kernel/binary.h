/* Device binaries of clients: their functions, by the numbers that launchers use. */
#ifndef EMU_BINARY_H
#define EMU_BINARY_H

#include "ascendcl/core/api.h"

typedef struct emu_binary emu_binary;

/* The functions of an ELF file; none where the data are something else. */
emu_binary *emu_binary_read(const void *data, size_t size);
emu_binary *emu_binary_read_file(const char *path);
void emu_binary_free(emu_binary *binary);
/* The name in the source of the function with a number: "bgmv_shrink_half" of the symbol bgmv_shrink_half_3. NULL: there is none. */
const char *emu_binary_function(const emu_binary *binary, uint64_t entry);

#endif
