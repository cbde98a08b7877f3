/*
 * Where the epochs of a log begin. One primary writes the frames of an epoch, so two logs whose
 * last frames are of one epoch are equal up to the shorter one's end.
 */
#ifndef OKV_SERVER_CLUSTER_EPOCHS_H
#define OKV_SERVER_CLUSTER_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#define OKV_EPOCHS_MAX 16
/* An epoch is the upper part of the number of a value's file, and has 24 bits there. */
#define OKV_EPOCH_MAX ((UINT64_C(1) << 24) - 1)

/* The latest; the oldest is forgotten when there are more. */
struct okv_epochs {
    unsigned count;
    struct {
        uint64_t epoch, begin;
    } of[OKV_EPOCHS_MAX]; /* epochs rise, positions do not fall */
};

/* Whether the epochs rise up to `last`, and the positions do not fall: a peer may have sent it. */
bool okv_epochs_are_valid(const struct okv_epochs *epochs, uint64_t last);
/* Epoch `epoch` begins at `begin`; those that would begin later go. */
void okv_epochs_add(struct okv_epochs *epochs, uint64_t epoch, uint64_t begin);
/* The epoch of the frame that ends at `position`; 0: unknown, or there is none. */
uint64_t okv_epochs_at(const struct okv_epochs *epochs, uint64_t position);
/* Up to where a log that ends at `position`, in `epoch`, surely equals the log that has these
 * epochs. False: they do not say. */
bool okv_epochs_cut(const struct okv_epochs *epochs, uint64_t epoch, uint64_t position,
                    uint64_t *cut);

#endif
