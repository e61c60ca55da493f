/*
 * The memory that kernels and the host share about signals: the cells of a pad, the record a long
 * wait leaves for the host, and the words by which a group is ended. Internal; read by C, nvcc and
 * the emulated build.
 */
#ifndef SYMM_DETAIL_WAIT_RECORD_H
#define SYMM_DETAIL_WAIT_RECORD_H

#include <stdint.h>

/*
 * A pad is cell[channel][nranks] in symmetric device memory. In rank m's pad, the cell (channel, r)
 * holds what r has signalled to m, how much m has signalled to r, and how many of r's signals m has
 * taken. Only r writes `arrived` (with one 8-byte store, so that count and word come together);
 * only m touches the rest. Counts only grow, from SYMM_EPOCH_START, and are compared cyclically. In
 * the cell of m with itself `sent` may instead count the blocks of a grid that have come to a
 * barrier, with `taken` as what it was at the barrier before, or the epochs of packets.
 */
struct symm_signal_cell {
    uint64_t arrived; /* low half: signals so far; high half: the word that came with the last */
    uint32_t sent, taken;
};

/*
 * Behind the last cell of a pad. No signals make such a cell: emulated kernels see by it where the
 * pad ends.
 */
#define SYMM_PAD_END_ARRIVED UINT64_C(0x53594d4d20454e44)
#define SYMM_PAD_END_SENT UINT32_C(0xaca6b2b2)
#define SYMM_PAD_END_TAKEN UINT32_C(0x50414453)

enum symm_wait_kind {
    SYMM_WAIT_SIGNAL = 1, /* waits for `expected` signals in all, has seen `seen` */
    SYMM_WAIT_MISMATCH,   /* rank `from` called something else: `seen` is its word */
    SYMM_WAIT_PACKET,     /* waits for a packet at `pad` with flag `expected`, has seen `seen` */
    SYMM_WAIT_GRID        /* waits for `expected` arrivals of its own grid, has seen `seen` */
};

/*
 * In pinned host memory, one a group. The thread that holds the claim fills it in, with `valid`
 * last (release at system scope), and zeroes `valid` before it gives the claim back. A mismatch
 * stays.
 */
struct symm_wait_record {
    uint32_t valid; /* 0: nobody waits long; else a number that differs from the wait before */
    uint32_t kind;
    int32_t from; /* in the group */
    int32_t channel;
    uint32_t expected, seen;
    uint64_t pad; /* this rank's address of it */
    uint32_t reserved[8];
};

/*
 * In pinned host memory, one a group: what view.abort points at (the abort word first) and
 * view.record (the record).
 */
struct symm_host_line {
    uint32_t abort;
    uint32_t reserved[15];
    struct symm_wait_record record;
};

/* In device memory, one a group: what view.poison points at. */
struct symm_device_line {
    uint32_t poison; /* set by who first sees the abort word: nothing leaves this rank any more */
    uint32_t claim;  /* 0: free; 1: a thread of this rank is using the record */
    uint32_t serial; /* the last value of record.valid; only the holder of the claim touches it */
    uint32_t reserved[29];
};

#endif
