/* What okv doctor --peer says of two ends, and of what gets took between them. */
#include "tests/support/test.h"

#include "client/cli/doctor/compare.h"

#define NIC                                                                                  \
    "port mlx5_0/1 address 10.0.0.1 gid 3 rate_gbps 100 mtu 4200 pcie 16x8.0 numa_node 0 "   \
    "firmware 16.35.2000 soft 0 out_of_sequence 5 packet_seq_err 0 local_ack_timeout_err 0 " \
    "rnr_nak_retry_err -"

struct ends {
    struct doctor_end here, there;
    struct doctor_report report;
};

static void end_set(struct doctor_end *end, const char *who, const char *line)
{
    *end = (struct doctor_end){.who = who, .is_known = line != NULL};
    if (line)
        assert_true(okv_facts_parse(line, strlen(line), &end->facts));
}

/* Both have a NIC, and are well. */
static int ends_open(void **state)
{
    struct ends *ends = calloc(1, sizeof *ends);

    assert_non_null(ends);
    end_set(&ends->here, "this host", NIC);
    end_set(&ends->there, "the server", NIC);
    doctor_report_init(&ends->report);
    *state = ends;
    return 0;
}

static int ends_close(void **state)
{
    struct ends *ends = *state;

    doctor_report_fini(&ends->report);
    free(ends);
    return 0;
}

/* The one finding has this level and these words, in its text or its fix. Takes it away. */
static void one(struct ends *ends, const char *level, const char *words)
{
    const json_t *finding = json_array_get(ends->report.findings, 0);

    assert_int_equal(json_array_size(ends->report.findings), 1);
    assert_string_equal(json_string_value(json_object_get(finding, "level")), level);
    const char *text = json_string_value(json_object_get(finding, "text"));
    const char *fix = json_string_value(json_object_get(finding, "fix"));
    if (!strstr(text, words) && !(fix && strstr(fix, words)))
        fail_msg("it says '%s' (%s), not '%s'", text, fix ? fix : "", words);
    json_array_clear(ends->report.findings);
}

static void none(const struct ends *ends)
{
    assert_int_equal(json_array_size(ends->report.findings), 0);
}

TEST_WITH(an_end_in_a_line, ends_open, ends_close)
{
    struct ends *ends = *state;

    doctor_tell_end(&ends->report, &ends->here);
    one(ends, "ok",
        "this host: mlx5_0/1, 10.0.0.1 (GID 3), 100 Gb/s, MTU 4200, PCIe 16x8.0 GT/s, "
        "NUMA node 0, firmware 16.35.2000");
    end_set(&ends->there, "the server", "port a/1 address a gid - address b gid 2");
    doctor_tell_end(&ends->report, &ends->there);
    one(ends, "ok",
        "the server: a/1, a (GID unknown) and others, unknown Gb/s, MTU unknown, PCIe unknown "
        "GT/s, "
        "NUMA node unknown, firmware unknown");
    end_set(&ends->there, "the server", "port rxe0/1 mtu 4200 soft 1");
    doctor_tell_end(&ends->report, &ends->there);
    one(ends, "ok", "the server: rxe0/1, no address of RoCE, MTU 4200, soft-RoCE");
}

TEST_WITH(ends_that_are_alike, ends_open, ends_close)
{
    struct ends *ends = *state;

    doctor_compare_ends(&ends->report, &ends->here, &ends->there);
    none(ends);
    ends->there.facts.mtu = 1500;
    ends->there.is_known = false;
    doctor_compare_ends(&ends->report, &ends->here, &ends->there);
    none(ends);
    ends->there.is_known = true;
    ends->there.facts.mtu = ends->there.facts.rate_gbps = OKV_FACTS_UNKNOWN;
    doctor_compare_ends(&ends->report, &ends->here, &ends->there);
    none(ends);
}

TEST_WITH(mtus_that_differ, ends_open, ends_close)
{
    struct ends *ends = *state;

    ends->there.facts.mtu = 1500;
    doctor_compare_ends(&ends->report, &ends->here, &ends->there);
    one(ends, "problem",
        "the MTU of this host is 4200, that of the server 1500: RDMA packets of 4096 and 1024 "
        "bytes");
    assert_int_equal(ends->report.problems, 1);
    ends->there.facts.mtu = 9000; /* RDMA packets are the same */
    doctor_compare_ends(&ends->report, &ends->here, &ends->there);
    one(ends, "note", "mtu 4200, on both hosts");
}

TEST_WITH(rates_that_differ, ends_open, ends_close)
{
    struct ends *ends = *state;

    ends->there.facts.rate_gbps = 25;
    doctor_compare_ends(&ends->report, &ends->here, &ends->there);
    one(ends, "note", "this host has 100 Gb/s, and the server 25: the slower one is the limit");
}

TEST_WITH(counters_that_rose, ends_open, ends_close)
{
    struct ends *ends = *state;
    struct doctor_end after = ends->here;

    doctor_compare_counters(&ends->report, &ends->here, &after);
    one(ends, "ok", "this host: no counter of losses rose meanwhile");
    after.facts.counters[OKV_FACTS_OUT_OF_SEQUENCE] = 8;
    after.facts.counters[OKV_FACTS_LOCAL_ACK_TIMEOUT_ERR] = 1;
    after.facts.counters[OKV_FACTS_RNR_NAK_RETRY_ERR] = 1; /* it was not known before */
    doctor_compare_counters(&ends->report, &ends->here, &after);
    one(ends, "note", "rose meanwhile: out_of_sequence by 3, local_ack_timeout_err by 1");
    doctor_compare_counters(&ends->report, &ends->here, &after);
    one(ends, "note", "docs/first-nic.md section 5");
    end_set(&after, "this host", "port rxe0/1 soft 1");
    doctor_compare_counters(&ends->report, &ends->here, &after);
    none(ends);
}

static void judge(struct ends *ends, double p50_us, double per_second)
{
    const struct doctor_figures figures = {p50_us, per_second};

    doctor_judge(&ends->report, &ends->here, &ends->there, &figures);
}

TEST_WITH(the_verdict_on_nics, ends_open, ends_close)
{
    struct ends *ends = *state;

    judge(ends, 2.3, 3e6);
    one(ends, "ok", "a get takes 2.3 us, and batches of 32 do 3 M/s, as a NIC of 100 Gb/s should");
    judge(ends, 4.1, 2.3e6); /* behind two switches */
    one(ends, "ok", "as a NIC of 100 Gb/s should");
    judge(ends, 10, 2.3e6);
    one(ends, "note", "4.0 times as slow as a NIC of 100 Gb/s, with 2.2 to 2.5 us");
    judge(ends, 2.3, 1.15e6);
    one(ends, "note", "2.0 times as slow as a NIC of 100 Gb/s");
    judge(ends, 10, 2.3e6);
    one(ends, "note", "docs/first-nic.md section 2 finds out whether it is the NIC");
}

TEST_WITH(the_slower_end_is_what_counts, ends_open, ends_close)
{
    struct ends *ends = *state;

    ends->here.facts.rate_gbps = 400;
    ends->there.facts.rate_gbps = 200;
    judge(ends, 8.0, 3e6);
    one(ends, "note", "3.3 times as slow as a NIC of 200 Gb/s, with 2.0 to 2.4 us");
    ends->there.is_known = false;
    judge(ends, 3.95, 3e6);
    one(ends, "note", "1.7 times as slow as a NIC of 400 Gb/s");
    ends->here.facts.rate_gbps = 800;
    judge(ends, 3.85, 3e6);
    one(ends, "ok", "as a NIC of 800 Gb/s should");
    ends->here.is_known = false;
    judge(ends, 3.8, 3e6);
    one(ends, "ok", "the rate of the NICs is not known");
}

TEST_WITH(the_verdict_on_soft_roce, ends_open, ends_close)
{
    struct ends *ends = *state;

    ends->there.facts.is_soft = true;
    judge(ends, 70, 1e5);
    one(ends, "ok", "a get takes 70.0 us, and batches of 32 do 0.1 M/s: soft-RoCE: no NIC");
}
