/* The bounds-checked functions of libc_sec: each takes the size of its destination. Those that read input (scanf_s and
 * its kin) are not here. */
#ifndef ASCEND_ACLNN_SECUREC_H
#define ASCEND_ACLNN_SECUREC_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <wchar.h>

#ifndef SECUREC_HAVE_ERRNO_H
#define SECUREC_HAVE_ERRNO_H 1
#endif

#ifndef __STDC_LIB_EXT1__
typedef int errno_t;
#endif

#ifndef EOK
#define EOK 0
#endif
/* A failure after which the destination has been cleared. */
#ifndef EINVAL_AND_RESET
#define EINVAL_AND_RESET 150
#endif
#ifndef ERANGE_AND_RESET
#define ERANGE_AND_RESET 162
#endif
#ifndef EOVERLAP_AND_RESET
#define EOVERLAP_AND_RESET 182
#endif

#define SECUREC_STRING_MAX_LEN 0x7fffffffUL
#define SECUREC_MEM_MAX_LEN 0x7fffffffUL
#define SECUREC_WCHAR_STRING_MAX_LEN (SECUREC_STRING_MAX_LEN / sizeof(wchar_t))
#define SECUREC_WCHAR_MEM_MAX_LEN (SECUREC_MEM_MAX_LEN / sizeof(wchar_t))

#define SECUREC_CHECKS_FORMAT(text, first) __attribute__((__format__(__printf__, text, first)))

#ifdef __cplusplus
extern "C" {
#endif

errno_t memset_s(void *dest, size_t destMax, int c, size_t count);
errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count);
errno_t memmove_s(void *dest, size_t destMax, const void *src, size_t count);
errno_t wmemcpy_s(wchar_t *dest, size_t destMax, const wchar_t *src, size_t count);
errno_t wmemmove_s(wchar_t *dest, size_t destMax, const wchar_t *src, size_t count);

errno_t strcpy_s(char *strDest, size_t destMax, const char *strSrc);
errno_t strncpy_s(char *strDest, size_t destMax, const char *strSrc, size_t count);
errno_t strcat_s(char *strDest, size_t destMax, const char *strSrc);
errno_t strncat_s(char *strDest, size_t destMax, const char *strSrc, size_t count);
char *strtok_s(char *strToken, const char *strDelimit, char **context);

errno_t wcscpy_s(wchar_t *strDest, size_t destMax, const wchar_t *strSrc);
errno_t wcsncpy_s(wchar_t *strDest, size_t destMax, const wchar_t *strSrc, size_t count);
errno_t wcscat_s(wchar_t *strDest, size_t destMax, const wchar_t *strSrc);
errno_t wcsncat_s(wchar_t *strDest, size_t destMax, const wchar_t *strSrc, size_t count);

/* The number of characters, or -1. What does not fit leaves an empty string; with `count`, or by the truncated ones, it is cut. */
int sprintf_s(char *strDest, size_t destMax, const char *format, ...) SECUREC_CHECKS_FORMAT(3, 4);
int vsprintf_s(char *strDest, size_t destMax, const char *format, va_list argList) SECUREC_CHECKS_FORMAT(3, 0);
int snprintf_s(char *strDest, size_t destMax, size_t count, const char *format, ...) SECUREC_CHECKS_FORMAT(4, 5);
int vsnprintf_s(char *strDest, size_t destMax, size_t count, const char *format, va_list argList) SECUREC_CHECKS_FORMAT(4, 0);
int snprintf_truncated_s(char *strDest, size_t destMax, const char *format, ...) SECUREC_CHECKS_FORMAT(3, 4);
int vsnprintf_truncated_s(char *strDest, size_t destMax, const char *format, va_list argList) SECUREC_CHECKS_FORMAT(3, 0);

#ifdef __cplusplus
}
#endif

#endif
