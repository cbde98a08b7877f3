/* Part of transport_ofi_test.c: memory that is lent to the provider, and to the peer. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"
#include "tests/support/sanitized.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_ofi_list.h"

static uint8_t lent[4096];

TEST(a_client_advertises_no_more_than_its_credits)
{
    struct client *client = client_create(state);
    const struct okv_transport_ops *ops = client->ops;
    struct okv_advert *adverts[FIXTURE_CREDITS], *more;

    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        assert_int_equal(ops->advertise(client->conn, lent, sizeof lent, &adverts[i]), 0);
    assert_int_equal(ops->advertise(client->conn, lent, sizeof lent, &more), OKV_EAGAIN);
    ops->withdraw(adverts[3], false);
    assert_int_equal(ops->advertise(client->conn, lent, sizeof lent, &adverts[3]), 0);
    assert_int_equal(ops->advertise(client->conn, lent, sizeof lent, &more), OKV_EAGAIN);
    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        ops->withdraw(adverts[i], false);
    client_destroy(client);
}

/* Orders a rendezvous read and returns what the server's transport said. */
static int try_rendezvous(struct client *client, const struct okv_advert *advert)
{
    struct fixture *fixture = client->fixture;
    unsigned before = atomic_load(&fixture->rendezvous_started);
    unsigned ended = atomic_load(&fixture->rendezvous_ended);

    fixture->rendezvous_reads[0].rendezvous = (struct okv_rendezvous){
        .address = advert->address, .key = advert->key, .length = sizeof lent, .offset = 0};
    atomic_store(&fixture->rendezvous_wanted, 1);
    assert_int_equal(client_send(client, 1, 0, FIXTURE_RENDEZVOUS), 0);
    client->ops->flush(client->conn);
    assert_true(client_reaches(client, &fixture->rendezvous_started, before + 1));
    int result = fixture->rendezvous_reads[0].result;
    if (result == 0)
        assert_true(client_reaches(client, &fixture->rendezvous_ended, ended + 1));
    return result;
}

/* OKV_EAGAIN would make the server wait for the end of another rendezvous read, for ever. */
TEST(a_rendezvous_read_without_memory)
{
    struct client *client = client_create(state);
    struct okv_advert *advert;
    struct rlimit limit, none;

    /* A sanitizer's own memory is subject to the limit. A device reads into the value itself. */
    if (OKV_SANITIZED || client->conn->is_one_sided) {
        client_destroy(client);
        skip();
    }
    client_echo(client, 1, 100, 1); /* both sides have all that they need */
    assert_int_equal(client->ops->advertise(client->conn, lent, sizeof lent, &advert), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    int result = try_rendezvous(client, advert);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(result, OKV_ENOMEM);
    assert_int_equal(try_rendezvous(client, advert), 0);
    client->ops->withdraw(advert, false);
    fixture_restore(client->fixture, 0, sizeof lent);
    client_destroy(client);
}

/* ---- what the provider keeps ---- */

static unsigned closes;

static int stays_busy(struct fid *fid)
{
    (void)fid;
    closes++;
    return -FI_EBUSY;
}

static bool is_mapped(const void *base)
{
    unsigned char resident;

    return mincore((void *)base, 1, &resident) == 0;
}

/* A provider that keeps an endpoint may still write to what it was given. It may also have freed
 * half of it, so that nobody may use or close it again. */
TEST(an_endpoint_that_cannot_be_closed)
{
    static struct fid_ep *kept; /* for who looks for leaks */
    struct fixture *fixture = *state;
    struct okv_conn *conn = fixture_connect(fixture);
    struct ofi_endpoint *ep = (struct ofi_endpoint *)conn->endpoint;
    static struct fi_ops busy;
    struct okv_event event;
    const uint8_t *slots = ep->pools[0].slots.memory.base;

    closes = 0;
    kept = ep->ep;
    busy = *kept->fid.ops;
    busy.close = stays_busy;
    kept->fid.ops = &busy;
    fixture->ops->close(conn);
    while (fixture->ops->poll(conn->endpoint, &event, 1) != OKV_EIO)
        ;
    assert_int_equal(fixture->ops->arm(conn->endpoint), OKV_EIO);
    fixture->ops->conn_destroy(conn);
    assert_int_equal(closes, 1);
    assert_true(is_mapped(slots));
    assert_true(is_mapped(((struct ofi_conn *)conn)->send_slab.memory.base));
    assert_true(fixture_is_empty(fixture));
}

/* The same for registered memory. The registration is the test's: no provider over TCP wants one.
 */
TEST(memory_that_the_provider_keeps)
{
    struct fixture *fixture = *state;
    struct okv_conn *conn = fixture_connect(fixture);
    struct ofi_slab slab = ((struct ofi_conn *)conn)->send_slab;
    struct fi_ops busy = {.size = sizeof busy, .close = stays_busy};
    struct fid_mr registration = {.fid.ops = &busy};

    if (slab.region.mr) {
        fixture->ops->conn_destroy(conn);
        skip();
    }
    ((struct ofi_conn *)conn)->send_slab.region.mr = &registration;
    fixture->ops->conn_destroy(conn);
    assert_true(is_mapped(slab.memory.base));
    munmap(slab.memory.base, slab.memory.bytes);
    assert_true(fixture_is_empty(fixture));
}
