/*
 * Sums of all ranks' results by packs that are their own flag: see symm_dev_send_pack(). All ranks
 * add all sums. A rank sends each pack of its results, rounded, to its slot on all other ranks. It
 * takes the other ranks' packs from their slots here, and frees these.
 *
 * A run begins on a rank when all of its blocks are resident there, perhaps while the run before
 * it still runs. That one has waited for the kernel in front, so the run before that one has ended,
 * and its packs have been taken. Each rank signals the begin of run i to all others, and waits for
 * their signals before it ends run i. So run i - 2 has ended on all ranks before run i + 1, which
 * sends into the set of run i - 3: runs use four sets of slots by turns. Signals are counted, not
 * taken.
 *
 * This rank's own results lie in its slot of the first set: no other rank writes there.
 */
#ifndef SYMM_MATMUL_SUM_PACKS_CUH
#define SYMM_MATMUL_SUM_PACKS_CUH

#include "sum_parts.cuh"

/* The elements of a row from a column on, at most PART_PACK. */
struct run_of_row {
    int32_t product, batch, row, column;
};

/* A run, as a block finds it. */
struct pack_run {
    uint32_t runs; /* that have begun before it */
    bool live;     /* false: after an abort; the block sends nothing */
    bool tells;    /* the block is the last to begin: it tells the others, and counts the run */
};

/* One thread of each block. */
SYMM_DEV pack_run begin_pack_run(const symm_product_args &a)
{
    const uint32_t poison = symm_detail::load_relaxed(a.view.poison);
    const uint64_t begun = symm_detail::fetch_add(&a.parts.state->begun, (uint64_t)1 << 32);

    return {(uint32_t)begun, poison == 0, (uint32_t)(begun >> 32) + 1 == gridDim.x};
}

/*
 * Counts the run. One thread of the block that tells, behind symm_dev_pdl_wait(). Blocks of the
 * next run may begin when the result is there: a store might still be under way. A block that sees
 * the count also sees all writes of the runs before.
 */
SYMM_DEV bool count_pack_run(const symm_product_args &a, const pack_run &run)
{
    const uint64_t now = (uint64_t)gridDim.x << 32 | run.runs, next = run.runs + 1;

    return symm_detail::fetch_add(&a.parts.state->begun, next - now) == now;
}

struct pack_sums {
    const symm_product_args &a;
    const pack_run &run;

    /* Signals the begin of the run to all other ranks. A warp of the block that tells. */
    SYMM_DEV_IN_CLASS void tell_begin(void) const
    {
        const int32_t rank = (int32_t)threadIdx.x % 32;

        if (is_other(rank))
            symm_dev_signal(a.view, a.parts.pad, 0, rank);
    }

    /* Waits for the others' signals. As above. Returns after an abort, too. */
    SYMM_DEV_IN_CLASS void await_begin(void) const
    {
        const int32_t rank = (int32_t)threadIdx.x % 32;
        uint32_t word;

        if (is_other(rank))
            symm_detail::wait_after(a.view, a.parts.pad, 0, rank,
                                    symm_detail::signal_cell(a.view, a.parts.pad, 0, rank),
                                    run.runs, 1, 0, &word);
    }

    /* Sends this rank's results, which it has kept, to all other ranks. Thread. */
    SYMM_DEV_IN_CLASS void send(const run_of_row &at) const
    {
        for (int32_t i = 0; i < pieces(at); i++)
            send_piece(at, i, load_own(at, i));
    }

    /* Rounds this rank's results, keeps and sends them. Thread. */
    SYMM_DEV_IN_CLASS void send(const run_of_row &at, const float (&x)[PART_PACK]) const
    {
        switch (a.parts.slots[at.product].dtype) {
        case SYMM_FLOAT16:
            return send_as<symm_f16>(at, x);
        case SYMM_BFLOAT16:
            return send_as<symm_bf16>(at, x);
        default:
            return send_as<float>(at, x);
        }
    }

    /*
     * Adds all ranks' results, in rank order. With alpha 0 the sums are 0. Thread, which has sent
     * this rank's. After an abort the sums are any numbers.
     */
    SYMM_DEV_IN_CLASS void sum(const run_of_row &at, float (&x)[PART_PACK]) const
    {
        add_all(at, x);
#pragma unroll
        for (int32_t j = 0; j < PART_PACK; j++)
            x[j] = a.alpha == 0 ? 0 : x[j];
    }

  private:
    SYMM_DEV_IN_CLASS bool is_other(int32_t rank) const
    {
        return rank < a.view.nranks && rank != a.view.rank;
    }

    SYMM_DEV_IN_CLASS void add_all(const run_of_row &at, float (&x)[PART_PACK]) const
    {
        switch (a.parts.slots[at.product].dtype) {
        case SYMM_FLOAT16:
            return sum_as<symm_f16>(at, x);
        case SYMM_BFLOAT16:
            return sum_as<symm_bf16>(at, x);
        default:
            return sum_as<float>(at, x);
        }
    }

    /* Packs of 16 bytes of a run. */
    SYMM_DEV_IN_CLASS int32_t pieces(const run_of_row &at) const
    {
        return a.parts.slots[at.product].dtype == SYMM_FLOAT32 ? 2 : 1;
    }

    /* A pack in the first set: of rank `from`'s results. */
    SYMM_DEV_IN_CLASS symm_packet *in_first_set(const run_of_row &at, int32_t from, int32_t i) const
    {
        const symm_matrix &x = a.parts.slots[at.product];
        const int64_t element = at.batch * x.batch + at.row * x.row + at.column;
        char *slots = static_cast<char *>(x.data) + from * a.parts.slot_nbytes[at.product];

        return reinterpret_cast<symm_packet *>(slots + element * (pieces(at) * 2)) + i;
    }

    /* The same in the run's set. */
    SYMM_DEV_IN_CLASS symm_packet *slot(const run_of_row &at, int32_t from, int32_t i) const
    {
        return reinterpret_cast<symm_packet *>(reinterpret_cast<char *>(in_first_set(at, from, i)) +
                                               run.runs % SYMM_PACK_SETS * a.parts.set_nbytes);
    }

    SYMM_DEV_IN_CLASS symm_bits16 load_own(const run_of_row &at, int32_t i) const
    {
        return symm_dev_load_bits(in_first_set(at, a.view.rank, i));
    }

    SYMM_DEV_IN_CLASS void send_piece(const run_of_row &at, int32_t i, const symm_bits16 &x) const
    {
#pragma unroll 1
        for (int32_t k = 1; run.live && k < a.view.nranks; k++)
            symm_dev_send_pack(a.view, slot(at, a.view.rank, i), symm_dev_sendable(x),
                               (a.view.rank + k) % a.view.nranks);
    }

    template <typename T>
    SYMM_DEV_IN_CLASS void send_as(const run_of_row &at, const float (&x)[PART_PACK]) const
    {
        constexpr int32_t N = 16 / sizeof(T);

#pragma unroll
        for (int32_t i = 0; i < PART_PACK / N; i++) {
            symm_f32s<T> some;
#pragma unroll
            for (int32_t j = 0; j < N; j++)
                some.e[j] = x[i * N + j];
            const symm_bits16 bits = symm_dev_pack(some);
            send_piece(at, i, bits);
            symm_dev_store_bits(in_first_set(at, a.view.rank, i), bits);
        }
    }

    template <typename T>
    SYMM_DEV_IN_CLASS void sum_as(const run_of_row &at, float (&x)[PART_PACK]) const
    {
        constexpr int32_t N = 16 / sizeof(T);

#pragma unroll
        for (int32_t i = 0; i < PART_PACK / N; i++) {
            symm_f32s<T> sum = {};
            if (a.view.nranks == 2)
                add_ranks<2>(at, i, 0, sum);
            else
                for (int32_t first = 0; first < a.view.nranks; first += AT_ONCE)
                    add_ranks<AT_ONCE>(at, i, first, sum);
#pragma unroll
            for (int32_t j = 0; j < N; j++)
                x[i * N + j] = sum.e[j];
        }
    }

    enum { AT_ONCE = 4 /* ranks whose slots are polled together */ };

    /* Adds the packs of ranks [first, first + R). Of absent ranks another slot is polled again. */
    template <int32_t R, typename T>
    SYMM_DEV_IN_CLASS void add_ranks(const run_of_row &at, int32_t i, int32_t first,
                                     symm_f32s<T> &sum) const
    {
        const int32_t some = is_other(first) ? first : first + 1;
        symm_packet *slots[R];
        const symm_bits16 own = load_own(at, i);
        symm_bits16 x[R] = {};
        int from[R];

#pragma unroll
        for (int32_t r = 0; r < R; r++) {
            from[r] = is_other(first + r) ? first + r : some;
            slots[r] = slot(at, from[r], i);
        }
        if (is_other(some))
            symm_dev_take_packs(a.view, slots, from, x);
#pragma unroll
        for (int32_t r = 0; r < R; r++) {
            /* Word by word: a choice between arrays would put them into memory. */
#pragma unroll
            for (int32_t word = 0; word < 4; word++)
                x[r].w[word] = first + r == a.view.rank ? own.w[word] : x[r].w[word];
            if (first + r == 0)
                sum = symm_dev_unpack<T>(x[r]);
            else if (first + r < a.view.nranks)
                symm_dev_add(sum, symm_dev_unpack<T>(x[r]));
        }
    }
};

#endif
