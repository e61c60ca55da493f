# symm_add_kernels(<target> IMAGE <name> SOURCES <file.cu>...): see the file's owner
