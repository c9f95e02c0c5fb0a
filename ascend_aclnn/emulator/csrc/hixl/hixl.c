/*
 * hixl::Hixl (libcann_hixl), by which newer CANN replaces adxl::AdxlEngine: the same functions of the same structures. By Linux's
 * calling conventions six arguments that are pointers or integers go on as they came.
 */
#include "ascendcl/core/api.h"

#define FORWARD(of_hixl, of_adxl)                                                                                                       \
    LINK uintptr_t of_adxl(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);                                           \
    API uintptr_t of_hixl(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);                                            \
    API uintptr_t of_hixl(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) { return of_adxl(a, b, c, d, e, f); }

FORWARD(_ZN4hixl4HixlC1Ev, _ZN4adxl10AdxlEngineC1Ev)
FORWARD(_ZN4hixl4HixlC2Ev, _ZN4adxl10AdxlEngineC2Ev)
FORWARD(_ZN4hixl4HixlD1Ev, _ZN4adxl10AdxlEngineD1Ev)
FORWARD(_ZN4hixl4HixlD2Ev, _ZN4adxl10AdxlEngineD2Ev)
FORWARD(_ZN4hixl4Hixl8FinalizeEv, _ZN4adxl10AdxlEngine8FinalizeEv)
FORWARD(_ZN4hixl4Hixl10InitializeERKN2ge12AscendStringERKSt3mapIS2_S2_St4lessIS2_ESaISt4pairIS3_S2_EEE,
        _ZN4adxl10AdxlEngine10InitializeERKN2ge12AscendStringERKSt3mapIS2_S2_St4lessIS2_ESaISt4pairIS3_S2_EEE)
FORWARD(_ZN4hixl4Hixl11RegisterMemERKNS_7MemDescENS_7MemTypeERPv, _ZN4adxl10AdxlEngine11RegisterMemERKNS_7MemDescENS_7MemTypeERPv)
FORWARD(_ZN4hixl4Hixl13DeregisterMemEPv, _ZN4adxl10AdxlEngine13DeregisterMemEPv)
FORWARD(_ZN4hixl4Hixl7ConnectERKN2ge12AscendStringEi, _ZN4adxl10AdxlEngine7ConnectERKN2ge12AscendStringEi)
FORWARD(_ZN4hixl4Hixl10DisconnectERKN2ge12AscendStringEi, _ZN4adxl10AdxlEngine10DisconnectERKN2ge12AscendStringEi)
FORWARD(_ZN4hixl4Hixl12TransferSyncERKN2ge12AscendStringENS_10TransferOpERKSt6vectorINS_14TransferOpDescESaIS7_EEi,
        _ZN4adxl10AdxlEngine12TransferSyncERKN2ge12AscendStringENS_10TransferOpERKSt6vectorINS_14TransferOpDescESaIS7_EEi)
FORWARD(_ZN4hixl4Hixl13TransferAsyncERKN2ge12AscendStringENS_10TransferOpERKSt6vectorINS_14TransferOpDescESaIS7_EERKNS_12TransferArgsERPv,
        _ZN4adxl10AdxlEngine13TransferAsyncERKN2ge12AscendStringENS_10TransferOpERKSt6vectorINS_14TransferOpDescESaIS7_EERKNS_12TransferArgsERPv)
FORWARD(_ZN4hixl4Hixl17GetTransferStatusERKPvRNS_14TransferStatusE, _ZN4adxl10AdxlEngine17GetTransferStatusERKPvRNS_14TransferStatusE)
