/* The device nodes of the simulated driver. See hold.h. Compiled in: cc -O2 -Wall -Wextra -fPIC. */
#define _GNU_SOURCE
#include "hold.h"
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_in(const char *folder, const char *name, int make, int across_exec) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (make) mkdir(folder, 0777);
    int fd = open(path, O_RDWR | (make ? O_CREAT : 0) | (across_exec ? 0 : O_CLOEXEC), 0666);
    if (fd >= 0 && make) fchmod(fd, 0666);
    return fd;
}

int fg_open_device(const char *name, int make, int across_exec) {
    char folder[4096];
    const char *chosen = getenv("FAKEGPU_DEV");
    if (chosen && *chosen) return open_in(chosen, name, make, across_exec);
    int fd = open_in("/dev", name, 0, across_exec); /* never made here: /dev belongs to the host's builder */
    if (fd >= 0) return fd;
    return open_in(fg_path(folder, sizeof folder, "dev"), name, make, across_exec);
}
