#include "shared/transport/verbs/domain.h"

#include <errno.h>
#include <string.h>

#include "shared/base/error.h"

/* One thread at a time uses a handle, so its queue pair needs none of the driver's locks, and a
 * doorbell register of its own where the device has enough: without it some sixteen handles share a
 * few under a lock (mlx5; SMART, ASPLOS 2024). A device without thread domains goes without. */
static void divide(struct verbs_domain *domain)
{
    struct ibv_td_init_attr none = {.comp_mask = 0};

    domain->thread = ibv_alloc_td(domain->whole->context, &none);
    if (!domain->thread)
        return;
    struct ibv_parent_domain_init_attr attr = {.pd = domain->whole, .td = domain->thread};
    struct ibv_pd *pd = ibv_alloc_parent_domain(domain->whole->context, &attr);
    if (pd) {
        domain->pd = pd;
        return;
    }
    ibv_dealloc_td(domain->thread);
    domain->thread = NULL;
}

int okv_verbs_domain_open(struct ibv_context *verbs, struct verbs_domain *out,
                          struct okv_diag *diag)
{
    *out = (struct verbs_domain){.whole = ibv_alloc_pd(verbs)};
    if (!out->whole)
        return okv_diag_set(diag, okv_error_from_errno(errno), "%s gives no protection domain: %s",
                            ibv_get_device_name(verbs->device), strerror(errno));
    out->pd = out->whole;
    divide(out);
    return 0;
}

void okv_verbs_domain_close(struct verbs_domain *domain)
{
    if (domain->thread) {
        ibv_dealloc_pd(domain->pd);
        ibv_dealloc_td(domain->thread);
    }
    if (domain->whole)
        ibv_dealloc_pd(domain->whole);
    *domain = (struct verbs_domain){.pd = NULL};
}
