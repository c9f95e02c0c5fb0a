/* What a model consists of, for people: aclmdlRIDebugPrint and aclmdlRIDebugJsonPrint. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/model/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DURATION 10 /* of a task in the trace, which has no real times */

static const char *kind_name(const emu_node *node) {
    if (node->kind == NODE_RECORD) return "EVENT_RECORD";
    if (node->kind == NODE_WAIT) return "EVENT_WAIT";
    return strncmp(node->routine, "aclrt", 5) == 0 ? node->routine : "KERNEL";
}

static void put_node(FILE *file, const emu_model *model, uint32_t number, bool last) {
    const emu_node *node = &model->capture->nodes[number];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < node->captured.use_count; i++) bytes += node->captured.uses[i].size;
    fprintf(file,
            "{\"name\": \"%s\", \"ph\": \"X\", \"pid\": \"%d aclGraph\", \"tid\": \"stream%d\", \"ts\": %u, \"dur\": %u, \"args\": {\"Model Id\": %u, "
            "\"Stream Id\": %d, \"Task Id\": %u, \"Task Type\": \"%s\", \"Bytes\": %llu",
            node->routine, (int)getpid(), model->capture->lanes[node->lane].id, number * DURATION, DURATION, model->id,
            model->capture->lanes[node->lane].id, number, kind_name(node), (unsigned long long)bytes);
    if (node->kind != NODE_TASK) fprintf(file, ", \"Event Id\": %u", node->event);
    if (node->kind == NODE_WAIT) fprintf(file, ", \"Waits For\": %u", node->recorded);
    if (node->group != 0) fprintf(file, ", \"Task Group\": %u", node->group);
    fprintf(file, "}}%s\n", last ? "" : ",");
}

API aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags) {
    ENTER("aclmdlRIDebugJsonPrint");
    EMU_HELD emu_model *model = NULL;
    (void)flags;
    if (path == NULL) return emu_null_parameter("path");
    int status = emu_model_acquire(modelRI, &model);
    if (status != 0) return status;
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "cannot write %s: %s", path, strerror(errno));
    } else {
        fprintf(file, "[\n");
        emu_captures_lock();
        for (uint32_t i = 0; i < model->capture->count; i++) put_node(file, model, i, i + 1 == model->capture->count);
        emu_captures_unlock();
        fprintf(file, "]\n");
        fclose(file);
    }
    return status;
}

/* CANN writes this to its log. */
API aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
    ENTER("aclmdlRIDebugPrint");
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status != 0) return status;
    emu_captures_lock();
    for (uint32_t i = 0; i < model->capture->count; i++) {
        const emu_node *node = &model->capture->nodes[i];
        fprintf(stderr, "model %u: stream %d, task %u: %s\n", model->id, model->capture->lanes[node->lane].id, i, node->routine);
    }
    emu_captures_unlock();
    return 0;
}
