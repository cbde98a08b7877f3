#include "tests/support/etcd_process.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/etcd_client.h"
#include "tests/support/pace.h"

int etcd_process_require(__attribute__((unused)) void **state)
{
    const char *required = getenv("OKV_TEST_REQUIRE_TOOLS");

    if (system("etcd --version 2>/dev/null | grep -qE 'etcd Version: 3[.]([4-9]|[1-9][0-9])'") == 0)
        return 0;
    puts("left out: there is no etcd 3.4 or later; run: tests/support/packages.sh cluster");
    exit(required && strcmp(required, "1") == 0 ? 1 : 77);
}

/* Ports that nobody has, at this moment: they are taken together, so that they differ. */
static void choose_ports(unsigned *ports, unsigned count)
{
    int fds[2 * ETCD_MEMBERS_MAX];

    for (unsigned i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fds[i], (struct sockaddr *)&address, size), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&address, &size), 0);
        ports[i] = ntohs(address.sin_port);
    }
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

static void choose_places(struct etcd_process *cluster)
{
    unsigned ports[2 * ETCD_MEMBERS_MAX];
    size_t used = 0;

    snprintf(cluster->directory, sizeof cluster->directory, "/tmp/okv-test-XXXXXX");
    assert_non_null(mkdtemp(cluster->directory));
    choose_ports(ports, 2 * cluster->count);
    for (unsigned i = 0; i < cluster->count; i++) {
        struct etcd_process_member *member = &cluster->members[i];
        snprintf(member->url, sizeof member->url, "http%s://127.0.0.1:%u",
                 cluster->has_tls ? "s" : "", ports[2 * i]);
        snprintf(member->peer_url, sizeof member->peer_url, "http://127.0.0.1:%u",
                 ports[2 * i + 1]);
        used += (size_t)snprintf(cluster->urls + used, sizeof cluster->urls - used, "%s%s",
                                 i ? "," : "", member->url);
    }
}

static const char *tls_file(const char *name, char out[256])
{
    snprintf(out, 256, "%s/%s", getenv("OKV_TEST_TLS"), name);
    return out;
}

static void run(struct etcd_process *cluster, unsigned i)
{
    const struct etcd_process_member *member = &cluster->members[i];
    char all[256] = "", name[8], data[96], log[96], ca[256], cert[256], key[256];
    size_t used = 0;

    for (unsigned j = 0; j < cluster->count; j++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%sm%u=%s", j ? "," : "", j,
                                 cluster->members[j].peer_url);
    snprintf(name, sizeof name, "m%u", i);
    snprintf(data, sizeof data, "%s/%s", cluster->directory, name);
    snprintf(log, sizeof log, "%s/%s.log", cluster->directory, name);
    const char *const arguments[] = {
        "etcd", "--name", name, "--data-dir", data, "--listen-client-urls", member->url,
        "--advertise-client-urls", member->url, "--listen-peer-urls", member->peer_url,
        "--initial-advertise-peer-urls", member->peer_url, "--initial-cluster", all,
        "--initial-cluster-token", cluster->token,
        /* What follows is for TLS. */
        cluster->has_tls ? "--client-cert-auth" : NULL, "--trusted-ca-file", tls_file("ca.pem", ca),
        "--cert-file", tls_file("member.pem", cert), "--key-file", tls_file("member.key", key),
        NULL};
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execvp(arguments[0], (char *const *)arguments);
    _exit(127);
}

static void launch(struct etcd_process *cluster, unsigned i)
{
    cluster->members[i].pid = fork();
    assert_true(cluster->members[i].pid >= 0);
    if (cluster->members[i].pid == 0)
        run(cluster, i);
}

/* A POST of its own, whose answer goes to `out`; returns the status, 0: no answer. */
static long post_to(const struct etcd_process *cluster, unsigned member, const char *path,
                    const char *json, const char *token, FILE *out)
{
    char header[256], url[128], ca[256], cert[256], key[256];
    struct curl_slist *headers = NULL;
    CURL *easy = curl_easy_init();
    long status = 0;

    snprintf(header, sizeof header, "Authorization: %s", token ? token : "");
    if (token)
        headers = curl_slist_append(NULL, header);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);

    snprintf(url, sizeof url, "%s/v3/%s", cluster->members[member].url, path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, json);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 10L);
    if (cluster->has_tls) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, tls_file("ca.pem", ca));
        curl_easy_setopt(easy, CURLOPT_SSLCERT, tls_file("member.pem", cert));
        curl_easy_setopt(easy, CURLOPT_SSLKEY, tls_file("member.key", key));
    }
    if (curl_easy_perform(easy) == CURLE_OK)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    return status;
}

static long post(const struct etcd_process *cluster, unsigned member, const char *path,
                 const char *json, const char *token)
{
    FILE *null = fopen("/dev/null", "w");
    long status = post_to(cluster, member, path, json, token, null);

    fclose(null);
    return status;
}

static void await_status(const struct etcd_process *cluster, unsigned member, const char *path,
                         const char *json, const char *token)
{
    long status = 0;

    for (uint64_t end = pace_guard_end(); status != 200; pace_sleep_ms(20)) {
        if (okv_clock_ns() > end || waitpid(cluster->members[member].pid, NULL, WNOHANG) != 0)
            fail_msg("etcd does not do %s %s: status %ld", path, json, status);
        status = post(cluster, member, path, json, token);
    }
}

void etcd_process_post(const struct etcd_process *cluster, const char *path, const char *json,
                       const char *token)
{
    await_status(cluster, 0, path, json, token);
}

/* The member that the answer names as the leader is the one that wrote it. */
static bool leads(const struct etcd_process *cluster, unsigned member)
{
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    unsigned long long id = 0, leader = 1;

    long status = post_to(cluster, member, "maintenance/status", "{}", NULL, out);
    fclose(out);
    const char *own = strstr(text, "\"member_id\":\""), *other = strstr(text, "\"leader\":\"");
    return status == 200 && own && other && sscanf(own, "\"member_id\":\"%llu", &id) == 1 &&
           sscanf(other, "\"leader\":\"%llu", &leader) == 1 && id == leader;
}

unsigned etcd_process_leader(const struct etcd_process *cluster)
{
    for (uint64_t end = pace_guard_end(); okv_clock_ns() < end; pace_sleep_ms(20))
        for (unsigned i = 0; i < cluster->count; i++)
            if (cluster->members[i].pid > 0 && leads(cluster, i))
                return i;
    fail_msg("no member of etcd leads");
    return 0;
}

void etcd_process_restart(struct etcd_process *cluster, unsigned member)
{
    launch(cluster, member);
    await_status(cluster, member, "kv/range", "{\"key\":\"YQ==\"}", NULL);
}

void etcd_process_start(struct etcd_process *cluster, unsigned count, bool tls)
{
    *cluster = (struct etcd_process){.count = count, .has_tls = tls, .token = "first"};
    choose_places(cluster);
    for (unsigned i = 0; i < count; i++)
        launch(cluster, i);
    for (unsigned i = 0; i < count; i++)
        await_status(cluster, i, "kv/range", "{\"key\":\"YQ==\"}", NULL);
}

void etcd_process_kill(struct etcd_process *cluster, unsigned i)
{
    struct etcd_process_member *member = &cluster->members[i];

    if (member->pid <= 0)
        return;
    kill(member->pid, SIGKILL);
    while (waitpid(member->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    member->pid = 0;
}

void etcd_process_wipe(struct etcd_process *cluster)
{
    char command[128];

    if (!cluster->directory[0])
        return;
    snprintf(command, sizeof command, "rm -rf %s/m*", cluster->directory);
    assert_int_equal(system(command), 0);
}

void etcd_process_stop(struct etcd_process *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++)
        etcd_process_kill(cluster, i);
    etcd_process_wipe(cluster);
    rmdir(cluster->directory);
}
