/* Model running instances (aclmdlRI): captured graphs, and their execution. */
#ifndef EMU_MODEL_H
#define EMU_MODEL_H

#include "ascendcl/stream/stream.h"

typedef struct emu_model emu_model;

/* Tasks of a model that run one after the other on one side: a program of the device process, or one task of this process. */
typedef struct {
    uint64_t program;          /* its number in the device process; 0: the node's task runs here */
    uint32_t first, count;     /* nodes */
} emu_part;

/* One use of each allocation that the tasks use. Replays hold a reference. */
typedef struct {
    _Atomic uint32_t references;
    uint32_t count;
    emu_use uses[];
} emu_model_blocks;

/* Captured tasks that can be replaced together (aclmdlRICaptureTaskGrpBegin). */
typedef struct {
    emu_object base;
    emu_model *model;          /* holds a reference to the group, until it ends */
    uint32_t number;           /* of the nodes that belong to it */
    bool updating;
} emu_group;

typedef struct emu_destroy_callback emu_destroy_callback;

struct emu_destroy_callback {
    aclrtCallback function;
    void *argument;
    emu_destroy_callback *next;
};

struct emu_model {
    emu_object base;
    emu_model *next;           /* of all, under the captures' lock; the list has a reference */
    uint32_t id;
    char *name;
    emu_context *context;      /* with a reference */
    emu_device *device;
    emu_capture *capture;      /* what was recorded; it goes on while `capturing` */
    bool capturing;
    uint64_t incarnation;      /* of the device process that has the programs */
    emu_part *parts;
    uint32_t part_count;
    emu_model_blocks *blocks;
    char *broken;              /* why it cannot run any more: memory that it uses was freed; or NULL */
    uint32_t broken_node;
    emu_group **groups;
    uint32_t group_count;
    emu_destroy_callback *callbacks;
    _Atomic uint32_t under_way; /* replays that are not done */
};

/* The model of a handle, with a reference; 107017 with a message, or 100000 for a null pointer. */
int emu_model_acquire(aclmdlRI handle, emu_model **model);
/* A model with a handle, and without tasks; the caller gets a reference. */
int emu_model_new(emu_context *context, emu_model **model);
/* Ends a model's handle, and takes it out of the list. */
void emu_model_drop(emu_model *model);
/* Prepares what was captured: 0, or a status with a message. */
int emu_model_build(emu_model *model);
/* Finds the allocations that the nodes use. The captures' lock is held. */
void emu_model_find_blocks(emu_model *model);
/* Sends the steps of a node, which has changed, to the device process. */
int emu_model_replace(emu_model *model, uint32_t node);
/* 100000: a null pointer. */
int emu_null_parameter(const char *name);
/* Ends the models of a context that ends. */
void emu_models_reclaim(const emu_context *context);

#endif
