/*
 * Looking into the emulated device: only the emulator's libascendcl.so has these functions.
 *
 * Misuse that real hardware answers with a crash or with silence is a named error here: the call returns a status other
 * than 0 (or NULL) and aclGetRecentErrMsg starts with the name:
 *
 *   EMULATOR_NULL_HANDLE        a handle is null
 *   EMULATOR_NOT_A_HANDLE       the value was never returned by a create function
 *   EMULATOR_WRONG_KIND         a handle of another kind
 *   EMULATOR_USE_AFTER_DESTROY  the handle has been destroyed
 *   EMULATOR_DOUBLE_DESTROY     the handle is destroyed a second time
 *   EMULATOR_LIST_MEMBER        the handle belongs to a list, which owns it
 *   EMULATOR_NO_DEVICE          no device is set on this thread
 *   EMULATOR_WRONG_CONTEXT      a stream or event of another context or device
 *   EMULATOR_LIVE_COMMUNICATOR  the device is reset before a communicator of HCCL on it is destroyed
 *   EMULATOR_THREAD_ENDED       an executor that runs once is used after the end of the thread that ran its phase one
 *   EMULATOR_WRONG_THREAD       the call must come from the thread that ran phase one
 *   EMULATOR_WRONG_EXECUTOR     the executor is of another operator
 *   EMULATOR_INVALID_ADDRESS    the address is not in device memory
 *   EMULATOR_UNALIGNED_ADDRESS  a tensor's data is not 32-byte aligned
 *   EMULATOR_OUT_OF_BOUNDS      the range leaves its allocation
 *   EMULATOR_USE_AFTER_FREE     the range has been freed
 *   EMULATOR_DOUBLE_FREE        the memory is freed a second time
 *   EMULATOR_FREE_IN_USE        queued work, or another process, still uses the memory
 *   EMULATOR_NOT_SHARED         a key or handle of another process that is not shared, not with this process, or no longer
 *   EMULATOR_COPY_DIRECTION     the kind of a copy contradicts its addresses
 *   EMULATOR_OUT_OF_MEMORY      the device's (or host's) memory is used up
 *   EMULATOR_OUT_OF_DESCRIPTORS the program has no file descriptor left for a connection to the device
 *   EMULATOR_NOT_SUPPORTED      the emulator lacks this function
 *   EMULATOR_DEVICE_LOST        the device process has ended
 *   EMULATOR_KERNEL_BINARY      a kernel was launched as a binary; every later wait for its stream fails
 *   EMULATOR_FORKED             the process was forked after the libraries were in use
 *   EMULATOR_INJECTED           a failure that aclemuFailAt or ASCEND_EMULATOR_FAULT asked for
 *   EMULATOR_LEAK               (standard error, at aclFinalize or at exit) what was never released
 */
#ifndef ASCEND_ACLNN_ACLEMU_H
#define ASCEND_ACLNN_ACLEMU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many objects of a kind are alive: "tensor", "scalar", "int_array", "float_array", "bool_array", "tensor_list",
 * "scalar_list", "executor", "stream", "event", "context" (those that the program made), "data_buffer", "tensor_desc",
 * "stream_config", "physical_memory", "allocation" (device memory), "host_allocation"; NULL counts all, and an unknown kind gives -1. */
int64_t aclemuLiveCount(const char *kind);

/* What is alive, as JSON; returns the length without the final zero, and writes at most size bytes. */
size_t aclemuDump(char *buffer, size_t size);

/* Native calls since the start or the last aclemuReset. aclGetRecentErrMsg and aclemu* do not count. */
uint64_t aclemuCallCount(void);

/* Runs of repeatable executors that CANN would replay from its record of the first run, since the start or the last
 * aclemuReset; all others go through every launch again. */
uint64_t aclemuFastRuns(void);

/* Waits with a timeout (stream, device, event) that have lasted for all of it since the start. Each costs a card: lines in the
 * process's log, an entry of the error manager and, on some, a task that reads the device's state. */
uint64_t aclemuTimedOutWaits(void);

/* The nth call from now (1 is the next) of a function, or of any function when name is NULL, fails with the status.
 * It has no other effect, except that calls which release something (destroy, free, phase two) still release it, and
 * calls which wait (synchronize) still wait.
 * nth 0 disarms. */
void aclemuFailAt(const char *name, uint64_t nth, int32_t status);

/* The last function that was made to fail, or NULL as long as none has been. */
const char *aclemuFailedCall(void);

/* In a function that aclrtLaunchHostFunc has queued: its task fails with the status, as a kernel of the stream does. */
void aclemuFailHostFunction(int32_t status, const char *text);

/* Disarms fault injection and sets the counters to 0. */
void aclemuReset(void);

/* --validate: a finding that was printed before is printed again. */
void aclemuForgetFindings(void);

/* Process id of a device's process, 0 when it does not run. */
int32_t aclemuDevicePid(int32_t device);

/* For clients that do the work of launches themselves, as interpreters of kernels do. Under --validate a launch that they have done is
 * compared as if the stream had got it now: `name` in full, and bytes that it reads (kind 0), reads and writes (1), writes (2), each with
 * the number of its argument among `arguments`, which spaces separate. Where the stream is captured, the launch is still to come with
 * each replay: the allocations count as written, and nothing is compared. A status; 0 too where nothing is validated. */
typedef struct {
    const void *address;
    uint64_t size;
    uint32_t kind, argument;
} aclemuAccess;
int32_t aclemuCompareLaunch(void *stream, const char *name, const char *arguments, const aclemuAccess *accesses, size_t count);
/* Whether waits of this thread order anything under --validate, and its copies to the host are compared (1, as at first), or not (0): what
 * interprets or records launches waits and reads where a device would not. Each 0 is taken back by a 1. */
void aclemuCountWaits(int32_t counts);

#ifdef __cplusplus
}
#endif

#endif
