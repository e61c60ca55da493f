/* File descriptors: always close-on-exec, one owner each, -1 when empty. */
#ifndef SYMM_FD_H
#define SYMM_FD_H

#include "status.h"

/* Closes *fd if it is open and sets it to -1. */
void symm__fd_close(int *fd);
void symm__fd_close_all(int *fds, int n);
/*
 * Moves a new descriptor above 2. If the program has closed stdout or stderr, its output would
 * otherwise go into the descriptor. Takes fd. Returns -1 for -1 and if it cannot be moved; errno
 * stays.
 */
int symm__fd_above_stdio(int fd);
/* Sets close-on-exec on a descriptor that the driver made. */
symm_status symm__fd_cloexec(int fd);
/* Raises the soft limit of open descriptors to the hard limit if fewer than `needed` are left. */
symm_status symm__fd_reserve(int needed);

#endif
