/* The blocks of a range of addresses, in order, and the free space behind each; every operation takes logarithmic time. */
#ifndef EMU_ADDRESS_TREE_H
#define EMU_ADDRESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct emu_block emu_block;

struct emu_block {
    uint64_t start; /* offset from the range's base */
    uint64_t size;  /* as requested */
    uint64_t span;  /* as reserved */
    uint64_t lead;  /* bytes at its start that must not be used */
    bool foreign;   /* other memory is mapped at its addresses (aliases.c) */
    bool hidden;    /* not counted as an allocation */
    uint32_t pins;  /* uses by queued work */
    uint8_t *mapped; /* of reserved addresses: a flag for each granule that has memory; otherwise NULL */
    /* of the tree */
    uint32_t priority;
    uint64_t gap;      /* free bytes behind it, up to the next block */
    uint64_t most_gap; /* the largest one in its subtree */
    emu_block *left, *right;
};

typedef struct {
    emu_block *root; /* the first block belongs to the map itself: the offsets it covers are never handed out */
    size_t count;    /* not counting the map's own */
    uint32_t random;
} emu_blocks;

/* A map of `end` bytes. Offsets before `first` are never handed out. False without memory for it. */
bool emu_blocks_open(emu_blocks *blocks, uint64_t first, uint64_t end);
/* Frees all blocks; the map must be opened before it is used again. */
void emu_blocks_close(emu_blocks *blocks);
/* A new block of `span` bytes in the first gap after an offset, else in the first gap of all; NULL when there is none. */
emu_block *emu_blocks_reserve(emu_blocks *blocks, uint64_t from, uint64_t size, uint64_t span);
/* Takes a block out and frees it. */
void emu_blocks_release(emu_blocks *blocks, emu_block *block);
/* The block that an offset lies in; NULL when it is free. */
emu_block *emu_blocks_at(const emu_blocks *blocks, uint64_t offset);
/* The gap that an offset lies in; false when it lies in a block. */
bool emu_blocks_gap(const emu_blocks *blocks, uint64_t offset, uint64_t *start, uint64_t *end);
/* Calls a function for each block, in order. */
void emu_blocks_each(const emu_blocks *blocks, void (*call)(const emu_block *block, void *argument), void *argument);

#endif
