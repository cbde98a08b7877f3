/* What okv doctor --peer says of both ends of a connection over rdma://, of facts and figures that
 * were gathered: it asks nobody, and measures nothing. */
#ifndef OKV_CLIENT_CLI_DOCTOR_COMPARE_H
#define OKV_CLIENT_CLI_DOCTOR_COMPARE_H

#include "client/cli/doctor/report.h"
#include "shared/devices/facts.h"

/* An end: the port that the connection uses there. */
struct doctor_end {
    const char *who; /* "this host", "the server" */
    bool is_known;   /* otherwise the facts are unspecified */
    struct okv_port_facts facts;
};

/* Times of gets of one short item. */
struct doctor_figures {
    double p50_us;     /* one at a time */
    double per_second; /* in batches of DOCTOR_BATCH */
};
#define DOCTOR_BATCH 32

/* The line of an end that is known. */
void doctor_tell_end(struct doctor_report *report, const struct doctor_end *end);
/* What does not fit together. */
void doctor_compare_ends(struct doctor_report *report, const struct doctor_end *here,
                         const struct doctor_end *there);
/* Which of its counters of losses rose meanwhile. */
void doctor_compare_counters(struct doctor_report *report, const struct doctor_end *before,
                             const struct doctor_end *after);
/* Whether the figures are those of such NICs. */
void doctor_judge(struct doctor_report *report, const struct doctor_end *here,
                  const struct doctor_end *there, const struct doctor_figures *figures);

#endif
