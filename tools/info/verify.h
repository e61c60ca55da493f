/*
 * Does it work here? One rank a device moves random data between every pair by put and by get, runs
 * every algorithm of every operation, and checks each element.
 */
#ifndef SYMM_INFO_VERIFY_H
#define SYMM_INFO_VERIFY_H

#include <jansson.h>

/*
 * Starts nranks ranks of this program, on `driver`, that run verify_rank(). Returns what they
 * found, with a member "ok", or NULL when memory is short.
 */
json_t *verify_all(const char *driver, int nranks);

/* What each of those ranks does. Rank 0 writes the findings to the descriptor. Returns an exit
 * code. */
int verify_rank(int fd);

#endif
