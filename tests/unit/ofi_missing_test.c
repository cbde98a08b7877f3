/* What is said of a library of the ofi transport that does not load. */
#include "tests/support/test.h"

#include "shared/transport/ofi_missing.h"

static void expect(const char *error, const char *what, const char *fix)
{
    struct okv_diag said_what, said_fix;

    okv_ofi_explain_missing(error, &said_what, &said_fix);
    if (!strstr(said_what.text, what))
        fail_msg("'%s' does not say '%s'", said_what.text, what);
    if (!strstr(said_fix.text, fix))
        fail_msg("'%s' does not say '%s'", said_fix.text, fix);
}

TEST(the_file_that_is_missing_is_named)
{
    expect(OKV_OFI_MODULE ": cannot open shared object file: No such file or directory",
           "needs " OKV_OFI_MODULE ", which is neither beside libokv", "install libfabric-dev");
    expect("libfabric.so.1: cannot open shared object file: No such file or directory",
           "needs libfabric.so.1, for " OKV_OFI_MODULE ", and it is not installed",
           "install libfabric1");
    expect("libpsm2.so.2: cannot open shared object file: No such file or directory",
           "needs libpsm2.so.2, ", "install the package that has it");
}

TEST(a_library_that_is_there_and_does_not_load)
{
    expect("/opt/okv/lib/" OKV_OFI_MODULE ": undefined symbol: fi_nothing",
           "it does not load (/opt/okv/lib/" OKV_OFI_MODULE ": undefined symbol: fi_nothing)",
           "the one of this libokv");
    expect("/usr/lib/libfabric.so.1: version `FABRIC_1.9' not found (required by it)",
           "does not load (/usr/lib/libfabric.so.1: version `FABRIC_1.9' not found", "libfabric");
    expect(NULL, "the one that is there is none", "the one of this libokv");
}
