/* Traces that are made have the popularity and the disturbances that they are asked for. */
#include "tests/support/test.h"
#include <math.h>
#include <okv.h>

#include "bench/replay/make.h"
#include "tests/support/trace_text.h"

/* The text of a trace; to be freed. */
static char *text_of(const char *spec, size_t *length)
{
    struct make make = {0};
    struct okv_diag why;
    char *text = NULL;

    if (make_parse(spec, &make, &why) != OKV_OK)
        fail_msg("%s:%s", spec, why.text);
    FILE *out = open_memstream(&text, length);
    assert_non_null(out);
    assert_int_equal(make_trace(&make, out), OKV_OK);
    fclose(out);
    return text;
}

static struct trace trace_of(const char *spec)
{
    char why[TRACE_WHY_TEXT];
    struct trace trace;
    size_t length;
    char *text = text_of(spec, &length);

    if (trace_text_read(text, length, &trace, why) != OKV_OK)
        fail_msg("%s", why);
    free(text);
    return trace;
}

/* How many keys are asked for exactly `times`. */
static uint32_t keys_asked(const struct trace *trace, uint32_t times)
{
    uint32_t *counts = calloc(trace->keys, sizeof *counts), found = 0;

    for (size_t i = 0; i < trace->count; i++)
        counts[trace->requests[i]]++;
    for (uint32_t id = 0; id < trace->keys; id++)
        found += counts[id] == times;
    free(counts);
    return found;
}

TEST(equal_makes_give_equal_traces)
{
    size_t lengths[3];
    char *texts[] = {text_of("mixed,requests=2000,items=100", &lengths[0]),
                     text_of("mixed,items=100,requests=2K", &lengths[1]),
                     text_of("mixed,items=100,requests=2K,seed=1", &lengths[2])};

    assert_string_equal(texts[0], texts[1]);
    assert_string_not_equal(texts[0], texts[2]);
    assert_true(strncmp(texts[2], "# kv-bench --make-trace mixed,requests=2000,items=100,", 54) ==
                0);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
}

/* The first line of a trace makes it again. */
TEST(a_trace_says_how_to_make_it)
{
    size_t first, second;
    char *text = text_of("tw45,requests=500,drift=0.125,theta=1.25", &first);
    char *spec = strdup(strchr(text, '-') + strlen("-bench --make-trace "));

    *strchr(spec, '\n') = '\0';
    char *again = text_of(spec, &second);
    assert_string_equal(text, again);
    free(again);
    free(spec);
    free(text);
}

TEST(ranks_follow_the_law_of_zipf)
{
    static const double thetas[] = {0, 0.5, 1, 1.5};
    char spec[64];

    for (size_t t = 0; t < sizeof thetas / sizeof *thetas; t++) {
        double sum = 0;
        snprintf(spec, sizeof spec, "zipf,items=50,requests=200K,theta=%g", thetas[t]);
        struct trace trace = trace_of(spec);
        uint32_t counts[50] = {0};
        assert_int_equal(trace.count, 200000);
        assert_int_equal(trace.keys, 50);
        for (int rank = 1; rank <= 50; rank++)
            sum += pow(rank, -thetas[t]);
        for (size_t i = 0; i < trace.count; i++) {
            size_t length;
            const char *key = trace_key(&trace, trace.requests[i], &length);
            while (*key == '#')
                key++, length--;
            counts[atoi((char[]){key[0], length > 1 ? key[1] : '\0', '\0'})]++;
        }
        /* Of the least popular some 200 are expected, deviation 14. */
        for (int rank = 1; rank <= 50; rank += 7) {
            double wanted = 200000 * pow(rank, -thetas[t]) / sum;
            if (fabs(counts[rank - 1] - wanted) > 6 * sqrt(wanted))
                fail_msg("theta %g: rank %d has %u requests and not %g", thetas[t], rank,
                         counts[rank - 1], wanted);
        }
        trace_fini(&trace);
    }
}

TEST(keys_that_are_asked_for_once_are_their_own)
{
    struct trace trace = trace_of("zipf,items=10,requests=20K,once=0.25");

    assert_in_range(trace.keys, 4600, 5400);
    assert_int_equal(keys_asked(&trace, 1), trace.keys - 10);
    trace_fini(&trace);
}

TEST(a_sixth_of_the_requests_are_scans)
{
    struct trace trace = trace_of("zipf,items=10,requests=6000,scan=100");

    assert_int_equal(trace.keys, 1010);
    assert_int_equal(keys_asked(&trace, 1), 1000);
    for (size_t i = 500; i < 599; i++)
        assert_int_equal(trace.requests[i + 1], trace.requests[i] + 1);
    trace_fini(&trace);
}

TEST(a_third_of_the_requests_go_round_a_loop)
{
    struct trace trace = trace_of("zipf,items=10,requests=30K,loop=2000");

    assert_int_equal(trace.keys, 2010);
    assert_int_equal(keys_asked(&trace, 5) + keys_asked(&trace, 4) + keys_asked(&trace, 6), 2000);
    trace_fini(&trace);
}

TEST(popularity_wanders)
{
    struct trace drift = trace_of("zipf,items=100,requests=20K,drift=0.1");
    struct trace churn = trace_of("zipf,items=100,requests=20K,churn=0.1");

    /* About 2000 new keys; not all are asked for before they go, the less so where any rank goes.
     */
    assert_in_range(drift.keys, 1500, 2200);
    assert_in_range(churn.keys, 500, drift.keys - 100);
    trace_fini(&drift);
    trace_fini(&churn);
}

TEST(sizes_have_their_mean)
{
    struct trace trace = trace_of("zipf,items=20K,requests=50K,theta=0,key=12,value=300");
    double sum = 0;

    for (uint32_t id = 0; id < trace.keys; id++)
        sum += trace.sizes[id];
    assert_int_equal(trace.key_least, 12);
    assert_int_equal(trace.key_most, 12);
    assert_true(fabs(sum / trace.keys - 300) < 15);
    assert_true(trace.value_most > 3000 && trace.value_least < 30);
    trace_fini(&trace);
}

TEST(kinds_have_what_they_are_named_for)
{
    static const char *const kinds[] = {"zipf", "drift", "scan", "loop", "onehit", "mixed",
                                        "tw4",  "tw29",  "tw45", "tw52", "tw54"};
    struct okv_diag why;
    struct make make;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_int_equal(make_parse(kinds[i], &make, &why), OKV_OK);
        assert_string_equal(make.kind, kinds[i]);
        assert_true(make.requests >= 1000000 && make.items >= 20000);
    }
}

TEST(what_is_no_make_is_refused)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"", " '': give zipf, drift, scan, loop, onehit, mixed, tw4"},
        {"zip", " 'zip': give zipf"},
        {"zipf,", " '': give requests, items"},
        {"zipf,size=3", " 'size=3': give requests"},
        {"zipf,items", " 'items': give requests"},
        {"zipf,items=", " 'items=': give a number from 1 to 1000000000"},
        {"zipf,items=0,seed=1", " 'items=0': give a number from 1"},
        {"zipf,items=5k", " 'items=5k': give a number"},
        {"zipf,items=-5", " 'items=-5': give a number"},
        {"zipf,items=1e99", " 'items=1e99': give a number"},
        {"zipf,theta=nan", " 'theta=nan': give a number from 0 to 10"},
        {"zipf,once=1.5", " 'once=1.5': give a number from 0 to 1"},
    };
    struct okv_diag why;
    struct make make;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(make_parse(wrong[i].text, &make, &why), OKV_EINVAL);
        if (strncmp(why.text, wrong[i].words, strlen(wrong[i].words)) != 0)
            fail_msg("%s: %s", wrong[i].text, why.text);
    }
}
