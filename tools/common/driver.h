/* The driver of a tool: cuda where it runs, else the emulated one; it prints which and why. */
#ifndef SYMM_TOOLS_DRIVER_H
#define SYMM_TOOLS_DRIVER_H

#include <stdbool.h>
#include <symm/symm.h>

/* Whether driver_open() takes the word: "auto", "cuda", "emulated". */
bool driver_is_choice(const char *text);

/*
 * Creates a context by `config`, whose driver field is ignored. "auto" is the value of SYMM_DRIVER;
 * if that is not set, cuda, and the emulated driver if cuda has no driver or device. `why` gets the
 * reason, empty if there was no choice.
 */
symm_status driver_open(const char *choice, const symm_config *config, symm_context **out,
                        char why[512]);

bool driver_is_emulated(const symm_context *ctx);

#endif
