/* Protocols of all-reduces with residual and norm. */
#ifndef PROOF_NORMS_H
#define PROOF_NORMS_H

#include "protocols.h"

/* A protocol's `run`. */
bool norms_run(struct stage *st, const struct protocol *p, struct draw *draw);

#endif
