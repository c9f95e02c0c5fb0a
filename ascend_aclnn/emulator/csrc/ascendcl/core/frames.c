#include "ascendcl/core/frames.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Python's stable functions, looked up in the process: the client may have none. */
typedef struct object_of_python PyObject;
static struct {
    int (*is_initialized)(void);
    void *(*this_thread)(void);
    int (*holds)(void);
    int (*ensure)(void);
    void (*release)(int);
    PyObject *(*frame)(void);
    PyObject *(*code)(PyObject *);
    PyObject *(*back)(PyObject *);
    int (*line)(PyObject *);
    int (*instruction)(PyObject *); /* from 3.11 on, else NULL */
    PyObject *(*attribute)(PyObject *, const char *);
    const char *(*utf8)(PyObject *);
    void (*clear_error)(void);
    void (*increase)(PyObject *);
    void (*decrease)(PyObject *);
    bool usable;
} python;

static void find_python(void) {
    static const char *const names[] = {
        "Py_IsInitialized", "PyGILState_GetThisThreadState", "PyGILState_Check", "PyGILState_Ensure", "PyGILState_Release",
        "PyEval_GetFrame", "PyFrame_GetCode", "PyFrame_GetBack", "PyFrame_GetLineNumber", "PyFrame_GetLasti", "PyObject_GetAttrString",
        "PyUnicode_AsUTF8", "PyErr_Clear", "Py_IncRef", "Py_DecRef"};
    void **slots = (void **)&python;
    python.usable = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        slots[i] = dlsym(RTLD_DEFAULT, names[i]);
        python.usable &= slots[i] != NULL || &slots[i] == (void **)&python.instruction;
    }
}

bool emu_has_python(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_python);
    return python.usable;
}

bool emu_runs_python(void) { return emu_has_python() && python.is_initialized() && python.this_thread() != NULL; }
bool emu_holds_python(void) { return python.holds() != 0; }
int emu_python_begin(void) { return python.ensure(); }
void emu_python_end(int state) { python.release(state); }

static void tell_python_frame(PyObject *code, int line, emu_frame_text *text, void *context) {
    PyObject *file = python.attribute(code, "co_filename"), *function = python.attribute(code, "co_name");
    const char *path = file != NULL ? python.utf8(file) : NULL, *name = function != NULL ? python.utf8(function) : NULL;
    if (path == NULL || name == NULL) python.clear_error();
    text(context, path != NULL ? path : "?", line, name != NULL ? name : "?");
    if (file != NULL) python.decrease(file);
    if (function != NULL) python.decrease(function);
}

uint32_t emu_python_frames(uint32_t most, emu_frame *frames, emu_frame_text *text, void *context, bool keeps) {
    PyObject *frame = python.frame();
    uint32_t count = 0;
    if (frame != NULL) python.increase(frame);
    for (; frame != NULL && count < most; count++) {
        PyObject *code = python.code(frame), *back = python.back(frame);
        if (frames != NULL) {
            memset(&frames[count], 0, sizeof frames[count]); /* padding counts */
            frames[count].code = code;
            frames[count].at = python.instruction != NULL ? python.instruction(frame) : python.line(frame);
        }
        if (text != NULL) tell_python_frame(code, python.line(frame), text, context);
        if (!keeps) python.decrease(code); /* its frame keeps it */
        python.decrease(frame);
        frame = back;
    }
    if (frame != NULL) python.decrease(frame);
    return count;
}

/* Whether a path begins with a directory; MindSpore opens libraries by paths with two slashes. */
static bool is_below(const char *path, const char *directory, size_t length) {
    for (size_t i = 0; i < length; i++, path++) {
        while (directory[i] == '/' && path[0] == '/' && path[1] == '/') path++;
        if (*path != directory[i]) return false;
    }
    return true;
}

void emu_native_frames(void *const *addresses, int count, const void *own, emu_frame_text *text, void *context) {
    char *(*demangle)(const char *, char *, size_t *, int *) =
        (char *(*)(const char *, char *, size_t *, int *))dlsym(RTLD_DEFAULT, "__cxa_demangle");
    Dl_info info, here;
    bool outside = dladdr(own, &here) == 0 || here.dli_fname == NULL;
    const char *slash = outside ? NULL : strrchr(here.dli_fname, '/');
    size_t length = slash != NULL ? (size_t)(slash - here.dli_fname) + 1 : 0;
    for (int i = 0; i < count; i++) {
        bool known = dladdr(addresses[i], &info) != 0 && info.dli_fname != NULL;
        if (!outside && (!known || is_below(info.dli_fname, here.dli_fname, length))) continue;
        outside = true;
        if (!known) {
            text(context, "?", 0, "?");
            continue;
        }
        char *readable = demangle != NULL && info.dli_sname != NULL ? demangle(info.dli_sname, NULL, NULL, NULL) : NULL;
        const char *name = readable != NULL ? readable : info.dli_sname != NULL ? info.dli_sname : "?";
        text(context, info.dli_fname, (const char *)info.dli_fbase - (const char *)addresses[i], name);
        free(readable);
    }
}
