/* libc_sec: C library functions with an argument for the size of their destination. */
#include "securec.h"

#include "ascendcl/core/api.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------------- memory */

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && (x < y ? y - x < a_bytes : x - y < b_bytes);
}

API errno_t memset_s(void *dest, size_t destMax, int c, size_t count) {
    if (destMax == 0 || destMax > SECUREC_MEM_MAX_LEN) return ERANGE;
    if (dest == NULL) return EINVAL;
    memset(dest, c, count < destMax ? count : destMax);
    return count <= destMax ? EOK : ERANGE_AND_RESET;
}

/* The checks of both copy functions; EOK: the copy may be made. */
static errno_t check_copy(void *dest, size_t destMax, const void *src, size_t count) {
    if (destMax == 0 || destMax > SECUREC_MEM_MAX_LEN) return ERANGE;
    if (dest == NULL) return EINVAL;
    if (src != NULL && count <= destMax) return EOK;
    memset(dest, 0, destMax);
    return src == NULL ? EINVAL_AND_RESET : ERANGE_AND_RESET;
}

API errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count) {
    errno_t failed = check_copy(dest, destMax, src, count);
    if (failed != EOK || dest == src) return failed;
    if (overlap(dest, count, src, count)) {
        memset(dest, 0, destMax);
        return EOVERLAP_AND_RESET;
    }
    memcpy(dest, src, count);
    return EOK;
}

API errno_t memmove_s(void *dest, size_t destMax, const void *src, size_t count) {
    errno_t failed = check_copy(dest, destMax, src, count);
    if (failed == EOK) memmove(dest, src, count);
    return failed;
}

/* The bytes of so many wide characters; an overflow stays an overflow. */
static size_t wide(size_t count) { return count > SECUREC_WCHAR_MEM_MAX_LEN ? SIZE_MAX : count * sizeof(wchar_t); }

API errno_t wmemcpy_s(wchar_t *dest, size_t destMax, const wchar_t *src, size_t count) {
    return memcpy_s(dest, wide(destMax), src, wide(count));
}

API errno_t wmemmove_s(wchar_t *dest, size_t destMax, const wchar_t *src, size_t count) {
    return memmove_s(dest, wide(destMax), src, wide(count));
}

/* ------------------------------------------------------------------------------------------------------------- strings */

static bool bad_room(size_t room, size_t most) { return room == 0 || room > most; }

/* For both kinds of characters: appends at most `count` characters of a source behind the first `used` ones. */
#define STRINGS(character, append, length_of, most, ncpy, cpy, ncat, cat)                                              \
    static errno_t append(character *dest, size_t room, size_t used, const character *source, size_t count) {          \
        if (dest == NULL) return EINVAL;                                                                               \
        errno_t failed = EOK;                                                                                          \
        size_t length = 0;                                                                                             \
        if (source == NULL || used == room) {                                                                          \
            failed = EINVAL_AND_RESET;                                                                                 \
        } else {                                                                                                       \
            length = length_of(source, count < room - used ? count : room - used);                                     \
            if (length >= room - used) failed = ERANGE_AND_RESET;                                                      \
            else if ((dest != source || used > 0) &&                                                                   \
                     overlap(dest, (used + length + 1) * sizeof *dest, source, (length + (length < count)) * sizeof *dest)) \
                failed = EOVERLAP_AND_RESET;                                                                           \
        }                                                                                                              \
        if (failed != EOK) {                                                                                           \
            dest[0] = 0;                                                                                               \
            return failed;                                                                                             \
        }                                                                                                              \
        if (dest + used != source) memcpy(dest + used, source, length * sizeof *dest);                                 \
        dest[used + length] = 0;                                                                                       \
        return EOK;                                                                                                    \
    }                                                                                                                  \
    API errno_t ncpy(character *strDest, size_t destMax, const character *strSrc, size_t count) {                      \
        return bad_room(destMax, most) ? ERANGE : append(strDest, destMax, 0, strSrc, count);                          \
    }                                                                                                                  \
    API errno_t cpy(character *strDest, size_t destMax, const character *strSrc) { return ncpy(strDest, destMax, strSrc, SIZE_MAX); } \
    API errno_t ncat(character *strDest, size_t destMax, const character *strSrc, size_t count) {                      \
        if (bad_room(destMax, most)) return ERANGE;                                                                    \
        return append(strDest, destMax, strDest != NULL ? length_of(strDest, destMax) : 0, strSrc, count);             \
    }                                                                                                                  \
    API errno_t cat(character *strDest, size_t destMax, const character *strSrc) { return ncat(strDest, destMax, strSrc, SIZE_MAX); }

STRINGS(char, append, strnlen, SECUREC_STRING_MAX_LEN, strncpy_s, strcpy_s, strncat_s, strcat_s)
STRINGS(wchar_t, append_wide, wcsnlen, SECUREC_WCHAR_STRING_MAX_LEN, wcsncpy_s, wcscpy_s, wcsncat_s, wcscat_s)

API char *strtok_s(char *strToken, const char *strDelimit, char **context) {
    if (strDelimit == NULL || context == NULL || (strToken == NULL && *context == NULL)) return NULL;
    return strtok_r(strToken, strDelimit, context);
}

/* -------------------------------------------------------------------------------------------------------------- printing */

/* %n writes to memory of unknown size. */
static bool counts_characters(const char *format) {
    while ((format = strchr(format, '%')) != NULL) {
        format += 1 + strspn(format + 1, "-+ #'0123456789.*$hlLqjztI");
        if (*format == 'n') return true;
        if (*format != 0) format++;
    }
    return false;
}

/* Prints into `room` characters. A longer result is cut to `keep` characters, or dropped if those do not fit either: -1, and
 * whether it was cut. */
static int print(char *dest, size_t room, size_t keep, bool *cut, const char *format, va_list arguments) {
    bool writable = dest != NULL && !bad_room(room, SECUREC_STRING_MAX_LEN);
    *cut = false;
    if (!writable || format == NULL || counts_characters(format)) {
        if (writable) dest[0] = 0;
        return -1;
    }
    size_t most = keep < room ? keep + 1 : room;
    int length = vsnprintf(dest, most, format, arguments);
    if (length >= 0 && (size_t)length < most) return length;
    if (length < 0 || keep >= room) dest[0] = 0;
    else *cut = true;
    return -1;
}

API int vsprintf_s(char *strDest, size_t destMax, const char *format, va_list argList) {
    bool cut;
    return print(strDest, destMax, SIZE_MAX, &cut, format, argList);
}

API int vsnprintf_s(char *strDest, size_t destMax, size_t count, const char *format, va_list argList) {
    bool cut;
    return print(strDest, destMax, count, &cut, format, argList);
}

API int vsnprintf_truncated_s(char *strDest, size_t destMax, const char *format, va_list argList) {
    bool cut;
    int length = print(strDest, destMax, destMax - 1, &cut, format, argList);
    return cut ? (int)(destMax - 1) : length;
}

#define PRINT(call)              \
    va_list arguments;           \
    va_start(arguments, format); \
    int length = call;           \
    va_end(arguments);           \
    return length

API int sprintf_s(char *strDest, size_t destMax, const char *format, ...) { PRINT(vsprintf_s(strDest, destMax, format, arguments)); }

API int snprintf_s(char *strDest, size_t destMax, size_t count, const char *format, ...) {
    PRINT(vsnprintf_s(strDest, destMax, count, format, arguments));
}

API int snprintf_truncated_s(char *strDest, size_t destMax, const char *format, ...) {
    PRINT(vsnprintf_truncated_s(strDest, destMax, format, arguments));
}
