/* The bytes of requests to etcd and of its answers: JSON with keys and values in base64, numbers of
 * 64 bits as strings, and without fields that are zero, false or empty. */
#ifndef OKV_SERVER_ETCD_MESSAGE_H
#define OKV_SERVER_ETCD_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>

#include "server/etcd/etcd.h"

/* Requests: text to be freed; NULL: no memory. */
char *okv_etcd_encode_get(const char *prefix, bool keys_only);
char *okv_etcd_encode_swap(const struct okv_etcd_change *changes, size_t count);
char *okv_etcd_encode_watch(const char *prefix, uint64_t from_revision);
char *okv_etcd_encode_grant(uint32_t ttl_s);
char *okv_etcd_encode_lease(uint64_t lease);
char *okv_etcd_encode_login(const char *user, const char *password);

/* What an answer says, of any kind; what it does not say is 0 or NULL. */
struct okv_etcd_message {
    uint64_t cluster_id;
    uint64_t revision;
    struct okv_etcd_item *items; /* of a get, or the keys of a swap that was refused */
    size_t count;
    uint64_t lease;
    uint64_t ttl_s;
    uint64_t event_revision; /* of a watch's last event */
    bool succeeded;
    bool is_created;
    bool is_canceled;
    const char *token;
    const char *error;
    int error_code; /* of gRPC */
    json_t *root;   /* has the texts above */
    char *bytes;    /* has those of items */
};

/* Returns 0; OKV_EPROTO: this is no answer of etcd; OKV_ENOMEM. To be freed in any case. */
int okv_etcd_message_decode(struct okv_etcd_message *message, const char *text, size_t length);
void okv_etcd_message_fini(struct okv_etcd_message *message);

#endif
