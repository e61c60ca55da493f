/*
 * Verifies symm on this machine: one rank per device moves random data between every pair by put
 * and by get, runs every algorithm of every operation, and checks each element.
 */
#ifndef SYMM_INFO_VERIFY_H
#define SYMM_INFO_VERIFY_H

#include <jansson.h>

/*
 * Starts nranks ranks of this program, on `driver`, that run verify_rank(). Returns their findings,
 * with a member "ok", or NULL if memory is short.
 */
json_t *verify_all(const char *driver, int nranks);

/* Verifies on one rank. Rank 0 writes the findings to the descriptor. Returns an exit code. */
int verify_rank(int fd);

#endif
