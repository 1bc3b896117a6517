/* Taking memory: the capacity check, the lock, the device files, the watcher. See hold.h.
 * build: cc -shared -fPIC -O2 -Wall -Wextra -Wl,-soname,libfakegpu.so -o libfakegpu.so \
 *           hold.c device.c watcher.c context.c state.c        (for Python engines: lab/gpus/hold.py) */
#define _GNU_SOURCE
#include "hold.h"
#include "device.h"
#include "state.h"
#include "watcher.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int take_turn(void) {
    char path[4096];
    int fd = open(fg_path(path, sizeof path, "lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    fchmod(fd, 0666); /* another user of the machine may be next, whatever our umask is */
    if (flock(fd, LOCK_EX)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int find_card(int index, struct fg_card *card) {
    struct fg_card cards[FG_MAX_CARDS];
    if (index < 0 || index >= fg_visible_cards(cards)) return FG_HOLD_NO_CARD;
    *card = cards[index];
    return FG_HOLD_OK;
}

static unsigned long long room_on(const struct fg_card *card) {
    struct fg_context contexts[FG_MAX_CONTEXTS];
    return fg_free(card, contexts, fg_read_contexts(contexts));
}

int fg_room(int card, unsigned long long *available, unsigned long long *total, unsigned long long *reserved) {
    struct fg_card found;
    if (find_card(card, &found)) return FG_HOLD_NO_CARD;
    *available = room_on(&found);
    *total = found.total;
    *reserved = found.reserved;
    return FG_HOLD_OK;
}

int fg_count(void) {
    struct fg_card cards[FG_MAX_CARDS];
    int count = fg_visible_cards(cards);
    return count < 0 ? 0 : count;
}

int fg_uuid(int card, char *out) {
    struct fg_card found;
    if (find_card(card, &found)) return FG_HOLD_NO_CARD;
    memcpy(out, found.uuid, sizeof found.uuid);
    return FG_HOLD_OK;
}

/* A context appears under its name only when it is locked and complete. */
static int make_context(const struct fg_context *context, char *final, size_t size, int across_exec) {
    static unsigned serial;
    char folder[4000], draft[4096];
    fg_path(folder, sizeof folder, "contexts");
    mkdir(folder, 0777);
    chmod(folder, 0777);
    unsigned long long now = fg_now_ns();
    snprintf(draft, sizeof draft, "%s/.%d-%llx-%u", folder, (int)getpid(), now, serial);
    snprintf(final, size, "%s/%d-%llx-%u", folder, (int)getpid(), now, serial++);
    int fd = open(draft, O_RDWR | O_CREAT | O_EXCL | (across_exec ? 0 : O_CLOEXEC), 0666);
    if (fd < 0) return -1;
    fchmod(fd, 0666);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &lock) || fg_write_record(fd, context) || rename(draft, final)) {
        unlink(draft);
        close(fd);
        return -1;
    }
    return fd;
}

/* Kept open until the process ends: this is what `ls /proc/PID/fd` must show. */
static void open_devices(int minor, int across_exec) {
    fg_open_device("nvidiactl", across_exec);
    fg_open_device("nvidia-uvm", across_exec);
    fg_open_card(minor, across_exec);
}

int fg_take(int card, unsigned long long mib, const char *mode, double delay, int across_exec) {
    return fg_take_as(card, mib, mode, delay, across_exec, 0, "C");
}

/* What a process could still take: of the card, and of its part of it. */
static unsigned long long room_for(const struct fg_card *card, int instance) {
    struct fg_context contexts[FG_MAX_CONTEXTS];
    int count = fg_read_contexts(contexts);
    unsigned long long free = fg_free(card, contexts, count);
    if (!card->instance_count) return free;
    unsigned long long used = fg_instance_used(card, instance, contexts, count);
    unsigned long long total = card->instances[instance].total;
    unsigned long long left = used < total ? total - used : 0;
    return left < free ? left : free;
}

int fg_take_as(int card, unsigned long long mib, const char *mode, double delay, int across_exec, int instance,
               const char *kind) {
    char path[4300];
    struct fg_card found;
    fg_make_nodes();
    if (find_card(card, &found)) return FG_HOLD_NO_CARD;
    if (instance && instance >= found.instance_count) return FG_HOLD_NO_CARD;
    struct fg_context context = {
        .card = found.slot, .mib = mib, .delay = delay, .thread = gettid(), .instance = instance};
    snprintf(context.kind, sizeof context.kind, "%s", kind);
    context.mode = !strcmp(mode, "delay") ? FG_DELAY : !strcmp(mode, "leak") ? FG_LEAK : FG_NORMAL;
    int turn = take_turn();
    if (turn < 0) return FG_HOLD_FAILED;
    int result = room_for(&found, instance) < mib ? FG_HOLD_NO_ROOM : FG_HOLD_OK;
    if (result == FG_HOLD_OK) {
        result = make_context(&context, path, sizeof path, across_exec);
        if (result < 0) result = FG_HOLD_FAILED;
    }
    close(turn);
    if (result < 0) return result;
    open_devices(found.minor, across_exec);
    if (context.mode == FG_DELAY) fg_watch(path);
    return result;
}

/* By its slot: the card stays ours also when its device file is gone by now. */
static unsigned long long room_in_slot(int slot) {
    struct fg_card cards[FG_MAX_CARDS];
    int count = fg_read_cards(cards);
    for (int i = 0; i < count; i++)
        if (cards[i].slot == slot) return room_on(&cards[i]);
    return 0;
}

int fg_resize(int fd, unsigned long long mib) {
    struct fg_context context;
    int turn = take_turn();
    if (turn < 0) return FG_HOLD_FAILED;
    int result = fg_read_record(fd, &context) ? FG_HOLD_FAILED : FG_HOLD_OK;
    if (result == FG_HOLD_OK && mib > context.mib + room_in_slot(context.card)) result = FG_HOLD_NO_ROOM;
    if (result == FG_HOLD_OK) {
        context.mib = mib;
        result = fg_write_record(fd, &context) ? FG_HOLD_FAILED : FG_HOLD_OK;
    }
    close(turn);
    return result;
}
