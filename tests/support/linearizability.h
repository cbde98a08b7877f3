/*
 * Is what clients saw of a key explained by one order of all operations? An
 * order explains a history when it keeps real time (an operation that returned
 * before another was called comes first; those that overlap may come in either
 * order), when it holds every operation that has a result, and any of those
 * whose outcome is UNKNOWN, and when each gives its result if they are carried
 * out one by one on this item, which is absent in the beginning:
 *
 *   absent, or present with a version and a value (a number, for a counter);
 *   and `last`, the highest version that the key ever had.
 *   GET ok: present with this version and value.       GET notfound: absent.
 *   PUT, CAS, ADD, INCR ok: afterwards present with the version that was
 *   returned, which is higher than `last`. Before: CAS: present with the expected
 *   version; ADD: absent; INCR: the result is the number before plus the delta.
 *   INCR of an absent item counts from 0, or is refused (options).
 *   DELETE ok: present before (with the expected version, if there is one), absent
 *   afterwards.                  DELETE, CAS, INCR notfound: absent.
 *   EXISTS: present.             CONFLICT: present with another version than expected.
 *   (Both with the version that was found, if the record has one.)
 *   UNKNOWN: as a success, with a version that the record does not tell.
 *   FAILED, and a GET that is UNKNOWN, say nothing.
 *
 * A key on which there is any INCR is a counter: values are numbers, and need not
 * be unique. It is taken for granted that a counter stays within 63 bits.
 * Linearizability is local: a history is linearizable when that of every key is.
 *
 * HOW IT IS DECIDED
 *
 * With no further knowledge this is NP-complete; with unique values and a known
 * order of writes it is not (P. B. Gibbons, E. Korach: "Testing Shared Memories",
 * SIAM J. Comput. 26(4), 1997). Here the versions give the order. Each step below
 * says why it neither rejects a history that has an order nor accepts one that has none.
 *
 * 1. The proven states (linearizability_proven.c). Every version that a result proves to
 * have existed (returned by a write; read; expected with success; reported) is one
 * state of the item, and since versions rise, every order passes these states in
 * the order of their versions. What a state must be follows from the records
 * alone: at most one write returned its version, all GETs of it name one value,
 * and this is the value of its write. For a register the value names the write,
 * also one whose outcome is unknown: values are unique. CAS expects the state just
 * before its own, since nothing else can be between. Then time: a state is entered
 * no earlier than its write, or the write of any earlier state, was called, nor
 * than the last call that still found an earlier state; and no later than the
 * first return of its write, or of what found it or a later one. All of these are
 * necessary, so that a contradiction is a violation; and they give the clearest
 * reports.
 *
 * 2. The search (linearizability_search.c). What is left is where operations go
 * that have no version (DELETE, misses, EXISTS, CONFLICT) and which of the unknown
 * ones took effect. This is Wing and Gong's search ("Testing and Verifying
 * Concurrent Objects", J. Parallel Distrib. Comput. 17, 1993) with Lowe's
 * just-in-time linearization and memoisation ("Testing for Linearizability",
 * Concurrency and Computation 29(4), 2017), breadth first: events are taken in the
 * order of time (calls before returns at one time), and a set of *configurations*
 * is kept: how many proven states were passed, absent or not, `last`, the number,
 * which of the operations now under way took effect, how many unknown ones were
 * used. When X returns, each configuration in which X has not taken effect is
 * replaced by all that come of it by a sequence of steps that ends with X. No
 * configuration left: a violation. All returns survived: the steps taken are an order.
 * So what is accepted has an order, whatever is pruned; and pruning loses none:
 *
 *   a. An operation that changes nothing takes effect as soon as it is under way and
 *      the item's state allows it. Moving it there in an order hurts nobody.
 *   b. Steps that change the item wait for a return that needs them (Lowe). Nothing that
 *      is called later can come before that return in the order anyway.
 *   c. A proven state is not entered before the time found in 1.
 *   d. Of several unconditional DELETEs the one that returns first is used first, and an
 *      unknown one only if there is none else: if an order has it the other way round,
 *      exchange them: both were called already, and each is in time.
 *   e. Unknown writes whose value nobody saw differ only in what they need. (On a register:
 *      those that no GET names. On a counter: those from whose number no sum of deltas
 *      leads to a number that was seen.) The one that could not be used otherwise is used
 *      first: a CAS whose version is the present one (it can never be used again), then
 *      an ADD (needs absence), then a PUT. Again by exchange. Among several of a kind only
 *      their number counts.
 *   f. An unknown write takes the lowest version that is free and that no record names; or
 *      one that is only named by something that failed or is unknown. Versions that nobody names
 *      have no effect but to be higher than the one before and lower than the next.
 *   g. An unknown operation is used only when it enables something at once: an
 *      operation that sees just this state, a DELETE of an item that was absent, an ADD after
 *      an unknown DELETE, or a sum that the counter has later. Take the order with
 *      the fewest unknown operations: one without such a purpose could be left out.
 *   h. A configuration is dropped if another one is in the same state of the item
 *      (or one with a lower `last`, where the version itself does not matter), with the same
 *      DELETEs done, no fewer of the others done and no more unknown ones used:
 *      every step that the one can take, the other can take too.
 *
 * Without unknown outcomes there are a handful of configurations, and the whole takes O(n log n)
 * for sorting. With many, above all with unknown INCRs of several deltas (a subset-sum
 * problem), there may be too many. Then only some are followed: one that is left at the end
 * is an order all the same. If none is left, unknown operations are taken to be usable
 * any number of times, which admits more orders but has few configurations: if there is none
 * even so, it is a violation. Else the verdict is UNDECIDED.
 *
 * The reference (linearizability_reference.c) is Wing and Gong's search as it is in the
 * book, with Lowe's memory of (set of operations done, state); it knows none of the above and
 * serves to test the fast one.
 */
#ifndef OKV_TESTS_LINEARIZABILITY_H
#define OKV_TESTS_LINEARIZABILITY_H

#include <stdio.h>

#include "tests/support/history.h"

enum linearizability_verdict {
    LINEARIZABILITY_HOLDS,
    LINEARIZABILITY_VIOLATED,
    LINEARIZABILITY_MALFORMED, /* no history: a value written twice, fields that contradict */
    LINEARIZABILITY_UNDECIDED, /* more than `states_max`, or more than 64 operations at once */
    LINEARIZABILITY_NO_MEMORY,
};

struct linearizability_options {
    bool incr_needs_item; /* INCR of an absent item answers NOTFOUND; else it counts from 0 */
    bool may_vanish;      /* a cache: an item may become absent at any moment, for good */
    size_t states_max;    /* configurations to follow at most; 0: 1000 */
};

#define LINEARIZABILITY_CULPRITS 4
/* The longest history for the reference. */
#define LINEARIZABILITY_REFERENCE_MAX 24

/* Why the verdict is not that it holds. */
struct linearizability_report {
    uint32_t key;
    unsigned count;                            /* of culprits */
    size_t culprits[LINEARIZABILITY_CULPRITS]; /* indices of records; the first is the offender */
    char text[1024];                           /* a sentence, then a line for each culprit */
};

/* Records of one key, sorted (history_sort). `options` and `report` may be NULL. */
enum linearizability_verdict
linearizability_check_key(const struct history_record *records, size_t count,
                          const struct linearizability_options *options,
                          struct linearizability_report *report);
/* Key by key, up to the first for which it does not hold; indices are those of the whole history.
 */
enum linearizability_verdict linearizability_check(const struct history *history,
                                                   const struct linearizability_options *options,
                                                   struct linearizability_report *report);
/* As linearizability_check_key, by trying every order; MALFORMED if there are too many records. */
enum linearizability_verdict
linearizability_check_reference(const struct history_record *records, size_t count,
                                const struct linearizability_options *options);

const char *linearizability_verdict_text(enum linearizability_verdict verdict);
void linearizability_report_print(const struct linearizability_report *report, FILE *file);

#endif
