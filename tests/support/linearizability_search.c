#include "tests/support/linearizability_search.h"

#include <stdlib.h>
#include <string.h>

#define STATES_MAX 1000
#define STATES_FEW 16
#define STATES_SOME 128

/* ---- events ---- */

/* The order that came furthest says most about what is wrong. */
static void report_stuck(struct search *search)
{
    const struct proven_states *proven = search->proven;
    uint32_t furthest = 0, before = PROVEN_NONE, after = PROVEN_NONE;

    for (size_t i = 0; i < search->seen.count; i++)
        if (configuration_at(search, &search->seen, i)->position > furthest)
            furthest = configuration_at(search, &search->seen, i)->position;
    if (furthest > 0)
        before = proven->slots[furthest - 1].writer;
    if (furthest < proven->slot_count)
        after = proven->slots[furthest].writer;
    proven_report(proven->records, search->report, search->pending[search->target], before, after,
                  "no order is left when the first returns; the order of versions came up to "
                  "%s%llu",
                  furthest > 0 ? "version " : "nothing, ",
                  (unsigned long long)(furthest > 0 ? proven->slots[furthest - 1].version : 0));
}

static enum linearizability_verdict operation_returns(struct search *search)
{
    struct configurations swap = search->live;
    bool all = true;

    for (size_t i = 0; all && i < search->live.count; i++)
        all = search_target_done(search, configuration_at(search, &search->live, i));
    if (all)
        return LINEARIZABILITY_HOLDS;
    search->next.count = search->seen.count = 0;
    for (size_t i = 0; i < search->live.count; i++) {
        memcpy(search->child, configuration_at(search, &search->live, i), search->size);
        search_keep(search);
    }
    for (size_t i = 0; i < search->seen.count && search->failure == LINEARIZABILITY_HOLDS; i++) {
        /* A copy: steps add to `seen`, which may move. */
        memcpy(search->parent, configuration_at(search, &search->seen, i), search->size);
        search_step(search);
    }
    if (search->failure != LINEARIZABILITY_HOLDS)
        return search->failure;
    if (search->next.count == 0) {
        if (search->dropped)
            return LINEARIZABILITY_UNDECIDED;
        report_stuck(search);
        return LINEARIZABILITY_VIOLATED;
    }
    search->live = search->next;
    search->next = swap;
    return LINEARIZABILITY_HOLDS;
}

static enum linearizability_verdict operation_called(struct search *search, uint32_t index)
{
    const struct history_record *record = &search->proven->records[index];

    if (record_says_nothing(record))
        return LINEARIZABILITY_HOLDS;
    if (record->result == HISTORY_UNKNOWN) {
        if (!record->expected && search->class_of[index] != PROVEN_NONE)
            search->classes[search->class_of[index]].called++;
        return LINEARIZABILITY_HOLDS;
    }
    if (search->pending_bits == UINT64_MAX) {
        proven_report(search->proven->records, search->report, index, PROVEN_NONE, PROVEN_NONE,
                      "more than %d operations at once", PENDING_MAX);
        return LINEARIZABILITY_UNDECIDED;
    }
    unsigned place = (unsigned)__builtin_ctzll(~search->pending_bits);
    uint64_t bit = UINT64_C(1) << place;
    search->pending[place] = index;
    search->pending_bits |= bit;
    if (record_known_write(record))
        return LINEARIZABILITY_HOLDS;
    if (record->kind == HISTORY_DELETE && record->result == HISTORY_OK)
        search->delete_bits |= bit;
    for (size_t i = 0; i < search->live.count; i++) {
        struct configuration *c = configuration_at(search, &search->live, i);
        if (search->delete_bits & bit || !search_sees(search, record, c))
            c->open |= bit;
    }
    return LINEARIZABILITY_HOLDS;
}

/* Of the operations under way the one that returns first; false: there is none. */
static bool find_target(struct search *search, uint64_t *response)
{
    bool found = false;

    for (uint64_t bits = search->pending_bits; bits; bits &= bits - 1) {
        unsigned place = (unsigned)__builtin_ctzll(bits);
        uint64_t time = search->proven->records[search->pending[place]].response;
        if (found && time >= *response)
            continue;
        *response = time;
        search->target = place;
        found = true;
    }
    return found;
}

/* All events, from the beginning. */
static enum linearizability_verdict pass(struct search *search, size_t width, bool boundless)
{
    const struct proven_states *proven = search->proven;
    enum linearizability_verdict verdict = LINEARIZABILITY_HOLDS;
    uint32_t next = 0;
    uint64_t response = 0;

    search->width = width;
    search->boundless = boundless;
    search->dropped = false;
    search->pending_bits = search->delete_bits = 0;
    memset(configuration_at(search, &search->live, 0), 0, search->size);
    search->live.count = 1;
    for (uint32_t i = 0; i < search->class_count; i++)
        search->classes[i].called = 0;
    while (verdict == LINEARIZABILITY_HOLDS) {
        bool returns = find_target(search, &response);
        if (next < proven->count && (!returns || proven->records[next].invoke <= response)) {
            search->now = proven->records[next].invoke;
            verdict = operation_called(search, next++);
            continue;
        }
        if (!returns)
            break;
        search->now = response;
        verdict = operation_returns(search);
        search->pending_bits &= ~(UINT64_C(1) << search->target);
        search->delete_bits &= search->pending_bits;
    }
    return verdict;
}

/* First with few configurations, which nearly always is enough: if one is left, its steps are an
 * order. If none is, but some were dropped, then as if unknown operations could be used again and
 * again, which leaves few configurations: if none is left even so, there is no order. Only
 * what is still open then is worth the effort. */
static enum linearizability_verdict run(struct search *search, size_t states_max)
{
    enum linearizability_verdict verdict = LINEARIZABILITY_UNDECIDED;

    for (size_t width = STATES_FEW; width < states_max && width <= STATES_SOME; width *= 8) {
        verdict = pass(search, width, false);
        if (verdict != LINEARIZABILITY_UNDECIDED || search->report->count)
            return verdict;
    }
    verdict = pass(search, states_max, true);
    if (verdict == LINEARIZABILITY_VIOLATED || verdict == LINEARIZABILITY_NO_MEMORY)
        return verdict;
    verdict = pass(search, states_max, false);
    if (verdict == LINEARIZABILITY_UNDECIDED && !search->report->count)
        proven_report(search->proven->records, search->report, search->pending[search->target],
                      PROVEN_NONE, PROVEN_NONE, "too many possible orders");
    return verdict;
}

/* ---- set-up ---- */

static int number_compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* What numbers a counter was seen with, sorted, and how far all INCRs together can move it. */
struct counter_range {
    int64_t *numbers;
    size_t count;
    __int128 down, up;
};

static bool counter_range_init(struct counter_range *range, const struct proven_states *proven)
{
    *range =
        (struct counter_range){malloc((proven->slot_count + 1) * sizeof *range->numbers), 0, 0, 0};
    if (!range->numbers)
        return false;
    for (uint32_t i = 0; i < proven->slot_count; i++)
        if (proven->slots[i].has_value)
            range->numbers[range->count++] = (int64_t)proven->slots[i].value;
    qsort(range->numbers, range->count, sizeof *range->numbers, number_compare);
    for (uint32_t i = 0; i < proven->count; i++) {
        int64_t delta = (int64_t)proven->records[i].argument;
        if (proven->records[i].kind != HISTORY_INCR)
            continue;
        if (delta < 0)
            range->down += delta;
        else
            range->up += delta;
    }
    return true;
}

/* Whether a number was seen that this one may have become. */
static bool counter_range_seen(const struct counter_range *range, int64_t number)
{
    size_t low = 0, high = range->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (range->numbers[middle] < number + range->down)
            low = middle + 1;
        else
            high = middle;
    }
    return low < range->count && range->numbers[low] <= number + range->up;
}

/* The class of this kind and argument, which is made if there is none. */
static uint32_t class_find(struct search *search, const struct history_record *record)
{
    uint32_t i = CLASS_OTHERS;

    while (i < search->class_count && (search->classes[i].kind != record->kind ||
                                       search->classes[i].argument != record->argument))
        i++;
    if (i == search->class_count)
        search->classes[search->class_count++] =
            (struct unknown_class){.kind = record->kind, .argument = record->argument};
    return i;
}

static uint32_t classify(struct search *search, const struct counter_range *range,
                         const struct history_record *record)
{
    bool counter = search->proven->counter;

    if (record->kind == HISTORY_DELETE)
        return CLASS_DELETE;
    if (counter &&
        (record->kind == HISTORY_INCR || counter_range_seen(range, (int64_t)record->argument)))
        return record->kind == HISTORY_CAS ? PROVEN_NONE : class_find(search, record);
    if (counter) /* that nobody saw it is all that matters of it */
        search->classes[CLASS_UNSEEN_ADD].argument = search->classes[CLASS_UNSEEN_PUT].argument =
            record->argument;
    return record->kind == HISTORY_ADD ? CLASS_UNSEEN_ADD : CLASS_UNSEEN_PUT;
}

static bool build_classes(struct search *search)
{
    const struct proven_states *proven = search->proven;
    size_t capacity = CLASS_OTHERS;
    struct counter_range range;

    for (uint32_t i = 0; proven->counter && i < proven->count; i++)
        capacity += record_unknown_write(&proven->records[i]);
    search->classes = calloc(capacity, sizeof *search->classes);
    search->resources = malloc((capacity + proven->conditional_count) * sizeof *search->resources);
    search->class_of = malloc((proven->count + 1) * sizeof *search->class_of);
    if (!search->classes || !search->resources || !search->class_of ||
        !counter_range_init(&range, proven))
        return false;
    search->classes[CLASS_DELETE].kind = HISTORY_DELETE;
    search->classes[CLASS_UNSEEN_ADD].kind = HISTORY_ADD;
    search->classes[CLASS_UNSEEN_PUT].kind = HISTORY_PUT;
    search->class_count = CLASS_OTHERS;
    for (uint32_t i = 0; i < proven->count; i++) {
        bool free_to_use =
            record_unknown_write(&proven->records[i]) && proven->slot_of[i] == PROVEN_NONE;
        search->class_of[i] =
            free_to_use ? classify(search, &range, &proven->records[i]) : PROVEN_NONE;
        if (search->class_of[i] != PROVEN_NONE)
            search->classes[search->class_of[i]].total++;
    }
    free(range.numbers);
    return true;
}

enum linearizability_verdict proven_search(const struct proven_states *proven,
                                           const struct linearizability_options *options,
                                           struct linearizability_report *report)
{
    struct search search = {
        .proven = proven,
        .report = report,
        .incr_needs_item = options->incr_needs_item,
        .may_vanish = options->may_vanish,
        .failure = LINEARIZABILITY_HOLDS,
    };
    enum linearizability_verdict verdict = LINEARIZABILITY_NO_MEMORY;

    if (build_classes(&search)) {
        search.size = sizeof *search.child + search.class_count * sizeof *search.child->used;
        search.size = (search.size + 7) / 8 * 8;
        search.parent = calloc(1, search.size);
        search.child = calloc(1, search.size);
        if (search.parent && search.child && configurations_reserve(&search, &search.live)) {
            verdict = run(&search, options->states_max ? options->states_max : STATES_MAX);
        }
    }
    free(search.live.memory);
    free(search.next.memory);
    free(search.seen.memory);
    free(search.parent);
    free(search.child);
    free(search.resources);
    free(search.class_of);
    free(search.classes);
    return verdict;
}
