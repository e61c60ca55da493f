/* Tells one host, and one run of its kernel, from another. */
#ifndef SYMM_BOOT_ID_H
#define SYMM_BOOT_ID_H

#include "runtime/base/status.h"

/* 36 characters, padded with NULs. */
symm_status symm__boot_id(char out[40]);

#endif
