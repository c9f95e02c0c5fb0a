/* JSON, written quickly. */
#ifndef LAYER_TEXT_H
#define LAYER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    char *data;
    size_t length, room;
} text;

void text_grow(text *t, size_t more);
void text_integer(text *t, int64_t value);
void text_address(text *t, uint64_t value);
void text_number(text *t, double value);
void text_string(text *t, const char *value);
void text_hex(text *t, const void *bytes, size_t count);

static inline void text_raw(text *t, const char *bytes, size_t count) {
    if (t->room - t->length < count) text_grow(t, count);
    memcpy(t->data + t->length, bytes, count);
    t->length += count;
}

#define text_literal(t, literal) text_raw(t, literal, sizeof(literal) - 1)

#endif
