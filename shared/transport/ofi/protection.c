/*
 * Whether a provider keeps the promise "readable, never writable".
 *
 * Not all do. The verbs provider's cache of registrations allows remote writes to everything in it;
 * shm with virtual addresses checks neither key nor bounds. So a server attacks memory of its own
 * at start: an endpoint of another peer writes to a page that is registered as the region will be.
 */
#include "shared/transport/ofi/protection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/ofi/fabric.h"

#define PAGE 4096
#define GOOD 0xa5
#define BAD 0x5a
/* A refused operation may never complete. A machine with other work takes its time. */
#define ATTACK_NS UINT64_C(10000000000)

static int end_open(const struct ofi_fabric *fabric, struct ofi_end *end)
{
    struct fi_cq_attr queue = {.size = 16, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};

    return okv_ofi_end_open(fabric, 2, &queue, end);
}

/* What the attacker knows and has. */
struct attack {
    struct ofi_fabric fabric; /* one that lets it write; `fabric.fabric` is the target's */
    struct ofi_end attacker, target;
    fi_addr_t victim;
    uint8_t *own; /* the attacker's page */
    struct ofi_region own_region, target_region;
    uint64_t end_ns; /* when it is given up */
    unsigned ended;  /* operations of the attacker */
    bool failed;     /* one of them */
};

/* Lets both ends work. */
static void progress(struct attack *attack)
{
    struct fi_cq_entry entry;
    struct fi_cq_err_entry error = {.err_data_size = 0};

    fi_cq_read(attack->target.cq, NULL, 0);
    ssize_t n = fi_cq_read(attack->attacker.cq, &entry, 1);
    if (n == -FI_EAVAIL) {
        n = fi_cq_readerr(attack->attacker.cq, &error, 0);
        attack->failed = true;
    }
    attack->ended += n > 0;
}

static bool is_in_time(const struct attack *attack)
{
    return okv_clock_ns() < attack->end_ns;
}

/* Waits until `ended` operations have ended, or the time is over. */
static bool await(struct attack *attack, unsigned ended)
{
    while (attack->ended < ended && is_in_time(attack))
        progress(attack);
    return attack->ended >= ended;
}

/* Posts a READ of the target's page until the provider takes it. */
static ssize_t post_read(struct attack *attack, struct fi_context2 *context)
{
    const struct ofi_region *from = &attack->target_region;
    ssize_t rc;

    do {
        rc = fi_read(attack->attacker.ep, attack->own + PAGE / 2, 64, attack->own_region.desc,
                     attack->victim, from->address, from->key, context);
        progress(attack);
    } while (rc == -FI_EAGAIN && is_in_time(attack));
    return rc;
}

static ssize_t post_write(struct attack *attack, struct fi_context2 *context)
{
    const struct ofi_region *to = &attack->target_region;
    ssize_t rc;

    do {
        rc = fi_write(attack->attacker.ep, attack->own, 64, attack->own_region.desc, attack->victim,
                      to->address, to->key, context);
        progress(attack);
    } while (rc == -FI_EAGAIN && is_in_time(attack));
    return rc;
}

/* READs, which shows that the attacker reaches the page; writes; READs again: the end of that READ,
 * or that of the connection, shows that the target has seen the write. Some providers report
 * success for a write that the target refuses. False when it is not certain that the target has. */
static bool attack_run(struct attack *attack, struct fi_context2 contexts[3])
{
    attack->end_ns = okv_clock_ns() + ATTACK_NS;
    if (post_read(attack, &contexts[0]) || !await(attack, 1) || attack->failed)
        return false;
    if (post_write(attack, &contexts[1]) || !await(attack, 2))
        return false;
    if (attack->failed)
        return true;
    ssize_t rc = post_read(attack, &contexts[2]);
    return rc == 0 ? await(attack, 3) : rc != -FI_EAGAIN;
}

/* okv never writes, and its domain has no right to. A peer's that does is not held back by its own
 * provider. */
static int attacker_open(const struct ofi_fabric *fabric, struct attack *attack)
{
    struct fi_info *info = fi_dupinfo(fabric->info);

    if (!info)
        return -FI_ENOMEM;
    info->caps |= FI_WRITE;
    info->tx_attr->caps |= FI_WRITE;
    attack->fabric = (struct ofi_fabric){.info = info, .fabric = fabric->fabric};
    int rc = fi_domain(fabric->fabric, info, &attack->fabric.domain, NULL);
    return rc ? rc : end_open(&attack->fabric, &attack->attacker);
}

static int attack_open(const struct ofi_fabric *fabric, struct attack *attack, uint8_t *pages,
                       struct okv_diag *diag)
{
    uint8_t name[OFI_NAME_MAX];
    size_t length = sizeof name;
    int rc = end_open(fabric, &attack->target);

    if (rc == 0)
        rc = attacker_open(fabric, attack);
    if (rc == 0)
        rc = fi_getname(&attack->target.ep->fid, name, &length);
    if (rc == 0 && fi_av_insert(attack->attacker.av, name, 1, &attack->victim, 0, NULL) != 1)
        rc = -FI_EADDRNOTAVAIL;
    if (rc)
        return okv_diag_set(diag, okv_ofi_error(rc),
                            "the libfabric provider %s cannot be used: no endpoint that can be "
                            "waited for opens on it: %s",
                            okv_ofi_fabric_name(fabric), fi_strerror(-rc));
    attack->own = pages + PAGE;
    rc = okv_ofi_region_open(fabric, pages, PAGE, FI_READ | FI_REMOTE_READ, &attack->target_region,
                             diag);
    if (rc == 0)
        rc = okv_ofi_region_open(&attack->fabric, attack->own, PAGE, FI_READ | FI_WRITE,
                                 &attack->own_region, diag);
    return rc;
}

/* False when the provider may still use the pages. */
static bool attack_close(struct attack *attack)
{
    bool is_closed = okv_ofi_end_close(&attack->attacker);

    is_closed &= okv_ofi_end_close(&attack->target);
    okv_ofi_region_close(&attack->own_region);
    okv_ofi_region_close(&attack->target_region);
    if (attack->fabric.domain)
        fi_close(&attack->fabric.domain->fid);
    fi_freeinfo(attack->fabric.info);
    return is_closed;
}

static bool is_untouched(const uint8_t *page)
{
    for (unsigned i = 0; i < PAGE; i++) {
        if (page[i] != GOOD)
            return false;
    }
    return true;
}

int okv_ofi_protection_check(const struct ofi_fabric *fabric, struct okv_diag *diag)
{
    struct attack attack = {.victim = FI_ADDR_NOTAVAIL};
    /* The target's page, the attacker's, and one for contexts of operations. */
    uint8_t *pages =
        mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory to check a libfabric provider");
    memset(pages, GOOD, PAGE);
    memset(pages + PAGE, BAD, PAGE);
    int rc = attack_open(fabric, &attack, pages, diag);
    if (rc == 0 && !attack_run(&attack, (struct fi_context2 *)(pages + 2 * PAGE)))
        rc = okv_diag_set(
            diag, OKV_EUNSUPPORTED,
            "whether the libfabric provider %s protects memory cannot be told: an attack of "
            "this server on itself did not come to its end; choose another with ?provider=",
            okv_ofi_fabric_name(fabric));
    bool is_closed = attack_close(&attack);
    if (rc == 0 && !is_untouched(pages))
        rc = okv_diag_set(diag, OKV_EUNSUPPORTED,
                          "the libfabric provider %s lets peers write to memory that they may only "
                          "read: choose another with ?provider=, see 'fi_info'",
                          okv_ofi_fabric_name(fabric));
    if (is_closed)
        munmap(pages, 3 * PAGE);
    return rc;
}
