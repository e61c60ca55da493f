/*
 * What this process holds of the driver: counts that tests compare, and a report of all that is
 * left when the process ends.
 */
#include "machine.h"
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LEAK_EXIT_CODE 97

static _Atomic int64_t counts[EMU_COUNTS];

void emu__count(enum emu_count what, int by)
{
    atomic_fetch_add(&counts[what], by);
}

int emu__counts(struct symm_emulated_objects *out)
{
    *out = (struct symm_emulated_objects){
        .handles = atomic_load(&counts[EMU_HANDLES]),
        .mappings = atomic_load(&counts[EMU_MAPPINGS]),
        .reservations = atomic_load(&counts[EMU_RESERVATIONS]),
        .binds = atomic_load(&counts[EMU_BINDS]),
        .fds = atomic_load(&counts[EMU_FDS]),
        .allocations = atomic_load(&counts[EMU_ALLOCATIONS]),
        .host_allocations = atomic_load(&counts[EMU_HOST_ALLOCATIONS]),
        .streams = atomic_load(&counts[EMU_STREAMS]),
        .events = atomic_load(&counts[EMU_EVENTS]),
        .graphs = atomic_load(&counts[EMU_GRAPHS]),
        .graph_execs = atomic_load(&counts[EMU_GRAPH_EXECS]),
        .modules = atomic_load(&counts[EMU_MODULES]),
        .contexts = atomic_load(&counts[EMU_CONTEXTS]),
    };
    return CUDA_SUCCESS;
}

void emu__left(const char *format, ...)
{
    char text[192], rank[16] = "?";
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (emu__rank() >= 0)
        snprintf(rank, sizeof rank, "%d", emu__rank());
    fprintf(stderr, "symm-emulated[rank %s]: process %d: left at exit: %s\n", rank, (int)getpid(),
            text);
}

/* Returns how many kinds of things are left. */
static int64_t report_counts(void)
{
    static const char *const names[EMU_COUNTS] = {
        [EMU_HANDLES] = "handles",
        [EMU_MAPPINGS] = "mappings",
        [EMU_RESERVATIONS] = "reservations",
        [EMU_BINDS] = "binds",
        [EMU_FDS] = "descriptors",
        [EMU_ALLOCATIONS] = "device allocations",
        [EMU_HOST_ALLOCATIONS] = "pinned host allocations",
        [EMU_STREAMS] = "streams",
        [EMU_EVENTS] = "events",
        [EMU_GRAPHS] = "graphs",
        [EMU_GRAPH_EXECS] = "executable graphs",
        [EMU_MODULES] = "modules",
        [EMU_CONTEXTS] = "references to primary contexts",
    };
    int64_t total = 0;
    for (int i = 0; i < EMU_COUNTS; i++) {
        int64_t n = atomic_load(&counts[i]);
        if (n != 0)
            emu__left("%lld %s", (long long)n, names[i]);
        total += n != 0;
    }
    return total;
}

/* Only in the process that initialised the driver: a forked child holds nothing. */
__attribute__((destructor)) static void report_leaks(void)
{
    if (emu__state() != EMU_STATE_READY || emu__machine.leaks == EMU_LEAKS_OFF)
        return;
    int64_t left = report_counts();
    pthread_mutex_lock(&emu__lock);
    left += emu__object_report();
    emu__range_report();
    pthread_mutex_unlock(&emu__lock);
    if (left && emu__machine.leaks == EMU_LEAKS_FAIL) {
        fflush(NULL);
        _exit(LEAK_EXIT_CODE);
    }
}
