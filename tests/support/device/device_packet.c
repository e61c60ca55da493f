/* Epochs and packets. */
#include <stdlib.h>
#include <string.h>
#include "device_bench.h"
#include "reference.h"

/* ---- Epochs ---- */

enum { EPOCH_BLOCKS = 3, EPOCH_ROUNDS = 7 };

/* After the largest comes 2: never 0, and even and odd go on taking turns. */
static uint32_t next_epoch(uint32_t epoch)
{
    return epoch == UINT32_MAX ? 2 : epoch + 1;
}

/* Reads the list of a launch, which begins at `epoch`, and advances it. */
static symm_status follow(struct device_bench *b, uint32_t *epoch)
{
    uint32_t got[EPOCH_BLOCKS][EPOCH_ROUNDS];
    RANK_TRY(b->self, device_settle(b));
    RANK_TRY(b->self, device_read(b, got, b->a.out, sizeof got));
    for (int round = 0; round < EPOCH_ROUNDS; round++) {
        const uint32_t last = *epoch;
        *epoch = next_epoch(last);
        for (int block = 0; block < EPOCH_BLOCKS; block++) {
            b->self->report->wrong += got[block][round] != *epoch;
            b->self->report->wrong += got[block][round] == 0 || got[block][round] % 2 == last % 2;
        }
    }
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

DEVICE_RANK(count_epochs, "test_epochs", EPOCH_BLOCKS)
{
    symm_graph graph = NULL;
    uint32_t epoch = *(const uint32_t *)arg;
    b->a.rounds = EPOCH_ROUNDS;
    RANK_TRY(self, symm_alloc(b->w, EPOCH_BLOCKS * EPOCH_ROUNDS * sizeof epoch, &b->a.out));
    for (int shape = 0; shape < DEVICE_SHAPES; shape++) {
        RANK_TRY(self, device_launch(b, EPOCH_BLOCKS, device_threads[shape]));
        RANK_TRY(self, follow(b, &epoch));
    }
    RANK_TRY(self, symm_graph_begin(b->s));
    RANK_TRY(self, device_launch(b, EPOCH_BLOCKS, 32));
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    b->nthreads = 0;
    for (int replay = 0; replay < 6; replay++) {
        RANK_TRY(self, symm_graph_launch(graph, b->s));
        b->nthreads = EPOCH_BLOCKS * 32;
        RANK_TRY(self, follow(b, &epoch));
    }
out:
    symm_graph_destroy(graph);
}

TEST_GROUP(packets, 120);

TEST_LOOP(packets, epochs_go_on_in_replays_are_never_zero_and_even_and_odd_by_turns, 0, 2)
{
    uint32_t start = _i ? DEVICE_EPOCH_START : 0; /* with the wrap, or without it */
    NEEDS_DEVICES();
    if (_i)
        setenv(DEVICE_BELOW_WRAP, 1);
    ranks_run_ok(device_setting.pair, RANKS_AS_PROCESSES, count_epochs, &start, 60);
}

DEVICE_RANK(play_packets, "test_packets", device_blocks(self->nranks) / 2)
{
    const uint32_t blocks = device_blocks(self->nranks) / 2;
    const size_t nbytes =
        2 * sizeof(symm_packet) * blocks * (size_t)self->nranks * DEVICE_THREADS_MAX;
    symm_graph graph = NULL;
    RANK_TRY(self, symm_alloc(b->w, nbytes, &b->a.x));
    RANK_TRY(self, symm_fill(b->a.x, 0, nbytes, b->s));
    RANK_TRY(self, symm_barrier(b->w, b->s));
    for (b->a.mode = 0; b->a.mode < 2; b->a.mode++)
        for (int shape = 0; shape < DEVICE_SHAPES; shape++) {
            const uint32_t threads = device_threads[shape];
            b->a.seed = (uint32_t)reference_random(910 + (uint64_t)b->a.mode, (uint64_t)shape);
            b->a.rounds = device_rounds(threads < 64 ? 60 : 15, 500);
            RANK_TRY(self, device_run(b, blocks, threads));
            CHECK_RANK_MSG(self, self->report->wrong == 0, "mode %d, %u threads: %lld wrong",
                           b->a.mode, threads, (long long)self->report->wrong);
            /* Slots have another place with another number of threads. */
            RANK_TRY(self, symm_barrier(b->w, b->s));
            RANK_TRY(self, symm_fill(b->a.x, 0, nbytes, b->s));
            RANK_TRY(self, symm_barrier(b->w, b->s));
        }
    b->a.mode = 0;
    b->a.rounds = 5;
    RANK_TRY(self, symm_graph_begin(b->s));
    RANK_TRY(self, device_launch(b, blocks, 32));
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    for (int replay = 0; replay < 10; replay++)
        RANK_TRY(self, symm_graph_launch(graph, b->s));
    b->nthreads *= 10;
    device_settle(b);
out:
    symm_graph_destroy(graph);
}

TEST_LOOP(packets, packets_carry_anything_to_everyone_across_the_wrap, 0, device_setting.nworlds)
{
    NEEDS_DEVICES();
    setenv(DEVICE_BELOW_WRAP, 1);
    ranks_run_ok(device_setting.worlds[_i], RANKS_AS_PROCESSES, play_packets, NULL, 100);
}

TEST(packets, packets_serve_ranks_that_are_threads)
{
    NEEDS_DEVICES();
    if (!device_setting.emulated)
        TEST_SKIP("only with the emulated driver");
    ranks_run_ok(3, RANKS_AS_THREADS, play_packets, NULL, 60);
}

DEVICE_TEST(packets, with_flag_zero_nothing_is_sent_and_nobody_waits, "test_no_flag", 1,
            device_setting.pair)
{
    const size_t nbytes = DEVICE_THREADS_MAX * sizeof(symm_packet);
    char *host = malloc(nbytes);
    RANK_TRY(self, symm_alloc(b->w, nbytes, &b->a.x));
    reference_poison(host, nbytes, 3);
    RANK_TRY(self, device_write(b, b->a.x, host, nbytes));
    RANK_TRY(self, symm_barrier(b->w, b->s));
    for (int shape = 0; shape < DEVICE_SHAPES; shape++)
        RANK_TRY(self, device_launch(b, 1, device_threads[shape]));
    RANK_TRY(self, symm_barrier(b->w, b->s));
    RANK_TRY(self, device_settle(b));
    RANK_TRY(self, device_read(b, host, b->a.x, nbytes));
    self->report->wrong += reference_poison_wrong(host, nbytes, 3);
out:
    free(host);
}
