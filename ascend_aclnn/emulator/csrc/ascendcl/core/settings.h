/* The settings that a program's environment gives, and the SoC that is emulated. */
#ifndef EMU_SETTINGS_H
#define EMU_SETTINGS_H

#include "ascendcl/core/api.h"

#define EMU_MAX_DEVICES 16

typedef enum { STREAMS_BACKGROUND, STREAMS_EAGER, STREAMS_DEFERRED } emu_stream_mode;

/* What happens to tensors at device addresses that are not 32-byte aligned. */
typedef enum { ALIGNMENT_WARN, ALIGNMENT_ALLOW, ALIGNMENT_REFUSE } emu_alignment;

typedef struct {
    const char *name;      /* aclrtGetSocName */
    const char *product;   /* as the documents' tables name its family: A2, A3, 310P, ...; NULL: aclInit refuses it */
    bool prefix;           /* the name is the beginning of a line of SoCs */
    uint64_t memory;       /* bytes of device memory */
    int cube_cores, vector_cores;
    uint64_t l2_bytes;
    int streams, events;   /* limits, */
    int processes;         /* and how many may use a device */
    bool inf_nan, bf16;
    bool page_1g;
} emu_soc;

typedef struct {
    emu_soc soc;
    const char *cann;      /* the release that is claimed */
    emu_stream_mode streams;
    emu_alignment alignment;
    bool noop;             /* operators succeed without doing anything */
    bool strict;           /* leaks make the exit status non-zero */
    bool tell_leaks;
    bool repeatable;       /* aclSetAclOpExecutorRepeatable is not always refused */
    int launch_delay;      /* milliseconds that phase two takes on a thread other than the program's first */
    int fill;              /* byte that new device memory is filled with, -1: what it happens to hold */
    int64_t workspace;     /* bytes that phase one asks for; -1: by the device process's rule */
} emu_settings;

LINK const emu_settings *emu_config(void);
/* Whether the claimed release is this one or a later one. */
LINK bool emu_claims(int major, int minor);
/* How many devices the program sees; decided when it is first asked, after programs have set ASCEND_RT_VISIBLE_DEVICES. */
LINK int emu_device_count(void);
/* Why ASCEND_RT_VISIBLE_DEVICES leaves no device; NULL where there are devices, or there would be none without it. */
LINK const char *emu_visible_flaw(void);
/* What a device is called without ASCEND_RT_VISIBLE_DEVICES; -1 where there is none. */
LINK int emu_logic_device(int device);
/* Where the libraries are. */
const char *emu_directory(void);
/* A value of emulator.conf beside the libraries (lines "key=value"), unless an environment variable overrides it; "" when
 * there is none. */
void emu_setting(const char *variable, const char *key, char *value, size_t size);

#endif
