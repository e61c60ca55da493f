/*
 * What this process holds of the driver: counts that tests compare, and a report of all that is
 * left when the process ends. The report is one line, so that it does not bury the error of a
 * program that failed.
 */
#include "emulator/state/machine.h"
#include "emulator/memory/object.h"

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

static void print(const char *text, const char *hint)
{
    char rank[16] = "?";
    if (emu__rank() >= 0)
        snprintf(rank, sizeof rank, "%d", emu__rank());
    fprintf(stderr, "symm-emulated[rank %s]: process %d: left at exit: %s%s\n", rank, (int)getpid(),
            text, hint);
}

void emu__left(const char *format, ...)
{
    char text[192];
    va_list list;
    if (emu__machine.leaks == EMU_LEAKS_REPORT)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    print(text, "");
}

/* "3 handles, 1 streams"; returns how many kinds of things are left. */
static int summarize(int exported, char *text, size_t nbytes)
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
    size_t used = 0;
    int kinds = 0;
    for (int i = 0; i <= EMU_COUNTS; i++) {
        long long n = i < EMU_COUNTS ? (long long)atomic_load(&counts[i]) : exported;
        if (n == 0)
            continue;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%lld %s", kinds++ ? ", " : "", n,
                                 i < EMU_COUNTS ? names[i] : "exported descriptors");
    }
    return kinds;
}

/* Only in the process that initialised the driver: a forked child holds nothing. */
__attribute__((destructor)) static void report_leaks(void)
{
    char text[640];
    if (emu__state() != EMU_STATE_READY || emu__machine.leaks == EMU_LEAKS_OFF)
        return;
    pthread_mutex_lock(&emu__lock);
    int exported = emu__descriptor_report();
    emu__object_report();
    emu__range_report();
    pthread_mutex_unlock(&emu__lock);
    if (summarize(exported, text, sizeof text) == 0)
        return;
    print(text, emu__machine.leaks == EMU_LEAKS_REPORT ? " (SYMM_EMULATED_LEAKS=list: each)" : "");
    if (emu__machine.leaks == EMU_LEAKS_FAIL) {
        fflush(NULL);
        _exit(LEAK_EXIT_CODE);
    }
}
