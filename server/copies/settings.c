#include "server/copies/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

#define LEASE_MS 1000
#define REPLACE_MS 60000

void okv_settings_init(struct okv_cluster_document *cluster)
{
    *cluster = (struct okv_cluster_document){
        .copies = 2,
        .copies_min = 1,
        .lease_ms = LEASE_MS,
        .replace_ms = REPLACE_MS,
    };
}

static bool set(struct okv_cluster_document *cluster, const char *name, uint32_t value)
{
    if (strcmp(name, "copies") == 0)
        cluster->copies = value;
    else if (strcmp(name, "min_copies") == 0)
        cluster->copies_min = value;
    else if (strcmp(name, "lease_ms") == 0)
        cluster->lease_ms = value;
    else if (strcmp(name, "replace_ms") == 0)
        cluster->replace_ms = value;
    else if (strcmp(name, "shares_hosts") == 0 && value <= 1)
        cluster->shares_hosts = value;
    else
        return false;
    return true;
}

int okv_settings_check(const struct okv_cluster_document *cluster, struct okv_diag *why)
{
    if (cluster->copies < 1 || cluster->copies > OKV_COPIES_MAX || cluster->copies_min < 1 ||
        cluster->copies_min > cluster->copies)
        return okv_diag_set(why, OKV_EINVAL,
                            "--copies must be 1 to %d, and --min-copies 1 to --copies",
                            OKV_COPIES_MAX);
    if (cluster->lease_ms < OKV_LEASE_LEAST_MS || cluster->lease_ms > OKV_LEASE_MOST_MS)
        return okv_diag_set(why, OKV_EINVAL, "a lease is 200 ms to 10 s");
    if (cluster->replace_ms != 0 &&
        (cluster->replace_ms < OKV_REPLACE_LEAST_MS || cluster->replace_ms > OKV_REPLACE_MOST_MS))
        return okv_diag_set(
            why, OKV_EINVAL,
            "a server that is missing is replaced after 1 s to 7 days, or never (0)");
    return 0;
}

int okv_settings_read(const char *words, struct okv_cluster_document *cluster, struct okv_diag *why)
{
    char name[32];
    unsigned value;
    int length;

    for (words += strspn(words, " "); *words;
         words += (size_t)length + strspn(words + length, " ")) {
        if (sscanf(words, "%31[a-z_]=%9u%n", name, &value, &length) != 2 ||
            (words[length] && words[length] != ' ') || !set(cluster, name, value))
            return okv_diag_set(why, OKV_EINVAL, "no setting and its number: %.40s", words);
    }
    return okv_settings_check(cluster, why);
}
