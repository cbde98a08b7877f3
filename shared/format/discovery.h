/*
 * The datagrams of discovery: docs/discovery.md, "Datagrams".
 *
 * Both have one length, so that an answer is never longer than its query. The decoders treat their
 * input as hostile: what they return is in range, terminated, and safe to print.
 */
#ifndef OKV_SHARED_FORMAT_DISCOVERY_H
#define OKV_SHARED_FORMAT_DISCOVERY_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"
#include "shared/base/uri.h"

#define OKV_DISCOVERY_MAGIC UINT32_C(0x64766b6f) /* "okvd" in memory */
#define OKV_DISCOVERY_VERSION 1

#define OKV_DISCOVERY_URIS 4
#define OKV_DISCOVERY_URI_SIZE 192 /* with its NUL */
#define OKV_DISCOVERY_RELEASE_SIZE 16

enum okv_discovery_kind { OKV_DISCOVERY_QUERY = 1, OKV_DISCOVERY_ANSWER = 2 };

/* Texts are filled up with NULs, at least one. Everything from boot_id on is 0 in a query. */
struct okv_wire_discovery {
    okv_le32 magic;
    okv_le16 version;
    okv_le16 length;
    okv_le32 kind;
    uint8_t reserved[4];
    okv_le64 nonce;
    char name[OKV_NAME_SIZE];
    okv_le64 boot_id;
    okv_le64 items;
    okv_le64 memory_used;
    char release[OKV_DISCOVERY_RELEASE_SIZE];
    uint8_t reserved_answer[32];
    char uris[OKV_DISCOVERY_URIS][OKV_DISCOVERY_URI_SIZE];
};
_Static_assert(sizeof(struct okv_wire_discovery) == 896, "discovery: fits an MTU of 1024 bytes");
_Static_assert(offsetof(struct okv_wire_discovery, kind) == 8, "discovery.kind");
_Static_assert(offsetof(struct okv_wire_discovery, nonce) == 16, "discovery.nonce");
_Static_assert(offsetof(struct okv_wire_discovery, name) == 24, "discovery.name");
_Static_assert(offsetof(struct okv_wire_discovery, boot_id) == 56, "discovery.boot_id");
_Static_assert(offsetof(struct okv_wire_discovery, memory_used) == 72, "discovery.memory_used");
_Static_assert(offsetof(struct okv_wire_discovery, release) == 80, "discovery.release");
_Static_assert(offsetof(struct okv_wire_discovery, uris) == 128, "discovery.uris");

struct okv_discovery_query {
    uint64_t nonce;
    char name[OKV_NAME_SIZE]; /* "": every server answers */
};

struct okv_discovery_answer {
    uint64_t nonce;       /* of the query */
    uint64_t boot_id;     /* never 0 */
    uint64_t items;       /* okv_discovery_coarse() */
    uint64_t memory_used; /* bytes, okv_discovery_coarse() */
    char name[OKV_NAME_SIZE];
    char release[OKV_DISCOVERY_RELEASE_SIZE];
    unsigned uri_count; /* at least 1 */
    char uris[OKV_DISCOVERY_URIS][OKV_DISCOVERY_URI_SIZE];
};

void okv_discovery_query_encode(const struct okv_discovery_query *query,
                                struct okv_wire_discovery *out);
/* The first `uri_count` URIs are written; all are okv_discovery_uri_fits(). */
void okv_discovery_answer_encode(const struct okv_discovery_answer *answer,
                                 struct okv_wire_discovery *out);
/* OKV_EPROTO for anything that the document does not allow, OKV_EVERSION for a datagram of another
 * version. Neither accepts the other kind. */
int okv_discovery_query_decode(const uint8_t *bytes, size_t length,
                               struct okv_discovery_query *out);
int okv_discovery_answer_decode(const uint8_t *bytes, size_t length,
                                struct okv_discovery_answer *out);

/* True for a text that an answer can carry as a URI: 1 to 191 printable ASCII characters. */
bool okv_discovery_uri_fits(const char *uri);
/* The two leading decimal digits of a number, and zeros: 1,234,567 becomes 1,200,000. */
uint64_t okv_discovery_coarse(uint64_t number);

#endif
