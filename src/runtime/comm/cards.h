/*
 * What ranks tell each other before they have a session: a card each, gathered by the caller's
 * all_gather, or over TCP where the ranks are on several hosts.
 */
#ifndef SYMM_CARDS_H
#define SYMM_CARDS_H

#include "join.h"

/*
 * Gathers the cards of all ranks by config->all_gather. Rank 0's card has session and token, which
 * join gets. With config->span, and ranks on several hosts, join->span gets their domains.
 * Errors: ERROR_SYSTEM       all_gather failed, or a rank has no random bytes or no boot id
 *         ERROR_MISMATCH     the cards are not those of ranks 0 to nranks - 1
 *         ERROR_UNSUPPORTED  several hosts without config->span
 *         ERROR_ARGUMENT, ERROR_STATE  rank 0 cannot listen at config->address
 *         ERROR_MEMORY
 */
symm_status symm__cards_gather(const symm_config *config, struct symm_join *join);

/*
 * The same over TCP, for a job with config->span and without all_gather. Session and token are
 * join's own. Does nothing if the launcher says that all ranks are on one host, unless an address
 * is given.
 * Errors: ERROR_ARGUMENT  nothing tells where rank 0 listens
 *         those of symm__meeting_listen() and symm__meeting_gather()
 */
symm_status symm__cards_meet(const symm_config *config, const struct symm_join_wait *wait,
                             struct symm_join *join);

#endif
