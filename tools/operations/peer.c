/* Shared by the libraries that symm is compared with. */
#include "peer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

symm_status peer_agree(symm_group *group, char why[PEER_WHY])
{
    char *all = calloc((size_t)symm_nranks(group), PEER_WHY);
    symm_status st = all ? symm_exchange(group, why, PEER_WHY, all) : SYMM_ERROR_MEMORY;

    for (int r = 0; st == SYMM_OK && r < symm_nranks(group) && !why[0]; r++)
        snprintf(why, PEER_WHY, "%.511s", all + (size_t)r * PEER_WHY);
    free(all);
    return st;
}

bool peer_look_up(void *library, const struct peer_function *functions, int n, char why[PEER_WHY])
{
    for (int i = 0; i < n; i++) {
        void *function = dlsym(library, functions[i].name);

        if (!function && !functions[i].optional) {
            snprintf(why, PEER_WHY, "the library has no %s", functions[i].name);
            return false;
        }
        memcpy(functions[i].slot, &function, sizeof function);
    }
    return true;
}
