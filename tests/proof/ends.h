/* Protocols of waits that last, and of groups that end. */
#ifndef PROOF_ENDS_H
#define PROOF_ENDS_H

#include "protocols.h"

/* A protocol's `run`. */
bool ends_run_record(struct stage *st, const struct protocol *p, struct draw *draw);
bool ends_run_abort(struct stage *st, const struct protocol *p, struct draw *draw);
bool ends_run_silence(struct stage *st, const struct protocol *p, struct draw *draw);
bool ends_run_hearsay(struct stage *st, const struct protocol *p, struct draw *draw);
bool ends_run_mismatch(struct stage *st, const struct protocol *p, struct draw *draw);

#endif
