/*
 * What a table may hold after calls of which some failed: for each key the states that
 * are possible. A write that was acknowledged leaves one, one without an answer adds one,
 * and one that failed changes nothing.
 */
#ifndef OKV_TESTS_MODEL_H
#define OKV_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_KEYS 48
#define MODEL_STATES_MAX 16

/* A value is `length` times `fill`, or the decimal digits of `number` when fill is 0. */
struct model_state {
    bool present;
    char fill;
    uint32_t length;
    int64_t number;
};

struct model_item {
    char key[16];
    struct model_state may[MODEL_STATES_MAX];
    unsigned count;
};

struct model {
    struct model_item items[MODEL_KEYS];
};

void model_init(struct model *model);

/* The write that ended with `status` and would have left `state`. */
void model_wrote(struct model_item *item, int status, struct model_state state);
/* The same for those that depend on what was there. What they tell must fit; false when not. */
bool model_appended(struct model_item *item, int status, char fill, uint32_t length, size_t whole);
bool model_counted(struct model_item *item, int status, int64_t delta, int64_t sum);
/* Every item was deleted. */
void model_flushed(struct model *model, int status);

/* Whether the item may be absent, or may have this value. */
bool model_may_be_absent(const struct model_item *item);
bool model_may_be(const struct model_item *item, const void *value, size_t length);
bool model_may_have_length(const struct model_item *item, size_t length);
/* Fills `value`, which has room for 24 bytes or the state's length; returns the length. */
uint32_t model_value(const struct model_state *state, char *value);

#endif
