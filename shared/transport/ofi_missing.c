#include "shared/transport/ofi_missing.h"

#include <stdbool.h>
#include <string.h>

#define LIBFABRIC "libfabric.so"

/* "FILE: cannot open shared object file: REASON" */
static bool is_absent(const char *error)
{
    return strstr(error, ": cannot open shared object file") != NULL;
}

void okv_ofi_explain_missing(const char *error, struct okv_diag *what, struct okv_diag *fix)
{
    size_t length = error ? strcspn(error, ":") : 0;

    if (!error) {
        okv_diag_set(what, 0, "ofi:// needs " OKV_OFI_MODULE ", and the one that is there is none");
        okv_diag_set(fix, 0, "install the one of this libokv");
    } else if (!is_absent(error)) {
        okv_diag_set(what, 0, "ofi:// needs " OKV_OFI_MODULE ", and it does not load (%.160s)",
                     error);
        okv_diag_set(fix, 0, "install the one of this libokv, with its libfabric");
    } else if (strncmp(error, OKV_OFI_MODULE, length) == 0) {
        okv_diag_set(what, 0,
                     "ofi:// needs " OKV_OFI_MODULE ", which is neither beside libokv nor in the "
                     "search path of libraries");
        okv_diag_set(fix, 0,
                     "install libfabric-dev, build and install okv again, or name its directory in "
                     "LD_LIBRARY_PATH");
    } else {
        bool is_libfabric = strncmp(error, LIBFABRIC, sizeof LIBFABRIC - 1) == 0;
        okv_diag_set(what, 0, "ofi:// needs %.*s, for " OKV_OFI_MODULE ", and it is not installed",
                     (int)length, error);
        okv_diag_set(fix, 0, "install %s, or use tcp://",
                     is_libfabric ? "libfabric1" : "the package that has it");
    }
}
