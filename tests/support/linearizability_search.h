/*
 * The search of linearizability.h, in two files: linearizability_search.c takes events in the
 * order of time, linearizability_steps.c knows what can happen to the item next. The
 * letters (a to h) in comments are those of linearizability.h.
 */
#ifndef OKV_TESTS_LINEARIZABILITY_SEARCH_H
#define OKV_TESTS_LINEARIZABILITY_SEARCH_H

#include "tests/support/linearizability_proven.h"

#define PENDING_MAX 64

enum item_state {
    ABSENT,
    IS_PROVEN, /* the state of slot position - 1 */
    NAMELESS,  /* an unknown write took a version that no record names ... */
    NAMED,     /* ... or one that is named, but not proven */
};

struct configuration {
    uint64_t open;     /* operations under way that have not taken effect: bits of `pending` */
    uint64_t last;     /* highest version; that of the item, if it is present */
    uint64_t number;   /* a counter's; 0 when absent */
    uint32_t position; /* slots passed */
    uint32_t state;
    uint32_t used[]; /* unknown operations, by class */
};

struct configurations {
    char *memory;
    size_t count, capacity;
};

/* Unknown operations that only their number tells apart (e): those whose value nobody
 * can have seen, by kind, and on a counter one class for each other value and for each delta. */
enum {
    CLASS_DELETE,
    CLASS_UNSEEN_ADD,
    CLASS_UNSEEN_PUT,
    CLASS_OTHERS,
};

struct unknown_class {
    uint64_t argument; /* the value or the delta; of what is unseen, any that is unseen */
    uint32_t called;   /* how many, up to now */
    uint32_t total;    /* and in the whole history */
    uint8_t kind;
};

/* A write that a configuration can use: of a class, or one bound to the present version. */
struct resource {
    uint64_t number; /* what the counter becomes */
    uint32_t class;  /* PROVEN_NONE: bound */
};

struct search {
    const struct proven_states *proven;
    struct linearizability_report *report;
    bool incr_needs_item;
    bool may_vanish;
    size_t width;   /* configurations in a set at most; then ... */
    bool dropped;   /* ... some were dropped: that none is left proves nothing */
    bool boundless; /* unknown operations are never used up: that one is left proves nothing */
    uint64_t now;
    uint32_t pending[PENDING_MAX]; /* records */
    uint64_t pending_bits;         /* places in use */
    uint64_t delete_bits;          /* those that are DELETEs that succeeded */
    unsigned target;               /* the place of the operation that returns */
    struct unknown_class *classes;
    uint32_t class_count;
    uint32_t *class_of; /* of a record; of an unknown CAS: CLASS_UNSEEN_PUT or PROVEN_NONE */
    struct resource *resources;
    struct configuration *parent; /* whose steps are taken */
    struct configuration *child;  /* in the making */
    size_t size;                  /* of a configuration */
    struct configurations live;   /* what the item and the operations may be like now */
    struct configurations next;
    struct configurations seen; /* on the way from live to next */
    enum linearizability_verdict failure;
};

static inline struct configuration *configuration_at(const struct search *search,
                                                     const struct configurations *set, size_t index)
{
    return (struct configuration *)(void *)(set->memory + index * search->size);
}

/* Room for one more; false: `failure` says so. */
bool configurations_reserve(struct search *search, struct configurations *set);
/* Whether the operation that returns has taken effect. */
bool search_target_done(const struct search *search, const struct configuration *c);
/* Whether an operation that changes nothing returns what its record says. */
bool search_sees(const struct search *search, const struct history_record *record,
                 const struct configuration *c);
/* Adds search->child to `next` if the target is done, else to `seen`; unless there is a better one.
 */
void search_keep(struct search *search);
/* Keeps all that search->parent can become by one step. */
void search_step(struct search *search);

#endif
