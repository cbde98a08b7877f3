#include "tests/support/wal_scene.h"

#include "tests/support/test.h"

#include "server/store/commands.h"
#include "server/wal/offline/salvage.h"
#include "shared/base/error.h"

static void change(struct wal_machine *machine, uint32_t key, uint32_t round, bool is_delete)
{
    uint8_t value[WAL_SCENE_VALUE];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {.key = &key,
                                          .key_length = sizeof key,
                                          .value = value,
                                          .value_length = is_delete ? 0 : sizeof value};

    memset(value, 0, sizeof value);
    memcpy(value, &key, sizeof key);
    memcpy(value + 4, &round, sizeof round);
    assert_int_equal(is_delete ? okv_store_delete(&machine->store, &machine->work, &write, &outcome)
                               : okv_store_put(&machine->store, &machine->work, &write, &outcome),
                     0);
}

void wal_scene_change(struct wal_machine *machine, uint32_t from, uint32_t to, uint32_t round,
                      bool is_delete)
{
    for (uint32_t key = from; key < to;) {
        wal_machine_enter(machine);
        for (unsigned i = 0; i < WAL_SCENE_BATCH && key < to; i++)
            change(machine, key++, round, is_delete);
        assert_int_equal(wal_machine_leave(machine), 0);
    }
}

void wal_scene_make(struct wal_scene *scene)
{
    struct wal_machine machine;

    crash_disk_init(&scene->disk, 1);
    wal_machine_init(&machine, &scene->disk, WAL_SCENE_REGION);
    assert_int_equal(wal_machine_start(&machine), 0);
    wal_scene_change(&machine, 0, WAL_SCENE_KEYS, 1, false);
    assert_int_equal(wal_machine_snapshot(&machine), 0);
    okv_wal_name(OKV_WAL_SNAPSHOT, machine.wal->segment.number, scene->snapshot);
    okv_wal_name(OKV_WAL_SEGMENT, machine.wal->segment.number, scene->first);
    wal_scene_change(&machine, 0, WAL_SCENE_CHANGED, 2, false);
    wal_machine_kill(&machine);
    assert_int_equal(wal_machine_start(&machine), 0);
    okv_wal_name(OKV_WAL_SEGMENT, machine.wal->segment.number, scene->second);
    wal_scene_change(&machine, WAL_SCENE_CHANGED, 2 * WAL_SCENE_CHANGED, 0, true);
    wal_machine_kill(&machine);
}

uint32_t wal_scene_salvaged_round(struct wal_machine *machine, uint32_t key)
{
    uint8_t value[WAL_SCENE_VALUE];
    uint32_t length, round, inside;
    uint64_t version;
    int rc = okv_store_get(&machine->store, NULL, &key, sizeof key, value, sizeof value, &length,
                           &version);

    if (rc == OKV_ENOTFOUND)
        return 0;
    assert_int_equal(rc, 0);
    assert_int_equal(length, WAL_SCENE_VALUE);
    assert_true(version > OKV_WAL_SALVAGE_RAISE);
    memcpy(&inside, value, sizeof inside);
    memcpy(&round, value + 4, sizeof round);
    assert_int_equal(inside, key);
    return round;
}

void wal_scene_put_long(struct crash_disk *disk)
{
    static uint8_t value[1 << 13];
    uint32_t key = WAL_SCENE_KEYS;
    struct wal_machine machine;
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = sizeof value};

    wal_machine_init(&machine, disk, WAL_SCENE_REGION);
    assert_int_equal(wal_machine_start(&machine), 0);
    wal_machine_enter(&machine);
    assert_int_equal(wal_machine_put_long(&machine, &write, &outcome), 0);
    assert_int_equal(wal_machine_leave(&machine), 0);
    wal_machine_kill(&machine);
}

struct copying {
    struct crash_disk *from, *to;
};

static int copy_file(const char *name, void *user)
{
    struct copying *copying = user;
    struct okv_files *to = &copying->to->files;
    struct okv_file *file;
    uint64_t size;
    uint8_t *bytes = crash_disk_bytes(copying->from, name, &size);
    struct iovec vector = {bytes, size};

    assert_int_equal(to->ops->create(to, name, &file, NULL), 0);
    if (size)
        assert_int_equal(to->ops->write(file, &vector, 1, 0, NULL), 0);
    to->ops->close(file);
    return 0;
}

void wal_scene_copy(struct crash_disk *from, struct crash_disk *to)
{
    struct copying copying = {from, to};

    crash_disk_init(to, 1);
    assert_int_equal(from->files.ops->list(&from->files, copy_file, &copying, NULL), 0);
}

void wal_scene_copy_file(struct crash_disk *from, const char *name, struct crash_disk *to)
{
    copy_file(name, &(struct copying){from, to});
}

uint8_t *wal_scene_bytes(struct crash_disk *disk, const char *name, uint64_t *size)
{
    uint8_t *bytes = crash_disk_bytes(disk, name, size);

    assert_non_null(bytes);
    return bytes;
}

uint64_t wal_scene_frame(struct crash_disk *disk, const char *name, unsigned index,
                         uint64_t *length)
{
    uint64_t size, at = OKV_WAL_HEADER_SIZE;
    const uint8_t *bytes = wal_scene_bytes(disk, name, &size);
    struct okv_wal_frame frame;

    for (;; index--) {
        assert_true(at < size);
        assert_true(okv_wal_frame_peek(bytes + at, OKV_WAL_FRAME_MAX, &frame));
        if (index == 0)
            break;
        at += frame.length;
    }
    *length = frame.length;
    return at;
}

unsigned wal_scene_frames(struct crash_disk *disk, const char *name)
{
    uint64_t size, at = OKV_WAL_HEADER_SIZE;
    const uint8_t *bytes = wal_scene_bytes(disk, name, &size);
    struct okv_wal_frame frame;
    unsigned count = 0;

    for (; at < size && okv_wal_frame_peek(bytes + at, OKV_WAL_FRAME_MAX, &frame); count++)
        at += frame.length;
    return count;
}
