/* The life of models, and their execution. */
#include "ascendcl/model/model.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAMS (1ull << 62)        /* numbers from here on are those of programs; lower ones belong to plans */
#define LONGEST_RUN 10000            /* milliseconds that aclmdlRIDestroy waits for a replay */

static emu_model *models;            /* under the captures' lock */
static _Atomic uint32_t model_count;
static _Atomic uint64_t program_ids;
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
    if (request.size > 0 && model->incarnation == model->device->incarnation &&
        emu_link_call(model->device, CALL_DROP, &request, &answer) != 0)
        free(emu_take_message()); /* the process has ended, and its programs with it */
    emu_buffer_free(&request);
    emu_buffer_free(&answer);
}

static void release_blocks(emu_model_blocks *blocks) {
    if (blocks != NULL && --blocks->references == 0) free(blocks);
}

static void free_model(void *object) {
    emu_model *model = object;
    drop_programs(model);
    free_capture(model->capture);
    for (uint32_t i = 0; i < model->group_count; i++) emu_object_release(model->groups[i]);
    while (model->callbacks != NULL) {
        emu_destroy_callback *next = model->callbacks->next;
        free(model->callbacks);
        model->callbacks = next;
    }
    free(model->groups);
    free(model->parts);
    release_blocks(model->blocks);
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
    model->context = context;
    emu_object_hold(context);
    model->device = emu_context_device(context);
    if (emu_object_new(KIND_MODEL, model, free_model) == NULL) return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    emu_object_hold(model); /* for the list */
    emu_captures_lock();
    model->next = models;
    models = model;
    model_count++;
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
    bool found = *link != NULL;
    if (found) {
        *link = model->next;
        model_count--;
    }
    emu_captures_unlock();
    return found;
}

void emu_model_drop(emu_model *model) {
    if (!unlist(model)) return;
    emu_object_reclaim(model);
    for (uint32_t i = 0; i < model->group_count; i++) emu_object_reclaim(model->groups[i]);
    for (const emu_destroy_callback *c = model->callbacks; c != NULL; c = c->next) c->function(c->argument);
    emu_object_release(model);
}

int emu_model_acquire(aclmdlRI handle, emu_model **result) {
    int status;
    if (handle == NULL) return emu_null_parameter("modelRI");
    *result = emu_object_acquire(handle, KIND_MODEL, &status);
    return status;
}

static void leave_streams(emu_model *model) {
    for (uint32_t i = 0; i < model->capture->lane_count; i++) emu_stream_leave(model->capture->lanes[i].stream);
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

/* Marks the models that use freed memory. */
static void when_freed(emu_device *device, const void *address, uint64_t size) {
    if (model_count == 0) return;
    const uint8_t *start = address, *end = start + size;
    emu_captures_lock();
    for (emu_model *model = models; model != NULL; model = model->next) {
        const emu_capture *capture = model->capture;
        if (model->broken != NULL || capture == NULL || model->device != device) continue;
        for (uint32_t n = 0; n < capture->count && model->broken == NULL; n++) {
            const emu_node *node = &capture->nodes[n];
            for (uint32_t i = 0; i < node->captured.use_count; i++) {
                const emu_use *use = &node->captured.uses[i];
                const uint8_t *at = use->address;
                if (use->device != device || at >= end || at + use->size <= start) continue;
                if (asprintf(&model->broken,
                             "task %u, %s, uses the memory of its %s (%p, %llu bytes), which was freed after its capture by %s (thread %u, %llu "
                             "bytes from %p on)",
                             n, node->routine, use->name, use->address, (unsigned long long)use->size, emu_routine(), emu_thread_number(),
                             (unsigned long long)size, address) < 0)
                    abort();
                model->broken_node = n;
                break;
            }
        }
    }
    emu_captures_unlock();
}

static int by_address(const void *a, const void *b) {
    const emu_use *left = a, *right = b;
    if (left->device != right->device) return left->device < right->device ? -1 : 1;
    return left->address < right->address ? -1 : left->address > right->address;
}

void emu_model_find_blocks(emu_model *model) {
    const emu_capture *capture = model->capture;
    size_t most = 0, count = 0;
    for (uint32_t i = 0; i < capture->count; i++) most += capture->nodes[i].captured.use_count;
    emu_model_blocks *blocks = calloc(1, sizeof *blocks + most * sizeof blocks->uses[0]);
    if (blocks == NULL) abort();
    emu_use *uses = blocks->uses;
    for (uint32_t i = 0; i < capture->count; i++) {
        const emu_captured *captured = &capture->nodes[i].captured;
        if (captured->use_count > 0) memcpy(uses + count, captured->uses, captured->use_count * sizeof *uses);
        count += captured->use_count;
    }
    if (count > 0) qsort(uses, count, sizeof *uses, by_address);
    for (size_t i = 0; i < count; i++) {
        const emu_use *last = blocks->count > 0 ? &uses[blocks->count - 1] : NULL;
        bool same = last != NULL && last->device == uses[i].device && emu_memory_same_block(last->device, last->address, uses[i].address);
        if (!same) uses[blocks->count++] = uses[i];
    }
    blocks->references = 1;
    release_blocks(model->blocks);
    model->blocks = blocks;
}

/* ------------------------------------------------------------------------------------------------------------ programs */

/* The steps of some nodes as the device process reads them: of each its length in words, and the words. */
static void put_steps(emu_buffer *request, const emu_capture *capture, uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++) {
        const emu_buffer *step = &capture->nodes[i].captured.step;
        if (step->size == 0) continue; /* an event */
        uint64_t words = step->size / sizeof(uint64_t);
        emu_buffer_put(request, &words, sizeof words);
        emu_buffer_put(request, step->data, step->size);
    }
}

static int call_device(emu_model *model, uint32_t call, const emu_buffer *request) {
    emu_buffer answer = {0};
    int status = emu_link_call(model->device, call, request, &answer);
    if (status != 0 && answer.size > 0) {
        emu_buffer_put(&answer, "", 1);
        emu_fail_with(status, (const char *)answer.data);
    }
    emu_buffer_free(&answer);
    return status;
}

static bool on_device(const emu_node *node) { return node->captured.step.size > 0; }

int emu_model_build(emu_model *model) {
    const emu_capture *capture = model->capture;
    int status = 0;
    model->parts = calloc(capture->count + 1, sizeof *model->parts);
    if (model->parts == NULL) abort();
    for (uint32_t i = 0; i < capture->count; i++) {
        const emu_node *node = &capture->nodes[i];
        emu_part *last = model->part_count > 0 ? &model->parts[model->part_count - 1] : NULL;
        if (node->kind != NODE_TASK) continue; /* nodes are in an order that the events allow */
        if (on_device(node) && last != NULL && last->program != 0) last->count = i + 1 - last->first;
        else model->parts[model->part_count++] = (emu_part){on_device(node) ? PROGRAMS | ++program_ids : 0, i, 1};
    }
    model->incarnation = model->device->incarnation;
    for (uint32_t p = 0; p < model->part_count && status == 0; p++) {
        emu_buffer request = {0};
        if (model->parts[p].program == 0) continue;
        emu_buffer_put(&request, &model->parts[p].program, sizeof model->parts[p].program);
        put_steps(&request, capture, model->parts[p].first, model->parts[p].count);
        status = call_device(model, CALL_PROGRAM, &request);
        emu_buffer_free(&request);
    }
    return status;
}

int emu_model_replace(emu_model *model, uint32_t node) {
    for (uint32_t p = 0; p < model->part_count; p++) {
        const emu_part *part = &model->parts[p];
        if (node < part->first || node >= part->first + part->count) continue;
        uint64_t at = 0;
        for (uint32_t i = part->first; i < node; i++) at += on_device(&model->capture->nodes[i]);
        emu_buffer request = {0};
        emu_buffer_put(&request, &part->program, sizeof part->program);
        emu_buffer_put(&request, &at, sizeof at);
        put_steps(&request, model->capture, node, 1);
        int status = call_device(model, CALL_REPLACE, &request);
        emu_buffer_free(&request);
        return status;
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- execution */

/* A part of a replay in a stream. */
typedef struct {
    emu_task task;
    emu_model *model;
    emu_task *inner;            /* that runs here */
    emu_model_blocks *blocks;   /* pinned; of the last part */
} replay;

static void unpin_blocks(const emu_model_blocks *blocks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) emu_memory_unpin(blocks->uses[i].device, blocks->uses[i].address);
}

static void finish_replay(emu_task *task) {
    replay *part = (replay *)task;
    if (part->blocks != NULL) {
        unpin_blocks(part->blocks, part->blocks->count);
        release_blocks(part->blocks);
        part->model->under_way--;
    }
    emu_object_release(part->model);
    emu_buffer_free(&task->request);
    free(part);
}

static int answer_replay(emu_task *task, int status, emu_buffer *answer) {
    (void)task;
    if (status != 0 && answer->size > 0) {
        emu_buffer_put(answer, "", 1);
        emu_fail_with(status, (const char *)answer->data);
    }
    return status;
}

static int run_replay(emu_task *task, emu_stream *stream) {
    emu_task *inner = ((replay *)task)->inner;
    emu_set_routine(inner->routine);
    return inner->run(inner, stream);
}

/* Whether a model can run. The captures' lock is held. */
static int check_ready(const emu_model *model) {
    if (model->capturing)
        return emu_fail(ACL_ERROR_RT_MODEL_CAPTURED, NULL, "model %u is still captured; aclmdlRICaptureEnd must come first", model->id);
    if (model->broken != NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_USE_AFTER_FREE", "model %u: %s", model->id, model->broken);
    if (model->part_count > 0 && model->incarnation != model->device->incarnation)
        return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_DEVICE_LOST", "the device process has been replaced since model %u was captured",
                        model->id);
    return 0;
}

static int pin_blocks(const emu_model_blocks *blocks) {
    for (uint32_t i = 0; i < blocks->count; i++) {
        const emu_use *use = &blocks->uses[i];
        char name[64];
        snprintf(name, sizeof name, "%s of task %u", use->name, use->node);
        int status = emu_memory_pin(use->device, use->address, use->size, name);
        if (status == 0) continue;
        unpin_blocks(blocks, i);
        return status;
    }
    return 0;
}

/* Queues a replay, which takes over the pinned blocks. */
static int queue_parts(emu_model *model, emu_model_blocks *blocks, emu_stream *stream) {
    int status = 0;
    for (uint32_t p = 0; p < model->part_count; p++) {
        const emu_part *part = &model->parts[p];
        replay *made = calloc(1, sizeof *made);
        if (made == NULL) abort();
        made->task = (emu_task){.finish = finish_replay, .routine = emu_routine()};
        made->model = model;
        if (p + 1 == model->part_count) made->blocks = blocks;
        emu_object_hold(model);
        if (part->program != 0) {
            made->task.answered = answer_replay;
            emu_buffer_put(&made->task.request, &part->program, sizeof part->program);
        } else {
            made->inner = model->capture->nodes[part->first].task;
            made->task.run = run_replay;
            made->task.slow = made->inner->slow;
        }
        int failed = emu_stream_enqueue(stream, &made->task);
        if (status == 0) status = failed;
    }
    return status;
}

static int execute(emu_model *model, emu_stream *stream) {
    if (model->context != stream->context)
        return emu_fail(ACL_ERROR_RT_MODEL_CONTEXT, NULL, "model %u is of another context than this thread's", model->id);
    int status = emu_refuse_captured(stream);
    if (status != 0) return status;
    emu_captures_lock();
    status = check_ready(model);
    emu_model_blocks *blocks = model->blocks;
    if (status == 0 && model->part_count > 0) status = pin_blocks(blocks);
    if (status == 0 && model->part_count > 0) {
        blocks->references++;
        model->under_way++;
    }
    emu_captures_unlock();
    return status != 0 || model->part_count == 0 ? status : queue_parts(model, blocks, stream);
}

API aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream handle) {
    ENTER("aclmdlRIExecuteAsync");
    EMU_HELD emu_model *model = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = emu_stream_acquire(handle, &stream);
    return status != 0 ? status : execute(model, stream);
}

API aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
    ENTER("aclmdlRIExecute");
    EMU_HELD emu_model *model = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = emu_check_timeout(timeout);
    if (status == 0) status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = emu_stream_acquire(NULL, &stream);
    if (status == 0) status = execute(model, stream);
    return status != 0 ? status : emu_stream_wait(stream, timeout);
}

API aclError aclmdlRIDestroy(aclmdlRI modelRI) {
    ENTER_RELEASE("aclmdlRIDestroy");
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status != 0) LEAVE(status);
    emu_captures_lock();
    if (model->capturing)
        status = emu_fail(ACL_ERROR_RT_MODEL_CAPTURED, NULL, "model %u is still captured; aclmdlRICaptureEnd must come first", model->id);
    emu_captures_unlock();
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
    emu_destroy_callback *made = calloc(1, sizeof *made);
    if (made == NULL) abort();
    *made = (emu_destroy_callback){func, userData, NULL};
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status != 0) {
        free(made);
        return status;
    }
    emu_captures_lock();
    emu_destroy_callback **link = &model->callbacks;
    while (*link != NULL) link = &(*link)->next;
    *link = made;
    emu_captures_unlock();
    return 0;
}

API aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
    ENTER("aclmdlRIDestroyUnregisterCallback");
    emu_destroy_callback *removed = NULL;
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
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

__attribute__((constructor)) static void at_start(void) { emu_when_freed = when_freed; }
