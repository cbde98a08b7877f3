/* A log of known content on a crash_disk: a snapshot and two segments, for tests that damage it. */
#ifndef OKV_TESTS_WAL_SCENE_H
#define OKV_TESTS_WAL_SCENE_H

#include "server/wal/listing.h"
#include "tests/support/wal_machine.h"

#define WAL_SCENE_REGION (UINT64_C(8) << 20)
#define WAL_SCENE_KEYS 2000u
#define WAL_SCENE_VALUE 400u /* bytes of each value */
#define WAL_SCENE_BATCH 50u  /* keys of a batch */
/* Keys of each segment: the first changes the lowest, the second deletes the next ones. */
#define WAL_SCENE_CHANGED 500u

/* Values begin with key and round. Keys below CHANGED have round 2, those below 2 * CHANGED are
 * gone, others have round 1. The server was killed after each segment. */
struct wal_scene {
    struct crash_disk disk;
    char snapshot[OKV_WAL_NAME_SIZE], first[OKV_WAL_NAME_SIZE], second[OKV_WAL_NAME_SIZE];
};

void wal_scene_make(struct wal_scene *scene);

/* Puts keys `from` to `to` - 1, or deletes them. */
void wal_scene_change(struct wal_machine *machine, uint32_t from, uint32_t to, uint32_t round,
                      bool is_delete);

/* The round of a key in a store that was salvaged; 0: it is not there. */
uint32_t wal_scene_salvaged_round(struct wal_machine *machine, uint32_t key);

/* Has a server go on from it, put a value that has a file of its own, and die. */
void wal_scene_put_long(struct crash_disk *disk);
/* Makes `to` a disk with the same files, or adds one file to it. */
void wal_scene_copy(struct crash_disk *from, struct crash_disk *to);
void wal_scene_copy_file(struct crash_disk *from, const char *name, struct crash_disk *to);

/* The bytes of a file that is there. */
uint8_t *wal_scene_bytes(struct crash_disk *disk, const char *name, uint64_t *size);
/* Where the frame of this index begins. */
uint64_t wal_scene_frame(struct crash_disk *disk, const char *name, unsigned index,
                         uint64_t *length);
unsigned wal_scene_frames(struct crash_disk *disk, const char *name);

#endif
