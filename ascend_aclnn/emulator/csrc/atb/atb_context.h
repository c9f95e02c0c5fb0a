/* atb::Context: the stream on which operations are executed. */
#ifndef EMU_ATB_CONTEXT_H
#define EMU_ATB_CONTEXT_H

#include "atb/atb_types.h"

typedef struct atb_context atb_context;

aclrtStream atb_stream(const atb_context *context);

#endif
