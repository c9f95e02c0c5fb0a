#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void text_grow(text *t, size_t more) {
    size_t room = t->room > 0 ? t->room : 1024;
    while (room - t->length < more) room *= 2;
    char *data = realloc(t->data, room);
    if (data == NULL) abort();
    t->data = data;
    t->room = room;
}

static const char pairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

void text_address(text *t, uint64_t value) {
    char digits[20], *at = digits + sizeof digits;
    while (value >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, pairs + 2 * value, 2);
    } else {
        *--at = (char)('0' + value);
    }
    text_raw(t, at, (size_t)(digits + sizeof digits - at));
}

void text_integer(text *t, int64_t value) {
    if (value < 0) {
        text_literal(t, "-");
        text_address(t, -(uint64_t)value);
    } else {
        text_address(t, (uint64_t)value);
    }
}

void text_number(text *t, double value) {
    char digits[40];
    if (isnan(value)) {
        text_literal(t, "\"nan\"");
    } else if (isinf(value)) {
        text_raw(t, value > 0 ? "\"inf\"" : "\"-inf\"", value > 0 ? 5 : 6);
    } else {
        int count = snprintf(digits, sizeof digits, "%.17g", value);
        char *comma = strchr(digits, ','); /* some locales' decimal point */
        if (comma != NULL) *comma = '.';
        text_raw(t, digits, (size_t)count);
    }
}

/* A UTF-8 sequence at `at`: its length, or 0 where the bytes are none. */
static size_t sequence(const unsigned char *at) {
    size_t count = at[0] < 0x80 ? 1 : at[0] >= 0xC2 && at[0] < 0xE0 ? 2 : (at[0] & 0xF0) == 0xE0 ? 3 : at[0] >= 0xF0 && at[0] < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < count; i++) {
        if ((at[i] & 0xC0) != 0x80) return 0;
    }
    if (count == 3 && ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] >= 0xA0))) return 0;
    if (count == 4 && ((at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] >= 0x90))) return 0;
    return count;
}

void text_string(text *t, const char *value) {
    text_literal(t, "\"");
    for (const unsigned char *at = (const unsigned char *)value; *at != 0;) {
        size_t count = sequence(at);
        char escaped[8];
        if (count == 0) {
            text_literal(t, "?");
            count = 1;
        } else if (*at == '"' || *at == '\\') {
            text_raw(t, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\%c", *at));
        } else if (*at < 0x20) {
            text_raw(t, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", *at));
        } else {
            text_raw(t, (const char *)at, count);
        }
        at += count;
    }
    text_literal(t, "\"");
}

void text_hex(text *t, const void *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = ((const unsigned char *)bytes)[i];
        char two[2] = {digits[byte >> 4], digits[byte & 15]};
        text_raw(t, two, 2);
    }
}
