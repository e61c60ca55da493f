/* Starts plot.py or report.py. */
#include "plot.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool fail(const char *command, const char *what, const char *why)
{
    fprintf(stderr, "# symm-bench: %s: %s: %s\n", command, what, why);
    return false;
}

/* In the build tree and in the installation alike the scripts are at the same place beside bin. */
static bool find_script(const char *command, char path[PATH_MAX])
{
    char program[PATH_MAX / 2];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    program[length > 0 ? length : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = 0;
    snprintf(path, PATH_MAX, "%s/" SYMM_SCRIPTS "/%s.py", program, command);
    return access(path, R_OK) == 0 || fail(command, path, strerror(errno));
}

/* Runs a program with `input` as its standard input; -1: this one's. */
static bool run(const char *command, char *const *argv, int input)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 0, error = posix_spawn_file_actions_init(&actions);

    if (error)
        return fail(command, argv[0], strerror(error));
    if (input >= 0)
        error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!error)
        error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT)
        return fail(command, "python3 is not there", "install python3");
    if (error)
        return fail(command, argv[0], strerror(error));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0; /* else it has said why */
}

static bool draw(char *const *files, int nfiles, const struct plot_style *style, int input)
{
    char script[PATH_MAX], floor[32];
    char *argv[12] = {"python3", "-I", script, "-o", (char *)(uintptr_t)style->output,
                      "--floor", floor};
    char **all = calloc((size_t)nfiles + 12, sizeof *all);
    int n = 7;

    if (!all)
        return fail(style->command, style->output, strerror(errno));
    snprintf(floor, sizeof floor, "%.9g", style->floor_gbs);
    if (style->roofline) {
        argv[n++] = "--roofline";
        argv[n++] = (char *)(uintptr_t)style->roofline;
    }
    argv[n++] = "--"; /* only files follow */
    memcpy(all, argv, (size_t)n * sizeof *argv);
    memcpy(all + n, files, (size_t)nfiles * sizeof *files);
    const bool drawn = find_script(style->command, script) && run(style->command, all, input);
    free(all);
    return drawn;
}

bool plot_files(char *const *files, int nfiles, const struct plot_style *style)
{
    return draw(files, nfiles, style, -1);
}

bool plot_run(const json_t *run, const struct plot_style *style)
{
    char *const standard_input[] = {"-"};
    FILE *file = tmpfile();
    bool drawn = file && json_dumpf(run, file, 0) == 0 && fflush(file) == 0;

    if (drawn) {
        rewind(file);
        drawn = draw(standard_input, 1, style, fileno(file));
    } else {
        fail(style->command, style->output, strerror(errno));
    }
    if (file)
        fclose(file);
    return drawn;
}
