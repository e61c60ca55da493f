/*
 * Every protocol of the library in weakly ordered memory, with many seeds: each number of ranks
 * with each size of blocks in a process of its own, with the ranks as threads. Counters start below
 * their wrap, and start again there with each new group.
 *
 *     test_protocols                                       all of it, as PROOF_SEEDS says
 *     test_protocols RANKS BLOCK FIRST LAST [PROTOCOL...]  these seeds, and how far it comes; a run
 *                                                          that does not end is killed by SIGALRM
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "products.h"
#include "test.h"

enum {
    RENEW = 10,
    ENDS_PART = 6, /* one seed in ENDS_PART runs protocols that end their group */
    LIMIT_S = 60   /* of a run, if the seeds are arguments */
};

enum { WORLDS = PROOF_RANKS - 1, BLOCKS = 5 };

static const uint32_t blocks[BLOCKS] = {1, 3, 32, 64, STAGE_WIDE};

struct plan {
    struct hall hall;
    uint64_t first, last;
    bool chosen[PROTOCOLS_MAX];
    uint64_t *runs;   /* of each protocol */
    unsigned limit_s; /* for a run, after which SIGALRM ends the process; 0: none */
};

static bool is_due(const struct plan *plan, int p, uint64_t seed)
{
    if (protocols[p].wide != (plan->hall.block >= STAGE_WIDE))
        return false;
    /* After an abort kernels run to their end, over memory that others use: races, and harmless. */
    return plan->chosen[p] && (!protocols[p].ends || (!TEST_TSAN && seed % ENDS_PART == 0));
}

/* The ranks stand still until all have come; then one of them changes the seed. */
static void begin_run(struct plan *plan, const struct rank *self, int p, uint64_t seed)
{
    pthread_barrier_wait(&plan->hall.meet);
    if (self->rank == 0) {
        plan->hall.protocol = protocols[p].name;
        plan->hall.seed = seed;
        plan->hall.runs = plan->runs[p]++;
        products_environment(&protocols[p], seed);
        if (plan->limit_s > 0) /* else Check's and the ranks' limits hold */
            alarm(plan->limit_s);
        plan->hall.set_seed(seed * PROTOCOLS_MAX + (uint64_t)p);
    }
    pthread_barrier_wait(&plan->hall.meet);
}

static void run_seeds(struct rank *self, void *arg)
{
    struct plan *plan = arg;
    struct stage st;
    if (!protocols_open(&st, self, &plan->hall))
        return;
    for (uint64_t seed = plan->first; seed < plan->last; seed++) {
        if (seed > plan->first && seed % RENEW == 0)
            stage_renew(&st);
        /* Begins with another protocol each time, which meets the wrap of the group's counters. */
        for (int i = 0; i < protocols_count(); i++) {
            const int p = (int)((seed / RENEW + (uint64_t)i) % (uint64_t)protocols_count());
            if (!is_due(plan, p, seed) || (protocols[p].multicast && symm_multicast_off(st.group)))
                continue;
            begin_run(plan, self, p, seed);
            protocols[p].run(&st, &protocols[p], &(struct draw){seed * 1000 + (uint64_t)p});
            if (protocols[p].ends)
                stage_renew(&st);
        }
    }
    stage_close(&st);
}

static void prepare(struct plan *plan, int nranks, uint32_t block)
{
    plan->hall.block = block;
    plan->hall.protocol = "joining";
    stage_environment(nranks, block, plan->first);
    pthread_barrier_init(&plan->hall.meet, NULL, (unsigned)nranks);
}

/* ---- the test ---- */

static uint64_t *counts; /* shared by the cases, which are processes: [world][block][protocol] */

static uint64_t *counts_of(int nranks, int b)
{
    return counts + ((nranks - 2) * BLOCKS + b) * PROTOCOLS_MAX;
}

static int seeds(void)
{
    const char *text = getenv("PROOF_SEEDS");
    return text ? atoi(text) : 2;
}

TEST_GROUP(blocks_1, 300);
TEST_GROUP(blocks_3, 300);
TEST_GROUP(blocks_32, 300);
TEST_GROUP(blocks_64, 300);
TEST_GROUP(blocks_512, 300);

TEST_BODY(every_protocol_is_right)
{
    const int nranks = 2 + _i % WORLDS, b = _i / WORLDS;
    if (TEST_TSAN && blocks[b] >= STAGE_WIDE)
        TEST_SKIP(
            "blocks of %d threads: ThreadSanitizer takes 8128 threads of all ranks, and fibers "
            "are threads to it",
            STAGE_WIDE);
    struct plan plan = {.first = (uint64_t)(_i * 1000), .runs = counts_of(nranks, b)};
    plan.last = plan.first + (uint64_t)seeds();
    memset(plan.chosen, true, sizeof plan.chosen);
    prepare(&plan, nranks, blocks[b]);
    ranks_run_ok(nranks, RANKS_AS_THREADS, run_seeds, &plan, 280);
}
TEST_ADD(blocks_1, every_protocol_is_right, 0, WORLDS);
TEST_ADD(blocks_3, every_protocol_is_right, 1 * WORLDS, 2 * WORLDS);
TEST_ADD(blocks_32, every_protocol_is_right, 2 * WORLDS, 3 * WORLDS);
TEST_ADD(blocks_64, every_protocol_is_right, 3 * WORLDS, 4 * WORLDS);
TEST_ADD(blocks_512, every_protocol_is_right, 4 * WORLDS, 5 * WORLDS);

static void print_counts(void)
{
    for (int p = 0; p < protocols_count(); p++) {
        uint64_t all = 0;
        for (int i = 0; i < WORLDS * BLOCKS; i++)
            all += counts[i * PROTOCOLS_MAX + p];
        printf("# %s: %llu runs, 0 wrong\n", protocols[p].name, (unsigned long long)all);
    }
}

/* ---- by argument ---- */

struct thread {
    pthread_t thread;
    struct rank self;
    struct rank_report report;
    struct plan *plan;
};

static void *be_rank(void *arg)
{
    struct thread *t = arg;
    run_seeds(&t->self, t->plan);
    return NULL;
}

/* Outside of a suite, whose assertions do not work here. */
static void run_ranks(struct plan *plan, int nranks)
{
    struct thread threads[PROOF_RANKS] = {0};
    char session[32];
    snprintf(session, sizeof session, "proof-%d", (int)getpid());
    for (int r = 0; r < nranks; r++) {
        threads[r].plan = plan;
        threads[r].self = (struct rank){r, nranks, RANKS_AS_THREADS, session, &threads[r].report};
        pthread_create(&threads[r].thread, NULL, be_rank, &threads[r]);
    }
    for (int r = 0; r < nranks; r++)
        pthread_join(threads[r].thread, NULL);
}

static int run_plan(int argc, char **argv)
{
    uint64_t runs[PROTOCOLS_MAX] = {0};
    struct plan plan = {.first = strtoull(argv[3], NULL, 0),
                        .last = strtoull(argv[4], NULL, 0),
                        .runs = runs,
                        .limit_s = LIMIT_S};
    for (int i = 5; i < argc; i++) {
        const int p = protocols_find(argv[i]);
        if (p < 0) {
            fprintf(stderr, "there is no protocol %s\n", argv[i]);
            return 2;
        }
        plan.chosen[p] = true;
    }
    if (argc == 5)
        memset(plan.chosen, true, sizeof plan.chosen);
    prepare(&plan, atoi(argv[1]), (uint32_t)atoi(argv[2]));
    run_ranks(&plan, atoi(argv[1]));
    for (int p = 0; p < protocols_count(); p++)
        if (runs[p])
            printf("# %s: %llu runs, 0 wrong\n", protocols[p].name, (unsigned long long)runs[p]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 5)
        return run_plan(argc, argv);
    const size_t nbytes = WORLDS * BLOCKS * PROTOCOLS_MAX * sizeof *counts;
    counts = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 1;
    const int code = test_main();
    if (code == 0)
        print_counts();
    munmap(counts, nbytes);
    return code;
}
