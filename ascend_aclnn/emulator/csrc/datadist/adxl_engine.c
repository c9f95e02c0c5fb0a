/*
 * adxl::AdxlEngine (libllm_datadist), under its mangled names: transfers between registered memory of processes of one host, as
 * Mooncake's transport for Ascend uses them. They do not wait for work in streams, here as there, where a network card does them.
 * Of the options only AutoConnect has an effect: there are no buffers, traffic classes or channels here.
 */
#include "datadist/adxl_link.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device.h"
#include "metadef/ascend_string.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRANSFER_COMPLETED = 1, TRANSFER_FAILED = 3 }; /* adxl::TransferStatus */

#define AUTO_CONNECT "AutoConnect" /* OPTION_AUTO_CONNECT */

typedef struct peer peer;

/* Another engine that this one has connected to. Its transfers follow each other. */
struct peer {
    peer *next;
    int socket;
    bool broken;
    uint32_t users; /* the list, and transfers under way */
    pthread_mutex_t lock;
    char name[];
};

typedef struct {
    adxl_memory *memory;
    adxl_server *server; /* NULL: it only connects to others */
    bool connects_itself;
    pthread_mutex_t connecting; /* one at a time, so that no engine is connected twice */
    pthread_mutex_t lock;
    peer *peers;
    void **ended;   /* asynchronous transfers, which have come to an end and have not been asked for */
    size_t ended_count;
} engine;

/* AdxlEngine: a std::unique_ptr to what is private. */
typedef struct {
    engine *engine;
} adxl_engine;

/* std::vector<TransferOpDesc> */
typedef struct {
    const adxl_part *first, *end, *room_end;
} adxl_parts;

/* A node of std::map<AscendString, AscendString>, and the map, as libstdc++ lays them out. */
typedef struct node {
    struct {
        int colour;
        struct node *parent, *left, *right;
    } links;
    emu_ascend_string name, value;
} node;

typedef struct {
    void *compare;
    struct {
        int colour;
        const node *root, *left, *right;
    } header;
    size_t count;
} options_map;

/* Every function begins with this; a child that was forked has no device. */
#define ENTER_ADXL(routine) do { if (emu_enter("AdxlEngine::" routine) != 0) return ADXL_FAILED; } while (0)

static const char *option(const node *at, const char *name) {
    if (at == NULL) return NULL;
    if (strcmp(emu_ascend_text(&at->name), name) == 0) return emu_ascend_text(&at->value);
    const char *value = option(at->links.left, name);
    return value != NULL ? value : option(at->links.right, name);
}

static int check_ready(const adxl_engine *self) {
    return self->engine != NULL ? 0 : emu_fail(ADXL_FAILED, NULL, "the engine is not initialized");
}

static int check_timeout(int32_t milliseconds) {
    return milliseconds > 0 ? 0 : emu_fail(ADXL_PARAM_INVALID, NULL, "timeout_in_millis is %d; it must be greater than 0", (int)milliseconds);
}

/* ---------------------------------------------------------------------------------------------------------------- peers */

/* The peer of a name, with a use more; NULL when there is none. */
static peer *take_peer(engine *self, const char *name) {
    pthread_mutex_lock(&self->lock);
    peer *item = self->peers;
    while (item != NULL && strcmp(item->name, name) != 0) item = item->next;
    if (item != NULL) item->users++;
    pthread_mutex_unlock(&self->lock);
    return item;
}

static void drop_peer(engine *self, peer *item) {
    pthread_mutex_lock(&self->lock);
    bool last = --item->users == 0;
    pthread_mutex_unlock(&self->lock);
    if (!last) return;
    close(item->socket);
    pthread_mutex_destroy(&item->lock);
    free(item);
}

/* Takes a peer out of the list; false when it is not there any more. */
static bool forget_peer(engine *self, peer *item) {
    pthread_mutex_lock(&self->lock);
    peer **link = &self->peers;
    while (*link != NULL && *link != item) link = &(*link)->next;
    bool there = *link != NULL;
    if (there) *link = item->next;
    pthread_mutex_unlock(&self->lock);
    if (there) drop_peer(self, item);
    return there;
}

/* The lock of connecting is held. */
static int connect_alone(engine *self, const char *name, int32_t milliseconds) {
    peer *item = take_peer(self, name);
    if (item != NULL) {
        drop_peer(self, item);
        return emu_fail(ADXL_ALREADY_CONNECTED, NULL, "%s is connected already", name);
    }
    item = calloc(1, sizeof *item + strlen(name) + 1);
    if (item == NULL) abort();
    int status = adxl_connect(name, milliseconds, &item->socket);
    if (status != 0) {
        free(item);
        return status;
    }
    item->users = 1;
    pthread_mutex_init(&item->lock, NULL);
    strcpy(item->name, name);
    pthread_mutex_lock(&self->lock);
    item->next = self->peers;
    self->peers = item;
    pthread_mutex_unlock(&self->lock);
    return 0;
}

static int connect_to(engine *self, const char *name, int32_t milliseconds) {
    pthread_mutex_lock(&self->connecting);
    int status = connect_alone(self, name, milliseconds);
    pthread_mutex_unlock(&self->connecting);
    return status;
}

/* -------------------------------------------------------------------------------------------------------------- the engine */

static void finalize(adxl_engine *self) {
    engine *ended = self->engine;
    self->engine = NULL;
    if (ended == NULL || emu_is_forked()) return;
    while (ended->peers != NULL) forget_peer(ended, ended->peers);
    if (ended->server != NULL) adxl_server_free(ended->server);
    adxl_memory_free(ended->memory);
    while (ended->ended_count > 0) free(ended->ended[--ended->ended_count]);
    free(ended->ended);
    pthread_mutex_destroy(&ended->connecting);
    pthread_mutex_destroy(&ended->lock);
    free(ended);
}

/* AdxlEngine(), ~AdxlEngine() */
API void _ZN4adxl10AdxlEngineC1Ev(adxl_engine *self) { self->engine = NULL; }
API void _ZN4adxl10AdxlEngineC2Ev(adxl_engine *self) { self->engine = NULL; }
API void _ZN4adxl10AdxlEngineD1Ev(adxl_engine *self) { finalize(self); }
API void _ZN4adxl10AdxlEngineD2Ev(adxl_engine *self) { finalize(self); }
API void _ZN4adxl10AdxlEngine8FinalizeEv(adxl_engine *self) { finalize(self); }

/* Whether an engine's name ends in a port greater than 0: it listens there. */
static bool listens(const char *name) {
    const char *colon = strrchr(name, ':'), *bracket = strrchr(name, ']');
    return colon != NULL && (name[0] != '[' || colon > bracket) && atoi(colon + 1) > 0;
}

/* Initialize(const AscendString &, const std::map<AscendString, AscendString> &) */
API uint32_t _ZN4adxl10AdxlEngine10InitializeERKN2ge12AscendStringERKSt3mapIS2_S2_St4lessIS2_ESaISt4pairIS3_S2_EEE(
    adxl_engine *self, const emu_ascend_string *local_engine, const options_map *options) {
    ENTER_ADXL("Initialize");
    const char *name = emu_ascend_text(local_engine), *connects = option(options->header.root, AUTO_CONNECT);
    if (name[0] == 0) return emu_fail(ADXL_PARAM_INVALID, NULL, "local_engine is empty; it is host:port, or host");
    if (connects != NULL && strcmp(connects, "0") != 0 && strcmp(connects, "1") != 0)
        return emu_fail(ADXL_PARAM_INVALID, NULL, "option " AUTO_CONNECT " is %s; allowed: 0, 1", connects);
    emu_context *context;
    if (emu_current_context(&context) != 0) return ADXL_FAILED;
    finalize(self);
    engine *created = calloc(1, sizeof *created);
    if (created == NULL) abort();
    created->memory = adxl_memory_new();
    created->connects_itself = connects != NULL && connects[0] == '1';
    pthread_mutex_init(&created->connecting, NULL);
    pthread_mutex_init(&created->lock, NULL);
    self->engine = created;
    int status = listens(name) ? adxl_server_new(name, created->memory, &created->server) : 0;
    if (status != 0) finalize(self);
    return status;
}

/* adxl::MemDesc: where memory is, and bytes for later. */
typedef struct {
    adxl_range range;
    uint8_t reserved[128];
} mem_desc;

/* RegisterMem(const MemDesc &, MemType, MemHandle &), DeregisterMem(MemHandle) */
API uint32_t _ZN4adxl10AdxlEngine11RegisterMemERKNS_7MemDescENS_7MemTypeERPv(adxl_engine *self, const mem_desc *mem, int type, void **mem_handle) {
    ENTER_ADXL("RegisterMem");
    int status = check_ready(self);
    if (status == 0 && (type < 0 || type > 1)) status = emu_fail(ADXL_PARAM_INVALID, NULL, "type is %d; allowed: MEM_DEVICE (0), MEM_HOST (1)", type);
    return status != 0 ? status : adxl_memory_add(self->engine->memory, mem->range, type == 0, mem_handle);
}

API uint32_t _ZN4adxl10AdxlEngine13DeregisterMemEPv(adxl_engine *self, const void *mem_handle) {
    ENTER_ADXL("DeregisterMem");
    int status = check_ready(self);
    return status != 0 ? status : adxl_memory_remove(self->engine->memory, mem_handle);
}

/* Connect(const AscendString &, int32_t), Disconnect */
API uint32_t _ZN4adxl10AdxlEngine7ConnectERKN2ge12AscendStringEi(adxl_engine *self, const emu_ascend_string *remote_engine, int32_t milliseconds) {
    ENTER_ADXL("Connect");
    int status = check_ready(self);
    if (status == 0) status = check_timeout(milliseconds);
    return status != 0 ? status : connect_to(self->engine, emu_ascend_text(remote_engine), milliseconds);
}

API uint32_t _ZN4adxl10AdxlEngine10DisconnectERKN2ge12AscendStringEi(adxl_engine *self, const emu_ascend_string *remote_engine,
                                                                      int32_t milliseconds) {
    ENTER_ADXL("Disconnect");
    int status = check_ready(self);
    if (status == 0) status = check_timeout(milliseconds);
    if (status != 0) return status;
    const char *name = emu_ascend_text(remote_engine);
    peer *item = take_peer(self->engine, name);
    bool there = item != NULL && forget_peer(self->engine, item);
    if (item != NULL) drop_peer(self->engine, item);
    return there ? 0 : emu_fail(ADXL_NOT_CONNECTED, NULL, "%s is not connected", name);
}

/* ------------------------------------------------------------------------------------------------------------- transfers */

static int transfer(adxl_engine *self, const emu_ascend_string *remote_engine, int operation, const adxl_parts *parts, int32_t milliseconds) {
    int status = check_ready(self);
    if (status == 0) status = check_timeout(milliseconds);
    if (status == 0 && (operation < ADXL_READ || operation > ADXL_WRITE))
        status = emu_fail(ADXL_PARAM_INVALID, NULL, "operation is %d; allowed: READ (0), WRITE (1)", operation);
    for (const adxl_part *part = parts->first; status == 0 && part < parts->end; part++) {
        if (part->local == 0 || part->remote == 0)
            status = emu_fail(ADXL_PARAM_INVALID, NULL, "op_descs[%td] has the local address %#lx and the remote one %#lx; neither may be 0",
                              part - parts->first, (unsigned long)part->local, (unsigned long)part->remote);
    }
    if (status != 0) return status;
    const char *name = emu_ascend_text(remote_engine);
    peer *item = take_peer(self->engine, name);
    if (item == NULL && self->engine->connects_itself) {
        status = connect_to(self->engine, name, milliseconds);
        if (status != 0 && status != ADXL_ALREADY_CONNECTED) return status;
        item = take_peer(self->engine, name);
    }
    if (item == NULL) return emu_fail(ADXL_NOT_CONNECTED, NULL, "%s is not connected", name);
    pthread_mutex_lock(&item->lock);
    if (item->broken)
        status = emu_fail(ADXL_NOT_CONNECTED, NULL, "the connection to %s has failed", name);
    else
        status = adxl_transfer(item->socket, self->engine->memory, (adxl_operation)operation, parts->first, (uint32_t)(parts->end - parts->first),
                               milliseconds, &item->broken);
    bool broken = item->broken;
    pthread_mutex_unlock(&item->lock);
    if (broken) forget_peer(self->engine, item);
    drop_peer(self->engine, item);
    return status;
}

/* What TransferAsync returns and GetTransferStatus ends. */
static void *new_request(engine *self) {
    void *request = malloc(1);
    if (request == NULL) abort();
    pthread_mutex_lock(&self->lock);
    self->ended = realloc(self->ended, (self->ended_count + 1) * sizeof *self->ended);
    if (self->ended == NULL) abort();
    self->ended[self->ended_count++] = request;
    pthread_mutex_unlock(&self->lock);
    return request;
}

static bool end_request(engine *self, void *request) {
    pthread_mutex_lock(&self->lock);
    size_t i = 0;
    while (i < self->ended_count && self->ended[i] != request) i++;
    bool there = i < self->ended_count;
    if (there) self->ended[i] = self->ended[--self->ended_count];
    pthread_mutex_unlock(&self->lock);
    if (there) free(request);
    return there;
}

/* TransferSync(const AscendString &, TransferOp, const std::vector<TransferOpDesc> &, int32_t) */
API uint32_t _ZN4adxl10AdxlEngine12TransferSyncERKN2ge12AscendStringENS_10TransferOpERKSt6vectorINS_14TransferOpDescESaIS7_EEi(
    adxl_engine *self, const emu_ascend_string *remote_engine, int operation, const adxl_parts *op_descs, int32_t milliseconds) {
    ENTER_ADXL("TransferSync");
    return transfer(self, remote_engine, operation, op_descs, milliseconds);
}

/* TransferAsync(const AscendString &, TransferOp, const std::vector<TransferOpDesc> &, const TransferArgs &, TransferReq &): it has come
 * to an end when it returns. */
API uint32_t _ZN4adxl10AdxlEngine13TransferAsyncERKN2ge12AscendStringENS_10TransferOpERKSt6vectorINS_14TransferOpDescESaIS7_EERKNS_12TransferArgsERPv(
    adxl_engine *self, const emu_ascend_string *remote_engine, int operation, const adxl_parts *op_descs, const void *optional_args,
    void **req) {
    (void)optional_args;
    ENTER_ADXL("TransferAsync");
    int status = transfer(self, remote_engine, operation, op_descs, INT32_MAX);
    if (status == 0) *req = new_request(self->engine);
    return status;
}

/* GetTransferStatus(const TransferReq &, TransferStatus &) */
API uint32_t _ZN4adxl10AdxlEngine17GetTransferStatusERKPvRNS_14TransferStatusE(adxl_engine *self, void *const *req, int *transfer_status) {
    ENTER_ADXL("GetTransferStatus");
    int status = check_ready(self);
    if (status == 0 && !end_request(self->engine, *req))
        status = emu_fail(ADXL_FAILED, "EMULATOR_NOT_A_HANDLE", "req (%p) is not what TransferAsync returned, or its end was reported before", *req);
    *transfer_status = status == 0 ? TRANSFER_COMPLETED : TRANSFER_FAILED;
    return status;
}
