/* What engines of adxl take and return. */
#ifndef ASCEND_ACLNN_ADXL_TYPES_H
#define ASCEND_ACLNN_ADXL_TYPES_H

#include "graph/ascend_string.h"

#include <cstdint>

namespace adxl {

using Status = uint32_t;
using AscendString = ge::AscendString;
using MemHandle = void *;
using TransferReq = void *;

constexpr Status SUCCESS = 0;
constexpr Status PARAM_INVALID = 103900;
constexpr Status TIMEOUT = 103901;
constexpr Status NOT_CONNECTED = 103902;
constexpr Status ALREADY_CONNECTED = 103903;
constexpr Status NOTIFY_FAILED = 103904;
constexpr Status UNSUPPORTED = 103905;
constexpr Status RESOURCE_EXHAUSTED = 203900;
constexpr Status FAILED = 503900;

/* Options of Initialize; of these the emulated one heeds AutoConnect. */
constexpr const char OPTION_RDMA_TRAFFIC_CLASS[] = "adxl.RdmaTrafficClass";
constexpr const char OPTION_RDMA_SERVICE_LEVEL[] = "adxl.RdmaServiceLevel";
constexpr const char OPTION_BUFFER_POOL[] = "adxl.BufferPool";
constexpr const char OPTION_LOCAL_COMM_RES[] = "adxl.LocalCommRes";
constexpr const char OPTION_AUTO_CONNECT[] = "AutoConnect"; /* "1": transfers connect by themselves */

enum MemType { MEM_DEVICE, MEM_HOST };
enum TransferOp { READ, WRITE };
enum class TransferStatus { WAITING, COMPLETED, TIMEOUT, FAILED };

struct MemDesc {
    uintptr_t addr;
    size_t len; /* bytes */
    uint8_t reserved[128] = {};
};

struct TransferOpDesc {
    uintptr_t local_addr;
    uintptr_t remote_addr;
    size_t len; /* bytes */
};

struct TransferArgs {
    uint8_t reserved[128] = {};
};

}

#endif
