/* Draws a picture with gnuplot, which is a program of its own. */
#include "picture.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool picture_complain(const char *what, const char *why)
{
    fprintf(stderr, "# symm-bench: plot: %s: %s\n", what, why);
    return false;
}

double picture_number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

const char *picture_text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

bool picture_is_emulated(const json_t *run)
{
    return strcmp(picture_text(run, "driver"), "emulated") == 0;
}

void picture_quote(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', to);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
    }
    fputc('\'', to);
}

/* Starts gnuplot from one file to the other. Returns an errno. */
static int start(FILE *script, FILE *picture, pid_t *child)
{
    char *argv[] = {"gnuplot", "-", NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (error)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, fileno(script), 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, fileno(picture), 1);
    if (!error)
        error = posix_spawnp(child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static bool run_gnuplot(FILE *script, FILE *picture, const char *path)
{
    pid_t child;
    int status = 0;

    rewind(script);
    int error = start(script, picture, &child);
    if (error == ENOENT)
        return picture_complain("gnuplot is not there", "install gnuplot-nox or gnuplot");
    if (error)
        return picture_complain("gnuplot", strerror(error));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return picture_complain(path, "gnuplot has failed");
    return true;
}

/* The picture, when it is whole, into the file that was asked for. */
static bool save(FILE *picture, const char *path)
{
    char block[4096];
    size_t n;
    FILE *file = fopen(path, "we");

    if (!file)
        return picture_complain(path, strerror(errno));
    rewind(picture);
    while ((n = fread(block, 1, sizeof block, picture)) > 0)
        fwrite(block, 1, n, file);
    bool saved = !ferror(file) && !ferror(picture);
    saved = fclose(file) == 0 && saved;
    return saved || picture_complain(path, "could not be written");
}

bool picture_draw(picture_script write_script, const void *what, const char *path)
{
    FILE *script = tmpfile(), *picture = tmpfile();
    bool drawn = script && picture;

    if (drawn) {
        write_script(script, what);
        drawn = run_gnuplot(script, picture, path) && save(picture, path);
    } else {
        picture_complain(path, strerror(errno));
    }
    if (script)
        fclose(script);
    if (picture)
        fclose(picture);
    return drawn;
}
