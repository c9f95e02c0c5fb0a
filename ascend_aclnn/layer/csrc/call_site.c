/* Where in the client an operator was called: Python's frames where the thread runs Python, else the native ones. */
#include "recorder.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>

/* Python's stable functions, looked up in the process: the client may have none. */
typedef struct object_of_python PyObject;
static struct {
    int (*is_initialized)(void);
    void *(*this_thread)(void);
    int (*ensure)(void);
    void (*release)(int);
    PyObject *(*frame)(void);
    PyObject *(*code)(PyObject *);
    PyObject *(*back)(PyObject *);
    int (*line)(PyObject *);
    PyObject *(*attribute)(PyObject *, const char *);
    const char *(*utf8)(PyObject *);
    void (*clear_error)(void);
    void (*increase)(PyObject *);
    void (*decrease)(PyObject *);
    bool usable;
} python;

static void find_python(void) {
    static const char *const names[] = {
        "Py_IsInitialized", "PyGILState_GetThisThreadState", "PyGILState_Ensure", "PyGILState_Release", "PyEval_GetFrame",
        "PyFrame_GetCode", "PyFrame_GetBack", "PyFrame_GetLineNumber", "PyObject_GetAttrString", "PyUnicode_AsUTF8",
        "PyErr_Clear", "Py_IncRef", "Py_DecRef"};
    void **slots = (void **)&python;
    python.usable = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        slots[i] = dlsym(RTLD_DEFAULT, names[i]);
        python.usable &= slots[i] != NULL;
    }
}

static void write_frame(text *t, bool first, const char *file, int64_t line, const char *function) {
    if (!first) text_literal(t, ",");
    text_literal(t, "[");
    text_string(t, file);
    text_literal(t, ",");
    text_integer(t, line);
    text_literal(t, ",");
    text_string(t, function);
    text_literal(t, "]");
}

static void write_attribute(text *t, PyObject *object, const char *name) {
    PyObject *value = python.attribute(object, name);
    const char *string = value != NULL ? python.utf8(value) : NULL;
    if (string == NULL) python.clear_error();
    text_string(t, string != NULL ? string : "?");
    if (value != NULL) python.decrease(value);
}

/* Python's frames. The interpreter's lock is taken: this thread has released it around the call. */
static int python_frames(text *t) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_python);
    if (!python.usable || !python.is_initialized() || python.this_thread() == NULL) return 0;
    int state = python.ensure(), count = 0;
    PyObject *frame = python.frame();
    if (frame != NULL) python.increase(frame);
    for (; frame != NULL && count < MOST_FRAMES; count++) {
        PyObject *code = python.code(frame), *back = python.back(frame);
        if (count > 0) text_literal(t, ",");
        text_literal(t, "[");
        write_attribute(t, code, "co_filename");
        text_literal(t, ",");
        text_integer(t, python.line(frame));
        text_literal(t, ",");
        write_attribute(t, code, "co_name");
        text_literal(t, "]");
        python.decrease(code);
        python.decrease(frame);
        frame = back;
    }
    if (frame != NULL) python.decrease(frame);
    python.release(state);
    return count;
}

/* Native frames: the file, the offset in it (for addr2line) as a negative line, the function where it is exported. */
/* Whether a path begins with a directory; MindSpore opens libraries by paths with two slashes. */
static bool is_below(const char *path, const char *directory, size_t length) {
    for (size_t i = 0; i < length; i++, path++) {
        while (directory[i] == '/' && path[0] == '/' && path[1] == '/') path++;
        if (*path != directory[i]) return false;
    }
    return true;
}

static void native_frames(text *t) {
    void *addresses[MOST_FRAMES];
    Dl_info own, info;
    int count = backtrace(addresses, MOST_FRAMES);
    bool first = true, outside = false;
    if (dladdr((void *)call_site, &own) == 0) return;
    const char *slash = strrchr(own.dli_fname, '/');
    size_t directory = slash != NULL ? (size_t)(slash - own.dli_fname) + 1 : 0;
    for (int i = 0; i < count; i++) {
        if (dladdr(addresses[i], &info) == 0 || info.dli_fname == NULL) continue;
        outside |= !is_below(info.dli_fname, own.dli_fname, directory);
        if (!outside) continue; /* the shims themselves */
        const char *name = info.dli_sname != NULL ? info.dli_sname : "?";
        write_frame(t, first, info.dli_fname, (char *)info.dli_fbase - (char *)addresses[i], name);
        first = false;
    }
}

static struct {
    file_key *keys;
    uint64_t count, room;
} sites;

void call_site_forget(void) { sites.count = 0; }

int64_t call_site(void) {
    text t = {0};
    file_key key;
    int64_t id = -1;
    if (python_frames(&t) == 0) native_frames(&t);
    file_digest(&key, t.data, t.length);
    recorder_lock();
    for (uint64_t i = sites.count; i-- > 0 && id < 0;) {
        if (memcmp(&sites.keys[i], &key, sizeof key) == 0) id = (int64_t)i;
    }
    if (id < 0 && recorder_ready()) {
        if (sites.count >= sites.room) {
            sites.room = sites.room > 0 ? 2 * sites.room : 256;
            sites.keys = realloc(sites.keys, sites.room * sizeof *sites.keys);
            if (sites.keys == NULL) abort();
        }
        id = (int64_t)sites.count;
        sites.keys[sites.count++] = key;
        text record = {0};
        text_literal(&record, "{\"id\":");
        text_integer(&record, id);
        text_literal(&record, ",\"frames\":[");
        if (t.length > 0) text_raw(&record, t.data, t.length);
        text_literal(&record, "]}");
        recorder_write("SITE", &record);
        free(record.data);
    }
    recorder_unlock();
    free(t.data);
    return id;
}
