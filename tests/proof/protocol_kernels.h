/* The kernels that use one protocol of symm/device.cuh each, and their arguments. */
#ifndef PROOF_PROTOCOL_KERNELS_H
#define PROOF_PROTOCOL_KERNELS_H

#include <symm/symm.h>

extern const symm_image protocol_kernels;

enum {
    PROOF_RANKS = 8,
    PROOF_BLOCKS = 4,
    PROOF_PACKS = 16, /* that one rank sends to another in a round */
    PROOF_CHANNELS = 2 * PROOF_BLOCKS + 2,
};

/* Ways of a round's data from rank to rank: the writer, and the addresses that it uses. */
enum proof_way {
    PROOF_PUT,                    /* to the reader's memory */
    PROOF_PULL,                   /* to one's own, the reader reads it there */
    PROOF_SPREAD,                 /* multimem store, read from one's own memory */
    PROOF_REDUCE,                 /* to one's own memory, multimem reduction */
    PROOF_RELAY,                  /* multimem store, multimem reduction */
    PROOF_UNICAST = PROOF_SPREAD, /* how many ways there are without multicast */
    PROOF_WAYS = PROOF_RELAY + 1
};

/*
 * Every value is computed from the salt, round, ranks and place, so kernels know what they must
 * find. `cells` is symmetric: [block][set][rank][pack], with one block more.
 */
typedef struct proof_args {
    symm_view view;
    symm_signal_pad *pad;
    char *cells;
    symm_packet *slots; /* [block][set][rank][pack]; zeroed with each new pad */
    char *own;          /* of this rank alone: [block][pack] */
    const uint32_t *salt;
    uint32_t *result; /* numbers of wrong and of checked elements */
    uint32_t rounds, packs, shift, way, variant;
    uint32_t ends; /* the group is to be aborted */
} proof_args;

/* Elements for the library's own calls: x[i] = value(salt, rank, i), small integers. */
enum proof_deed { PROOF_FILL, PROOF_SPOIL, PROOF_CHECK, PROOF_CHECK_NORM };

typedef struct proof_data_args {
    symm_view view;
    char *x;
    const uint32_t *salt;
    uint32_t *result;
    uint64_t count, first;             /* x[0] is element number `first` of the data */
    uint64_t hidden;                   /* elements of a row that is normed */
    uint32_t dtype, deed, from, ranks; /* values of the ranks from, from + 1, ... in all `ranks` */
    uint32_t op;                       /* a symm_redop: what they come to */
    uint32_t ends; /* the group is to be aborted: counts only where nobody has told this rank */
} proof_data_args;

#endif
