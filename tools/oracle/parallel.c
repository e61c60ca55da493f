/* Work on the host by several threads. */
#include "parallel.h"

#include <pthread.h>
#include <stdbool.h>

static int threads_wanted = 1;

void parallel_threads(int nthreads)
{
    threads_wanted = nthreads < 1 ? 1 : nthreads > PARALLEL_MAX ? PARALLEL_MAX : nthreads;
}

struct part {
    parallel_work work;
    void *argument;
    int index;
    size_t begin, end;
};

static void *run_part(void *arg)
{
    const struct part *p = arg;

    p->work(p->argument, p->index, p->begin, p->end);
    return NULL;
}

int parallel_run(size_t count, size_t least, parallel_work work, void *argument)
{
    struct part parts[PARALLEL_MAX];
    pthread_t threads[PARALLEL_MAX];
    bool started[PARALLEL_MAX] = {false};
    size_t nparts = count / least;

    nparts = nparts < 1 ? 1 : nparts > (size_t)threads_wanted ? (size_t)threads_wanted : nparts;
    size_t each = (count + nparts - 1) / nparts;
    for (size_t i = 0; i < nparts; i++) {
        parts[i] = (struct part){.work = work,
                                 .argument = argument,
                                 .index = (int)i,
                                 .begin = i * each < count ? i * each : count,
                                 .end = (i + 1) * each < count ? (i + 1) * each : count};
        if (i > 0)
            started[i] = pthread_create(&threads[i], NULL, run_part, &parts[i]) == 0;
    }
    for (size_t i = 0; i < nparts; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            run_part(&parts[i]);
    }
    return (int)nparts;
}
