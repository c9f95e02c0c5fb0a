/* Models built by hand: streams are bound to a model, which takes the tasks that they get. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/model/model.h"

#define FLAG_HEAD 0u /* ACL_MODEL_STREAM_FLAG_HEAD: the stream runs from the beginning */

API aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag) {
    ENTER("aclmdlRIBuildBegin");
    EMU_HELD emu_model *model = NULL;
    emu_context *context;
    if (modelRI == NULL) return emu_null_parameter("modelRI");
    if (flag != 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is %u; allowed: 0", flag);
    int status = emu_current_context(&context);
    if (status == 0) status = emu_link_check(context->device);
    if (status == 0) status = emu_model_new(context, &model);
    if (status != 0) return status;
    emu_captures_lock();
    model->capture = emu_capture_begin(context, model->base.handle, model->id, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
    model->capture->by_hand = true;
    model->capturing = true;
    emu_captures_unlock();
    *modelRI = model->base.handle;
    return 0;
}

/* A model built by hand and a stream, each with a reference. */
static int acquire_both(aclmdlRI modelRI, emu_model **model, aclrtStream handle, emu_stream **stream) {
    int status = emu_model_acquire(modelRI, model);
    if (status == 0 && handle == NULL) status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "stream is a null pointer");
    if (status == 0) status = emu_stream_acquire(handle, stream);
    if (status == 0) status = emu_check_current_model(*model);
    if (status != 0) return status;
    if (!(*model)->capture->by_hand)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "model %u is a captured one; only those of aclmdlRIBuildBegin have bound streams", (*model)->id);
    if ((*stream)->capture != NULL && (*stream)->model == 0) return emu_refuse_captured(*stream);
    return 0;
}

static int bind_stream(emu_model *model, emu_stream *stream) {
    if (stream->model != 0) return emu_fail(ACL_ERROR_RT_STREAM_MODEL, NULL, "stream %d is bound to model %u already", stream->id, stream->model);
    if (!model->capturing) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "model %u is complete; aclmdlRIBuildEnd has ended its building", model->id);
    emu_stream_enter(stream, model->capture);
    stream->model = model->id;
    return 0;
}

API aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream handle, uint32_t flag) {
    ENTER("aclmdlRIBindStream");
    EMU_HELD emu_model *model = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = acquire_both(modelRI, &model, handle, &stream);
    if (status != 0) return status;
    if ((stream->flags & ACL_STREAM_PERSISTENT) == 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "stream %d was created with flag %#x; a model needs one of aclrtCreateStreamWithConfig with "
                        "ACL_STREAM_PERSISTENT", stream->id, stream->flags);
    if (flag != FLAG_HEAD)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_NOT_SUPPORTED", "flag is %#x; streams that another one activates are not emulated, "
                        "only ACL_MODEL_STREAM_FLAG_HEAD (0)", flag);
    emu_captures_lock();
    status = bind_stream(model, stream);
    emu_captures_unlock();
    return status;
}

static int end_task(emu_model *model, const emu_stream *stream) {
    if (stream->model != model->id || !model->capturing)
        return emu_fail(ACL_ERROR_RT_INTERNAL_ERROR, NULL, "stream %d is not bound to model %u, or the model is complete", stream->id, model->id);
    if (model->capture->ended) return emu_fail(ACL_ERROR_RT_INTERNAL_ERROR, NULL, "model %u has its end already", model->id);
    model->capture->ended = true;
    return 0;
}

API aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream handle) {
    ENTER("aclmdlRIEndTask");
    EMU_HELD emu_model *model = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = acquire_both(modelRI, &model, handle, &stream);
    if (status != 0) return status;
    emu_captures_lock();
    status = end_task(model, stream);
    emu_captures_unlock();
    return status;
}

/* Its streams give it no more tasks. */
static int end_build(emu_model *model) {
    emu_capture *capture = model->capture;
    if (!capture->by_hand) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "model %u is a captured one; aclmdlRICaptureEnd ends its capture", model->id);
    if (!model->capturing) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "model %u is complete already", model->id);
    if (capture->lane_count == 0) return emu_fail(ACL_ERROR_RT_STREAM_MODEL, NULL, "model %u has no stream; aclmdlRIBindStream must come first", model->id);
    if (!capture->ended) return emu_fail(ACL_ERROR_RT_MODEL_EXECUTE, NULL, "model %u has no end; aclmdlRIEndTask must come first", model->id);
    for (uint32_t i = 0; i < capture->lane_count; i++) {
        if (capture->lanes[i].stream != NULL) capture->lanes[i].stream->capture = NULL; /* it stays bound, and refuses tasks */
    }
    emu_capture_end(capture);
    model->capturing = false;
    return 0;
}

API aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve) {
    ENTER("aclmdlRIBuildEnd");
    EMU_HELD emu_model *model = NULL;
    int status = emu_model_acquire(modelRI, &model);
    if (status != 0) return status;
    if (reserve != NULL) return emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "reserve is %p; it must be a null pointer", reserve);
    status = emu_check_current_model(model);
    if (status != 0) return status;
    emu_captures_lock();
    status = end_build(model);
    emu_captures_unlock();
    return status != 0 ? status : emu_model_build(model);
}

API aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream handle) {
    ENTER("aclmdlRIUnbindStream");
    EMU_HELD emu_model *model = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = acquire_both(modelRI, &model, handle, &stream);
    if (status != 0) return status;
    emu_captures_lock();
    if (stream->model != model->id) status = emu_fail(ACL_ERROR_RT_STREAM_MODEL, NULL, "stream %d is not bound to model %u", stream->id, model->id);
    else emu_model_unbind(model, stream->lane);
    emu_captures_unlock();
    return status;
}

API aclError aclmdlRIAbort(aclmdlRI modelRI) {
    ENTER("aclmdlRIAbort");
    EMU_HELD emu_model *model = NULL;
    if (modelRI == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "modelRI is a null pointer");
    int status = emu_model_acquire(modelRI, &model);
    if (status == 0) status = emu_check_current_model(model);
    if (status != 0) return status;
    if (model->parent != NULL || !model->capture->by_hand)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "model %u is a captured one, whose execution cannot be ended", model->id);
    if (model->streams == NULL || model->under_way == 0) return 0;
    model->aborts++;
    for (uint32_t i = 0; i < model->capture->lane_count; i++) emu_stream_abort(model->streams[i]);
    return 0;
}
