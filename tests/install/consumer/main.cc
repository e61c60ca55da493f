// A C++11 program outside of symm's tree: the headers compile, the library links, memory comes and goes.
#include <symm/collectives.h>
#include <symm/stream.h>
#include <cstdio>

int main()
{
    symm_config config = symm_config();
    symm_context *ctx = nullptr;
    void *p = nullptr;

    config.driver = "emulated";
    bool ok = symm_context_create(&config, &ctx) == SYMM_OK &&
              symm_alloc(symm_context_world(ctx), 4096, &p) == SYMM_OK &&
              symm_peer(symm_context_world(ctx), p, symm_rank(symm_context_world(ctx))) == p;
    if (!ok)
        std::fprintf(stderr, "%s\n", symm_error_text());
    return symm_context_destroy(ctx) == SYMM_OK && ok ? 0 : 1;
}
