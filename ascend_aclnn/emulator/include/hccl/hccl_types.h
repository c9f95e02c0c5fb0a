/* The types of the hccl interface. Layouts are those of CANN 8.1.RC1. */
#ifndef ASCEND_ACLNN_HCCL_TYPES_H
#define ASCEND_ACLNN_HCCL_TYPES_H

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *HcclComm;
typedef void *HcclCommSymWindow;

typedef union HcclConfigValue {
    int32_t value;
} HcclConfigValue;

typedef struct HcclRootInfoDef {
    char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

typedef struct HcclCommConfigDef {
    char reserved[HCCL_COMM_CONFIG_INFO_BYTES];
    uint32_t hcclBufferSize;
    uint32_t hcclDeterministic;
    char hcclCommName[COMM_NAME_MAX_LENGTH];
    char hcclUdi[UDI_MAX_LENGTH];
    uint32_t hcclOpExpansionMode;
    uint32_t hcclRdmaTrafficClass;
    uint32_t hcclRdmaServiceLevel;
} HcclCommConfig;

typedef struct HcclSendRecvItemDef {
    HcclSendRecvType sendRecvType;
    void *buf;
    uint64_t count;
    HcclDataType dataType;
    uint32_t remoteRank;
} HcclSendRecvItem;

#ifdef __cplusplus
}
#endif

#endif
