/*
 * The collective communication library. A communicator lives in the device process, which connects to those of the other ranks;
 * its handle and the collectives' arguments are handled here. A collective is queued on its stream as the operator
 * HcclCollective or HcclPointToPoint, which process/communication.py defines.
 */
#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/stream/stream.h"
#include "nnopbase/executor.h"

#include "hccl/hccl.h"
#include "hccl_data.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define SETTINGS (HCCL_DETERMINISTIC + 1)
#define COLLECTIVES (COLLECTIVE_ALL_TO_ALL + 1)

typedef struct {
    emu_object base;
    char name[COMM_NAME_MAX_LENGTH];
    uint32_t rank, size;
    emu_device *device;
    /* under linking */
    pthread_mutex_t linking;
    const void *window; /* memory registered for peers to write to, or NULL; its handle is the address of this member */
    uint64_t window_size;
    bool linked[COLLECTIVES]; /* kinds of collectives that have been called, for which all ranks have met */
    bool *met;                /* ranks that this one has sent to or received from */
    /* when the device process was last asked for the state, and how many failures this process had had by then; 0: ask */
    _Atomic uint64_t asked, failures;
} communicator;

/* torch_npu's watchdog asks for the state a hundred times in a second; each time wakes the device process. */
#define STATE_HOLDS 100000000u /* nanoseconds, while nothing fails */

/* ------------------------------------------------------------------------------------------------------- settings */

/* Sums are always in rank order, so the values have no effect; they can be read back. */
static HcclConfigValue values[SETTINGS];

static int check(HcclConfig config) {
    if ((unsigned)config < SETTINGS) return 0;
    return emu_fail(HCCL_E_PARA, NULL, "setting is %d; allowed: 0 to %d", (int)config, SETTINGS - 1);
}

API HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
    if (emu_enter("HcclSetConfig") != 0) return HCCL_E_INTERNAL;
    int status = check(config);
    if (status == 0) values[config] = configValue;
    return status;
}

API HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue) {
    if (emu_enter("HcclGetConfig") != 0) return HCCL_E_INTERNAL;
    if (configValue == NULL) return (HcclResult)emu_fail(HCCL_E_PTR, NULL, "configValue is a null pointer");
    int status = check(config);
    if (status == 0) *configValue = values[config];
    return status;
}

/* The items of HcclCommConfig: all are read. Name and timeout take effect; core/hccl.py refuses the others' values as HCCL
 * does. */
API uint32_t HcclGetCommConfigCapability(void) { return HCCL_COMM_CONFIG_BUFFER_NAME + 1; }

API const char *HcclGetErrorString(HcclResult code) {
    switch ((int)code) {
        case HCCL_SUCCESS: return "no error";
        case HCCL_E_PARA: return "parameter error";
        case HCCL_E_PTR: return "empty pointer";
        case HCCL_E_MEMORY: return "memory error";
        case HCCL_E_INTERNAL: return "internal error";
        case HCCL_E_NOT_SUPPORT: return "not support feature";
        case HCCL_E_NOT_FOUND: return "not found specific resource";
        case HCCL_E_UNAVAIL: return "resource unavailable";
        case HCCL_E_SYSCALL: return "call system interface error";
        case HCCL_E_TIMEOUT: return "timeout";
        case HCCL_E_RUNTIME: return "call runtime api fail";
        case HCCL_E_REMOTE: return "error in remote rank";
        case HCCL_E_SUSPENDING: return "communicator is suspended";
        default: return "unknown error";
    }
}

/* -------------------------------------------------------------------------------------------------- communicators */

#define ENTER_HCCL(routine) if (emu_enter(routine) != 0) return HCCL_E_INTERNAL
#define NOT_NULL(pointer) \
    if ((pointer) == NULL) return (HcclResult)emu_fail(HCCL_E_PTR, NULL, "%s is a null pointer", #pointer)

/* The communicator behind a handle, with a reference. */
static communicator *acquire(HcclComm comm) {
    int status;
    communicator *c = emu_object_acquire(comm, KIND_COMMUNICATOR, &status);
    if (c == NULL) emu_fail(HCCL_E_PTR, NULL, "comm %p is no communicator, or one that was destroyed", comm);
    return c;
}

#define ACQUIRE(variable, comm)                           \
    EMU_HELD communicator *variable = acquire(comm);      \
    if (variable == NULL) return HCCL_E_PTR

static int this_device(emu_device **device) {
    emu_context *context;
    if (emu_current_context(&context) != 0) return HCCL_E_RUNTIME;
    *device = emu_context_device(context);
    emu_link_start(*device);
    return 0;
}

typedef struct {
    uint32_t action, rank, size, config_size; /* bytes of a HcclCommConfig that precede the text */
    uint64_t number;
    char name[COMM_NAME_MAX_LENGTH]; /* of the communicator */
} action;

/* Asks the device process for an action; text is its additional argument (a secret, a path). Returns a HcclResult. */
static int ask(emu_device *device, const action *what, const void *text, size_t size, emu_buffer *answer) {
    emu_buffer request = {0};
    emu_buffer_put(&request, what, sizeof *what);
    emu_buffer_put(&request, text, size);
    int status = emu_link_call(device, CALL_COMMUNICATE, &request, answer);
    emu_buffer_free(&request);
    if (status != 0 && answer->size > 0)
        emu_fail(status, NULL, "%.*s", (int)answer->size, (const char *)answer->data);
    return status > 1041 ? HCCL_E_INTERNAL : status;
}

/* What HcclCommConfigInit fills in. The structure grew with CANN's releases; all versions begin like this. */
typedef struct {
    size_t size;
    uint32_t magic, version;
} config_head;

static void free_communicator(void *object) {
    communicator *c = object;
    pthread_mutex_destroy(&c->linking);
    free(c->met);
    free(c);
}

static HcclResult join(emu_device *device, action *what, const HcclCommConfig *config, const void *text, size_t size,
                       HcclComm *comm) {
    if (config != NULL) {
        const config_head *head = (const config_head *)config;
        if (head->magic != HCCL_COMM_CONFIG_MAGIC_WORD)
            return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "config begins with %#x; HcclCommConfigInit must have filled it", head->magic);
        what->config_size = (uint32_t)(head->size < HCCL_CONFIG_BYTES ? head->size : HCCL_CONFIG_BYTES);
    }
    emu_buffer answer = {0}, request = {0};
    if (config != NULL) emu_buffer_put(&request, config, what->config_size);
    emu_buffer_put(&request, text, size);
    int status = ask(device, what, request.data, request.size, &answer);
    emu_buffer_free(&request);
    if (status == 0) {
        uint32_t ranks[2] = {0};
        memcpy(ranks, answer.data, answer.size < sizeof ranks ? answer.size : sizeof ranks);
        size_t length = answer.size - sizeof ranks;
        communicator *c = calloc(1, sizeof *c);
        if (c == NULL) abort();
        *c = (communicator){.rank = ranks[0], .size = ranks[1], .device = device, .met = calloc(ranks[1], sizeof *c->met)};
        if (c->met == NULL) abort();
        pthread_mutex_init(&c->linking, NULL);
        memcpy(c->name, answer.data + sizeof ranks, length < sizeof c->name ? length : sizeof c->name - 1);
        *comm = emu_object_new(KIND_COMMUNICATOR, c, free_communicator);
        if (*comm == NULL) {
            status = HCCL_E_MEMORY;
        } else {
            device->communicators++;
            emu_handle_hide(*comm);  /* programs that end without destroying their communicators lose nothing */
        }
    }
    emu_buffer_free(&answer);
    return (HcclResult)status;
}

/* Keeps the system from giving a root info's port to anybody before rank 0 has it, who may listen there nevertheless: both
   allow it, and this socket never listens. Those of the latest root infos are kept. */
static void reserve(int bound) {
    static _Atomic int reserved[HCCL_PORTS];
    static _Atomic unsigned count;
    int old = 0;
    if (setsockopt(bound, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0)
        old = atomic_exchange(&reserved[atomic_fetch_add(&count, 1) % HCCL_PORTS], bound);
    else
        old = bound;
    if (old > 0) close(old);
}

/* Where ranks on other hosts reach rank 0: "ip:port" at the address in HCCL_IF_IP; "" without it. */
static int own_address(char *text) {
    const char *ip = getenv("HCCL_IF_IP"), *base = getenv("HCCL_IF_BASE_PORT");
    if (ip == NULL || *ip == '\0') return 0;
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1)
        return emu_fail(HCCL_E_PARA, NULL, "HCCL_IF_IP is %s; it must be an IPv4 address", ip);
    int first = base != NULL ? atoi(base) : 0;
    for (int port = first; port < first + (first != 0 ? HCCL_PORTS : 1); port++) {
        int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t size = sizeof address;
        address.sin_port = htons((uint16_t)port);
        bool is_free = bind(probe, (struct sockaddr *)&address, sizeof address) == 0 &&
                       getsockname(probe, (struct sockaddr *)&address, &size) == 0;
        if (is_free && first == 0)
            reserve(probe);
        else
            close(probe);
        if (is_free) {
            snprintf(text, ROOT_INFO_ADDRESS_BYTES, "%s:%d", ip, ntohs(address.sin_port));
            return 0;
        }
    }
    return emu_fail(HCCL_E_NETWORK, NULL, "HCCL_IF_IP is %s, HCCL_IF_BASE_PORT %s: no port there is free", ip, base ? base : "unset");
}

API HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo) {
    ENTER_HCCL("HcclGetRootInfo");
    NOT_NULL(rootInfo);
    memset(rootInfo, 0, sizeof *rootInfo);
    memcpy(rootInfo->internal, ROOT_INFO_MAGIC, sizeof ROOT_INFO_MAGIC - 1);
    if (getrandom(rootInfo->internal + sizeof ROOT_INFO_MAGIC - 1, ROOT_INFO_SECRET_BYTES, 0) != ROOT_INFO_SECRET_BYTES)
        return (HcclResult)emu_fail(HCCL_E_SYSCALL, NULL, "getrandom: %s", strerror(errno));
    return (HcclResult)own_address(rootInfo->internal + sizeof ROOT_INFO_MAGIC - 1 + ROOT_INFO_SECRET_BYTES);
}

static HcclResult join_root(emu_device *device, uint32_t size, const HcclRootInfo *root, uint32_t rank, const HcclCommConfig *config,
                            HcclComm *comm) {
    action what = {.action = COMMUNICATION_JOIN, .rank = rank, .size = size};
    return join(device, &what, config, root->internal, HCCL_ROOT_INFO_BYTES, comm);
}

static HcclResult init_root(uint32_t size, const HcclRootInfo *rootInfo, uint32_t rank, const HcclCommConfig *config, HcclComm *comm) {
    emu_device *device;
    NOT_NULL(rootInfo);
    NOT_NULL(comm);
    int status = this_device(&device);
    return status != 0 ? (HcclResult)status : join_root(device, size, rootInfo, rank, config, comm);
}

API HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                          const HcclCommConfig *config, HcclComm *comm) {
    ENTER_HCCL("HcclCommInitRootInfoConfig");
    NOT_NULL(config);
    return init_root(nRanks, rootInfo, rank, config, comm);
}

API HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm) {
    ENTER_HCCL("HcclCommInitRootInfo");
    return init_root(nRanks, rootInfo, rank, NULL, comm);
}

static HcclResult init_cluster(const char *clusterInfo, uint32_t rank, const HcclCommConfig *config, HcclComm *comm) {
    emu_device *device;
    NOT_NULL(clusterInfo);
    NOT_NULL(comm);
    int status = this_device(&device);
    if (status != 0) return (HcclResult)status;
    action what = {.action = COMMUNICATION_CLUSTER, .rank = rank};
    return join(device, &what, config, clusterInfo, strlen(clusterInfo), comm);
}

API HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *comm) {
    ENTER_HCCL("HcclCommInitClusterInfoConfig");
    NOT_NULL(config);
    return init_cluster(clusterInfo, rank, config, comm);
}

API HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm) {
    ENTER_HCCL("HcclCommInitClusterInfo");
    return init_cluster(clusterInfo, rank, NULL, comm);
}

#define NO_SUB_COMMUNICATOR 0xFFFFFFFFull /* subCommId of the ranks that are not in it */

API HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
                                       uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm) {
    ENTER_HCCL("HcclCreateSubCommConfig");
    NOT_NULL(subComm);
    *subComm = NULL;
    if (rankIds == NULL && subCommId == NO_SUB_COMMUNICATOR) return HCCL_SUCCESS;
    if (rankIds == NULL || subCommId == NO_SUB_COMMUNICATOR)
        return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "rankIds is %p and subCommId %#llx; both must tell that the rank is in it, or neither",
                                    (void *)rankIds, (unsigned long long)subCommId);
    if (subCommRankId >= rankNum)
        return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "subCommRankId is %u; rankNum is %u", subCommRankId, rankNum);
    NOT_NULL(config);
    NOT_NULL(comm);
    ACQUIRE(parent, *comm);
    emu_buffer text = {0};
    emu_buffer_put(&text, parent->name, sizeof parent->name);
    emu_buffer_put(&text, rankIds, rankNum * sizeof *rankIds);
    action what = {.action = COMMUNICATION_SPLIT, .rank = subCommRankId, .size = rankNum, .number = subCommId};
    HcclResult status = join(parent->device, &what, config, text.data, text.size, subComm);
    emu_buffer_free(&text);
    return status;
}

typedef struct {
    pthread_t thread;
    emu_device *device;
    HcclRootInfo *root;
    uint32_t rank, size;
    HcclComm *comm;
    HcclResult status;
    char *message; /* of the thread */
} member;

static void *join_member(void *argument) {
    member *m = argument;
    emu_set_routine("HcclCommInitAll");
    m->status = join_root(m->device, m->size, m->root, m->rank, NULL, m->comm);
    m->message = emu_take_message();
    return NULL;
}

static HcclResult tell(communicator *c, uint32_t which) {
    action what = {.action = which};
    emu_buffer answer = {0};
    memcpy(what.name, c->name, sizeof what.name);
    int status = ask(c->device, &what, NULL, 0, &answer);
    emu_buffer_free(&answer);
    return (HcclResult)status;
}

static HcclResult leave(HcclComm comm) {
    int destroyed;
    EMU_HELD communicator *c = emu_object_destroy(comm, KIND_COMMUNICATOR, &destroyed);
    if (c == NULL) return HCCL_E_PTR;  /* by another thread, meanwhile */
    HcclResult status = tell(c, COMMUNICATION_LEAVE);
    if (c->device->communicators > 0) c->device->communicators--; /* aclFinalize drops them */
    return status;
}

/* The devices of one process: each joins on a thread of its own, because each waits for the others. */
API HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms) {
    ENTER_HCCL("HcclCommInitAll");
    NOT_NULL(devices);
    NOT_NULL(comms);
    if (ndev == 0 || ndev > EMU_MAX_DEVICES)
        return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "ndev is %u; allowed: 1 to %d", ndev, EMU_MAX_DEVICES);
    memset(comms, 0, ndev * sizeof *comms);
    HcclRootInfo root;
    HcclResult status = HcclGetRootInfo(&root);
    emu_set_routine("HcclCommInitAll");
    member *members = calloc(ndev, sizeof *members);
    if (members == NULL) return HCCL_E_MEMORY;
    uint32_t started = 0;
    for (uint32_t i = 0; i < ndev && status == HCCL_SUCCESS; i++) {
        if (emu_check_device(devices[i]) != 0) {
            status = HCCL_E_PARA;
            break;
        }
        members[i] = (member){.device = &emu_devices[devices[i]], .root = &root, .rank = i, .size = ndev, .comm = &comms[i]};
        status = (HcclResult)emu_memory_prepare(members[i].device);
    }
    for (; started < ndev && status == HCCL_SUCCESS; started++)
        if (pthread_create(&members[started].thread, NULL, join_member, &members[started]) != 0) status = HCCL_E_SYSCALL;
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(members[i].thread, NULL);
        if (status == HCCL_SUCCESS && members[i].status != HCCL_SUCCESS) {
            status = members[i].status;
            if (members[i].message != NULL) emu_fail_with(status, members[i].message);
        }
        free(members[i].message);
    }
    for (uint32_t i = 0; i < started && status != HCCL_SUCCESS; i++) {
        if (members[i].status == HCCL_SUCCESS) leave(comms[i]);
        comms[i] = NULL;
    }
    free(members);
    return status;
}

/* HCCL looks for a communicator among those of the thread's device, which must be set. */
API HcclResult HcclCommDestroy(HcclComm comm) {
    ENTER_HCCL("HcclCommDestroy");
    emu_context *context;
    if (emu_current_context(&context) != 0) return HCCL_E_RUNTIME;
    ACQUIRE(c, comm);
    return leave(comm);
}

API HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError) {
    ENTER_HCCL("HcclGetCommAsyncError");
    ACQUIRE(c, comm);
    NOT_NULL(asyncError);
    uint64_t now = emu_now(), failures = emu_failures();
    *asyncError = HCCL_SUCCESS;
    if (c->asked != 0 && now - c->asked < STATE_HOLDS && failures == c->failures) return HCCL_SUCCESS;
    *asyncError = tell(c, COMMUNICATION_STATE);
    c->failures = failures;
    c->asked = *asyncError == HCCL_SUCCESS ? now : 0;
    return HCCL_SUCCESS;
}

API HcclResult HcclCommSuspend(HcclComm comm) {
    ENTER_HCCL("HcclCommSuspend");
    ACQUIRE(c, comm);
    c->asked = 0;
    return tell(c, COMMUNICATION_ABORT);
}

/* All ranks connect again; pending operations have failed. */
API HcclResult HcclCommResume(HcclComm comm) {
    ENTER_HCCL("HcclCommResume");
    ACQUIRE(c, comm);
    pthread_mutex_lock(&c->linking);
    memset(c->linked, 0, sizeof c->linked);
    memset(c->met, 0, c->size * sizeof *c->met);
    pthread_mutex_unlock(&c->linking);
    return tell(c, COMMUNICATION_RESUME);
}

/* --------------------------------------------------------------------------------------------------------- windows */

API HcclResult HcclCommRegister(HcclComm comm, void *addr, uint64_t size, void **handle, uint32_t flag) {
    ENTER_HCCL("HcclCommRegister");
    ACQUIRE(c, comm);
    NOT_NULL(addr);
    NOT_NULL(handle);
    if (flag != 0) return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "flag is %u; it must be 0", flag);
    if (size == 0 || emu_memory_pin(c->device, addr, size, "addr") != 0) return HCCL_E_PARA;
    emu_memory_unpin(c->device, addr);
    pthread_mutex_lock(&c->linking);
    bool registered = c->window != NULL;
    if (!registered) {
        c->window = addr;
        c->window_size = size;
    }
    pthread_mutex_unlock(&c->linking);
    if (registered) return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "%s has a window already", c->name);
    *handle = &c->window;
    return HCCL_SUCCESS;
}

/* The window that HcclCommRegister has returned a handle for; `end`: it is no window any more. */
static int read_window(communicator *c, const void *handle, bool end, const void **address, uint64_t *size) {
    pthread_mutex_lock(&c->linking);
    *address = handle == &c->window ? c->window : NULL;
    *size = c->window_size;
    if (*address != NULL && end) c->window = NULL;
    pthread_mutex_unlock(&c->linking);
    if (*address != NULL) return 0;
    return emu_fail(HCCL_E_PARA, NULL, "%p is no handle that HcclCommRegister has given for %s", handle, c->name);
}

API HcclResult HcclCommDeregister(HcclComm comm, void *handle) {
    ENTER_HCCL("HcclCommDeregister");
    ACQUIRE(c, comm);
    const void *address;
    uint64_t size;
    return (HcclResult)read_window(c, handle, true, &address, &size);
}

/* Waits until the peers have called it, too. */
API HcclResult HcclCommExchangeMem(HcclComm comm, void *windowHandle, uint32_t *peerRanks, uint32_t peerRankNum) {
    ENTER_HCCL("HcclCommExchangeMem");
    ACQUIRE(c, comm);
    const void *address;
    uint64_t size;
    int status = read_window(c, windowHandle, false, &address, &size);
    if (status != 0) return (HcclResult)status;
    if (peerRankNum > 0) NOT_NULL(peerRanks);
    uint64_t window[] = {emu_memory_offset(c->device, address), size};
    emu_buffer text = {0}, answer = {0};
    emu_buffer_put(&text, window, sizeof window);
    emu_buffer_put(&text, peerRanks, peerRankNum * sizeof *peerRanks);
    action what = {.action = COMMUNICATION_WINDOW, .size = peerRankNum};
    memcpy(what.name, c->name, sizeof what.name);
    status = ask(c->device, &what, text.data, text.size, &answer);
    emu_buffer_free(&text);
    emu_buffer_free(&answer);
    return (HcclResult)status;
}

API HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank) {
    ENTER_HCCL("HcclGetRankId");
    ACQUIRE(c, comm);
    NOT_NULL(rank);
    *rank = c->rank;
    return HCCL_SUCCESS;
}

API HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize) {
    ENTER_HCCL("HcclGetRankSize");
    ACQUIRE(c, comm);
    NOT_NULL(rankSize);
    *rankSize = c->size;
    return HCCL_SUCCESS;
}

API HcclResult HcclGetCommName(HcclComm comm, char *commName) {
    ENTER_HCCL("HcclGetCommName");
    ACQUIRE(c, comm);
    NOT_NULL(commName);
    memcpy(commName, c->name, sizeof c->name);
    return HCCL_SUCCESS;
}

/* ----------------------------------------------------------------------------------------------------- collectives */

/* type_of: the row of a data type in hccl_types (hccl_data.h); -1 with a message when this product's collectives do not take
 * it. Without a reduction elements are only moved. */
static int type_of(HcclDataType type, int reduction) {
    char product[16];
    snprintf(product, sizeof product, " %s ", emu_config()->soc.product);
    size_t rows = sizeof hccl_types / sizeof *hccl_types;
    for (size_t i = 0; i < rows; i++)
        if (hccl_types[i].hccl == (int)type && strstr(hccl_types[i].products[reduction + 1], product) != NULL) return (int)i;
    emu_fail(HCCL_E_NOT_SUPPORT, NULL, "dataType is %d; %s cannot %s it", (int)type, emu_config()->soc.name,
             reduction < 0 ? "send" : "reduce by this op");
    return -1;
}

#define COLLECTIVE(routine)                                          \
    {                                                                \
        .name = "aclnnHcclCollective",                               \
        .phase_one = "aclnnHcclCollectiveGetWorkspaceSize",          \
        .shown = routine,                                            \
        .kinds = "siiiITT",                                          \
        .directions = "iiiiiix",                                     \
        .parameters = "comm operation reduction root counts sendBuf recvBuf", \
        .any_alignment = true, .no_workspace = true, .communicates = true, \
    }
static const emu_operator collectives[COLLECTIVES] = {
    [COLLECTIVE_BARRIER] = COLLECTIVE("HcclBarrier"), [COLLECTIVE_ALL_REDUCE] = COLLECTIVE("HcclAllReduce"),
    [COLLECTIVE_REDUCE] = COLLECTIVE("HcclReduce"), [COLLECTIVE_BROADCAST] = COLLECTIVE("HcclBroadcast"),
    [COLLECTIVE_SCATTER] = COLLECTIVE("HcclScatter"), [COLLECTIVE_REDUCE_SCATTER] = COLLECTIVE("HcclReduceScatter"),
    [COLLECTIVE_ALL_GATHER] = COLLECTIVE("HcclAllGather"), [COLLECTIVE_ALL_TO_ALL] = COLLECTIVE("HcclAlltoAll"),
};
static const emu_operator point_to_point = {
    .name = "aclnnHcclPointToPoint",
    .phase_one = "aclnnHcclPointToPointGetWorkspaceSize",
    .shown = "HcclBatchSendRecv",
    .kinds = "sILIL",
    .directions = "iiiix",
    .parameters = "comm destinations sends sources receives",
    .any_alignment = true, .no_workspace = true, .communicates = true,
};

/* A vector of elements, which the executor owns from phase two on. */
static aclTensor *vector(const void *buffer, uint64_t count, int type) {
    int64_t dims = (int64_t)count, stride = 1;
    return aclCreateTensor(&dims, 1, hccl_types[type].acl, &stride, 0, ACL_FORMAT_ND, &dims, 1, (void *)buffer);
}

static HcclResult queue(const emu_operator *operator, const emu_value *values_, aclrtStream stream) {
    uint64_t workspace = 0;
    aclOpExecutor *executor = NULL;
    int status = emu_phase_one(operator, values_, &workspace, &executor);
    if (status == 0) status = emu_phase_two(operator, NULL, workspace, executor, stream);
    return status == 0 ? HCCL_SUCCESS : HCCL_E_RUNTIME;
}

/* Which ranks wait for which, for --validate: nobody waits for ranks that only receive. */
static void meet_all(const communicator *c, int operation, uint32_t root) {
    if (!emu_validates()) return;
    bool from_root = operation == COLLECTIVE_BROADCAST || operation == COLLECTIVE_SCATTER, to_root = operation == COLLECTIVE_REDUCE, is_root = c->rank == root;
    emu_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) abort();
    *exchange = (emu_exchange){.device = c->device->id, .publishes = !from_root || is_root, .receives = from_root ? !is_root : !to_root || is_root};
    exchange->communicator = (uint32_t)strlen(c->name);
    snprintf(exchange->key, sizeof exchange->key, "%s", c->name);
    emu_exchanges_of_next(exchange, 1);
}

/* A receive waits for the send. */
static void meet_peers(const communicator *c, const HcclSendRecvItem *items, uint32_t count) {
    if (!emu_validates()) return;
    emu_exchange *exchanges = calloc(count + 1, sizeof *exchanges);
    if (exchanges == NULL) abort();
    for (uint32_t i = 0; i < count; i++) {
        bool receives = items[i].sendRecvType == HCCL_RECV;
        exchanges[i] = (emu_exchange){.device = c->device->id, .counts_apart = true, .publishes = !receives, .receives = receives};
        exchanges[i].communicator = (uint32_t)strlen(c->name);
        snprintf(exchanges[i].key, sizeof exchanges->key, "%s from %u to %u", c->name, receives ? items[i].remoteRank : c->rank, receives ? c->rank : items[i].remoteRank);
    }
    emu_exchanges_of_next(exchanges, count);
}

/* Waits for peers (none: for all ranks), as HCCL does when it makes links: in the call itself. The lock is held. */
static int link_with(communicator *c, int operation, const uint32_t *peers, uint32_t count) {
    action what = {.action = COMMUNICATION_LINK, .size = count, .number = (uint64_t)operation};
    emu_buffer answer = {0};
    memcpy(what.name, c->name, sizeof what.name);
    int status = ask(c->device, &what, peers, count * sizeof *peers, &answer);
    emu_buffer_free(&answer);
    return status;
}

/* The first collective of a kind waits for all ranks. */
static int link_all(communicator *c, int operation) {
    int status = 0;
    if (c->size == 1 || emu_config()->noop) return 0;
    pthread_mutex_lock(&c->linking);
    if (!c->linked[operation]) status = link_with(c, operation, NULL, 0);
    if (status == 0) c->linked[operation] = true;
    pthread_mutex_unlock(&c->linking);
    return status;
}

/* Sends and receives wait for the ranks that they use for the first time. */
static int link_peers(communicator *c, const HcclSendRecvItem *items, uint32_t count) {
    uint32_t *peers = calloc(count + 1, sizeof *peers), many = 0;
    int status = 0;
    if (peers == NULL) return HCCL_E_MEMORY;
    pthread_mutex_lock(&c->linking);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = items[i].remoteRank;
        if (rank == c->rank || c->met[rank]) continue;
        c->met[rank] = true;
        peers[many++] = rank;
    }
    if (many > 0 && !emu_config()->noop) status = link_with(c, 0, peers, many);
    for (uint32_t i = 0; i < many && status != 0; i++) c->met[peers[i]] = false;
    pthread_mutex_unlock(&c->linking);
    free(peers);
    return status;
}

typedef struct {
    int operation, type;
    HcclReduceOp reduction;
    uint32_t root;
    const void *send;
    uint64_t send_count;
    const void *receive;
    uint64_t receive_count;
    const int64_t *counts;
    uint64_t count_count;
} request;

static HcclResult run(communicator *c, const request *r, aclrtStream stream) {
    if (r->root != UINT32_MAX && r->root >= c->size)
        return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "root is %u; the communicator has %u ranks", r->root, c->size);
    const char *routine = emu_routine();
    aclIntArray *counts = aclCreateIntArray(r->counts, r->count_count);
    aclTensor *send = vector(r->send, r->send_count, r->type), *receive = vector(r->receive, r->receive_count, r->type);
    HcclResult status = HCCL_E_PARA;
    if (counts != NULL && send != NULL && receive != NULL) {
        emu_value values_[] = {{.pointer = c->name}, {.integer = r->operation}, {.integer = (int64_t)r->reduction},
                               {.integer = (int32_t)r->root}, {.pointer = counts}, {.pointer = send}, {.pointer = receive}};
        status = (HcclResult)link_all(c, r->operation);
        uint64_t elements = r->send_count > 0 ? r->send_count : r->receive_count; /* a broadcast has its tensor once */
        uint64_t correlation = emu_activity_begin(ACTIVITY_COLLECTIVE, routine, elements, (uint64_t)r->type, c->name);
        if (status == HCCL_SUCCESS) {
            meet_all(c, r->operation, r->root);
            status = queue(&collectives[r->operation], values_, stream);
        }
        emu_activity_end(correlation, status);
    }
    if (counts != NULL) aclDestroyIntArray(counts);
    if (send != NULL) aclDestroyTensor(send);
    if (receive != NULL) aclDestroyTensor(receive);
    return status;
}

/* To HCCL the null handle of the default stream is no stream. */
#define CREATED(stream) \
    if ((stream) == NULL) \
        return (HcclResult)emu_fail(HCCL_E_PTR, "EI0003", "stream is a null pointer, the default stream; HCCL wants one that was created")

/* reduction: HcclReduceOp, or MOVED without one. */
#define MOVED (-1)
#define BEGIN(routine, data_type, reduction)                                                              \
    ENTER_HCCL(routine);                                                                                  \
    ACQUIRE(c, comm);                                                                                        \
    CREATED(stream);                                                                                      \
    if ((int)(reduction) > HCCL_REDUCE_MIN || (int)(reduction) < MOVED)                                   \
        return (HcclResult)emu_fail(HCCL_E_NOT_SUPPORT, NULL, "op is %d; it must be in [0, 3]", (int)(reduction)); \
    int type = type_of(data_type, (int)(reduction));                                                      \
    if (type < 0) return HCCL_E_NOT_SUPPORT

API HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                             aclrtStream stream) {
    BEGIN("HcclAllReduce", dataType, op);
    request r = {COLLECTIVE_ALL_REDUCE, type, op, UINT32_MAX, sendBuf, count, recvBuf, count, NULL, 0};
    return run(c, &r, stream);
}

API HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, uint32_t root,
                          HcclComm comm, aclrtStream stream) {
    BEGIN("HcclReduce", dataType, op);
    uint64_t receive = c->rank == root ? count : 0;
    request r = {COLLECTIVE_REDUCE, type, op, root, sendBuf, count, recvBuf, receive, NULL, 0};
    return run(c, &r, stream);
}

API HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream) {
    BEGIN("HcclBroadcast", dataType, MOVED);
    request r = {COLLECTIVE_BROADCAST, type, 0, root, NULL, 0, buf, count, NULL, 0};
    return run(c, &r, stream);
}

API HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root, HcclComm comm,
                           aclrtStream stream) {
    BEGIN("HcclScatter", dataType, MOVED);
    uint64_t send = c->rank == root ? recvCount * c->size : 0;
    request r = {COLLECTIVE_SCATTER, type, 0, root, sendBuf, send, recvBuf, recvCount, NULL, 0};
    return run(c, &r, stream);
}

API HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                                 HcclComm comm, aclrtStream stream) {
    BEGIN("HcclReduceScatter", dataType, op);
    request r = {COLLECTIVE_REDUCE_SCATTER, type, op, UINT32_MAX, sendBuf, recvCount * c->size, recvBuf, recvCount, NULL, 0};
    return run(c, &r, stream);
}

API HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                             aclrtStream stream) {
    BEGIN("HcclAllGather", dataType, MOVED);
    request r = {COLLECTIVE_ALL_GATHER, type, 0, UINT32_MAX, sendBuf, sendCount, recvBuf, sendCount * c->size, NULL, 0};
    return run(c, &r, stream);
}

/* One past the last element that counts and displacements reach. */
static uint64_t reach(const uint64_t *counts, const uint64_t *displacements, uint32_t size) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < size; i++)
        if (counts[i] > 0 && displacements[i] + counts[i] > most) most = displacements[i] + counts[i];
    return most;
}

/* The numbers of up to four arrays, one after another. */
static int64_t *numbers(uint32_t size, const uint64_t *a, const uint64_t *b, const uint64_t *c, const uint64_t *d) {
    const uint64_t *arrays[] = {a, b, c, d};
    int64_t *all = calloc(4 * (size_t)size + 1, sizeof *all);
    for (int i = 0; i < 4 && all != NULL; i++)
        if (arrays[i] != NULL) memcpy(all + (size_t)i * size, arrays[i], size * sizeof *all);
    return all;
}

API HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf, uint64_t recvCount,
                                  HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
    BEGIN("HcclReduceScatterV", dataType, op);
    NOT_NULL(sendCounts);
    NOT_NULL(sendDispls);
    int64_t *counts = numbers(c->size, sendDispls, sendCounts, NULL, NULL);
    request r = {COLLECTIVE_REDUCE_SCATTER, type, op, UINT32_MAX, sendBuf, reach(sendCounts, sendDispls, c->size), recvBuf, recvCount,
                 counts, 2ull * c->size};
    HcclResult status = counts == NULL ? HCCL_E_MEMORY : run(c, &r, stream);
    free(counts);
    return status;
}

API HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts, const void *recvDispls,
                              HcclDataType dataType, HcclComm comm, aclrtStream stream) {
    BEGIN("HcclAllGatherV", dataType, MOVED);
    NOT_NULL(recvCounts);
    NOT_NULL(recvDispls);
    int64_t *counts = numbers(c->size, recvDispls, recvCounts, NULL, NULL);
    request r = {COLLECTIVE_ALL_GATHER, type, 0, UINT32_MAX, sendBuf, sendCount, recvBuf, reach(recvCounts, recvDispls, c->size),
                 counts, 2ull * c->size};
    HcclResult status = counts == NULL ? HCCL_E_MEMORY : run(c, &r, stream);
    free(counts);
    return status;
}

API HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
                             const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType, HcclComm comm,
                             aclrtStream stream) {
    BEGIN("HcclAlltoAllV", sendType, MOVED);
    NOT_NULL(sendCounts);
    NOT_NULL(sdispls);
    NOT_NULL(recvCounts);
    NOT_NULL(rdispls);
    if (sendType != recvType)
        return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "recvType is %d; it must be sendType, %d", (int)recvType, (int)sendType);
    int64_t *counts = numbers(c->size, sdispls, sendCounts, rdispls, recvCounts);
    request r = {COLLECTIVE_ALL_TO_ALL, type, 0, UINT32_MAX, sendBuf, reach(sendCounts, sdispls, c->size), recvBuf,
                 reach(recvCounts, rdispls, c->size), counts, 4ull * c->size};
    HcclResult status = counts == NULL ? HCCL_E_MEMORY : run(c, &r, stream);
    free(counts);
    return status;
}

API HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
                              HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    ENTER_HCCL("HcclAlltoAllVC");
    ACQUIRE(c, comm);
    NOT_NULL(sendCountMatrix);
    const uint64_t *matrix = sendCountMatrix;
    uint64_t *all = calloc(4 * (size_t)c->size + 1, sizeof *all);
    if (all == NULL) return HCCL_E_MEMORY;
    uint64_t *sends = all, *starts = all + c->size, *receives = all + 2 * c->size, *places = all + 3 * c->size;
    for (uint32_t i = 0; i < c->size; i++) {
        sends[i] = matrix[c->rank * c->size + i];
        receives[i] = matrix[i * c->size + c->rank];
        if (i > 0) starts[i] = starts[i - 1] + sends[i - 1], places[i] = places[i - 1] + receives[i - 1];
    }
    HcclResult status = HcclAlltoAllV(sendBuf, sends, starts, sendType, recvBuf, receives, places, recvType, comm, stream);
    free(all);
    return status;
}

API HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf, uint64_t recvCount,
                            HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    BEGIN("HcclAlltoAll", sendType, MOVED);
    if (sendType != recvType || sendCount != recvCount)
        return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "recvType and recvCount must be sendType and sendCount");
    request r = {COLLECTIVE_ALL_TO_ALL, type, 0, UINT32_MAX, sendBuf, sendCount * c->size, recvBuf, recvCount * c->size, NULL, 0};
    return run(c, &r, stream);
}

API HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
    ENTER_HCCL("HcclBarrier");
    ACQUIRE(c, comm);
    CREATED(stream);
    request r = {COLLECTIVE_BARRIER, 0, 0, UINT32_MAX, NULL, 0, NULL, 0, NULL, 0};
    return run(c, &r, stream);
}

/* --------------------------------------------------------------------------------------------------- point to point */

/* What a rank sends to itself goes to a receive of the same count and data type in the batch, and none may be left. */
static int check_items_to_itself(const HcclSendRecvItem *items, uint32_t count, const communicator *c) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t alike[2] = {0};
        if (items[i].remoteRank != c->rank) continue;
        for (uint32_t j = 0; j < count; j++)
            if (items[j].remoteRank == c->rank && items[j].count == items[i].count && items[j].dataType == items[i].dataType)
                alike[items[j].sendRecvType == HCCL_RECV]++;
        if (alike[0] != alike[1])
            return emu_fail(HCCL_E_PARA, NULL, "item %u is with rank %u, this rank itself: the batch has %u sends to it and %u receives "
                            "from it of %llu elements of type %d; allowed: as many of each",
                            i, c->rank, alike[0], alike[1], (unsigned long long)items[i].count, (int)items[i].dataType);
    }
    return 0;
}

/* Queues sends and receives that run together. */
static HcclResult send_receive(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, communicator *c, aclrtStream stream) {
    const aclTensor **tensors[2] = {calloc(itemNum + 1, sizeof **tensors), calloc(itemNum + 1, sizeof **tensors)};
    int64_t *peers[2] = {calloc(itemNum + 1, sizeof **peers), calloc(itemNum + 1, sizeof **peers)};
    uint64_t many[2] = {0};
    HcclResult status = tensors[0] && tensors[1] && peers[0] && peers[1] ? HCCL_SUCCESS : HCCL_E_MEMORY;
    for (uint32_t i = 0; i < itemNum && status == HCCL_SUCCESS; i++) {
        const HcclSendRecvItem *item = &sendRecvInfo[i];
        int type = type_of(item->dataType, MOVED), side = item->sendRecvType == HCCL_RECV;
        if (type < 0)
            status = HCCL_E_NOT_SUPPORT;
        else if (item->remoteRank >= c->size)
            status = (HcclResult)emu_fail(HCCL_E_PARA, NULL, "item %u: remoteRank is %u; the communicator has %u ranks", i, item->remoteRank, c->size);
        else if ((tensors[side][many[side]] = vector(item->buf, item->count, type)) == NULL)
            status = HCCL_E_PARA;
        else
            peers[side][many[side]++] = item->remoteRank;
    }
    if (status == HCCL_SUCCESS) status = (HcclResult)check_items_to_itself(sendRecvInfo, itemNum, c);
    if (status == HCCL_SUCCESS) status = (HcclResult)link_peers(c, sendRecvInfo, itemNum);
    if (status == HCCL_SUCCESS) {
        aclIntArray *arrays[2] = {aclCreateIntArray(peers[0], many[0]), aclCreateIntArray(peers[1], many[1])};
        aclTensorList *lists[2] = {aclCreateTensorList(tensors[0], many[0]), aclCreateTensorList(tensors[1], many[1])};
        emu_value values_[] = {{.pointer = c->name}, {.pointer = arrays[0]}, {.pointer = lists[0]}, {.pointer = arrays[1]}, {.pointer = lists[1]}};
        meet_peers(c, sendRecvInfo, itemNum);
        status = queue(&point_to_point, values_, stream);
        for (int side = 0; side < 2; side++) {
            aclDestroyIntArray(arrays[side]);
            aclDestroyTensorList(lists[side]); /* and its tensors */
        }
    } else {
        for (int side = 0; side < 2; side++)
            for (uint64_t i = 0; tensors[side] != NULL && i < many[side]; i++) aclDestroyTensor(tensors[side][i]);
    }
    for (int side = 0; side < 2; side++) {
        free(tensors[side]);
        free(peers[side]);
    }
    return status;
}

/* Between HcclGroupStart and HcclGroupEnd a thread's sends and receives are collected, to run together; collectives are queued
 * at once. */
typedef struct {
    HcclSendRecvItem item;
    communicator *comm; /* with a reference */
    aclrtStream stream;
    bool queued;
} group_item;

static _Thread_local struct {
    uint32_t depth;
    size_t count, room;
    group_item *items;
} group;

static HcclResult collect_items(const HcclSendRecvItem *items, uint32_t count, communicator *c, aclrtStream stream) {
    if (group.count + count > group.room) {
        size_t room = (group.count + count) * 2;
        group_item *more = realloc(group.items, room * sizeof *more);
        if (more == NULL) return HCCL_E_MEMORY;
        group.items = more;
        group.room = room;
    }
    for (uint32_t i = 0; i < count; i++) {
        emu_object_hold(c);
        group.items[group.count++] = (group_item){items[i], c, stream, false};
    }
    return HCCL_SUCCESS;
}

API HcclResult HcclGroupStart(void) {
    ENTER_HCCL("HcclGroupStart");
    group.depth++;
    return HCCL_SUCCESS;
}

API HcclResult HcclGroupEnd(void) {
    ENTER_HCCL("HcclGroupEnd");
    if (group.depth == 0) return (HcclResult)emu_fail(HCCL_E_PARA, NULL, "HcclGroupEnd has no HcclGroupStart before it");
    if (--group.depth > 0) return HCCL_SUCCESS;
    HcclResult status = HCCL_SUCCESS;
    HcclSendRecvItem *together = calloc(group.count + 1, sizeof *together);
    if (together == NULL) status = HCCL_E_MEMORY;
    for (size_t i = 0; i < group.count && status == HCCL_SUCCESS; i++) {
        communicator *c = group.items[i].comm;
        uint32_t count = 0;
        for (size_t j = i; j < group.count; j++) {
            if (group.items[j].queued || group.items[j].comm != c || group.items[j].stream != group.items[i].stream) continue;
            together[count++] = group.items[j].item;
            group.items[j].queued = true;
        }
        if (count > 0) status = send_receive(together, count, c, group.items[i].stream);
    }
    free(together);
    for (size_t i = 0; i < group.count; i++) emu_object_release(group.items[i].comm);
    free(group.items);
    group.items = NULL;
    group.count = group.room = 0;
    return status;
}

API HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
    ENTER_HCCL("HcclBatchSendRecv");
    ACQUIRE(c, comm);
    CREATED(stream);
    NOT_NULL(sendRecvInfo);
    return group.depth > 0 ? collect_items(sendRecvInfo, itemNum, c, stream) : send_receive(sendRecvInfo, itemNum, c, stream);
}

API HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm, aclrtStream stream) {
    HcclSendRecvItem item = {HCCL_SEND, sendBuf, count, dataType, destRank};
    return HcclBatchSendRecv(&item, 1, comm, stream);
}

API HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm, aclrtStream stream) {
    HcclSendRecvItem item = {HCCL_RECV, recvBuf, count, dataType, srcRank};
    return HcclBatchSendRecv(&item, 1, comm, stream);
}
