/* The text of a call that creates a product: ranks with different texts differ. */
#ifndef SYMM_MATMUL_NAME_H
#define SYMM_MATMUL_NAME_H

#include "product.h"

/* Names the call by the values that determine what ranks send each other. */
void symm__matmul_name(struct symm_call *call, const struct symm_matmul *m);

#endif
