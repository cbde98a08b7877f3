#include "tests/support/ofi_attacker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"

#define API FI_VERSION(1, 17)
#define QUEUE 1024
/* Of messages to the attacker, which nobody checks. */
#define OWN_KEY UINT64_C(0x6b6579)

/* ---- the control connection ---- */

struct sockaddr_in ofi_control_address(const struct okv_uri *uri)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    address.sin_port = htons((uint16_t)atoi(uri->port));
    assert_int_equal(inet_pton(AF_INET, uri->host, &address.sin_addr), 1);
    return address;
}

static bool take_frame(int sock, struct ofi_frame *frame)
{
    memset(frame, 0, sizeof *frame);
    if (recv(sock, &frame->header, sizeof frame->header, MSG_WAITALL) != sizeof frame->header)
        return false;
    size_t length = okv_ofi_frame_length(&frame->header);
    if (length == 0)
        return false;
    length -= sizeof frame->header;
    return recv(sock, &frame->body, length, MSG_WAITALL) == (ssize_t)length &&
           okv_ofi_frame_is_valid(frame);
}

int ofi_try_greeted(const struct okv_uri *uri, struct ofi_frame *greeting)
{
    const struct timeval guard = {.tv_sec = PACE_GUARD_MS / 1000};
    struct sockaddr_in address = ofi_control_address(uri);
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof guard);
    if (connect(sock, (struct sockaddr *)&address, sizeof address) == 0 &&
        take_frame(sock, greeting) && greeting->header.kind == OFI_GREETING)
        return sock;
    close(sock);
    return -1;
}

int ofi_greeted(const struct okv_uri *uri, struct ofi_frame *greeting)
{
    int sock = ofi_try_greeted(uri, greeting);

    if (sock < 0)
        fail_msg("no greeting came");
    return sock;
}

void ofi_make_hello(struct ofi_frame *frame, const void *name, size_t name_length,
                    const void *hello, size_t length)
{
    struct ofi_hello *body = &frame->body.hello;

    assert_true(name_length <= OFI_NAME_MAX && length <= OKV_HELLO_MAX);
    okv_ofi_frame_begin(frame, OFI_HELLO);
    body->place.key = okv_le64_of(OWN_KEY);
    body->place.name_length = (uint8_t)name_length;
    memcpy(body->place.name, name, name_length);
    body->length = (uint8_t)length;
    memcpy(body->bytes, hello, length);
}

/* ---- the fabric ---- */

/* With all that a provider of this name has against the memory of others. */
static struct fi_info *find(const char *provider, const char *host, uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_info *all = NULL, *found = NULL;

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup(provider); /* fi_freeinfo() frees it */
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA | caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    if (fi_getinfo(API, host, NULL, FI_SOURCE, hints, &all) == 0) {
        for (struct fi_info *info = all; info && !found; info = info->next) {
            if (strcmp(info->fabric_attr->prov_name, provider) == 0)
                found = fi_dupinfo(info);
        }
        fi_freeinfo(all);
    }
    fi_freeinfo(hints);
    return found;
}

/* On the address by which it reaches the server. */
static void open_endpoint(struct ofi_attacker *a)
{
    const char *provider = (const char *)a->greeting.body.greeting.provider;
    struct fi_cq_attr cq = {.size = QUEUE, .format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av = {.type = FI_AV_UNSPEC, .count = 4};
    struct sockaddr_in local;
    socklen_t length = sizeof local;
    char host[64];

    assert_int_equal(getsockname(a->control, (struct sockaddr *)&local, &length), 0);
    assert_non_null(inet_ntop(AF_INET, &local.sin_addr, host, sizeof host));
    a->info = find(provider, host, FI_ATOMIC);
    if (!a->info)
        a->info = find(provider, host, 0);
    assert_non_null(a->info);
    av.type = a->info->domain_attr->av_type;
    assert_int_equal(fi_fabric(a->info->fabric_attr, &a->fabric, NULL), 0);
    assert_int_equal(fi_domain(a->fabric, a->info, &a->domain, NULL), 0);
    assert_int_equal(fi_av_open(a->domain, &av, &a->av, NULL), 0);
    assert_int_equal(fi_cq_open(a->domain, &cq, &a->cq, NULL), 0);
    assert_int_equal(fi_endpoint(a->domain, a->info, &a->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(a->ep, &a->av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(a->ep, &a->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(a->ep), 0);
    a->bytes = mmap(NULL, OFI_ATTACKER_RESERVED, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(a->bytes, MAP_FAILED);
    if (!(a->info->domain_attr->mr_mode & FI_MR_LOCAL))
        return;
    assert_int_equal(fi_mr_reg(a->domain, a->bytes, OFI_ATTACKER_BYTES,
                               FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0, 0, &a->mr, NULL),
                     0);
    a->desc = fi_mr_desc(a->mr);
}

bool ofi_attacker_may_join(struct ofi_attacker *attacker, const struct okv_uri *uri,
                           const void *hello, size_t length)
{
    const struct ofi_welcome *welcome = &attacker->answer.body.welcome;
    uint8_t name[OFI_NAME_MAX];
    size_t name_length = sizeof name;
    struct ofi_frame frame;

    *attacker = (struct ofi_attacker){.control = ofi_try_greeted(uri, &frame)};
    if (attacker->control < 0)
        return false;
    attacker->greeting = frame;
    open_endpoint(attacker);
    assert_int_equal(fi_getname(&attacker->ep->fid, name, &name_length), 0);
    ofi_make_hello(&frame, name, name_length, hello, length);
    size_t size = okv_ofi_frame_length(&frame.header);
    if (send(attacker->control, &frame, size, MSG_NOSIGNAL) != (ssize_t)size ||
        !take_frame(attacker->control, &attacker->answer) ||
        attacker->answer.header.kind != OFI_WELCOME)
        return false;
    attacker->region = okv_le64_get(welcome->region_address);
    attacker->region_key = okv_le64_get(welcome->region_key);
    attacker->region_length = okv_le64_get(welcome->region_length);
    return fi_av_insert(attacker->av, welcome->place.name, 1, &attacker->victim, 0, NULL) == 1;
}

void ofi_attacker_join(struct ofi_attacker *attacker, const struct okv_uri *uri, const void *hello,
                       size_t length)
{
    if (!ofi_attacker_may_join(attacker, uri, hello, length))
        fail_msg("the server does not let the attacker in");
}

void ofi_attacker_leave(struct ofi_attacker *a)
{
    struct fid *opened[] = {
        a->ep ? &a->ep->fid : NULL,         a->mr ? &a->mr->fid : NULL,
        a->cq ? &a->cq->fid : NULL,         a->av ? &a->av->fid : NULL,
        a->domain ? &a->domain->fid : NULL, a->fabric ? &a->fabric->fid : NULL,
    };

    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
        if (opened[i])
            fi_close(opened[i]);
    }
    if (a->info)
        fi_freeinfo(a->info);
    if (a->bytes)
        munmap(a->bytes, OFI_ATTACKER_RESERVED);
    if (a->control >= 0)
        close(a->control);
}

/* ---- attacks ---- */

static void nap(void)
{
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* Takes one completion. 1 when an operation has ended, with libfabric's error or 0; 0 when none
 * has. */
static int take(struct ofi_attacker *attacker, int *error)
{
    struct fi_cq_err_entry failed = {.err_data_size = 0};
    struct fi_cq_msg_entry done;
    ssize_t n = fi_cq_read(attacker->cq, &done, 1);

    *error = 0;
    if (n == -FI_EAVAIL && fi_cq_readerr(attacker->cq, &failed, 0) == 1)
        *error = failed.err ? failed.err : FI_EIO;
    return n == 1 || *error;
}

void ofi_attacker_progress(struct ofi_attacker *attacker)
{
    int ignored;

    while (take(attacker, &ignored))
        ;
}

bool ofi_attacker_can(const struct ofi_attacker *attacker, const struct ofi_attack *attack)
{
    const struct fi_info *info = attacker->info;
    size_t key_size = info->domain_attr->mr_key_size;

    return (attack->verb < OFI_VERB_ATOMIC || (info->caps & FI_ATOMIC)) &&
           attack->length <= info->ep_attr->max_msg_size &&
           (key_size >= sizeof attack->key || attack->key >> (8 * key_size) == 0);
}

ssize_t ofi_attacker_post(struct ofi_attacker *a, const struct ofi_attack *attack)
{
    size_t length = attack->length, count = attack->length / sizeof(uint64_t);
    uint8_t *other = a->bytes + OFI_ATTACKER_BYTES / 2;
    uint64_t to = attack->address, key = attack->key;
    void *context = &a->contexts[0];
    /* The verbs provider of libfabric 1.17 looks at the first of both, however many there are. */
    const struct iovec nothing = {.iov_base = a->bytes};
    const struct fi_rma_iov nowhere = {.addr = to};
    const struct fi_msg_rma signal = {.msg_iov = &nothing,
                                      .desc = &a->desc,
                                      .iov_count = 1,
                                      .addr = a->victim,
                                      .rma_iov = &nowhere,
                                      .context = context};

    switch (attack->verb) {
    case OFI_VERB_READ:
        return fi_read(a->ep, a->bytes, length, a->desc, a->victim, to, key, context);
    case OFI_VERB_WRITE:
        return fi_write(a->ep, a->bytes, length, a->desc, a->victim, to, key, context);
    case OFI_VERB_INJECT_WRITE:
        return fi_inject_write(a->ep, a->bytes, length, a->victim, to, key);
    case OFI_VERB_WRITE_DATA:
        return fi_writedata(a->ep, a->bytes, length, a->desc, 7, a->victim, to, key, context);
    case OFI_VERB_SIGNAL:
        return fi_writemsg(a->ep, &signal, FI_REMOTE_CQ_DATA | FI_COMPLETION);
    case OFI_VERB_ATOMIC:
        return fi_atomic(a->ep, a->bytes, count, a->desc, a->victim, to, key, FI_UINT64, FI_SUM,
                         context);
    case OFI_VERB_FETCH_ATOMIC:
        return fi_fetch_atomic(a->ep, a->bytes, count, a->desc, other, a->desc, a->victim, to, key,
                               FI_UINT64, FI_SUM, context);
    default:
        return fi_compare_atomic(a->ep, a->bytes, count, a->desc, other, a->desc,
                                 other + OFI_ATTACKER_BYTES / 4, a->desc, a->victim, to, key,
                                 FI_UINT64, FI_CSWAP_NE, context);
    }
}

/* Waits for the end of the one operation that is under way. */
static int await(struct ofi_attacker *attacker)
{
    uint64_t end = pace_guard_end();
    int error;

    while (!take(attacker, &error)) {
        if (okv_clock_ns() > end)
            fail_msg("an operation of the attacker does not end");
        nap();
    }
    return error;
}

/* Posts it when there is room, and waits for its end. */
static int perform(struct ofi_attacker *attacker, const struct ofi_attack *attack)
{
    uint64_t end = pace_guard_end();
    ssize_t rc;

    while ((rc = ofi_attacker_post(attacker, attack)) == -FI_EAGAIN) {
        int error;
        if (okv_clock_ns() > end)
            fail_msg("the provider has no room for an attack");
        if (take(attacker, &error) && error)
            return error;
        nap();
    }
    if (rc)
        return (int)-rc;
    return attack->verb == OFI_VERB_INJECT_WRITE ? 0 : await(attacker);
}

int ofi_attacker_try(struct ofi_attacker *attacker, const struct ofi_attack *attack)
{
    const struct ofi_attack read = {OFI_VERB_READ, 64, attacker->region, attacker->region_key};
    int error = perform(attacker, attack);

    return error || attack->verb == OFI_VERB_READ ? error : perform(attacker, &read);
}

void ofi_attacker_read(struct ofi_attacker *attacker, uint64_t offset, uint64_t length)
{
    const struct ofi_attack read = {OFI_VERB_READ, length, attacker->region + offset,
                                    attacker->region_key};
    int error = perform(attacker, &read);

    if (error)
        fail_msg("a READ of the region failed: %s", fi_strerror(error));
}

/* ---- messages ---- */

size_t ofi_attacker_write_header(struct ofi_attacker *attacker, uint64_t key_flip,
                                 uint32_t connection_flip, uint32_t immediate, size_t length)
{
    const struct ofi_place *place = &attacker->answer.body.welcome.place;
    struct ofi_message_header header = {
        .key = okv_le64_of(okv_le64_get(place->key) ^ key_flip),
        .connection = okv_le32_of(okv_le32_get(place->connection) ^ connection_flip),
        .immediate = okv_le32_of(immediate),
    };

    memcpy(attacker->bytes, &header, sizeof header);
    return sizeof header + length;
}

ssize_t ofi_attacker_post_send(struct ofi_attacker *attacker, size_t length)
{
    return fi_send(attacker->ep, attacker->bytes, length, attacker->desc, attacker->victim,
                   &attacker->contexts[0]);
}

int ofi_attacker_send(struct ofi_attacker *attacker, size_t length)
{
    uint64_t end = pace_guard_end();
    ssize_t rc;

    while ((rc = ofi_attacker_post_send(attacker, length)) == -FI_EAGAIN) {
        int error;
        if (okv_clock_ns() > end)
            fail_msg("the provider has no room for a message");
        if (take(attacker, &error) && error)
            return error;
        nap();
    }
    return rc ? (int)-rc : await(attacker);
}

void ofi_attacker_expect_end(struct ofi_attacker *attacker, const char *what)
{
    uint8_t byte;
    ssize_t n = recv(attacker->control, &byte, sizeof byte, 0);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)))
        fail_msg("%s: the server does not end the connection", what);
}
