/*
 * Loads the ofi transport, and libfabric with it, when a URI first asks for it. The search path of
 * the object that has this function begins with the directory of the installed libraries, wherever
 * that is.
 *
 * libokv does not link libfabric. Debian's one brings libinfinipath, whose constructor handles
 * SIGINT, SIGTERM, SIGSEGV and others for the whole process and ends it with status 1. What is
 * loaded here keeps none of that: the signals are handled as they were before.
 */
#include "shared/transport/ofi_module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "shared/base/error.h"
#include "shared/base/fork_guard.h"
#include "shared/transport/ofi_missing.h"

/* One for the process, like the library that it loads. */
static struct {
    pthread_once_t once;
    const struct okv_transport_ops *ops;
    struct okv_diag what, fix; /* it is not there */
} module = {.once = PTHREAD_ONCE_INIT};

static int explain(struct okv_diag *diag)
{
    return okv_diag_set(diag, OKV_EUNSUPPORTED, "%s: %s", module.what.text, module.fix.text);
}

static int listen_absent(const struct okv_uri *uri, const struct okv_region *regions,
                         unsigned count, struct okv_listener **out, struct okv_diag *diag)
{
    (void)uri, (void)regions, (void)count, (void)out;
    return explain(diag);
}

static int connect_absent(const struct okv_uri *uri, const struct okv_connect_params *params,
                          struct okv_connecting **out, struct okv_diag *diag)
{
    (void)uri, (void)params, (void)out;
    return explain(diag);
}

static void cancel_absent(struct okv_connecting *connecting)
{
    (void)connecting;
}

/* What a URI meets when there is no module. */
static const struct okv_transport_ops absent = {.name = "ofi",
                                                .listen = listen_absent,
                                                .connect_start = connect_absent,
                                                .connect_cancel = cancel_absent};

static void load(void)
{
    struct sigaction before[NSIG];
    bool known[NSIG];

    okv_fork_guard_start();
    for (int i = 1; i < NSIG; i++)
        known[i] = sigaction(i, NULL, &before[i]) == 0;
    void *library = dlopen(OKV_OFI_MODULE, RTLD_NOW | RTLD_LOCAL);
    void (*prepare)(void) = library ? dlsym(library, "okv_ofi_prepare") : NULL;
    if (prepare)
        prepare();
    for (int i = 1; i < NSIG; i++) {
        if (known[i])
            sigaction(i, &before[i], NULL);
    }
    module.ops = prepare ? dlsym(library, "okv_transport_ofi") : NULL;
    if (module.ops)
        return;
    okv_ofi_explain_missing(dlerror(), &module.what, &module.fix);
    module.ops = &absent;
}

const struct okv_transport_ops *okv_ofi_module(void)
{
    pthread_once(&module.once, load);
    return module.ops;
}

bool okv_ofi_module_is_there(void)
{
    return okv_ofi_module() != &absent;
}
