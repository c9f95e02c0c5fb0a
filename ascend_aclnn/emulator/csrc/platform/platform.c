/*
 * Facts about the SoC for the tilings of operators that a client brings along: fe::PlatformInfoManager and fe::PlatFormInfos, C++
 * classes under their mangled names. The strings are std::string as libstdc++ laid it out before C++11, which is what CANN's
 * headers are compiled with; such a string is a pointer to its characters.
 */
#include "ascendcl/core/settings.h"

#include "platform_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *text; } string;

/* std::string::assign(const char *, size_t). A C++ client brings libstdc++ along. */
extern string *_ZNSs6assignEPKcm(string *self, const char *text, size_t length) __attribute__((weak));

/* fe::PlatFormInfos: the client allocates it, and libplatform uses the number of cores alone. */
typedef struct {
    uint32_t core_count;
    void *implementation[2];
} platform_infos;

static const char *look_up(const char *label, const char *key) {
    const char *name = emu_config()->soc.name;
    size_t count = sizeof platform_data / sizeof platform_data[0];
    for (int exact = 1; exact >= 0; exact--) {
        for (size_t i = 0; i < count; i++) {
            const char *soc = platform_data[i].soc;
            bool same = exact ? strcmp(soc, name) == 0 : strncmp(soc, name, strlen(soc)) == 0;
            if (same && strcmp(platform_data[i].label, label) == 0 && strcmp(platform_data[i].key, key) == 0)
                return platform_data[i].value;
        }
    }
    return NULL;
}

static uint64_t number(const char *label, const char *key) {
    const char *text = look_up(label, key);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static uint32_t describe(platform_infos *infos) {
    infos->core_count = (uint32_t)number("SoCInfo", "ai_core_cnt");
    return 0;
}

static char manager; /* fe::PlatformInfoManager: clients pass its address around */

/* fe::PlatformInfoManager::Instance(), GeInstance() */
API void *_ZN2fe19PlatformInfoManager8InstanceEv(void) { return &manager; }
API void *_ZN2fe19PlatformInfoManager10GeInstanceEv(void) { return &manager; }

/* InitializePlatformInfo(), InitRuntimePlatformInfos(const std::string &) */
API uint32_t _ZN2fe19PlatformInfoManager22InitializePlatformInfoEv(void *self) { return (void)self, 0; }
API uint32_t _ZN2fe19PlatformInfoManager24InitRuntimePlatformInfosERKSs(void *self, const string *soc) {
    return (void)self, (void)soc, 0;
}

/* GetRuntimePlatformInfosByDevice(const uint32_t &, PlatFormInfos &, bool) */
API uint32_t _ZN2fe19PlatformInfoManager31GetRuntimePlatformInfosByDeviceERKjRNS_13PlatFormInfosEb(
    void *self, const uint32_t *device, platform_infos *infos, bool copy) {
    (void)self, (void)device, (void)copy;
    return describe(infos);
}

/* GetPlatformInfos(const std::string, PlatFormInfos &, OptionalInfos &): the SoC is the emulated one. */
API uint32_t _ZN2fe19PlatformInfoManager16GetPlatformInfosESsRNS_13PlatFormInfosERNS_13OptionalInfosE(
    void *self, const string *soc, platform_infos *infos, void *options) {
    (void)self, (void)soc, (void)options;
    return describe(infos);
}

/* GetPlatformInfoWithOutSocVersion(PlatFormInfos &, OptionalInfos &) */
API uint32_t _ZN2fe19PlatformInfoManager32GetPlatformInfoWithOutSocVersionERNS_13PlatFormInfosERNS_13OptionalInfosE(
    void *self, platform_infos *infos, void *options) {
    (void)self, (void)options;
    return describe(infos);
}

/* fe::PlatFormInfos::Init(), GetCoreNum() const */
API bool _ZN2fe13PlatFormInfos4InitEv(platform_infos *self) { return describe(self) == 0; }
API uint32_t _ZNK2fe13PlatFormInfos10GetCoreNumEv(const platform_infos *self) { return self->core_count; }

/* SetCoreNumByCoreType(const std::string &): vector cores for these types, AI cores for all others. */
API void _ZN2fe13PlatFormInfos20SetCoreNumByCoreTypeERKSs(platform_infos *self, const string *type) {
    static const char *const vector_types[] = {"VectorCore", "AIV", "MIX_AIV", "MIX_VECTOR_CORE"};
    const char *key = "ai_core_cnt";
    for (size_t i = 0; i < sizeof vector_types / sizeof vector_types[0]; i++) {
        if (strcmp(type->text, vector_types[i]) == 0) key = "vector_core_cnt";
    }
    self->core_count = (uint32_t)number("SoCInfo", key);
}

/* GetPlatformResWithLock(const std::string &label, const std::string &key, std::string &value), GetPlatformRes */
API bool _ZN2fe13PlatFormInfos22GetPlatformResWithLockERKSsS2_RSs(
    platform_infos *self, const string *label, const string *key, string *value) {
    (void)self;
    const char *text = look_up(label->text, key->text);
    if (text == NULL || _ZNSs6assignEPKcm == NULL) return false;
    _ZNSs6assignEPKcm(value, text, strlen(text));
    return true;
}

API bool _ZN2fe13PlatFormInfos14GetPlatformResERKSsS2_RSs(
    platform_infos *self, const string *label, const string *key, string *value) {
    return _ZN2fe13PlatFormInfos22GetPlatformResWithLockERKSsS2_RSs(self, label, key, value);
}

/* GetLocalMemSize(const LocalMemType &, uint64_t &), GetLocalMemBw: L0A, L0B, L0C, L1, L2, UB, HBM */
API void _ZN2fe13PlatFormInfos15GetLocalMemSizeERKNS_12LocalMemTypeERm(platform_infos *self, const int *type, uint64_t *size) {
    static const char *const keys[] = {"l0_a_size", "l0_b_size", "l0_c_size", "l1_size", "l2_size", "ub_size", "memory_size"};
    (void)self;
    if (*type < 0 || *type > 6) {
        *size = 0;
        return;
    }
    *size = number(*type == 4 || *type == 6 ? "SoCInfo" : "AICoreSpec", keys[*type]);
}

API void _ZN2fe13PlatFormInfos13GetLocalMemBwERKNS_12LocalMemTypeERm(platform_infos *self, const int *type, uint64_t *rate) {
    (void)self;
    *rate = *type == 4 || *type == 6 ? number("AICoreMemoryRates", *type == 4 ? "l2_rate" : "ddr_rate") : 0;
}
