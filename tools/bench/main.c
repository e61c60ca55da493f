/* symm-bench: measures and verifies what symm does. */
#include "bench/measure/collective.h"
#include "bench/measure/matmul.h"
#include "bench/measure/model.h"
#include "bench/measure/p2p.h"
#include "bench/measure/stress.h"
#include "bench/measure/tune.h"
#include "common/stdio_guard.h"
#include "plot/plot.h"

int main(int argc, char **argv)
{
    struct bench_options options;

    stdio_guard();
    int code = bench_options_parse(argc, argv, &options);

    if (code >= 0)
        return code;
    switch (options.command) {
    case BENCH_P2P:
        return p2p_run(&options);
    case BENCH_STRESS:
        return stress_run(&options);
    case BENCH_TUNE:
        return tune_run(&options);
    case BENCH_MODEL:
        return model_run(&options);
    case BENCH_MATMUL:
    case BENCH_ALL_GATHER_MATMUL:
    case BENCH_MATMUL_SUMS:
    case BENCH_MATMUL_ALL_SCATTER:
        return matmul_run(&options);
    case BENCH_PLOT:
    case BENCH_REPORT:
        return !plot_files(options.files, options.nfiles,
                           &(struct plot_style){options.name, options.output, options.floor_gbs,
                                                options.roofline});
    default:
        return collective_run(&options);
    }
}
