/* Task groups: captured tasks that are replaced later. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/model/model.h"

#include <stdlib.h>

static int check_captured(const emu_stream *stream) {
    if (stream->capture != NULL) return 0;
    return emu_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, NULL, "stream %d is not captured; task groups are made between aclmdlRICaptureBegin and "
                    "aclmdlRICaptureEnd", stream->id);
}

static int begin_group(emu_stream *stream) {
    int status = check_captured(stream);
    if (status != 0) return status;
    emu_capture *capture = stream->capture;
    emu_lane *lane = &capture->lanes[stream->lane];
    if (lane->group != 0 || stream->update != NULL)
        return emu_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, NULL, "%s on stream %d", lane->group != 0 ? "a task group is open already" : "a task group is being updated",
                        stream->id);
    lane->group = ++capture->groups;
    capture->open_groups++;
    return 0;
}

/* Ends the group of a captured stream. A capture that has become invalid gives no group. */
static int end_group(emu_stream *stream, aclrtTaskGrp *handle) {
    int status = check_captured(stream);
    if (status != 0) return status;
    emu_capture *capture = stream->capture;
    emu_lane *lane = &capture->lanes[stream->lane];
    if (lane->group == 0)
        return emu_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, NULL, "no task group is open on stream %d; aclmdlRICaptureTaskGrpBegin must come first", stream->id);
    uint32_t number = lane->group;
    lane->group = 0;
    capture->open_groups--;
    if (capture->invalid)
        return emu_fail(capture->status == ACL_ERROR_STREAM_TASK_GROUP_INTR ? ACL_ERROR_STREAM_TASK_GROUP_INTR : ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                        NULL, "the capture of model %u is invalid: %s", capture->model, capture->reason);
    EMU_HELD emu_model *model = emu_object_acquire(capture->owner, KIND_MODEL, &status);
    if (model == NULL) return status;
    emu_group *group = calloc(1, sizeof *group), **groups = realloc(model->groups, (model->group_count + 1) * sizeof *groups);
    if (group == NULL || groups == NULL) abort();
    model->groups = groups;
    *group = (emu_group){.base.references = 1, .model = model, .number = number}; /* the model's */
    if (emu_object_new(KIND_TASK_GROUP, group, free) == NULL) {
        emu_object_release(group);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    emu_handle_hide(group->base.handle); /* it goes with its model */
    model->groups[model->group_count++] = group;
    *handle = group->base.handle;
    return 0;
}

API aclError aclmdlRICaptureTaskGrpBegin(aclrtStream handle) {
    ENTER("aclmdlRICaptureTaskGrpBegin");
    EMU_HELD emu_stream *stream = NULL;
    if (handle == NULL) return emu_null_parameter("stream");
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    emu_captures_lock();
    status = begin_group(stream);
    emu_captures_unlock();
    return status;
}

API aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream_handle, aclrtTaskGrp *handle) {
    ENTER("aclmdlRICaptureTaskGrpEnd");
    EMU_HELD emu_stream *stream = NULL;
    if (stream_handle == NULL || handle == NULL) return emu_null_parameter(stream_handle == NULL ? "stream" : "handle");
    *handle = NULL;
    int status = emu_stream_acquire(stream_handle, &stream);
    if (status != 0) return status;
    emu_captures_lock();
    status = end_group(stream, handle);
    emu_captures_unlock();
    return status;
}

/* ------------------------------------------------------------------------------------------------------------- updates */

static bool in_group(const emu_node *node, const emu_group *group) {
    return node->kind == NODE_TASK && node->group == group->number && node->task->answered != NULL;
}

/* Frees an update with the tasks that it has, and its reference to the model, which keeps the group. */
static void free_update(emu_update *update) {
    emu_group *group = update->group;
    for (uint32_t i = 0; i < update->count; i++) update->tasks[i]->finish(update->tasks[i]);
    emu_object_release(group->model);
    free(update->tasks);
    free(update);
}

static void abandon(emu_update *update) {
    emu_group *group = update->group;
    emu_captures_lock();
    group->updating = false;
    emu_captures_unlock();
    free_update(update);
}

/* A group by its handle. The caller gets a reference to its model, which keeps the group. */
static int acquire_group(aclrtTaskGrp handle, emu_group **group, emu_model **model) {
    int status;
    emu_table_lock();
    *group = emu_object_borrow(handle, KIND_TASK_GROUP, &status);
    if (*group != NULL) {
        *model = (*group)->model;
        emu_object_hold(*model);
    }
    emu_table_unlock();
    return status;
}

static int begin_update(emu_stream *stream, emu_group *group) {
    const emu_capture *capture = group->model->capture;
    if (stream->update != NULL || group->updating)
        return emu_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, NULL, stream->update != NULL ? "stream %d updates a task group already" : "another stream than %d updates the task group",
                        stream->id);
    if (group->model->capturing)
        return emu_fail(ACL_ERROR_RT_MODEL_CAPTURED, NULL, "model %u of the task group is still captured; aclmdlRICaptureEnd must come first", group->model->id);
    emu_update *update = calloc(1, sizeof *update);
    if (update == NULL) abort();
    for (uint32_t i = 0; i < capture->count; i++) update->wanted += in_group(&capture->nodes[i], group);
    update->tasks = calloc(update->wanted + 1, sizeof(emu_task *));
    if (update->tasks == NULL) abort();
    update->group = group;
    update->abandon = abandon;
    group->updating = true;
    emu_object_hold(group->model); /* for the update */
    stream->update = update;
    return 0;
}

API aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream_handle, aclrtTaskGrp handle) {
    ENTER("aclmdlRICaptureTaskUpdateBegin");
    EMU_HELD emu_stream *stream = NULL;
    EMU_HELD emu_model *model = NULL;
    emu_group *group;
    if (stream_handle == NULL || handle == NULL) return emu_null_parameter(stream_handle == NULL ? "stream" : "handle");
    int status = emu_stream_acquire(stream_handle, &stream);
    if (status != 0) return status;
    status = emu_refuse_captured(stream);
    if (status == 0) status = acquire_group(handle, &group, &model);
    if (status == 0) {
        emu_captures_lock();
        status = begin_update(stream, group);
        emu_captures_unlock();
    }
    return status;
}

/* Replaces the tasks of a group when the stream comes to it. */
typedef struct {
    emu_task task;
    emu_update *update;
} update_task;

static void finish_update(emu_task *task) {
    update_task *work = (update_task *)task;
    free_update(work->update);
    free(work);
}

static int run_update(emu_task *task, emu_stream *stream) {
    (void)stream;
    const update_task *work = (update_task *)task;
    emu_update *update = work->update;
    const emu_group *group = update->group;
    emu_model *model = group->model;
    uint32_t at = 0;
    int status = 0;
    for (uint32_t i = 0; i < model->capture->count && status == 0; i++) {
        emu_node *node = &model->capture->nodes[i];
        if (!in_group(node, group)) continue;
        emu_captures_lock();
        emu_task *before = node->task;
        emu_node_clear(node);
        node->task = update->tasks[at];
        node->routine = node->task->routine;
        node->task->describe(node->task, &node->captured);
        for (uint32_t use = 0; use < node->captured.use_count; use++) node->captured.uses[use].node = i;
        update->tasks[at++] = before; /* finished with the update */
        if (model->broken != NULL && model->broken_node == i) {
            free(model->broken);
            model->broken = NULL;
        }
        emu_captures_unlock();
        status = emu_model_replace(model, i);
    }
    return status;
}

static int end_update(emu_stream *stream, update_task **result) {
    emu_update *update = stream->update;
    if (update == NULL)
        return emu_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, NULL, "stream %d updates no task group; aclmdlRICaptureTaskUpdateBegin must come first", stream->id);
    emu_group *group = update->group;
    stream->update = NULL;
    group->updating = false;
    update_task *work = calloc(1, sizeof *work);
    if (work == NULL) abort();
    work->task = (emu_task){.run = run_update, .finish = finish_update, .routine = emu_routine()};
    work->update = update;
    *result = work;
    if (update->count == update->wanted) return 0;
    return emu_fail(ACL_ERROR_RT_INTERNAL_ERROR, NULL, "%u of the %u task(s) of the group were replaced; all must be", update->count, update->wanted);
}

API aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream handle) {
    ENTER("aclmdlRICaptureTaskUpdateEnd");
    EMU_HELD emu_stream *stream = NULL;
    update_task *work = NULL;
    if (handle == NULL) return emu_null_parameter("stream");
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    status = emu_refuse_captured(stream);
    emu_captures_lock();
    if (status == 0) status = end_update(stream, &work);
    emu_captures_unlock();
    if (status == 0) status = emu_stream_enqueue(stream, &work->task);
    else if (work != NULL) finish_update(&work->task);
    return status;
}
