/* The message and the last status of each thread. */
#ifndef EMU_MESSAGES_H
#define EMU_MESSAGES_H

#include "ascendcl/core/api.h"

#define EMU_CHECK_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* A hook of --validate: an error with a name was made. Set at load, or NULL. */
extern void (*emu_when_failed)(const char *error, const char *text);

/* Sets this thread's message to "error: routine: text" (error may be NULL) and returns the status. */
LINK int emu_fail(int status, const char *error, const char *format, ...) EMU_CHECK_FORMAT(3, 4);
/* 107000: an argument of a runtime function is a null pointer. */
LINK int emu_null_argument(const char *name);
/* Sets the message to a complete text, and returns the status. */
LINK int emu_fail_with(int status, const char *text);
/* The same with the text that CANN prints, if it follows the text's terminator: `size` includes both terminators. */
LINK int emu_refuse(int status, const char *text, size_t size);
/* Takes this thread's message, which the caller frees; NULL when there is none. */
LINK char *emu_take_message(void);
/* Puts a message back that was taken; later ones are dropped. */
void emu_restore_message(char *text);
/* Sets the function that later messages name. */
LINK void emu_set_routine(const char *routine);
LINK const char *emu_routine(void);

/* From now on reading a message does not clear it. */
void emu_keep_messages(void);
bool emu_has_message(void);
/* The status of this thread's last failure. */
int emu_last_status(void);
void emu_forget_status(void);
/* How many failures there have been, on all threads. */
LINK uint64_t emu_failures(void);

#endif
