#include "tests/support/linearizability_search.h"

#include <stdlib.h>
#include <string.h>

/* Most of what is on the way leads nowhere. */
#define SEEN_PER_WIDTH 8

/* ---- sets of configurations ---- */

/* h */
static bool dominates(const struct search *search, const struct configuration *a,
                      const struct configuration *b)
{
    if (a->position != b->position || a->state != b->state || a->number != b->number)
        return false;
    if (a->last > b->last || (a->last != b->last && a->state == NAMED))
        return false;
    if ((a->open ^ b->open) & search->delete_bits || a->open & ~b->open)
        return false;
    for (uint32_t i = 0; i < search->class_count; i++)
        if (a->used[i] > b->used[i])
            return false;
    return true;
}

bool configurations_reserve(struct search *search, struct configurations *set)
{
    if (set->count < set->capacity)
        return true;
    size_t capacity = set->capacity ? 2 * set->capacity : 64;
    char *memory = realloc(set->memory, capacity * search->size);
    if (!memory) {
        search->failure = LINEARIZABILITY_NO_MEMORY;
        return false;
    }
    set->memory = memory;
    set->capacity = capacity;
    return true;
}

static uint64_t cost(const struct search *search, const struct configuration *c)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < search->class_count; i++)
        sum += c->used[i];
    return sum;
}

/* Of those that are too many the one goes that used most of what may be needed later. */
static void replace_costliest(struct search *search, struct configurations *set,
                              const struct configuration *added)
{
    uint64_t most = cost(search, added);
    struct configuration *worst = NULL;

    for (size_t i = 0; i < set->count; i++) {
        struct configuration *c = configuration_at(search, set, i);
        uint64_t own = cost(search, c);
        if (own <= most)
            continue;
        most = own;
        worst = c;
    }
    if (worst)
        memcpy(worst, added, search->size);
}

/* Adds a configuration unless there is a better one; `replace`: removes worse ones. */
static void set_add(struct search *search, struct configurations *set,
                    const struct configuration *added, bool replace)
{
    for (size_t i = 0; i < set->count; i++)
        if (dominates(search, configuration_at(search, set, i), added))
            return;
    for (size_t i = 0; replace && i < set->count;) {
        if (dominates(search, added, configuration_at(search, set, i)))
            memcpy(configuration_at(search, set, i), configuration_at(search, set, --set->count),
                   search->size);
        else
            i++;
    }
    if (set->count >= (replace ? search->width : SEEN_PER_WIDTH * search->width)) {
        search->dropped = true;
        if (replace)
            replace_costliest(search, set, added);
        return;
    }
    if (configurations_reserve(search, set))
        memcpy(configuration_at(search, set, set->count++), added, search->size);
}

/* ---- what operations see ---- */

bool search_sees(const struct search *search, const struct history_record *record,
                 const struct configuration *c)
{
    if (record->result == HISTORY_NOTFOUND)
        return c->state == ABSENT && (record->kind != HISTORY_INCR || search->incr_needs_item);
    if (c->state == ABSENT || (record->version && record->version != c->last))
        return false;
    return record->result != HISTORY_CONFLICT || record->expected != c->last;
}

/* a */
static void settle(const struct search *search, struct configuration *c)
{
    for (uint64_t bits = c->open & ~search->delete_bits; bits; bits &= bits - 1) {
        unsigned place = (unsigned)__builtin_ctzll(bits);
        if (search_sees(search, &search->proven->records[search->pending[place]], c))
            c->open &= ~(UINT64_C(1) << place);
    }
}

bool search_target_done(const struct search *search, const struct configuration *c)
{
    uint32_t record = search->pending[search->target];

    if (record_known_write(&search->proven->records[record]))
        return c->position > search->proven->slot_of[record];
    return !(c->open >> search->target & 1);
}
/* ---- steps ---- */

static struct configuration *child_of(struct search *search, const struct configuration *parent)
{
    return memcpy(search->child, parent, search->size);
}

void search_keep(struct search *search)
{
    if (search_target_done(search, search->child))
        set_add(search, &search->next, search->child, true);
    else
        set_add(search, &search->seen, search->child, false);
}

/* An unknown operation of this kind that is bound to the version which the item has now. */
static bool bound_next(const struct search *search, const struct configuration *c, uint8_t kind,
                       size_t *iterator, const struct history_record **record)
{
    const struct proven_states *proven = search->proven;

    if (c->state == ABSENT || c->state == NAMELESS || !proven->conditional_count)
        return false;
    if (*iterator == 0) {
        size_t low = 0, high = proven->conditional_count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (proven->conditional[middle].version < c->last)
                low = middle + 1;
            else
                high = middle;
        }
        *iterator = low;
    }
    while (*iterator < proven->conditional_count &&
           proven->conditional[*iterator].version == c->last) {
        *record = &proven->records[proven->conditional[(*iterator)++].record];
        if ((*record)->kind == kind && (*record)->invoke <= search->now)
            return true;
    }
    return false;
}

static void resource_add(struct search *search, uint32_t *n, uint64_t number, uint32_t class)
{
    search->resources[(*n)++] = (struct resource){number, class};
}

/* Unknown writes that can take effect now, into search->resources. Returns how many. */
static uint32_t resources_find(struct search *search, const struct configuration *c)
{
    const struct history_record *record, *records = search->proven->records;
    bool unseen = false; /* of those that nobody saw, one is enough, in this order (e) */
    size_t iterator = 0;
    uint32_t n = 0;

    while (bound_next(search, c, HISTORY_CAS, &iterator, &record)) {
        if (search->class_of[record - records] != CLASS_UNSEEN_PUT)
            resource_add(search, &n, record->argument, PROVEN_NONE);
        else if (!unseen)
            resource_add(search, &n, search->classes[CLASS_UNSEEN_PUT].argument, PROVEN_NONE);
        unseen = unseen || search->class_of[record - records] == CLASS_UNSEEN_PUT;
    }
    for (uint32_t i = CLASS_UNSEEN_ADD; i < search->class_count; i++) {
        const struct unknown_class *class = &search->classes[i];
        if (class->called == c->used[i] || (class->kind == HISTORY_ADD && c->state != ABSENT) ||
            (i < CLASS_OTHERS && unseen))
            continue;
        if (class->kind == HISTORY_INCR && c->state == ABSENT && search->incr_needs_item)
            continue;
        unseen = unseen || i < CLASS_OTHERS;
        resource_add(search, &n, class->argument + (class->kind == HISTORY_INCR ? c->number : 0),
                     i);
    }
    return n;
}

static void resource_use(struct configuration *c, const struct resource *resource, uint64_t version,
                         enum item_state state, bool boundless)
{
    if (resource->class != PROVEN_NONE && !boundless)
        c->used[resource->class]++;
    c->number = resource->number;
    c->last = version;
    c->state = state;
}

/* Whether the write of the next slot, which is known, can take effect. */
static bool writer_fits(const struct search *search, const struct history_record *writer,
                        const struct configuration *c)
{
    switch (writer->kind) {
    case HISTORY_ADD:
        return c->state == ABSENT;
    case HISTORY_CAS:
        return c->state != ABSENT && c->last == writer->expected;
    case HISTORY_INCR:
        return c->number + writer->argument == writer->value &&
               (c->state != ABSENT || !search->incr_needs_item);
    default:
        return true;
    }
}

static void step_proven(struct search *search, const struct configuration *parent)
{
    const struct proven_states *proven = search->proven;
    const struct proven_state *slot = &proven->slots[parent->position];
    struct resource known = {.class = PROVEN_NONE};
    uint32_t n = 1;

    if (parent->position == proven->slot_count || slot->earliest > search->now) /* c */
        return;
    if (slot->writer == PROVEN_NONE) {
        n = resources_find(search, parent);
    } else {
        const struct history_record *writer = &proven->records[slot->writer];
        if (!writer_fits(search, writer, parent))
            return;
        known.number = record_written(writer);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct resource *resource =
            slot->writer == PROVEN_NONE ? &search->resources[i] : &known;
        if (proven->counter && slot->has_value && resource->number != slot->value)
            continue;
        struct configuration *child = child_of(search, parent);
        resource_use(child, resource, slot->version, IS_PROVEN, search->boundless);
        if (!proven->counter)
            child->number = 0;
        child->position++;
        settle(search, child);
        search_keep(search);
    }
}

/* Whether unknown INCRs can bring the counter from here to what a later write found; if no
 * sum of what there is reaches it, no part of it does. */
static bool sum_possible(const struct search *search, const struct configuration *c)
{
    const struct proven_states *proven = search->proven;
    __int128 lowest = (int64_t)c->number, highest = lowest, wanted = 0;
    uint32_t i = c->position;

    while (i < proven->slot_count && proven->slots[i].writer == PROVEN_NONE &&
           !proven->slots[i].has_value)
        i++;
    if (i == proven->slot_count)
        return false;
    /* Behind a state whose number is open, operations may join in that are yet to be called. */
    bool later = i > c->position;
    wanted = (int64_t)proven->slots[i].value;
    if (proven->slots[i].writer != PROVEN_NONE) {
        const struct history_record *writer = &proven->records[proven->slots[i].writer];
        if (writer->kind != HISTORY_INCR)
            return false;
        wanted -= (int64_t)writer->argument;
    }
    for (i = CLASS_OTHERS; i < search->class_count; i++) {
        const struct unknown_class *class = &search->classes[i];
        uint32_t left = (later ? class->total : class->called) - c->used[i];
        __int128 sum = (__int128)(int64_t) class->argument * left;
        if (class->kind != HISTORY_INCR)
            continue;
        if (sum < 0)
            lowest += sum;
        else
            highest += sum;
    }
    return lowest <= wanted && wanted <= highest;
}

/* The unknown write that search->child is made of took a version below the next slot's. */
static void keep_unknown_write(struct search *search, const struct configuration *parent,
                               const struct resource *resource, uint64_t version,
                               enum item_state state)
{
    struct configuration *child = child_of(search, parent);

    resource_use(child, resource, version, state, search->boundless);
    if (!search->proven->counter)
        child->number = 0;
    settle(search, child);
    if (child->open != parent->open || state == NAMED ||
        (parent->state == ABSENT && parent->open & search->delete_bits) ||
        (search->proven->counter && (search->may_vanish || sum_possible(search, child)))) /* g */
        search_keep(search);
}

static void step_unknown_write(struct search *search, const struct configuration *parent)
{
    const struct proven_states *proven = search->proven;
    uint64_t end = parent->position < proven->slot_count ? proven->slots[parent->position].version
                                                         : UINT64_MAX;
    uint64_t nameless = parent->last + 1;
    size_t low = 0, high = proven->maybe_count;
    uint32_t n = resources_find(search, parent);

    if (!n)
        return;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (proven->maybe[middle] <= parent->last)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < proven->maybe_count && proven->maybe[i] < end; i++) { /* f */
        if (proven->maybe[i] == nameless)
            nameless++;
        for (uint32_t j = 0; j < n && (i == low || proven->maybe[i] != proven->maybe[i - 1]); j++)
            keep_unknown_write(search, parent, &search->resources[j], proven->maybe[i], NAMED);
    }
    for (uint32_t j = 0; j < n && nameless < end; j++)
        keep_unknown_write(search, parent, &search->resources[j], nameless, NAMELESS);
}

static void keep_delete(struct search *search, const struct configuration *parent, uint64_t done,
                        bool of_class)
{
    struct configuration *child = child_of(search, parent);

    child->open &= ~done;
    child->used[CLASS_DELETE] += of_class && !search->boundless;
    child->state = ABSENT;
    child->number = 0;
    settle(search, child);
    search_keep(search);
}

/* g: what could follow upon an unknown DELETE. */
static bool absence_wanted(const struct search *search, const struct configuration *c)
{
    const struct proven_states *proven = search->proven;

    if (proven->counter || (c->open & ~search->delete_bits))
        return true;
    if (c->position == proven->slot_count)
        return false;
    uint32_t writer = proven->slots[c->position].writer;
    return writer == PROVEN_NONE || proven->records[writer].kind == HISTORY_ADD;
}

static void step_delete(struct search *search, const struct configuration *parent)
{
    const struct history_record *records = search->proven->records, *bound;
    uint64_t first = 0, best = UINT64_MAX;
    size_t iterator = 0;

    if (parent->state == ABSENT)
        return;
    for (uint64_t bits = parent->open & search->delete_bits; bits; bits &= bits - 1) {
        const struct history_record *record = &records[search->pending[__builtin_ctzll(bits)]];
        if (record->expected == parent->last)
            keep_delete(search, parent, bits & -bits, false);
        if (!record->expected && (!first || record->response < best)) { /* d */
            first = bits & -bits;
            best = record->response;
        }
    }
    if (first)
        keep_delete(search, parent, first, false);
    if (!absence_wanted(search, parent))
        return;
    if (bound_next(search, parent, HISTORY_DELETE, &iterator, &bound))
        keep_delete(search, parent, 0, false);
    else if (!first && search->classes[CLASS_DELETE].called > parent->used[CLASS_DELETE])
        keep_delete(search, parent, 0, true);
}

/* Nobody has to have deleted it. */
static void step_vanish(struct search *search, const struct configuration *parent)
{
    if (search->may_vanish && parent->state != ABSENT)
        keep_delete(search, parent, 0, false);
}

void search_step(struct search *search)
{
    step_proven(search, search->parent);
    step_vanish(search, search->parent);
    step_delete(search, search->parent);
    step_unknown_write(search, search->parent);
}
