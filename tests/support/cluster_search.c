#include "tests/support/cluster_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/random.h"

#define BYTES_MAX ((size_t)256 << 20) /* of states that are still to be visited */
#define WORDS (sizeof(struct small_world) / sizeof(uint64_t))
_Static_assert(sizeof(struct small_world) % sizeof(uint64_t) == 0, "a world in words");
_Static_assert(WORDS < UINT32_MAX, "the number of a word");

union state {
    struct small_world world;
    uint64_t words[WORDS];
};

/* A word that differs from the first state's. */
struct difference {
    uint32_t at;
    uint32_t low, high;
};

struct node {
    uint32_t parent;
    struct small_choice choice;
    uint8_t depth;
};

struct search {
    union state first;
    struct node *nodes; /* in the order in which they were found, and are visited */
    uint64_t *seen;     /* hashes; 0: free */
    uint64_t seen_room;
    uint32_t count, visited, room;
    /* The states that are not visited yet, each the number of its differences and these. */
    uint8_t *bytes;
    size_t begin, end, bytes_room;
    struct cluster_search_result result;
};

static void *must(void *memory)
{
    if (!memory) {
        fputs("cluster_search: out of memory\n", stderr);
        abort();
    }
    return memory;
}

/* ---- states ---- */

static uint32_t pack(const struct search *search, const union state *state,
                     struct difference differences[WORDS])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < WORDS; i++)
        if (state->words[i] != search->first.words[i])
            differences[count++] = (struct difference){i, (uint32_t)state->words[i],
                                                       (uint32_t)(state->words[i] >> 32)};
    return count;
}

static uint64_t hash(const struct difference *differences, uint32_t count)
{
    uint64_t sum = 1;

    for (uint32_t i = 0; i < count; i++) {
        sum = random_mix(sum ^ differences[i].at);
        sum = random_mix(sum ^ ((uint64_t)differences[i].high << 32 | differences[i].low));
    }
    return sum ? sum : 1;
}

static void put_hash(struct search *search, uint64_t number)
{
    uint64_t i = number & (search->seen_room - 1);

    while (search->seen[i] != 0)
        i = (i + 1) & (search->seen_room - 1);
    search->seen[i] = number;
}

static void grow_seen(struct search *search)
{
    uint64_t *old = search->seen, old_room = search->seen_room;

    search->seen_room = old_room ? 2 * old_room : 1 << 16;
    search->seen = must(calloc(search->seen_room, sizeof *search->seen));
    for (uint64_t i = 0; i < old_room; i++)
        if (old[i] != 0)
            put_hash(search, old[i]);
    free(old);
}

static bool is_new(struct search *search, uint64_t number)
{
    if (2 * ((uint64_t)search->count + 1) > search->seen_room)
        grow_seen(search);
    for (uint64_t i = number & (search->seen_room - 1); search->seen[i] != 0;
         i = (i + 1) & (search->seen_room - 1))
        if (search->seen[i] == number)
            return false;
    put_hash(search, number);
    return true;
}

/* ---- the queue ---- */

static void make_room(struct search *search, size_t length)
{
    if (search->begin > search->bytes_room / 2) {
        memmove(search->bytes, search->bytes + search->begin, search->end - search->begin);
        search->end -= search->begin;
        search->begin = 0;
    }
    if (search->end + length <= search->bytes_room)
        return;
    search->bytes_room = 2 * search->bytes_room + length;
    search->bytes = must(realloc(search->bytes, search->bytes_room));
}

static void push_bytes(struct search *search, const void *from, size_t length)
{
    make_room(search, length);
    memcpy(search->bytes + search->end, from, length);
    search->end += length;
}

static void pop_bytes(struct search *search, void *to, size_t length)
{
    memcpy(to, search->bytes + search->begin, length);
    search->begin += length;
}

static void pop(struct search *search, union state *state)
{
    uint32_t count;
    struct difference next;

    pop_bytes(search, &count, sizeof count);
    *state = search->first;
    for (uint32_t i = 0; i < count; i++) {
        pop_bytes(search, &next, sizeof next);
        state->words[next.at] = (uint64_t)next.high << 32 | next.low;
    }
}

static void add(struct search *search, const union state *state, uint32_t parent,
                struct small_choice choice)
{
    static struct difference differences[WORDS];
    uint32_t count = pack(search, state, differences);
    struct node *node;

    if (!is_new(search, hash(differences, count)))
        return;
    if (search->count == search->room) {
        search->room = search->room ? 2 * search->room : 1 << 16;
        search->nodes = must(realloc(search->nodes, search->room * sizeof *search->nodes));
    }
    node = &search->nodes[search->count++];
    node->parent = parent;
    node->choice = choice;
    node->depth = search->count > 1 ? (uint8_t)(search->nodes[parent].depth + 1) : 0;
    search->result.depth = node->depth;
    push_bytes(search, &count, sizeof count);
    push_bytes(search, differences, count * sizeof *differences);
}

/* ---- the search ---- */

/* The events that lead to a node, and the one after it, are repeated with words. */
static void tell(struct search *search, uint32_t last, struct small_choice choice)
{
    struct small_choice path[UINT8_MAX + 1];
    static union state state;
    unsigned count = 0;

    path[count++] = choice;
    for (uint32_t i = last; i > 0; i = search->nodes[i].parent)
        path[count++] = search->nodes[i].choice;
    state = search->first;
    small_trace(true);
    while (count > 0)
        small_take(&state.world, path[--count]);
    small_trace(false);
    fprintf(stderr, "FAILURE: %s\n", small_failure());
}

static void visit(struct search *search, uint32_t number, bool is_told)
{
    static union state state, next;
    struct small_choice choices[SMALL_CHOICES_MAX];
    unsigned count;

    pop(search, &state);
    count = small_choices(&state.world, choices);
    for (unsigned i = 0; i < count && !search->result.has_failed; i++) {
        enum small_outcome outcome;
        next = state;
        outcome = small_take(&next.world, choices[i]);
        if (outcome == SMALL_IS_FINE) {
            add(search, &next, number, choices[i]);
        } else if (outcome == SMALL_IS_OUTSIDE) {
            search->result.outside++;
        } else {
            search->result.has_failed = true;
            memcpy(search->result.failure, small_failure(), sizeof search->result.failure);
            if (is_told)
                tell(search, number, choices[i]);
        }
    }
}

struct cluster_search_result cluster_search(const struct small_options *options,
                                            uint64_t states_max, bool is_told)
{
    static struct search search;
    struct cluster_search_result result;
    struct small_choice none = {0};

    memset(&search, 0, sizeof search);
    small_begin(&search.first.world, options);
    add(&search, &search.first, 0, none);
    while (search.visited < search.count && search.visited < states_max &&
           search.end - search.begin < BYTES_MAX && search.result.depth < UINT8_MAX &&
           !search.result.has_failed)
        visit(&search, search.visited++, is_told);
    result = search.result;
    result.states = search.visited;
    result.is_complete = search.visited == search.count && !result.has_failed;
    free(search.nodes);
    free(search.seen);
    free(search.bytes);
    return result;
}
