/*
 * A table of measurements by which AUTO chooses its algorithms: SYMM_TUNING_FILE. It begins with
 * the line
 *
 *     symm-tuning 1
 *
 * and each line after it is a row of six words:
 *
 *     operation ranks dtype memory bytes algorithm
 *
 * From so many bytes of a rank's larger buffer on, up to the next row of the same operation, ranks,
 * dtype and memory, this algorithm is the fastest. The operations are all-reduce, all-gather and
 * reduce-scatter; dtype is a symm_dtype's name, or `any`; memory is `symmetric`, for calls with
 * SYMM_SYMMETRIC, or `any`. Rows of one kind come in the order of their bytes. # begins a comment.
 *
 * symm-bench tune writes one more line, which a file made by hand need not have:
 *
 *     machine driver version device
 *
 * The rows hold for that driver (cuda or emulated), that version of symm and the device of that
 * name, which may be several words; on another machine such a file is refused.
 */
#ifndef SYMM_TUNING_H
#define SYMM_TUNING_H

#include <stdbool.h>
#include "runtime/base/status.h"
#include "operation.h"

enum { SYMM_TUNING_NBYTES_MAX = 1 << 20 };

struct symm_tuning;

/* Of which calls a row is. */
struct symm_tuning_key {
    enum symm_operation operation;
    int nranks;
    symm_dtype dtype; /* 0: any */
    bool symmetric;
};

/*
 * The table of SYMM_TUNING_FILE; NULL where that is not set. `machine` is what the machine line
 * must say here. Errors: ERROR_ARGUMENT (names the file, and the line and the word that are wrong,
 * or both machines), ERROR_MEMORY
 */
symm_status symm__tuning_load(const char *machine, struct symm_tuning **out);

/* The table that is this text. `name` stands for it in errors, which are those of the load. */
symm_status symm__tuning_parse(const char *name, const char *machine, const char *text,
                               size_t nbytes, struct symm_tuning **out);

/* NULL is fine. */
void symm__tuning_destroy(struct symm_tuning *tuning);

/* The algorithm of the row for so many bytes; AUTO: there is none, or no table. */
symm_algo symm__tuning_find(const struct symm_tuning *tuning, const struct symm_tuning_key *key,
                            uint64_t nbytes);

/* The same number for the same rows, whatever else is in the file. 0: no table. */
uint64_t symm__tuning_hash(const struct symm_tuning *tuning);

#endif
