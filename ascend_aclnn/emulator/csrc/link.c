/*
 * The device process and the connections to it.
 *
 * The process is started with two descriptors: 3, a control socket, and 4, the device memory. Every request travels on a
 * connection of its own: a socket pair whose other end is sent over the control socket, kept for later requests. So
 * threads do not wait for each other, nothing has a name in the file system, and each side sees the other's death as the
 * end of its sockets. The process ends when the control socket does.
 *
 * The process is not a child of the program, which may wait for children of its own and handle their signals: a process in
 * between starts it and ends at once, and no signal tells of that one either.
 */
#include "link.h"

#include "calls.h"
#include "settings.h"

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

/* The package's directories go after the standard library and before the interpreter's own site-packages. */
#define BOOT                                                                                                             \
    "import sys\n"                                                                                                       \
    "at = [i for i, p in enumerate(sys.path) if p.endswith(('site-packages', 'dist-packages'))] or [len(sys.path)]\n"    \
    "sys.path[at[0]:at[0]] = sys.argv[1].split(':')\n"                                                                   \
    "from ascend_aclnn.emulator.device import main\n"                                                                    \
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

/* The environment without what would lead another interpreter, or the client's libraries, into the device process. */
static char **clean_environment(void) {
    size_t count = 0, kept = 0;
    while (environ[count] != NULL) count++;
    char **result = calloc(count + 1, sizeof *result);
    if (result == NULL) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "PYTHON", 6) != 0) result[kept++] = environ[i];
    }
    return result;
}

static int report_lost(const emu_device *device) {
    return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_DEVICE_LOST", "the process of device %d: %s", device->id,
                    device->lost_reason);
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

/* Starts the process from one in between, which shares this one's memory and keeps this thread waiting until it has ended.
 * It is made with no signal at its end, so that it is no child that wait() or a handler of SIGCHLD could see. 0 or errno. */
static int start_grandchild(starting *start) {
    void *stack = mmap(NULL, BETWEEN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return errno;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's handlers must not run in it */
    start->failed = ECHILD;
    pid_t between = clone(start_child, (uint8_t *)stack + BETWEEN_STACK, CLONE_VM | CLONE_VFORK, start);
    int failed = between < 0 ? errno : 0;
    /* qemu-user knows no process without a signal at its end; there it is an ordinary child. */
    if (failed == EINVAL)
        failed = start->failed = posix_spawn(&start->pid, start->python, start->actions, start->attributes, start->arguments,
                                             start->environment);
    while (between >= 0 && waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    munmap(stack, BETWEEN_STACK);
    return failed != 0 ? failed : start->failed;
}

static int spawn(emu_device *device, int control) {
    char python[4096], path[8192], identity[16];
    emu_setting("ASCEND_EMULATOR_PYTHON", "python", python, sizeof python);
    emu_setting("ASCEND_EMULATOR_PYTHONPATH", "path", path, sizeof path);
    if (python[0] == 0)
        return lose(device, "no emulator.conf lies beside the libraries, and ASCEND_EMULATOR_PYTHON is not set");
    snprintf(identity, sizeof identity, "%d", device->id);
    char *arguments[] = {python, "-I", "-c", BOOT, path, identity, NULL};
    char **environment = clean_environment();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals, every_signal;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, control, DESCRIPTOR_CONTROL);
    posix_spawn_file_actions_adddup2(&actions, device->memory_fd, DESCRIPTOR_MEMORY);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (fcntl(2, F_GETFD) < 0) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1); /* the client's standard output is the client's alone */
    posix_spawnattr_init(&attributes);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&every_signal);
    posix_spawnattr_setsigdefault(&attributes, &every_signal);
    posix_spawnattr_setpgroup(&attributes, 0); /* Ctrl-C is for the client */
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

/* What cannot be had now may be had later: the device is not lost. */
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
    if (start_locked(device) != 0) free(emu_take_message()); /* the first operator says so again */
    pthread_mutex_unlock(&device->link_lock);
}

int emu_link_check(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    int status = device->lost ? report_lost(device) : 0;
    pthread_mutex_unlock(&device->link_lock);
    return status;
}

/* Ends the process, which has nothing to save. */
static void end_process(emu_device *device) {
    if (device->pid != 0) {
        /* Without a pidfd the number may be another process's by now, and the end of the control socket must do. */
        if (device->process >= 0) syscall(SYS_pidfd_send_signal, device->process, SIGKILL, NULL, 0);
        close(device->control);
        /* It is a child of this one after all where this one adopts orphans, as the first process of a container does. */
        waitpid(device->pid, NULL, 0);
    }
    if (device->process >= 0) close(device->process);
    device->process = device->control = -1;
    device->pid = 0;
}

static void close_connection(emu_device *device, int fd) {
    for (size_t k = 0; k < device->socket_count; k++) {
        if (device->sockets[k] == fd) device->sockets[k] = device->sockets[--device->socket_count];
    }
    close(fd);
}

void emu_link_stop(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    end_process(device);
    /* Connections in use are closed by their users, who see the end of the stream. */
    for (size_t i = 0; i < device->idle_count; i++) close_connection(device, device->idle[i]);
    device->idle_count = 0;
    device->lost = false;
    pthread_mutex_unlock(&device->link_lock);
}

/* In a forked child: lets the parent's connections go. */
static void forked_child(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        emu_device *device = &emu_devices[i];
        if (device->control >= 0) close(device->control);
        for (size_t k = 0; k < device->socket_count; k++) close(device->sockets[k]);
        if (device->process >= 0) close(device->process);
        device->control = device->process = -1;
        device->socket_count = device->idle_count = 0;
        device->pid = 0;
    }
}

API int32_t aclemuDevicePid(int32_t device) {
    if (device < 0 || device >= emu_device_count()) return 0;
    return (int32_t)emu_devices[device].pid;
}

/* -------------------------------------------------------------------------------------------------------- connections */

static bool keep(int **list, size_t *count, size_t *room, int fd) {
    if (*count == *room) {
        size_t more = *room > 0 ? *room * 2 : 16;
        int *grown = realloc(*list, more * sizeof **list);
        if (grown == NULL) return false;
        *list = grown;
        *room = more;
    }
    (*list)[(*count)++] = fd;
    return true;
}

static bool send_descriptor(int control, int fd) {
    char byte = 0, space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    ssize_t sent;
    do sent = sendmsg(control, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1;
}

/* A connection has come to its end, and so has the process, or it is about to: its control socket tells. */
static void lost_connection(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    if (!device->lost && device->pid != 0) {
        struct pollfd poller = {device->control, POLLIN, 0};
        int ended;
        do ended = poll(&poller, 1, 1000);
        while (ended < 0 && errno == EINTR);
        char reason[sizeof device->lost_reason];
        snprintf(reason, sizeof reason, ended > 0 ? "%d has ended: it was killed, or its standard error says why" : "%d does not answer",
                 (int)device->pid);
        end_process(device);
        lose(device, reason);
    }
    pthread_mutex_unlock(&device->link_lock);
}

/* A connection nobody uses, or a new one. */
int emu_link_open(emu_device *device, emu_connection *connection) {
    bool reached = true;
    connection->device = device;
    connection->fd = -1;
    pthread_mutex_lock(&device->link_lock);
    int status = start_locked(device);
    connection->incarnation = device->incarnation;
    if (status == 0 && device->idle_count > 0) {
        connection->fd = device->idle[--device->idle_count];
    } else if (status == 0) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            status = out_of_descriptors(device);
        } else {
            reached = send_descriptor(device->control, pair[1]);
            if (!reached && (errno == ETOOMANYREFS || errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
                reached = true;
                status = out_of_descriptors(device);
                close(pair[0]);
            } else if (reached && keep(&device->sockets, &device->socket_count, &device->socket_room, pair[0])) connection->fd = pair[0];
            else close(pair[0]);
            close(pair[1]);
        }
    }
    pthread_mutex_unlock(&device->link_lock);
    if (!reached) lost_connection(device);
    if (status != 0) return status;
    return connection->fd >= 0 ? 0 : report_lost(device);
}

bool emu_link_current(const emu_connection *connection) {
    return connection->fd >= 0 && connection->incarnation == connection->device->incarnation && !connection->device->lost;
}

void emu_link_close(emu_connection *connection) {
    emu_device *device = connection->device;
    if (connection->fd < 0) return;
    pthread_mutex_lock(&device->link_lock);
    bool usable = !device->lost && device->control >= 0 && connection->incarnation == device->incarnation;
    if (usable && device->idle_count < EMU_IDLE) device->idle[device->idle_count++] = connection->fd;
    else close_connection(device, connection->fd);
    connection->fd = -1;
    pthread_mutex_unlock(&device->link_lock);
}

/* Request: u32 bytes that follow, u32 call, payload. Answer: u32 bytes that follow, i32 status, payload. */
typedef struct {
    uint32_t bytes;
    int32_t word;
} frame;

/* Sends everything; with MSG_DONTWAIT, everything or (EAGAIN) nothing, as the kernel does for what fits into one of its
 * buffers. */
static bool send_all(int fd, struct iovec *parts, int count, int flags) {
    while (count > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        flags = 0;
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

emu_sent emu_link_send(emu_connection *connection, uint32_t call, const emu_buffer *request, bool wait) {
    frame head = {(uint32_t)(request->size + sizeof head.word), (int32_t)call};
    struct iovec parts[2] = {{&head, sizeof head}, {request->data, request->size}};
    if (send_all(connection->fd, parts, request->size > 0 ? 2 : 1, wait ? 0 : MSG_DONTWAIT)) return LINK_SENT;
    return errno == EAGAIN || errno == EWOULDBLOCK ? LINK_FULL : LINK_LOST;
}

bool emu_link_answered(const emu_connection *connection, int32_t timeout) {
    struct pollfd poller = {connection->fd, POLLIN, 0};
    int ready;
    do ready = poll(&poller, 1, timeout);
    while (ready < 0 && errno == EINTR);
    return ready != 0; /* an error is an answer, too: reading tells which */
}

int emu_link_receive(emu_connection *connection, emu_buffer *answer) {
    frame reply;
    answer->size = 0;
    bool good = receive_all(connection->fd, &reply, sizeof reply) && reply.bytes >= sizeof reply.word;
    if (good) {
        size_t size = reply.bytes - sizeof reply.word;
        if (size > answer->room) {
            emu_buffer_free(answer);
            answer->data = malloc(size);
            if (answer->data == NULL) abort();
            answer->room = size;
        }
        good = receive_all(connection->fd, answer->data, size);
        answer->size = size;
    }
    if (good) return reply.word;
    lost_connection(connection->device);
    return report_lost(connection->device);
}

int emu_link_call(emu_device *device, uint32_t call, const emu_buffer *request, emu_buffer *answer) {
    emu_connection connection;
    answer->size = 0;
    int status = emu_link_open(device, &connection);
    if (status != 0) return status;
    if (emu_link_send(&connection, call, request, true) == LINK_SENT) {
        status = emu_link_receive(&connection, answer);
    } else {
        lost_connection(device);
        status = report_lost(device);
    }
    emu_link_close(&connection);
    return status;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(NULL, forked_child); }
