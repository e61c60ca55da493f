/*
 * Resources of a process: descriptors, threads, mappings of shared memory, reserved address space
 * and, with the emulated driver, the driver's own objects. Counts from before and after a test show
 * its leaks.
 */
#ifndef TEST_LEAKS_H
#define TEST_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <symm/detail/emulated.h>

struct leaks {
    int fds, threads, mappings, reservations;
    bool has_driver; /* the emulated driver is loaded */
    struct symm_emulated_objects driver;
};

/* Whether threads and reservations are counted: not with a sanitizer, which makes its own. */
bool leaks_sees_all(void);

/* Counts the resources of this process. */
void leaks_take(struct leaks *out);

/* Whether nothing was added since then, a second allowed; otherwise text names it. */
bool leaks_none_since(const struct leaks *before, char *text, size_t nbytes);

/* Whether this driver call gives something back: made to fail, it leaves that behind. */
bool leaks_gives_back(const char *call);

#endif
