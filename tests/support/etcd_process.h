/* Clusters of Debian's etcd as child processes, at free ports of 127.0.0.1, with their data in a
 * directory of their own. */
#ifndef OKV_TESTS_ETCD_PROCESS_H
#define OKV_TESTS_ETCD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#define ETCD_MEMBERS_MAX 3

struct etcd_process {
    unsigned count;
    bool has_tls;
    const char *token; /* of the cluster: its id is made of it and of the members' addresses */
    char directory[64];
    char urls[160]; /* of all members, as okv_etcd_options has them */
    struct etcd_process_member {
        pid_t pid;
        char url[64];
        char peer_url[64];
    } members[ETCD_MEMBERS_MAX];
};

/* Ends the test program with 77 when there is no etcd of at least 3.4, or fails it with
 * OKV_TEST_REQUIRE_TOOLS. */
int etcd_process_require(void **state);
/* `tls`: with member.pem of tests/support/certificates.sh, and only for clients that have one. */
void etcd_process_start(struct etcd_process *cluster, unsigned count, bool tls);
/* Kills what runs, and removes the data. */
void etcd_process_stop(struct etcd_process *cluster);
/* The same members, with what they have on their disks. */
void etcd_process_restart(struct etcd_process *cluster, unsigned member);
void etcd_process_kill(struct etcd_process *cluster, unsigned member);
/* Waits until one of those that run leads. */
unsigned etcd_process_leader(const struct etcd_process *cluster);
/* The members' disks are empty, at their next start. */
void etcd_process_wipe(struct etcd_process *cluster);
/* What the client has no call for: POST of `json` to a path such as "kv/compaction", repeated until
 * the status is 200. `token` is a user's, or NULL. */
void etcd_process_post(const struct etcd_process *cluster, const char *path, const char *json,
                       const char *token);

#endif
