/* Limits and reasons of a rank's calls. */
#include "actor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    ANSWER_MS = 1000,     /* a rank that is asked for its last call */
    HUB_ANSWER_MS = 2000, /* the hub, when time is up */
    QUIET_MS = 3000,      /* until the others run nothing any more */
    LEAVE_MS = 10000,     /* for which rank 0 serves the others */
};

void actor_init(struct actor *a, const struct storm_life *life, struct storm_post *post)
{
    *a = (struct actor){.life = life, .post = post};
    a->helper = (struct rank){.rank = post->rank, .nranks = life->nranks, .report = &a->helped};
}

void actor_await_moment(struct actor *a, const struct storm_event *abort)
{
    usleep((useconds_t)abort->after_us);
    a->post->deafens = abort->stop_ms;
    while (a->post->deafens)
        usleep(100);
    a->post->happened[abort->kind]++;
}

int actor_limit_ms(const struct actor *a)
{
    const int stops = life_stops_ms(a->life);

    return a->life->timeout_ms + ANSWER_MS + (stops ? stops + HUB_ANSWER_MS : 0);
}

int actor_destroy_limit_ms(const struct actor *a)
{
    return actor_limit_ms(a) + QUIET_MS + LEAVE_MS;
}

symm_status actor_end(struct actor *a, symm_status status)
{
    board_end(a->post);
    if (status == SYMM_OK)
        return status;
    a->gave_up = a->gave_up || strstr(symm_error_text(), "has not returned from the driver");
    if (a->failed[0])
        return status;
    a->status = status;
    snprintf(a->failed, sizeof a->failed, "%s: %s: %s", a->post->call, symm_status_name(status),
             symm_error_text());
    return status;
}

void actor_forget(struct actor *a)
{
    a->failed[0] = '\0';
    memset(&a->helped, 0, sizeof a->helped);
}

void actor_judge(struct actor *a, uint32_t ranks)
{
    const bool just = life_may_end(a->life, ranks) || a->post->board->leaving[a->post->life - 1];

    if (a->failed[0] && (!just || (a->status == SYMM_ERROR_TIMEOUT && !life_times_out(a->life))))
        board_report(a->post, STORM_UNJUST, "%s", a->failed);
    actor_forget(a);
}
