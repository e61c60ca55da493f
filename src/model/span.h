/*
 * What the two forms of a call between domains take: NCCL over all ranks; or symm inside each
 * domain, and NCCL on the rails between them. Measured on no cluster. Pure.
 *
 * Of a domain: GPUs of one host, joined by NVLink, each with a network card of its own.
 */
#ifndef SYMM_SPAN_MODEL_H
#define SYMM_SPAN_MODEL_H

#include "nccl.h"

enum {
    SYMM_MODEL_CHANNELS = 2,   /* of NCCL for each GPU of a host: its network card of 400 Gb/s */
    SYMM_MODEL_BLOCKS = 132,   /* of symm's kernels */
    SYMM_MODEL_NEXT_NS = 1500, /* from one kernel of a stream to the next */
    SYMM_MODEL_MEMORY_BYTES_PER_US = 3400000 /* read and written by one GPU */
};

struct symm_span_model {
    enum symm_model_operation operation;
    uint64_t nbytes;   /* of the whole buffer */
    uint32_t ndomains; /* at least 2 */
    uint32_t width;    /* ranks of each domain */
};

uint64_t symm__flat_ns(const struct symm_span_model *m);
uint64_t symm__flat_nvls_ns(const struct symm_span_model *m); /* NCCL with multicast */
uint64_t symm__hierarchical_ns(const struct symm_span_model *m);

/*
 * Whether the hierarchical form is clearly faster: by a tenth. So flat is the default where the
 * model cannot tell.
 */
bool symm__hierarchical_pays(const struct symm_span_model *m);

#endif
