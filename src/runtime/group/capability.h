/*
 * Capabilities of the ranks of a new context. Each rank contributes a record. Every rank gets the
 * same records and computes the same result, without another vote.
 */
#ifndef SYMM_CAPABILITY_H
#define SYMM_CAPABILITY_H

#include "context.h"

struct symm_capability {
    int32_t world_rank; /* for texts */
    int32_t vmm, fds;   /* virtual memory management; memory handles as file descriptors */
    int32_t compute_major, compute_minor, nsms, max_threads;
    uint64_t memory_nbytes;
    uint64_t granularity, alignment; /* minimum and recommended, for the memory of segments */
    int32_t check;
    uint32_t epoch_start;
    /* settings; window 0: by device memory */
    uint64_t staging_nbytes, segment_nbytes, window_nbytes;
    uint64_t matmul_engine_nbytes;
    uint64_t tuning; /* a hash of the rows of the tuning file; 0: none */
    CUuuid uuid;
    char driver[16];
    char multicast_off[128]; /* empty: this rank has multicast */
};

/* Agreed values needed only while the context is created. */
struct symm_agreed_memory {
    uint64_t granularity, alignment, segment_nbytes;
};

/*
 * Reads the settings, of the configuration first, and queries the device. tuning: NULL without a
 * table. Local. Errors: ERROR_ARGUMENT (names the field or the variable), ERROR_DRIVER
 */
symm_status symm__capability_read(const symm_config *config, const struct symm_driver *drv,
                                  CUdevice device, const struct symm_tuning *tuning,
                                  struct symm_capability *out);

/*
 * Computes the agreed values; all[r] is rank r's record. Errors, the same on all ranks:
 * ERROR_MISMATCH (a setting differs: names ranks and values), ERROR_UNSUPPORTED
 */
symm_status symm__capability_agree(const struct symm_capability *all, int nranks,
                                   struct symm_agreed *out, struct symm_agreed_memory *memory);

/*
 * Checks that this rank's device can access every other rank's device that this process sees.
 * Errors: ERROR_UNSUPPORTED
 */
symm_status symm__capability_check_peers(const struct symm_driver *drv, CUdevice device,
                                         const struct symm_capability *all, int nranks);

/* Queries the granularity of multicast objects, if all ranks have multicast. Local. */
symm_status symm__capability_multicast(const struct symm_driver *drv,
                                       const struct symm_agreed *agreed,
                                       struct symm_agreed_memory *out);

/* Takes the largest granularities of all ranks and rounds the dependent sizes. */
void symm__capability_settle(const struct symm_agreed_memory *all, int nranks,
                             struct symm_agreed *agreed, struct symm_agreed_memory *memory);

#endif
