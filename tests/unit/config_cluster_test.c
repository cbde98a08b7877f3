/* The options of okv-server for a cluster: what is taken, and what is said of what is not. */
#include "tests/support/test.h"

#include "server/config/config.h"
#include "server/config/option_table.h"
#include "server/config/print.h"
#include "shared/base/error.h"

#define ETCD " etcd=http://127.0.0.1:2379"
#define CLUSTER "open cluster=c" ETCD
#define REACHED " advertise=tcp://10.0.0.1"
#define SECURE "users=u cluster=c etcd=https://10.0.0.1:2379 peer-user=p peer-key=k" REACHED

struct parsed {
    struct okv_config given; /* with the options of a command line alone */
    struct okv_config config;
    int status;
};

/* `text`: "NAME=VALUE NAME ..." */
static struct parsed *parse(const char *text)
{
    struct parsed *parsed = calloc(1, sizeof *parsed);
    char *words = strdup(text), *rest = NULL;

    assert_true(parsed && words);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        const struct okv_option *option = okv_option_find(okv_config_options, word);
        assert_non_null(option);
        assert_int_equal(
            okv_settings_add(&parsed->given.settings, option, value, OKV_SOURCE_ARGUMENTS, 0), 0);
    }
    free(words);
    parsed->status = okv_config_reread(&parsed->given, &parsed->config);
    return parsed;
}

static void end(struct parsed *parsed)
{
    okv_config_fini(&parsed->given);
    okv_config_fini(&parsed->config);
    free(parsed);
}

static void expect_taken(const char *text)
{
    struct parsed *parsed = parse(text);

    if (parsed->status)
        fail_msg("%s: %s", text, parsed->config.settings.wrong);
    end(parsed);
}

/* The sentence begins so. */
static void expect_refused(const char *text, const char *sentence)
{
    struct parsed *parsed = parse(text);

    if (parsed->status != OKV_EINVAL ||
        strncmp(parsed->config.settings.wrong, sentence, strlen(sentence)) != 0)
        fail_msg("%s: %d, '%s'", text, parsed->status, parsed->config.settings.wrong);
    end(parsed);
}

TEST(what_is_given_is_kept)
{
    struct parsed *parsed =
        parse("users=u cluster=east-1 etcd=https://a:1,https://[fd00::1]:2379 etcd-ca=ca "
              "etcd-cert=cert etcd-key=key etcd-user=me etcd-password-file=file peer-user=p "
              "peer-key=peer advertise=rdma://10.0.0.1 advertise=resps://a.b:1 "
              "advertise=tcps://[fd00::1]");
    const struct okv_cluster_config *cluster = &parsed->config.cluster;

    assert_int_equal(parsed->status, 0);
    assert_string_equal(cluster->name, "east-1");
    assert_string_equal(cluster->etcd, "https://a:1,https://[fd00::1]:2379");
    assert_string_equal(cluster->etcd_ca, "ca");
    assert_string_equal(cluster->etcd_cert, "cert");
    assert_string_equal(cluster->etcd_key, "key");
    assert_string_equal(cluster->etcd_user, "me");
    assert_string_equal(cluster->etcd_password_file, "file");
    assert_string_equal(cluster->peer_user, "p");
    assert_string_equal(cluster->peer_key, "peer");
    assert_int_equal(cluster->advertise_count, 3);
    assert_int_equal(cluster->advertise[0].scheme, OKV_SCHEME_RDMA);
    assert_string_equal(cluster->advertise[0].port, OKV_DEFAULT_PORT);
    assert_string_equal(cluster->advertise_texts[0], "rdma://10.0.0.1");
    assert_int_equal(cluster->advertise[1].scheme, OKV_SCHEME_RESP);
    assert_string_equal(cluster->advertise[1].host, "a.b");
    assert_true(cluster->advertise[2].tls);
    assert_string_equal(cluster->advertise[2].host, "fd00::1");
    assert_string_equal(parsed->config.name, OKV_SERVER_NAME_DEFAULT);
    end(parsed);
}

TEST(a_server_without_a_cluster_has_none_of_its_options)
{
    static const char *const others[] = {
        "etcd=https://a:1",
        "etcd-ca=f",
        "etcd-cert=f",
        "etcd-key=f",
        "etcd-user=me",
        "peer-user=p",
        "peer-key=f",
        "etcd-password-file=f",
        "advertise=tcp://10.0.0.1",
    };
    char text[64], sentence[64];

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(text, sizeof text, "open %s", others[i]);
        snprintf(sentence, sizeof sentence, "--%s: it needs --cluster, too", others[i]);
        *strchr(sentence, '=') = ' ';
        expect_refused(text, sentence);
    }
    expect_taken("open");
}

TEST(a_cluster_has_a_name_an_etcd_and_an_address)
{
    expect_refused("open cluster=a/b" ETCD REACHED, "--cluster a/b: give 1 to 31 letters");
    expect_refused("open cluster=" ETCD REACHED, "--cluster : give 1 to 31 letters");
    expect_refused("open cluster=c" REACHED, "--cluster c: say where etcd is with --etcd URLS");
    expect_refused(CLUSTER, "--cluster c: say where clients and the other servers reach this one");
    expect_refused(CLUSTER " advertise=resp://10.0.0.1 advertise=resps://10.0.0.1:1",
                   "--cluster c: say where clients and the other servers reach this one");
    expect_taken(CLUSTER " advertise=resp://10.0.0.1 advertise=local:///run/okv.sock");
    expect_refused(CLUSTER REACHED " data=d restore=f", "--restore f: the cluster's other servers");
    expect_taken(CLUSTER REACHED " wipe");
}

TEST(etcd_is_reached_with_tls_but_on_this_host)
{
    expect_refused("users=u peer-user=p peer-key=k cluster=c etcd=https://a:1,http://b:1" REACHED,
                   "--etcd http://b:1: without TLS, anyone");
    expect_refused("users=u peer-user=p peer-key=k cluster=c etcd=http://10.0.0.1:1" REACHED,
                   "--etcd http://10.0.0.1:1: without TLS, anyone");
    expect_refused("users=u peer-user=p peer-key=k cluster=c etcd=http://localhost:1" REACHED,
                   "--etcd http://localhost:1: without TLS, anyone");
    expect_taken("open cluster=c etcd=http://10.0.0.1:1" REACHED);
    expect_taken("users=u peer-user=p peer-key=k cluster=c "
                 "etcd=http://127.0.0.2:1,http://[::1]:1,https://a:1" REACHED);
    expect_refused(CLUSTER REACHED " etcd-ca=f", "--etcd-ca: it is for https://");
    expect_refused(CLUSTER REACHED " etcd-cert=f etcd-key=f", "--etcd-cert: it is for https://");
    expect_taken(CLUSTER ",https://a:1,http://127.0.0.1:2380 etcd-ca=f" REACHED);
}

TEST(members_of_etcd_are_named_by_urls)
{
    expect_refused("open cluster=c etcd=10.0.0.1:2379" REACHED,
                   "--etcd 10.0.0.1:2379: '10.0.0.1:2379' is not the address of a member");
    expect_refused("open cluster=c etcd=https://a:1,ftp://b:1" REACHED,
                   "--etcd https://a:1,ftp://b:1: 'ftp://b:1' is not the address of a member");
    expect_refused("open cluster=c etcd=https://a:1," REACHED, "--etcd https://a:1,: '' is not");
    expect_refused("open cluster=c etcd=" REACHED, "--etcd : '' is not");
#define FOUR "http://a:1,http://a:1,http://a:1,http://a:1"
    expect_refused("open cluster=c etcd=" FOUR "," FOUR "," FOUR "," FOUR ",http://a:1" REACHED,
                   "--etcd " FOUR "," FOUR "," FOUR "," FOUR ",http://a:1: give at most 16");
    expect_taken("open cluster=c etcd=" FOUR "," FOUR "," FOUR "," FOUR REACHED);
}

TEST(what_belongs_together_is_given_together)
{
    static const char *const pairs[][3] = {
        {"etcd-cert", "etcd-key", "--etcd-cert and --etcd-key: give both"},
        {"etcd-user", "etcd-password-file", "--etcd-user and --etcd-password-file: give both"},
        {"peer-user", "peer-key", "--peer-user and --peer-key: give both"},
    };
    char text[256];

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        for (unsigned half = 0; half < 2; half++) {
            snprintf(text, sizeof text, "open cluster=c etcd=https://a:1 %s=f" REACHED,
                     pairs[i][half]);
            expect_refused(text, pairs[i][2]);
        }
        snprintf(text, sizeof text, "open cluster=c etcd=https://a:1 %s=f %s=f" REACHED,
                 pairs[i][0], pairs[i][1]);
        expect_taken(text);
    }
    expect_refused("open cluster=c peer-user=a/b peer-key=k" ETCD REACHED,
                   "--peer-user a/b: give 1 to 31 letters");
}

TEST(other_servers_are_known_or_all_may_be_one)
{
    expect_taken(SECURE);
    expect_refused("users=u cluster=c" ETCD REACHED,
                   "--cluster c: with --users the other servers ask who this one is");
    expect_refused("cluster=c" ETCD REACHED,
                   "--cluster c: without --users anyone who reaches this server may act");
    expect_taken(CLUSTER REACHED);
}

TEST(others_can_connect_to_what_is_advertised)
{
    static const char *const nowhere[] = {"tcp://*",       "tcp://0.0.0.0",       "tcps://[::]",
                                          "rdma://*",      "tcp://discover/name", "resp://*",
                                          "resps://[0::0]"};
    static const char *const queries[] = {
        "tcp://a?database=d",      "tcp://a?source=10.0.0.1", "tcps://a?ca=f",
        "rdma://a?device=mlx5_0",  "rdma://a?tos=1",          "ofi://a?provider=tcp",
        "local:///run/a?uids=any", "resp:///run/a?mode=0666",
    };
    char text[128];

    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        snprintf(text, sizeof text, CLUSTER REACHED " advertise=%s", nowhere[i]);
        struct parsed *parsed = parse(text);
        assert_int_equal(parsed->status, OKV_EINVAL);
        assert_non_null(strstr(parsed->config.settings.wrong, ": name one address, such as"));
        end(parsed);
    }
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        snprintf(text, sizeof text, CLUSTER " advertise=%s", queries[i]);
        struct parsed *parsed = parse(text);
        assert_int_equal(parsed->status, OKV_EINVAL);
        assert_non_null(strstr(parsed->config.settings.wrong, ": leave out the ? and what"));
        end(parsed);
    }
    expect_refused(CLUSTER " advertise=http://a", "--advertise http://a: ");
}

TEST(a_place_is_advertised_once_and_eight_in_all)
{
    expect_refused(CLUSTER REACHED " advertise=tcps://10.0.0.1:7471",
                   "--advertise tcps://10.0.0.1:7471: another --advertise has the same place");
    expect_taken(CLUSTER REACHED " advertise=rdma://10.0.0.1 advertise=tcps://10.0.0.1");
#define SEVEN                                                                           \
    " advertise=tcp://a:1 advertise=tcp://a:2 advertise=tcp://a:3 advertise=tcp://a:4 " \
    "advertise=tcp://a:5 advertise=tcp://a:6 advertise=tcp://a:7"
    expect_taken(CLUSTER REACHED SEVEN);
    expect_refused(CLUSTER REACHED SEVEN " advertise=tcp://a:8", "--advertise: at most 8 URIs");
}
