/*
 * SYMM_TUNING_FILE: a table of measurements by which AUTO chooses algorithms. It begins with the
 * line
 *
 *     symm-tuning 1
 *
 * and each line after it is a row of six words:
 *
 *     operation ranks dtype memory bytes algorithm
 *
 * The algorithm is the fastest from `bytes` of a rank's larger buffer on, up to the next row of the
 * same operation, ranks, dtype and memory. ranks: their number; or `16x8`, of a group of 16 domains
 * with 8 ranks each: then the algorithm is `flat` or `hierarchical`, and memory `any`. `forward`
 * instead of an algorithm, for memory `any`: NCCL is faster, and libsymm_nccl.so leaves the call to
 * it. For AUTO it is as if there were no row. Operations: all-reduce, all-gather, reduce-scatter,
 * all-reduce-rms-norm, broadcast. dtype: the name of a symm_dtype, or `any`. memory: `symmetric`
 * for calls with SYMM_SYMMETRIC, or `any`. Rows of one kind are sorted by bytes. # begins a
 * comment.
 *
 * symm-bench tune also writes this line, which is optional:
 *
 *     machine driver version device
 *
 * The rows are then valid only for this driver (cuda or emulated), this version of symm and this
 * name of a device, which may have several words. Otherwise the file is refused.
 */
#ifndef SYMM_TUNING_H
#define SYMM_TUNING_H

#include <stdbool.h>
#include "runtime/base/status.h"
#include "operation.h"

enum {
    SYMM_TUNING_NBYTES_MAX = 1 << 20,
    SYMM_TUNING_FORWARD = 255 /* in place of a symm_algo */
};

struct symm_tuning;

/* The calls that a row is for. */
struct symm_tuning_key {
    enum symm_operation operation;
    int nranks;
    symm_dtype dtype; /* 0: any */
    bool symmetric;
    uint32_t ndomains; /* of a group of several domains, with nranks ranks each; 0: one domain */
};

/*
 * Reads the table of this file, or if it is NULL of SYMM_TUNING_FILE; NULL if the name is empty.
 * machine: the expected text of the machine line. Errors: ERROR_ARGUMENT (names the file and the
 * wrong line and word, or both machines), ERROR_MEMORY
 */
symm_status symm__tuning_load(const char *file, const char *machine, struct symm_tuning **out);

/*
 * Parses a table from text. name: "SYMM_TUNING_FILE=PATH" or the like, for error texts. Errors:
 * those of symm__tuning_load().
 */
symm_status symm__tuning_parse(const char *name, const char *machine, const char *text,
                               size_t nbytes, struct symm_tuning **out);

/* NULL is fine. */
void symm__tuning_destroy(struct symm_tuning *tuning);

/* The algorithm for a call with nbytes, or SYMM_TUNING_FORWARD; AUTO: no row, or no table. */
symm_algo symm__tuning_find(const struct symm_tuning *tuning, const struct symm_tuning_key *key,
                            uint64_t nbytes);

/* Whether the table has a row `forward` of the operation on nranks ranks, of any dtype. */
bool symm__tuning_knows_nccl(const struct symm_tuning *tuning, enum symm_operation operation,
                             int nranks);

/* A hash of the rows only. 0: no table. */
uint64_t symm__tuning_hash(const struct symm_tuning *tuning);

#endif
