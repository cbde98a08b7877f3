#include <dlfcn.h>
#include <string.h>

#include "client/cli/doctor/checks.h"

/* The transport is loaded and stays so; this takes its function. */
static void check_providers(struct doctor_report *report)
{
    char names[128];
    void *module = dlopen(OKV_OFI_MODULE, RTLD_NOW | RTLD_LOCAL);
    void (*providers)(char *, size_t) = module ? dlsym(module, "okv_ofi_providers") : NULL;

    if (!providers)
        return;
    providers(names, sizeof names);
    bool is_none = strcmp(names, "none") == 0;
    doctor_add(report, is_none ? DOCTOR_NOTE : DOCTOR_OK, "libfabric",
               is_none ? "install libfabric1, or give the host an IP address" : NULL,
               "providers for ofi://, best first: %s", names);
}

void doctor_check_fabrics(struct doctor_report *report)
{
    doctor_add(report, DOCTOR_OK, "transports", NULL, "%s", okv_transports());
    check_providers(report);
}
