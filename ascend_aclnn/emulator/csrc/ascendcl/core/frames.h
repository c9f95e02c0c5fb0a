/* The frames of this thread: Python's where it runs Python, and native ones. The layer has them from here, too: nothing else is included. */
#ifndef EMU_FRAMES_H
#define EMU_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/* What tells a frame from others. */
typedef struct {
    const void *code; /* Python's code object; or a native address */
    int at;           /* its instruction, or line */
} emu_frame;

/* Gets a frame, the innermost first. A native one has a negative line: its offset in the file, as addr2line takes it. */
typedef void emu_frame_text(void *context, const char *file, long line, const char *function);

/* Whether this process runs Python, this thread does, and whether it holds the interpreter's lock. */
bool emu_has_python(void);
bool emu_runs_python(void);
bool emu_holds_python(void);

/* Takes the interpreter's lock, which this thread may have released around its call; and gives it back. */
int emu_python_begin(void);
void emu_python_end(int state);

/* Python's frames, at most so many: how many there are. `frames` gets what tells them apart, `text` what they are called; either may be
   NULL. `keeps`: their code objects live for ever from now on, so that none takes the address of another. The lock is held. */
uint32_t emu_python_frames(uint32_t most, emu_frame *frames, emu_frame_text *text, void *context, bool keeps);

/* What native frames are called, as backtrace gave them. Those in the directory of the library of `own` are left out before the first other. */
void emu_native_frames(void *const *addresses, int count, const void *own, emu_frame_text *text, void *context);

#endif
