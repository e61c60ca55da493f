/* The host's part of the protocols of matrix products. */
#ifndef PROOF_PRODUCTS_H
#define PROOF_PRODUCTS_H

#include <symm/matmul.h>
#include "protocols.h"

/*
 * Before ranks run the protocol: settings of the Hopper kernel. Half of the seeds force the shape
 * of its tiles.
 */
void products_environment(const struct protocol *p, uint64_t seed);

/* Products of random shapes, by the strategy that is the protocol's algo. */
bool products_run(struct stage *st, const struct protocol *p, struct draw *draw);
/* The same of data that suit the Hopper kernel. */
bool products_hopper(struct stage *st, const struct protocol *p, struct draw *draw);
/* The same of plain products, with tiles of each shape. */
bool products_plain(struct stage *st, const struct protocol *p, struct draw *draw);
/* All-reduces whose sums the switch makes beside the product, or of some ranks behind it. */
bool products_bands(struct stage *st, const struct protocol *p, struct draw *draw);
/* All-reduces of a tile or a few, of which two blocks have parts of k. */
bool products_stream_k(struct stage *st, const struct protocol *p, struct draw *draw);
/* All-reduces of few rows, of data that suit it on all ranks, on some, or on none. */
bool products_packs(struct stage *st, const struct protocol *p, struct draw *draw);
/*
 * The same of batches that begin in mid-strip, with one rank whose copy engines send a strip some
 * time after the one before it: a tile with rows of both must wait for both.
 */
bool products_late(struct stage *st, const struct protocol *p, struct draw *draw);
/*
 * One rank gives up instead of running its product. The others, which wait for it until they may
 * send, must tell nobody of rows, and their blocks must send none.
 */
bool products_silence(struct stage *st, const struct protocol *p, struct draw *draw);

#endif
