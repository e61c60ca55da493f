/* Which driver a tool uses: cuda where there is one, else the emulated one, and it always says
 * which and why. */
#ifndef SYMM_TOOLS_DRIVER_H
#define SYMM_TOOLS_DRIVER_H

#include <stdbool.h>
#include <symm/symm.h>

/* True for the words that driver_open() takes: "auto", "cuda", "emulated". */
bool driver_is_choice(const char *text);

/*
 * Creates a context as `config` says, whose driver field is ignored. "auto" is what SYMM_DRIVER
 * says; when that is not set, cuda, and the emulated driver where cuda has no driver or device. The
 * context says which it is; `why` gets the reason in words for a person, empty when there was
 * nothing to decide.
 */
symm_status driver_open(const char *choice, const symm_config *config, symm_context **out,
                        char why[512]);

bool driver_is_emulated(const symm_context *ctx);

#endif
