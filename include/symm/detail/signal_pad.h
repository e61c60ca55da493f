/*
 * What signals are made of in device memory: read and written by kernels (device_inline.cuh), zeroed or preset and
 * watched by the host. C and C++; nothing here calls anything.
 *
 * A pad is an array of cells, [channel][rank], in symmetric memory. For a signal from rank s to rank t the *arrived*
 * word is in t's pad at [channel][s] and is written by s alone, with one 8-byte release store; s counts what it has
 * sent in its own pad at [channel][t], t counts what it has taken at [channel][s]. So each word has one writer, nothing
 * is ever reset, and graphs replay. Counts wrap: they are compared as signed differences.
 */
#ifndef SYMM_DETAIL_SIGNAL_PAD_H
#define SYMM_DETAIL_SIGNAL_PAD_H

#include <symm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct symm_signal_cell {
    uint64_t arrived; /* low half: signals that have come; high half: the word that came with the last */
    uint32_t sent;    /* signals this rank has sent to the rank of this cell */
    uint32_t taken;   /* signals of the rank of this cell that waits have taken */
} symm_signal_cell;

/* Bytes of a pad. To start at epoch e, set the low half of arrived, sent and taken of every cell to e on all ranks. */
#define SYMM_SIGNAL_PAD_NBYTES(nchannels, nranks)                                                                      \
    ((size_t)(nchannels) * (size_t)(nranks) * sizeof(symm_signal_cell))

/* Device memory behind symm_view.poison, one a group and rank; starts as zeros. */
typedef struct symm_signal_state {
    uint32_t poison; /* not 0: the group is dead; no wait waits and no signal leaves this rank any more */
    uint32_t claim;  /* odd: a wait owns the record below; even: it is free */
} symm_signal_state;

/*
 * Pinned host memory behind symm_view.record, one a group and rank; starts as zeros. The wait that holds the claim
 * writes it after a long time without progress and sets turn to 0 when it ends well; one that an abort ends leaves it.
 * The host reads turn (acquire), the fields, and turn again: not 0 and the same twice means a whole record.
 */
typedef struct symm_wait_record {
    uint32_t turn;     /* odd, another value for each record; 0: nobody waits long */
    int32_t from;      /* rank, in the group, that has not signalled */
    int32_t channel;
    uint32_t expected; /* count that ends the wait */
    uint32_t seen;     /* count that was there when the record was written */
    uint32_t mismatch; /* not 0: ranks called different things; not guarded by turn, never cleared */
    uint64_t pad;      /* this rank's address of the pad */
} symm_wait_record;

#ifdef __cplusplus
}
#endif

#endif
