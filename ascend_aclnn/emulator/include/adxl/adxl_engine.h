/* Transfers between registered memory of processes. */
#ifndef ASCEND_ACLNN_ADXL_ENGINE_H
#define ASCEND_ACLNN_ADXL_ENGINE_H

#include "adxl/adxl_types.h"

#include <map>
#include <memory>
#include <vector>

namespace adxl {

class AdxlEngine {
public:
    AdxlEngine();
    ~AdxlEngine();
    /* local_engine: host:port, which others connect to, or host. */
    Status Initialize(const AscendString &local_engine, const std::map<AscendString, AscendString> &options);
    void Finalize();
    Status RegisterMem(const MemDesc &mem, MemType type, MemHandle &mem_handle);
    Status DeregisterMem(MemHandle mem_handle);
    Status Connect(const AscendString &remote_engine, int32_t timeout_in_millis = 1000);
    Status Disconnect(const AscendString &remote_engine, int32_t timeout_in_millis = 1000);
    Status TransferSync(const AscendString &remote_engine, TransferOp operation, const std::vector<TransferOpDesc> &op_descs,
                        int32_t timeout_in_millis = 1000);
    Status TransferAsync(const AscendString &remote_engine, TransferOp operation, const std::vector<TransferOpDesc> &op_descs,
                         const TransferArgs &optional_args, TransferReq &req);
    Status GetTransferStatus(const TransferReq &req, TransferStatus &status);

private:
    class AdxlEngineImpl;
    std::unique_ptr<AdxlEngineImpl> impl_; /* not one of std's objects in the emulated library, and freed by it */
};

}

#endif
