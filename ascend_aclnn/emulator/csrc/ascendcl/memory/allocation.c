/* Functions that allocate and free memory, and queries about it. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/host_mapping.h"
#include "ascendcl/memory/host_memory.h"
#include "ascendcl/memory/ipc.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/memory/peers.h"
#include "ascendcl/stream/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TAIL 32u /* aclrtMalloc's padding behind a block */

static int current_device(emu_device **device) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status == 0) *device = emu_context_device(context);
    return status;
}

static int malloc_device(void **address, size_t size, int policy, uint64_t tail) {
    emu_device *device;
    if (address == NULL) return emu_null_argument("devPtr");
    if (size == 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is 0; it must be greater");
    int status = current_device(&device);
    if (status == 0) status = emu_link_check(device);
    if (status != 0) return status;
    if ((policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P) && !emu_config()->soc.page_1g)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "%s has no pages of 1 GiB", emu_config()->soc.name);
    emu_link_start(device); /* a program that allocates is going to run operators: the process starts up meanwhile */
    return emu_memory_reserve(device, size, tail, address);
}

static int free_device(const void *address) {
    if (address == NULL) return emu_null_argument("devPtr");
    emu_device *device = emu_memory_device(address);
    if (device == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not device memory", address);
    if (emu_memory_pinned(device, address)) emu_streams_poll(device); /* the work may be done, but not yet polled */
    int status = emu_ipc_freeing(device, address);
    if (status == 0) emu_peers_freeing(device, address);
    return status != 0 ? status : emu_memory_free(device, address);
}

API aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ENTER("aclrtMalloc");
    return malloc_device(devPtr, size, policy, TAIL);
}

API aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ENTER("aclrtMallocAlign32");
    return malloc_device(devPtr, size, policy, 0);
}

API aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ENTER("aclrtMallocCached");
    return malloc_device(devPtr, size, policy, TAIL);
}

API aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg) {
    ENTER("aclrtMallocWithCfg");
    (void)cfg;
    return malloc_device(devPtr, size, policy, TAIL);
}

API aclError aclrtFree(void *devPtr) {
    ENTER_RELEASE("aclrtFree");
    LEAVE(free_device(devPtr));
}

API aclError aclrtFreeWithDevSync(void *devPtr) {
    ENTER_RELEASE("aclrtFreeWithDevSync");
    int status = aclrtSynchronizeDevice();
    emu_set_routine("aclrtFreeWithDevSync");
    int freed = free_device(devPtr);
    LEAVE(freed != 0 ? freed : status);
}

static int malloc_host(void **address, size_t size) {
    emu_context *context;
    if (address == NULL) return emu_null_argument("hostPtr");
    if (size == 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is 0; it must be greater");
    int status = emu_current_context(&context);
    if (status != 0) return status;
    void *memory = NULL;
    /* Whole pages, so that they can be registered and share no page with other data. */
    uint64_t pages = size <= SIZE_MAX - emu_page_size() ? emu_whole_pages(size) : size;
    if (posix_memalign(&memory, emu_page_size(), pages) != 0 || !emu_host_add(memory, size, false)) {
        free(memory);
        return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "%zu bytes of host memory", size);
    }
    *address = memory;
    return 0;
}

static int free_host(void *address) {
    if (address == NULL) return emu_null_argument("hostPtr");
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        if (emu_host_pins(address) > 0) emu_streams_poll(&emu_devices[i]);
    }
    int status = emu_host_remove(address, false);
    if (status == 0) free(address);
    return status;
}

API aclError aclrtMallocHost(void **hostPtr, size_t size) {
    ENTER("aclrtMallocHost");
    return malloc_host(hostPtr, size);
}

API aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg) {
    ENTER("aclrtMallocHostWithCfg");
    for (size_t i = 0; cfg != NULL && cfg->attrs != NULL && i < cfg->numAttrs; i++) {
        if (cfg->attrs[i].attr == ACL_RT_MEM_ATTR_VA_FLAG && cfg->attrs[i].value.vaFlag != 0)
            return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EMULATOR_NOT_SUPPORTED", "host memory has other addresses on the device here");
    }
    return malloc_host(ptr, size);
}

API aclError aclrtFreeHost(void *hostPtr) {
    ENTER_RELEASE("aclrtFreeHost");
    LEAVE(free_host(hostPtr));
}

API aclError aclrtFreeHostWithDevSync(void *hostPtr) {
    ENTER_RELEASE("aclrtFreeHostWithDevSync");
    int status = aclrtSynchronizeDevice();
    emu_set_routine("aclrtFreeHostWithDevSync");
    int freed = free_host(hostPtr);
    LEAVE(freed != 0 ? freed : status);
}

/* Registers a range. Operators can use it where it can be mapped. */
static int register_host(void *ptr, uint64_t size, bool mapped, void **devPtr) {
    emu_context *context;
    if (ptr == NULL || size == 0 || devPtr == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "ptr and devPtr must not be null and size not 0");
    if (size > INT64_MAX || (uint64_t)(uintptr_t)ptr > UINT64_MAX - size)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_OUT_OF_BOUNDS", "%llu bytes from %p on are beyond any memory",
                        (unsigned long long)size, ptr);
    uint64_t lead = (uintptr_t)ptr % emu_page_size();
    /* msync only reports whether every page of the range is mapped. */
    if (emu_memory_device(ptr) != NULL || msync((uint8_t *)ptr - lead, size + lead, MS_ASYNC) != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%llu bytes from %p on are not the program's memory",
                        (unsigned long long)size, ptr);
    *devPtr = ptr;
    if (emu_host_mapped(ptr) != NULL)
        return emu_fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, NULL, "%p has been registered", ptr);
    uint64_t pages = emu_host_allocated(ptr, size) && size <= UINT64_MAX - emu_page_size() ? emu_whole_pages(size) : size;
    if (!emu_host_add(ptr, size, true)) return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no memory");
    if (!mapped) return 0;
    if (emu_current_context(&context) != 0) {
        free(emu_take_message()); /* without a device there is no address to map it at */
        return 0;
    }
    int status = emu_host_map(emu_context_device(context), ptr, pages, devPtr);
    if (status != 0) (void)emu_host_remove(ptr, true);
    return status;
}

API aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr) {
    ENTER("aclrtHostRegister");
    return register_host(ptr, size, type == ACL_HOST_REGISTER_MAPPED, devPtr);
}

API aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag) {
    ENTER("aclrtHostRegisterV2");
    void *mapped;
    return register_host(ptr, size, (flag & ACL_HOST_REG_MAPPED) != 0, &mapped);
}

API aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag) {
    ENTER("aclrtHostGetDevicePointer");
    (void)flag;
    if (pHost == NULL || pDevice == NULL) return emu_null_argument(pHost == NULL ? "pHost" : "pDevice");
    if (!emu_host_pin(pHost, 0))
        return emu_fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "EMULATOR_INVALID_ADDRESS", "%p is not registered host memory", pHost);
    void *mapped = emu_host_mapped(pHost);
    *pDevice = mapped != NULL ? mapped : pHost;
    return 0;
}

API aclError aclrtHostUnregister(void *ptr) {
    ENTER_RELEASE("aclrtHostUnregister");
    int status = emu_host_remove(ptr, true);
    if (status == 0) emu_host_unmap(ptr);
    LEAVE(status);
}

API aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *total) {
    ENTER("aclrtGetMemInfo");
    emu_device *device;
    if (free_bytes == NULL || total == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "free and total must not be null pointers");
    int status = current_device(&device);
    if (status == 0) status = emu_link_check(device);
    if (status != 0) return status;
    switch (attr) {
        case ACL_DDR_MEM: case ACL_HBM_MEM: case ACL_DDR_MEM_HUGE: case ACL_DDR_MEM_NORMAL: case ACL_HBM_MEM_HUGE:
        case ACL_HBM_MEM_NORMAL: case ACL_MEM_NORMAL: case ACL_MEM_HUGE:
            pthread_mutex_lock(&device->lock);
            *total = device->capacity;
            *free_bytes = device->capacity - device->used;
            pthread_mutex_unlock(&device->lock);
            return 0;
        default:
            *free_bytes = *total = 0;
            return 0;
    }
}

API aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
    ENTER("aclrtPointerGetAttributes");
    if (ptr == NULL || attributes == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "ptr and attributes must not be null pointers");
    emu_device *device = emu_memory_device(ptr);
    memset(attributes, 0, sizeof *attributes);
    attributes->location.id = device != NULL ? (uint32_t)device->id : 0;
    if (device != NULL) attributes->location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    else attributes->location.type = emu_host_pin(ptr, 0) ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    attributes->pageSize = (uint32_t)emu_page_size(); /* the driver's small pages are at least the host's */
    return 0;
}

