#include "tests/support/stub_lease.h"

#include <time.h>

#include "tests/support/test.h"

#define SERVER_AHEAD_US UINT64_C(777000000)

uint64_t lease_ns;
unsigned clock_reads;
unsigned ends_at;
bool renews;
unsigned heartbeat_ms;
static uint64_t renewed_ms;

int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    if (id != CLOCK_BOOTTIME && id != CLOCK_MONOTONIC_RAW)
        return __real_clock_gettime(id, time);
    clock_reads++;
    *time = (struct timespec){.tv_sec = (time_t)(lease_ns / 1000000000u),
                              .tv_nsec = (long)(lease_ns % 1000000000u)};
    return 0;
}

void pass_ms(uint64_t ms)
{
    lease_ns += ms * 1000000u;
}

uint64_t server_us(void)
{
    return lease_ns / 1000 + SERVER_AHEAD_US;
}

void publish(uint64_t valid_until_us, uint64_t epoch)
{
    const struct okv_table_status status = {
        .clock_ms = STUB_CLOCK,
        .bucket_count = STUB_BUCKETS,
        .lease = {.valid_until_us = valid_until_us, .epoch = epoch, .flags = OKV_LEASE_MEMBER},
    };

    okv_status_encode(&status, STUB_BOOT,
                      (struct okv_wire_status *)(stub.region + OKV_STATUS_OFFSET));
}

void renew(void)
{
    publish(server_us() + LEASE_MS * 1000, EPOCH);
}

bool lease_answer(const struct stub_request *request, struct stub_reply *reply)
{
    static okv_le64 clock;

    clock = okv_le64_of(server_us());
    if (request->message.opcode == OKV_OP_PING)
        reply->message.value = (const uint8_t *)&clock;
    return true;
}

static void before_read(unsigned n)
{
    if (heartbeat_ms && lease_ns / 1000000 - renewed_ms >= heartbeat_ms) {
        renewed_ms = lease_ns / 1000000;
        renew();
    }
    if (n == ends_at)
        pass_ms(LEASE_MS + 100);
    else if (ends_at && n > ends_at && renews && stub.last_read == OKV_STATUS_OFFSET)
        renew();
}

int lease_setup(void **state)
{
    values_setup(state);
    lease_ns = UINT64_C(5000000000000);
    renewed_ms = lease_ns / 1000000;
    ends_at = heartbeat_ms = 0;
    renews = false;
    stub.welcome.features = OKV_FEATURE_LEASE;
    stub.welcome.lease_ms = LEASE_MS;
    stub.welcome.epoch = EPOCH;
    stub.welcome.lease_clock_us = server_us();
    stub.welcome.valid_until_us = server_us() + LEASE_MS * 1000;
    stub.answer = lease_answer;
    stub.before_read = before_read;
    renew();
    return 0;
}

void write_inline(void)
{
    struct okv_entry entry = stub_inline(keys[0], "value");

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
}

int call_get(void)
{
    return okv_get(handle, keys[0], strlen(keys[0]), got, LONG, &length, NULL);
}
