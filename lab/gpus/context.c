/* Reading the contexts: which memory is held, by whom, and which is free by now. See state.h.
 *
 * A record is one line, always rewritten as a whole:  card  MiB  mode  delay  death (ns)  thread  instance  kind
 * Traps of POSIX record locks that this file is written around:
 *  - closing ANY descriptor of a file drops all locks the process has on it, so a process that
 *    looks at its own context (an engine that asks NVML) must not open the file at all;
 *  - F_GETLK never shows a process its own locks.
 * Compiled into every program here: cc -O2 -Wall -Wextra -fPIC. */
#define _GNU_SOURCE
#include "state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_OWN 64

static const char *MODES[] = {"normal", "delay", "leak"};

int fg_write_record(int fd, const struct fg_context *context) {
    char line[128];
    int length = snprintf(line, sizeof line, "%3d %12llu %-6s %10.3f %20llu %10d %3d %-3s\n", context->card,
                          context->mib, MODES[context->mode], context->delay, context->died_ns, (int)context->thread,
                          context->instance, context->kind);
    return pwrite(fd, line, (size_t)length, 0) == length ? 0 : -1;
}

int fg_read_record(int fd, struct fg_context *context) {
    char line[128] = {0}, mode[8];
    if (pread(fd, line, sizeof line - 1, 0) <= 0) return -1;
    if (sscanf(line, "%d %llu %7s %lf %llu %d %d %3s", &context->card, &context->mib, mode, &context->delay,
               &context->died_ns, &context->thread, &context->instance, context->kind) != 8)
        return -1;
    context->mode = !strcmp(mode, "delay") ? FG_DELAY : !strcmp(mode, "leak") ? FG_LEAK : FG_NORMAL;
    return 0;
}

struct own_file {
    dev_t device;
    ino_t inode;
    int fd;
};

/* The regular files this process has open, so that its own contexts are recognised. */
static int list_own_files(struct own_file *own) {
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return 0;
    int count = 0;
    struct dirent *entry;
    while (count < MAX_OWN && (entry = readdir(directory))) {
        struct stat status;
        int fd = atoi(entry->d_name);
        if (fd <= 2 || fstat(fd, &status) || !S_ISREG(status.st_mode)) continue;
        own[count++] = (struct own_file){status.st_dev, status.st_ino, fd};
    }
    closedir(directory);
    return count;
}

static int find_own(const struct own_file *own, int count, const struct stat *status) {
    for (int i = 0; i < count; i++)
        if (own[i].device == status->st_dev && own[i].inode == status->st_ino) return own[i].fd;
    return -1;
}

static void ask_owner(int fd, struct fg_context *context) {
    /* A read lock: the watcher, which waits with one, is no owner. */
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    context->live = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    context->pid = context->live && lock.l_pid > 0 ? lock.l_pid : 0;
}

/* Is the memory of a dead process still occupied? Notes the death if no watcher did. */
static int still_occupied(int fd, struct fg_context *context) {
    if (context->mode != FG_DELAY) return context->mode == FG_LEAK;
    if (!context->died_ns) {
        fg_read_record(fd, context); /* the watcher may have been a moment later than the lock */
        if (!context->died_ns) {
            context->died_ns = fg_now_ns();
            fg_write_record(fd, context);
        }
    }
    return (double)(fg_now_ns() - context->died_ns) < context->delay * 1e9;
}

/* 1 when the context occupies memory, 0 when it does not (and is removed). */
static int read_context(int directory, const char *name, const struct own_file *own, int own_count,
                        struct fg_context *context) {
    struct stat status;
    if (fstatat(directory, name, &status, 0)) return 0;
    int own_fd = find_own(own, own_count, &status);
    if (own_fd >= 0) {
        context->live = 1;
        context->pid = getpid();
        return fg_read_record(own_fd, context) == 0;
    }
    int fd = openat(directory, name, O_RDWR | O_CLOEXEC);
    if (fd < 0 && (fd = openat(directory, name, O_RDONLY | O_CLOEXEC)) < 0) return 0;
    int occupied = 0;
    if (fg_read_record(fd, context) == 0) {
        ask_owner(fd, context);
        occupied = context->live || still_occupied(fd, context);
        if (!occupied) unlinkat(directory, name, 0);
    }
    close(fd);
    return occupied;
}

int fg_read_contexts(struct fg_context *contexts) {
    char path[4096];
    struct own_file own[MAX_OWN];
    DIR *directory = opendir(fg_path(path, sizeof path, "contexts"));
    if (!directory) return 0;
    int count = 0, own_count = list_own_files(own);
    struct dirent *entry;
    while (count < FG_MAX_CONTEXTS && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue; /* being made, not yet visible */
        count += read_context(dirfd(directory), entry->d_name, own, own_count, &contexts[count]);
    }
    closedir(directory);
    return count;
}
