/* Of the collective communication library: its settings, which clients set before they communicate, and its errors' names. */
#include "calls.h"

#include "hccl/hccl.h"

#define SETTINGS (HCCL_DETERMINISTIC + 1)

/* Nothing communicates here, so the values have no effect but that they can be read again. */
static HcclConfigValue values[SETTINGS];

static int check(HcclConfig config) {
    if ((unsigned)config < SETTINGS) return 0;
    return emu_fail(HCCL_E_PARA, NULL, "setting %d; allowed: 0 to %d", (int)config, SETTINGS - 1);
}

API HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
    if (emu_enter("HcclSetConfig") != 0) return HCCL_E_INTERNAL;
    int status = check(config);
    if (status == 0) values[config] = configValue;
    return status;
}

API HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue) {
    if (emu_enter("HcclGetConfig") != 0) return HCCL_E_INTERNAL;
    if (configValue == NULL) return (HcclResult)emu_fail(HCCL_E_PTR, NULL, "configValue is a null pointer");
    int status = check(config);
    if (status == 0) *configValue = values[config];
    return status;
}

API const char *HcclGetErrorString(HcclResult code) {
    switch (code) {
        case HCCL_SUCCESS: return "no error";
        case HCCL_E_PARA: return "parameter error";
        case HCCL_E_PTR: return "empty pointer";
        case HCCL_E_NOT_SUPPORT: return "not support feature";
        case HCCL_E_INTERNAL: return "internal error";
        default: return "unknown error";
    }
}
