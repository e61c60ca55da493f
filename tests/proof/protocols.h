/* Every protocol of the library, run with a seed. */
#ifndef PROOF_PROTOCOLS_H
#define PROOF_PROTOCOLS_H

#include "collective.h"
#include "stage.h"

struct protocol {
    const char *name;
    /* All ranks call it with the same draw. False: the group has ended. */
    bool (*run)(struct stage *st, const struct protocol *p, struct draw *draw);
    const char *kernel;
    enum collective_operation operation;
    int algo;    /* a symm_algo, or a symm_strategy */
    int product; /* a symm_matmul_kind */
    uint32_t first_way, ways, variants, least_blocks, most_blocks;
    bool multicast; /* needs it */
    bool ends;      /* leaves its group dead */
    bool wide;      /* runs in the worlds of STAGE_WIDE threads a block, where no other does */
    bool any_order; /* sums may be added in any order */
    bool stream_k;  /* SYMM_SCHEDULE_STREAM_K */
    bool whole_k;   /* without the kernel that splits k: few tiles have parts of sums, too */
};

enum { PROTOCOLS_MAX = STAGE_PADS };

extern const struct protocol protocols[];
int protocols_count(void);
/* stage_open(), with all kernels loaded: none may be, once ranks wait for each other. */
bool protocols_open(struct stage *st, struct rank *self, struct hall *hall);
int protocols_find(const char *name);        /* -1: there is none */
int protocols_pad(const struct protocol *p); /* the number of its pad */

/*
 * Runs protocols until the group has ended with ERROR_PEER. Whatever is said to be right before is
 * looked at. Counts those runs in value[1] of the rank's report.
 */
bool protocols_until_the_end(struct stage *st, struct draw *draw);

#endif
