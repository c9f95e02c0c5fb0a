/* Beginning and ending captures. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/model/model.h"

static int check_mode(int mode) {
    if (mode >= ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "mode is %d; allowed: 0 (GLOBAL), 1 (THREAD_LOCAL), 2 (RELAXED)", mode);
}

static int check_stream(const emu_stream *stream) {
    if (stream->base.handle != stream->context->default_stream) return 0;
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "the default stream cannot be captured; use one of aclrtCreateStream");
}

/* Begins to capture a stream into a model. The captures' lock is held. */
static int begin_capture(emu_stream *stream, emu_model *model, aclmdlRICaptureMode mode) {
    char text[160];
    if (model->capture != NULL) return emu_fail(ACL_ERROR_RT_MODEL_CAPTURED, NULL, "model %u is captured already", model->id);
    if (stream->capture != NULL)
        return emu_fail(ACL_ERROR_RT_STREAM_CAPTURED, NULL, "stream %d is captured already (%s)", stream->id,
                        emu_capture_describe(stream->capture, text, sizeof text));
    if (stream->model != 0) return emu_fail(ACL_ERROR_RT_STREAM_MODEL, NULL, "stream %d belongs to model %u", stream->id, stream->model);
    model->capture = emu_capture_begin(stream->context, model->base.handle, model->id, mode);
    model->capturing = true;
    emu_stream_enter(stream, model->capture);
    return 0;
}

API aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode mode) {
    ENTER("aclmdlRICaptureBegin");
    EMU_HELD emu_stream *stream = NULL;
    EMU_HELD emu_model *model = NULL;
    if (handle == NULL) return emu_null_parameter("stream");
    int status = check_mode((int)mode);
    if (status == 0) status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    status = check_stream(stream);
    if (status == 0) status = emu_link_check(stream->device);
    if (status == 0) status = emu_model_new(stream->context, &model);
    if (status == 0) {
        emu_captures_lock();
        status = begin_capture(stream, model, mode);
        emu_captures_unlock();
    }
    if (status != 0 && model != NULL) emu_model_drop(model);
    return status;
}

API aclError aclmdlRICaptureToModelRIBegin(aclrtStream handle, aclmdlRI modelRI, aclmdlRICaptureMode mode) {
    ENTER("aclmdlRICaptureToModelRIBegin");
    EMU_HELD emu_stream *stream = NULL;
    EMU_HELD emu_model *model = NULL;
    if (handle == NULL) return emu_null_parameter("stream");
    int status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = check_mode((int)mode);
    if (status == 0) status = emu_stream_acquire(handle, &stream);
    if (status == 0) status = check_stream(stream);
    if (status == 0) status = emu_check_current_model(model);
    if (status != 0) return status;
    if (model->parent == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "model %u is no branch of a condition; aclmdlRIAddCondTask makes such models", model->id);
    emu_captures_lock();
    status = begin_capture(stream, model, mode);
    emu_captures_unlock();
    return status;
}

API aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus *status, aclmdlRI *modelRI) {
    ENTER("aclmdlRICaptureGetInfo");
    EMU_HELD emu_stream *stream = NULL;
    if (handle == NULL) return emu_null_parameter("stream");
    if (status == NULL && modelRI == NULL) return emu_null_parameter("status and modelRI each");
    int failed = emu_stream_acquire(handle, &stream);
    if (failed != 0) return failed;
    emu_captures_lock();
    const emu_capture *capture = stream->capture;
    if (status != NULL)
        *status = capture == NULL ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
                                  : capture->invalid ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    if (modelRI != NULL) *modelRI = capture != NULL ? capture->owner : NULL;
    emu_captures_unlock();
    return 0;
}

API aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode) {
    ENTER("aclmdlRICaptureThreadExchangeMode");
    emu_context *context;
    if (mode == NULL) return emu_null_parameter("mode");
    int status = check_mode((int)*mode);
    if (status == 0) status = emu_current_context(&context);
    if (status == 0) *mode = emu_exchange_thread_mode(*mode);
    return status;
}

/* Every stream of a capture must have returned to the one where it began. */
static int check_joined(const emu_capture *capture) {
    bool any = false;
    for (uint32_t i = 1; i < capture->lane_count; i++) {
        const emu_lane *lane = &capture->lanes[i];
        const emu_node *last = lane->last >= 0 ? &capture->nodes[lane->last] : NULL;
        if (last == NULL || last->kind != NODE_RECORD)
            return emu_fail(ACL_ERROR_RT_STREAM_UNJOINED, NULL,
                            "the last task of stream %d in the capture is %s (task %lld), not aclrtRecordEvent; record an event there, and let "
                            "stream %d wait for it",
                            lane->id, last != NULL ? last->routine : "none", (long long)lane->last, capture->lanes[0].id);
        if (last->waits == 0)
            return emu_fail(ACL_ERROR_RT_STREAM_UNJOINED, NULL,
                            "no stream of the capture waits for event %u, the last task of stream %d (task %lld); let stream %d wait for it "
                            "(aclrtStreamWaitEvent)",
                            last->event, lane->id, (long long)lane->last, capture->lanes[0].id);
        any |= last->returned;
    }
    if (capture->lane_count == 1 || any) return 0;
    return emu_fail(ACL_ERROR_RT_STREAM_UNJOINED, NULL, "stream %d, where the capture began, waits for none of the other %u stream(s)",
                    capture->lanes[0].id, capture->lane_count - 1);
}

static int check_ended(const emu_model *model) {
    const emu_capture *capture = model->capture;
    const emu_model *branch = emu_model_open_branch(model);
    if (capture->invalid)
        return emu_fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, NULL, "the capture of model %u is invalid: %s (status %d)", capture->model,
                        capture->reason, capture->status);
    if (branch != NULL)
        return emu_fail(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, NULL, "model %u, a branch of a condition, %s; aclmdlRICaptureToModelRIBegin and "
                        "aclmdlRICaptureEnd capture it before", branch->id,
                        branch->capture == NULL ? "has not been captured" : branch->capturing ? "is still captured" : "has no valid capture");
    if (capture->open_groups > 0)
        return emu_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, NULL, "a task group of the capture is open; aclmdlRICaptureTaskGrpEnd must come first");
    return check_joined(capture);
}

/* Ends the capture of a stream. *ended: the model whose capture has ended, with a reference, to be built or dropped. */
static int end_capture(emu_stream *stream, emu_model **ended) {
    emu_capture *capture = stream->capture;
    if (capture == NULL || capture->by_hand)
        return emu_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, NULL, "stream %d is not captured; aclmdlRICaptureBegin must come first", stream->id);
    if (stream->lane != 0)
        return emu_fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, NULL, "the capture began on stream %d, and must end there", capture->lanes[0].id);
    int status;
    emu_model *model = emu_object_acquire(capture->owner, KIND_MODEL, &status);
    if (model == NULL) return status;
    if (capture->thread != emu_thread_number() && capture->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        status = emu_fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, NULL,
                          "thread %u began the capture of model %u, and must end it, unless its mode is RELAXED", capture->thread, capture->model);
    else
        status = check_ended(model);
    for (uint32_t i = 0; i < capture->lane_count; i++) emu_stream_leave(capture->lanes[i].stream);
    emu_capture_end(capture);
    model->capturing = false;
    if (status != 0) emu_capture_invalidate(capture, status, "it ended with an error"); /* a branch stays, without tasks */
    *ended = model;
    return status;
}

API aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI *modelRI) {
    ENTER("aclmdlRICaptureEnd");
    EMU_HELD emu_stream *stream = NULL;
    EMU_HELD emu_model *model = NULL;
    if (handle == NULL) return emu_null_parameter("stream");
    if (modelRI == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "modelRI is a null pointer");
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    status = check_stream(stream);
    emu_captures_lock();
    if (status == 0) status = end_capture(stream, &model);
    emu_captures_unlock();
    if (status == 0) status = emu_model_build(model);
    *modelRI = status == 0 ? model->base.handle : NULL;
    if (status != 0 && model != NULL && model->parent == NULL) emu_model_drop(model);
    return status;
}
