/* Model running instances (aclmdlRI): captured graphs, and their execution. */
#ifndef EMU_MODEL_H
#define EMU_MODEL_H

#include "ascendcl/stream/stream.h"

typedef struct emu_model emu_model;

/* Nodes of a model that run one after the other on one side: a program of the device process, or one node's task in this process; or
 * an event between streams of the model. */
typedef struct {
    uint64_t program;          /* its number in the device process; 0: the node is one of this process */
    uint32_t lane;
    uint32_t first, last;      /* nodes; those of other lanes between them do not belong to it */
} emu_part;

/* Captured tasks that can be replaced together (aclmdlRICaptureTaskGrpBegin). */
typedef struct {
    emu_object base;
    emu_model *model;          /* holds a reference to the group, until it ends */
    uint32_t number;           /* of the nodes that belong to it */
    bool updating;
} emu_group;

/* A node of a model by its handle (aclmdlRIGetTasksByStream). */
typedef struct {
    emu_object base;
    emu_model *model;          /* holds a reference to the task, until it ends */
    uint32_t node;
} emu_model_task;

/* A value in device memory that chooses which models a conditional task runs (aclmdlRICondHandleCreate). */
typedef struct {
    emu_object base;
    emu_model *model;          /* holds a reference to the condition, until it ends */
    _Atomic uint64_t *value;
    uint32_t initial;
    bool resets;               /* to `initial`, when the model is executed */
    aclmdlRICondTaskType type;
    emu_model **branches;      /* with references */
    uint32_t branch_count;     /* 0: there is no task yet */
} emu_condition;

/* Of --validate: the timelines of a model's lanes where a stream executes it. Replays by two streams have no order of their own. */
typedef struct {
    uint32_t timeline;         /* the stream's */
    uint32_t *lanes;
} emu_execution;

typedef struct emu_destroy_callback emu_destroy_callback;

struct emu_destroy_callback {
    aclrtCallback function;
    void *argument;
    emu_destroy_callback *next;
};

/* What aclmdlRITaskSetParams and aclmdlRITaskDisable have left. */
typedef enum { MODEL_READY, MODEL_UPDATING, MODEL_FAULTY } emu_model_state;

struct emu_model {
    emu_object base;
    emu_model *next;           /* of all, under the captures' lock; the list has a reference */
    uint32_t id;
    char *name;
    emu_context *context;      /* with a reference */
    emu_device *device;
    emu_capture *capture;      /* what was recorded; it goes on while `capturing` */
    bool capturing;
    emu_model_state state;
    uint64_t incarnation;      /* of the device process that has the programs */
    emu_part *parts;
    uint32_t part_count;
    char *broken;              /* why it cannot run any more: memory that it uses was freed; or NULL */
    uint32_t broken_node;
    emu_group **groups;
    uint32_t group_count;
    emu_model_task **tasks;    /* those with handles */
    uint32_t task_count;
    emu_model *parent;         /* the model of whose condition it is a branch, or NULL. It outlives this one */
    emu_condition **conditions;
    uint32_t condition_count;
    emu_destroy_callback *callbacks;
    _Atomic uint32_t under_way; /* replays that are not done; memory that it uses is not freed meanwhile */
    /* replays in several streams */
    bool apart;                /* each lane has its own parts */
    emu_execution *executions; /* of --validate, by the streams that have executed it, */
    uint32_t execution_count;
    emu_clock *_Atomic *clocks; /* and what has passed with a node's function of the host when the latest replay calls it */
    emu_stream **streams;      /* of each lane; NULL: it has none of its own */
    uint64_t *last;            /* the last task of the latest replay in each, under `queueing` */
    pthread_mutex_t queueing;  /* replays are queued one after the other */
    _Atomic uint32_t aborts;
};

/* The model of a handle, with a reference; 107017 with a message, or 100000 for a null pointer. */
int emu_model_acquire(aclmdlRI handle, emu_model **model);
/* A model with a handle, and without tasks; the caller gets a reference. */
int emu_model_new(emu_context *context, emu_model **model);
/* Ends a model's handle, and takes it out of the list. */
void emu_model_drop(emu_model *model);
/* Streams of its own, one for each lane; the first lane of a captured graph needs none. */
int emu_model_make_streams(emu_model *model, bool all);
/* 100000: a null pointer. */
int emu_null_parameter(const char *name);
/* 207000 with a message for a branch of a condition. */
int emu_refuse_branch(const emu_model *model, const char *what);
/* 107004 with a message for a model of another context than this thread's. */
int emu_check_current_model(const emu_model *model);
/* The model that a stream belongs to, with a reference, and the stream's lane; or NULL. */
emu_model *emu_model_of_stream(const emu_stream *stream, uint32_t *lane);
/* Ends the models of a context that ends. */
void emu_models_reclaim(const emu_context *context);

/* Unbinds the stream of a lane of a model built by hand, if it is bound. The captures' lock is held. */
void emu_model_unbind(emu_model *model, uint32_t lane);
/* The end of a condition's handle. */
void emu_model_free_condition(void *condition);

/* replay.c */
/* Prepares what was captured: 0, or a status with a message. */
int emu_model_build(emu_model *model);
/* Sends the step of a node, which has changed, to the device process. */
int emu_model_replace(emu_model *model, uint32_t node);
/* Executes a model that has streams of its own, and waits until it is done, or `stream` drops its tasks. */
int emu_model_run(emu_model *model, emu_stream *stream);

/* condition.c */
/* A branch that is not captured yet; NULL: none. The captures' lock is held. */
const emu_model *emu_model_open_branch(const emu_model *model);

#endif
