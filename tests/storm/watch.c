/* Violence from outside, and the watchdog. */
#include "watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exercise.h"

enum { TURN_US = 500, MEASURE_TURNS = 100, HUNG_MS = 20000 };

enum stage { STAGE_AWAITED, STAGE_RUNS, STAGE_STOPPED, STAGE_OVER };

struct violence {
    enum stage stage;
    int64_t since_ms;
};

struct watch {
    const struct storm_plan *plan;
    struct storm_board *board;
    struct ranks *run;
    struct violence violence[STORM_LIVES][STORM_EVENTS];
    bool ended[STORM_RANKS];
    int deaf;               /* the hub that does not hear */
    int64_t hears_again_ms; /* when it goes on; 0: all hubs do */
};

static bool is_from_outside(enum storm_event_kind kind)
{
    return kind == STORM_KILL || kind == STORM_STOP || kind == STORM_LONG_STOP;
}

/* Sends a stop or kill. A stop whose life is over would delay calls of the next one. */
static struct violence strike(const struct storm_event *e, const struct storm_post *post, int life,
                              pid_t pid)
{
    const int64_t now = now_ms();

    kill(pid, e->kind == STORM_KILL ? SIGKILL : SIGSTOP);
    if (e->kind == STORM_KILL)
        return (struct violence){STAGE_OVER, now};
    if (post->life == life + 1)
        return (struct violence){STAGE_STOPPED, now};
    kill(pid, SIGCONT);
    return (struct violence){STAGE_OVER, now};
}

/* Brings one event forward. */
static void push(struct watch *w, int life, int event)
{
    const struct storm_event *e = &w->plan->lives[life].events[event];
    struct violence *v = &w->violence[life][event];
    struct storm_post *post = &w->board->posts[e->rank];
    const pid_t pid = ranks_pid(w->run, e->rank);
    const int64_t now = now_ms();

    if (w->ended[e->rank])
        v->stage = STAGE_OVER;
    if (v->stage == STAGE_AWAITED && post->life == life + 1) {
        *v = (struct violence){STAGE_RUNS, now};
    } else if (v->stage == STAGE_RUNS && now >= v->since_ms + e->after_us / 1000) {
        *v = strike(e, post, life, pid);
        post->happened[e->kind] += e->kind == STORM_KILL || v->stage == STAGE_STOPPED;
    } else if (v->stage == STAGE_STOPPED && now >= v->since_ms + e->stop_ms) {
        kill(pid, SIGCONT);
        v->stage = STAGE_OVER;
    }
}

static void push_all(struct watch *w)
{
    for (int i = 0; i < w->plan->nlives; i++)
        for (int e = 0; e < w->plan->lives[i].nevents; e++)
            if (is_from_outside(w->plan->lives[i].events[e].kind))
                push(w, i, e);
}

/* Stops the hub for a moment if a rank wants that. */
static void deafen(struct watch *w)
{
    for (int r = 0; r < w->plan->nranks; r++) {
        struct storm_post *post = &w->board->posts[r];
        if (!post->deafens || post->life == 0)
            continue;
        const int hub = w->plan->lives[post->life - 1].ranks[0];
        if (!w->ended[hub] && hub != r && !w->hears_again_ms) {
            kill(ranks_pid(w->run, hub), SIGSTOP);
            w->deaf = hub;
            w->hears_again_ms = now_ms() + post->deafens;
        }
        post->deafens = 0;
    }
    if (w->hears_again_ms && now_ms() >= w->hears_again_ms) {
        kill(ranks_pid(w->run, w->deaf), SIGCONT);
        w->hears_again_ms = 0;
    }
}

static bool is_lost(const struct storm_plan *plan, int rank)
{
    for (int i = 0; i < plan->nlives; i++)
        if (life_loses(&plan->lives[i], rank))
            return true;
    return false;
}

/* Whether the rank has ended as the plan wants it; says so if it has ended otherwise. */
static bool look_at_end(struct watch *w, int rank, bool *crashed)
{
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)ranks_pid(w->run, rank), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return false;
    const bool killed = info.si_code != CLD_EXITED && info.si_status == SIGKILL;
    const bool exited = info.si_code == CLD_EXITED && info.si_status == 0;
    if (exited || (killed && is_lost(w->plan, rank)))
        return true;
    board_report(&w->board->posts[rank], STORM_BROKEN, "its process ended with %s %d",
                 info.si_code == CLD_EXITED ? "exit code" : "signal", info.si_status);
    *crashed = true;
    return true;
}

/* Whether the rank is in a call from which it will not return. */
static bool hangs(struct watch *w, int rank)
{
    struct storm_post *post = &w->board->posts[rank];
    const long long since = post->since;

    if (w->ended[rank] || !since ||
        now_ms() - since < post->limit + board_margin_ms(w->board) + HUNG_MS)
        return false;
    board_report(post, STORM_LATE, "has not returned after %lld ms: %s",
                 (long long)now_ms() - since, post->call);
    return true;
}

void watch_round(const struct storm_plan *plan, struct storm_board *board, struct ranks *run)
{
    struct watch w = {.plan = plan, .board = board, .run = run};
    bool over = false, all = false;

    for (int turn = 0; !over && !all; turn++) {
        if (turn % MEASURE_TURNS == 0)
            board_measure(board);
        push_all(&w);
        deafen(&w);
        all = true;
        for (int r = 0; r < plan->nranks; r++) {
            w.ended[r] = w.ended[r] || look_at_end(&w, r, &over);
            over = over || hangs(&w, r);
            all = all && w.ended[r];
        }
        usleep(TURN_US);
    }
}
