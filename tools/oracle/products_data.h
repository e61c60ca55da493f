/* The numbers of random matrices: each follows from a key and its place. */
#ifndef SYMM_TOOLS_PRODUCTS_DATA_H
#define SYMM_TOOLS_PRODUCTS_DATA_H

#include "products.h"

enum { PRODUCTS_BLOCK = 1024 /* numbers that are converted at once */ };

enum matrix { MATRIX_A, MATRIX_B, MATRIX_C };

/* The number of the process that is a rank. */
int products_process(const struct products *p, int rank);

/* From which a process draws the numbers of a matrix. All ranks of an all-gather have one A. */
uint64_t products_key(const struct products *p, int process, enum matrix matrix);

/* Draws numbers `first` to first + n - 1 of a key; n is at most PRODUCTS_BLOCK. */
void products_draw(const struct element *e, uint64_t key, size_t first, size_t n, float *out);

#endif
