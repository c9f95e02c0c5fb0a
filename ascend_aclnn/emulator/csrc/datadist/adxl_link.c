/*
 * A transfer: the client sends a request and where the other engine's memory is, and gets a reply. Then the data follow, from the
 * server when it is read; when it is written the client sends them and gets a second reply. A reply that is not a success has a
 * message behind it.
 */
#include "datadist/adxl_link.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/validate/validate.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MOST_PARTS (1u << 20)
#define MOST_TEXT 4096u
#define LOOK_AGAIN 5 /* milliseconds until the next attempt to reach an engine */

typedef struct {
    uint32_t operation, count;
} request;

typedef struct {
    int32_t status;
    uint32_t length; /* of the message */
} reply;

typedef struct connection connection;

struct connection {
    connection *next;
    adxl_server *server;
    pthread_t thread;
    int socket;
    bool ended; /* the thread is about to end; its socket is closed by whoever joins it */
    uint64_t registered; /* by the server's engine, when the connection was made */
};

struct adxl_server {
    adxl_server *next; /* of this process's */
    adxl_memory *memory;
    pthread_t thread;
    int listener;
    pthread_mutex_t lock;
    connection *connections;
};

static pthread_mutex_t servers_lock = PTHREAD_MUTEX_INITIALIZER;
static adxl_server *servers;

/* ------------------------------------------------------------------------------------------------------------- sockets */

/* A name without a file: it goes with the process that listens. 0: the engine's name is too long. */
static socklen_t address_of(const char *name, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t room = sizeof address->sun_path - 1;
    int length = snprintf(address->sun_path + 1, room, "ascend-emulator-adxl/%u/%s", (unsigned)geteuid(), name);
    return length < 0 || (size_t)length >= room ? 0 : (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool same_user(int socket) {
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static void look_again_soon(void) { nanosleep(&(struct timespec){0, LOOK_AGAIN * 1000000}, NULL); }

/* Each call that waits gives up at a time of emu_now (0: never). */
static void set_deadline(int socket, int option, uint64_t until) {
    int32_t left = until == 0 ? 0 : emu_left(until);
    if (until != 0 && left <= 0) left = 1;
    struct timeval value = {left / 1000, left % 1000 * 1000};
    (void)setsockopt(socket, SOL_SOCKET, option, &value, sizeof value);
}

static bool send_all(int socket, const void *data, uint64_t size, uint64_t until) {
    for (const uint8_t *at = data; size > 0;) {
        set_deadline(socket, SO_SNDTIMEO, until);
        ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        size -= (uint64_t)sent;
    }
    return true;
}

static bool receive_all(int socket, void *data, uint64_t size, uint64_t until) {
    for (uint8_t *at = data; size > 0;) {
        set_deadline(socket, SO_RCVTIMEO, until);
        ssize_t received = recv(socket, at, size, 0);
        if (received < 0 && errno == EINTR) continue;
        if (received == 0) errno = ECONNRESET;
        if (received <= 0) return false;
        at += received;
        size -= (uint64_t)received;
    }
    return true;
}

static bool send_range(int socket, adxl_range range, uint64_t until) {
    return send_all(socket, (const void *)(uintptr_t)range.address, range.size, until);
}

static bool receive_range(int socket, adxl_range range, uint64_t until) {
    void *data = (void *)(uintptr_t)range.address;
    if (emu_validates()) emu_validate_written(data, range.size);
    return receive_all(socket, data, range.size, until);
}

/* Holds all of the ranges, or none. */
static int hold_all(adxl_memory *memory, uint64_t registered, const adxl_range *ranges, uint32_t count, const char *what) {
    for (uint32_t i = 0; i < count; i++) {
        int status = adxl_memory_hold(memory, registered, ranges[i], what);
        if (status == 0) continue;
        while (i > 0) adxl_memory_let_go(ranges[--i]);
        return status;
    }
    return 0;
}

static void let_all_go(const adxl_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) adxl_memory_let_go(ranges[i]);
}

static adxl_range *new_ranges(uint32_t count) {
    adxl_range *ranges = calloc(count + 1, sizeof *ranges);
    if (ranges == NULL) abort();
    return ranges;
}

/* ------------------------------------------------------------------------------------------------------------- the server */

static bool send_reply(int socket, int status) {
    char *text = status != 0 ? emu_take_message() : NULL;
    reply header = {status, text != NULL ? (uint32_t)strnlen(text, MOST_TEXT) : 0};
    bool sent = send_all(socket, &header, sizeof header, 0) && send_all(socket, text, header.length, 0);
    free(text);
    return sent;
}

/* Answers one request; false when the connection is at its end. */
static bool answer(connection *self) {
    request header;
    if (!receive_all(self->socket, &header, sizeof header, 0) || header.operation > ADXL_WRITE || header.count > MOST_PARTS) return false;
    adxl_range *ranges = new_ranges(header.count);
    bool goes_on = receive_all(self->socket, ranges, header.count * sizeof *ranges, 0);
    if (goes_on) {
        int status = hold_all(self->server->memory, self->registered, ranges, header.count, "remote_addr");
        goes_on = send_reply(self->socket, status);
        if (status == 0) {
            for (uint32_t i = 0; goes_on && i < header.count; i++)
                goes_on = header.operation == ADXL_READ ? send_range(self->socket, ranges[i], 0) : receive_range(self->socket, ranges[i], 0);
            let_all_go(ranges, header.count);
            if (goes_on && header.operation == ADXL_WRITE) goes_on = send_reply(self->socket, 0);
        }
    }
    free(ranges);
    return goes_on;
}

static void *serve(void *argument) {
    connection *self = argument;
    emu_set_routine("AdxlEngine::TransferSync");
    if (send_reply(self->socket, 0)) /* the client is connected when it has this: what may be reached is settled */
        while (answer(self)) {}
    pthread_mutex_lock(&self->server->lock);
    self->ended = true;
    pthread_mutex_unlock(&self->server->lock);
    return NULL;
}

/* Takes connections out: those that have ended, or all. The lock is held. */
static connection *taken_out(adxl_server *server, bool all) {
    connection *out = NULL;
    for (connection **link = &server->connections; *link != NULL;) {
        connection *item = *link;
        if (!all && !item->ended) {
            link = &item->next;
            continue;
        }
        *link = item->next;
        item->next = out;
        out = item;
    }
    return out;
}

static void end_connections(connection *first) {
    while (first != NULL) {
        connection *item = first;
        first = item->next;
        (void)shutdown(item->socket, SHUT_RDWR);
        pthread_join(item->thread, NULL);
        close(item->socket);
        free(item);
    }
}

static void add_connection(adxl_server *server, int socket) {
    connection *item = calloc(1, sizeof *item);
    if (item == NULL) abort();
    item->server = server;
    item->socket = socket;
    item->registered = adxl_memory_count(server->memory);
    pthread_mutex_lock(&server->lock);
    if (pthread_create(&item->thread, NULL, serve, item) == 0) {
        item->next = server->connections;
        server->connections = item;
        item = NULL;
    }
    pthread_mutex_unlock(&server->lock);
    if (item != NULL) { /* no thread for it: the client sees that the connection ends */
        close(socket);
        free(item);
    }
}

static void *listen_for(void *argument) {
    adxl_server *server = argument;
    for (;;) {
        int socket = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (socket < 0 && (errno == EMFILE || errno == ENFILE)) { /* until another one is closed */
            look_again_soon();
            continue;
        }
        if (socket < 0) return NULL;
        pthread_mutex_lock(&server->lock);
        connection *ended = taken_out(server, false);
        pthread_mutex_unlock(&server->lock);
        end_connections(ended);
        if (same_user(socket)) add_connection(server, socket);
        else close(socket);
    }
}

int adxl_server_new(const char *name, adxl_memory *memory, adxl_server **result) {
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    if (length == 0) return emu_fail(ADXL_PARAM_INVALID, NULL, "local_engine (%s) is longer than %zu characters", name, sizeof address.sun_path - 32);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, SOMAXCONN) != 0) {
        int status = emu_fail(ADXL_FAILED, NULL, "local_engine (%s) cannot listen: %s", name,
                              errno == EADDRINUSE ? "another engine of this host has the name" : strerror(errno));
        if (listener >= 0) close(listener);
        return status;
    }
    adxl_server *server = calloc(1, sizeof *server);
    if (server == NULL) abort();
    server->memory = memory;
    server->listener = listener;
    pthread_mutex_init(&server->lock, NULL);
    int status = pthread_create(&server->thread, NULL, listen_for, server);
    if (status != 0) {
        close(listener);
        free(server);
        return emu_fail(ADXL_FAILED, NULL, "no thread can be started: %s", strerror(status));
    }
    pthread_mutex_lock(&servers_lock);
    server->next = servers;
    servers = server;
    pthread_mutex_unlock(&servers_lock);
    *result = server;
    return 0;
}

void adxl_server_free(adxl_server *server) {
    pthread_mutex_lock(&servers_lock);
    adxl_server **link = &servers;
    while (*link != server) link = &(*link)->next;
    *link = server->next;
    pthread_mutex_unlock(&servers_lock);
    (void)shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    pthread_mutex_lock(&server->lock);
    connection *all = taken_out(server, true);
    pthread_mutex_unlock(&server->lock);
    end_connections(all);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

/* A forked child has none of the threads; with the sockets it would keep the names. */
static void close_in_child(void) {
    for (adxl_server *server = servers; server != NULL; server = server->next) {
        close(server->listener);
        for (connection *item = server->connections; item != NULL; item = item->next) close(item->socket);
    }
    servers = NULL;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_ADXL, &servers_lock, close_in_child); }

/* ------------------------------------------------------------------------------------------------------------- the client */

/* Takes a reply: its status with its message, -1 when none came. */
static int take_reply(int socket, uint64_t until) {
    reply header;
    if (!receive_all(socket, &header, sizeof header, until)) return -1;
    if (header.status == 0) return 0;
    char text[MOST_TEXT + 1] = "";
    if (header.length > MOST_TEXT || !receive_all(socket, text, header.length, until)) return -1;
    return emu_fail_with(header.status, text);
}

/* One attempt to connect: 0, or why not. ECONNREFUSED and EAGAIN: nobody listens yet, or answers in time. */
static int try_to_connect(const struct sockaddr_un *address, socklen_t length, uint64_t until, int *result) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    set_deadline(fd, SO_SNDTIMEO, until);
    int error = connect(fd, (const struct sockaddr *)address, length) != 0 ? errno : same_user(fd) ? 0 : EPERM;
    if (error == 0 && take_reply(fd, until) != 0) error = errno == ECONNRESET ? ECONNREFUSED : errno; /* it has just ended */
    if (error == 0) *result = fd;
    else close(fd);
    return error;
}

int adxl_connect(const char *name, int32_t milliseconds, int *result) {
    uint64_t until = emu_now() + (uint64_t)milliseconds * 1000000u;
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    if (length == 0) return emu_fail(ADXL_PARAM_INVALID, NULL, "remote_engine (%s) is longer than %zu characters", name, sizeof address.sun_path - 32);
    for (;;) {
        int error = try_to_connect(&address, length, until, result);
        if (error == 0) return 0;
        if (error != ECONNREFUSED && error != EAGAIN && error != EINTR)
            return emu_fail(ADXL_FAILED, NULL, "remote_engine (%s): %s", name, error == EPERM ? "it belongs to another user" : strerror(error));
        if (emu_left(until) <= 0) return emu_fail(ADXL_TIMEOUT, NULL, "no engine of this host answers as %s, after %d ms", name, (int)milliseconds);
        look_again_soon();
    }
}

/* The status of a transfer, -1 when the connection fails. */
static int transfer(int socket, adxl_operation operation, const adxl_range *local, const adxl_range *remote, uint32_t count, uint64_t until) {
    request header = {operation, count};
    if (!send_all(socket, &header, sizeof header, until) || !send_all(socket, remote, count * sizeof *remote, until)) return -1;
    int status = take_reply(socket, until);
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        bool moved = operation == ADXL_READ ? receive_range(socket, local[i], until) : send_range(socket, local[i], until);
        if (!moved) status = -1;
    }
    return status == 0 && operation == ADXL_WRITE ? take_reply(socket, until) : status;
}

int adxl_transfer(int socket, adxl_memory *memory, adxl_operation operation, const adxl_part *parts, uint32_t count, int32_t milliseconds,
                  bool *broken) {
    *broken = false;
    if (count > MOST_PARTS) return emu_fail(ADXL_PARAM_INVALID, NULL, "op_descs has %u parts; at most %u are allowed here", count, MOST_PARTS);
    adxl_range *local = new_ranges(count), *remote = new_ranges(count);
    for (uint32_t i = 0; i < count; i++) {
        local[i] = (adxl_range){parts[i].local, parts[i].size};
        remote[i] = (adxl_range){parts[i].remote, parts[i].size};
    }
    int status = hold_all(memory, adxl_memory_count(memory), local, count, "local_addr");
    if (status == 0) {
        status = transfer(socket, operation, local, remote, count, emu_now() + (uint64_t)milliseconds * 1000000u);
        *broken = status < 0;
        if (*broken)
            status = errno == EAGAIN ? emu_fail(ADXL_TIMEOUT, NULL, "the transfer has not ended after %d ms", (int)milliseconds)
                                     : emu_fail(ADXL_FAILED, NULL, "the connection has failed: %s", strerror(errno));
        let_all_go(local, count);
    }
    free(local);
    free(remote);
    return status;
}
