/*
 * Kernels that a client brings along as binaries. They cannot run here: binaries are loaded and functions are found, by name, and a
 * launch runs the reference that is registered for the name in the device process. Without one it breaks its stream for good, since
 * code that compilers generate to launch kernels ignores statuses: every later wait for the stream fails with the kernel's name. A
 * kernel must never look as if it had run.
 */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/kernel/binary.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/memory/peers.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/call_site.h"
#include "ascendcl/validate/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kernel kernel;

/* A kernel of a binary. Clients pass its address as a handle, or a stub of their own that was registered for it. */
struct kernel {
    kernel *next;
    const void *binary, *stub;
    char name[200];
};

static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;
static kernel *kernels;

static kernel *add_kernel(const void *binary, const void *stub, const char *name) {
    kernel *added = calloc(1, sizeof *added);
    if (added == NULL) abort();
    added->binary = binary;
    added->stub = stub;
    snprintf(added->name, sizeof added->name, "%s", name);
    pthread_mutex_lock(&kernels_lock);
    added->next = kernels;
    kernels = added;
    pthread_mutex_unlock(&kernels_lock);
    return added;
}

static void remove_kernels(const void *binary) {
    pthread_mutex_lock(&kernels_lock);
    for (kernel **link = &kernels; *link != NULL;) {
        kernel *k = *link;
        if (k->binary == binary) {
            *link = k->next;
            free(k);
        } else {
            link = &k->next;
        }
    }
    pthread_mutex_unlock(&kernels_lock);
}

/* The name behind a function's handle or stub. */
static void name_of(const void *function, char *name, size_t size) {
    snprintf(name, size, "(unknown)");
    pthread_mutex_lock(&kernels_lock);
    for (const kernel *k = kernels; k != NULL; k = k->next) {
        if ((const void *)k == function || (k->stub != NULL && k->stub == function)) {
            snprintf(name, size, "%s", k->name);
            break;
        }
    }
    pthread_mutex_unlock(&kernels_lock);
}

/* The name behind a number in a binary. */
static void name_of_entry(const emu_binary *binary, uint64_t entry, char *name, size_t size) {
    const char *function = emu_binary_function(binary, entry);
    if (function != NULL) snprintf(name, size, "%s", function);
    else snprintf(name, size, "(entry %llu)", (unsigned long long)entry);
}

/* ------------------------------------------------------------------------------------------------------------- binaries */

/* What aclrtCreateBinary makes: data of the client's. */
typedef struct {
    const void *data;
    size_t size;
} binary_data;

/* What rtDevBinaryRegister and rtRegisterAllKernel take. */
typedef struct {
    uint32_t magic, version;
    const void *data;
    uint64_t length;
} runtime_binary;

static int load(const void *data, size_t size, void **handle) {
    if (handle == NULL) return emu_null_argument("binHandle");
    *handle = emu_binary_read(data, data != NULL ? size : 0);
    return 0;
}

static int load_registered(const void *bin, void **handle) {
    const runtime_binary *binary = bin;
    return load(binary != NULL ? binary->data : NULL, binary != NULL ? binary->length : 0, handle);
}

static int unload(void *handle) {
    if (handle == NULL) return emu_null_argument("binHandle");
    remove_kernels(handle);
    emu_binary_free(handle);
    return 0;
}

static int find_function(const void *binary, const char *name, aclrtFuncHandle *function) {
    if (binary == NULL || function == NULL) return emu_null_argument(binary == NULL ? "binHandle" : "funcHandle");
    *function = (aclrtFuncHandle)add_kernel(binary, NULL, name);
    return 0;
}

API aclrtBinary aclrtCreateBinary(const void *data, size_t dataLen) {
    ENTER_OR_NULL("aclrtCreateBinary");
    binary_data *binary = data != NULL && dataLen > 0 ? malloc(sizeof *binary) : NULL;
    if (binary != NULL) *binary = (binary_data){data, dataLen};
    return (aclrtBinary)binary;
}

API aclError aclrtDestroyBinary(aclrtBinary binary) {
    ENTER_RELEASE("aclrtDestroyBinary");
    free((void *)binary);
    LEAVE(0);
}

API aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle *binHandle) {
    ENTER("aclrtBinaryLoad");
    if (binary == NULL) return emu_null_argument("binary");
    const binary_data *source = (const void *)binary;
    return load(source->data, source->size, (void **)binHandle);
}

API aclError aclrtBinaryLoadFromFile(const char *binPath, aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle) {
    ENTER("aclrtBinaryLoadFromFile");
    (void)options;
    if (binPath == NULL || binHandle == NULL) return emu_null_argument(binPath == NULL ? "binPath" : "binHandle");
    *binHandle = (aclrtBinHandle)emu_binary_read_file(binPath);
    return 0;
}

API aclError aclrtBinaryLoadFromData(const void *data, size_t length, const aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle) {
    ENTER("aclrtBinaryLoadFromData");
    (void)options;
    return data == NULL ? emu_null_argument("data") : load(data, length, (void **)binHandle);
}

API aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle) {
    ENTER_RELEASE("aclrtBinaryUnLoad");
    LEAVE(unload((void *)binHandle));
}

API aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle) {
    ENTER("aclrtBinaryGetFunction");
    return kernelName == NULL ? emu_null_argument("kernelName") : find_function(binHandle, kernelName, funcHandle);
}

API aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle binHandle, uint64_t funcEntry, aclrtFuncHandle *funcHandle) {
    ENTER("aclrtBinaryGetFunctionByEntry");
    char name[200];
    if (binHandle == NULL) return emu_null_argument("binHandle");
    name_of_entry((const void *)binHandle, funcEntry, name, sizeof name);
    return find_function(binHandle, name, funcHandle);
}

API int32_t rtDevBinaryRegister(const void *bin, void **hdl) {
    ENTER("rtDevBinaryRegister");
    return load_registered(bin, hdl);
}

API int32_t rtRegisterAllKernel(const void *bin, void **hdl) {
    ENTER("rtRegisterAllKernel");
    return load_registered(bin, hdl);
}

API int32_t rtDevBinaryUnRegister(void *hdl) {
    ENTER_RELEASE("rtDevBinaryUnRegister");
    LEAVE(unload(hdl));
}

API int32_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName, const void *kernelInfoExt, uint32_t funcMode) {
    ENTER("rtFunctionRegister");
    (void)kernelInfoExt, (void)funcMode;
    add_kernel(binHandle, stubFunc, stubName != NULL ? stubName : "(unnamed)");
    return 0;
}

API int32_t rtFunctionGetMetaInfo(const void *funcHandle, int32_t type, void *data, uint32_t length) {
    (void)funcHandle, (void)type, (void)data, (void)length;
    return emu_not_emulated("rtFunctionGetMetaInfo", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

API int32_t rtFunctionGetMetaInfoSize(const void *funcHandle, int32_t type, size_t *size) {
    (void)funcHandle, (void)type, (void)size;
    return emu_not_emulated("rtFunctionGetMetaInfoSize", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

/* ------------------------------------------------------------------------------------------------------------- launches */

/* A launch that the device process computes. */
typedef struct {
    emu_task task;
    /* of --validate; NULL: it is not declared what the kernel accesses */
    const char *name;
    emu_access *accesses;
    size_t access_count;
    uint32_t count;
    void *addresses[]; /* that the kernel gets, pinned */
} kernel_launch;

static void unpin_all(kernel_launch *l) {
    for (uint32_t i = 0; i < l->count; i++) emu_memory_unpin(emu_memory_device(l->addresses[i]), l->addresses[i]);
    l->count = 0;
}

static void finish_launch(emu_task *task) {
    unpin_all((kernel_launch *)task);
    free(((kernel_launch *)task)->accesses);
    emu_buffer_free(&task->request);
    free(task);
}

/* A captured launch lets go of its memory. */
static void describe_launch(emu_task *task, emu_captured *captured) {
    kernel_launch *l = (kernel_launch *)task;
    emu_captured_launch(captured, &task->request);
    for (uint32_t i = 0; i < l->count; i++) /* stands for its allocation */
        emu_captured_use(captured, emu_memory_device(l->addresses[i]), l->addresses[i], 1, "an argument of a kernel");
    captured->kernel = l->name;
    captured->accesses = l->accesses;
    captured->access_count = l->access_count;
    captured->site = emu_validates() ? emu_call_site() : 0;
    l->accesses = NULL;
    unpin_all(l);
}

static int answer_launch(emu_task *task, int status, emu_buffer *answer) {
    (void)task;
    return emu_link_message(status, answer);
}

/* The device process forgets a launch that is not queued. The message stays. */
static void drop_plan(emu_device *device, const emu_buffer *number) {
    emu_buffer answer = {0};
    char *text = emu_take_message();
    (void)emu_link_call(device, CALL_DROP, number, &answer); /* fails where the process has ended */
    emu_restore_message(text);
    emu_buffer_free(&answer);
}

/* Arguments as a launcher passes them: a structure on the host, or in device memory, which is read when the kernel runs. NULL where
 * they are something else. */
typedef struct {
    const void *data;
    size_t size;
    bool on_device;
} plain_arguments;

static int refuse(const char *name, const char *reason) {
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_KERNEL_BINARY", "the kernel %s was launched as a binary; %s", name, reason);
}

/* What the device process answers about a pointer. */
typedef struct {
    uint64_t address, reads, writes;
} pointer;

/* A kernel may read and write all of an allocation. */
static void use_block(emu_device *home, const void *address) {
    const uint8_t *start;
    uint64_t size;
    if (home != NULL && emu_memory_own_block(home, address, &start, &size)) emu_validate_used(start, size);
}

/* Pins what a kernel's pointers point to. Where it is not declared what the kernel accesses, whole allocations count as written. */
static int pin_all(emu_device *device, kernel_launch *l, const pointer *pointers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *address = (void *)(uintptr_t)pointers[i].address;
        uint64_t offset, reads = pointers[i].reads, writes = pointers[i].writes, most = reads > writes ? reads : writes;
        emu_device *home;
        int status = emu_operand_pin(device, address, reads != UNDECLARED && most > 0 ? most : 1, "an argument of a kernel", &home, &offset);
        if (status != 0) return status;
        l->addresses[l->count++] = address;
        if (emu_validates() && reads == UNDECLARED) use_block(home, address);
    }
    return 0;
}

/* What --validate compares, now or with each replay. */
static void validate_launch(const char *name, kernel_launch *l, const pointer *pointers, size_t count, const char *arguments, size_t length,
                            const emu_stream *stream) {
    bool declared = false;
    for (size_t i = 0; i < count; i++) declared = declared || pointers[i].reads != UNDECLARED;
    if (!declared) return;
    arguments = emu_lasting(arguments, length);
    l->name = emu_lasting(name, strlen(name));
    l->accesses = calloc(2 * count, sizeof *l->accesses);
    if (l->accesses == NULL) abort();
    for (size_t i = 0; i < count; i++) {
        const void *address = (const void *)(uintptr_t)pointers[i].address;
        const emu_access read = {ACCESS_READ, address, pointers[i].reads, 1, 0, arguments, -1, MOVES_NOTHING, false, false};
        const emu_access write = {ACCESS_WRITE, address, pointers[i].writes, 1, 0, arguments, -1, MOVES_NOTHING, false, false};
        bool known = read.size != UNDECLARED; /* both sizes are declared, or neither */
        if (known && read.size > 0) l->accesses[l->access_count++] = read;
        if (known && write.size > 0) l->accesses[l->access_count++] = write;
        arguments += strcspn(arguments, " ");
        arguments += *arguments == ' ';
    }
    if (emu_stream_runs(stream))
        emu_validate_task(stream->timeline, l->name, emu_call_site(), l->accesses, l->access_count);
}

API int32_t aclemuCompareLaunch(void *handle, const char *name, const char *arguments, const aclemuAccess *accesses, size_t count) {
    EMU_HELD emu_stream *stream = NULL;
    if (name == NULL || arguments == NULL || (accesses == NULL && count > 0)) return emu_null_argument(name == NULL ? "name" : arguments == NULL ? "arguments" : "accesses");
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0 || !emu_validates()) return status;
    if (!emu_stream_runs(stream)) {
        for (size_t i = 0; i < count; i++) use_block(emu_memory_device(accesses[i].address), accesses[i].address);
        return 0;
    }
    name = emu_lasting(name, strlen(name));
    arguments = emu_lasting(arguments, strlen(arguments));
    emu_access *list = calloc(count + 1, sizeof *list);
    if (list == NULL) abort();
    for (size_t i = 0; i < count; i++) {
        const char *argument = arguments;
        for (uint32_t a = 0; a < accesses[i].argument && *argument != 0; a++) {
            argument += strcspn(argument, " ");
            argument += *argument == ' ';
        }
        list[i] = (emu_access){(emu_access_kind)accesses[i].kind, accesses[i].address, accesses[i].size, 1, 0, argument, -1, MOVES_NOTHING, true, false};
    }
    emu_call_site_note(name);
    emu_validate_task(stream->timeline, name, emu_call_site(), list, count);
    free(list);
    return 0;
}

/* Asks the device process for the kernel's reference, and queues the launch. */
static int compute(const char *name, emu_stream *stream, const plain_arguments *arguments) {
    static _Atomic uint64_t numbers;
    if (arguments == NULL) return refuse(name, "its arguments are not plain bytes: placeholders, an aclrtArgsHandle, or host inputs");
    bool on_device = arguments->on_device && arguments->data != NULL;
    uint64_t number = ++numbers | 1ull << 62; /* beside the plans of operators and of single operators */
    uint64_t length = strlen(name), address = on_device ? (uint64_t)(uintptr_t)arguments->data : 0, size = arguments->size;
    emu_buffer request = {0}, answer = {0};
    emu_buffer_put(&request, &number, sizeof number);
    emu_buffer_put(&request, &length, sizeof length);
    emu_buffer_put(&request, &address, sizeof address);
    emu_buffer_put(&request, &size, sizeof size);
    emu_buffer_put(&request, name, length);
    if (arguments->data != NULL && !on_device) emu_buffer_put(&request, arguments->data, arguments->size);
    emu_device *device = emu_stream_device(stream);
    int status = emu_link_call(device, CALL_KERNEL, &request, &answer);
    emu_buffer_free(&request);
    if (status == ACLNN_ERR_INNER_FIND_KERNEL_ERROR) {
        emu_buffer_free(&answer);
        return refuse(name, "no reference is registered for it (emulator run --operators)");
    }
    uint64_t count = 0;
    if (status == 0) memcpy(&count, answer.data, sizeof count);
    kernel_launch *l = calloc(1, sizeof *l + count * sizeof l->addresses[0]);
    if (l == NULL) abort();
    l->task = (emu_task){.finish = finish_launch, .answered = answer_launch, .describe = describe_launch, .routine = emu_routine()};
    emu_buffer_put(&l->task.request, &number, sizeof number);
    if (status == 0) {
        const pointer *pointers = (const pointer *)(const void *)(answer.data + sizeof count);
        const char *names = (const char *)(pointers + count);
        status = pin_all(device, l, pointers, count);
        if (status != 0) drop_plan(device, &l->task.request);
        else if (emu_validates()) validate_launch(name, l, pointers, count, names, (size_t)((const char *)answer.data + answer.size - names), stream);
    } else {
        (void)emu_link_message(status, &answer);
    }
    emu_buffer_free(&answer);
    if (status == 0) return emu_stream_enqueue(stream, &l->task);
    finish_launch(&l->task);
    return status;
}

/* Where the cores of a kernel of cube and vector cores would wait for each other: launchers pass it as the first argument. Nothing
 * that runs here reads it. */
API aclError aclrtGetHardwareSyncAddr(void **addr) {
    ENTER("aclrtGetHardwareSyncAddr");
    static uint64_t synchronisation;
    if (addr == NULL) return emu_null_argument("addr");
    *addr = &synchronisation;
    return 0;
}

/* Launches a kernel; what cannot be launched breaks the stream. */
static int launch_name(const char *name, aclrtStream handle, const plain_arguments *arguments) {
    EMU_HELD emu_stream *stream = NULL;
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0 || emu_config()->noop) return status;
    status = compute(name, stream, arguments);
    if (status != 0) emu_stream_break(stream, status);
    return status;
}

static int launch(const void *function, aclrtStream handle, const plain_arguments *arguments) {
    char name[200];
    name_of(function, name, sizeof name);
    return launch_name(name, handle, arguments);
}

/* The arguments of rtArgsEx_t, NULL where the runtime would change them on their way: host inputs, and tiling data behind them. */
static const plain_arguments *unchanged_arguments(const void *info, plain_arguments *arguments) {
    const struct {
        const void *args, *host_inputs;
        uint32_t size, tiling_address, tiling_data;
        uint16_t host_input_count;
        uint8_t has_tiling, on_device;
    } *extended = info;
    if (info == NULL || extended->host_input_count > 0 || extended->has_tiling) return NULL;
    *arguments = (plain_arguments){extended->args, extended->size, extended->on_device};
    return arguments;
}

static int launch_entry(void *binary, uint64_t entry, const void *info, aclrtStream stream) {
    char name[200];
    plain_arguments arguments;
    if (binary == NULL) return emu_null_argument("hdl");
    name_of_entry(binary, entry, name, sizeof name);
    return launch_name(name, stream, unchanged_arguments(info, &arguments));
}

API aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t blockDim, const void *argsData, size_t argsSize, aclrtStream stream) {
    ENTER("aclrtLaunchKernel");
    (void)blockDim;
    return launch(funcHandle, stream, &(plain_arguments){argsData, argsSize, true});
}

API aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t blockDim, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
                                         aclrtArgsHandle argsHandle, void *reserve) {
    ENTER("aclrtLaunchKernelWithConfig");
    (void)blockDim, (void)cfg, (void)argsHandle, (void)reserve;
    return launch(funcHandle, stream, NULL);
}

API aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData, size_t argsSize,
                                 aclrtLaunchKernelCfg *cfg, aclrtStream stream) {
    ENTER("aclrtLaunchKernelV2");
    (void)numBlocks, (void)cfg;
    return launch(funcHandle, stream, &(plain_arguments){argsData, argsSize, true});
}

API aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
                                           void *hostArgs, size_t argsSize, void *placeHolderArray,
                                           size_t placeHolderNum) {
    ENTER("aclrtLaunchKernelWithHostArgs");
    (void)numBlocks, (void)cfg, (void)placeHolderArray;
    return launch(funcHandle, stream, placeHolderNum > 0 ? NULL : &(plain_arguments){hostArgs, argsSize, false});
}

API int32_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize, void *smDesc, aclrtStream stm) {
    ENTER("rtKernelLaunch");
    (void)blockDim, (void)smDesc;
    return launch(stubFunc, stm, &(plain_arguments){args, argsSize, false});
}

API int32_t rtKernelLaunchWithFlagV2(const void *stubFunc, uint32_t blockDim, void *argsInfo, void *smDesc, aclrtStream stm,
                                     uint32_t flags, const void *cfgInfo) {
    ENTER("rtKernelLaunchWithFlagV2");
    (void)blockDim, (void)smDesc, (void)flags, (void)cfgInfo;
    plain_arguments arguments;
    return launch(stubFunc, stm, unchanged_arguments(argsInfo, &arguments));
}

API int32_t rtKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blockDim, void *argsInfo, void *smDesc, aclrtStream stm,
                                     const void *kernelInfo) {
    ENTER("rtKernelLaunchWithHandle");
    (void)blockDim, (void)smDesc, (void)kernelInfo;
    return launch_entry(hdl, tilingKey, argsInfo, stm);
}

API int32_t rtKernelLaunchWithHandleV2(void *hdl, uint64_t tilingKey, uint32_t blockDim, void *argsInfo, void *smDesc, aclrtStream stm,
                                       const void *cfgInfo) {
    ENTER("rtKernelLaunchWithHandleV2");
    (void)blockDim, (void)smDesc, (void)cfgInfo;
    return launch_entry(hdl, tilingKey, argsInfo, stm);
}

API int32_t rtVectorCoreKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blockDim, void *argsInfo, void *smDesc,
                                               aclrtStream stm, const void *cfgInfo) {
    ENTER("rtVectorCoreKernelLaunchWithHandle");
    (void)blockDim, (void)smDesc, (void)cfgInfo;
    return launch_entry(hdl, tilingKey, argsInfo, stm);
}

/* Without a stream to break, the default stream of the thread's context is broken. */
API int32_t rtLaunch(const void *stubFunc) {
    ENTER("rtLaunch");
    return launch(stubFunc, NULL, NULL);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_KERNELS, &kernels_lock, NULL); }
