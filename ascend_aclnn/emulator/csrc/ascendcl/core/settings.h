/* The settings of a program's environment, and the SoC that is emulated. */
#ifndef EMU_SETTINGS_H
#define EMU_SETTINGS_H

#include "ascendcl/core/api.h"

#define EMU_MAX_DEVICES 16

typedef enum { STREAMS_BACKGROUND, STREAMS_EAGER, STREAMS_DEFERRED } emu_stream_mode;

/* What --validate looks for. */
enum { VALIDATE_SYNC = 1, VALIDATE_MEMORY = 2, VALIDATE_HOST = 4 };

/* How tensors at device addresses that are not 32-byte aligned are treated. */
typedef enum { ALIGNMENT_WARN, ALIGNMENT_ALLOW, ALIGNMENT_REFUSE } emu_alignment;

typedef struct {
    const char *name;      /* aclrtGetSocName */
    const char *product;   /* the family's name in the tables of the documents: A2, A3, 310P, ...; NULL: aclInit refuses the SoC */
    bool prefix;           /* the name is the prefix of a line of SoCs */
    uint64_t memory;       /* bytes of device memory */
    int cube_cores, vector_cores;
    uint64_t l2_bytes;
    int streams, events;   /* limits, */
    int processes;         /* and of processes on a device */
    bool inf_nan, bf16;
    bool page_1g;
} emu_soc;

typedef struct {
    emu_soc soc;
    const char *cann;      /* the release that is claimed */
    const char *operators; /* the release of the operator package, which may be another one */
    emu_stream_mode streams;
    emu_alignment alignment;
    unsigned validate;     /* VALIDATE_... */
    bool noop;             /* operators succeed without computing anything */
    bool strict;           /* leaks make the exit status non-zero */
    bool tell_leaks;
    bool repeatable;       /* aclSetAclOpExecutorRepeatable is not always refused */
    int launch_delay;      /* milliseconds that phase two takes on threads other than the program's first */
    int fill;              /* byte that new device memory is filled with, -1: not filled */
    int64_t workspace;     /* bytes of workspace that phase one returns; -1: by the device process's rule */
} emu_settings;

LINK const emu_settings *emu_config(void);
/* Whether the claimed release is this one or a later one. */
LINK bool emu_claims(int major, int minor);
/* The number of visible devices; read at the first use, after programs have set ASCEND_RT_VISIBLE_DEVICES. */
LINK int emu_device_count(void);
/* Why ASCEND_RT_VISIBLE_DEVICES leaves no device; NULL when there are devices, or none even without it. */
LINK const char *emu_visible_flaw(void);
/* Why another variable leaves no device; NULL when none does. */
LINK const char *emu_settings_flaw(void);
/* The number of a device without ASCEND_RT_VISIBLE_DEVICES; -1 when there is no such device. */
LINK int emu_logic_device(int device);
/* The directory of the libraries. */
const char *emu_directory(void);
/* A value of emulator.conf beside the libraries (lines "key=value"), unless an environment variable overrides it; "" without
 * one. */
void emu_setting(const char *variable, const char *key, char *value, size_t size);

#endif
