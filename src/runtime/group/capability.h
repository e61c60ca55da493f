/*
 * What each rank brings to a new context, and what all of them conclude from it: every rank sees
 * the same records and so comes to the same verdict by the same code, without another vote.
 */
#ifndef SYMM_CAPABILITY_H
#define SYMM_CAPABILITY_H

#include "context.h"

struct symm_capability {
    int32_t vmm, fds; /* whether it has virtual memory management; handles that are descriptors */
    int32_t compute_major, compute_minor, nsms, max_threads;
    uint64_t memory_nbytes;
    uint64_t granularity, alignment; /* least and recommended, of memory as segments ask for it */
    int32_t check;
    uint32_t epoch_start;
    uint64_t staging_nbytes, segment_nbytes, window_nbytes; /* as set; window 0: by the memory */
    uint64_t matmul_engine_nbytes;
    uint64_t tuning; /* a hash of SYMM_TUNING_FILE's rows; 0: there are none */
    CUuuid uuid;
    char driver[16];
    char multicast_off[128]; /* empty: this rank can */
};

/* What is agreed but needed only while the context is made. */
struct symm_agreed_memory {
    uint64_t granularity, alignment, segment_nbytes;
};

/*
 * Reads the settings and asks the device; tuning is NULL without SYMM_TUNING_FILE. Local. Errors:
 * ERROR_ARGUMENT (a variable: named), ERROR_DRIVER
 */
symm_status symm__capability_read(const struct symm_driver *drv, CUdevice device,
                                  const struct symm_tuning *tuning, struct symm_capability *out);

/*
 * What the ranks agree on; all[r] is rank r's record.
 * Errors, the same on all ranks: ERROR_MISMATCH (a setting differs: names ranks and values),
 * ERROR_UNSUPPORTED
 */
symm_status symm__capability_agree(const struct symm_capability *all, int nranks,
                                   struct symm_agreed *out, struct symm_agreed_memory *memory);

/*
 * Whether this rank's device reaches every rank's that this process sees. Errors: ERROR_UNSUPPORTED
 */
symm_status symm__capability_check_peers(const struct symm_driver *drv, CUdevice device,
                                         const struct symm_capability *all, int nranks);

/* Asks the driver what a multicast object needs; only where all ranks have multicast. Local. */
symm_status symm__capability_multicast(const struct symm_driver *drv,
                                       const struct symm_agreed *agreed,
                                       struct symm_agreed_memory *out);

/* Takes the largest of all ranks' answers to it, and rounds the sizes that depend on them. */
void symm__capability_settle(const struct symm_agreed_memory *all, int nranks,
                             struct symm_agreed *agreed, struct symm_agreed_memory *memory);

#endif
