/* The files that the options of a cluster name. */
#ifndef OKV_SERVER_COPIES_CLUSTER_FILES_H
#define OKV_SERVER_COPIES_CLUSTER_FILES_H

#include "server/config/config.h"
#include "shared/base/diag.h"

#define OKV_ETCD_PASSWORD_MAX 256

struct okv_user_key;

/* What they hold, in memory that is locked and wiped. NULL: the option is not given. */
struct okv_cluster_files {
    char *etcd_password;
    struct okv_user_key *peer_key;
};

/* Reads the secrets, and sees that others can neither change the files of certificates nor read or
 * change that of their key, which libcurl opens by their names. Another code than 0: nothing is to
 * be closed, and `diag` has the option and what to do. */
int okv_cluster_files_open(const struct okv_cluster_config *config, struct okv_cluster_files *out,
                           struct okv_diag *diag);
void okv_cluster_files_close(struct okv_cluster_files *files);

#endif
