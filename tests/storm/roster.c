/* The members of groups. */
#include "roster.h"

int roster_place(const struct roster *roster, int rank)
{
    for (int i = 0; i < roster->n; i++)
        if (roster->ranks[i] == rank)
            return i;
    return -1;
}

uint32_t roster_bits(const struct roster *roster)
{
    uint32_t bits = 0;

    for (int i = 0; i < roster->n; i++)
        bits |= 1u << roster->ranks[i];
    return bits;
}
