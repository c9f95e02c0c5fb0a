/* Conditional tasks: a value in device memory decides, at each execution, which other models run. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/model/model.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------------------------------------------------- life */

const emu_model *emu_model_open_branch(const emu_model *model) {
    for (uint32_t c = 0; c < model->condition_count; c++) {
        const emu_condition *condition = model->conditions[c];
        for (uint32_t i = 0; i < condition->branch_count; i++) {
            const emu_model *branch = condition->branches[i];
            if (branch->capture == NULL || branch->capturing || branch->capture->invalid) return branch;
        }
    }
    return NULL;
}

static int add_condition(emu_model *model, uint32_t initial, bool resets, aclmdlRICondHandle *handle) {
    void *address = NULL;
    int status = emu_memory_reserve(model->device, sizeof(uint64_t), 0, &address);
    if (status != 0) return status;
    emu_condition *condition = calloc(1, sizeof *condition);
    if (condition == NULL) abort();
    *condition = (emu_condition){.base.references = 1, .model = model, .value = address, .initial = initial, .resets = resets};
    if (emu_validates()) emu_validate_written(address, sizeof(uint64_t));
    atomic_store(condition->value, 0);
    if (emu_object_new(KIND_CONDITION, condition, emu_model_free_condition) == NULL) {
        emu_object_release(condition);
        emu_memory_free(model->device, address);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    emu_handle_hide(condition->base.handle); /* it goes with its model */
    emu_captures_lock();
    emu_condition **more = realloc(model->conditions, (model->condition_count + 1) * sizeof *more);
    if (more == NULL) abort();
    model->conditions = more;
    model->conditions[model->condition_count++] = condition;
    emu_captures_unlock();
    *handle = condition->base.handle;
    return 0;
}

API aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue, aclmdlRICondHandleFlag flag, aclmdlRICondHandle *handle) {
    ENTER("aclmdlRICondHandleCreate");
    EMU_HELD emu_model *model = NULL;
    emu_context *context;
    if (handle == NULL) return emu_null_parameter("handle");
    int status = emu_model_acquire(modelRI, &model);
    if (status != 0) return status;
    if ((unsigned)flag > ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is %d; allowed: 0 and 1 (ASSIGN_DEFAULT)", (int)flag);
    emu_captures_lock();
    if (model->capture != NULL && model->capture->by_hand)
        status = emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "model %u is not captured, but built by aclmdlRIBuildBegin", model->id);
    else if (!model->capturing || model->capture->invalid)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "model %u is not captured now; conditions are made during its capture", model->id);
    emu_captures_unlock();
    if (status == 0) status = emu_current_context(&context);
    if (status == 0 && model->context != context)
        status = emu_fail(ACL_ERROR_RT_MODEL_CONTEXT, NULL, "model %u is of another context than this thread's", model->id);
    return status != 0 ? status : add_condition(model, defaultLaunchValue, flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, handle);
}

API aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr) {
    ENTER("aclmdlRICondHandleGetCondPtr");
    int status;
    if (handle == NULL || ptr == NULL) return emu_null_parameter(handle == NULL ? "handle" : "ptr");
    EMU_HELD emu_condition *condition = emu_object_acquire(handle, KIND_CONDITION, &status);
    if (condition != NULL) *ptr = (uint64_t *)condition->value;
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ execution */

typedef struct {
    emu_task task;
    const emu_condition *condition; /* of the model that has the task */
} condition_task;

static void finish_condition(emu_task *task) { free(task); }

static int run_condition(emu_task *task, emu_stream *stream) {
    const emu_condition *condition = ((condition_task *)task)->condition;
    uint64_t value = atomic_load(condition->value);
    int status = 0;
    if (condition->type == ACL_MODEL_RI_COND_TYPE_WHILE) {
        while (status == 0 && value != 0 && !emu_stream_drops(stream)) {
            status = emu_model_run(condition->branches[0], stream);
            value = atomic_load(condition->value);
        }
        return status;
    }
    uint64_t chosen = condition->type == ACL_MODEL_RI_COND_TYPE_SWITCH ? value : value == 0;
    return chosen < condition->branch_count ? emu_model_run(condition->branches[chosen], stream) : 0;
}

/* -------------------------------------------------------------------------------------------------------------- capture */

static int check_count(aclmdlRICondTaskType type, uint32_t size) {
    static const char *const allowed[] = {"IF needs 1 or 2", "WHILE needs 1", "SWITCH needs 1 or more"};
    bool right = size > 0 && (type == ACL_MODEL_RI_COND_TYPE_SWITCH || size <= (type == ACL_MODEL_RI_COND_TYPE_IF ? 2u : 1u));
    return right ? 0 : emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %u; %s", size, allowed[type]);
}

/* The captures' lock is held. */
static int check_condition(const emu_condition *condition, const emu_stream *stream) {
    const emu_capture *capture = stream->capture;
    if (condition->branch_count > 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the condition has a task already; each task needs a condition of its own");
    if (capture == NULL || capture->by_hand)
        return emu_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, NULL, "stream %d is not captured; conditional tasks are added during a capture", stream->id);
    if (capture != condition->model->capture)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the condition is of model %u, the capture of stream %d of model %u",
                        condition->model->id, stream->id, capture->model);
    return 0;
}

static int make_branches(emu_condition *condition, uint32_t count, aclmdlRI *handles) {
    emu_model *parent = condition->model, **branches = calloc(count, sizeof *branches);
    int status = 0;
    uint32_t ready = 0;
    if (branches == NULL) abort();
    for (; ready < count && status == 0; ready++) {
        status = emu_model_new(parent->context, &branches[ready]);
        if (status != 0) break;
        emu_handle_hide(branches[ready]->base.handle);
        branches[ready]->parent = parent;
    }
    for (uint32_t i = 0; i < count; i++) handles[i] = status == 0 ? branches[i]->base.handle : NULL;
    if (status == 0) {
        emu_captures_lock();
        condition->branches = branches;
        condition->branch_count = count;
        emu_captures_unlock();
        return 0;
    }
    for (uint32_t i = 0; i < ready; i++) {
        emu_model_drop(branches[i]);
        emu_object_release(branches[i]);
    }
    free(branches);
    return status;
}

API aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream handle, uint32_t flags) {
    ENTER("aclmdlRIAddCondTask");
    EMU_HELD emu_stream *stream = NULL;
    int status;
    if (handle == NULL) return emu_null_parameter("stream");
    if ((unsigned)params.type > ACL_MODEL_RI_COND_TYPE_SWITCH)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "params.type is %d; allowed: 0 (IF), 1 (WHILE) and 2 (SWITCH)", (int)params.type);
    if (flags != 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flags is %u; allowed: 0", flags);
    if (params.handle == NULL || params.modelRIArray == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "params.%s is a null pointer", params.handle == NULL ? "handle" : "modelRIArray");
    EMU_HELD emu_condition *condition = emu_object_acquire(params.handle, KIND_CONDITION, &status);
    if (condition != NULL) status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    emu_captures_lock();
    status = check_condition(condition, stream);
    if (status == 0) status = check_count(params.type, params.size);
    emu_captures_unlock();
    if (status != 0) return status;
    condition->type = params.type;
    status = make_branches(condition, params.size, params.modelRIArray);
    if (status != 0) return status;
    condition_task *item = calloc(1, sizeof *item);
    if (item == NULL) abort();
    item->task = (emu_task){.run = run_condition, .slow = true, .finish = finish_condition, .describe = emu_describe_nothing, .routine = emu_routine()};
    item->condition = condition;
    return emu_stream_enqueue(stream, &item->task);
}
