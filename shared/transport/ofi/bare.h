/* READs by libfabric alone, to measure. */
#ifndef OKV_SHARED_TRANSPORT_OFI_BARE_H
#define OKV_SHARED_TRANSPORT_OFI_BARE_H

#include "shared/transport/ofi/ofi.h"

int okv_ofi_bare_read(struct okv_conn *conn, struct okv_bare_reads *reads);
void okv_ofi_bare_close(struct ofi_bare *bare); /* accepts NULL */

#endif
