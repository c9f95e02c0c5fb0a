/* What the parts of the recorder share. */
#ifndef LAYER_RECORDER_H
#define LAYER_RECORDER_H

#include "file.h"
#include "layer.h"
#include "objects.h"
#include "text.h"

#include <pthread.h>

#define MOST_FRAMES 64

/* Settings, from the environment: docs/recording.md. */
typedef struct {
    const char *file, *header, *data;
    uint64_t tensor_limit, file_limit, first;
    double sample;
    bool all, stacks;
} recorder_settings;
extern recorder_settings settings;

/* The recorder's lock: everything that is written to the file is written under it. */
void recorder_lock(void);
void recorder_unlock(void);
/* Whether there is a file, which is created at the first call. The lock is held. */
bool recorder_ready(void);
/* Writes a chunk of JSON. The lock is held. */
void recorder_write(const char type[4], const text *t);
/* Writes a chunk of any kind. The lock is held. */
void recorder_append(const char type[4], const void *payload, size_t length);

/* The kinds of a brief record's values: docs/recording.md. */
enum { BRIEF_NULL, BRIEF_TENSOR, BRIEF_INTEGER, BRIEF_NUMBER, BRIEF_SCALAR, BRIEF_INTEGERS, BRIEF_BOOLEANS, BRIEF_FAR_TENSOR };
enum { BRIEF_REPEATABLE = 1, BRIEF_WORKSPACE = 2, BRIEF_SITE = 4 };

int64_t thread_id(void);
int32_t current_device(void);
/* A function of the CANN that is in use; NULL where it has none of the name. */
void *cann_function(const char *name, void **slot);

/* Whether the data of a launch are recorded. */
bool data_wanted(const char *operator, uint64_t index);
/* Copies a tensor's bytes from the device and puts them into the recording; false, with the reason in `why`. */
bool data_of(const object *tensor, file_key *key, text *why);
bool data_at(uint64_t address, uint64_t count, file_key *key, text *why);
/* The same of bytes of the host's. */
bool data_on_host(const void *bytes, uint64_t count, file_key *key, text *why);
bool data_capturing(void);
/* In the child of a fork: its file has no data yet. */
void data_forget_keys(void);
/* Waits for a stream; the status that its work ended with. */
int data_wait(const void *stream);
/* A status that the client has not seen yet. */
void late_status(const void *stream, int status);

/* How many launches have been recorded. */
uint64_t recorder_launches(void);
/* Records a launch that has one phase, before it is called. */
layer_launch *record_launch(const layer_frame *frame, layer_operator *operator, const layer_value *values, const void *stream);
/* The operator that stands for one of which the type and the numbers of tensors are known. The lock is held. */
layer_operator *single_operator(const char *type, int inputs, int outputs);
/* A thread ends: what it keeps for calls is freed. */
void calls_forget_thread(void);
/* Adds to the record of the call that has just returned: its communicator and ticket to the arguments, and the keys of its buffers. */
void write_call_arguments(text *t);
void write_call_data(text *t);
/* Records what receives have got that are over. Those that are not: `otherwise` says why their data are given up (NULL: not yet). */
void receive_data(const char *otherwise);
void receives_lock(void);
void receives_unlock(void);
/* In the child of a fork: they are the parent's. */
void receives_forget(void);

/* The call site of this thread as the id of a SITE, or -1. Neither lock is held. */
int64_t call_site(void);
/* In the child of a fork: its file has no call sites yet. */
void call_site_forget(void);

#endif
