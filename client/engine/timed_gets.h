/*
 * Times of gets, for reports. One get of many is timed, as the fast path reads no clock otherwise.
 * Which one is random for each handle: first gets, which are slow, count no more than others.
 * Gets of okv_call_many() are not timed: they wait for each other.
 */
#ifndef OKV_CLIENT_ENGINE_TIMED_GETS_H
#define OKV_CLIENT_ENGINE_TIMED_GETS_H

#include "client/handle.h"

#define TIMED_GETS_ONE_IN 64u

/* True when the next get to end is timed. */
static inline bool get_is_timed(const okv *handle)
{
    return handle->counters.gets % TIMED_GETS_ONE_IN == handle->timed_phase;
}

static inline void get_time(okv *handle, uint64_t begun_ns, uint64_t now_ns)
{
    uint64_t ns = now_ns - begun_ns;

    handle->reporting.get_ns += ns;
    handle->reporting.cells[okv_report_cell(ns)]++;
}

#endif
