/* Leaves of neighbouring extents, so that no more than a leaf, and where one is divided the list of leaves, is moved. */
#include "ascendcl/validate/extents.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The first of some ascending numbers that is greater than one. */
static size_t first_after(const uint64_t *numbers, size_t count, uint64_t number) {
    size_t low = 0, half;
    for (; count > 0; count -= half) {
        half = (count + 1) / 2;
        low = numbers[low + half - 1] <= number ? low + half : low; /* without a branch, which would be guessed wrongly each second time */
    }
    return low;
}

/* Often it is where the last search has been, or the next one or two. */
static bool is_near(const emu_extents *extents, uint64_t address, emu_position *position) {
    if (position->leaf >= extents->count) return false;
    const emu_leaf *leaf = extents->leaves[position->leaf];
    uint64_t before = position->at > 0 && position->at <= leaf->count ? leaf->ends[position->at - 1] : position->leaf > 0 ? extents->ends[position->leaf - 1] : 0;
    if (before > address) return false;
    for (size_t last = position->at + 3; position->at < last && position->at < leaf->count; position->at++) {
        if (leaf->ends[position->at] > address) return true;
    }
    return false;
}

emu_position emu_extents_after(emu_extents *extents, uint64_t address) {
    emu_position near = extents->searched;
    if (is_near(extents, address, &near)) return extents->searched = near;
    size_t leaf = first_after(extents->ends, extents->count, address);
    size_t at = leaf < extents->count ? first_after(extents->leaves[leaf]->ends, extents->leaves[leaf]->count, address) : 0;
    return extents->searched = (emu_position){leaf, at};
}

static void move(emu_leaf *leaf, size_t from, size_t to) {
    memmove(leaf->extents + to, leaf->extents + from, (leaf->count - from) * sizeof *leaf->extents);
    memmove(leaf->ends + to, leaf->ends + from, (leaf->count - from) * sizeof *leaf->ends);
    leaf->count = leaf->count - from + to;
}

/* A leaf before another one, with the first half of its extents. */
static void add_leaf(emu_extents *extents, size_t number) {
    if (extents->count == extents->room) {
        extents->room = extents->room * 2 + 16;
        extents->leaves = realloc(extents->leaves, extents->room * sizeof *extents->leaves);
        extents->ends = realloc(extents->ends, extents->room * sizeof *extents->ends);
    }
    emu_leaf *leaf = malloc(sizeof *leaf);
    if (extents->leaves == NULL || extents->ends == NULL || leaf == NULL) abort();
    leaf->count = 0;
    memmove(extents->leaves + number + 1, extents->leaves + number, (extents->count - number) * sizeof *extents->leaves);
    memmove(extents->ends + number + 1, extents->ends + number, (extents->count - number) * sizeof *extents->ends);
    extents->leaves[number] = leaf;
    extents->count++;
    if (number + 1 == extents->count) return;
    emu_leaf *next = extents->leaves[number + 1];
    leaf->count = next->count / 2;
    memcpy(leaf->extents, next->extents, leaf->count * sizeof *leaf->extents);
    memcpy(leaf->ends, next->ends, leaf->count * sizeof *leaf->ends);
    extents->ends[number] = leaf->ends[leaf->count - 1];
    move(next, leaf->count, 0);
}

emu_position emu_extents_insert(emu_extents *extents, emu_position position, emu_extent *extent) {
    if (position.leaf == extents->count) { /* behind the last one: in its leaf, or in a new one */
        bool fits = position.leaf > 0 && extents->leaves[position.leaf - 1]->count < EMU_LEAF;
        if (fits) position = (emu_position){position.leaf - 1, extents->leaves[position.leaf - 1]->count};
        else add_leaf(extents, position.leaf);
    } else if (extents->leaves[position.leaf]->count == EMU_LEAF) {
        add_leaf(extents, position.leaf);
        size_t half = extents->leaves[position.leaf]->count;
        if (position.at > half) position = (emu_position){position.leaf + 1, position.at - half};
    }
    emu_leaf *leaf = extents->leaves[position.leaf];
    move(leaf, position.at, position.at + 1);
    leaf->extents[position.at] = extent;
    leaf->ends[position.at] = extent->end;
    extents->ends[position.leaf] = leaf->ends[leaf->count - 1];
    return position;
}

emu_position emu_extents_erase(emu_extents *extents, emu_position position, size_t count) {
    while (count > 0) {
        emu_leaf *leaf = extents->leaves[position.leaf];
        size_t here = leaf->count - position.at;
        if (here > count) here = count;
        move(leaf, position.at + here, position.at);
        count -= here;
        if (leaf->count == 0) {
            free(leaf);
            extents->count--;
            memmove(extents->leaves + position.leaf, extents->leaves + position.leaf + 1, (extents->count - position.leaf) * sizeof *extents->leaves);
            memmove(extents->ends + position.leaf, extents->ends + position.leaf + 1, (extents->count - position.leaf) * sizeof *extents->ends);
            continue;
        }
        extents->ends[position.leaf] = leaf->ends[leaf->count - 1];
        if (position.at == leaf->count) position = (emu_position){position.leaf + 1, 0};
    }
    return position;
}
