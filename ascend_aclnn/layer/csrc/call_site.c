/* Where in the client an operator was called: Python's frames where the thread runs Python, else the native ones. */
#include "recorder.h"

#include "ascendcl/core/frames.h"

#include <execinfo.h>
#include <stdlib.h>

static void write_frame(void *context, const char *file, long line, const char *function) {
    text *t = context;
    if (t->length > 0) text_literal(t, ",");
    text_literal(t, "[");
    text_string(t, file);
    text_literal(t, ",");
    text_integer(t, line);
    text_literal(t, ",");
    text_string(t, function);
    text_literal(t, "]");
}

static void write_frames(text *t) {
    if (emu_runs_python()) { /* this thread has released the interpreter's lock around the call */
        int state = emu_python_begin();
        uint32_t count = emu_python_frames(MOST_FRAMES, NULL, write_frame, t, false);
        emu_python_end(state);
        if (count > 0) return;
    }
    void *addresses[MOST_FRAMES];
    emu_native_frames(addresses, backtrace(addresses, MOST_FRAMES), (void *)write_frames, write_frame, t);
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
    write_frames(&t);
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
