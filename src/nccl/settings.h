/* SYMM_NCCL_*: as the process had them at its first call. */
#ifndef SYMM_NCCL_SETTINGS_H
#define SYMM_NCCL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include "take.h"

struct nccl_settings {
    bool forwards[NCCL_OPERATIONS]; /* by SYMM_NCCL_FORWARD */
    bool forwards_all;
    bool deterministic, stats;
    uint32_t max_blocks; /* of a call; 0: by the device */
};

const struct nccl_settings *nccl__settings(void);
/* Of the settings that all ranks must share. */
uint32_t nccl__settings_hash(void);

#endif
