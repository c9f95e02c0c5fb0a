/* Included by every source of the emulated libraries: CANN's interface, and how functions are exported. */
#ifndef EMU_API_H
#define EMU_API_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "acl/acl_rt_allocator.h"
#include "aclemu.h"
#include "aclnn/aclnn_base.h"

/* API marks functions of CANN. The build generates a refusing stub for every function of the catalog without one. LINK marks
 * functions that the emulator's libraries call in each other. */
#define API __attribute__((visibility("default")))
#define LINK __attribute__((visibility("default")))

#endif
