/* A hub and its clients in one thread, so that every turn of the hub is the test's. */
#ifndef TEST_HUB_SCENE_H
#define TEST_HUB_SCENE_H

#include "runtime/comm/boot_id.h"
#include "runtime/comm/rendezvous.h"
#include "fuzz/client.h"

enum { SCENE_RANKS = 4, SCENE_TURNS = 50 /* enough for the hub to come to rest */ };

struct hub_scene {
    struct symm_join join;
    struct symm_log log;
    struct symm_rendezvous rendezvous;
    struct symm_hub *hub;
    struct client clients[SCENE_RANKS]; /* by rank; connected */
    char boot_id[40];
    char lines[2000]; /* of the log */
};

/* Opens a hub and connects nranks clients, at least 2. None has said HELLO. */
void hub_scene_open(struct hub_scene *x, int nranks);
/* All ranks say HELLO and are admitted. */
void hub_scene_join(struct hub_scene *x);
/* Closes the clients, then the hub. */
void hub_scene_close(struct hub_scene *x);

/* Connects once more. Returns a descriptor, which the caller closes. */
int hub_scene_connect(struct hub_scene *x);

/*
 * The first message of this type that arrives at this end of a connection within SCENE_TURNS;
 * messages before it are lost. *m is valid until the next call; its descriptors are closed. Returns
 * whether it came.
 */
bool hub_scene_hear(struct hub_scene *x, int fd, enum symm_message_type type,
                    struct symm_message *m);
/* Whether the hub closes this connection within SCENE_TURNS. */
bool hub_scene_is_closed(struct hub_scene *x, int fd);

/* Puts the clock forward, which otherwise stands still. */
void hub_scene_wait(int ms);

#endif
