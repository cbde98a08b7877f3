/*
 * A client written straight on libfabric, which says a good hello and can then post anything. Each
 * call fails the test when what it needs of its own side does not work.
 */
#ifndef OKV_TESTS_OFI_ATTACKER_H
#define OKV_TESTS_OFI_ATTACKER_H

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/uri.h"
#include "shared/transport/ofi/wire.h"

/* What an attacker has to send, and for READs to land in. */
#define OFI_ATTACKER_BYTES (256u << 10)
/* READs that are longer land in memory that is only reserved. */
#define OFI_ATTACKER_RESERVED ((UINT64_C(4) << 30) + OFI_ATTACKER_BYTES)

enum ofi_verb {
    OFI_VERB_READ,
    OFI_VERB_WRITE,
    OFI_VERB_INJECT_WRITE,
    OFI_VERB_WRITE_DATA, /* with immediate data */
    OFI_VERB_SIGNAL,     /* immediate data alone: to no address, with no key */
    OFI_VERB_ATOMIC,
    OFI_VERB_FETCH_ATOMIC,
    OFI_VERB_COMPARE_ATOMIC,
};

/* What to post: `length` bytes against an address of the region. */
struct ofi_attack {
    enum ofi_verb verb;
    uint64_t length;
    uint64_t address; /* as it goes over the fabric */
    uint64_t key;
};

struct ofi_attacker {
    int control;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr; /* NULL unless the provider wants one */
    void *desc;
    fi_addr_t victim;
    uint8_t *bytes; /* OFI_ATTACKER_RESERVED */
    struct fi_context2 contexts[2];
    struct ofi_frame greeting, answer; /* of the server */
    uint64_t region, region_key, region_length;
};

/* The address of the control connection. */
struct sockaddr_in ofi_control_address(const struct okv_uri *uri);
/* Connects and takes the greeting; -1 when nobody lets it. */
int ofi_try_greeted(const struct okv_uri *uri, struct ofi_frame *greeting);
int ofi_greeted(const struct okv_uri *uri, struct ofi_frame *greeting);
/* A good hello of an endpoint with this address, which carries these bytes. */
void ofi_make_hello(struct ofi_frame *frame, const void *name, size_t name_length,
                    const void *hello, size_t length);

/* Joins with these bytes as hello; false when the server refuses or is gone. Leave in any case. */
bool ofi_attacker_may_join(struct ofi_attacker *attacker, const struct okv_uri *uri,
                           const void *hello, size_t length);
void ofi_attacker_join(struct ofi_attacker *attacker, const struct okv_uri *uri, const void *hello,
                       size_t length);
void ofi_attacker_leave(struct ofi_attacker *attacker);

/* Whether the provider has the verb at all, and room for such a length and key: verbs has 32 bits
 * for either, and ignores the others. Not what rxm of libfabric 1.17 takes for something else, at
 * the cost of others: docs/fabrics.md. */
bool ofi_attacker_can(const struct ofi_attacker *attacker, const struct ofi_attack *attack);
/* Posts it once; what libfabric returns. */
ssize_t ofi_attacker_post(struct ofi_attacker *attacker, const struct ofi_attack *attack);
/* Posts it and waits for its end, then READs inside the region, which shows that the server has
 * seen it. 0 when both succeeded, else libfabric's error of the first that failed. */
int ofi_attacker_try(struct ofi_attacker *attacker, const struct ofi_attack *attack);
/* The first bytes of the region; fails the test when they cannot be READ. */
void ofi_attacker_read(struct ofi_attacker *attacker, uint64_t offset, uint64_t length);

/* Puts a header in front of `length` bytes of message: key and connection are XORed with the
 * flips. Returns the length of all. */
size_t ofi_attacker_write_header(struct ofi_attacker *attacker, uint64_t key_flip,
                                 uint32_t connection_flip, uint32_t immediate, size_t length);
/* Posts the first bytes as one message, when the provider has room; -FI_EAGAIN. */
ssize_t ofi_attacker_post_send(struct ofi_attacker *attacker, size_t length);
/* Posts it and waits for its end; 0 or libfabric's error. */
int ofi_attacker_send(struct ofi_attacker *attacker, size_t length);
/* Lets its own side work, and takes what has ended. */
void ofi_attacker_progress(struct ofi_attacker *attacker);
/* Waits until the server has ended the connection. */
void ofi_attacker_expect_end(struct ofi_attacker *attacker, const char *what);

#endif
