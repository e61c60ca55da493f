/* The tools' choice of a driver. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool driver_is_choice(const char *text)
{
    return !strcmp(text, "auto") || !strcmp(text, "cuda") || !strcmp(text, "emulated");
}

bool driver_is_emulated(const symm_context *ctx)
{
    return strcmp(symm_context_driver(ctx), "emulated") == 0;
}

symm_status driver_open(const char *choice, const symm_config *config, symm_context **out,
                        char why[512])
{
    symm_config mine = *config;
    const char *set = getenv("SYMM_DRIVER");

    why[0] = 0;
    if (strcmp(choice, "auto") != 0) {
        mine.driver = choice;
        return symm_context_create(&mine, out);
    }
    if (set && *set) {
        mine.driver = NULL;
        snprintf(why, 512, "as SYMM_DRIVER says");
        return symm_context_create(&mine, out);
    }
    mine.driver = "cuda";
    symm_status st = symm_context_create(&mine, out);
    if (st != SYMM_ERROR_DRIVER && st != SYMM_ERROR_UNSUPPORTED)
        return st;
    snprintf(why, 512, "cuda does not run here: %s", symm_error_text());
    mine.driver = "emulated";
    return symm_context_create(&mine, out);
}
