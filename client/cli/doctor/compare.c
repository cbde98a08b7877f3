#include "client/cli/doctor/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/doctor/checks.h"

#define WHAT "peer"
#define VERDICT "verdict"
#define TEXT_SIZE 256

/* What a get by one READ takes, as the median, without a switch, by the rate of the slower end:
 * docs/first-nic.md section 3. Faster NICs are not known yet, and 25 and 40 Gb/s are those of the
 * same generation as 100. */
static const struct generation {
    uint64_t rate_gbps; /* up to this */
    double least_us, most_us;
} generations[] = {
    {100, 2.2, 2.5},
    {200, 2.0, 2.4},
    {UINT64_MAX, 1.9, 2.3},
};
/* Two switches, there and back: section 2. */
#define SWITCHES_US 1.6
/* In batches, where the client's core is the limit. */
#define GETS_PER_SECOND 2.3e6

static const char *number_text(uint64_t number, char text[24])
{
    snprintf(text, 24, "%" PRIu64, number);
    return number == OKV_FACTS_UNKNOWN ? "unknown" : text;
}

static const char *known(const char *text)
{
    return text[0] ? text : "unknown";
}

static void address_text(const struct okv_port_facts *facts, char *out, size_t size)
{
    const struct okv_facts_address *first = &facts->addresses[0];
    char gid[24];

    if (facts->address_count == 0)
        snprintf(out, size, "no address of RoCE");
    else
        snprintf(out, size, "%s (GID %s)%s", first->text, number_text(first->gid, gid),
                 facts->address_count > 1 ? " and others" : "");
}

void doctor_tell_end(struct doctor_report *report, const struct doctor_end *end)
{
    const struct okv_port_facts *facts = &end->facts;
    char address[TEXT_SIZE], rate[24], mtu[24], numa[24];

    address_text(facts, address, sizeof address);
    if (facts->is_soft) {
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s: %s, %s, MTU %s, soft-RoCE", end->who,
                   known(facts->port), address, number_text(facts->mtu, mtu));
        return;
    }
    doctor_add(report, DOCTOR_OK, WHAT, NULL,
               "%s: %s, %s, %s Gb/s, MTU %s, PCIe %s GT/s, NUMA node %s, firmware %s", end->who,
               known(facts->port), address, number_text(facts->rate_gbps, rate),
               number_text(facts->mtu, mtu), known(facts->pcie), number_text(facts->numa, numa),
               known(facts->firmware));
}

/* The sizes of RDMA packets have to be the same, those of others should be. */
static void compare_mtus(struct doctor_report *report, const struct doctor_end *here,
                         const struct doctor_end *there)
{
    uint64_t mine = here->facts.mtu, theirs = there->facts.mtu;

    if (mine == theirs || mine == OKV_FACTS_UNKNOWN || theirs == OKV_FACTS_UNKNOWN)
        return;
    unsigned packet = doctor_packet_bytes(mine), other = doctor_packet_bytes(theirs);
    doctor_add(report, packet == other ? DOCTOR_NOTE : DOCTOR_PROBLEM, WHAT,
               "ip link set INTERFACE mtu 4200, on both hosts and the switches between them",
               "the MTU of %s is %" PRIu64 ", that of %s %" PRIu64
               ": RDMA packets of %u and %u bytes",
               here->who, mine, there->who, theirs, packet, other);
}

static void compare_rates(struct doctor_report *report, const struct doctor_end *here,
                          const struct doctor_end *there)
{
    uint64_t mine = here->facts.rate_gbps, theirs = there->facts.rate_gbps;

    if (mine != theirs && mine != OKV_FACTS_UNKNOWN && theirs != OKV_FACTS_UNKNOWN)
        doctor_add(report, DOCTOR_NOTE, WHAT,
                   "where both can more, look at the cable and the switch's port",
                   "%s has %" PRIu64 " Gb/s, and %s %" PRIu64 ": the slower one is the limit",
                   here->who, mine, there->who, theirs);
}

void doctor_compare_ends(struct doctor_report *report, const struct doctor_end *here,
                         const struct doctor_end *there)
{
    if (!here->is_known || !there->is_known)
        return;
    compare_mtus(report, here, there);
    compare_rates(report, here, there);
}

void doctor_compare_counters(struct doctor_report *report, const struct doctor_end *before,
                             const struct doctor_end *after)
{
    char moved[TEXT_SIZE] = "";
    size_t length = 0;
    bool is_counted = false;

    for (unsigned i = 0; i < OKV_FACTS_COUNTERS; i++) {
        uint64_t was = before->facts.counters[i], is = after->facts.counters[i];
        if (was == OKV_FACTS_UNKNOWN || is == OKV_FACTS_UNKNOWN)
            continue;
        is_counted = true;
        if (is > was)
            length += (size_t)snprintf(moved + length, sizeof moved - length, "%s%s by %" PRIu64,
                                       length ? ", " : "", okv_facts_counter_names[i], is - was);
    }
    if (length > 0)
        doctor_add(report, DOCTOR_NOTE, WHAT,
                   "docs/first-nic.md section 5: packets are lost, or the receiver was not ready",
                   "%s: counters rose meanwhile: %s", after->who, moved);
    else if (is_counted)
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s: no counter of losses rose meanwhile",
                   after->who);
}

/* Of the ends that are known the lower one; OKV_FACTS_UNKNOWN: none is. */
static uint64_t lower_rate(const struct doctor_end *here, const struct doctor_end *there)
{
    uint64_t mine = here->is_known ? here->facts.rate_gbps : OKV_FACTS_UNKNOWN;
    uint64_t theirs = there->is_known ? there->facts.rate_gbps : OKV_FACTS_UNKNOWN;

    return mine < theirs ? mine : theirs;
}

static bool is_soft(const struct doctor_end *end)
{
    return end->is_known && end->facts.is_soft;
}

/* By how much at worst. */
static double times_as_slow(const struct generation *expected, const struct doctor_figures *figures)
{
    double by_time = figures->p50_us / expected->most_us;
    double by_rate = GETS_PER_SECOND / figures->per_second;

    return by_time > by_rate ? by_time : by_rate;
}

void doctor_judge(struct doctor_report *report, const struct doctor_end *here,
                  const struct doctor_end *there, const struct doctor_figures *figures)
{
    uint64_t rate = lower_rate(here, there);
    const struct generation *expected = generations;
    char measured[TEXT_SIZE];

    snprintf(measured, sizeof measured, "a get takes %.1f us, and batches of %d do %.3g M/s",
             figures->p50_us, DOCTOR_BATCH, figures->per_second / 1e6);
    if (is_soft(here) || is_soft(there) || rate == OKV_FACTS_UNKNOWN) {
        doctor_add(report, DOCTOR_OK, VERDICT, NULL, "%s: %s", measured,
                   rate == OKV_FACTS_UNKNOWN ? "the rate of the NICs is not known"
                                             : "soft-RoCE: no NIC to compare with");
        return;
    }
    while (expected->rate_gbps < rate)
        expected++;
    bool is_slow =
        figures->p50_us > expected->most_us + SWITCHES_US || figures->per_second < GETS_PER_SECOND;
    if (!is_slow)
        doctor_add(report, DOCTOR_OK, VERDICT, NULL, "%s, as a NIC of %" PRIu64 " Gb/s should",
                   measured, rate);
    else
        doctor_add(report, DOCTOR_NOTE, VERDICT,
                   "docs/first-nic.md section 2 finds out whether it is the NIC",
                   "%s: %.1f times as slow as a NIC of %" PRIu64
                   " Gb/s, with %.1f to %.1f us, through two switches %.1f more, and %.1f M/s",
                   measured, times_as_slow(expected, figures), rate, expected->least_us,
                   expected->most_us, SWITCHES_US, GETS_PER_SECOND / 1e6);
}
