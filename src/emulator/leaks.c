/* Reports at exit what the process still holds. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include "emulator/memory/mem_handle.h"
#include "emulator/memory/range.h"
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"

#define LEAK_EXIT_CODE 97

/* Formats "3 handles, 1 streams". Returns the number of kinds that are left. */
static int summarize(int exported, char *text, size_t nbytes)
{
    static const char *const names[] = {
#define NAME_(count, field, name) name,
        EMU_COUNT_LIST(NAME_)
#undef NAME_
    };
    size_t used = 0;
    int kinds = 0;
    for (int i = 0; i <= EMU_COUNTS; i++) {
        long long n = i < EMU_COUNTS ? (long long)emu__count_of((enum emu_count)i) : exported;
        if (n == 0)
            continue;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%lld %s", kinds++ ? ", " : "", n,
                                 i < EMU_COUNTS ? names[i] : "exported descriptors");
    }
    return kinds;
}

/* Reports nothing in a forked child, which holds nothing. */
__attribute__((destructor)) static void report_leaks(void)
{
    char text[640];
    if (emu__state() != EMU_STATE_READY || emu__machine.leaks == EMU_LEAKS_OFF)
        return;
    pthread_mutex_lock(&emu__lock);
    int exported = emu__descriptor_report();
    emu__mem_handle_report();
    emu__bind_report();
    emu__range_report();
    pthread_mutex_unlock(&emu__lock);
    if (summarize(exported, text, sizeof text) == 0)
        return;
    emu__left_line(
        text, emu__machine.leaks == EMU_LEAKS_REPORT ? " (SYMM_EMULATED_LEAKS=list: each)" : "");
    if (emu__machine.leaks == EMU_LEAKS_FAIL) {
        fflush(NULL);
        _exit(LEAK_EXIT_CODE);
    }
}
