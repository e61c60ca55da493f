/*
 * The epilogue on Hopper GPUs. A consumer stores its columns of a tile in rounds of 16 rows of a
 * panel, which its threads bring together in shared memory.
 */
#ifndef SYMM_MATMUL_SM90_STORE_CUH
#define SYMM_MATMUL_SM90_STORE_CUH

#include "matmul/kernels/epilogue.cuh"
#include "matmul/kernels/epilogue_smem.cuh"
#include "ptx.cuh"

namespace sm90
{

enum {
    WARPGROUP = 128,
    DEPTH = SYMM_WGMMA_DEPTH,
    PANEL = SYMM_WGMMA_LINE, /* columns: the lines of wgmma's left operand */
    PACK_COLUMNS = SYMM_PACK_ELEMENTS,
    ROUND_ROWS = SYMM_WGMMA_BOX_ROWS
};

/* -------------------------------------------------------------------- the threads of a consumer */

/* The number of this thread's consumer, and the thread's number in it. */
SYMM_DEV int32_t consumer(void)
{
    return (int32_t)threadIdx.x / WARPGROUP - 1;
}

SYMM_DEV int32_t group_thread(void)
{
    return (int32_t)threadIdx.x % WARPGROUP;
}

/* A barrier of the consumer's threads. It orders their accesses of shared memory. */
SYMM_DEV void consumer_meet(void)
{
    bar_sync<WARPGROUP>(1 + consumer());
}

/* The row and the column of a panel whose sum this thread has as accumulator i. */
SYMM_DEV int32_t row_of(int32_t i)
{
    return i / 4 * 8 + (int32_t)threadIdx.x % 4 * 2 + i % 2;
}

SYMM_DEV int32_t column_of(int32_t i)
{
    return group_thread() / 32 * 16 + (int32_t)threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
}

/* This thread's row of a round, and its pack of eight columns. */
SYMM_DEV int32_t pack_row(void)
{
    return group_thread() / (PANEL / PACK_COLUMNS);
}

SYMM_DEV int32_t pack_column(void)
{
    return group_thread() % (PANEL / PACK_COLUMNS) * PACK_COLUMNS;
}

/* --------------------------------------------------------------------------- rounds of 16 bits */

template <int32_t I> struct constant_of {
    SYMM_DEV_IN_CLASS constexpr operator int32_t(void) const
    {
        return I;
    }
};

/*
 * Calls f with i as a constant, if it is FIRST, FIRST + STEP, ... below N: arrays with constant
 * indices stay in registers. A loop over constants is none before compilers unroll it.
 */
template <int32_t N, int32_t STEP = 1, int32_t FIRST = 0, typename F>
SYMM_DEV void with_constant(int32_t i, const F &f)
{
    if constexpr (FIRST < N) {
        if (i == FIRST)
            f(constant_of<FIRST>());
        else
            with_constant<N, STEP, FIRST + STEP>(i, f);
    }
}

/* A round's results, with the copy unit's swizzle of 128 bytes, which avoids bank conflicts. */
struct box {
    uint16_t at[ROUND_ROWS][PANEL];

    SYMM_DEV_IN_CLASS uint16_t *pack(int32_t row, int32_t column)
    {
        return &at[row][column ^ row % 8 * PACK_COLUMNS];
    }

    /* This thread's pack. */
    SYMM_DEV_IN_CLASS symm_bits16 pack(void)
    {
        return *reinterpret_cast<const symm_bits16 *>(pack(pack_row(), pack_column()));
    }

    /*
     * Fills this warp's 16 columns, by the columns of four 8 x 8 matrices. Each thread gives the
     * address of a row of one matrix.
     */
    SYMM_DEV_IN_CLASS void fill(const uint32_t (&words)[4])
    {
        const int32_t lane = (int32_t)threadIdx.x % 32, row = lane / 16 * 8 + lane % 8,
                      column = group_thread() / 32 * 16 + lane / 8 % 2 * PACK_COLUMNS;

        stmatrix_x4_transposed(pack(row, column), words);
    }
};
static_assert(sizeof(box) == 2048, "the lines of a box have 128 bytes");

/* A consumer's boxes. Round i uses box i modulo their number. */
template <int BOXES> struct __align__(1024) round_boxes
{
    box of[BOXES];
};

/* Whether the epilogue of every product is_plain_scale(). */
SYMM_DEV bool all_plain_scale(const symm_product_args &a)
{
    tile t = {};

    while (t.product < a.nb && epilogue(a, t).is_plain_scale())
        t.product++;
    return t.product == a.nb;
}

/* The place of this thread's results of a tile in D. */
struct result_place {
    uint16_t *to = nullptr; /* its first element */
    int64_t pitch = 0;
    int32_t rows = 0, columns = 0; /* of the tile, from there on */

    /* first: the tile's first element; panels: of a consumer. */
    SYMM_DEV_IN_CLASS void aim(uint16_t *first, int64_t row_pitch, const tile &t, int32_t panels)
    {
        const int32_t column = consumer() * (panels * PANEL) + pack_column();

        to = first + pack_row() * row_pitch + column;
        pitch = row_pitch;
        rows = t.rows - pack_row();
        columns = t.columns - column;
    }

    /* This thread's pack of a round; nullptr: the tile does not have it. */
    SYMM_DEV_IN_CLASS uint16_t *pack(int32_t row, int32_t column) const
    {
        return row < rows && column < columns ? to + row * pitch + column : nullptr;
    }
};

/*
 * A consumer's results of a tile whose epilogue is_plain_scale(), as 16-bit values in registers.
 * They go through boxes, a round each.
 */
template <int ROWS, int PANELS, int BOXES> struct held_results {
    enum {
        ROUNDS_OF_PANEL = ROWS / ROUND_ROWS,
        FILLED = PANELS * ROUNDS_OF_PANEL,
        /* Boxes take turns, so it is a multiple of their number: the last rounds may be empty. */
        ROUNDS = (FILLED + BOXES - 1) / BOXES * BOXES
    };
    using boxes_of_rounds = round_boxes<BOXES>;

    uint32_t words[PANELS][ROWS / 4] = {};

    /* Takes the results: scales the accumulators and rounds them to 16 bits. */
    SYMM_DEV_IN_CLASS void hold(const float (&d)[PANELS][ROWS / 2], const tile &t,
                                const symm_product_args &a)
    {
        if (a.d[t.product].dtype == SYMM_FLOAT16)
            hold<symm_f16>(d, a.alpha);
        else
            hold<symm_bf16>(d, a.alpha);
    }

    /* The same, of results of type D. The tensor cores are idle, so a factor of 1 is left out. */
    template <typename D>
    SYMM_DEV_IN_CLASS void hold(const float (&d)[PANELS][ROWS / 2], float alpha)
    {
#pragma unroll
        for (int32_t p = 0; p < PANELS; p++) {
            if (alpha == 1) {
#pragma unroll
                for (int32_t i = 0; i < ROWS / 2; i += 2)
                    words[p][i / 2] = symm_detail::narrow2<D>(d[p][i], d[p][i + 1]);
            } else {
#pragma unroll
                for (int32_t i = 0; i < ROWS / 2; i += 2)
                    words[p][i / 2] = symm_detail::narrow2<D>(alpha * d[p][i], alpha * d[p][i + 1]);
            }
        }
    }

    /* The first row of round i, and its first column of this consumer's. */
    SYMM_DEV_IN_CLASS static int32_t row_of_round(int32_t i)
    {
        return (i - panel_of_round(i) * ROUNDS_OF_PANEL) * ROUND_ROWS;
    }

    SYMM_DEV_IN_CLASS static int32_t column_of_round(int32_t i)
    {
        return panel_of_round(i) * PANEL;
    }

    /* This warp's part of the results of round i, a constant. */
    SYMM_DEV_IN_CLASS void fill_box(box &x, int32_t i) const
    {
        const uint32_t(&of)[ROWS / 4] = words[i / ROUNDS_OF_PANEL];
        const int32_t first = i % ROUNDS_OF_PANEL * 4;

        x.fill({of[first], of[first + 1], of[first + 2], of[first + 3]});
    }

    /* The same of N rounds from this one on. The others' parts are there after consumer_meet(). */
    template <int32_t N>
    SYMM_DEV_IN_CLASS void fill_rounds(int32_t first, boxes_of_rounds &boxes) const
    {
        with_constant<FILLED, N>(first, [&](auto constant) {
            constexpr int32_t FIRST = constant;
#pragma unroll
            for (int32_t i = FIRST; i < FIRST + N && i < FILLED; i++)
                fill_box(boxes.of[i % BOXES], i);
        });
    }

  private:
    SYMM_DEV_IN_CLASS static int32_t panel_of_round(int32_t i)
    {
        return PANELS > 1 && i >= ROUNDS_OF_PANEL;
    }
};

/*
 * Stores held results later, a round at each step of the next tile. All threads of the consumer
 * make the same calls. Initially empty.
 */
template <int ROWS, int PANELS> struct deferred_store : held_results<ROWS, PANELS, 2> {
    using base = held_results<ROWS, PANELS, 2>;
    using base::FILLED, base::ROUNDS;
    using typename base::boxes_of_rounds;
    enum { SENDS = false /* to slots */, PASSES = false /* tiles to followers */ };

    result_place at;
    int32_t round = ROUNDS; /* the next one */

    /* Sets the place of the next results. set: see set_offset(). */
    SYMM_DEV_IN_CLASS void aim(const symm_product_args &a, const tile &t, int64_t set)
    {
        const epilogue end(a, t, set);

        at.aim(static_cast<uint16_t *>(end.to.data) + end.to.offset(0, 0), end.to.d.row, end.to.t,
               PANELS);
        round = 0;
    }

    SYMM_DEV_IN_CLASS void aim(const result_place &place)
    {
        at = place;
        round = 0;
    }

    /* A step of the next tile: stores a round. */
    SYMM_DEV_IN_CLASS void put(int32_t, int32_t, boxes_of_rounds &boxes, const symm_wgmma_args &)
    {
        if (round < ROUNDS)
            put_round(boxes);
    }

    /* Stores the rest. */
    SYMM_DEV_IN_CLASS void put_rest(boxes_of_rounds &boxes, const symm_wgmma_args &)
    {
#pragma unroll 1
        while (round < ROUNDS)
            put_round(boxes);
    }

    /*
     * Stores all rounds of the last tile together, since nothing is multiplied meanwhile. box_of(i)
     * is the i-th of as many boxes.
     */
    template <typename F> SYMM_DEV_IN_CLASS void put_all(const F &box_of)
    {
        if (round > 0)
            return;      /* there is no tile */
        consumer_meet(); /* all of its warps have used the stages */
#pragma unroll
        for (int32_t i = 0; i < FILLED; i++)
            this->fill_box(box_of(i), i);
        consumer_meet();
#pragma unroll
        for (round = 0; round < FILLED; round++)
            if (uint16_t *there = place())
                symm_dev_store_bits(there, box_of(round).pack());
        round = ROUNDS;
    }

  protected:
    /* The place of this thread's pack of the round; nullptr: the tile does not have it. */
    SYMM_DEV_IN_CLASS uint16_t *place(void) const
    {
        return at.pack(base::row_of_round(round), base::column_of_round(round));
    }

  private:
    SYMM_DEV_IN_CLASS void put_round(boxes_of_rounds &boxes)
    {
        this->template fill_rounds<1>(round, boxes);
        consumer_meet();
        if (uint16_t *there = place())
            symm_dev_store_bits(there, boxes.of[round % 2].pack());
        round++;
    }
};

/*
 * The same for results that cross a link, or several: they are stored during all of the next tile,
 * a round for one rank at a time, because the tensor cores stand still while a link is full.
 */
template <int ROWS, int PANELS> struct paced_store : deferred_store<ROWS, PANELS> {
    using base = deferred_store<ROWS, PANELS>;
    using base::round, base::ROUNDS;
    using typename base::boxes_of_rounds;
    enum { SENDS = true };

    int32_t receiver = 0; /* the next one; receivers count from this rank */

    SYMM_DEV_IN_CLASS void put(int32_t step, int32_t steps, boxes_of_rounds &boxes,
                               const symm_wgmma_args &args)
    {
        const int32_t n = receivers(args.product);

#pragma unroll 1
        while (round < ROUNDS && (round * n + receiver) * steps <= step * ROUNDS * n)
            put_to_receiver(n, boxes, args.product);
    }

    SYMM_DEV_IN_CLASS void put_rest(boxes_of_rounds &boxes, const symm_wgmma_args &args)
    {
#pragma unroll 1
        while (round < ROUNDS)
            put_to_receiver(receivers(args.product), boxes, args.product);
    }

  private:
    SYMM_DEV_IN_CLASS static int32_t receivers(const symm_product_args &a)
    {
        return a.sink == SYMM_TO_ALL ? a.view.nranks : 1;
    }

    SYMM_DEV_IN_CLASS void put_to_receiver(int32_t n, boxes_of_rounds &boxes,
                                           const symm_product_args &a)
    {
        if (receiver == 0) {
            this->template fill_rounds<1>(round, boxes);
            consumer_meet();
        }
        if (uint16_t *there = this->place()) {
            if (a.sink == SYMM_TO_ALL)
                there = symm_dev_peer(a.view, there, symm__rank_after(a.view.rank, receiver, n));
            symm_dev_store_bits(there, boxes.of[round % 2].pack());
        }
        if (++receiver == n) {
            receiver = 0;
            round++;
        }
    }
};

/* -------------------------------------------------------------------------------- any epilogue */

/* A consumer's accumulators of a round. */
using sums_smem = epilogue_smem<ROUND_ROWS, PANEL, 4, WARPGROUP>;

/* Any epilogue: through shared memory in fp32. */
template <int PANELS, int ACCUMULATORS>
SYMM_DEV void put_through_smem(const float (&d)[PANELS][ACCUMULATORS], sums_smem &s,
                               const epilogue &end)
{
    constexpr int32_t AT_ONCE = ROUND_ROWS / 2, ROUNDS = ACCUMULATORS / AT_ONCE;

#pragma unroll 1
    for (int32_t round = 0; round < PANELS * ROUNDS; round++) {
        consumer_meet(); /* the round before has been put */
        with_constant<PANELS * ROUNDS>(round, [&](auto constant) {
            constexpr int32_t I = constant;
            const float *of = &d[I / ROUNDS][I % ROUNDS * AT_ONCE];
#pragma unroll
            for (int32_t i = 0; i < AT_ONCE; i++)
                s.at[row_of(i)][column_of(i)] = of[i];
        });
        consumer_meet();
        put_smem(s, round % ROUNDS * ROUND_ROWS, (consumer() * PANELS + round / ROUNDS) * PANEL,
                 end);
    }
}

} /* namespace sm90 */

#endif
