/* The number of driver objects that the process holds, and the lines of the leak report. */
#ifndef SYMM_EMULATOR_COUNTS_H
#define SYMM_EMULATOR_COUNTS_H

#include <symm/detail/emulated.h>

enum emu_count {
    EMU_HANDLES,
    EMU_MAPPINGS,
    EMU_RESERVATIONS,
    EMU_BINDS,
    EMU_FDS,
    EMU_ALLOCATIONS,
    EMU_HOST_ALLOCATIONS,
    EMU_STREAMS,
    EMU_EVENTS,
    EMU_GRAPHS,
    EMU_GRAPH_EXECS,
    EMU_MODULES,
    EMU_CONTEXTS,
    EMU_COUNTS
};

void emu__count(enum emu_count kind, int by);
int64_t emu__count_of(enum emu_count kind);
/* The entry symm_emulated_objects. */
int emu__counts(struct symm_emulated_objects *out);

/* Prints one line of the leak report, followed by `hint`. */
void emu__left_line(const char *text, const char *hint);
/* Prints the line of one leaked object if SYMM_EMULATED_LEAKS asks for a list. */
void emu__left(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
