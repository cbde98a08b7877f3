#include "tests/support/block_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/support/test.h"

/* ---- commands ---- */

static bool shell_run(char command[512], const char *format, va_list arguments)
{
    vsnprintf(command, 512, format, arguments);
    return system(command) == 0;
}

bool shell_try(const char *format, ...)
{
    char command[512];
    va_list arguments;

    va_start(arguments, format);
    bool went_well = shell_run(command, format, arguments);
    va_end(arguments);
    return went_well;
}

void shell(const char *format, ...)
{
    char command[512];
    va_list arguments;

    va_start(arguments, format);
    bool went_well = shell_run(command, format, arguments);
    va_end(arguments);
    if (!went_well)
        fail_msg("failed: %s", command);
}

void loop_attach(const char *file, uint64_t size, char device[32])
{
    char command[512];

    shell("truncate -s %llu %s", (unsigned long long)size, file);
    snprintf(command, sizeof command, "losetup --find --show %s", file);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_int_equal(fscanf(output, "%31s", device), 1);
    assert_int_equal(pclose(output), 0);
}

void loop_detach(const char *device)
{
    if (device[0])
        shell("losetup --detach %s", device);
}

/* ---- the device mapper ---- */

struct request {
    struct dm_ioctl head;
    union {
        struct dm_target_spec spec;
        struct dm_target_msg message;
        char bytes[512];
    } data;
};

static void call(const struct mapped_device *device, unsigned long code, struct request *request)
{
    struct dm_ioctl *head = &request->head;

    head->version[0] = DM_VERSION_MAJOR;
    head->data_size = sizeof *request;
    head->data_start = offsetof(struct request, data);
    snprintf(head->name, sizeof head->name, "%s", device->name);
    if (ioctl(device->control, code, request))
        fail_msg("the device mapper refuses request %lx of %s: %s", code, device->name,
                 strerror(errno));
}

/* The new target waits until the device is resumed. */
static void load(const struct mapped_device *device, const char *target, const char *parameters)
{
    struct request request = {.head.target_count = 1};
    struct dm_target_spec *spec = &request.data.spec;
    char *text = request.data.bytes + sizeof *spec;

    spec->length = device->sectors;
    snprintf(spec->target_type, sizeof spec->target_type, "%s", target);
    snprintf(text, sizeof request.data - sizeof *spec, "%s", parameters);
    call(device, DM_TABLE_LOAD, &request);
}

static void resume(const struct mapped_device *device)
{
    struct request request = {.head.flags = 0};

    call(device, DM_DEV_SUSPEND, &request);
}

void mapped_device_create(struct mapped_device *device, const char *name, uint64_t size,
                          const char *target, const char *parameters)
{
    struct request request = {.head.flags = 0};

    device->control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
    assert_true(device->control > 0);
    device->sectors = size / BLOCK_SECTOR;
    snprintf(device->name, sizeof device->name, "%s", name);
    call(device, DM_DEV_CREATE, &request);
    snprintf(device->path, sizeof device->path, "/dev/dm-%u", minor(request.head.dev));
    load(device, target, parameters);
    resume(device);
}

void mapped_device_change(struct mapped_device *device, const char *target, const char *parameters)
{
    /* The file system on it is not asked to write back what it has: that could fail. */
    struct request request = {.head.flags = DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG};

    load(device, target, parameters);
    call(device, DM_DEV_SUSPEND, &request);
    resume(device);
}

void mapped_device_message(const struct mapped_device *device, const char *message)
{
    struct request request = {.head.flags = 0};
    char *text = request.data.bytes + sizeof request.data.message;

    snprintf(text, sizeof request.data - sizeof request.data.message, "%s", message);
    call(device, DM_TARGET_MSG, &request);
}

void mapped_device_remove(struct mapped_device *device)
{
    struct request request = {.head.flags = 0};

    if (!device->control)
        return;
    call(device, DM_DEV_REMOVE, &request);
    close(device->control);
    device->control = 0;
}
