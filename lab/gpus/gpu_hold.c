/* gpu-hold --gpu 0,1 --mib 20000 [--mode normal|delay|leak] [--delay S] [--type C|G|C+G] [--mig N] -- CMD...
 *
 * Takes memory of simulated cards, then becomes CMD (same pid), which holds it until it ends.
 * When it does not fit: PyTorch's out-of-memory text on stderr, exit 1. --gpu has indices, as nvidia-smi numbers
 * the cards here, or uuids; --mig is the number of a MIG device of the card.
 * build: cc -O2 -Wall -Wextra -o gpu-hold gpu_hold.c hold.c device.c watcher.c context.c state.c */
#define _GNU_SOURCE
#include "hold.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request {
    char *cards;
    const char *mode, *kind;
    int instance;
    unsigned long long mib;
    double delay;
};

static int usage(void) {
    fputs("usage: gpu-hold --gpu N[,N...] --mib N [--mode normal|delay|leak] [--delay SECONDS] "
          "[--type C|G|C+G] [--mig N] -- CMD...\n", stderr);
    return 2;
}

static int known_mode(const char *mode) {
    return !strcmp(mode, "normal") || !strcmp(mode, "delay") || !strcmp(mode, "leak");
}

static int known_kind(const char *kind) {
    return !strcmp(kind, "C") || !strcmp(kind, "G") || !strcmp(kind, "C+G");
}

static int parse(int argc, char **argv, struct request *request) {
    static const struct option OPTIONS[] = {{"gpu", 1, 0, 'g'}, {"mib", 1, 0, 'm'}, {"mode", 1, 0, 'o'},
                                            {"delay", 1, 0, 'd'}, {"type", 1, 0, 't'},
                                            {"mig", 1, 0, 'i'},   {0, 0, 0, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "+", OPTIONS, NULL)) != -1) {
        if (option == 'g') request->cards = optarg;
        else if (option == 'm') request->mib = strtoull(optarg, NULL, 10);
        else if (option == 'o' && known_mode(optarg)) request->mode = optarg;
        else if (option == 'd') request->delay = atof(optarg);
        else if (option == 't' && known_kind(optarg)) request->kind = optarg;
        else if (option == 'i') request->instance = atoi(optarg);
        else return 0;
    }
    return request->mib > 0 && optind < argc;
}

/* Index of the card that `word` names, or -1. */
static int find_card(const char *word) {
    char uuid[64];
    if (strncmp(word, "GPU-", 4)) return atoi(word);
    for (int card = 0; fg_uuid(card, uuid) == FG_HOLD_OK; card++)
        if (!strcmp(uuid, word)) return card;
    return -1;
}

static int refuse(int card, unsigned long long mib, int reason) {
    unsigned long long available, total, reserved;
    if (reason == FG_HOLD_NO_CARD || fg_room(card, &available, &total, &reserved)) {
        fprintf(stderr, "RuntimeError: CUDA error: invalid device ordinal (card %d)\n", card);
    } else if (reason == FG_HOLD_NO_ROOM) {
        fprintf(stderr,
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %.2f GiB. GPU %d has a total "
                "capacity of %.2f GiB of which %.2f GiB is free.\n",
                (double)mib / 1024, card, (double)(total - reserved) / 1024, (double)available / 1024);
    } else {
        fprintf(stderr, "RuntimeError: CUDA unknown error: %s\n", strerror(errno));
    }
    return 1;
}

int main(int argc, char **argv) {
    struct request request = {.cards = "0", .mode = "normal", .kind = "C"};
    if (!parse(argc, argv, &request)) return usage();
    char *rest = strdup(request.cards);
    for (char *word; (word = strsep(&rest, ","));) {
        int card = find_card(word);
        int fd = fg_take_as(card, request.mib, request.mode, request.delay, 1, request.instance, request.kind);
        if (fd < 0) return refuse(card, request.mib, fd);
    }
    execvp(argv[optind], argv + optind);
    fprintf(stderr, "gpu-hold: %s: %s\n", argv[optind], strerror(errno));
    return 127;
}
