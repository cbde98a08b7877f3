#include "server/copies/cluster_files.h"

#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"
#include "shared/identity/user_key.h"

/* Of a line that ends the file. */
static size_t without_end(const char *text, size_t length)
{
    if (length > 0 && text[length - 1] == '\n')
        length--;
    if (length > 0 && text[length - 1] == '\r')
        length--;
    return length;
}

static bool is_password(const char *text, size_t length)
{
    return length >= 1 && length <= OKV_ETCD_PASSWORD_MAX && !memchr(text, '\0', length) &&
           !memchr(text, '\n', length);
}

static int read_password(const char *path, char **out, struct okv_diag *diag)
{
    const char *shown = okv_file_shown(path);
    char *text;
    size_t length;

    int rc = okv_secret_file_read(path, OKV_ETCD_PASSWORD_MAX + 2, &text, &length, diag);
    if (rc)
        return rc;
    length = without_end(text, length);
    if (!is_password(text, length))
        rc = okv_diag_set(diag, OKV_EINVAL,
                          "%s is not one line with a password of up to %d bytes: write it there",
                          shown, OKV_ETCD_PASSWORD_MAX);
    else if (!(*out = sodium_malloc(length + 1)))
        rc = okv_diag_set(diag, OKV_ENOMEM, "%s cannot be read: no memory", shown);
    if (rc == 0) {
        memcpy(*out, text, length);
        (*out)[length] = '\0';
    }
    sodium_free(text);
    return rc;
}

static int check_file(const char *path, enum okv_file_trust trust, const char *option,
                      struct okv_diag *diag)
{
    if (!path)
        return 0;
    int fd = okv_trusted_file_open(path, trust, diag);
    if (fd < 0) {
        okv_diag_begin(diag, option);
        return fd;
    }
    close(fd);
    return 0;
}

static int check_certificates(const struct okv_cluster_config *config, struct okv_diag *diag)
{
    int rc = check_file(config->etcd_ca, OKV_FILE_OTHERS_READ, "--etcd-ca", diag);

    if (rc == 0)
        rc = check_file(config->etcd_cert, OKV_FILE_OTHERS_READ, "--etcd-cert", diag);
    if (rc == 0)
        rc = check_file(config->etcd_key, OKV_FILE_OTHERS_NEVER, "--etcd-key", diag);
    return rc;
}

static int read_secrets(const struct okv_cluster_config *config, struct okv_cluster_files *out,
                        struct okv_diag *diag)
{
    int rc = config->etcd_password_file
                 ? read_password(config->etcd_password_file, &out->etcd_password, diag)
                 : 0;

    if (rc)
        okv_diag_begin(diag, "--etcd-password-file");
    if (rc || !config->peer_key)
        return rc;
    rc = okv_user_key_read(config->peer_key, &out->peer_key, diag);
    if (rc)
        okv_diag_begin(diag, "--peer-key");
    return rc;
}

int okv_cluster_files_open(const struct okv_cluster_config *config, struct okv_cluster_files *out,
                           struct okv_diag *diag)
{
    *out = (struct okv_cluster_files){0};
    if (!config->name[0])
        return 0;
    int rc = okv_identity_init();
    if (rc)
        return okv_diag_set(diag, rc,
                            "libsodium cannot be used here: see that the system has random bytes");
    rc = check_certificates(config, diag);
    if (rc == 0)
        rc = read_secrets(config, out, diag);
    if (rc)
        okv_cluster_files_close(out);
    return rc;
}

void okv_cluster_files_close(struct okv_cluster_files *files)
{
    sodium_free(files->etcd_password);
    okv_user_key_destroy(files->peer_key);
    *files = (struct okv_cluster_files){0};
}
