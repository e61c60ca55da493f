/* File descriptors: always close-on-exec, one owner each, -1 when empty. */
#ifndef SYMM_FD_H
#define SYMM_FD_H

#include "status.h"

/* Closes *fd if it is open and sets it to -1. */
void symm__fd_close(int *fd);
void symm__fd_close_all(int *fds, int n);
/*
 * Moves a new descriptor above 2, where no standard file was open: else whatever the program prints
 * would go there. Takes fd; -1 (errno stays) for -1 and where it cannot be moved.
 */
int symm__fd_above_stdio(int fd);
/* Sets close-on-exec; for descriptors that the driver made. */
symm_status symm__fd_cloexec(int fd);
/*
 * Raises the soft limit of open descriptors to the hard one, once, if fewer than `needed` are left.
 */
symm_status symm__fd_reserve(int needed);

#endif
