/* Executions of models: what the device process keeps of them, and the tasks of a replay. */
#include "ascendcl/model/model.h"

#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/validate/call_site.h"
#include "ascendcl/validate/validate.h"

#include <stdlib.h>
#include <string.h>

#define PROGRAMS (1ull << 62) /* numbers from here on are those of programs; lower ones belong to plans */
#define PATIENCE 100          /* milliseconds after which a waiting replay looks whether it is dropped */

static _Atomic uint64_t program_ids;

/* --------------------------------------------------------------------------------------------------------------- parts */

/*
 * Where no task can wait for another one, the nodes run one after the other in the stream that executes the model: they are in an
 * order that the events allow. Otherwise (collectives, waits for values, host functions) each stream of the model has its own
 * nodes, and an emu_stream to run them in; the first one of a captured model is the stream that executes it.
 */

static bool on_device(const emu_node *node) { return node->captured.step.size > 0; }

static bool may_wait(const emu_capture *capture) {
    for (uint32_t i = 0; i < capture->count; i++) {
        const emu_node *node = &capture->nodes[i];
        if (node->captured.waits || (node->kind == NODE_TASK && node->task->slow)) return true;
    }
    return false;
}

static uint32_t lane_of(const emu_model *model, const emu_node *node) { return model->apart ? node->lane : 0; }

static bool belongs(const emu_model *model, const emu_part *part, uint32_t node) {
    const emu_node *n = &model->capture->nodes[node];
    return n->kind == NODE_TASK && on_device(n) && lane_of(model, n) == part->lane;
}

/* Of each step its length in words, and the words. */
static void put_step(emu_buffer *request, const emu_node *node) {
    const uint64_t nothing[] = {1, STEP_SKIP};
    const emu_buffer *step = &node->captured.step;
    if (node->disabled) {
        emu_buffer_put(request, nothing, sizeof nothing);
        return;
    }
    uint64_t words = step->size / sizeof(uint64_t);
    emu_buffer_put(request, &words, sizeof words);
    emu_buffer_put(request, step->data, step->size);
}

static int call_device(emu_model *model, uint32_t call, const emu_buffer *request) {
    emu_buffer answer = {0};
    int status = emu_link_call(model->device, call, request, &answer);
    (void)emu_link_message(status, &answer);
    emu_buffer_free(&answer);
    return status;
}

/* Divides the nodes into parts. */
static void find_parts(emu_model *model) {
    const emu_capture *capture = model->capture;
    uint32_t *open = calloc(capture->lane_count + 1, sizeof *open); /* of each lane, from 1 on: a program that can grow */
    model->parts = calloc(capture->count + 1, sizeof *model->parts);
    if (open == NULL || model->parts == NULL) abort();
    for (uint32_t i = 0; i < capture->count; i++) {
        const emu_node *node = &capture->nodes[i];
        uint32_t lane = lane_of(model, node);
        bool device = node->kind == NODE_TASK && on_device(node);
        if (node->kind != NODE_TASK && !model->apart) continue;
        if (device && open[lane] != 0) {
            model->parts[open[lane] - 1].last = i;
            continue;
        }
        model->parts[model->part_count++] = (emu_part){device ? PROGRAMS | ++program_ids : 0, lane, i, i};
        open[lane] = device ? model->part_count : 0;
    }
    free(open);
}

int emu_model_build(emu_model *model) {
    int status = 0;
    bool private_streams = model->capture->by_hand || model->parent != NULL; /* one for each lane */
    model->apart = private_streams || (model->capture->lane_count > 1 && may_wait(model->capture));
    find_parts(model);
    if (model->apart) status = emu_model_make_streams(model, private_streams);
    model->incarnation = model->device->incarnation;
    for (uint32_t p = 0; p < model->part_count && status == 0; p++) {
        const emu_part *part = &model->parts[p];
        emu_buffer request = {0};
        if (part->program == 0) continue;
        emu_buffer_put(&request, &part->program, sizeof part->program);
        for (uint32_t i = part->first; i <= part->last; i++) {
            if (belongs(model, part, i)) put_step(&request, &model->capture->nodes[i]);
        }
        status = call_device(model, CALL_PROGRAM, &request);
        emu_buffer_free(&request);
    }
    return status;
}

int emu_model_replace(emu_model *model, uint32_t node) {
    for (uint32_t p = 0; p < model->part_count; p++) {
        const emu_part *part = &model->parts[p];
        if (part->program == 0 || node < part->first || node > part->last || !belongs(model, part, node)) continue;
        uint64_t at = 0;
        for (uint32_t i = part->first; i < node; i++) at += belongs(model, part, i);
        emu_buffer request = {0};
        emu_buffer_put(&request, &part->program, sizeof part->program);
        emu_buffer_put(&request, &at, sizeof at);
        put_step(&request, &model->capture->nodes[node]);
        int status = call_device(model, CALL_REPLACE, &request);
        emu_buffer_free(&request);
        return status;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ tasks of a replay */

typedef struct {
    emu_task task;
    emu_model *model;           /* a reference */
    uint32_t node;              /* whose task runs here */
    emu_stream *awaited;        /* a reference, or NULL */
    bool last;                  /* of the replay */
    uint32_t aborts;            /* of the model, when it was executed */
    emu_clock *clock;           /* of --validate: what has passed when a function of the host is called; NULL: not known */
} replay;

static void finish_replay(emu_task *task) {
    replay *item = (replay *)task;
    if (item->last) item->model->under_way--;
    if (item->clock != NULL) emu_validate_host_function(false);
    free(item->clock);
    emu_object_release(item->awaited);
    emu_object_release(item->model); /* the request is a part of it */
    free(item);
}

static replay *new_task(emu_model *model) {
    replay *item = calloc(1, sizeof *item);
    if (item == NULL) abort();
    item->task = (emu_task){.finish = finish_replay, .routine = emu_routine()};
    item->model = model;
    emu_object_hold(model);
    return item;
}

static int answer_replay(emu_task *task, int status, emu_buffer *answer) {
    (void)task;
    return emu_link_message(status, answer);
}

static int run_node(emu_task *task, emu_stream *stream) {
    const replay *item = (replay *)task;
    const emu_node *node = &item->model->capture->nodes[item->node];
    if (node->disabled) return 0;
    if (node->captured.calls_host && emu_validates()) emu_host_passed(item->clock);
    emu_set_routine(node->task->routine);
    return node->task->run(node->task, stream);
}

/* For profilers: what a part runs, a step of its program each. */
static void note_part(const emu_model *model, const emu_part *part, emu_task *task, const emu_stream *stream) {
    uint32_t many = 0;
    emu_activity_call *parts = emu_activity_observed() ? calloc(part->last - part->first + 1, sizeof *parts) : NULL;
    if (parts == NULL) return;
    for (uint32_t i = part->first; i <= part->last; i++) {
        const emu_node *node = &model->capture->nodes[i];
        if (!belongs(model, part, i)) continue;
        const uint64_t *step = (const uint64_t *)(const void *)node->captured.step.data;
        emu_activity_call *call = &parts[many++];
        call->name = node->routine;
        call->kind = node->disabled ? ACTIVITY_REPLAY : *step == STEP_COPY ? ACTIVITY_COPY : *step == STEP_FILL ? ACTIVITY_SET : ACTIVITY_KERNEL;
        if (call->kind == ACTIVITY_KERNEL && strncmp(node->routine, "Hccl", 4) == 0) {
            call->kind = ACTIVITY_COLLECTIVE;
            call->detail = UINT64_MAX; /* the type, which the step does not say */
        }
        if (call->kind == ACTIVITY_COPY || call->kind == ACTIVITY_SET) call->bytes = step[2];
        if (call->kind == ACTIVITY_COPY) call->detail = ACL_MEMCPY_DEVICE_TO_DEVICE;
        if (call->kind == ACTIVITY_SET) call->detail = step[3];
    }
    task->correlation = emu_activity_replay(parts, many, (uint32_t)stream->device->id, (uint32_t)stream->id);
    free(parts);
}

static replay *make_part(emu_model *model, emu_part *part, const emu_stream *stream) {
    replay *item = new_task(model);
    if (part->program != 0) {
        note_part(model, part, &item->task, stream);
        item->task.answered = answer_replay;
        item->task.request = (emu_buffer){.data = (uint8_t *)&part->program, .size = sizeof part->program};
    } else {
        item->node = part->first;
        item->task.run = run_node;
        item->task.slow = model->capture->nodes[part->first].task->slow;
        if (model->clocks != NULL) item->clock = atomic_exchange(&model->clocks[part->first], NULL);
    }
    return item;
}

static int queue_wait(emu_model *model, emu_stream *stream, emu_stream *awaited, uint64_t until, uint64_t *sequence) {
    replay *item = new_task(model);
    item->task.quiet = true;
    item->task.awaited = item->awaited = awaited;
    item->task.until = until;
    emu_object_hold(awaited);
    return emu_stream_queue(stream, &item->task, sequence);
}

/* Returns an error of the model's streams, once. */
static int take_error(emu_model *model, uint32_t aborts) {
    int status = 0;
    for (uint32_t i = 0; i < model->capture->lane_count && status == 0; i++) {
        if (model->streams[i] != NULL) status = emu_stream_take_error(model->streams[i]);
    }
    if (status == 0 && model->aborts != aborts)
        status = emu_fail(ACL_ERROR_RT_MODEL_ABORT_NORMAL, NULL, "aclmdlRIAbort has ended the execution of model %u", model->id);
    return status;
}

/* Ends a replay in several streams: their errors become those of the stream that executed the model. */
static int run_end(emu_task *task, emu_stream *stream) {
    (void)stream;
    const replay *item = (replay *)task;
    return take_error(item->model, item->aborts);
}

static void reset_conditions(const emu_model *model) {
    for (uint32_t c = 0; c < model->condition_count; c++) {
        const emu_condition *condition = model->conditions[c];
        if (condition->resets) atomic_store(condition->value, condition->initial);
        for (uint32_t i = 0; i < condition->branch_count; i++) reset_conditions(condition->branches[i]);
    }
}

/* Conditions begin with their default values, those of branches too. */
static int run_begin(emu_task *task, emu_stream *stream) {
    (void)stream;
    reset_conditions(((replay *)task)->model);
    return 0;
}

/* Lets the streams of a model run where they are deferred, once all tasks of the replay are queued. */
static int run_release(emu_task *task, emu_stream *stream) {
    (void)stream;
    emu_model *model = ((replay *)task)->model;
    pthread_mutex_lock(&model->queueing);
    for (uint32_t i = 0; i < model->capture->lane_count; i++) {
        if (model->streams[i] != NULL) emu_stream_let_run(model->streams[i], model->last[i]);
    }
    pthread_mutex_unlock(&model->queueing);
    return 0;
}

/* Queues the parts in the streams of the model. `stream` executes the model, and has the first one's parts where that has none of its
 * own; NULL: the caller waits. model->last: the last task in each. model->queueing is locked. */
static int queue_apart(emu_model *model, emu_stream *stream) {
    const emu_capture *capture = model->capture;
    uint64_t *recorded = calloc(capture->count + 1, sizeof *recorded), start = 0;
    emu_stream **streams = calloc(capture->lane_count + 1, sizeof(emu_stream *));
    if (recorded == NULL || streams == NULL) abort();
    int status = 0;
    if (stream != NULL && emu_config()->streams == STREAMS_DEFERRED) {
        replay *item = new_task(model);
        item->task.run = run_release;
        item->task.slow = true; /* it waits for this thread */
        status = emu_stream_queue(stream, &item->task, &start);
    } else if (stream != NULL) {
        start = emu_stream_last(stream);
    }
    for (uint32_t i = 0; i < capture->lane_count && status == 0; i++) {
        streams[i] = model->streams[i] != NULL ? model->streams[i] : stream;
        model->last[i] = streams[i] == stream ? start : 0;
        if (stream != NULL && streams[i] != stream) status = queue_wait(model, streams[i], stream, start, &model->last[i]);
    }
    for (uint32_t p = 0; p < model->part_count && status == 0; p++) {
        emu_part *part = &model->parts[p];
        const emu_node *node = &capture->nodes[part->first];
        uint64_t *last = &model->last[part->lane];
        if (node->kind == NODE_RECORD) recorded[part->first] = *last;
        else if (node->kind == NODE_TASK) status = emu_stream_queue(streams[part->lane], &make_part(model, part, streams[part->lane])->task, last);
        else if (!node->disabled && capture->nodes[node->recorded].lane != part->lane)
            status = queue_wait(model, streams[part->lane], streams[capture->nodes[node->recorded].lane], recorded[node->recorded], last);
    }
    free(recorded);
    free(streams);
    return status;
}

static int queue_replay(emu_model *model, emu_stream *stream) {
    int status = 0, failed;
    uint64_t sequence = 0;
    uint32_t aborts = model->aborts;
    if (model->condition_count > 0) {
        replay *item = new_task(model);
        item->task.run = run_begin;
        status = emu_stream_queue(stream, &item->task, &sequence);
    }
    if (model->apart) {
        pthread_mutex_lock(&model->queueing);
        failed = queue_apart(model, stream);
        if (status == 0) status = failed;
        for (uint32_t i = 0; i < model->capture->lane_count; i++) {
            if (model->streams[i] == NULL || model->last[i] == 0) continue;
            failed = queue_wait(model, stream, model->streams[i], model->last[i], &sequence);
            if (status == 0) status = failed;
        }
        replay *item = new_task(model);
        item->task.run = run_end;
        item->aborts = aborts;
        item->last = true;
        failed = emu_stream_queue(stream, &item->task, &sequence);
        pthread_mutex_unlock(&model->queueing);
        if (status == 0) status = failed;
    } else {
        for (uint32_t p = 0; p < model->part_count; p++) {
            replay *item = make_part(model, &model->parts[p], stream);
            item->last = p + 1 == model->part_count;
            failed = emu_stream_queue(stream, &item->task, &sequence);
            if (status == 0) status = failed;
        }
    }
    if (status == 0) emu_stream_queued(stream, sequence);
    return status;
}

int emu_model_run(emu_model *model, emu_stream *stream) {
    uint32_t aborts = model->aborts, lanes = model->capture->lane_count;
    pthread_mutex_lock(&model->queueing); /* also while it runs: one execution after the other */
    int status = queue_apart(model, NULL);
    for (uint32_t i = 0; i < lanes && status == 0; i++) emu_stream_let_run(model->streams[i], model->last[i]);
    for (uint32_t i = 0; i < lanes && status == 0; i++) {
        while (!emu_stream_wait_for(model->streams[i], model->last[i], PATIENCE)) {
            if (!emu_stream_drops(stream)) continue;
            for (uint32_t lane = 0; lane < lanes; lane++) emu_stream_abort(model->streams[lane]);
        }
    }
    pthread_mutex_unlock(&model->queueing);
    return status != 0 ? status : take_error(model, aborts);
}

/* ----------------------------------------------------------------------------------------------------------- execution */

static int check_memory(const emu_model *model) {
    int status = 0;
    if (model->broken != NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_USE_AFTER_FREE", "model %u: %s", model->id, model->broken);
    for (uint32_t c = 0; c < model->condition_count; c++) {
        for (uint32_t i = 0; i < model->conditions[c]->branch_count && status == 0; i++) status = check_memory(model->conditions[c]->branches[i]);
    }
    return status;
}

/* Whether a model can run. The captures' lock is held. */
static int check_ready(const emu_model *model) {
    if (model->parent != NULL) return emu_refuse_branch(model, "it runs only with that");
    if (model->capturing && model->capture->by_hand)
        return emu_fail(ACL_ERROR_RT_MODEL_EXECUTE, NULL, "model %u is still built; aclmdlRIEndTask and aclmdlRIBuildEnd must come first", model->id);
    if (model->capturing)
        return emu_fail(ACL_ERROR_RT_MODEL_CAPTURED, NULL, "model %u is still captured; aclmdlRICaptureEnd must come first", model->id);
    if (model->state != MODEL_READY)
        return emu_fail(ACL_ERROR_RT_MODEL_EXECUTE, NULL, "tasks of model %u have been changed%s", model->id,
                        model->state == MODEL_UPDATING ? "; aclmdlRIUpdate must come first" : ", and a change has failed");
    int status = check_memory(model);
    if (status != 0) return status;
    if (model->part_count > 0 && model->incarnation != model->device->incarnation)
        return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_DEVICE_LOST", "the device process has been replaced since model %u was captured",
                        model->id);
    return 0;
}

/* What a task uses whose accesses are not known. */
static void count_task_as_written(const emu_captured *captured) {
    for (uint32_t use = 0; use < captured->use_count; use++) emu_validate_used(captured->uses[use].address, captured->uses[use].size);
}

/* What a model uses whose accesses are not known one by one. */
static void count_as_written(const emu_model *model) {
    const emu_capture *capture = model->capture;
    for (uint32_t i = 0; capture != NULL && i < capture->count; i++) count_task_as_written(&capture->nodes[i].captured);
    for (uint32_t c = 0; c < model->condition_count; c++) {
        for (uint32_t i = 0; i < model->conditions[c]->branch_count; i++) count_as_written(model->conditions[c]->branches[i]);
    }
}

/* The timelines of the lanes where a stream executes the model. model->queueing is locked. */
static const uint32_t *timelines_of(emu_model *model, const emu_stream *stream) {
    const emu_capture *capture = model->capture;
    for (uint32_t e = 0; e < model->execution_count; e++) {
        if (model->executions[e].timeline == stream->timeline) return model->executions[e].lanes;
    }
    model->executions = realloc(model->executions, (model->execution_count + 1) * sizeof *model->executions);
    uint32_t *lanes = calloc(capture->lane_count + 1, sizeof *lanes);
    if (model->executions == NULL || lanes == NULL) abort();
    for (uint32_t i = 0; i < capture->lane_count; i++) lanes[i] = emu_timeline_new(capture->lanes[i].id);
    model->executions[model->execution_count++] = (emu_execution){stream->timeline, lanes};
    return lanes;
}

/* Whether a task of a group is one that other threads may replace at any time: then all that it uses counts as written. */
static bool may_be_replaced(const emu_captured *captured) {
    emu_captures_lock();
    bool replaceable = captured->order == NULL && !captured->calls_host;
    if (replaceable) count_task_as_written(captured);
    emu_captures_unlock();
    return replaceable;
}

static void validate_node(emu_model *model, const emu_node *node, uint32_t number, uint32_t lane, emu_clock **recorded) {
    const emu_captured *captured = &node->captured;
    if (node->kind == NODE_RECORD) {
        recorded[number] = emu_clock_of(lane);
    } else if (node->kind == NODE_WAIT) {
        emu_timeline_waits(lane, recorded[node->recorded]);
    } else if (node->group != 0 && may_be_replaced(captured)) {
        return;
    } else if (captured->calls_host) {
        free(atomic_exchange(&model->clocks[number], emu_clock_of(lane)));
        emu_validate_host_function(true);
    } else if (captured->accesses != NULL || captured->order != NULL) {
        if (captured->accesses != NULL)
            emu_validate_communication(lane, captured->kernel != NULL ? captured->kernel : node->routine, captured->site, captured->accesses,
                                       captured->access_count, captured->exchanges, captured->exchange_count);
        if (captured->order != NULL) captured->order(node->task, captured, lane);
    } else if (node->task->slow) {
        emu_timeline_waits(lane, NULL); /* for something that is not known */
    }
}

/* The accesses of a replay: each stream of the capture is a timeline, whatever the emulated device makes of it. */
static void validate_replay(emu_model *model, const emu_stream *stream) {
    const emu_capture *capture = model->capture;
    uint32_t count = capture->lane_count;
    emu_clock *begin = emu_clock_of(stream->timeline), **recorded = calloc(capture->count + 1, sizeof(emu_clock *));
    pthread_mutex_lock(&model->queueing);
    const uint32_t *lanes = timelines_of(model, stream);
    if (model->clocks == NULL) model->clocks = calloc(capture->count + 1, sizeof *model->clocks);
    if (recorded == NULL || model->clocks == NULL) abort();
    for (uint32_t i = 0; i < count; i++) emu_timeline_waits(lanes[i], begin);
    for (uint32_t i = 0; i < capture->count; i++) {
        const emu_node *node = &capture->nodes[i];
        emu_waiting_as(node->captured.call);
        if (!node->disabled) validate_node(model, node, i, lanes[node->lane], recorded);
    }
    emu_waiting_as(0);
    for (uint32_t i = 0; i < count; i++) {
        emu_clock *end = emu_clock_of(lanes[i]);
        emu_timeline_waits(stream->timeline, end);
        free(end);
    }
    if (model->condition_count > 0) emu_timeline_waits(stream->timeline, NULL); /* what a branch does is not compared */
    pthread_mutex_unlock(&model->queueing);
    for (uint32_t i = 0; i < capture->count; i++) free(recorded[i]);
    free(recorded);
    free(begin);
}

static int execute(emu_model *model, emu_stream *stream) {
    if (model->context != stream->context)
        return emu_fail(ACL_ERROR_RT_MODEL_CONTEXT, NULL, "model %u is of another context than this thread's", model->id);
    if (stream->model != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "stream %d is one of model %u; use another one", stream->id, stream->model);
    int status = emu_refuse_captured(stream);
    if (status != 0) return status;
    emu_captures_lock();
    status = check_ready(model);
    bool empty = model->part_count == 0;
    if (status == 0 && !empty) model->under_way++;
    emu_captures_unlock();
    if (status != 0 || empty) return status;
    if (emu_validates()) {
        validate_replay(model, stream);
        if (model->condition_count > 0) count_as_written(model);
    }
    uint64_t correlation = emu_activity_begin(ACTIVITY_REPLAY, emu_routine(), 0, 0, NULL);
    status = queue_replay(model, stream);
    emu_activity_end(correlation, status);
    return status;
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
