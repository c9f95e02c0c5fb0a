/* ge::AscendString (libmetadef), under its mangled names. */
#include "metadef/ascend_string.h"

#include <stdlib.h>
#include <string.h>

/* std::_Sp_counted_base, and the text behind it. */
struct emu_counter {
    const void *const *functions;
    int32_t uses, weak_uses;
    char text[];
};

static void keep(void *self) { (void)self; }

static void *no_deleter(void *self, const void *type) { return (void)self, (void)type, NULL; }

/* The virtual functions: two destructors, what the last use calls, what the last weak use calls, and _M_get_deleter. In front of
 * them the offset to the whole object, and its type. */
static const void *const functions[] = {NULL, NULL, keep, free, keep, free, no_deleter};

static void make(emu_ascend_string *self, const char *text, size_t length) {
    *self = (emu_ascend_string){NULL, NULL};
    if (text == NULL) return;
    struct emu_counter *counter = malloc(sizeof *counter + length + 1);
    if (counter == NULL) abort();
    *counter = (struct emu_counter){functions + 2, 1, 1};
    memcpy(counter->text, text, length);
    counter->text[length] = 0;
    *self = (emu_ascend_string){counter->text, counter};
}

const char *emu_ascend_text(const emu_ascend_string *string) { return string->text != NULL ? string->text : ""; }

static int compare(const emu_ascend_string *self, const emu_ascend_string *other) {
    return strcmp(emu_ascend_text(self), emu_ascend_text(other));
}

/* AscendString(const char *), AscendString(const char *, size_t): C1 makes whole objects, C2 parts of larger ones. */
API void _ZN2ge12AscendStringC1EPKc(emu_ascend_string *self, const char *text) { make(self, text, text != NULL ? strlen(text) : 0); }
API void _ZN2ge12AscendStringC2EPKc(emu_ascend_string *self, const char *text) { make(self, text, text != NULL ? strlen(text) : 0); }
API void _ZN2ge12AscendStringC1EPKcm(emu_ascend_string *self, const char *text, size_t length) { make(self, text, length); }
API void _ZN2ge12AscendStringC2EPKcm(emu_ascend_string *self, const char *text, size_t length) { make(self, text, length); }

API const char *_ZNK2ge12AscendString9GetStringEv(const emu_ascend_string *self) { return emu_ascend_text(self); }
API size_t _ZNK2ge12AscendString9GetLengthEv(const emu_ascend_string *self) { return strlen(emu_ascend_text(self)); }

/* <, >, <=, >=, ==, != */
API bool _ZNK2ge12AscendStringltERKS0_(const emu_ascend_string *self, const emu_ascend_string *other) { return compare(self, other) < 0; }
API bool _ZNK2ge12AscendStringgtERKS0_(const emu_ascend_string *self, const emu_ascend_string *other) { return compare(self, other) > 0; }
API bool _ZNK2ge12AscendStringleERKS0_(const emu_ascend_string *self, const emu_ascend_string *other) { return compare(self, other) <= 0; }
API bool _ZNK2ge12AscendStringgeERKS0_(const emu_ascend_string *self, const emu_ascend_string *other) { return compare(self, other) >= 0; }
API bool _ZNK2ge12AscendStringeqERKS0_(const emu_ascend_string *self, const emu_ascend_string *other) { return compare(self, other) == 0; }
API bool _ZNK2ge12AscendStringneERKS0_(const emu_ascend_string *self, const emu_ascend_string *other) { return compare(self, other) != 0; }
