/*
 * Letters between the ranks of a communicator. Each rank has one Unix socket, whose name the others
 * know, and a thread that takes all letters from it. So nobody waits for a receiver's program.
 */
#ifndef STANDIN_MESH_H
#define STANDIN_MESH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mesh;

/* A receive takes the letter of its sender and topic. Users number their kinds from 1. */
struct topic {
    uint64_t kind, number, run;
};

enum mesh_end { MESH_OK, MESH_STOPPED, MESH_MISMATCH };

/* NULL: this rank has one already. */
struct mesh *mesh_open(uint64_t id, int rank, int nranks);
void mesh_close(struct mesh *mesh); /* NULL is allowed */

/*
 * `call` describes the call; a receive finds MESH_MISMATCH if its own or its size differs. Letters
 * to a rank that is not there wait for it.
 */
void mesh_send(struct mesh *mesh, int to, struct topic topic, uint64_t call, const void *data,
               size_t nbytes);
enum mesh_end mesh_receive(struct mesh *mesh, int from, struct topic topic, uint64_t call,
                           void *data, size_t nbytes);

/* Sends and receives end now and later. With `together`, waits until all ranks have stopped so. */
void mesh_stop(struct mesh *mesh, bool together);

#endif
