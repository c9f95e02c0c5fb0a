/* What every source of the emulated libraries sees: CANN's interface, and how functions are exported. */
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

/* API marks CANN's functions: the build makes a refusing stub for every function of the catalog that has none.
 * LINK marks what the emulator's libraries use of each other. */
#define API __attribute__((visibility("default")))
#define LINK __attribute__((visibility("default")))

#endif
