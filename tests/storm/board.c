/* The board in shared memory, and the clock of each call. */
#include "board.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "exercise.h"

enum { MARGIN_MS = 1000, MARGIN_A_TASK_MS = 200 };

struct storm_board *board_create(void)
{
    void *at = mmap(NULL, sizeof(struct storm_board), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

void board_destroy(struct storm_board *board)
{
    munmap(board, sizeof *board);
}

void board_clear(struct storm_board *board, const struct storm_plan *plan)
{
    memset(board, 0, sizeof *board);
    for (int r = 0; r < plan->nranks; r++) {
        board->posts[r].board = board;
        board->posts[r].seed = plan->seed;
        board->posts[r].rank = r;
    }
    board_measure(board);
}

void board_measure(struct storm_board *board)
{
    const int nprocessors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int running = 1;
    FILE *f = fopen("/proc/loadavg", "re");

    if (f && fscanf(f, "%*f %*f %*f %d/", &running) != 1)
        running = 1;
    if (f)
        fclose(f);
    const int load = 1 + running / nprocessors;
    if (load > board->load) /* the most of the round: a call has lasted for a while */
        board->load = load;
}

long long board_margin_ms(const struct storm_board *board)
{
    return MARGIN_MS + (long long)MARGIN_A_TASK_MS * (board->load - 1);
}

void board_begin(struct storm_post *post, const char *call, int limit_ms)
{
    post->call = call;
    post->limit = limit_ms;
    post->since = now_ms();
}

void board_end(struct storm_post *post)
{
    const long long took = now_ms() - post->since, over = took - post->limit;

    post->since = 0;
    post->calls++;
    if (over > post->worst) {
        post->worst = over;
        post->worst_call = post->call;
    }
    if (over > board_margin_ms(post->board))
        board_report(post, STORM_LATE, "%lld ms, of which %lld were to be expected, load %d: %s",
                     took, (long long)post->limit, post->board->load, post->call);
}

void board_report(struct storm_post *post, enum storm_wrong wrong, const char *fmt, ...)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        STORM_FAULTS(NAME_)
#undef NAME_
    };
    char text[1024];
    va_list args;

    post->wrong[wrong]++;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "storm: %s: seed %llu, life %d, rank %d: %s\n", names[wrong],
            (unsigned long long)post->seed, post->life - 1, post->rank, text);
}

void board_meet(atomic_int *came, int n)
{
    for (++*came; *came < n;)
        pause_ms(1);
}
