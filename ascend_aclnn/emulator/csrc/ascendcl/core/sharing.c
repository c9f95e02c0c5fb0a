/*
 * What the processes of one user share.
 *
 * A process that shares something describes it in a table, in a file without a name. Other processes find that file among the
 * process's descriptors in /proc, which the system shows to its user only, and with it the files of the memory. Nothing needs
 * to be cleaned up: a table disappears with the last process that has it mapped, however that process ends.
 *
 * The name of a shared object is the process's number (22 bits), a number that changes with every use of the row (26), and the
 * row (14).
 */
#include "ascendcl/core/sharing.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/core/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROWS 16384u
#define ALLOWED 512u
#define USERS 128u
#define RECORDINGS 64u
#define FILE_NAME "ascend-shared"
#define FORM (0x656d750000000001ull ^ sizeof(row)) /* changes with the layout of a table */
#define LOOK_AGAIN 100 /* milliseconds after which a waiting thread checks that the other process is alive */
#define UNWRITTEN 30000000000u /* nanoseconds in which a process that lives writes a recording down, on a machine as busy as may be */

typedef struct {
    _Atomic uint64_t state;   /* twice its number, plus 1 when it has passed */
    _Atomic uint64_t process;
} recording;

typedef struct {
    _Atomic uint64_t name;    /* 0: not in use */
    uint32_t kind;
    bool any_process;
    int32_t file;             /* the owner's descriptor, -1: none */
    uint64_t inode, offset, size;
    _Atomic int32_t allowed[ALLOWED];
    _Atomic uint64_t users[USERS]; /* processes that have it open */
    _Atomic uint64_t recorded;
    _Atomic uint32_t passed;  /* changes whenever a recording passes: waiters sleep on it */
    recording recordings[RECORDINGS];
} row;

typedef struct {
    uint64_t form;
    row rows[ROWS];
} table;

struct emu_shared {
    row *row;
    table *other;             /* the other process's table, NULL for a row of this process */
    _Atomic uint64_t *user;   /* this process's place in `users` */
    uint64_t name;
    _Atomic uint32_t references;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static table *own_table;
static int own_file = -1;
static emu_shared *owned[ROWS]; /* rows in use here, whether or not they are still shared */
static uint32_t rows_used, serial;

/* ---------------------------------------------------------------------------------------------------------- processes */

/* A process's number and its start time, which together are unique; 0 for a process that has ended. */
static uint64_t identity(int32_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    const char *at = strrchr(text, ')'); /* its name may contain anything */
    if (at == NULL || at[1] == 0 || at[2] == 'Z' || at[2] == 'X') return 0;
    at += 2;
    for (int field = 3; field < 22 && at != NULL; field++) {
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
    return at == NULL ? 0 : (uint64_t)pid << 32 | (uint32_t)strtoull(at, NULL, 10);
}

static uint64_t me(void) {
    static _Atomic uint64_t this_process;
    if (this_process >> 32 != (uint64_t)getpid()) this_process = identity(getpid());
    return this_process;
}

static bool lives(uint64_t process) { return process != 0 && identity((int32_t)(process >> 32)) == process; }

/* -------------------------------------------------------------------------------------------------------------- sharing */

static int open_own_table(void) {
    if (own_table != NULL) return 0;
    int low = memfd_create(FILE_NAME, MFD_CLOEXEC), fd = low < 0 ? -1 : emu_move_up(low);
    table *new_table = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof *new_table) == 0)
        new_table = mmap(NULL, sizeof *new_table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (new_table == MAP_FAILED || getrandom(&serial, sizeof serial, 0) != sizeof serial) {
        int status = emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "EMULATOR_OUT_OF_MEMORY", "nothing can be shared: %s", strerror(errno));
        if (fd >= 0) close(fd);
        return status;
    }
    (void)madvise(new_table, sizeof *new_table, MADV_DONTFORK);
    new_table->form = FORM;
    own_table = new_table;
    own_file = fd;
    return 0;
}

static bool row_used(const row *shared) {
    for (uint32_t i = 0; i < USERS; i++) {
        if (lives(shared->users[i])) return true;
    }
    return false;
}

bool emu_shared_used(const emu_shared *shared) { return shared->other == NULL && row_used(shared->row); }

/* A free row, ROWS when there is none. The lock is held. */
static uint32_t free_row(void) {
    if (rows_used < ROWS) return rows_used++;
    for (uint32_t i = 0; i < ROWS; i++) {
        if (owned[i] == NULL && !row_used(&own_table->rows[i])) return i;
    }
    return ROWS;
}

int emu_shared_new(emu_shared_kind kind, bool any_process, int file, uint64_t offset, uint64_t size, emu_shared **result) {
    struct stat file_status = {0};
    if (file >= 0 && fstat(file, &file_status) != 0) return emu_fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, NULL, "fstat: %s", strerror(errno));
    emu_shared *object = calloc(1, sizeof *object);
    if (object == NULL) abort();
    pthread_mutex_lock(&lock);
    int status = open_own_table();
    uint32_t at = status == 0 ? free_row() : ROWS;
    if (status == 0 && at == ROWS)
        status = emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, NULL, "%u things are shared, which is the most", ROWS);
    if (status == 0) {
        row *shared = &own_table->rows[at];
        memset(shared, 0, sizeof *shared);
        shared->kind = kind;
        shared->any_process = any_process;
        shared->file = file;
        shared->inode = file_status.st_ino;
        shared->offset = offset;
        shared->size = size;
        object->row = shared;
        object->references = 1;
        object->name = (uint64_t)getpid() << 40 | (uint64_t)(++serial & 0x3ffffffu) << 14 | at;
        shared->name = object->name;
        owned[at] = object;
        *result = object;
    }
    pthread_mutex_unlock(&lock);
    if (status != 0) free(object);
    return status;
}

uint64_t emu_shared_name(const emu_shared *shared) { return shared->name; }

bool emu_shared_mine(const emu_shared *shared) { return shared->other == NULL; }

uint64_t emu_shared_size(const emu_shared *shared) { return shared->row->size; }

int emu_shared_allow(emu_shared *shared, const int32_t *processes, size_t count) {
    pthread_mutex_lock(&lock);
    uint32_t at = 0;
    while (at < ALLOWED && shared->row->allowed[at] != 0) at++;
    bool room = count <= ALLOWED - at;
    for (size_t i = 0; room && i < count; i++) shared->row->allowed[at + i] = processes[i];
    pthread_mutex_unlock(&lock);
    return room ? 0 : emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%zu processes are added to %u; %u are the most", count, at, ALLOWED);
}

bool emu_shared_end_file(int file) {
    bool used = false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < rows_used; i++) {
        if (owned[i] == NULL || own_table->rows[i].file != file) continue;
        own_table->rows[i].name = 0;
        own_table->rows[i].file = -1;
        used |= row_used(&own_table->rows[i]);
    }
    pthread_mutex_unlock(&lock);
    return used;
}

void emu_shared_hold(emu_shared *shared) { shared->references++; }

void emu_shared_release(emu_shared *shared) {
    if (shared == NULL || --shared->references > 0) return;
    if (shared->user != NULL) *shared->user = 0;
    if (shared->other != NULL) {
        munmap(shared->other, sizeof *shared->other);
    } else if (shared->user == NULL) { /* the row is the owner's, not an import of its own */
        pthread_mutex_lock(&lock);
        shared->row->name = 0;
        shared->row->file = -1;
        owned[shared->row - own_table->rows] = NULL;
        pthread_mutex_unlock(&lock);
    }
    free(shared);
}

/* -------------------------------------------------------------------------------------------------------------- opening */

static int no_process(int32_t pid) {
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NOT_SHARED", "the process %d has ended, or shares nothing", pid);
}

/* Opens the table among a process's descriptors; returns a status. */
static int open_table(int32_t pid, table **result) {
    char path[300], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *directory = opendir(path);
    if (directory == NULL && (errno == EACCES || errno == EPERM))
        return emu_fail(ACL_ERROR_RT_NO_PERMISSION, "EMULATOR_NOT_SHARED", "the process %d is another user's", pid);
    if (directory == NULL) return no_process(pid);
    int fd = -1;
    for (const struct dirent *entry; fd < 0 && (entry = readdir(directory)) != NULL;) {
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        if (strncmp(target, "/memfd:" FILE_NAME, strlen("/memfd:" FILE_NAME)) == 0)
            fd = openat(dirfd(directory), entry->d_name, O_RDWR | O_CLOEXEC);
    }
    closedir(directory);
    if (fd < 0) return no_process(pid);
    struct stat file_status;
    table *mapped = MAP_FAILED;
    if (fstat(fd, &file_status) == 0 && file_status.st_size == (off_t)sizeof *mapped)
        mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED || mapped->form != FORM) {
        if (mapped != MAP_FAILED) munmap(mapped, sizeof *mapped);
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NOT_SHARED", "the process %d runs on another version of the emulated libraries", pid);
    }
    (void)madvise(mapped, sizeof *mapped, MADV_DONTFORK);
    *result = mapped;
    return 0;
}

static bool is_allowed(const row *shared) {
    for (uint32_t i = 0; !shared->any_process && i < ALLOWED; i++) {
        if (shared->allowed[i] == getpid()) return true;
    }
    return shared->any_process;
}

/* A free place among the users, or that of a process that has ended; NULL when there is none. */
static _Atomic uint64_t *enter_user(row *shared) {
    uint64_t self = me();
    for (uint32_t i = 0; i < USERS; i++) {
        uint64_t user = shared->users[i];
        if ((user == 0 || (user != self && !lives(user))) && atomic_compare_exchange_strong(&shared->users[i], &user, self))
            return &shared->users[i];
    }
    return NULL;
}

int emu_shared_open(uint64_t name, emu_shared_kind kind, emu_shared **result) {
    int32_t pid = (int32_t)(name >> 40);
    uint32_t at = (uint32_t)(name % ROWS);
    bool mine = pid == getpid();
    table *other = NULL;
    int status = 0;
    pthread_mutex_lock(&lock);
    table *mine_table = own_table;
    pthread_mutex_unlock(&lock);
    if (mine && mine_table == NULL) return no_process(pid);
    if (!mine) status = open_table(pid, &other);
    if (status != 0) return status;
    row *shared = &(mine ? mine_table : other)->rows[at];
    _Atomic uint64_t *user = shared->name == name && shared->kind == kind ? enter_user(shared) : NULL;
    if (shared->name != name || shared->kind != kind)
        status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NOT_SHARED", "the process %d does not share it, or no longer", pid);
    else if (!is_allowed(shared))
        status = emu_fail(ACL_ERROR_RT_NO_PERMISSION, "EMULATOR_NOT_SHARED", "the process %d has not allowed it to the process %d", pid, (int)getpid());
    else if (user == NULL)
        status = emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, NULL, "%u processes have it open, which is the most", USERS);
    emu_shared *object = status == 0 ? calloc(1, sizeof *object) : NULL;
    if (object == NULL) {
        if (status == 0) abort();
        if (user != NULL) *user = 0;
        if (other != NULL) munmap(other, sizeof *other);
        return status;
    }
    object->row = shared;
    object->other = other;
    object->user = user;
    object->name = name;
    object->references = 1;
    *result = object;
    return 0;
}

int emu_shared_file(const emu_shared *shared, uint64_t *offset) {
    char path[64];
    struct stat file_status;
    int32_t pid = (int32_t)(shared->name >> 40);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, shared->row->file);
    int fd = shared->row->file < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &file_status) != 0 || file_status.st_ino != shared->row->inode || shared->row->name != shared->name)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) no_process(pid);
    *offset = shared->row->offset;
    return fd;
}

/* --------------------------------------------------------------------------------------------------------------- events */

static recording *recording_of(const emu_shared *shared, uint64_t number) { return &shared->row->recordings[number % RECORDINGS]; }

uint64_t emu_shared_record(emu_shared *shared) {
    uint64_t number = atomic_fetch_add(&shared->row->recorded, 1) + 1;
    recording_of(shared, number)->process = me();
    recording_of(shared, number)->state = 2 * number;
    return number;
}

void emu_shared_recorded(emu_shared *shared, uint64_t number) {
    uint64_t state = 2 * number;
    atomic_compare_exchange_strong(&recording_of(shared, number)->state, &state, state + 1);
    shared->row->passed++;
    syscall(SYS_futex, &shared->row->passed, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint64_t emu_shared_latest(const emu_shared *shared) { return shared->row->recorded; }

int emu_shared_wait(const emu_shared *shared, uint64_t number, int32_t timeout) {
    uint64_t end = timeout < 0 ? UINT64_MAX : emu_now() + (uint64_t)timeout * 1000000u, unwritten = emu_now() + UNWRITTEN;
    recording *record = recording_of(shared, number);
    if (number == 0) return 1;
    for (;;) {
        uint32_t passed = shared->row->passed;
        uint64_t state = record->state;
        /* Recordings older than the row has room for count as passed. */
        if (state == 2 * number + 1 || state / 2 > number) return 1;
        if (emu_now() >= end) return 0;
        /* The time between taking a number and writing it down is short, unless the process ended in between. */
        if (state / 2 == number ? !lives(record->process) : emu_now() > unwritten) return record->state == state ? -1 : 1;
        uint64_t left = end == UINT64_MAX ? LOOK_AGAIN : (end - emu_now()) / 1000000u + 1;
        struct timespec until = {0, (long)(left < LOOK_AGAIN ? left : LOOK_AGAIN) * 1000000};
        syscall(SYS_futex, &shared->row->passed, FUTEX_WAIT, passed, &until, NULL, 0);
    }
}

/* The child shares nothing of its parent. */
static void forked_child(void) {
    if (own_file >= 0) close(own_file);
    own_file = -1;
    own_table = NULL; /* it is not mapped here */
    rows_used = 0;
    memset(owned, 0, sizeof owned);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_SHARING, &lock, forked_child); }
