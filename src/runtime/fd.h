/* File descriptors: always close-on-exec, one owner each, -1 when empty. */
#ifndef SYMM_FD_H
#define SYMM_FD_H

#include "status.h"

/* Closes *fd if it is open and sets it to -1. */
void symm__fd_close(int *fd);
void symm__fd_close_all(int *fds, int n);
/* Sets close-on-exec; for descriptors that the driver made. */
symm_status symm__fd_cloexec(int fd);
/*
 * Raises the soft limit of open descriptors to the hard one, once, if fewer than `needed` are left.
 */
symm_status symm__fd_reserve(int needed);

#endif
