/*
 * The device process and the connections to it.
 *
 * The process is started with two descriptors: 3, a control socket, and 4, the device memory. Every request travels on a
 * connection of its own: a socket pair whose other end is sent over the control socket, kept for later requests. So
 * threads do not wait for each other, nothing has a name in the file system, and each side sees the other's death as the
 * end of its sockets. The process ends when the control socket does.
 */
#include "link.h"

#include "calls.h"
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The package's directories go behind the standard library and before the interpreter's own site-packages. */
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

/* A value of emulator.conf beside the libraries (lines "key=value"), unless an environment variable overrides it. */
static void setting(const char *variable, const char *key, char *value, size_t size) {
    const char *given = getenv(variable);
    value[0] = 0;
    if (given != NULL && *given != 0) {
        snprintf(value, size, "%s", given);
        return;
    }
    char path[4200], line[8192];
    snprintf(path, sizeof path, "%s/emulator.conf", emu_config()->directory);
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    size_t length = strlen(key);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, key, length) == 0 && line[length] == '=') snprintf(value, size, "%s", line + length + 1);
    }
    fclose(file);
}

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

static int lose(emu_device *device, const char *reason) {
    device->lost = true;
    snprintf(device->lost_reason, sizeof device->lost_reason, "%s", reason);
    return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

static int spawn(emu_device *device, int control) {
    char python[4096], path[8192], identity[16];
    setting("ASCEND_EMULATOR_PYTHON", "python", python, sizeof python);
    setting("ASCEND_EMULATOR_PYTHONPATH", "path", path, sizeof path);
    if (python[0] == 0)
        return lose(device, "no emulator.conf lies beside the libraries, and ASCEND_EMULATOR_PYTHON is not set");
    snprintf(identity, sizeof identity, "%d", device->id);
    char *arguments[] = {python, "-I", "-c", BOOT, path, identity, NULL};
    char **environment = clean_environment();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, control, DESCRIPTOR_CONTROL);
    posix_spawn_file_actions_adddup2(&actions, device->memory_fd, DESCRIPTOR_MEMORY);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (fcntl(2, F_GETFD) < 0) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1); /* the client's standard output is the client's alone */
    posix_spawnattr_init(&attributes);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    posix_spawnattr_setpgroup(&attributes, 0); /* Ctrl-C is for the client */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawn(&device->pid, python, &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    if (failed == 0) return 0;
    device->pid = 0;
    char reason[sizeof device->lost_reason];
    snprintf(reason, sizeof reason, "cannot start %.80s: %s", python, strerror(failed));
    return lose(device, reason);
}

static int start_locked(emu_device *device) {
    if (device->lost) return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    if (device->pid != 0) return 0;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return lose(device, strerror(errno));
    int ours = emu_move_up(pair[0]), theirs = emu_move_up(pair[1]);
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

static int report_lost(const emu_device *device) {
    return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EMULATOR_DEVICE_LOST", "the process of device %d: %s", device->id,
                    device->lost_reason);
}

int emu_link_start(emu_device *device) {
    if (emu_config()->noop) return 0;
    pthread_mutex_lock(&device->link_lock);
    int status = start_locked(device);
    pthread_mutex_unlock(&device->link_lock);
    return status == 0 ? 0 : report_lost(device);
}

/* Ends the process if it is still this one's child; it has nothing to save. */
static void reap(pid_t pid) {
    int state;
    if (pid > 0 && waitpid(pid, &state, WNOHANG) == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &state, 0);
    }
}

void emu_link_stop(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    if (device->control >= 0) close(device->control);
    device->control = -1;
    reap(device->pid);
    device->pid = 0;
    /* Connections in use are closed by their users, who see the end of the stream. */
    for (size_t i = 0; i < device->idle_count; i++) {
        for (size_t k = 0; k < device->socket_count; k++) {
            if (device->sockets[k] == device->idle[i]) device->sockets[k] = device->sockets[--device->socket_count];
        }
        close(device->idle[i]);
    }
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
        device->control = -1;
        device->socket_count = device->idle_count = 0;
        device->pid = 0;
    }
}

API int32_t aclemuDevicePid(int32_t device) {
    if (device < 0 || device >= emu_config()->devices) return 0;
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

/* The process has ended, or is about to: finds out how. */
static void lost_connection(emu_device *device) {
    pthread_mutex_lock(&device->link_lock);
    if (!device->lost && device->pid != 0) {
        int state = 0;
        pid_t found = 0;
        for (int i = 0; i < 1000 && found == 0; i++) {
            found = waitpid(device->pid, &state, WNOHANG);
            if (found == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        char reason[sizeof device->lost_reason];
        if (found == device->pid && WIFSIGNALED(state))
            snprintf(reason, sizeof reason, "%d was killed by signal %d", (int)device->pid, WTERMSIG(state));
        else if (found == device->pid)
            snprintf(reason, sizeof reason, "%d ended with status %d (see its standard error)", (int)device->pid,
                     WEXITSTATUS(state));
        else
            snprintf(reason, sizeof reason, "%d does not answer", (int)device->pid);
        if (found == 0) reap(device->pid);
        device->pid = 0;
        lose(device, reason);
        close(device->control);
        device->control = -1;
    }
    pthread_mutex_unlock(&device->link_lock);
}

/* A connection nobody uses, or a new one. */
static int take_connection(emu_device *device, uint64_t *incarnation) {
    int fd = -1;
    pthread_mutex_lock(&device->link_lock);
    bool running = start_locked(device) == 0;
    *incarnation = device->incarnation;
    if (running) {
        if (device->idle_count > 0) {
            fd = device->idle[--device->idle_count];
        } else {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
                if (send_descriptor(device->control, pair[1]) &&
                    keep(&device->sockets, &device->socket_count, &device->socket_room, pair[0]))
                    fd = pair[0];
                else
                    close(pair[0]);
                close(pair[1]);
            }
        }
    }
    pthread_mutex_unlock(&device->link_lock);
    if (running && fd < 0) lost_connection(device);
    return fd;
}

int emu_link_open(emu_device *device, emu_connection *connection) {
    connection->device = device;
    connection->fd = take_connection(device, &connection->incarnation);
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
    if (!usable || !keep(&device->idle, &device->idle_count, &device->idle_room, connection->fd)) {
        for (size_t k = 0; k < device->socket_count; k++) {
            if (device->sockets[k] == connection->fd) device->sockets[k] = device->sockets[--device->socket_count];
        }
        close(connection->fd);
    }
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
