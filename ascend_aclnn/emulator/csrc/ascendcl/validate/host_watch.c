/* A closed page is one without access. The emulated device itself goes by /proc/self/mem, which the kernel lets pass. */
#include "ascendcl/validate/host_watch.h"

#include "ascendcl/core/device.h"
#include "ascendcl/core/settings.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int memory_file = -1;
static pid_t owner;          /* whose memory the file is: not a forked child's */
static struct sigaction before;
static bool (*tell)(uint64_t address);

static int file_of_memory(void) {
    pthread_mutex_lock(&lock);
    if (owner != getpid()) {
        if (memory_file >= 0) close(memory_file);
        int low = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
        memory_file = low >= 0 ? emu_move_up(low) : -1;
        owner = getpid();
    }
    int file = memory_file;
    pthread_mutex_unlock(&lock);
    return file;
}

/* Copies bytes to pages that may be closed, or from such pages. */
static void pass(uint8_t *to, const uint8_t *from, size_t size, bool writes) {
    int file = (emu_config()->validate & VALIDATE_HOST) != 0 ? file_of_memory() : -1;
    while (file >= 0 && size > 0) {
        ssize_t done = writes ? pwrite(file, from, size, (off_t)(uintptr_t)to) : pread(file, to, size, (off_t)(uintptr_t)from);
        if (done <= 0) break;
        to += done;
        from += done;
        size -= (size_t)done;
    }
    if (size > 0) memmove(to, from, size);
}

void emu_watch_write(void *to, const void *from, size_t size) { pass(to, from, size, true); }

void emu_watch_read(void *to, const void *from, size_t size) { pass(to, from, size, false); }

/* The instruction goes on where the page is open now. What is none of ours is the program's. */
static void on_fault(int number, siginfo_t *info, void *context) {
    if (info->si_code == SEGV_ACCERR && tell((uint64_t)(uintptr_t)info->si_addr)) return;
    if ((before.sa_flags & SA_SIGINFO) != 0) before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
    else (void)sigaction(SIGSEGV, &before, NULL); /* the instruction is tried again, and ends the process */
}

/* The program may have set a handler of its own meanwhile (Python's faulthandler): it comes behind this one. The signal is handled on
 * the thread's own stack, because Python is asked for its frames. */
static void handle_faults(void) {
    struct sigaction now, ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault)) return;
    before = now;
    (void)sigaction(SIGSEGV, &ours, NULL);
}

/* Whether the kernel lets the process write its own closed pages. */
static bool can_pass(void) {
    int file = file_of_memory();
    uint8_t *page = mmap(NULL, emu_page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte = 1;
    if (file < 0 || page == MAP_FAILED) return false;
    bool passes = pwrite(file, &byte, 1, (off_t)(uintptr_t)page) == 1 && pread(file, &byte, 1, (off_t)(uintptr_t)page) == 1;
    munmap(page, emu_page_size());
    return passes;
}

static bool usable;

static void begin(void) {
    usable = can_pass();
    if (!usable) fprintf(stderr, "EMULATOR_VALIDATE: host: this system does not let a process write its own protected pages through /proc/self/mem, "
                                 "so accesses of the host are not seen\n");
}

bool emu_watch_begin(bool (*touched)(uint64_t address)) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if ((emu_config()->validate & VALIDATE_HOST) == 0) return false;
    tell = touched;
    pthread_once(&once, begin);
    return usable;
}

bool emu_watch_close(uint64_t start, uint64_t end) {
    handle_faults();
    return mprotect((void *)(uintptr_t)start, end - start, PROT_NONE) == 0;
}

void emu_watch_open(uint64_t start, uint64_t end) { (void)mprotect((void *)(uintptr_t)start, end - start, PROT_READ | PROT_WRITE); }
