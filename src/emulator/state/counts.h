/* The number of driver objects that the process holds, and the lines of the leak report. */
#ifndef SYMM_EMULATOR_COUNTS_H
#define SYMM_EMULATOR_COUNTS_H

#include <symm/detail/emulated.h>

/* X(count, field of symm_emulated_objects, name in the leak report) */
#define EMU_COUNT_LIST(X)                                                                          \
    X(EMU_HANDLES, handles, "handles")                                                             \
    X(EMU_MAPPINGS, mappings, "mappings")                                                          \
    X(EMU_RESERVATIONS, reservations, "reservations")                                              \
    X(EMU_BINDS, binds, "binds")                                                                   \
    X(EMU_FDS, fds, "descriptors")                                                                 \
    X(EMU_ALLOCATIONS, allocations, "device allocations")                                          \
    X(EMU_HOST_ALLOCATIONS, host_allocations, "pinned host allocations")                           \
    X(EMU_STREAMS, streams, "streams")                                                             \
    X(EMU_EVENTS, events, "events")                                                                \
    X(EMU_GRAPHS, graphs, "graphs")                                                                \
    X(EMU_GRAPH_EXECS, graph_execs, "executable graphs")                                           \
    X(EMU_MODULES, modules, "modules")                                                             \
    X(EMU_CONTEXTS, contexts, "references to primary contexts")

enum emu_count {
#define EMU_ENUM_(count, field, name) count,
    EMU_COUNT_LIST(EMU_ENUM_)
#undef EMU_ENUM_
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
