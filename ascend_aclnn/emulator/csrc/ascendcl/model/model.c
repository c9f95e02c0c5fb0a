/* The life of models, the memory that they use, and what they are called. */
#include "ascendcl/model/model.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/memory/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_RUN 10000            /* milliseconds that aclmdlRIDestroy waits for a replay */

static emu_model *models;            /* under the captures' lock */
static _Atomic uint32_t model_ids;

int emu_null_parameter(const char *name) { return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "%s is a null pointer", name); }

/* ---------------------------------------------------------------------------------------------------------------- life */

static void free_capture(emu_capture *capture) {
    if (capture == NULL) return;
    for (uint32_t i = 0; i < capture->count; i++) {
        emu_node *node = &capture->nodes[i];
        emu_node_clear(node);
        if (node->task != NULL) node->task->finish(node->task);
    }
    free(capture->nodes);
    free(capture->lanes);
    free(capture);
}

/* The device process forgets the programs. */
static void drop_programs(const emu_model *model) {
    emu_buffer request = {0}, answer = {0};
    for (uint32_t i = 0; i < model->part_count; i++) {
        if (model->parts[i].program != 0) emu_buffer_put(&request, &model->parts[i].program, sizeof model->parts[i].program);
    }
    if (request.size > 0 && model->incarnation == model->device->incarnation) /* fails where the process, and its programs, have ended */
        (void)emu_link_call(model->device, CALL_DROP, &request, &answer);
    emu_buffer_free(&request);
    emu_buffer_free(&answer);
}

void emu_model_free_condition(void *object) {
    emu_condition *condition = object;
    for (uint32_t i = 0; i < condition->branch_count; i++) emu_object_release(condition->branches[i]);
    free(condition->branches);
    free(condition);
}

static void free_conditions(emu_model *model) {
    for (uint32_t c = 0; c < model->condition_count; c++) {
        (void)emu_memory_free(model->device, (const void *)model->conditions[c]->value); /* fails where the device was reset */
        emu_object_release(model->conditions[c]);
    }
    free(model->conditions);
}

static void free_model(void *object) {
    emu_model *model = object;
    char *text = emu_take_message(); /* of the call that lets go of the model */
    drop_programs(model);
    for (uint32_t i = 0; model->streams != NULL && i < model->capture->lane_count; i++) {
        if (model->streams[i] != NULL) emu_stream_discard(model->streams[i]);
    }
    for (uint32_t e = 0; e < model->execution_count; e++) {
        for (uint32_t i = 0; i < model->capture->lane_count; i++) emu_timeline_end(model->executions[e].lanes[i]);
        free(model->executions[e].lanes);
    }
    free(model->executions);
    for (uint32_t i = 0; model->clocks != NULL && i < model->capture->count; i++) free(model->clocks[i]);
    free(model->clocks);
    free_capture(model->capture);
    for (uint32_t i = 0; i < model->group_count; i++) emu_object_release(model->groups[i]);
    for (uint32_t i = 0; i < model->task_count; i++) emu_object_release(model->tasks[i]);
    free_conditions(model);
    emu_restore_message(text);
    while (model->callbacks != NULL) {
        emu_destroy_callback *next = model->callbacks->next;
        free(model->callbacks);
        model->callbacks = next;
    }
    free(model->groups);
    free(model->tasks);
    free(model->parts);
    free(model->streams);
    free(model->last);
    pthread_mutex_destroy(&model->queueing);
    free(model->broken);
    free(model->name);
    emu_object_release(model->context);
    free(model);
}

int emu_model_new(emu_context *context, emu_model **result) {
    EMU_HELD emu_model *model = calloc(1, sizeof *model);
    if (model == NULL) abort();
    model->base.references = 1;
    model->id = ++model_ids;
    pthread_mutex_init(&model->queueing, NULL);
    model->context = context;
    emu_object_hold(context);
    model->device = emu_context_device(context);
    if (emu_object_new(KIND_MODEL, model, free_model) == NULL) return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    emu_object_hold(model); /* for the list */
    emu_captures_lock();
    model->next = models;
    models = model;
    emu_captures_unlock();
    emu_object_hold(model);
    *result = model;
    return 0;
}

/* Takes a model out of the list; false where another thread has done so. */
static bool unlist(emu_model *model) {
    emu_captures_lock();
    emu_model **link = &models;
    while (*link != NULL && *link != model) link = &(*link)->next;
    bool listed = *link != NULL;
    if (listed) {
        *link = model->next;
    }
    emu_captures_unlock();
    return listed;
}

void emu_model_unbind(emu_model *model, uint32_t lane) {
    emu_stream *stream = model->capture->lanes[lane].stream;
    if (stream == NULL) return;
    model->capture->lanes[lane].stream = NULL;
    stream->model = 0;
    emu_stream_leave(stream);
}

/* The captures' lock is held. */
static void leave_streams(emu_model *model) {
    for (uint32_t i = 0; i < model->capture->lane_count; i++) {
        if (model->capture->by_hand) emu_model_unbind(model, i);
        else emu_stream_leave(model->capture->lanes[i].stream);
    }
}

void emu_model_drop(emu_model *model) {
    if (!unlist(model)) return;
    emu_object_reclaim(model);
    emu_captures_lock();
    if (model->capture != NULL && model->capture->by_hand) { /* an unfinished one, too */
        if (model->capturing) emu_capture_end(model->capture);
        model->capturing = false;
        leave_streams(model);
    }
    emu_captures_unlock();
    for (uint32_t i = 0; i < model->group_count; i++) emu_object_reclaim(model->groups[i]);
    for (uint32_t i = 0; i < model->task_count; i++) emu_object_reclaim(model->tasks[i]);
    for (uint32_t c = 0; c < model->condition_count; c++) {
        emu_object_reclaim(model->conditions[c]);
        for (uint32_t i = 0; i < model->conditions[c]->branch_count; i++) emu_model_drop(model->conditions[c]->branches[i]);
    }
    for (const emu_destroy_callback *c = model->callbacks; c != NULL; c = c->next) c->function(c->argument);
    emu_object_release(model);
}

int emu_model_acquire(aclmdlRI handle, emu_model **result) {
    int status;
    if (handle == NULL) return emu_null_parameter("modelRI");
    *result = emu_object_acquire(handle, KIND_MODEL, &status);
    return status;
}

int emu_check_current_model(const emu_model *model) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status != 0 || model->context == context) return status;
    return emu_fail(ACL_ERROR_RT_MODEL_CONTEXT, NULL, "model %u is of another context than this thread's", model->id);
}

int emu_refuse_branch(const emu_model *model, const char *what) {
    if (model->parent == NULL) return 0;
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "model %u is a branch of a condition of model %u: %s", model->id, model->parent->id, what);
}

int emu_model_make_streams(emu_model *model, bool all) {
    const emu_capture *capture = model->capture;
    int status = 0;
    pthread_mutex_lock(&model->queueing);
    if (model->streams == NULL) {
        model->streams = calloc(capture->lane_count + 1, sizeof *model->streams);
        model->last = calloc(capture->lane_count + 1, sizeof *model->last);
        if (model->streams == NULL || model->last == NULL) abort();
    }
    for (uint32_t i = all ? 0 : 1; i < capture->lane_count && status == 0; i++) {
        if (model->streams[i] != NULL) continue;
        status = emu_stream_of_model(model->context, model->id, &model->streams[i]);
        if (status == 0) model->streams[i]->lane = i;
    }
    pthread_mutex_unlock(&model->queueing);
    return status;
}

emu_model *emu_model_of_stream(const emu_stream *stream, uint32_t *lane) {
    emu_captures_lock();
    emu_model *model = stream->model != 0 ? models : NULL;
    while (model != NULL && model->id != stream->model) model = model->next;
    if (model != NULL) emu_object_hold(model);
    *lane = stream->lane;
    emu_captures_unlock();
    return model;
}

void emu_models_reclaim(const emu_context *context) {
    for (;;) {
        emu_captures_lock();
        emu_model *model = models;
        while (model != NULL && model->context != context) model = model->next;
        if (model != NULL) emu_object_hold(model);
        if (model != NULL && model->capturing) {
            model->capturing = false;
            leave_streams(model);
            emu_capture_end(model->capture);
        }
        emu_captures_unlock();
        if (model == NULL) return;
        emu_model_drop(model);
        emu_object_release(model);
    }
}

/* -------------------------------------------------------------------------------------------------------------- memory */

/* The first node of a model that uses a range of memory, and the use; NULL: none. */
static const emu_use *use_of(const emu_model *model, const emu_device *device, const uint8_t *start, uint64_t size, uint32_t *node) {
    const emu_capture *capture = model->capture;
    for (uint32_t n = 0; capture != NULL && n < capture->count; n++) {
        const emu_captured *captured = &capture->nodes[n].captured;
        for (uint32_t i = 0; i < captured->use_count; i++) {
            const emu_use *use = &captured->uses[i];
            const uint8_t *at = use->address;
            *node = n;
            if (use->device == device && at < start + size && at + use->size > start) return use;
        }
    }
    return NULL;
}

/* Marks the models that use freed memory. The captures' lock is held, as for the next one. */
static void when_freed(emu_device *device, const void *address, uint64_t size) {
    for (emu_model *model = models; model != NULL; model = model->next) {
        uint32_t node;
        const emu_use *use = model->broken == NULL ? use_of(model, device, address, size, &node) : NULL;
        if (use == NULL) continue;
        if (asprintf(&model->broken,
                     "task %u, %s, uses the memory of its %s (%p, %llu bytes), which was freed after its capture by %s (thread %u, %llu "
                     "bytes from %p on)",
                     node, model->capture->nodes[node].routine, use->name, use->address, (unsigned long long)use->size, emu_routine(),
                     emu_thread_number(), (unsigned long long)size, address) < 0)
            abort();
        model->broken_node = node;
    }
}

static bool replay_uses(const emu_device *device, const void *address, uint64_t size) {
    for (const emu_model *model = models; model != NULL; model = model->next) {
        const emu_model *root = model;
        uint32_t node;
        while (root->parent != NULL) root = root->parent;
        if (root->under_way > 0 && use_of(model, device, address, size, &node) != NULL) return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------------------- the end */

API aclError aclmdlRIDestroy(aclmdlRI modelRI) {
    ENTER_RELEASE("aclmdlRIDestroy");
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status != 0) LEAVE(status);
    emu_captures_lock();
    status = emu_refuse_branch(model, "it ends with that");
    if (status == 0 && model->capturing && !model->capture->by_hand)
        status = emu_fail(ACL_ERROR_RT_MODEL_CAPTURED, NULL, "model %u is still captured; aclmdlRICaptureEnd must come first", model->id);
    emu_captures_unlock();
    if (status == 0 && model->under_way > 0) emu_streams_let_run(model->device);
    for (int waited = 0; status == 0 && model->under_way > 0; waited++) {
        emu_streams_poll(model->device);
        if (model->under_way == 0) break;
        if (waited == LONGEST_RUN)
            status = emu_fail(ACL_ERROR_RT_MODEL_RUNNING, NULL, "model %u has run for %d s since; synchronize its stream first", model->id,
                              LONGEST_RUN / 1000);
        else
            usleep(1000);
    }
    if (status == 0) emu_model_drop(model);
    LEAVE(status);
}

/* ---------------------------------------------------------------------------------------------- what a model is called */

#define WITH_MODEL(body)                                        \
    EMU_HELD emu_model *model = NULL;                           \
    int status_ = emu_model_acquire(modelRI, &model);           \
    if (status_ != 0) return status_;                           \
    emu_captures_lock();                                        \
    body;                                                       \
    emu_captures_unlock();                                      \
    return status_

API aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId) {
    ENTER("aclmdlRIGetId");
    if (modelRIId == NULL) return emu_null_parameter("modelRIId");
    WITH_MODEL(*modelRIId = model->id);
}

API aclError aclmdlRISetName(aclmdlRI modelRI, const char *name) {
    ENTER("aclmdlRISetName");
    if (name == NULL) return emu_null_parameter("name");
    WITH_MODEL(free(model->name); model->name = strdup(name));
}

API aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name) {
    ENTER("aclmdlRIGetName");
    if (name == NULL) return emu_null_parameter("name");
    if (maxLen == 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "maxLen is 0");
    WITH_MODEL(snprintf(name, maxLen, "%s", model->name != NULL ? model->name : ""));
}

API aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData) {
    ENTER("aclmdlRIDestroyRegisterCallback");
    if (func == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "func is a null pointer");
    emu_destroy_callback *entry = calloc(1, sizeof *entry);
    if (entry == NULL) abort();
    *entry = (emu_destroy_callback){func, userData, NULL};
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = emu_refuse_branch(model, "it has no callbacks");
    if (status != 0) {
        free(entry);
        return status;
    }
    emu_captures_lock();
    emu_destroy_callback **link = &model->callbacks;
    while (*link != NULL && (*link)->function != func) link = &(*link)->next;
    bool known = *link != NULL;
    if (!known) *link = entry;
    emu_captures_unlock();
    if (!known) return 0;
    free(entry);
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "func (%p) is registered already", (void *)(uintptr_t)func);
}

API aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
    ENTER("aclmdlRIDestroyUnregisterCallback");
    emu_destroy_callback *removed = NULL;
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = emu_refuse_branch(model, "it has no callbacks");
    if (status != 0) return status;
    emu_captures_lock();
    for (emu_destroy_callback **link = &model->callbacks; *link != NULL; link = &(*link)->next) {
        if ((*link)->function != func) continue;
        removed = *link;
        *link = removed->next;
        break;
    }
    emu_captures_unlock();
    free(removed);
    return removed != NULL ? 0 : emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "func (%p) is not registered", (void *)(uintptr_t)func);
}

__attribute__((constructor)) static void at_start(void) {
    emu_when_freed = when_freed;
    emu_replay_uses = replay_uses;
}
