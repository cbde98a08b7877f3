/* Why the library of the ofi transport does not load. */
#ifndef OKV_SHARED_TRANSPORT_OFI_MISSING_H
#define OKV_SHARED_TRANSPORT_OFI_MISSING_H

#include "shared/base/diag.h"

/* Writes which file is missing, and what to do, from what dlerror() returned. */
void okv_ofi_explain_missing(const char *error, struct okv_diag *what, struct okv_diag *fix);

#endif
