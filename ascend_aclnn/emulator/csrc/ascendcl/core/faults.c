#include "ascendcl/core/faults.h"

#include "ascendcl/core/messages.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic bool emu_faults_armed;

pthread_mutex_t emu_fault_lock = PTHREAD_MUTEX_INITIALIZER;

/* --------------------------------------------------------------------------------------------------------- aclemuFailAt */

static struct {
    char name[128];
    uint64_t left;
    int status;
    char failed[128];
} once;

int emu_fail_on_purpose(int status) {
    return emu_fail(status, "EMULATOR_INJECTED", "made to fail with %d by aclemuFailAt or ASCEND_EMULATOR_FAULT", status);
}

/* ------------------------------------------------------------------------------------ the rules of ASCEND_EMULATOR_FAULT */

typedef struct {
    char name[128]; /* a pattern */
    int status, slow; /* slow: milliseconds */
    bool die;
    uint64_t after, left; /* calls that pass before, and calls that are affected */
} rule;

static rule *rules;
static int rule_count;

/* The rank of this process, as launchers tell it; -1 where none does. */
static long own_rank(void) {
    static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK_ID"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);
        if (text != NULL && *text >= '0' && *text <= '9') return strtol(text, NULL, 10);
    }
    return -1;
}

/* Whether a name is an operator's: "slow" and "die" of these are made by the device process. */
static bool names_operator(const char *name) {
    const char *ending = "GetWorkspaceSize";
    size_t length = strlen(name), tail = strlen(ending);
    return strncmp(name, "aclnn", 5) == 0 && (length < tail || strcmp(name + length - tail, ending) != 0);
}

/* Reads a rule; false for one that the device process makes, or of another rank. emulator/faults.py checks the words. */
static bool read_rule(char *text, rule *result) {
    char *rest = NULL, *name = strtok_r(text, ":", &rest);
    bool applies = false;
    *result = (rule){.left = UINT64_MAX};
    if (name == NULL) return false;
    while (*name == ' ') name++;
    snprintf(result->name, sizeof result->name, "%s", name);
    for (char *item; (item = strtok_r(NULL, ":", &rest)) != NULL;) {
        char *equals = strchr(item, '=');
        long number = equals != NULL ? strtol(equals + 1, NULL, 10) : 0;
        if (equals != NULL) *equals = 0;
        if (strcmp(item, "after") == 0) result->after = (uint64_t)number;
        else if (strcmp(item, "times") == 0) result->left = (uint64_t)number;
        else if (strcmp(item, "rank") == 0 && number != own_rank()) return false;
        else if (strcmp(item, "status") == 0) result->status = (int)number, applies = true;
        else if (strcmp(item, "slow") == 0) result->slow = (int)number, applies = !names_operator(result->name);
        else if (strcmp(item, "die") == 0) result->die = true, applies = !names_operator(result->name);
    }
    return applies;
}

static void read_rules(const char *variable) {
    char *text = strdup(variable), *rest = NULL;
    if (text == NULL) abort();
    for (char *item = strtok_r(text, ";", &rest); item != NULL; item = strtok_r(NULL, ";", &rest)) {
        rule *larger = realloc(rules, (size_t)(rule_count + 1) * sizeof *rules);
        if (larger == NULL) abort();
        rules = larger;
        if (read_rule(item, &rules[rule_count])) rule_count++;
    }
    free(text);
}

int emu_inject_fault(const char *routine) {
    int status = 0, slow = 0;
    bool die = false;
    pthread_mutex_lock(&emu_fault_lock);
    if (once.left > 0 && (once.name[0] == 0 || strcmp(once.name, routine) == 0) && --once.left == 0) {
        status = once.status;
        emu_faults_armed = rule_count > 0;
    }
    for (int i = 0; i < rule_count; i++) {
        rule *r = &rules[i];
        if (r->left == 0 || fnmatch(r->name, routine, 0) != 0) continue;
        if (r->after > 0) {
            r->after--;
            continue;
        }
        if (r->left != UINT64_MAX) r->left--;
        if (status == 0) status = r->status;
        slow += r->slow;
        die = die || r->die;
    }
    if (status != 0) snprintf(once.failed, sizeof once.failed, "%s", routine);
    pthread_mutex_unlock(&emu_fault_lock);
    if (die) kill(getpid(), SIGKILL);
    if (slow > 0) usleep((useconds_t)slow * 1000);
    return status != 0 ? emu_fail_on_purpose(status) : 0;
}

API void aclemuFailAt(const char *name, uint64_t nth, int32_t status) {
    pthread_mutex_lock(&emu_fault_lock);
    memset(&once, 0, sizeof once);
    if (name != NULL) snprintf(once.name, sizeof once.name, "%s", name);
    once.left = nth;
    once.status = status;
    emu_faults_armed = nth > 0 || rule_count > 0;
    pthread_mutex_unlock(&emu_fault_lock);
}

API const char *aclemuFailedCall(void) { return once.failed[0] != 0 ? once.failed : NULL; }

__attribute__((constructor)) static void at_start(void) {
    const char *variable = getenv("ASCEND_EMULATOR_FAULT");
    if (variable == NULL) return;
    read_rules(variable);
    emu_faults_armed = rule_count > 0;
}
