/* The streams and tasks of a captured graph, one by one: what they are, and changes of them. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/memory/stream_memory.h"
#include "ascendcl/model/model.h"

#include <stdlib.h>

/* A graph has streams of its own, as in CANN; those that were captured go on without it. */

API aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream *streams, uint32_t *numStreams) {
    ENTER("aclmdlRIGetStreams");
    EMU_HELD emu_model *model = NULL;
    if (modelRI == NULL || numStreams == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%s is a null pointer", modelRI == NULL ? "modelRI" : "numStreams");
    int status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = emu_refuse_branch(model, "its streams are not given out");
    if (status == 0) status = emu_check_current_model(model);
    if (status != 0) return status;
    emu_captures_lock();
    uint32_t room = *numStreams, count = model->capture->lane_count;
    bool capturing = model->capturing, by_hand = model->capture->by_hand;
    emu_captures_unlock();
    if (capturing && !by_hand)
        return emu_fail(ACL_ERROR_RT_MODEL_CAPTURED, NULL, "model %u is still captured; aclmdlRICaptureEnd must come first", model->id);
    if (streams == NULL) {
        *numStreams = count;
        return 0;
    }
    status = by_hand ? 0 : emu_model_make_streams(model, true);
    if (status != 0) return status;
    for (uint32_t i = 0; i < room; i++) {
        if (i >= count) streams[i] = NULL;
        else streams[i] = by_hand ? model->capture->lanes[i].handle : model->streams[i]->base.handle;
    }
    *numStreams = room < count ? room : count;
    if (room >= count) return 0;
    return emu_fail(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, NULL, "numStreams is %u; model %u has %u stream(s)", room, model->id, count);
}

/* ----------------------------------------------------------------------------------------------------------- the tasks */

/* The handle of a node, which may be new. The captures' lock is held. */
static aclmdlRITask task_of(emu_model *model, uint32_t node) {
    for (uint32_t i = 0; i < model->task_count; i++) {
        if (model->tasks[i]->node == node) return model->tasks[i]->base.handle;
    }
    emu_model_task *item = calloc(1, sizeof *item), **more = realloc(model->tasks, (model->task_count + 1) * sizeof *more);
    if (item == NULL || more == NULL) abort();
    model->tasks = more;
    *item = (emu_model_task){.base.references = 1, .model = model, .node = node}; /* the model's */
    if (emu_object_new(KIND_MODEL_TASK, item, free) == NULL) {
        emu_object_release(item);
        return NULL;
    }
    emu_handle_hide(item->base.handle); /* it goes with its model */
    model->tasks[model->task_count++] = item;
    return item->base.handle;
}

API aclError aclmdlRIGetTasksByStream(aclrtStream handle, aclmdlRITask *tasks, uint32_t *numTasks) {
    ENTER("aclmdlRIGetTasksByStream");
    EMU_HELD emu_stream *stream = NULL;
    EMU_HELD emu_model *model = NULL;
    uint32_t lane, count = 0;
    if (handle == NULL || numTasks == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%s is a null pointer", handle == NULL ? "stream" : "numTasks");
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    model = emu_model_of_stream(stream, &lane);
    if (model == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "stream %d belongs to no model; aclmdlRIGetStreams gives those that do", stream->id);
    emu_captures_lock();
    for (uint32_t i = 0; i < model->capture->count && status == 0; i++) {
        if (model->capture->nodes[i].lane != lane) continue;
        if (tasks != NULL && count < *numTasks && (tasks[count] = task_of(model, i)) == NULL) status = ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
        count++;
    }
    emu_captures_unlock();
    if (status != 0) return status;
    uint32_t room = tasks != NULL ? *numTasks : count;
    for (uint32_t i = count; i < room; i++) tasks[i] = NULL;
    *numTasks = room < count ? room : count;
    if (room >= count) return 0;
    return emu_fail(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, NULL, "numTasks is %u; stream %d has %u task(s)", room, stream->id, count);
}

/* A task by its handle, with a reference to its model. */
static int acquire_task(aclmdlRITask handle, emu_model **model, emu_node **node, uint32_t *number) {
    int status;
    if (handle == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "task is a null pointer");
    emu_table_lock();
    const emu_model_task *task = emu_object_borrow(handle, KIND_MODEL_TASK, &status);
    if (task != NULL) {
        *model = task->model;
        *number = task->node;
        emu_object_hold(*model);
    }
    emu_table_unlock();
    if (task != NULL) *node = &(*model)->capture->nodes[*number];
    return status;
}

API aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type) {
    ENTER("aclmdlRITaskGetType");
    EMU_HELD emu_model *model = NULL;
    emu_node *node;
    uint32_t number;
    if (type == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "type is a null pointer");
    int status = acquire_task(task, &model, &node, &number);
    if (status == 0) *type = node->captured.type;
    return status;
}

API aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id) {
    ENTER("aclmdlRITaskGetSeqId");
    EMU_HELD emu_model *model = NULL;
    emu_node *node;
    uint32_t number;
    if (id == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "id is a null pointer");
    int status = acquire_task(task, &model, &node, &number);
    if (status == 0 && model->capture->by_hand)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "model %u is not captured, but built by aclmdlRIBuildBegin", model->id);
    if (status == 0) *id = number;
    return status;
}

static int no_kernel(const emu_node *node, uint32_t number) {
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_NOT_SUPPORTED",
                    "task %u, %s, has no kernel here, and no kernel's arguments; a task group (aclmdlRICaptureTaskGrpBegin) can replace it", number,
                    node->routine);
}

static aclrtTaskGrp group_of(const emu_model *model, const emu_node *node) {
    for (uint32_t i = 0; i < model->group_count; i++) {
        if (node->group != 0 && model->groups[i]->number == node->group) return model->groups[i]->base.handle;
    }
    return NULL;
}

API aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params) {
    ENTER("aclmdlRITaskGetParams");
    EMU_HELD emu_model *model = NULL;
    emu_node *node;
    uint32_t number;
    if (params == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "params is a null pointer");
    int status = acquire_task(task, &model, &node, &number);
    if (status != 0) return status;
    const emu_captured *captured = &node->captured;
    uint32_t external = (captured->event_flags & ACL_EVENT_EXTERNAL) != 0;
    emu_captures_lock();
    *params = (aclmdlRITaskParams){.type = captured->type, .taskGrp = group_of(model, node)};
    switch (captured->type) {
        case ACL_MODEL_RI_TASK_EVENT_RECORD:
            params->eventRecordTaskParams = (aclmdlRIEventRecordTaskParams){captured->event, captured->event_flags, external};
            break;
        case ACL_MODEL_RI_TASK_EVENT_WAIT:
            params->eventWaitTaskParams = (aclmdlRIEventWaitTaskParams){captured->event, captured->event_flags, external};
            break;
        case ACL_MODEL_RI_TASK_EVENT_RESET:
            params->eventResetTaskParams = (aclmdlRIEventResetTaskParams){captured->event, captured->event_flags, external};
            break;
        case ACL_MODEL_RI_TASK_VALUE_WRITE: {
            emu_value_access access = emu_value_read(node->task);
            params->valueWriteTaskParams = (aclmdlRIValueWriteTaskParams){access.address, access.value};
            break;
        }
        case ACL_MODEL_RI_TASK_VALUE_WAIT: {
            emu_value_access access = emu_value_read(node->task);
            params->valueWaitTaskParams = (aclmdlRIValueWaitTaskParams){access.address, access.value, access.flag};
            break;
        }
        case ACL_MODEL_RI_TASK_KERNEL:
            status = no_kernel(node, number);
            break;
        default:
            status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "task %u, %s, is of type DEFAULT, which has no parameters", number, node->routine);
    }
    emu_captures_unlock();
    return status;
}

/* ------------------------------------------------------------------------------------------------------------- changes */

/* Whether tasks can be changed now. */
static int check_changeable(emu_model *model) {
    if (model->capture->by_hand)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "model %u is not captured, but built by aclmdlRIBuildBegin", model->id);
    if (model->under_way > 0) emu_streams_poll(model->device);
    if (model->under_way == 0 && !model->capturing && model->state != MODEL_FAULTY) return 0;
    return emu_fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, NULL, "model %u %s", model->id,
                    model->under_way > 0 ? "runs; synchronize its stream first" : model->capturing ? "is still captured" : "has a task whose change has failed");
}

static int change_value(emu_model *model, emu_node *node, uint32_t number, const aclmdlRITaskParams *params) {
    bool waits = params->type == ACL_MODEL_RI_TASK_VALUE_WAIT;
    emu_value_access access = waits ? (emu_value_access){params->valueWaitTaskParams.devAddr, params->valueWaitTaskParams.value, params->valueWaitTaskParams.flag}
                                    : (emu_value_access){params->valueWriteTaskParams.devAddr, params->valueWriteTaskParams.value, 0};
    int status = emu_value_check(access.address, access.flag);
    if (status == 0) status = emu_memory_check(model->device, access.address, sizeof(uint64_t), "devAddr", 0);
    if (status != 0) return status;
    emu_value_change(node->task, &access);
    node->captured.uses[0].address = access.address;
    if (model->broken != NULL && model->broken_node == number) {
        free(model->broken);
        model->broken = NULL;
    }
    return 0;
}

/* The captures' lock is held. */
static int change_task(emu_model *model, emu_node *node, uint32_t number, const aclmdlRITaskParams *params) {
    if (params->type == ACL_MODEL_RI_TASK_KERNEL && node->captured.type == ACL_MODEL_RI_TASK_KERNEL) return no_kernel(node, number);
    model->state = MODEL_UPDATING;
    bool value = params->type == ACL_MODEL_RI_TASK_VALUE_WRITE || params->type == ACL_MODEL_RI_TASK_VALUE_WAIT;
    int status;
    if (!value)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "params->type is %d; allowed: 1 (KERNEL), 5 (VALUE_WRITE) and 6 (VALUE_WAIT)", (int)params->type);
    else if (params->type != node->captured.type)
        status = emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_NOT_SUPPORTED", "task %u, %s, is of type %d, and cannot become one of type %d here",
                          number, node->routine, (int)node->captured.type, (int)params->type);
    else
        status = change_value(model, node, number, params);
    if (status != 0) model->state = MODEL_FAULTY;
    else node->disabled = false;
    return status;
}

API aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams *params) {
    ENTER("aclmdlRITaskSetParams");
    EMU_HELD emu_model *model = NULL;
    emu_node *node;
    uint32_t number;
    if (params == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "params is a null pointer");
    int status = acquire_task(task, &model, &node, &number);
    if (status == 0) status = check_changeable(model);
    if (status != 0) return status;
    emu_captures_lock();
    status = change_task(model, node, number, params);
    emu_captures_unlock();
    return status;
}

API aclError aclmdlRITaskDisable(aclmdlRITask task) {
    ENTER("aclmdlRITaskDisable");
    EMU_HELD emu_model *model = NULL;
    emu_node *node;
    uint32_t number;
    int status = acquire_task(task, &model, &node, &number);
    if (status == 0) status = check_changeable(model);
    if (status != 0) return status;
    emu_captures_lock();
    if (node->captured.type == ACL_MODEL_RI_TASK_DEFAULT)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "task %u, %s, is of type DEFAULT, and cannot be disabled", number, node->routine);
    else
        node->disabled = true;
    model->state = status == 0 ? MODEL_UPDATING : MODEL_FAULTY;
    emu_captures_unlock();
    return status;
}

API aclError aclmdlRIUpdate(aclmdlRI modelRI) {
    ENTER("aclmdlRIUpdate");
    EMU_HELD emu_model *model = NULL;
    if (modelRI == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "modelRI is a null pointer");
    int status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = emu_refuse_branch(model, "its tasks are not changed");
    if (status != 0) return status;
    if (model->capture != NULL && model->capture->by_hand)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "model %u is not captured, but built by aclmdlRIBuildBegin", model->id);
    if (model->capturing || model->state == MODEL_FAULTY)
        return emu_fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, NULL, "model %u %s", model->id,
                        model->capturing ? "is still captured" : "has a task whose change has failed");
    for (uint32_t i = 0; model->state == MODEL_UPDATING && i < model->capture->count && status == 0; i++) {
        if (model->capture->nodes[i].disabled) status = emu_model_replace(model, i);
    }
    emu_captures_lock();
    model->state = status == 0 ? MODEL_READY : MODEL_FAULTY;
    emu_captures_unlock();
    return status;
}

API aclError aclmdlRIKernelTaskGetAttribute(aclmdlRITask task, aclrtLaunchKernelAttrId attrId, aclrtLaunchKernelAttrValue *attrValue) {
    ENTER("aclmdlRIKernelTaskGetAttribute");
    EMU_HELD emu_model *model = NULL;
    emu_node *node;
    uint32_t number;
    (void)attrId;
    if (attrValue == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "attrValue is a null pointer");
    int status = acquire_task(task, &model, &node, &number);
    return status != 0 ? status : no_kernel(node, number);
}
