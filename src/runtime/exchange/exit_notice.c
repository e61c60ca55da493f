/* Keeps the list of this process's exchanges; the library's destructor sends EXIT on each. */
#include "exit_notice.h"

#include <unistd.h>

enum { WAIT_MS = 200 }; /* time for rank 0's thread to forward the notice */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct symm_exchange *exchanges;
/*
 * The process that owns the list. A forked child has a copy of it, and of a lock that another
 * thread may have held.
 */
static _Atomic pid_t owner;

void symm__exit_notice_add(struct symm_exchange *x)
{
    pthread_mutex_lock(&lock);
    if (atomic_exchange(&owner, getpid()) != getpid())
        exchanges = NULL;
    x->next_notice = exchanges;
    exchanges = x;
    pthread_mutex_unlock(&lock);
}

void symm__exit_notice_remove(struct symm_exchange *x)
{
    pthread_mutex_lock(&lock);
    for (struct symm_exchange **at = &exchanges; *at; at = &(*at)->next_notice)
        if (*at == x) {
            *at = x->next_notice;
            break;
        }
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void give_notice(void)
{
    const symm_deadline deadline = symm__deadline_in(WAIT_MS);

    if (atomic_load(&owner) != getpid())
        return;
    pthread_mutex_lock(&lock);
    for (struct symm_exchange *x = exchanges; x; x = x->next_notice) {
        struct symm_message m = {.type = SYMM_MESSAGE_EXIT};
        symm__exchange_send(x, &m);
    }
    for (struct symm_exchange *x = exchanges; x; x = x->next_notice)
        while (x->hub && !symm__hub_exits(x->hub) && !symm__deadline_over(deadline))
            symm__sleep_us(500);
    pthread_mutex_unlock(&lock);
}
