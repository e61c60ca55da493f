#include "mesh.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PART = 65536, PATIENCE_US = 200 };
enum { STOPPED, CLOSED = UINT8_MAX }; /* kinds of the mesh's own letters */

struct head {
    struct topic topic;
    uint64_t call, nbytes, at; /* of the letter, and where in it this part is */
    int from;
};

/* A letter travels in parts of at most this size. */
struct part {
    struct head head;
    char data[PART];
};

struct letter {
    struct letter *next;
    struct head head;
    uint64_t missing;
    char data[];
};

struct mesh {
    uint64_t id;
    int rank, nranks, socket;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct letter *letters;
    atomic_bool stopped;
    int nstopped; /* other ranks */
};

/* ---- The socket ---- */

static struct sockaddr_un address(uint64_t id, int rank)
{
    struct sockaddr_un out = {.sun_family = AF_UNIX}; /* a name without a file */
    snprintf(out.sun_path + 1, sizeof out.sun_path - 1, "nccl-standin-%016llx-%d",
             (unsigned long long)id, rank);
    return out;
}

/* False: the rank is not there, or has no room. */
static bool send_part(const struct mesh *mesh, int to, const struct part *part, size_t nbytes)
{
    struct sockaddr_un name = address(mesh->id, to);
    return sendto(mesh->socket, part, sizeof part->head + nbytes, MSG_DONTWAIT,
                  (struct sockaddr *)&name, sizeof name) >= 0;
}

void mesh_send(struct mesh *mesh, int to, struct topic topic, uint64_t call, const void *data,
               size_t nbytes)
{
    struct part *part = malloc(sizeof *part);
    if (!part)
        abort();
    part->head = (struct head){topic, call, nbytes, 0, mesh->rank};
    do {
        size_t n = nbytes - part->head.at < PART ? nbytes - part->head.at : PART;
        if (n > 0)
            memcpy(part->data, (const char *)data + part->head.at, n);
        while (!atomic_load(&mesh->stopped) && !send_part(mesh, to, part, n))
            usleep(PATIENCE_US);
        part->head.at += n;
    } while (part->head.at < nbytes);
    free(part);
}

static struct letter **find_locked(struct mesh *mesh, int from, const struct topic *topic)
{
    struct letter **at = &mesh->letters;
    while (*at &&
           ((*at)->head.from != from || memcmp(&(*at)->head.topic, topic, sizeof *topic) != 0))
        at = &(*at)->next;
    return at;
}

static void add_part_locked(struct mesh *mesh, const struct part *part, size_t nbytes)
{
    struct letter **at = find_locked(mesh, part->head.from, &part->head.topic), *letter = *at;
    if (!letter) {
        letter = *at = malloc(sizeof *letter + part->head.nbytes);
        if (!letter)
            abort();
        *letter = (struct letter){.head = part->head, .missing = part->head.nbytes};
    }
    memcpy(letter->data + part->head.at, part->data, nbytes);
    letter->missing -= nbytes;
}

static void *take_letters(void *arg)
{
    struct mesh *mesh = arg;
    struct part *part = malloc(sizeof *part);
    if (!part)
        abort();
    for (;;) {
        ssize_t n = recv(mesh->socket, part, sizeof *part, 0);
        if (n < (ssize_t)sizeof part->head)
            continue;
        if (part->head.topic.kind == CLOSED)
            break;
        pthread_mutex_lock(&mesh->lock);
        if (part->head.topic.kind == STOPPED)
            mesh->nstopped++;
        else
            add_part_locked(mesh, part, (size_t)n - sizeof part->head);
        pthread_cond_broadcast(&mesh->changed);
        pthread_mutex_unlock(&mesh->lock);
    }
    free(part);
    return NULL;
}

enum mesh_end mesh_receive(struct mesh *mesh, int from, struct topic topic, uint64_t call,
                           void *data, size_t nbytes)
{
    struct letter **at, *letter;
    pthread_mutex_lock(&mesh->lock);
    while ((!*(at = find_locked(mesh, from, &topic)) || (*at)->missing > 0) &&
           !atomic_load(&mesh->stopped))
        pthread_cond_wait(&mesh->changed, &mesh->lock);
    letter = atomic_load(&mesh->stopped) ? NULL : *at;
    if (letter)
        *at = letter->next;
    pthread_mutex_unlock(&mesh->lock);
    if (!letter)
        return MESH_STOPPED;
    bool same = letter->head.call == call && letter->head.nbytes == nbytes;
    if (same && nbytes > 0)
        memcpy(data, letter->data, nbytes);
    free(letter);
    return same ? MESH_OK : MESH_MISMATCH;
}

/* ---- Beginning and end ---- */

static bool send_own(const struct mesh *mesh, int to, uint64_t kind)
{
    struct part part = {.head = {.topic = {.kind = kind}, .from = mesh->rank}};
    return send_part(mesh, to, &part, 0);
}

void mesh_stop(struct mesh *mesh, bool together)
{
    pthread_mutex_lock(&mesh->lock);
    atomic_store(&mesh->stopped, true);
    pthread_cond_broadcast(&mesh->changed);
    for (int i = 0; together && i < mesh->nranks; i++)
        if (i != mesh->rank)
            send_own(mesh, i, STOPPED); /* a rank that is not there has stopped before */
    while (together && mesh->nstopped < mesh->nranks - 1)
        pthread_cond_wait(&mesh->changed, &mesh->lock);
    pthread_mutex_unlock(&mesh->lock);
}

struct mesh *mesh_open(uint64_t id, int rank, int nranks)
{
    struct sockaddr_un name = address(id, rank);
    struct mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        abort();
    mesh->id = id;
    mesh->rank = rank;
    mesh->nranks = nranks;
    mesh->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    pthread_mutex_init(&mesh->lock, NULL);
    pthread_cond_init(&mesh->changed, NULL);
    if (bind(mesh->socket, (struct sockaddr *)&name, sizeof name) == 0 &&
        pthread_create(&mesh->thread, NULL, take_letters, mesh) == 0)
        return mesh;
    close(mesh->socket);
    free(mesh);
    return NULL;
}

void mesh_close(struct mesh *mesh)
{
    if (!mesh)
        return;
    while (!send_own(mesh, mesh->rank, CLOSED))
        usleep(PATIENCE_US);
    pthread_join(mesh->thread, NULL);
    close(mesh->socket);
    for (struct letter *next; mesh->letters; mesh->letters = next) {
        next = mesh->letters->next;
        free(mesh->letters);
    }
    pthread_cond_destroy(&mesh->changed);
    pthread_mutex_destroy(&mesh->lock);
    free(mesh);
}
