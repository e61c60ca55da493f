/* Whether two matrices share memory. */
#ifndef SYMM_MATMUL_OVERLAP_H
#define SYMM_MATMUL_OVERLAP_H

#include "problem.h"

/* From the first element's address to the end of the last one's. */
uint64_t symm__operand_nbytes(const struct symm_operand *x);

/*
 * Whether they may have a byte in common. If their address ranges overlap, they are known to be
 * disjoint only as columns, rows or batches of one larger matrix, or of several at equal distances.
 */
bool symm__operands_overlap(const struct symm_operand *x, const struct symm_operand *y);

#endif
