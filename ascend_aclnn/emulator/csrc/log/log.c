/* The log of CANN's components, which operators of clients write to. It is dropped unless ASCEND_EMULATOR_LOG is set. */
#include "ascendcl/core/api.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEVEL_ERROR = 3 };

static bool shown(void) {
    const char *text = getenv("ASCEND_EMULATOR_LOG");
    return text != NULL && *text != 0;
}

/* 1 where a module logs a level. */
API int32_t CheckLogLevel(int32_t moduleId, int32_t logLevel) {
    (void)moduleId;
    return shown() || logLevel >= LEVEL_ERROR;
}

API void DlogRecord(int32_t moduleId, int32_t level, const char *fmt, ...) {
    static const char *const levels[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    if (!shown() || fmt == NULL) return;
    char text[2048];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    fprintf(stderr, "[%s] module %d: %s\n", level >= 0 && level <= LEVEL_ERROR ? levels[level] : "LOG", moduleId, text);
}

/* The level from which on a module logs. */
API int32_t dlog_getlevel(int32_t moduleId, int32_t *enableEvent) {
    (void)moduleId;
    if (enableEvent != NULL) *enableEvent = 0;
    return shown() ? 0 : LEVEL_ERROR;
}
