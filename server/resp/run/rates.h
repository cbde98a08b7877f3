/* How much RESP clients do at the moment, for INFO: samples of counters that only rise, taken while
 * workers serve. Any thread. */
#ifndef OKV_SERVER_RESP_RUN_RATES_H
#define OKV_SERVER_RESP_RUN_RATES_H

#include <stdint.h>

struct okv_resp_rates;
struct okv_resp_sample;
struct okv_server;

/* Time from a sample to the next one. A rate is of this time at least, and of twice as much at
 * most, while there is something to serve. */
#define OKV_RESP_SAMPLE_NS UINT64_C(500000000)

void okv_resp_rates_init(struct okv_resp_rates *rates);
void okv_resp_rates_fini(struct okv_resp_rates *rates);

/* Takes a sample if one is due. */
void okv_resp_rates_note(struct okv_server *server, uint64_t now_ns);
/* Sets *rate to commands and bytes per second, as of now. */
void okv_resp_rates_get(struct okv_server *server, uint64_t now_ns, struct okv_resp_sample *rate);

#endif
