/* The device files of the simulated driver. See device.h. Compiled in: cc -O2 -Wall -Wextra -fPIC. */
#define _GNU_SOURCE
#include "device.h"
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char ON_THE_MACHINE[] = "/lab/libexec"; /* hosts have it, containers do not */

static const char *folder(char *buffer, size_t size) {
    const char *chosen = getenv("FAKEGPU_DEV");
    if (chosen && *chosen) return chosen;
    return access(fg_path(buffer, size, "dev"), F_OK) ? "/dev" : buffer;
}

int fg_open_device(const char *name, int across_exec) {
    char buffer[4096], path[4200];
    snprintf(path, sizeof path, "%s/%s", folder(buffer, sizeof buffer), name);
    return open(path, O_RDWR | (across_exec ? 0 : O_CLOEXEC));
}

int fg_open_card(int minor, int across_exec) {
    char name[32];
    snprintf(name, sizeof name, "nvidia%d", minor);
    return fg_open_device(name, across_exec);
}

int fg_can_open_card(int minor) {
    int fd = fg_open_card(minor, 0);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void make_node(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/dev/%s", name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return;
    fchmod(fd, 0666); /* whatever our umask is */
    close(fd);
}

void fg_make_nodes(void) {
    struct fg_card cards[FG_MAX_CARDS];
    char buffer[4096], name[32];
    if (geteuid() || folder(buffer, sizeof buffer) == buffer || getenv("FAKEGPU_DEV")) return;
    if (access(ON_THE_MACHINE, F_OK) || access("/dev/nvidiactl", F_OK) == 0) return;
    int count = fg_read_cards(cards);
    if (count > 0) make_node("nvidiactl");
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "nvidia%d", cards[i].minor);
        make_node(name);
    }
}
