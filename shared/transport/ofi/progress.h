/* The thread that serves READs while a worker is busy. */
#ifndef OKV_SHARED_TRANSPORT_OFI_PROGRESS_H
#define OKV_SHARED_TRANSPORT_OFI_PROGRESS_H

#include "shared/transport/ofi/ofi.h"

/* Does nothing where a device serves READs. */
int okv_ofi_progress_start(struct ofi_endpoint *endpoint, struct okv_diag *diag);
/* Accepts one that was not started. */
void okv_ofi_progress_stop(struct ofi_endpoint *endpoint);

#endif
