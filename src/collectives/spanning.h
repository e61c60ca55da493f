/*
 * Collectives of groups of several domains: flat, by the engine over all ranks; or hierarchical, by
 * symm inside the domains and by the engine between ranks of the same number.
 */
#ifndef SYMM_SPANNING_H
#define SYMM_SPANNING_H

#include "engine/links.h"
#include "collective.h"

/*
 * symm__collective() of such a group: call and options are not checked yet. AUTO and forms only,
 * without a scale; no norm. HIERARCHICAL and SYMM_DETERMINISTIC need domains of as many ranks each.
 * Errors: as the operation; ERROR_STATE (in a capture, and the group has no links yet)
 */
symm_status symm__spanning(struct symm_group *group, const struct symm_collective_call *call,
                           const struct symm_data *data, const symm_options *options,
                           symm_stream stream);

/* symm__collective_unavailable() of such a group. */
const char *symm__spanning_reason(const struct symm_group *group, enum symm_operation operation,
                                  symm_algo algo, symm_dtype dtype, symm_redop op);

/* symm_barrier() of such a group, within its call. */
symm_status symm__spanning_barrier(struct symm_call *e);

/* Makes the links of a group if it has none. Stream-ordered calls do it outside of captures. */
symm_status symm__spanning_provide(struct symm_group *group, const char *name, symm_stream stream);

/* hierarchical.c: enqueues the call's work, within it, between symm__links_enter() and leave. */
symm_status symm__hierarchical(struct symm_call *e, struct symm_links *links,
                               const struct symm_collective_call *call, const void *in, void *out);

#endif
