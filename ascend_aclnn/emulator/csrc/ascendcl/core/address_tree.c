/* A treap: a search tree by address whose shape is random, so that it is never deep. */
#include "ascendcl/core/address_tree.h"

#include <stdlib.h>

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void pull(emu_block *node) {
    uint64_t gap = node->gap;
    if (node->left != NULL) gap = most(gap, node->left->most_gap);
    if (node->right != NULL) gap = most(gap, node->right->most_gap);
    node->most_gap = gap;
}

static emu_block *merge(emu_block *left, emu_block *right) {
    if (left == NULL || right == NULL) return left != NULL ? left : right;
    emu_block *top = left->priority > right->priority ? left : right;
    if (top == left) top->right = merge(left->right, right);
    else top->left = merge(left, right->left);
    pull(top);
    return top;
}

/* Splits a tree into the blocks before an offset and the rest. */
static void split(emu_block *node, uint64_t offset, emu_block **left, emu_block **right) {
    if (node == NULL) {
        *left = *right = NULL;
    } else if (node->start < offset) {
        split(node->right, offset, &node->right, right);
        pull(*left = node);
    } else {
        split(node->left, offset, left, &node->left);
        pull(*right = node);
    }
}

/* Sets the gap behind the block that starts at an offset. */
static void set_gap(emu_block *node, uint64_t start, uint64_t gap) {
    if (node->start == start) node->gap = gap;
    else set_gap(start < node->start ? node->left : node->right, start, gap);
    pull(node);
}

static emu_block *without(emu_block *node, const emu_block *block) {
    if (node == block) return merge(node->left, node->right);
    if (block->start < node->start) node->left = without(node->left, block);
    else node->right = without(node->right, block);
    pull(node);
    return node;
}

/* The last block that starts at or before an offset. */
static emu_block *before(const emu_blocks *blocks, uint64_t offset) {
    emu_block *last = NULL, *node = blocks->root;
    while (node != NULL) {
        if (node->start <= offset) last = node, node = node->right;
        else node = node->left;
    }
    return last;
}

/* The first block with room for `span` bytes in the part of its gap from an offset on. */
static emu_block *with_room(emu_block *node, uint64_t from, uint64_t span) {
    if (node == NULL || node->most_gap < span) return NULL;
    if (node->start >= from) {
        emu_block *left = with_room(node->left, from, span);
        if (left != NULL) return left;
    }
    uint64_t start = node->start + node->span, end = start + node->gap, at = most(start, from);
    if (at < end && end - at >= span) return node;
    return with_room(node->right, from, span);
}

static emu_block *new_block(emu_blocks *blocks, uint64_t start, uint64_t size, uint64_t span, uint64_t gap) {
    emu_block *block = calloc(1, sizeof *block);
    if (block == NULL) return NULL;
    blocks->random ^= blocks->random << 13;
    blocks->random ^= blocks->random >> 17;
    blocks->random ^= blocks->random << 5;
    *block = (emu_block){.start = start, .size = size, .span = span, .priority = blocks->random, .gap = gap, .most_gap = gap};
    return block;
}

bool emu_blocks_open(emu_blocks *blocks, uint64_t first, uint64_t end) {
    *blocks = (emu_blocks){.random = 0x9e3779b9u};
    blocks->root = new_block(blocks, 0, 0, first, end - first);
    return blocks->root != NULL;
}

static void free_tree(emu_block *node) {
    if (node == NULL) return;
    free_tree(node->left);
    free_tree(node->right);
    free(node->mapped);
    free(node);
}

void emu_blocks_close(emu_blocks *blocks) {
    free_tree(blocks->root);
    *blocks = (emu_blocks){0};
}

emu_block *emu_blocks_reserve(emu_blocks *blocks, uint64_t from, uint64_t size, uint64_t span) {
    emu_block *previous = with_room(blocks->root, from, span);
    if (previous == NULL) previous = with_room(blocks->root, from = 0, span);
    if (previous == NULL) return NULL;
    uint64_t gap_start = previous->start + previous->span, gap_end = gap_start + previous->gap;
    uint64_t start = most(gap_start, from);
    emu_block *block = new_block(blocks, start, size, span, gap_end - start - span), *left, *right;
    if (block == NULL) return NULL;
    set_gap(blocks->root, previous->start, start - gap_start);
    split(blocks->root, start, &left, &right);
    blocks->root = merge(merge(left, block), right);
    blocks->count++;
    return block;
}

void emu_blocks_release(emu_blocks *blocks, emu_block *block) {
    emu_block *previous = before(blocks, block->start - 1);
    uint64_t gap = previous->gap + block->span + block->gap;
    blocks->root = without(blocks->root, block);
    set_gap(blocks->root, previous->start, gap);
    blocks->count--;
    free(block->mapped);
    free(block);
}

emu_block *emu_blocks_at(const emu_blocks *blocks, uint64_t offset) {
    emu_block *block = before(blocks, offset);
    return block != NULL && block->start != 0 && offset - block->start < block->span ? block : NULL;
}

bool emu_blocks_gap(const emu_blocks *blocks, uint64_t offset, uint64_t *start, uint64_t *end) {
    const emu_block *block = before(blocks, offset);
    if (block == NULL || offset - block->start < block->span) return false;
    *start = block->start + block->span;
    *end = *start + block->gap;
    return offset < *end;
}

static void each(const emu_block *node, void (*call)(const emu_block *block, void *argument), void *argument) {
    if (node == NULL) return;
    each(node->left, call, argument);
    if (node->start != 0) call(node, argument);
    each(node->right, call, argument);
}

void emu_blocks_each(const emu_blocks *blocks, void (*call)(const emu_block *block, void *argument), void *argument) {
    each(blocks->root, call, argument);
}
