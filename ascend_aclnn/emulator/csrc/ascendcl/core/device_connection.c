/*
 * The device process and the connections to it.
 *
 * The process starts with two descriptors: 3, a control socket, and 4, the device memory. Every request uses a connection of
 * its own: a socket pair, whose other end is sent over the control socket, and a ring for launches. Connections are kept for
 * later requests. Threads therefore do not wait for each other, nothing has a name in the file system, and each side sees the
 * other's death as the end of its sockets. The process ends when the control socket does.
 *
 * The process is not a child of the program, because the program may wait for its own children and handle their signals. An
 * intermediate process starts it and exits at once, and its exit sends no signal either.
 */
#include "ascendcl/core/device_connection.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/core/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#define SYS_pidfd_send_signal 424
#endif

/* The package's directories come after the standard library. The interpreter's site-packages are not used. */
#define BOOT                                                                                                             \
    "import gc, sys\n"                                                                                                   \
    "gc.disable()\n" /* no imported object is garbage; main() enables it */                                            \
    "sys.path += sys.argv[1].split(':')\n"                                                                               \
    "from ascend_aclnn.emulator.process.device import main\n"                                                                    \
    "main()\n"

/* ------------------------------------------------------------------------------------------------------------- buffers */

void emu_buffer_put(emu_buffer *buffer, const void *data, size_t size) {
    if (buffer->size + size > buffer->room) {
        size_t room = buffer->room > 0 ? buffer->room : 512;
        while (room < buffer->size + size) room *= 2;
        uint8_t *more = realloc(buffer->data, room);
        if (more == NULL) abort();
        buffer->data = more;
        buffer->room = room;
    }
    if (size > 0) memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

void emu_buffer_free(emu_buffer *buffer) {
    free(buffer->data);
    *buffer = (emu_buffer){0};
}

/* ---------------------------------------------------------------------------------------------------------- the process */

/* A thread of NumPy's BLAS sleeps after 2^16 cycles, about as long as it takes to wake. OpenBLAS itself has 2^26: its threads
 * would spin on from one product to the next, on a processor that the client's threads could use. */
#define BLAS_TIMEOUT "OPENBLAS_THREAD_TIMEOUT="
static char blas_timeout[] = BLAS_TIMEOUT "16";

static bool begins_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

/* The environment without variables that would load other Python code, or the client's libraries, into the device process. */
static char **device_environment(void) {
    size_t count = 0, copied = 0;
    bool has_timeout = false;
    while (environ[count] != NULL) count++;
    char **result = calloc(count + 2, sizeof *result);
    if (result == NULL) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (begins_with(environ[i], "LD_PRELOAD=") || begins_with(environ[i], "PYTHON")) continue;
        has_timeout = has_timeout || begins_with(environ[i], BLAS_TIMEOUT);
        result[copied++] = environ[i];
    }
    if (!has_timeout) result[copied] = blas_timeout;
    return result;
}

/* link_lock is held. */
static int report_lost(const emu_device *device) {
    return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_DEVICE_LOST", "the process of device %d: %s", device->id,
                    device->lost ? device->lost_reason : "it has been replaced by another one");
}

/* The same without the lock. */
static int tell_lost(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    int status = report_lost(device);
    pthread_mutex_unlock(&device->link_lock);
    return status;
}

static int lose(emu_device *device, const char *reason) {
    device->lost = true;
    emu_keep_messages();
    snprintf(device->lost_reason, sizeof device->lost_reason, "%s", reason);
    return report_lost(device);
}

typedef struct {
    const char *python;
    char **arguments, **environment;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    pid_t pid;
    int failed;
} starting;

static int start_child(void *argument) {
    starting *start = argument;
    start->failed = posix_spawn(&start->pid, start->python, start->actions, start->attributes, start->arguments, start->environment);
    _exit(0);
}

#define BETWEEN_STACK (256u << 10)

/* Starts the process from an intermediate one, which shares this one's memory and suspends this thread until it exits. The
 * intermediate process sends no signal at its end, so that neither wait() nor a handler of SIGCHLD sees it. Returns 0 or
 * errno. */
static int start_grandchild(starting *start) {
    void *stack = mmap(NULL, BETWEEN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return errno;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's handlers must not run in the intermediate process */
    start->failed = ECHILD;
#ifdef __SANITIZE_THREAD__ /* ThreadSanitizer takes the intermediate process for this thread, and does not see it exit */
    pid_t between = -1;
    int failed = EINVAL;
#else
    pid_t between = clone(start_child, (uint8_t *)stack + BETWEEN_STACK, CLONE_VM | CLONE_VFORK, start);
    int failed = between < 0 ? errno : 0;
#endif
    /* qemu-user supports no process without an exit signal; there it is an ordinary child. */
    if (failed == EINVAL)
        failed = start->failed = posix_spawn(&start->pid, start->python, start->actions, start->attributes, start->arguments,
                                             start->environment);
    while (between >= 0 && waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    munmap(stack, BETWEEN_STACK);
    return failed != 0 ? failed : start->failed;
}

static int spawn(emu_device *device, int control) {
    char python[4096], path[8192], ring[4200], base[32];
    emu_setting("ASCEND_EMULATOR_PYTHON", "python", python, sizeof python);
    emu_setting("ASCEND_EMULATOR_PYTHONPATH", "path", path, sizeof path);
    if (python[0] == 0)
        return lose(device, "no emulator.conf lies beside the libraries, and ASCEND_EMULATOR_PYTHON is not set");
    snprintf(ring, sizeof ring, "%s/libaclemu_ring.so", emu_directory());
    snprintf(base, sizeof base, "%p", (void *)device->base);
    char *arguments[] = {python, "-I", "-S", "-c", BOOT, path, ring, base, NULL};
    char **environment = device_environment();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals, every_signal;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, control, DESCRIPTOR_CONTROL);
    posix_spawn_file_actions_adddup2(&actions, device->memory_fd, DESCRIPTOR_MEMORY);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (fcntl(2, F_GETFD) < 0) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1); /* standard output belongs to the client */
    posix_spawnattr_init(&attributes);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&every_signal);
    posix_spawnattr_setsigdefault(&attributes, &every_signal);
    posix_spawnattr_setpgroup(&attributes, 0); /* Ctrl-C goes to the client only */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    starting start = {python, arguments, environment, &actions, &attributes, 0, 0};
    int failed = environment == NULL ? ENOMEM : start_grandchild(&start);
    device->pid = failed == 0 ? start.pid : 0;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    if (failed == 0) {
        int process = (int)syscall(SYS_pidfd_open, device->pid, 0);
        device->process = process >= 0 ? emu_move_up(process) : -1;
        return 0;
    }
    char reason[sizeof device->lost_reason];
    snprintf(reason, sizeof reason, "cannot start %.80s: %s", python, strerror(failed));
    return lose(device, reason);
}

/* Descriptors may be available later: the device is not lost. */
static int out_of_descriptors(const emu_device *device) {
    return emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "EMULATOR_OUT_OF_DESCRIPTORS", "no connection to device %d: %s", device->id,
                    strerror(errno));
}

static int start_locked(emu_device *device) {
    if (device->lost) return report_lost(device);
    if (device->pid != 0) return 0;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return out_of_descriptors(device);
    int ours = emu_move_up(pair[0]), theirs = emu_move_up(pair[1]);
    if (ours < 0 || theirs < 0) {
        int failed = out_of_descriptors(device);
        if (ours >= 0) close(ours);
        if (theirs >= 0) close(theirs);
        return failed;
    }
    int status = spawn(device, theirs);
    close(theirs);
    if (status != 0) {
        close(ours);
        return status;
    }
    device->control = ours;
    static _Atomic uint64_t incarnations;
    device->incarnation = ++incarnations;
    return 0;
}

void emu_link_start(emu_device *device) {
    if (emu_config()->noop || device->pid != 0 || device->lost) return;
    pthread_mutex_lock(&device->link_lock);
    if (start_locked(device) != 0) free(emu_take_message()); /* the first operator fails with this message again */
    pthread_mutex_unlock(&device->link_lock);
}

/* Kills the process, which has nothing to save. */
static void end_process(emu_device *device) {
    if (device->pid != 0) {
        /* Without a pidfd the pid may belong to another process by now. Then closing the control socket has to do. */
        if (device->process >= 0) syscall(SYS_pidfd_send_signal, device->process, SIGKILL, NULL, 0);
        close(device->control);
        /* Where this process adopts orphans, as the first process of a container does, it is the parent after all. */
        waitpid(device->pid, NULL, 0);
    }
    if (device->process >= 0) close(device->process);
    device->process = device->control = -1;
    device->pid = 0;
}

/* Wakes the device process, which naps or sleeps. */
static void wake(emu_ring *ring) {
    if (atomic_exchange(&ring->state, RING_BUSY) != RING_BUSY) ring_wake(&ring->state);
}

/* Announces a call on the socket before it is sent: a long call fits only while the device process reads it. */
static void announce_call(emu_ring *ring) {
    atomic_fetch_add(&ring->calls, 1);
    if (atomic_load(&ring->state) != RING_BUSY) wake(ring);
}

static void free_channel(emu_channel channel) {
    close(channel.socket);
    announce_call(channel.ring);
    munmap(channel.ring, sizeof *channel.ring);
}

static void close_channel(emu_device *device, emu_channel channel) {
    for (size_t k = 0; k < device->channel_count; k++) {
        if (device->channels[k].socket == channel.socket) device->channels[k] = device->channels[--device->channel_count];
    }
    free_channel(channel);
}

void emu_link_stop(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    end_process(device);
    /* Connections in use are closed by their users, which see the end of the socket. */
    for (size_t i = 0; i < device->idle_count; i++) close_channel(device, device->idle[i]);
    device->idle_count = 0;
    device->lost = false;
    pthread_mutex_unlock(&device->link_lock);
}

/* In a forked child: closes the parent's connections. */
static void forked_child(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        if (device->control >= 0) close(device->control);
        for (size_t k = 0; k < device->channel_count; k++) close(device->channels[k].socket);
        if (device->process >= 0) close(device->process);
        device->control = device->process = -1;
        device->channel_count = device->idle_count = 0;
        device->pid = 0;
    }
}

API int32_t aclemuDevicePid(int32_t device) {
    if (device < 0 || device >= emu_device_count()) return 0;
    return (int32_t)emu_devices[device].pid;
}

/* -------------------------------------------------------------------------------------------------------- connections */

static bool keep(emu_device *device, emu_channel channel) {
    if (device->channel_count == device->channel_room) {
        size_t more = device->channel_room > 0 ? device->channel_room * 2 : 16;
        emu_channel *grown = realloc(device->channels, more * sizeof *grown);
        if (grown == NULL) return false;
        device->channels = grown;
        device->channel_room = more;
    }
    device->channels[device->channel_count++] = channel;
    return true;
}

static bool send_descriptors(int control, const int fds[2]) {
    char byte = 0, space[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(header), fds, 2 * sizeof(int));
    ssize_t sent;
    do sent = sendmsg(control, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1;
}

/* Whether the process ends within some milliseconds: its end of the control socket does. link_lock is held. */
static bool ends(const emu_device *device, int timeout) {
    struct pollfd poller = {device->control, POLLIN, 0};
    int ended;
    do ended = poll(&poller, 1, timeout);
    while (ended < 0 && errno == EINTR);
    return ended > 0;
}

/* The same. */
static int lose_process(emu_device *device, const char *format) {
    char reason[sizeof device->lost_reason];
    snprintf(reason, sizeof reason, format, (int)device->pid);
    end_process(device);
    return lose(device, reason);
}

#define HAS_ENDED "%d has ended: it was killed, or its standard error says why"

/* The connection has ended, so the process has ended or is about to: the control socket shows which. */
static void lost_connection(const emu_connection *connection) {
    emu_device *device = connection->device;
    pthread_mutex_lock(&device->link_lock);
    if (!device->lost && device->pid != 0 && connection->incarnation == device->incarnation)
        lose_process(device, ends(device, 1000) ? HAS_ENDED : "%d does not answer");
    pthread_mutex_unlock(&device->link_lock);
}

int emu_link_check(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    int status = device->lost ? report_lost(device) : device->pid != 0 && ends(device, 0) ? lose_process(device, HAS_ENDED) : 0;
    pthread_mutex_unlock(&device->link_lock);
    return status;
}

bool emu_link_lost(emu_device *device) {
    char *text = emu_take_message();
    bool lost = emu_link_check(device) != 0;
    emu_restore_message(text);
    return lost;
}

/* Makes a channel and sends its other end to the process. *reached becomes false when the process has ended. */
static int new_channel(emu_device *device, emu_channel *channel, bool *reached) {
    int pair[2], memory = memfd_create("ascend-launches", MFD_CLOEXEC), status = 0;
    if (memory < 0) return out_of_descriptors(device);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        status = out_of_descriptors(device);
        close(memory);
        return status;
    }
    emu_ring *ring = MAP_FAILED;
    if (ftruncate(memory, sizeof *ring) == 0) ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (ring == MAP_FAILED) status = out_of_descriptors(device);
    else (void)madvise(ring, sizeof *ring, MADV_DONTFORK);
    if (status == 0 && !send_descriptors(device->control, (int[]){pair[1], memory})) {
        bool later = errno == ETOOMANYREFS || errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        *reached = later;
        status = later ? out_of_descriptors(device) : ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    }
    close(pair[1]);
    close(memory);
    *channel = (emu_channel){pair[0], ring};
    if (status == 0 && !keep(device, *channel)) status = out_of_descriptors(device);
    if (status != 0) {
        if (ring != MAP_FAILED) munmap(ring, sizeof *ring);
        close(pair[0]);
    }
    return status;
}

/* An idle connection, or a new one. */
int emu_link_open(emu_device *device, emu_connection *connection) {
    bool reached = true;
    *connection = (emu_connection){.device = device, .channel = {-1, NULL}};
    emu_channel channel = {-1, NULL};
    pthread_mutex_lock(&device->link_lock);
    int status = start_locked(device);
    connection->incarnation = device->incarnation;
    if (status == 0 && device->idle_count > 0) channel = device->idle[--device->idle_count];
    else if (status == 0) status = new_channel(device, &channel, &reached);
    pthread_mutex_unlock(&device->link_lock);
    if (!reached) {
        lost_connection(connection);
        return tell_lost(device);
    }
    if (status != 0) return status;
    connection->channel = channel;
    connection->launched = connection->taken = channel.ring->done; /* an idle channel has nothing in flight */
    connection->start = connection->end = channel.ring->sent;
    return 0;
}

bool emu_link_current(const emu_connection *connection) {
    return connection->channel.socket >= 0 && connection->incarnation == connection->device->incarnation && !connection->device->lost;
}

void emu_link_close(emu_connection *connection) {
    emu_device *device = connection->device;
    if (connection->channel.socket < 0) return;
    pthread_mutex_lock(&device->link_lock);
    bool usable = !device->lost && device->control >= 0 && connection->incarnation == device->incarnation &&
                  connection->taken == connection->launched;
    if (usable && device->idle_count < EMU_IDLE) device->idle[device->idle_count++] = connection->channel;
    else close_channel(device, connection->channel);
    connection->channel = (emu_channel){-1, NULL};
    pthread_mutex_unlock(&device->link_lock);
}

static bool send_all(int fd, struct iovec *parts, int count) {
    while (count > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        while (count > 0 && (size_t)sent >= parts->iov_len) {
            sent -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + sent;
            parts->iov_len -= (size_t)sent;
        }
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t size) {
    uint8_t *at = data;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool send_frame(int socket, uint32_t call, const emu_buffer *request) {
    size_t size = request != NULL ? request->size : 0;
    emu_frame head = {(uint32_t)(size + sizeof head.word), (int32_t)call};
    struct iovec parts[2] = {{&head, sizeof head}, {size > 0 ? request->data : NULL, size}};
    return send_all(socket, parts, size > 0 ? 2 : 1);
}

/* The status of the next answer, and its payload. */
static int receive(emu_connection *connection, emu_buffer *answer) {
    emu_frame reply;
    answer->size = 0;
    bool good = receive_all(connection->channel.socket, &reply, sizeof reply) && reply.bytes >= sizeof reply.word;
    if (good) {
        size_t size = reply.bytes - sizeof reply.word;
        if (size > answer->room) {
            emu_buffer_free(answer);
            answer->data = malloc(size);
            if (answer->data == NULL) abort();
            answer->room = size;
        }
        good = receive_all(connection->channel.socket, answer->data, size);
        answer->size = size;
    }
    if (good) return reply.word;
    lost_connection(connection);
    return tell_lost(connection->device);
}

int emu_link_call(emu_device *device, uint32_t call, const emu_buffer *request, emu_buffer *answer) {
    emu_connection connection;
    answer->size = 0;
    int status = emu_link_open(device, &connection);
    if (status != 0) return status;
    announce_call(connection.channel.ring);
    if (send_frame(connection.channel.socket, call, request)) {
        status = receive(&connection, answer);
    } else {
        lost_connection(&connection);
        status = tell_lost(device);
    }
    emu_link_close(&connection);
    return status;
}

int emu_link_message(int status, emu_buffer *answer) {
    if (status == 0 || answer->size == 0) return status;
    emu_buffer_put(answer, "", 1);
    return emu_fail_with(status, (const char *)answer->data);
}

/* ------------------------------------------------------------------------------------------------------------ launches */

/* The first sleep, in nanoseconds, before a client checks that the device process is alive, and the longest. */
#define LIVENESS 5000000
#define LONGEST_LIVENESS 80000000

/* Whether the launches are done within so many nanoseconds. */
static bool spin(const emu_ring *ring, emu_pace *pace, uint64_t launches, uint64_t since, uint64_t most) {
    bool done = false;
    while (!done && emu_now() - since < most) done = atomic_load_explicit(&ring->done, memory_order_acquire) >= launches;
    ring_spun(pace, !done);
    return done;
}

bool emu_link_launch(emu_connection *connection, const emu_buffer *request, bool after, uint64_t correlation) {
    emu_ring *ring = connection->channel.ring;
    uint64_t count = (RING_HEADER + request->size + 15) / 16 * 2; /* an even number, so that a filler always has room for its header */
    uint64_t at = connection->end % RING_WORDS, rest = RING_WORDS - at, filler = rest < count ? rest : 0;
    if (connection->end + filler + count - connection->start > RING_WORDS) return false;
    if (filler > 0) {
        ring->words[at] = filler;
        ring->words[at + 1] = RECORD_FILLER;
        at = 0;
    }
    ring->words[at] = count;
    ring->words[at + 1] = (after ? RECORD_AFTER : RECORD_PLAIN) | correlation << RING_KIND_BITS;
    memcpy(&ring->words[at + 2], request->data, request->size);
    connection->end += filler + count;
    connection->launched++;
    if (atomic_load(&ring->state) != RING_BUSY) atomic_store(&ring->sent_at, emu_now());
    atomic_store(&ring->sent, connection->end);
    if (atomic_load(&ring->state) == RING_SLEEPS) wake(ring);
    return true;
}

void emu_link_drop(emu_connection *connection) {
    emu_ring *ring = connection->channel.ring;
    if (connection->channel.socket < 0) return;
    for (uint64_t at = connection->start; at < connection->end; at += ring->words[at % RING_WORDS]) {
        uint64_t *kind = &ring->words[at % RING_WORDS + 1], expected = __atomic_load_n(kind, __ATOMIC_RELAXED);
        /* The device process may be about to answer. */
        uint64_t plain = expected & ((1 << RING_KIND_BITS) - 1);
        if (plain == RECORD_PLAIN || plain == RECORD_AFTER)
            (void)__atomic_compare_exchange_n(kind, &expected, RECORD_DROPPED, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
}

static bool is_lost(const emu_connection *connection) { return !emu_link_current(connection); }

/* Whether the socket has an answer that has not been read, or has ended; then the device is lost. */
static bool hears(const emu_connection *connection) {
    char byte;
    ssize_t got = recv(connection->channel.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) lost_connection(connection);
    return true;
}

/* Sleeps until the device process has done so many launches, or has an answer to an earlier one. False on timeout. */
static bool sleep_until(emu_connection *connection, uint64_t launches, int32_t timeout, uint64_t end) {
    emu_ring *ring = connection->channel.ring;
    for (int64_t most = LIVENESS;; most = most < LONGEST_LIVENESS ? 2 * most : most) {
        atomic_store(&ring->sleeps, 1);
        atomic_store(&ring->wanted, launches);
        if (atomic_load(&ring->done) >= launches || is_lost(connection)) return true;
        if (atomic_load(&ring->state) != RING_BUSY) wake(ring); /* its nap may have ended since the wake-up */
        int64_t now = (int64_t)emu_now(), left = timeout < 0 || (int64_t)end - now > most ? most : (int64_t)end - now;
        if (left <= 0) return atomic_load(&ring->done) >= launches;
        bool woken = ring_sleep(&ring->sleeps, 1, left);
        if (atomic_load(&ring->wanted) == 0 && emu_link_done(connection)) return true;
        /* The end of a process wakes nothing. */
        if (!woken && hears(connection)) return true;
    }
}

bool emu_link_await(emu_connection *connection, uint64_t launches, int32_t timeout) {
    emu_ring *ring = connection->channel.ring;
    if (atomic_load_explicit(&ring->done, memory_order_acquire) >= launches) return true;
    atomic_store(&ring->wanted, launches);
    if (atomic_load(&ring->state) != RING_BUSY) wake(ring); /* also for callers that poll: they may poll again and again */
    /* The end of the connection counts as an answer. */
    if (timeout == 0) return is_lost(connection) || (hears(connection) && is_lost(connection));
    uint64_t since = emu_now(), end = since + (uint64_t)(timeout > 0 ? timeout : 0) * 1000000ull;
    uint64_t most = ring_spin(&connection->pace);
    bool slept = !ring_spins(&connection->pace, most) || !spin(ring, &connection->pace, launches, since, 2 * most);
    bool in_time = !slept || sleep_until(connection, launches, timeout, end);
    atomic_store(&ring->wanted, 0);
    if (in_time) ring_learn(&connection->pace, since, atomic_load(&ring->done_at), emu_now(), slept);
    return in_time;
}

bool emu_link_done(const emu_connection *connection) {
    return atomic_load_explicit(&connection->channel.ring->done, memory_order_acquire) > connection->taken;
}

int emu_link_take(emu_connection *connection, emu_buffer *answer) {
    emu_ring *ring = connection->channel.ring;
    uint64_t at = connection->start % RING_WORDS;
    bool done = emu_link_done(connection);
    answer->size = 0;
    connection->taken++;
    if (__atomic_load_n(&ring->words[at + 1], __ATOMIC_RELAXED) == RECORD_FILLER) {
        connection->start += ring->words[at];
        at = 0;
    }
    connection->start += ring->words[at];
    if (!done) return tell_lost(connection->device);
    return __atomic_load_n(&ring->words[at + 1], __ATOMIC_RELAXED) == RECORD_ANSWERED ? receive(connection, answer) : 0;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_CONNECTIONS, NULL, forked_child); }
