/* The emulated driver's own entries, for tests that set faults or ask for rules. */
#ifndef TEST_EMULATED_H
#define TEST_EMULATED_H

/* An entry of symm/detail/emulated.h by its name. Loads the driver, which then stays.
 * NULL: there is none. */
void *emulated_symbol(const char *name);

#endif
