/* Identifies one boot of one host. */
#ifndef SYMM_BOOT_ID_H
#define SYMM_BOOT_ID_H

#include "runtime/base/status.h"

/* 36 characters, padded with NULs. */
symm_status symm__boot_id(char out[40]);

#endif
