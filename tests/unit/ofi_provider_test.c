/*
 * Which libfabric provider a server takes when the best one cannot be used.
 *
 * fi_fabric() below stands in front of libfabric's, which the ofi transport calls: it refuses the
 * provider net, or registers all its memory for remote writing. Skipped without libokv-ofi.so.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test.h"
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "shared/base/error.h"
#include "shared/transport/ofi_module.h"

#define REGION 65536

/* What is wrong with the provider net. The hooks of libfabric have no argument for it. */
static enum { NOTHING, CANNOT_OPEN, MAY_BE_WRITTEN } fault;

typedef int open_fabric(struct fi_fabric_attr *, struct fid_fabric **, void *);

static struct {
    struct fi_ops_fabric *fabric_ops;
    struct fi_ops_mr *mr_ops;
    struct fi_ops_fabric own_fabric_ops;
    struct fi_ops_mr own_mr_ops;
} real;

static int register_writable(struct fid *fid, const void *base, size_t length, uint64_t access,
                             uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                             void *context)
{
    return real.mr_ops->reg(fid, base, length, access | FI_REMOTE_WRITE, offset, key, flags, mr,
                            context);
}

static int open_writable(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
                         void *context)
{
    info->caps |= FI_WRITE | FI_REMOTE_WRITE;
    int rc = real.fabric_ops->domain(fabric, info, out, context);

    if (rc)
        return rc;
    real.mr_ops = (*out)->mr;
    real.own_mr_ops = *real.mr_ops;
    real.own_mr_ops.reg = register_writable;
    (*out)->mr = &real.own_mr_ops;
    return 0;
}

__attribute__((visibility("default"))) int fi_fabric(struct fi_fabric_attr *attr,
                                                     struct fid_fabric **out, void *context)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
    open_fabric *open = (open_fabric *)dlsym(library, "fi_fabric");
    bool is_net = strcmp(attr->prov_name, "net") == 0;

    dlclose(library);
    if (is_net && fault == CANNOT_OPEN)
        return -FI_EBUSY;
    int rc = open(attr, out, context);
    if (rc == 0 && is_net && fault == MAY_BE_WRITTEN) {
        real.fabric_ops = (*out)->ops;
        real.own_fabric_ops = *real.fabric_ops;
        real.own_fabric_ops.domain = open_writable;
        (*out)->ops = &real.own_fabric_ops;
    }
    return rc;
}

/* Listens with `query`. The sentence of a failure, or how the listener serves. */
static int listen_with(const char *query, char *how, size_t size)
{
    const struct okv_transport_ops *ops = okv_ofi_module();
    char text[64];
    struct okv_uri uri;
    struct okv_region region = {.length = REGION, .fd = -1};
    struct okv_listener *listener;
    struct okv_diag diag = {""};

    unsigned pid = (unsigned)getpid(); /* an address that no other test has */

    snprintf(text, sizeof text, "ofi://127.%u.%u.%u%s", 128 + (pid >> 16 & 127), pid >> 8 & 255,
             1 + (pid & 127), query);
    assert_int_equal(okv_uri_parse(text, &uri, NULL), 0);
    region.base = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(region.base, MAP_FAILED);
    int rc = ops->listen(&uri, &region, 1, &listener, &diag);
    snprintf(how, size, "%s", rc ? diag.text : listener->how);
    if (rc == 0)
        ops->unlisten(listener);
    munmap(region.base, REGION);
    return rc;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not say '%s'", text, part);
}

TEST(the_best_one_is_taken)
{
    char how[320];

    fault = NOTHING;
    assert_int_equal(listen_with("", how, sizeof how), 0);
    assert_says(how, "provider net, ");
    assert_null(strstr(how, "not by"));
}

TEST(the_next_one_is_taken_when_it_does_not_open)
{
    char how[320];

    fault = CANNOT_OPEN;
    assert_int_equal(listen_with("", how, sizeof how), 0);
    assert_says(how, "provider tcp");
    assert_says(how, "not by net");
}

TEST(the_next_one_is_taken_when_it_can_be_written)
{
    char how[320];

    fault = MAY_BE_WRITTEN;
    assert_int_equal(listen_with("", how, sizeof how), 0);
    assert_says(how, "provider tcp");
    assert_says(how, "not by net");
}

TEST(the_one_that_is_named_or_none)
{
    char how[320];

    fault = CANNOT_OPEN;
    assert_int_not_equal(listen_with("?provider=net", how, sizeof how), 0);
    assert_says(how, "provider net cannot be opened");
    fault = MAY_BE_WRITTEN;
    assert_int_equal(listen_with("?provider=net", how, sizeof how), OKV_EUNSUPPORTED);
    assert_says(how, "provider net lets peers write");
    assert_int_equal(listen_with("?provider=tcp", how, sizeof how), 0);
}

int main(void)
{
    if (!okv_ofi_module_is_there()) {
        puts("skipped: there is no " OKV_OFI_MODULE);
        return 77;
    }
    return test_run();
}
