/* The emulated driver's own entries, for tests that set faults or ask for rules. */
#ifndef TEST_EMULATED_H
#define TEST_EMULATED_H

#include <stdbool.h>

/* An entry of symm/detail/emulated.h by its name, or NULL. Loads the driver, which then stays. */
void *emulated_symbol(const char *name);

bool emulated_set_fault(const char *spec); /* NULL: none */
const char *emulated_last_rule(void);
const char *emulated_last_fault(void);

#endif
