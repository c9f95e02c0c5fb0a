/* What --validate reports. */
#ifndef EMU_FINDINGS_H
#define EMU_FINDINGS_H

#include "ascendcl/core/messages.h"

/* One side of a finding: a launch, copy or fill with one of its arguments, or another call. */
typedef struct {
    const char *task;        /* the function; NULL: there is no such side */
    const char *argument;    /* ends at a space or at its end; "": none */
    uint32_t timeline, site;
    int stream, member;      /* of a list, -1: no list. Without a number the rest does not count. */
    bool updates;
    uint64_t number, shown;  /* in the timeline, and in the stream, which may not be the timeline's first; */
    uint64_t order;          /* among all that was queued */
} emu_record;

/* Equal texts for records, which name what is gone: the same one as often as it is asked for, and it stays. */
const char *emu_lasting(const char *text, size_t length);

/* Reports a finding with an identifier ("sync/read-after-write"), unless it is suppressed; one that is like an earlier one is only
 * counted. `format` gives the text: {later} and {earlier} stand for the sides. */
LINK void emu_find(const char *rule, const emu_record *earlier, const emu_record *later, const char *format, ...) EMU_CHECK_FORMAT(4, 5);
/* What the next error of this thread is about: the call that made, freed or destroyed it. */
void emu_blame(const char *what, const char *routine, uint32_t site);
/* How many findings there are, and how often they were seen; prints those that were seen again. */
void emu_findings_summary(uint64_t tasks, uint32_t timelines);

/* Whether there is a launcher that reads what this process appends to its file; and a line for it. */
bool emu_reports(void);
void emu_report_line(const char *line, size_t length);
/* A side as a member of a JSON object, with a comma before it: its length. */
size_t emu_side_json(char *buffer, size_t size, const char *name, const emu_record *side);

#endif
