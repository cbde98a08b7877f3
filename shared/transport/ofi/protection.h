/* Whether a provider keeps the promise "readable, never writable". */
#ifndef OKV_SHARED_TRANSPORT_OFI_PROTECTION_H
#define OKV_SHARED_TRANSPORT_OFI_PROTECTION_H

#include "shared/transport/ofi/ofi.h"

/* Writes to memory of our own that is registered for remote reading only. OKV_EUNSUPPORTED when the
 * provider lets the write through, or when that cannot be told. */
int okv_ofi_protection_check(const struct ofi_fabric *fabric, struct okv_diag *diag);

#endif
