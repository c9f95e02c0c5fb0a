/* Calls that fail, take long or end the program on purpose: aclemuFailAt, and the rules of ASCEND_EMULATOR_FAULT. */
#ifndef EMU_FAULTS_H
#define EMU_FAULTS_H

#include <pthread.h>
#include <stdbool.h>

/* Whether any call may be affected: all that a program without faults pays. */
extern _Atomic bool emu_faults_armed;

/* The status with which a call is made to fail, 0 for none. It may take longer, or never return. */
int emu_inject_fault(const char *routine);

/* Guards the rules; held across a fork. */
extern pthread_mutex_t emu_fault_lock;

/* Leaves the message of such a failure, and returns the status. */
int emu_fail_on_purpose(int status);

#endif
